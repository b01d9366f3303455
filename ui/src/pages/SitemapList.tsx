/** Every sitemap: searched, filtered and sorted, what needs attention first. */

import { Box, Button, EmptyState, Flex, HStack, Heading, Input, NativeSelect, Table, Text } from "@chakra-ui/react";
import { useEffect, useState } from "react";

import { address, useGet } from "../api";
import { bytes, count, counted, percent, visible } from "../format";
import { ActivityBadges, Age, AsOf, Export, Failure, Inner, Note, Option, Page, State, VERDICTS, VerdictBadge, Waiting } from "../parts/basics";
import { Sparkline } from "../parts/charts";
import { FindUrl } from "../parts/FindUrl";
import { Number as Figure, Wide } from "../parts/report";
import { pageOf, runTabOf } from "../routes";
import { type Search, useSearch } from "../search";
import { useTitle } from "../title";
import type { SitemapLine, SitemapList as Answer } from "../types";

const AT_ONCE = 100;

/** A sitemap's name: the address of its index, or of their folder where it has several. */
export const nameOf = (line: Pick<SitemapLine, "index_url" | "index_files" | "name">): string => {
  try {
    if (line.index_url) {
      const address = line.index_files > 1 ? line.index_url.replace(/[^/]*$/u, "") : line.index_url;
      return decodeURI(new URL(address).href.replace(/^https?:\/\//u, ""));
    }
  } catch {
    return line.name;
  }
  return line.name.replace(/^sitemap /u, "");
};

const verdictText = (line: SitemapLine): string | undefined =>
  line.problems.length || line.state === "healthy" || line.reason === VERDICTS[line.state].text ? undefined : line.reason;

const isPublished = (line: SitemapLine): boolean => line.at !== null;

const Line = ({ line }: { line: SitemapLine }) => (
  <Table.Row verticalAlign="top" data-testid="sitemap-line">
    <Table.Cell>
      <Flex gap={1} wrap="wrap">
        <VerdictBadge state={line.state} reason={line.reason} />
        <ActivityBadges line={line} />
      </Flex>
      {line.state === "healthy" && line.verified_at && (
        <Note fontSize="xs">
          Verified <Age at={line.verified_at} />
        </Note>
      )}
    </Table.Cell>
    <Table.Cell minW="12em" maxW="30em">
      <Inner to={pageOf(line.asset)}>{visible(nameOf(line))}</Inner>
      <Note fontSize="xs">
        {visible((line.dag_ids.length ? line.dag_ids : [line.dag_id]).join(", "))}
      </Note>
      {[verdictText(line), ...line.problems].filter(Boolean).map((title) => (
        <Text key={title} fontSize="sm" color={line.state === "failing" ? "red.fg" : line.state === "warning" ? "orange.fg" : "fg.muted"} overflowWrap="anywhere">
          {visible(title ?? "")}
        </Text>
      ))}
    </Table.Cell>
    <Table.Cell>
      {line.run_id ? (
        <Inner to={runTabOf(line.run_dag_id, line.run_id)}>
          <State state={line.result} />
        </Inner>
      ) : (
        "–"
      )}
    </Table.Cell>
    <Table.Cell>
      <Age at={line.at} />
    </Table.Cell>
    <Figure>
      <Box display="inline-block" textAlign="end">
        {isPublished(line) ? count(line.urls) : "–"}
        {line.history.length > 1 && <Sparkline values={line.history} label={`URLs of the last ${counted(line.history.length, "run")}`} />}
      </Box>
    </Figure>
    <Figure>{isPublished(line) ? count(line.shards) : "–"}</Figure>
    <Figure>{isPublished(line) ? bytes(line.file_bytes) : "–"}</Figure>
    <Figure>{isPublished(line) ? count(line.generation) : "–"}</Figure>
    <Figure>{isPublished(line) ? (line.dropped ? `${count(line.dropped)} (${percent(line.dropped, line.rows)})` : "None") : "–"}</Figure>
  </Table.Row>
);

/** In one sentence: how many sitemaps there are, and how many need attention; over all pages. */
export const summary = ({ totals }: Pick<Answer, "totals">): string => {
  const parts = (["failing", "warning", "not_verified", "unknown", "healthy"] as const)
    .filter((state) => totals[state])
    .map((state) => `${count(totals[state])} ${VERDICTS[state].text.toLowerCase()}`);
  return `${counted(totals.sitemaps, "sitemap")} with ${counted(totals.urls, "URL")}: ${parts.join(", ") || "none"}.`;
};

const SORTS = [
  ["state", "State"],
  ["name", "Sitemap"],
  ["at", "Last successful run"],
  ["urls", "URLs"],
  ["shards", "Shards"],
  ["size", "Size"],
  ["generation", "Generation"],
  ["dropped", "Rows dropped"],
] as const;

const STATES: [string, string][] = [...Object.entries(VERDICTS).map(([state, { text }]): [string, string] => [state, text]), ["running", "Running or queued"], ["paused", "Paused"]];

/** What the address says, if it is one of these; the API refuses others. */
const oneOf = (options: readonly (readonly [string, string])[], value: string): string => (options.some(([option]) => option === value) ? value : "");

/** What the list shows, as the address has it; another filter begins at the first page. */
const useQuery = (): Search => {
  const search = useSearch();
  return { ...search, change: (changes) => search.change({ page: "", ...changes }) };
};

const Choice = ({ label, value, options, onChange, all = true }: { label: string; value: string; options: [string, string][]; onChange: (value: string) => void; all?: boolean }) => (
  <NativeSelect.Root size="sm" width="auto" minW="8em">
    <NativeSelect.Field aria-label={label} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
      {all && <option value="">{label}: all</option>}
      {(value === oneOf(options, value) ? options : [...options, [value, visible(value)] as const]).map(([option, text]) => (
        <option key={option} value={option}>
          {text}
        </option>
      ))}
    </NativeSelect.Field>
    <NativeSelect.Indicator />
  </NativeSelect.Root>
);

const Filters = ({ answer, query, csv }: { answer: Answer; query: ReturnType<typeof useQuery>; csv: string }) => {
  const [text, setText] = useState(query.value("search"));
  useEffect(() => {
    if (text === query.value("search")) return undefined;
    const timer = setTimeout(() => query.change({ search: text }), 300);
    return () => clearTimeout(timer);
  });
  return (
    <Flex gap={2} wrap="wrap" align="center" role="search">
      <Input size="sm" type="search" width="16em" maxW="100%" placeholder="Search address or DAG" aria-label="Search address or DAG" value={text} onChange={(event) => setText(event.currentTarget.value)} />
      <Choice label="State" value={oneOf(STATES, query.value("state"))} options={STATES} onChange={(state) => query.change({ state })} />
      <Choice label="DAG" value={query.value("dag")} options={answer.dags.map((dag) => [dag, visible(dag)])} onChange={(dag) => query.change({ dag })} />
      {(answer.tags.length > 0 || query.value("tag")) && <Choice label="Tag" value={query.value("tag")} options={answer.tags.map((tag) => [tag, visible(tag)])} onChange={(tag) => query.change({ tag })} />}
      <Choice
        all={false}
        label="Sort"
        value={oneOf(SORTS, query.value("sort")) || "state"}
        options={SORTS.map(([sort, name]) => [sort, `Sort: ${name.toLowerCase().replace("urls", "URLs")}`])}
        onChange={(sort) => query.change({ descending: ["state", "name"].includes(sort) ? "" : "true", sort: sort === "state" ? "" : sort })}
      />
      {(answer.totals.archived > 0 || query.value("archived")) && (
        <Option size="sm" chosen={query.value("archived") !== ""} onClick={() => query.change({ archived: query.value("archived") ? "" : "true" })}>
          Archived ({count(answer.totals.archived)})
        </Option>
      )}
      <Export size="sm" href={csv} />
    </Flex>
  );
};

const Sorting = ({ query }: { query: ReturnType<typeof useQuery> }) => {
  const sort = query.value("sort") || "state";
  const down = query.value("descending") === "true";
  return {
    /** Turns a column's name into a button that sorts by it. */
    heading: (name: string) => {
      const key = SORTS.find(([, title]) => title === name)?.[0];
      if (!key) return undefined;
      const active = key === sort;
      return {
        active: active ? (down ? ("descending" as const) : ("ascending" as const)) : undefined,
        onSort: () => query.change({ descending: active ? (down ? "" : "true") : ["state", "name"].includes(key) ? "" : "true", sort: key }),
      };
    },
  };
};

const Table_ = ({ answer, query }: { answer: Answer; query: ReturnType<typeof useQuery> }) => (
  <Box borderWidth="1px" borderColor="border" borderRadius="md" bg="bg">
    <Wide
      label="All sitemaps"
      below="56rem"
      sorting={Sorting({ query }).heading}
      names={[
        ["State", "start"],
        ["Sitemap", "start"],
        ["Last result", "start"],
        ["Last successful run", "start"],
        ["URLs", "end"],
        ["Shards", "end"],
        ["Size", "end"],
        ["Generation", "end"],
        ["Rows dropped", "end"],
      ]}
    >
      {answer.sitemaps.map((line) => (
        <Line key={line.asset} line={line} />
      ))}
    </Wide>
  </Box>
);

const lastPage = ({ total }: Answer): number => Math.max(1, Math.ceil(total / AT_ONCE));

const Pages = ({ answer, page, query }: { answer: Answer; page: number; query: ReturnType<typeof useQuery> }) => {
  const last = lastPage(answer);
  if (last === 1) return null;
  return (
    <HStack gap={3} as="nav" aria-label="Pages of the list">
      <Button size="sm" variant="outline" disabled={page <= 1} onClick={() => query.change({ page: page > 2 ? String(page - 1) : "" })}>
        Previous
      </Button>
      <Note>
        {count((page - 1) * AT_ONCE + 1)}–{count(Math.min(answer.total, page * AT_ONCE))} of {count(answer.total)}
      </Note>
      <Button size="sm" variant="outline" disabled={page >= last} onClick={() => query.change({ page: String(page + 1) })}>
        Next
      </Button>
    </HStack>
  );
};

const Empty = () => (
  <EmptyState.Root>
    <EmptyState.Content>
      <EmptyState.Title>No DAG publishes a sitemap yet</EmptyState.Title>
      <EmptyState.Description>Add a SitemapTaskGroup to a DAG. Its sitemap appears here as soon as Airflow has read the DAG.</EmptyState.Description>
    </EmptyState.Content>
  </EmptyState.Root>
);

export const SitemapList = () => {
  useTitle("Sitemaps");
  const query = useQuery();
  const page = Math.max(1, Number.parseInt(query.value("page"), 10) || 1);
  const filter = {
    archived: query.value("archived") === "true",
    dag: query.value("dag"),
    descending: query.value("descending") === "true",
    search: query.value("search"),
    sort: oneOf(SORTS, query.value("sort")),
    state: oneOf(STATES, query.value("state")),
    tag: query.value("tag"),
  };
  const { data, error, asOf, reload } = useGet<Answer>("sitemaps", { ...filter, limit: AT_ONCE, offset: (page - 1) * AT_ONCE }, () => 15_000, true);
  const last = data ? lastPage(data) : page;
  useEffect(() => {
    if (page > last) query.change({ page: String(last) });
  });
  const isEmpty = data && data.totals.sitemaps + data.totals.archived === 0;
  return (
    <Page position={`list ${query.params.toString()}`} ready={data !== undefined}>
      <Flex justify="space-between" align="flex-start" gap={3} wrap="wrap">
        <Box>
          <Heading as="h1" size="xl">
            Sitemaps
          </Heading>
          {data && !isEmpty && <Note>{summary(data)}</Note>}
        </Box>
        <AsOf at={asOf} />
      </Flex>
      {error && <Failure error={error} retry={reload} asOf={asOf} />}
      {!data && !error && <Waiting what="sitemaps" />}
      {isEmpty && <Empty />}
      {data && !isEmpty && (
        <>
          <FindUrl />
          <Filters answer={data} query={query} csv={address("sitemaps.csv", filter)} />
          {data.total === 0 ? <Note>No sitemap matches the filter.</Note> : <Table_ answer={data} query={query} />}
          <Pages answer={data} page={page} query={query} />
        </>
      )}
    </Page>
  );
};
