/** What a run did, as numbers and tables: on a sitemap's page and on a run's tab. */

import { Box, Code, Flex, Grid, Progress, Stat, type SystemStyleObject, Table, Text } from "@chakra-ui/react";
import type { ReactNode } from "react";

import { bytes, count, counted, duration, percent, sentence, sum, visible } from "../format";
import { logOf, runTabOf } from "../routes";
import type { Counts, Gauge, Issue, PlanNumbers, SectionReport, ShardCounts, VerificationRun } from "../types";
import { Age, Inner, Note, State, When, useFirst } from "./basics";
import { Sparkline } from "./charts";

/** Characters of a value above which it is shown smaller, so that a number of ten digits stays in one line. */
const LONG = 11;

export const Tile = ({ name, value, help }: { name: string; value: ReactNode; help?: ReactNode }) => (
  <Stat.Root borderWidth="1px" borderColor="border" borderRadius="md" bg="bg" p={3} minW={0}>
    <Stat.Label>{name}</Stat.Label>
    <Stat.ValueText fontSize={typeof value === "string" && value.length > LONG ? "md" : "xl"} wordBreak="break-word">
      {value}
    </Stat.ValueText>
    <Stat.HelpText asChild>
      <dd>{help ?? " "}</dd>
    </Stat.HelpText>
  </Stat.Root>
);

export const Tiles = ({ children }: { children: ReactNode }) => (
  <Grid templateColumns="repeat(auto-fit, minmax(min(100%, 8rem), 1fr))" gap={3}>
    {children}
  </Grid>
);

export interface Fact {
  name: string;
  value: ReactNode;
  help: string;
  /** Whether the help needs a look. */
  warns?: boolean;
}

/** A few facts side by side; in a narrow window one below the other, a line each. */
export const Facts = ({ facts }: { facts: Fact[] }) => (
  <Box containerType="inline-size" borderWidth="1px" borderColor="border" borderRadius="md" bg="bg" px={{ base: 3, md: 4 }} py={2}>
    <Grid as="dl" templateColumns={`repeat(${facts.length}, minmax(0, 1fr))`} gap={4} css={{ "@container (max-width: 44rem)": FACT_LINES }}>
      {facts.map(({ name, value, help, warns }) => (
        <Box key={name} minW={0}>
          <Text as="dt" color="fg.muted" fontSize="sm">
            {name}
          </Text>
          <Text as="dd" fontWeight="semibold" fontSize="lg" data-value>
            {value}
          </Text>
          <Text as="dd" color={warns ? "fg.warning" : "fg.muted"} fontSize="xs" overflowWrap="anywhere">
            {help}
          </Text>
        </Box>
      ))}
    </Grid>
  </Box>
);

const FACT_LINES = {
  gap: 1,
  gridTemplateColumns: "minmax(0, 1fr)",
  "& > div": { alignItems: "baseline", columnGap: "0.5rem", display: "flex", flexWrap: "wrap" },
  "& dt": { flex: "0 0 7.5rem" },
  "& [data-value]": { flex: "none", fontSize: "sm" },
} as const;

const CHANGES = ["rewritten", "created", "removed", "repaired"] as const;

export const shardChanges = (shards: Partial<ShardCounts>): string => {
  const parts = CHANGES.filter((name) => shards[name]).map((name) => `${count(shards[name] ?? 0)} ${name}`);
  return parts.length ? parts.join(", ") : "None changed";
};

export type Names = [string, "start" | "end"][];

/** Only screen readers have it. */
export const UNSEEN = { clipPath: "inset(50%)", height: "1px", overflow: "hidden", position: "absolute", width: "1px" } as const;

