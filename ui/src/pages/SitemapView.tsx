/** One sitemap: what is wrong, totals, history, shard map, sections, limits, faults, drift, generations, actions. */

import { Alert, Box, Button, Flex, Grid, HStack, Heading, Table, Text } from "@chakra-ui/react";
import { useState } from "react";

import { useGet } from "../api";
import { ago, bytes, count, counted, duration, isWeb, percent, shortly, sum, visible, when } from "../format";
import { Act, type Acting, NotOffered, Started, useActions } from "../parts/Actions";
import { Chart } from "../parts/charts";
import { Age, Failure, HealthBadge, Inner, Note, Outer, Panel, State, Waiting, dagOf, runTabOf } from "../parts/basics";
import { Drift, Faults, Gauges, Number, Sections, Stages, Tile, Tiles, Verified, Wide, shardChanges } from "../parts/report";
import { ShardMap } from "../parts/ShardMap";
import type { HistoryColumns, KeptGeneration, Problem, ShardMapAnswer, SitemapPage, Trouble } from "../types";
import { nameOf } from "./Overview";
import { NextPlan } from "./NextPlan";

const STATUS = { error: "error", info: "info", warning: "warning" } as const;

const ProblemLine = ({ problem, page, acting }: { problem: Problem; page: SitemapPage; acting: Acting }) => (
  <Alert.Root status={STATUS[problem.severity]} data-testid={`problem-${problem.kind}`} alignItems="flex-start">
    <Alert.Indicator />
    <Alert.Content minW={0}>
      <Alert.Title wordBreak="break-word">{visible(problem.title)}</Alert.Title>
      <Alert.Description wordBreak="break-word">
        {problem.detail && <Text>{visible(problem.detail)}</Text>}
        {problem.next_step && (
          <Text>
            <Text as="span" fontWeight="semibold">
              Next:{" "}
            </Text>
            {visible(problem.next_step)}
          </Text>
        )}
        <HStack mt={problem.run_id || problem.permits.length ? 2 : 0} gap={3} wrap="wrap">
          {problem.run_id && (
            <Inner inAlert to={runTabOf(problem.run_dag_id || page.dag_id, problem.run_id)}>
              Open the run
            </Inner>
          )}
          {problem.permits.length > 0 && (
            <Act acting={acting} wish={{ action: "allow", permits: problem.permits }} label={`Let one run pass: ${problem.permits.map(visible).join(", ")}`} />
          )}
        </HStack>
      </Alert.Description>
    </Alert.Content>
  </Alert.Root>
);

const Head = ({ page, acting, withBack }: { page: SitemapPage; acting: Acting; withBack: boolean }) => (
  <Flex justify="space-between" align="flex-start" gap={3} wrap="wrap">
    <Box minW={0}>
      {withBack && (
        <Box fontSize="sm">
          <Inner to="/plugin/sitemaps">All sitemaps</Inner>
        </Box>
      )}
      <HStack gap={3} wrap="wrap">
        <Heading as="h1" size="xl" wordBreak="break-word">
          {visible(nameOf(page))}
        </Heading>
        <HealthBadge health={page.health} />
        <State state={page.result} />
      </HStack>
      <HStack gap={4} wrap="wrap" fontSize="sm" mt={1}>
        {page.report.index_urls.slice(0, 3).map((url) => (isWeb(url) ? <Outer key={url} href={url}>{visible(url)}</Outer> : <Text key={url}>{visible(url)}</Text>))}
        {page.report.index_urls.length > 3 && <Note>and {count(page.report.index_urls.length - 3)} more index files</Note>}
        <Inner to={dagOf(page.dag_id)}>DAG {visible(page.dag_id)}</Inner>
        <Inner to={runTabOf(page.dag_id, page.run_id)}>Last run</Inner>
        {page.dag?.next_run && <Note>next run {when(page.dag.next_run)}</Note>}
      </HStack>
    </Box>
    <HStack gap={2} wrap="wrap">
      <Act acting={acting} wish={{ action: "run" }} />
      <Act acting={acting} wish={{ action: "verify" }} />
      <Act acting={acting} wish={{ action: "full", sections: [] }} label="Rebuild everything" />
    </HStack>
  </Flex>
);

