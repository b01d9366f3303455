/** From the sitemap to Google's index: how many of the listed URLs of each section reached each stage. */

import { Box, Button, Grid, Text } from "@chakra-ui/react";
import { useState } from "react";

import { useGet } from "../api";
import { count, counted, percent, visible } from "../format";
import { type FunnelAnswer, type FunnelStage, isUnavailable, type SectionFunnel } from "../types";
import { Age, Failure, Note, Waiting } from "./basics";

const SHOWN = 5;

const STAGES: Record<FunnelStage["stage"], { name: string; by: string }> = {
  listed: { by: "", name: "Listed" },
  fetched: { by: "SitemapFetchesOperator", name: "Fetched" },
  discovered: { by: "SearchConsoleSubmitOperator", name: "Discovered" },
  crawled: { by: "SearchConsoleInspectOperator", name: "Crawled" },
  indexed: { by: "SearchConsoleInspectOperator", name: "Indexed" },
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
      {STAGES[of.stage].name}
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

const Section = ({ row }: { row: SectionFunnel }) => {
  const listed = row.stages[0]?.urls ?? 0;
  const name = row.section ? visible(row.section) : "All sections";
  return (
    <Box as="section" aria-label={`Funnel: ${name}`} data-testid="funnel" gridColumn={row.section ? undefined : "1 / -1"}>
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
const Legend = ({ rows }: { rows: SectionFunnel[] }) => {
  const observed = new Set(rows.flatMap(({ stages }) => stages.map(({ stage }) => stage)));
  const missing = Object.entries(STAGES).filter(([stage]) => !observed.has(stage as FunnelStage["stage"]));
  return (
    <Text color="fg.muted" fontSize="sm" mt={2}>
      ≈ is an estimate from a random sample of the last 7 days, and the lighter bar its 95 % interval; the other numbers are counts. Fetched: Googlebot fetched the URL&apos;s file. Discovered: Search Console counts it. Crawled and indexed: Google&apos;s URL
      inspection says so.{missing.length > 0 && ` Not observed: ${missing.map(([, { name, by }]) => `${name.toLowerCase()} (${by})`).join(", ")}.`}
    </Text>
  );
};

export const FunnelChart = ({ asset, stamp }: { asset: string; stamp: string }) => {
  const [open, setOpen] = useState(false);
  const { data, error, reload } = useGet<FunnelAnswer>("sitemap/funnel", { asset, stamp });
  if (error) return <Failure error={error} retry={reload} />;
  if (!data) return <Waiting what="the funnel" />;
  if (isUnavailable(data)) return <Note>The way from listed to indexed is not shown. {visible(data.unavailable)}</Note>;
  const shown = open ? data.sections : data.sections.slice(0, SHOWN);
  return (
    <Box mb={4}>
      <Text fontWeight="semibold" mb={1}>
        From listed to indexed in Google
      </Text>
      <Grid templateColumns="repeat(auto-fill, minmax(min(100%, 20rem), 1fr))" gap={4}>
        {shown.map((row) => (
          <Section key={row.section} row={row} />
        ))}
      </Grid>
      {shown.length < data.sections.length && (
        <Button size="xs" variant="outline" mt={2} onClick={() => setOpen(true)}>
          Show all {counted(data.sections.length - 1, "section")}
        </Button>
      )}
      <Legend rows={data.sections} />
      {data.left_out > 0 && <Note>{counted(data.left_out, "further section")} not shown.</Note>}
    </Box>
  );
};
