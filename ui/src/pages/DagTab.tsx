/** The tab of a DAG: its sitemap, or a choice where it publishes several. */

import { Button, HStack, Text } from "@chakra-ui/react";
import { useState } from "react";

import { useGet } from "../api";
import { visible } from "../format";
import { Failure, HealthBadge, Note, Page, Waiting } from "../parts/basics";
import type { SitemapLine } from "../types";
import { nameOf } from "./Overview";
import { SitemapView } from "./SitemapView";

export const DagTab = ({ dagId }: { dagId: string }) => {
  const { data, error, reload } = useGet<{ sitemaps: SitemapLine[]; unpublished: string[] }>(
    `dags/${encodeURIComponent(dagId)}/sitemaps`,
    {},
    (latest) => (latest?.sitemaps.length ? undefined : 5_000),
  );
  const [chosen, setChosen] = useState<string>();
  const asset = chosen ?? data?.sitemaps[0]?.asset;
  return (
    <Page>
      {error && <Failure error={error} retry={reload} />}
      {!data && !error && <Waiting what="the DAG’s sitemaps" />}
      {data && data.sitemaps.length > 1 && (
        <HStack role="group" aria-label="Sitemaps of this DAG" wrap="wrap">
          {data.sitemaps.map((line) => (
            <Button key={line.asset} size="sm" variant={line.asset === asset ? "solid" : "outline"} aria-pressed={line.asset === asset} onClick={() => setChosen(line.asset)}>
              {visible(nameOf(line))} <HealthBadge health={line.health} />
            </Button>
          ))}
        </HStack>
      )}
      {data?.unpublished.map((uri) => (
        <Text key={uri}>{visible(uri)}: no run has published this sitemap yet. Trigger the DAG; it appears here afterwards.</Text>
      ))}
      {data && !data.sitemaps.length && !data.unpublished.length && <Note>This DAG neither publishes nor verifies a sitemap.</Note>}
      {asset && <SitemapView key={asset} asset={asset} />}
    </Page>
  );
};
