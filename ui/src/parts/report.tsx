/** What a run did, as numbers and tables: on a sitemap's page and on a run's tab. */

import { Box, Code, Flex, Grid, Progress, Stat, Table, Text } from "@chakra-ui/react";
import type { ReactNode } from "react";

import { bytes, count, counted, duration, percent, sum, visible, when } from "../format";
import type { Gauge, PlanFacts, Report, SectionReport, Verification } from "../types";
import { Age, Inner, Note, State, runTabOf } from "./basics";

export const Tile = ({ name, value, help }: { name: string; value: ReactNode; help?: ReactNode }) => (
  <Stat.Root borderWidth="1px" borderColor="border" borderRadius="md" bg="bg" p={3} minW={0}>
    <Stat.Label>{name}</Stat.Label>
    <Stat.ValueText fontSize="xl" wordBreak="break-word">
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

const CHANGES = ["rewritten", "created", "dropped", "repaired"] as const;

export const shardChanges = (shards: Record<string, number>): string => {
  const parts = CHANGES.filter((name) => shards[name]).map((name) => `${count(shards[name] ?? 0)} ${name}`);
  return parts.length ? parts.join(", ") : "none changed";
};

type Names = [string, "start" | "end"][];

/** On a narrow window each row becomes a card: a line a cell, with its column's name before it. */
const cards = (names: Names) => ({
  "& table, & tbody, & tr": { display: "block", width: "100%" },
  "& thead": { clipPath: "inset(50%)", height: "1px", overflow: "hidden", position: "absolute", width: "1px" },
  "& tr": { borderBottomWidth: "1px", borderColor: "border", py: 2 },
  "& tr:last-of-type": { borderBottomWidth: 0 },
  "& td": {
    alignItems: "start",
    border: "none",
    display: "grid",
    gap: "0 0.75rem",
    gridTemplateColumns: "8.5rem minmax(0, 1fr)",
    maxWidth: "none",
    minWidth: 0,
    overflowWrap: "anywhere",
    p: "2px 0.5rem",
    textAlign: "start",
    whiteSpace: "normal",
  },
  "& td:empty": { display: "none" },
  "& td > *": { gridColumn: 2, justifySelf: "start" },
  "& td::before": { color: "fg.muted" },
  ...Object.fromEntries(names.map(([name], index) => [`& td:nth-of-type(${index + 1})::before`, { content: JSON.stringify(name) }])),
});

/** A table that becomes cards where it has no room, and scrolls in itself where even that is too wide. */
export const Wide = ({ children, label, names, below = "34rem" }: { children: ReactNode; label: string; names: Names; below?: string }) => (
  <Box containerType="inline-size" overflowX="auto" tabIndex={0} role="region" aria-label={`Table: ${label}`}>
    <Box css={{ [`@container (max-width: ${below})`]: cards(names) }}>
      <Table.Root size="sm" variant="line">
        <Heads names={names} />
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

const Heads = ({ names }: { names: Names }) => (
  <Table.Header>
    <Table.Row>
      {names.map(([name, side]) => (
        <Table.ColumnHeader key={name} textAlign={side} whiteSpace="nowrap">
          {name}
        </Table.ColumnHeader>
      ))}
    </Table.Row>
  </Table.Header>
);

export const Sections = ({ sections, act }: { sections: Record<string, SectionReport>; act?: (name: string) => ReactNode }) => (
  <Wide
    label="Sections"
    names={[
      ["Section", "start"],
      ["URLs", "end"],
      ["Shards", "end"],
      ["Changed in the last run", "start"],
      ["Rows read", "end"],
      ["Size", "end"],
      ["Rows dropped", "end"],
      ["Newest lastmod", "start"],
      ["", "end"],
    ]}
  >
    {Object.entries(sections).map(([name, section]) => (
      <Table.Row key={name}>
        <Table.Cell fontWeight="medium" wordBreak="break-word" minW="8em">
          {visible(name)}
        </Table.Cell>
        <Number>{count(section.urls)}</Number>
        <Number>{count(section.shards["total"] ?? 0)}</Number>
        <Table.Cell minW="12em">
          {shardChanges(section.shards)}
          {Object.keys(section.reasons).length > 0 && (
            <Text color="fg.muted" fontSize="xs">
              {Object.entries(section.reasons)
                .map(([reason, number]) => `${visible(reason)}: ${count(number)}`)
                .join("; ")}
            </Text>
          )}
        </Table.Cell>
        <Number>{count(section.rows_read)}</Number>
        <Number>{bytes(section.file_bytes)}</Number>
        <Number>
          {count(sum(section.rows_dropped))} ({percent(sum(section.rows_dropped), section.rows)})
        </Number>
        <Table.Cell whiteSpace="nowrap">{when(section.newest_lastmod)}</Table.Cell>
        <Table.Cell textAlign="end">{act?.(name)}</Table.Cell>
      </Table.Row>
    ))}
  </Wide>
);

const faults = (section: SectionReport) =>
  [...Object.entries(section.rows_dropped).map(([rule, rows]) => ({ became: "dropped", rows, rule })),
   ...Object.entries(section.fields_mended).map(([rule, rows]) => ({ became: "mended or kept", rows, rule }))];

export const Faults = ({ report, rules }: { report: Report; rules: Record<string, string> }) => {
  const found = Object.entries(report.sections).flatMap(([name, section]) => faults(section).map((fault) => ({ ...fault, name, section })));
  if (!found.length) return <Note>No row broke a rule.</Note>;
  found.sort((one, other) => other.rows - one.rows);
  return (
    <Wide
      label="Rows that broke a rule"
      names={[
        ["Rule", "start"],
        ["Section", "start"],
        ["Rows", "end"],
        ["Became", "start"],
        ["For example", "start"],
      ]}
    >
      {found.map(({ name, rule, rows, became, section }) => (
        <Table.Row key={`${name} ${rule} ${became}`} verticalAlign="top">
          <Table.Cell minW="11em">
            <Code>{visible(rule)}</Code>
            <Text color="fg.muted" fontSize="xs">
              {visible(rules[rule] ?? "")}
            </Text>
          </Table.Cell>
          <Table.Cell>{visible(name)}</Table.Cell>
          <Number>{count(rows)}</Number>
          <Table.Cell whiteSpace="nowrap">{became}</Table.Cell>
          <Table.Cell minW="16em">
            {[...new Set(section.samples[rule] ?? [])].map((sample) => (
              <Text key={sample} fontFamily="mono" fontSize="xs" wordBreak="break-all" data-testid="sample">
                {visible(sample)}
              </Text>
            ))}
            {!section.samples[rule]?.length && <Text color="fg.muted">the task’s log has samples</Text>}
          </Table.Cell>
        </Table.Row>
      ))}
    </Wide>
  );
};

/** What a verification came to; on a sitemap's page with a link to its run. */
export const Verified = ({ found, link = false }: { found: Verification; link?: boolean }) => {
  const read = found.files === null ? "" : `${counted(found.files, "file")} with ${counted(found.urls ?? 0, "URL")} read back`;
  const faults = [found.errors ? counted(found.errors, "error") : "", found.warnings ? counted(found.warnings, "warning") : ""];
  const came = found.files === null ? "" : `${read}: ${faults.filter(Boolean).join(", ") || "nothing is wrong"}.`;
  return (
    <Flex direction="column" gap={3} data-testid="verification">
      <Flex gap={3} wrap="wrap" align="center" fontSize="sm">
        <State state={found.state} />
        {found.end && <Age at={found.end} />}
        <Text>{came || (found.end ? "It failed before it had read all; its task’s log says why." : "It has not ended yet.")}</Text>
        {link && <Inner to={runTabOf(found.dag_id, found.run_id)}>Open the run</Inner>}
      </Flex>
      {found.failures.length > 0 && (
        <Wide
          label="What verification found"
          names={[
            ["Severity", "start"],
            ["Rule", "start"],
            ["Where", "start"],
            ["What", "start"],
            ["Times", "end"],
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
              <Table.Cell wordBreak="break-all">{visible(failure.where)}</Table.Cell>
              <Table.Cell minW="16em" wordBreak="break-word">
                {visible(failure.message)}
              </Table.Cell>
              <Number>{count(failure.count)}</Number>
            </Table.Row>
          ))}
        </Wide>
      )}
      {found.errors + found.warnings > found.failures.length && (
        <Note>The first {count(found.failures.length)} of {count(found.errors + found.warnings)}; the task’s log has them all.</Note>
      )}
    </Flex>
  );
};

const inUnit = (value: number, unit: string) => (unit === "bytes" ? bytes(value) : `${count(value)} ${unit}`);

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
          <Text color="fg.muted" fontSize="xs" mt={1}>
            {gauge.limit_note ? `${gauge.limit_note}. ` : ""}
            {gauge.source}
          </Text>
        </Progress.Root>
      );
    })}
  </Grid>
);