const Totals = ({ page }: { page: SitemapPage }) => {
  const { report } = page;
  const dropped = sum(report.rows_dropped);
  return (
    <Tiles>
      <Tile name="URLs" value={count(page.urls)} help={`of ${counted(report.rows, "row")}`} />
      <Tile name="Shards" value={count(page.shards)} help={shardChanges(report.shards)} />
      <Tile name="Size" value={bytes(page.file_bytes)} help={`${bytes(report.xml_bytes)} uncompressed`} />
      <Tile name="Generation" value={count(page.generation)} help={report.committed_at ? `published ${ago(report.committed_at, Date.now())}` : "unchanged"} />
      <Tile name="Last good run" value={<Age at={page.at} />} help={`${duration(sum(report.seconds))} of work`} />
      <Tile name="Rows dropped" value={count(dropped)} help={percent(dropped, report.rows)} />
    </Tiles>
  );
};

const History = ({ asset }: { asset: string }) => {
  const { data, error, reload } = useGet<{ columns: HistoryColumns; before: number | null }>("sitemap/history", { asset, limit: 1000 });
  if (error) return <Failure error={error} retry={reload} />;
  if (!data) return <Waiting what="the history" />;
  const { columns } = data;
  const label = (index: number) => `generation ${count(columns.generation[index] ?? 0)}, ${shortly(columns.at[index])}`;
  const rewritten = columns.rewritten.map((number, index) => number + (columns.created[index] ?? 0));
  return (
    <>
      <Grid templateColumns="repeat(auto-fill, minmax(min(100%, 19rem), 1fr))" gap={6}>
        <Chart title="URLs" values={columns.urls} labels={label} format={(value) => count(Math.round(value))} />
        <Chart title="Shards written" values={rewritten} labels={label} format={count} bars palette="teal" />
        <Chart title="Rows dropped" values={columns.dropped} labels={label} format={count} bars palette="orange" />
        <Chart title="Run time" values={columns.seconds} labels={label} format={duration} bars palette="purple" />
        <Chart title="Bytes written" values={columns.bytes_written} labels={label} format={bytes} bars palette="cyan" />
        <Chart title="Size of all files" values={columns.file_bytes} labels={label} format={bytes} palette="gray" />
      </Grid>
      <Text color="fg.muted" fontSize="sm" mt={3}>
        {counted(columns.at.length, "run")}, oldest at the left{data.before ? "; earlier ones are not shown" : ""}. Times are in {when(Date.now()).split(" ").at(-1)}.
      </Text>
    </>
  );
};

const MapPanel = ({ page, acting }: { page: SitemapPage; acting: Acting }) => {
  const { data, error, reload } = useGet<ShardMapAnswer | Trouble>("sitemap/shards", { asset: page.asset });
  const rebuild = acting.ask({ action: "rebuild", shards: [""] }) && ((shard: string) => acting.ask({ action: "rebuild", shards: [shard] })?.());
  return (
    <Panel
      title="Shard map"
      aside={
        <Button size="xs" variant="outline" onClick={reload}>
          Reload
        </Button>
      }
    >
      {error && <Failure error={error} retry={reload} />}
      {!data && !error && <Waiting what="the manifest" />}
      {data && "trouble" in data && (
        <Alert.Root status="info" data-testid="map-trouble">
          <Alert.Indicator />
          <Alert.Content minW={0}>
            <Alert.Title>The shard map needs the store</Alert.Title>
            <Alert.Description wordBreak="break-word">{visible(data.trouble)}</Alert.Description>
          </Alert.Content>
        </Alert.Root>
      )}
      {data && !("trouble" in data) && (
        <>
          {!data.promoted && (
            <Alert.Root status="warning" mb={3}>
              <Alert.Indicator />
              <Alert.Description>
                Generation {count(data.generation)} is committed but not all of its files are public yet; the next run finishes that.
              </Alert.Description>
            </Alert.Root>
          )}
          <ShardMap asset={page.asset} answer={data} rebuild={rebuild} />
        </>
      )}
    </Panel>
  );
};

