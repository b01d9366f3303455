import { useSearchParams } from "react-router-dom";

import { Overview } from "./Overview";
import { SitemapView } from "./SitemapView";
import { Page } from "../parts/basics";

/** The page in the navigation: every sitemap, or the one that the address names. */
export const NavPage = () => {
  const [params] = useSearchParams();
  const asset = params.get("asset");
  return <Page>{asset ? <SitemapView key={asset} asset={asset} withBack /> : <Overview />}</Page>;
};