/** On a narrow window each row becomes a card: a line a cell, with its column's name before it. */
const cards = (names: Names) => ({
  "& table, & tbody, & tr": { display: "block", width: "100%" },
  "& thead": UNSEEN,
  "& tr": { borderBottomWidth: "1px", borderColor: "border", py: 2 },
  "& tr:last-of-type": { borderBottomWidth: 0 },
  "& td": {
    alignItems: "start",
    border: "none",
    display: "grid",
    gap: "0 0.75rem",
    gridTemplateColumns: "6.5rem minmax(0, 1fr)",
    maxWidth: "none",
    minWidth: 0,
    overflowWrap: "anywhere",
    p: "2px 0.5rem",
    textAlign: "start",
    whiteSpace: "normal",
  },
  "& td button": { height: "auto", py: 1, whiteSpace: "normal" },
  "& td:empty": { display: "none" },
  "& td > *": { gridColumn: 2, justifySelf: "start" },
  "& td::before": { color: "fg.muted" },
  ...Object.fromEntries(names.map(([name], index) => [`& td:nth-of-type(${index + 1})::before`, { content: JSON.stringify(name) }])),
});

/** How a column is sorted, and what sorts by it; undefined for columns that cannot be sorted by. */
export type Sorting = (name: string) => { active: "ascending" | "descending" | undefined; onSort: () => void } | undefined;

interface WideProps {
  children: ReactNode;
  label: string;
  names: Names;
  below?: string;
  /** Styles of the table where it has no room, instead of those of cards. */
  narrow?: SystemStyleObject;
  sorting?: Sorting;
}

/** A table that becomes cards where it has no room, and scrolls inside its own box where even that is too wide. */
export const Wide = ({ children, label, names, below = "34rem", narrow = cards(names), sorting }: WideProps) => (
  <Box containerType="inline-size" overflowX="auto" tabIndex={0} role="region" aria-label={`Table: ${label}`}>
    <Box css={{ [`@container (max-width: ${below})`]: narrow }}>
      <Table.Root size="sm" variant="line">
        <Heads names={names} sorting={sorting} />
        <Table.Body>{children}</Table.Body>
      </Table.Root>
    </Box>
  </Box>
);

export const Number = ({ children }: { children: ReactNode }) => (
  <Table.Cell textAlign="end" whiteSpace="nowrap" fontVariantNumeric="tabular-nums">
    {children}
  </Table.Cell>
);

const Heads = ({ names, sorting }: { names: Names; sorting?: Sorting }) => (
  <Table.Header>
    <Table.Row>
      {names.map(([name, side]) => {
        const sort = sorting?.(name);
        return (
          <Table.ColumnHeader key={name} textAlign={side} aria-sort={sort?.active}>
            {sort ? (
              <Box as="button" onClick={sort.onSort} cursor="pointer" fontWeight="inherit">
                {name}
                {sort.active === "ascending" ? " ▲" : sort.active === "descending" ? " ▼" : ""}
              </Box>
            ) : (
              name
            )}
          </Table.ColumnHeader>
        );
      })}
    </Table.Row>
  </Table.Header>
);

/** Names of what a sitemap's entries hold besides their URL. */
const EXTENSIONS: Record<string, string> = { alternates: "Alternates", images: "Images", news: "News articles", videos: "Videos" };

/** What a section holds besides URLs, and its rows that are past their age, which is no fault. */
const holds = ({ extensions, rows_expired }: SectionReport): string =>
  [
    ...Object.entries(extensions).map(([kind, number]) => `${count(number)} ${(EXTENSIONS[kind] ?? visible(kind)).toLowerCase()}`),
    ...(sum(rows_expired) ? [`${counted(sum(rows_expired), "row")} expired`] : []),
  ].join(", ");

/** How many URLs changed on each of the last seven days, as far as a ledger counts them; the newest day is that of a time. */
const changedADay = (changed: Counts, until: string): number[] => {
  const newest = Date.parse(until.slice(0, 10));
  return [6, 5, 4, 3, 2, 1, 0].map((days) => changed[new Date(newest - days * 86_400_000).toISOString().slice(0, 10)] ?? 0);
};

const Changed = ({ name, section, until }: { name: string; section: SectionReport; until: string }) => {
  if (!Object.keys(section.urls_changed).length) return <Table.Cell />;
  const days = changedADay(section.urls_changed, until);
  return (
    <Table.Cell whiteSpace="nowrap">
      {count(sum(section.urls_changed))}
      <Sparkline values={days} label={`URLs of ${visible(name)} that changed on each of the last 7 days: ${days.map(count).join(", ")}`} />
    </Table.Cell>
  );
};