const Generations = ({ asset, acting }: { asset: string; acting: Acting }) => {
  const [open, setOpen] = useState(false);
  const { data, error, reload } = useGet<{ generation: number; kept: KeptGeneration[] } | Trouble>("sitemap/generations", { asset });
  if (error) return <Failure error={error} retry={reload} />;
  if (!data) return <Waiting what="the generations" />;
  if ("trouble" in data) return <Note>{visible(data.trouble)}</Note>;
  if (!data.kept.length) return <Note>Generation {count(data.generation)} is the only one; there is none to go back to.</Note>;
  const shown = open ? data.kept : data.kept.slice(0, 8);
  return (
    <>
      <Wide
        label="Generations"
        names={[
          ["Generation", "end"],
          ["Published", "start"],
          ["URLs", "end"],
          ["Shards", "end"],
          ["Size", "end"],
          ["Rows dropped", "end"],
          ["", "end"],
        ]}
      >
        {shown.map((kept) => (
          <Table.Row key={kept.generation}>
            <Number>{count(kept.generation)}</Number>
            <Table.Cell whiteSpace="nowrap">{when(kept.committed_at)}</Table.Cell>
            <Number>{count(kept.urls ?? 0)}</Number>
            <Number>{count(kept.shards ?? 0)}</Number>
            <Number>{bytes(kept.byte_size ?? 0)}</Number>
            <Number>{count(kept.dropped ?? 0)}</Number>
            <Table.Cell textAlign="end">
              <Act acting={acting} wish={{ action: "rollback", generation: kept.generation }} label={`Roll back to ${count(kept.generation)}`} size="xs" />
            </Table.Cell>
          </Table.Row>
        ))}
      </Wide>
      {shown.length < data.kept.length && (
        <Button size="xs" variant="outline" mt={2} onClick={() => setOpen(true)}>
          Show all {count(data.kept.length)}
        </Button>
      )}
    </>
  );
};

export const SitemapView = ({ asset, withBack = false }: { asset: string; withBack?: boolean }) => {
  const { data: page, error, reload } = useGet<SitemapPage>("sitemap", { asset }, (latest) => (latest?.result === "running" ? 4_000 : 20_000));
  const acting = useActions(asset, page?.actions ?? [], reload);
  if (!page) {
    return (
      <>
        {withBack && <Inner to="/plugin/sitemaps">All sitemaps</Inner>}
        {error ? <Failure error={error} retry={reload} /> : <Waiting what="the sitemap" />}
      </>
    );
  }
  const { report } = page;
  const stamp = page.at;
  return (
    <>
      {acting.dialog}
      <Head page={page} acting={acting} withBack={withBack} />
      {error && <Failure error={error} retry={reload} />}
      {acting.started && <Started key={acting.started.run_id} started={acting.started} onEnd={reload} />}
      {page.problems.length > 0 && (
        <Flex as="section" aria-label="What to look at" direction="column" gap={2}>
          {page.problems.map((problem, index) => (
            <ProblemLine key={`${problem.kind} ${index}`} problem={problem} page={page} acting={acting} />
          ))}
        </Flex>
      )}
      <Totals page={page} />
      <Panel title="History">
        <History key={stamp} asset={asset} />
      </Panel>
      <MapPanel key={`map ${stamp}`} page={page} acting={acting} />
      <Panel title="Sections">
        <Sections
          sections={report.sections}
          act={(name) => <Act acting={acting} wish={{ action: "full", sections: [name] }} label="Rebuild section" size="xs" />}
        />
        {page.sections_left_out > 0 && <Note>{counted(page.sections_left_out, "section")} did not fit into the event and stand only in the task’s log.</Note>}
        <Stages seconds={report.seconds} />
      </Panel>
      <Panel title="Next run" aside={<Act acting={acting} wish={{ action: "plan" }} />}>
        <NextPlan started={acting.started} />
      </Panel>
      <Panel title="Rows that broke a rule">
        <Faults report={report} rules={page.rules} />
        {page.shortened.includes("samples") && <Note>The samples did not fit into the event; the publish task’s log has them.</Note>}
      </Panel>
      <Panel title="Headroom">
        <Gauges gauges={page.gauges.slice(0, 13)} />
      </Panel>
      <Panel title="Drift">
        <Drift drift={report.drift} />
      </Panel>
      <Panel title="Verification">
        {page.verification ? (
          <Verified found={page.verification} link />
        ) : (
          <Note>No run has verified this sitemap yet. Verifying reads every published file back and checks it against the protocol and the manifest.</Note>
        )}
      </Panel>
      <Panel title="Generations">
        <Generations key={stamp} asset={asset} acting={acting} />
      </Panel>
      <NotOffered offers={page.actions} />
    </>
  );
};
