/** How far the listed URLs came in an engine, by section: estimates from a sample that a task inspected. */

import { Table, Text } from "@chakra-ui/react";

import { useGet } from "../api";
import { count, counted, visible } from "../format";
import type { Estimate, IndexStatusAnswer, SectionStatus } from "../types";
import { Note, When, settled } from "./basics";
import { Sparkline } from "./charts";
import { Number as Figure, Wide } from "./report";

const REASONS = 3;

export type Engine = "google" | "bing";
export const ENGINES: Record<Engine, string> = { bing: "Bing", google: "Google" };

const whole = (share: number) => `${Math.round(share * 100)} %`;

const Estimated = ({ of }: { of: Estimate }) => (
  <>
    <Text whiteSpace="nowrap">≈ {whole(of.share)}</Text>
    <Note fontSize="xs" whiteSpace="nowrap">
      {whole(of.low)} to {whole(of.high)}
    </Note>
  </>
);

/** A median of days. Without one, more than half of the URLs were not crawled since. */
const Days = ({ days, of }: { days: number | null; of: number }) => {
  if (!of) return <>–</>;
  return (
    <>
      <Text whiteSpace="nowrap">{days === null ? "Not yet" : `≤ ${counted(days + 1, "day")}`}</Text>
      <Note fontSize="xs" whiteSpace="nowrap">
        of {counted(of, "URL")}
      </Note>
    </>
  );
};

type Stage = "discovered" | "crawled" | "indexed";
const NAMES: Record<Stage, string> = { discovered: "Discovered", crawled: "Crawled", indexed: "Indexed" };

const Section = ({ row, history, stages }: { row: SectionStatus; history: (number | null)[]; stages: Stage[] }) => {
  const reasons = Object.entries(row.reasons).slice(0, REASONS);
  const known = history.filter((share) => share !== null).map((share) => Math.round(share * 100));
  return (
    <Table.Row verticalAlign="top" data-testid="index-status">
      <Table.Cell minW="10em">
        <Text fontWeight="medium" overflowWrap="anywhere">
          {visible(row.section)}
        </Text>
        <Note fontSize="xs">
          {counted(row.urls, "URL")}, {counted(row.inspected, "inspection")}
          {row.failed > 0 && `, ${count(row.failed)} without a result`}
        </Note>
      </Table.Cell>
      {stages.map((stage, place) => (
        <Figure key={stage}>
          {row[stage] ? <Estimated of={row[stage]} /> : "–"}
          {place === stages.length - 1 && known.length > 1 && <Sparkline values={known} label={`Percent ${stage} on the last ${counted(known.length, "day")}: ${known.join(", ")}`} />}
        </Figure>
      ))}
      <Table.Cell minW="14em">
        {reasons.map(([reason, number]) => (
          <Text key={reason} fontSize="xs" overflowWrap="anywhere">
            {count(number)} {visible(reason)}
          </Text>
        ))}
        {row.other_canonical > 0 && (
          <Text fontSize="xs">
            {count(row.other_canonical)} with another canonical address in Google
          </Text>
        )}
      </Table.Cell>
      <Figure>
        <Days days={row.first_crawl_days} of={row.first_crawl_of} />
      </Figure>
      <Figure>
        <Days days={row.recrawl_days} of={row.recrawl_of} />
      </Figure>
    </Table.Row>
  );
};

export const IndexStatusTable = ({ asset, stamp, engine }: { asset: string; stamp: string; engine: Engine }) => {
  const { data, instead } = settled(useGet<IndexStatusAnswer>("sitemap/index-status", { asset, engine, stamp }), "index status", "Index status is not shown.");
  if (instead) return instead;
  if (!data.sections.length) return null;
  const stages = data.stages as Stage[];
  return (
    <>
      <Text fontWeight="semibold" mt={4} mb={1}>
        Estimated index status in {ENGINES[engine]}
      </Text>
      <Wide
        label={`Index status in ${ENGINES[engine]}`}
        below="40rem"
        names={[
          ["Section", "start"],
          ...stages.map((stage): [string, "end"] => [NAMES[stage], "end"]),
          [`What ${ENGINES[engine]} said`, "start"],
          ["First crawl", "end"],
          ["Recrawl", "end"],
        ]}
      >
        {data.sections.map((row) => (
          <Section key={row.section} row={row} history={data.history[row.section] ?? []} stages={stages} />
        ))}
      </Wide>
      <Note mt={2}>
        The shares are estimates from a random sample of the last 7 days, with their 95 % intervals; the reasons are numbers of inspections. First crawl is the median time from the first listing, and recrawl the one from the lastmod, to the last crawl, so the
        true times are these or shorter. {data.properties.map(visible).join(", ")}; last inspection <When at={data.at} />.{data.left_out > 0 && ` ${counted(data.left_out, "further section")} not shown.`}
      </Note>
    </>
  );
};