const hasLedger = (sections: Record<string, SectionReport>): boolean => Object.values(sections).some(({ urls_changed }) => Object.keys(urls_changed).length > 0);

const FAULTS = [
  ["date_only", "date_only_samples", "dates that moved, {} moved though no column of the page changed"],
  ["page_only", "page_only_samples", "pages that changed, {} kept their date"],
] as const;

/** How far the dates of a section can be trusted, with sample URLs; nothing where no fault was seen. */
export const Trust = ({ name, trust }: { name: string; trust: SectionReport["lastmod_trust"] }) => (
  <>
    {FAULTS.filter(([kind]) => trust?.[kind]).map(([kind, samples, text]) => (
      <Box as="details" key={kind} fontSize="sm" mt={2} data-testid="trust">
        <Box as="summary" cursor="pointer" overflowWrap="anywhere">
          {visible(name)}: in the last 7 days, of {count((trust?.both ?? 0) + (trust?.[kind] ?? 0))}{" "}
          {text.replace("{}", `${count(trust?.[kind] ?? 0)} (${percent(trust?.[kind] ?? 0, (trust?.both ?? 0) + (trust?.[kind] ?? 0))})`)}
        </Box>
        {trust?.[samples].map((url) => (
          <Text key={url} fontFamily="mono" fontSize="xs" overflowWrap="anywhere">
            {visible(url)}
          </Text>
        ))}
      </Box>
    ))}
  </>
);

export const Sections = ({ sections, until, act }: { sections: Record<string, SectionReport>; until: string; act?: (name: string) => ReactNode }) => {
  const [shown, more] = useFirst(Object.entries(sections));
  return (
    <>
      <Wide
        label="Sections"
        below="48rem"
        names={[
          ["Section", "start"],
          ["URLs", "end"],
          ["Shards", "end"],
          ["Changed in last run", "start"],
          ["Rows read", "end"],
          ["Size", "end"],
          ["Rows dropped", "end"],
          ["Newest lastmod", "start"],
          ...(hasLedger(sections) ? ([["URLs changed in 7 days", "start"]] as Names) : []),
          ...(act ? ([["Action", "end"]] as Names) : []),
        ]}
      >
        {shown.map(([name, section]) => (
          <Table.Row key={name}>
            <Table.Cell fontWeight="medium" wordBreak="break-word" minW="6em">
              {visible(name)}
              <Note fontSize="xs" fontWeight="normal">
                {holds(section)}
              </Note>
            </Table.Cell>
            <Number>{count(section.urls)}</Number>
            <Number>{count(section.shards.total)}</Number>
            <Table.Cell minW="9em">
              {shardChanges(section.shards)}
              {Object.keys(section.reasons).length > 0 && (
                <Note fontSize="xs">
                  {sentence(listed(section.reasons))}
                </Note>
              )}
            </Table.Cell>
            <Number>{count(section.rows_read)}</Number>
            <Number>{bytes(section.file_bytes)}</Number>
            <Number>
              {count(sum(section.rows_dropped))} ({percent(sum(section.rows_dropped), section.rows)})
            </Number>
            <Table.Cell>
              <When at={section.newest_lastmod} />
            </Table.Cell>
            {hasLedger(sections) && <Changed name={name} section={section} until={until} />}
            {act && <Table.Cell textAlign="end">{act(name)}</Table.Cell>}
          </Table.Row>
        ))}
      </Wide>
      {more}
    </>
  );
};

