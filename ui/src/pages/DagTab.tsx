/** The tab of a DAG: its sitemap, or a choice where it has several. */

import { HStack } from "@chakra-ui/react";
import { useRef } from "react";

import { useGet } from "../api";
import { visible } from "../format";
import { Failure, Note, Option, Page, VerdictBadge, Waiting } from "../parts/basics";
import { useSearch } from "../search";
import type { DagSitemaps } from "../types";
import { nameOf } from "./SitemapList";
import { SitemapView } from "./SitemapView";

export const DagTab = ({ dagId }: { dagId: string }) => {
  const { data, error, asOf, reload } = useGet<DagSitemaps>(`dags/${encodeURIComponent(dagId)}/sitemaps`, {}, () => 20_000);
  const search = useSearch();
  const shown = useRef<string>(undefined);
  // Their order follows their states: what is shown must not change under the reader's hand.
  const asset = [search.value("asset"), shown.current, data?.sitemaps[0]?.asset].find((wanted) => data?.sitemaps.some((line) => line.asset === wanted));
  shown.current = asset;
  return (
    <Page>
      {error && <Failure error={error} retry={reload} asOf={asOf} />}
      {!data && !error && <Waiting what="the DAG’s sitemaps" />}
      {data && data.sitemaps.length > 1 && (
        <HStack role="group" aria-label="Sitemaps of this DAG" wrap="wrap">
          {data.sitemaps.map((line) => (
            <Option key={line.asset} size="sm" chosen={line.asset === asset} onClick={() => search.change({ asset: line.asset, compare: "", plan: "", shard: "" })}>
              {visible(nameOf(line))} <VerdictBadge state={line.state} reason={line.reason} />
            </Option>
          ))}
        </HStack>
      )}
      {data && !data.sitemaps.length && <Note>This DAG neither publishes nor verifies a sitemap.</Note>}
      {asset && <SitemapView key={asset} asset={asset} />}
    </Page>
  );
};