export const Drift = ({ drift }: { drift: string[] }) =>
  drift.length ? (
    <Flex as="ul" direction="column" gap={1} ps={5} fontSize="sm">
      {drift.slice(0, 50).map((line, index) => (
        <Text as="li" key={index} wordBreak="break-word">
          {visible(line)}
        </Text>
      ))}
      {drift.length > 50 && <Note>… and {count(drift.length - 50)} more; the task’s log has them all.</Note>}
    </Flex>
  ) : (
    <Note>Nobody else touched the published files.</Note>
  );

export const Plan = ({ plan }: { plan: PlanFacts }) => (
  <Flex direction="column" gap={3}>
    <Text>
      {plan.changes
        ? `${counted(plan.rows_to_read, "row")} to read in ${counted(plan.batches, "batch").replace(/batchs$/u, "batches")}, on top of generation ${count(plan.base_generation)}.`
        : `Nothing changed since generation ${count(plan.base_generation)}: nothing to write.`}
    </Text>
    <Wide
      label="The plan by section"
      names={[
        ["Section", "start"],
        ["Shards", "start"],
        ["Why", "start"],
        ["Rows to read", "end"],
        ["Rows in all", "end"],
      ]}
    >
      {Object.entries(plan.sections).map(([name, section]) => (
        <Table.Row key={name} verticalAlign="top">
          <Table.Cell fontWeight="medium">{visible(name)}</Table.Cell>
          <Table.Cell>
            {Object.entries(section.actions)
              .map(([action, number]) => `${visible(action)} ${count(number)}`)
              .join(", ") || "–"}
          </Table.Cell>
          <Table.Cell>
            {Object.entries(section.reasons)
              .map(([reason, number]) => `${visible(reason)} (${count(number)})`)
              .join("; ") || "–"}
          </Table.Cell>
          <Number>{count(section.rows_to_read)}</Number>
          <Number>{count(section.rows)}</Number>
        </Table.Row>
      ))}
    </Wide>
    {plan.lines.length > 0 && (
      <Box as="details" fontSize="sm">
        <summary>The plan in words</summary>
        <Box as="pre" mt={2} p={3} bg="bg.subtle" borderRadius="md" overflowX="auto" fontSize="xs" whiteSpace="pre-wrap" wordBreak="break-word">
          {plan.lines.map(visible).join("\n")}
          {plan.more_lines ? `\n… and ${count(plan.more_lines)} more lines in the task’s log` : ""}
        </Box>
      </Box>
    )}
  </Flex>
);

export const Stages = ({ seconds }: { seconds: Record<string, number> }) => (
  <Text color="fg.muted" fontSize="sm" mt={3}>
    {Object.entries(seconds)
      .map(([stage, s]) => `${visible(stage)} ${duration(s)}`)
      .join(" · ") || "No stage was timed."}
  </Text>
);