/** Rows that broke a rule, and what happened to them. */
export const Issues = ({ issues }: { issues: Issue[] }) => {
  if (!issues.length) return <Note>Every row follows every rule.</Note>;
  return (
    <Wide
      label="Validation issues"
      names={[
        ["Rule", "start"],
        ["Section", "start"],
        ["Rows", "end"],
        ["Result", "start"],
        ["Samples", "start"],
      ]}
    >
      {[...issues].sort((one, other) => other.rows - one.rows).map(({ section, rule, text, rows, result, samples }) => (
        <Table.Row key={`${section} ${rule}`} verticalAlign="top">
          <Table.Cell minW="11em">
            <Code>{visible(rule)}</Code>
            <Note fontSize="xs">
              {sentence(visible(text))}
            </Note>
          </Table.Cell>
          <Table.Cell>{visible(section)}</Table.Cell>
          <Number>{count(rows)}</Number>
          <Table.Cell whiteSpace="nowrap">{result}</Table.Cell>
          <Table.Cell minW="16em">
            {[...new Set(samples)].map((sample) => (
              <Text key={sample} fontFamily="mono" fontSize="xs" overflowWrap="anywhere" data-testid="sample">
                {visible(sample)}
              </Text>
            ))}
            {!samples.length && <Text color="fg.muted">The task’s log has samples.</Text>}
          </Table.Cell>
        </Table.Row>
      ))}
    </Wide>
  );
};

/** Whether it ended without a result. One that passed has no numbers where Airflow has removed them, or keeps them where only workers read. */
export const isUnfinished = (found: VerificationRun | null): boolean => found?.files === null && found.state !== "success";

const verifiedText = (found: VerificationRun): string => {
  if (found.files === null && !isUnfinished(found)) return "Passed; its numbers are not available.";
  if (found.files === null) return found.end ? "Did not finish; the task’s log says why." : "Has not ended yet.";
  const findings = [found.errors ? counted(found.errors, "error") : "", found.warnings ? counted(found.warnings, "warning") : ""];
  return `${counted(found.files, "file")} with ${counted(found.urls ?? 0, "URL")} verified, ${findings.filter(Boolean).join(", ") || "no issues"}.`;
};

/** What a verification found; on a sitemap's page with links to its run and log. */
export const Verified = ({ found, link = false }: { found: VerificationRun; link?: boolean }) => {
  return (
    <Flex direction="column" gap={3} data-testid="verification">
      <Flex gap={3} wrap="wrap" align="center" fontSize="sm">
        <State state={found.state} />
        {found.end && <Age at={found.end} />}
        <Text>{verifiedText(found)}</Text>
        {link && <Inner to={runTabOf(found.dag_id, found.run_id)}>Open the run</Inner>}
        {link && <Inner to={logOf(found.dag_id, found.run_id, found.task_id, found.map_index)}>Log</Inner>}
      </Flex>
      {found.failures.length > 0 && (
        <Wide
          label="Findings of the verification"
          names={[
            ["Severity", "start"],
            ["Rule", "start"],
            ["Where", "start"],
            ["Finding", "start"],
            ["Count", "end"],
          ]}
        >
          {found.failures.map((failure, index) => (
            <Table.Row key={index} verticalAlign="top">
              <Table.Cell>
                <State state={failure.severity} />
              </Table.Cell>
              <Table.Cell>
                <Code>{visible(failure.rule)}</Code>
              </Table.Cell>
              <Table.Cell overflowWrap="anywhere">{visible(failure.where)}</Table.Cell>
              <Table.Cell minW="16em" wordBreak="break-word">
                {sentence(visible(failure.message))}
              </Table.Cell>
              <Number>{count(failure.count)}</Number>
            </Table.Row>
          ))}
        </Wide>
      )}
      {found.errors + found.warnings > found.failures.length && (
        <Note>
          First {count(found.failures.length)} of {count(found.errors + found.warnings)}; the task’s log has them all.
        </Note>
      )}
    </Flex>
  );
};

export const inUnit = (value: number, unit: string) => (unit === "bytes" ? bytes(value) : `${count(value)} ${unit}`);

export const Gauges = ({ gauges }: { gauges: Gauge[] }) => (
  <Grid templateColumns="repeat(auto-fill, minmax(min(100%, 17rem), 1fr))" gap={5}>
    {gauges.map((gauge) => {
      const share = Math.min(100, (100 * gauge.used) / gauge.limit);
      return (
        <Progress.Root key={gauge.name} value={share} size="sm" colorPalette={gauge.warns && share >= 80 ? "orange" : "blue"}>
          <Progress.Label wordBreak="break-word">{visible(gauge.name)}</Progress.Label>
          <Text fontSize="sm">
            {inUnit(gauge.used, gauge.unit)} of {inUnit(gauge.limit, gauge.unit)} ({percent(gauge.used, gauge.limit)})
          </Text>
          <Progress.Track mt={1}>
            <Progress.Range />
          </Progress.Track>
          <Note fontSize="xs" mt={1}>
            {gauge.limit_note ? `${gauge.limit_note}. ` : ""}
            {gauge.source}
          </Note>
        </Progress.Root>
      );
    })}
  </Grid>
);

