import { useSearchParams } from "react-router-dom";

import { Page } from "../parts/basics";
import { SitemapList } from "./SitemapList";
import { SitemapView } from "./SitemapView";

/** The page in the navigation: every sitemap, or the one that the address names. */
export const NavPage = () => {
  const [params] = useSearchParams();
  const asset = params.get("asset");
  if (!asset) return <SitemapList />;
  return (
    <Page key={asset}>
      <SitemapView asset={asset} trail />
    </Page>
  );
};
