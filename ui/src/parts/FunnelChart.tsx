/** From the sitemap to an engine's index: how many of the listed URLs of each section reached each stage. */

import { Box, Grid, Text } from "@chakra-ui/react";
import { useState } from "react";

import { useGet } from "../api";
import { count, counted, percent, visible } from "../format";
import type { FunnelAnswer, FunnelStage, SectionFunnel } from "../types";
import { Age, More, Note, settled } from "./basics";
import { type Engine, ENGINES } from "./IndexStatusTable";

const SHOWN = 5;

type Stages = Partial<Record<FunnelStage["stage"], string>>;

const NAMES: Record<FunnelStage["stage"], string> = { crawled: "Crawled", discovered: "Discovered", fetched: "Fetched", indexed: "Indexed", listed: "Listed" };

/** The stages that an engine tells, each with the task that observes it, and what the last ones mean. */
const STAGES: Record<Engine, { by: Stages; text: string }> = {
  google: {
    by: { fetched: "SitemapFetchesOperator", discovered: "SearchConsoleSubmitOperator", crawled: "SearchConsoleInspectOperator", indexed: "SearchConsoleInspectOperator" },
    text: "Fetched: Googlebot fetched the URL's file. Discovered: Search Console counts it. Crawled and indexed: Google's URL inspection says so.",
  },
  bing: {
    by: { fetched: "SitemapFetchesOperator", discovered: "BingWebmasterOperator", crawled: "BingWebmasterOperator" },
    text: "Fetched: Bingbot fetched the URL's file. Discovered and crawled: Bing's URL information says so. Bing does not say which URLs it has indexed.",
  },
};

const widthOf = (urls: number, listed: number) => `${listed ? Math.min(100, (urls / listed) * 100) : 0}%`;

/** A bar of the share. Of an estimate, the interval is lighter. */
const Bar = ({ of, listed }: { of: FunnelStage; listed: number }) => (
  <Box position="relative" height="0.9em" bg="bg.muted" borderRadius="sm" overflow="hidden" colorPalette="blue" aria-hidden>
    {of.high !== null && <Box position="absolute" insetY={0} left={0} bg="colorPalette.muted" width={widthOf(of.high, listed)} />}
    <Box position="absolute" insetY={0} left={0} bg="colorPalette.solid" width={widthOf(of.low ?? of.urls, listed)} />
    {of.low !== null && <Box position="absolute" insetY={0} width="2px" bg="fg" left={`calc(${widthOf(of.urls, listed)} - 1px)`} />}
  </Box>
);

const Stage = ({ of, listed }: { of: FunnelStage; listed: number }) => (
  <>
    <Text as="dt" fontSize="sm">
      {NAMES[of.stage]}
    </Text>
    <Box as="dd" minW={0}>
      <Bar of={of} listed={listed} />
      <Text fontSize="xs" fontVariantNumeric="tabular-nums">
        {of.low === null || of.high === null ? (
          <>
            {count(of.urls)}
            {of.stage !== "listed" && ` (${percent(of.urls, listed)})`}
          </>
        ) : (
          `≈ ${count(of.urls)} (${percent(of.low, listed)} to ${percent(of.high, listed)})`
        )}
        {of.at && (
          <Text as="span" color="fg.muted">
            {" · "}
            <Box as="span" display="inline-block">
              <Age at={of.at} />
            </Box>
          </Text>
        )}
      </Text>
    </Box>
  </>
);

const Section = ({ row, engine }: { row: SectionFunnel; engine: Engine }) => {
  const listed = row.stages[0]?.urls ?? 0;
  const name = row.section ? visible(row.section) : "All sections";
  return (
    <Box as="section" aria-label={`Funnel${engine === "google" ? "" : ` in ${ENGINES[engine]}`}: ${name}`} data-testid={engine === "google" ? "funnel" : `funnel-${engine}`} gridColumn={row.section ? undefined : "1 / -1"}>
      <Text fontWeight="medium" overflowWrap="anywhere">
        {name}
      </Text>
      <Grid as="dl" templateColumns="6em 1fr" columnGap={2} rowGap={1} alignItems="start">
        {row.stages.map((stage) => (
          <Stage key={stage.stage} of={stage} listed={listed} />
        ))}
      </Grid>
    </Box>
  );
};

/** What each stage means, and which task observes those that are not shown. */
const Legend = ({ rows, engine }: { rows: SectionFunnel[]; engine: Engine }) => {
  const observed = new Set(rows.flatMap(({ stages }) => stages.map(({ stage }) => stage)));
  const missing = Object.entries(STAGES[engine].by).filter(([stage]) => !observed.has(stage as FunnelStage["stage"]));
  return (
    <Note mt={2}>
      ≈ is an estimate from a random sample of the last 7 days, and the lighter bar its 95 % interval; the other numbers are counts. {STAGES[engine].text}
      {missing.length > 0 && ` Not observed: ${missing.map(([stage, by]) => `${stage} (${by})`).join(", ")}.`}
    </Note>
  );
};

export const FunnelChart = ({ asset, stamp, engine }: { asset: string; stamp: string; engine: Engine }) => {
  const [open, setOpen] = useState(false);
  const { data, instead } = settled(useGet<FunnelAnswer>("sitemap/funnel", { asset, engine, stamp }), "the funnel", "The way from listed to indexed is not shown.");
  if (instead) return instead;
  const shown = open ? data.sections : data.sections.slice(0, SHOWN);
  return (
    <Box mb={4}>
      <Text fontWeight="semibold" mb={1}>
        From listed to {"indexed" in STAGES[engine].by ? "indexed" : "crawled"} in {ENGINES[engine]}
      </Text>
      <Grid templateColumns="repeat(auto-fill, minmax(min(100%, 20rem), 1fr))" gap={4}>
        {shown.map((row) => (
          <Section key={row.section} row={row} engine={engine} />
        ))}
      </Grid>
      {shown.length < data.sections.length && (
        <More onClick={() => setOpen(true)}>Show all {counted(data.sections.length - 1, "section")}</More>
      )}
      <Legend rows={data.sections} engine={engine} />
      {data.left_out > 0 && <Note>{counted(data.left_out, "further section")} not shown.</Note>}
    </Box>
  );
};