const Lines = ({ lines }: { lines: string[] }) =>
  lines.length > 0 && (
    <Flex as="ul" direction="column" gap={1} ps={5} fontSize="sm">
      {lines.slice(0, 50).map((line, index) => (
        <Text as="li" key={index} overflowWrap="anywhere">
          {sentence(visible(line))}
        </Text>
      ))}
      {lines.length > 50 && <Note>{count(lines.length - 50)} more; the task’s log has them all.</Note>}
    </Flex>
  );

/** Files that were modified outside Airflow, as the last publish found them. */
export const Drift = ({ drift, at }: { drift: string[]; at: string | null }) => (
  <>
    <Text fontSize="sm" mb={drift.length ? 2 : 0}>
      {drift.length ? `${counted(drift.length, "file")} modified outside Airflow, found and repaired by the run that published` : "No external changes found at last publish"}
      {at && (
        <>
          {" ("}
          <When at={at} />)
        </>
      )}
      .
    </Text>
    <Lines lines={drift} />
  </>
);

const listed = (counts: Counts): string =>
  Object.entries(counts)
    .map(([name, number]) => `${visible(name)}: ${count(number)}`)
    .join(", ") || "–";

const planSummary = (plan: PlanNumbers): string => {
  const base = plan.base_generation ? `based on generation ${count(plan.base_generation)}` : "first build";
  if (!plan.changes) return `Nothing changed (${base}): nothing to write.`;
  if (!plan.rows_to_read) return `No rows to read, but files to write (${base}).`;
  return `${counted(plan.rows_to_read, "row")} to read in ${counted(plan.batches, "batch")} (${base}).`;
};

export const Plan = ({ plan }: { plan: PlanNumbers }) => (
  <Flex direction="column" gap={3}>
    <Text>{planSummary(plan)}</Text>
    {!plan.rows_to_read && <Lines lines={plan.lines.filter((line) => /^ *drift: |: retired, /u.test(line)).map((line) => line.replace(/^ *drift: /u, ""))} />}
    <Wide
      label="The plan by section"
      names={[
        ["Section", "start"],
        ["Shards", "start"],
        ["Reason", "start"],
        ["Rows to read", "end"],
        ["Total rows", "end"],
      ]}
    >
      {Object.entries(plan.sections).map(([name, section]) => (
        <Table.Row key={name} verticalAlign="top">
          <Table.Cell fontWeight="medium">{visible(name)}</Table.Cell>
          <Table.Cell>{sentence(listed(section.actions))}</Table.Cell>
          <Table.Cell>{sentence(listed(section.reasons))}</Table.Cell>
          <Number>{count(section.rows_to_read)}</Number>
          <Number>{count(section.rows)}</Number>
        </Table.Row>
      ))}
    </Wide>
    {plan.more_sections > 0 && <Note>{counted(plan.more_sections, "further section")} not shown.</Note>}
    {plan.lines.length > 0 && (
      <Box as="details" fontSize="sm">
        <summary>Plan details</summary>
        <Box as="pre" mt={2} p={3} bg="bg.subtle" borderRadius="md" overflowX="auto" fontSize="xs" whiteSpace="pre-wrap" wordBreak="break-word">
          {plan.lines.map(visible).join("\n")}
          {plan.more_lines ? `\n${count(plan.more_lines)} more lines in the task’s log` : ""}
        </Box>
      </Box>
    )}
  </Flex>
);

/** Processing time by stage; the run itself took longer. */
export const Stages = ({ seconds }: { seconds: Record<string, number> }) => (
  <Note mt={3}>
    Processing time:{" "}
    {Object.entries(seconds)
      .map(([stage, s]) => `${visible(stage)} ${duration(s)}`)
      .join(" · ") || "not measured"}
  </Note>
);
