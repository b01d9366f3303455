/** One sitemap: what needs attention, totals, history, runs, shard map, sections, limits, issues, generations, actions. */

import { Alert, Box, Button, Flex, Grid, HStack, Heading, Table, Text } from "@chakra-ui/react";
import { useState } from "react";
import { useNavigate } from "react-router-dom";

import { type ApiError, address, post, useGet } from "../api";
import { ago, bytes, count, counted, duration, isWeb, percent, shortly, sum, visible, when } from "../format";
import { Act, type Acting, NotAvailable, ReadOnly, Started, useActions } from "../parts/Actions";
import { AnnouncementTable } from "../parts/AnnouncementTable";
import { ActivityBadges, Age, AsOf, Failure, Inner, Logs, Note, Outer, Panel, Trail, VerdictBadge, Waiting, When } from "../parts/basics";
import { ChangesPreview } from "../parts/ChangesPreview";
import { Chart, type ChartPoint } from "../parts/charts";
import { FindUrl } from "../parts/FindUrl";
import { Drift, EXTENSIONS, extensionsOf, Gauges, Issues, Number as Figure, Sections, Stages, Tile, Tiles, Verified, Wide, shardChanges } from "../parts/report";
import { Runs } from "../parts/Runs";
import { ShardMap } from "../parts/ShardMap";
import { dagOf, listPage, runTabOf } from "../routes";
import { useParam } from "../search";
import { MODES, type Mode } from "../shardmap";
import { useTitle } from "../title";
import { type GenerationsAnswer, type History as HistoryAnswer, type Problem, type ShardColumns, type SitemapPage, type Unavailable, isUnavailable } from "../types";
import { useZone } from "../zone";
import { NextPlan } from "./NextPlan";
import { nameOf } from "./SitemapList";

const overrideLabel = (permits: string[]): string => `Override ${permits.map((permit) => `“${visible(permit)}”`).join(", ")} for one run`;

const ProblemLine = ({ problem, acting }: { problem: Problem; acting: Acting }) => (
  <Alert.Root status={problem.severity} data-testid={`problem-${problem.kind}`} alignItems="flex-start">
    <Alert.Indicator />
    <Alert.Content minW={0}>
      <Alert.Title overflowWrap="anywhere">{visible(problem.title)}</Alert.Title>
      <Alert.Description overflowWrap="anywhere">
        {problem.detail && <Text>{visible(problem.detail)}</Text>}
        {problem.next_step && (
          <Text>
            <Text as="span" fontWeight="semibold">
              Next step:{" "}
            </Text>
            {visible(problem.next_step)}
          </Text>
        )}
        <HStack mt={problem.run_id || problem.permits.length ? 2 : 0} gap={3} wrap="wrap">
          {problem.run_id && (
            <Inner inAlert to={runTabOf(problem.dag_id, problem.run_id)}>
              Open the run
            </Inner>
          )}
          <Logs inAlert dagId={problem.dag_id} runId={problem.run_id} tasks={problem.failed_tasks} />
          {problem.permits.length > 0 && <Act acting={acting} request={{ action: "allow", permits: problem.permits }} label={overrideLabel(problem.permits)} />}
        </HStack>
      </Alert.Description>
    </Alert.Content>
  </Alert.Root>
);

/** Hides an orphaned sitemap from the list, or shows it again. */
const Archive = ({ page, reload }: { page: SitemapPage; reload: () => void }) => {
  const [error, setError] = useState<ApiError>();
  if (!page.may_archive) return null;
  const change = async () => {
    try {
      setError(undefined);
      await post("archive", { archived: !page.archived, asset: page.asset });
      reload();
    } catch (failed) {
      setError(failed as ApiError);
    }
  };
  return (
    <>
      <Button size="sm" variant="outline" onClick={() => void change()}>
        {page.archived ? "Show in the list again" : "Archive"}
      </Button>
      {error && <Failure error={error} />}
    </>
  );
};

const freshnessText = (page: SitemapPage): string => {
  const { age_s, objective_s } = page.freshness;
  if (age_s === null) return "No data yet";
  if (objective_s === null) return "No objective";
  return `Objective: ${duration(objective_s)}`;
};

/** Addresses of one kind; the first three, and the others on request. */
const Addresses = ({ label, urls }: { label: string; urls: string[] }) => {
  const [more, setMore] = useState(false);
  const shown = more ? urls : urls.slice(0, 3);
  if (!urls.length) return null;
  return (
    <HStack gap={3} wrap="wrap" fontSize="sm" mt={1} aria-label={label} role="group">
      <Text color="fg.muted">{label}</Text>
      {shown.map((url) => (isWeb(url) ? <Outer key={url} href={url}>{visible(url)}</Outer> : <Text key={url}>{visible(url)}</Text>))}
      {shown.length < urls.length && (
        <Button size="xs" variant="plain" onClick={() => setMore(true)}>
          {counted(urls.length - shown.length, "more file")}
        </Button>
      )}
    </HStack>
  );
};

const Files = ({ page }: { page: SitemapPage }) => {
  const { index_urls, extra_urls, robots_urls } = page.report;
  const feeds = [...new Set([...extra_urls, ...robots_urls])].filter((url) => robots_urls.includes(url) && !index_urls.includes(url));
  const recent = extra_urls.filter((url) => !robots_urls.includes(url));
  return (
    <>
      <Addresses label={index_urls.length > 1 ? "Indexes" : "Index"} urls={index_urls} />
      <Addresses label="Recent entries" urls={recent} />
      <Addresses label={feeds.length > 1 ? "Feeds" : "Feed"} urls={feeds} />
    </>
  );
};

const Links = ({ page }: { page: SitemapPage }) => {
  return (
    <HStack gap={4} wrap="wrap" fontSize="sm" mt={1}>
      {page.dags.map((dag) => (
        <Inner key={dag.dag_id} to={dagOf(dag.dag_id)}>
          DAG {visible(dag.dag_id)}
        </Inner>
      ))}
      {page.run_id && <Inner to={runTabOf(page.run_dag_id, page.run_id)}>Last run</Inner>}
      {page.dags.map((dag) =>
        dag.next_run ? (
          <Note key={dag.dag_id}>
            Next run <When at={dag.next_run} />
          </Note>
        ) : null,
      )}
      {page.paused && <Note>Paused: no next run</Note>}
    </HStack>
  );
};

const Head = ({ page, acting, trail, asOf, reload }: { page: SitemapPage; acting: Acting; trail: boolean; asOf: number | undefined; reload: () => void }) => (
  <Flex justify="space-between" align="flex-start" gap={3} wrap="wrap">
    <Box flex="1 1 20rem" minW={0}>
      {trail && <Trail name={nameOf(page)} />}
      <HStack gap={3} wrap="wrap">
        <Heading as="h1" size="xl" overflowWrap="anywhere">
          {visible(nameOf(page))}
        </Heading>
        <VerdictBadge state={page.state} reason={page.reason} />
        <ActivityBadges line={page} />
      </HStack>
      <Text fontSize="sm" color="fg.muted" data-testid="verdict-reason">
        {page.state === "healthy" || page.reason === "Not verified" ? "" : `${page.reason}. `}
        {page.verified_at ? (
          <>
            Last verified <Age at={page.verified_at} />
          </>
        ) : (
          "Never verified"
        )}
        {page.archived_by && `. Archived by ${visible(page.archived_by)}`}
      </Text>
      <Files page={page} />
      <Links page={page} />
      <ReadOnly actions={page.actions} />
    </Box>
    <Flex direction="column" align={{ base: "flex-start", md: "flex-end" }} gap={1}>
      <HStack gap={2} wrap="wrap">
        <Act acting={acting} request={{ action: "run" }} />
        <Act acting={acting} request={{ action: "verify" }} />
        <Act acting={acting} request={{ action: "full", sections: [] }} label="Rebuild everything" />
        <Archive page={page} reload={reload} />
      </HStack>
      <AsOf at={asOf} />
    </Flex>
  </Flex>
);

const Totals = ({ page }: { page: SitemapPage }) => {
  const { report } = page;
  const dropped = sum(report.rows_dropped);
  return (
    <Tiles>
      <Tile name="URLs" value={count(page.urls)} help={`of ${counted(report.rows, "row")}`} />
      <Tile name="Files" value={count(page.shards)} help={shardChanges(report.shards)} />
      <Tile name="Size" value={bytes(page.file_bytes)} help={`${bytes(report.xml_bytes)} uncompressed`} />
      <Tile name="Generation" value={count(page.generation)} help={report.committed_at ? `Published ${ago(report.committed_at, Date.now())}` : "–"} />
      <Tile name="Last successful run" value={<Age at={page.at} />} help={page.result === "unchanged" ? "Nothing had changed" : " "} />
      <Tile name="Age of the data" value={page.freshness.age_s === null ? "–" : duration(page.freshness.age_s)} help={freshnessText(page)} />
      <Tile name="Rows dropped" value={count(dropped)} help={percent(dropped, report.rows)} />
      {Object.entries(extensionsOf(report.sections)).map(([kind, number]) => (
        <Tile key={kind} name={EXTENSIONS[kind] ?? kind} value={count(number)} />
      ))}
    </Tiles>
  );
};

interface Moment {
  at: string;
  dagId: string;
  runId: string;
  /** Position in the columns; undefined for a run that published nothing. */
  index?: number;
  label: string;
}

/** Runs in order of time: those that published, and those that failed or were blocked. */
const momentsOf = ({ columns, failures }: HistoryAnswer, timeZone: string | undefined): Moment[] =>
  [
    ...columns.at.map((at, index) => ({
      at,
      dagId: columns.dag_id[index] ?? "",
      index,
      label: `generation ${count(columns.generation[index] ?? 0)}, ${shortly(at, timeZone)}`,
      runId: columns.run_id[index] ?? "",
    })),
    ...failures.map((run) => ({
      at: run.at,
      dagId: run.dag_id,
      label: `${run.result === "refused" ? "blocked" : "failed"}, ${shortly(run.at, timeZone)}`,
      runId: run.run_id,
    })),
  ].sort((one, other) => Date.parse(one.at) - Date.parse(other.at));

const History = ({ asset, stamp }: { asset: string; stamp: string }) => {
  const { data, error, reload } = useGet<HistoryAnswer>("sitemap/history", { asset, limit: 1000, stamp }, undefined, true);
  const timeZone = useZone();
  const navigate = useNavigate();
  if (error && !data) return <Failure error={error} retry={reload} />;
  if (!data) return <Waiting what="history" />;
  const moments = momentsOf(data, timeZone);
  if (!moments.length) return <Note>No run has published this sitemap yet.</Note>;
  const { columns } = data;
  const pointsOf = (valueOf: (index: number) => number | null | undefined): ChartPoint[] =>
    moments.map(({ index, label }) => ({ failed: index === undefined, label, value: index === undefined ? null : (valueOf(index) ?? null) }));
  const open = (position: number) => {
    const moment = moments[position];
    if (moment?.runId) void navigate(runTabOf(moment.dagId, moment.runId));
  };
  const written = (index: number) => (columns.rewritten[index] ?? 0) + (columns.created[index] ?? 0) + (columns.repaired[index] ?? 0);
  return (
    <>
      <Grid templateColumns="repeat(auto-fill, minmax(min(100%, 19rem), 1fr))" gap={6}>
        <Chart title="URLs" points={pointsOf((index) => columns.urls[index])} format={(value) => count(Math.round(value))} onOpen={open} />
        <Chart title="Files written" points={pointsOf(written)} format={count} bars palette="teal" onOpen={open} />
        <Chart title="Rows dropped" points={pointsOf((index) => columns.dropped[index])} format={count} bars palette="orange" onOpen={open} />
        <Chart title="Run time" points={pointsOf((index) => columns.seconds[index])} format={duration} bars palette="purple" onOpen={open} />
        <Chart title="Bytes written" points={pointsOf((index) => columns.bytes_written[index])} format={bytes} bars palette="cyan" onOpen={open} />
        <Chart title="Size of all files" points={pointsOf((index) => columns.file_bytes[index])} format={bytes} palette="gray" onOpen={open} />
      </Grid>
      <Text color="fg.muted" fontSize="sm" mt={3}>
        {counted(moments.length, "run")}, oldest on the left{data.before ? "; earlier ones are not shown" : ""}. A red cross is a run that failed or was blocked; click a point to open its run. Times are in{" "}
        {when(Date.now(), timeZone).split(" ").at(-1)}.
      </Text>
    </>
  );
};

const MapPanel = ({ page, acting }: { page: SitemapPage; acting: Acting }) => {
  const { data, error, reload } = useGet<ShardColumns | Unavailable>("sitemap/shards", { asset: page.asset });
  const [colour, setColour] = useParam("colour");
  const [shard, setShard] = useParam("shard");
  const mode: Mode = MODES.find((name) => name === colour) ?? "run";
  const rebuild = acting.ask({ action: "rebuild", shards: [""] }) && ((name: string) => acting.ask({ action: "rebuild", shards: [name] })?.());
  const maxUrls = Object.fromEntries(Object.entries(page.report.sections).map(([name, section]) => [name, section.max_urls]));
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
      {data && isUnavailable(data) && (
        <Alert.Root status="info" data-testid="map-unavailable">
          <Alert.Indicator />
          <Alert.Content minW={0}>
            <Alert.Title>Shard map unavailable</Alert.Title>
            <Alert.Description overflowWrap="anywhere">{visible(data.unavailable)}</Alert.Description>
          </Alert.Content>
        </Alert.Root>
      )}
      {data && !isUnavailable(data) && (
        <>
          {!data.promoted && (
            <Alert.Root status="warning" mb={3}>
              <Alert.Indicator />
              <Alert.Description>Generation {count(data.generation)} is committed, but not all of its files are public yet; the next run publishes them.</Alert.Description>
            </Alert.Root>
          )}
          <ShardMap asset={page.asset} answer={data} maxUrls={maxUrls} mode={mode} onMode={(name) => setColour(name === "run" ? undefined : name)} selected={shard} onSelect={setShard} rebuild={rebuild} />
        </>
      )}
    </Panel>
  );
};

const Generations = ({ asset, acting, stamp }: { asset: string; acting: Acting; stamp: string }) => {
  const [open, setOpen] = useState(false);
  const { data, error, reload } = useGet<GenerationsAnswer>("sitemap/generations", { asset, stamp }, undefined, true);
  if (error && !data) return <Failure error={error} retry={reload} />;
  if (!data) return <Waiting what="generations" />;
  if (isUnavailable(data)) return <Note>{visible(data.unavailable)}</Note>;
  if (!data.kept.length) return <Note>Generation {count(data.generation)} is the only one; there is none to roll back to.</Note>;
  const shown = open ? data.kept : data.kept.slice(0, 8);
  const canRollBack = acting.ask({ action: "rollback", generation: 1 }) !== undefined;
  return (
    <>
      <Wide
        label="Generations"
        below="44rem"
        names={[
          ["Generation", "end"],
          ["Published", "start"],
          ["URLs", "end"],
          ["Shards", "end"],
          ["Size", "end"],
          ["Rows dropped", "end"],
          ...(canRollBack ? ([["Action", "end"]] as [string, "end"][]) : []),
        ]}
      >
        {shown.map((kept) => (
          <Table.Row key={kept.generation}>
            <Figure>{count(kept.generation)}</Figure>
            <Table.Cell whiteSpace="nowrap">
              <When at={kept.committed_at} />
            </Table.Cell>
            <Figure>{count(kept.urls ?? 0)}</Figure>
            <Figure>{count(kept.shards ?? 0)}</Figure>
            <Figure>{bytes(kept.byte_size ?? 0)}</Figure>
            <Figure>{count(kept.dropped ?? 0)}</Figure>
            {canRollBack && (
              <Table.Cell textAlign="end">
                <Act acting={acting} request={{ action: "rollback", generation: kept.generation }} label={`Roll back to ${count(kept.generation)}`} size="xs" />
              </Table.Cell>
            )}
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

/** Panels about what was published; a sitemap that was never published has none of them. */
const Published = ({ page, acting, stamp }: { page: SitemapPage; acting: Acting; stamp: string }) => {
  const { report, asset } = page;
  const issues = sum(report.rows_dropped) + sum(report.fields_fixed);
  return (
    <>
      <Panel title="History">
        <History asset={asset} stamp={stamp} />
      </Panel>
      <Panel title="Runs">
        <Runs asset={asset} stamp={stamp} />
      </Panel>
      <MapPanel key={`map ${stamp}`} page={page} acting={acting} />
      <Panel title="Sections">
        <Sections
          sections={report.sections}
          act={acting.ask({ action: "full", sections: [""] }) && ((name) => <Act acting={acting} request={{ action: "full", sections: [name] }} label="Rebuild section" size="xs" />)}
        />
        {page.sections_left_out > 0 && <Note>{counted(page.sections_left_out, "section")} did not fit into the event; the task’s log has them.</Note>}
        <Stages seconds={report.seconds} />
      </Panel>
      <Panel
        title="Validation issues"
        folds
        open={issues > 0}
        aside={
          issues > 0 && (
            <Button asChild size="xs" variant="outline">
              <a href={address("sitemap/issues.csv", { asset })} download="validation-issues.csv">
                Export CSV
              </a>
            </Button>
          )
        }
      >
        <Issues report={report} rules={page.rules} />
        {page.shortened.includes("samples") && <Note>The samples did not fit into the event; the publishing task’s log has them.</Note>}
      </Panel>
      <Panel title="Protocol limits">
        <Gauges gauges={page.gauges.slice(0, 13)} />
      </Panel>
      <Panel title="External changes" folds open={report.drift.length > 0}>
        <Drift drift={report.drift} at={page.event_at} />
      </Panel>
    </>
  );
};

export const SitemapView = ({ asset, trail = false }: { asset: string; trail?: boolean }) => {
  const { data: page, error, asOf, reload } = useGet<SitemapPage>("sitemap", { asset }, (latest) => (latest?.activity ? 4_000 : 20_000));
  const acting = useActions(asset, page?.actions ?? [], reload, (request) => {
    if (!page?.generation || (request.action !== "rollback" && request.action !== "allow")) return null;
    return <ChangesPreview asset={asset} from={page.generation} to={request.generation} />;
  });
  const [planned, setPlanned] = useParam("plan");
  useTitle(page && trail ? nameOf(page) : undefined);
  if (!page) {
    return (
      <>
        {trail && <Inner to={listPage}>Sitemaps</Inner>}
        {error ? <Failure error={error} retry={reload} /> : <Waiting what="the sitemap" />}
      </>
    );
  }
  const isPublished = page.generation > 0 || page.at !== null;
  const stamp = `${page.at ?? ""} ${page.run_id}`;
  return (
    <>
      {acting.dialog}
      <Head page={page} acting={acting} trail={trail} asOf={asOf} reload={reload} />
      {error && <Failure error={error} retry={reload} asOf={asOf} />}
      {acting.started && <Started key={acting.started.run_id} started={acting.started} onEnd={reload} />}
      {page.problem_list.length > 0 && (
        <Flex as="section" aria-label="Needs attention" direction="column" gap={2}>
          {page.problem_list.map((problem, index) => (
            <ProblemLine key={`${problem.kind} ${index}`} problem={problem} acting={acting} />
          ))}
        </Flex>
      )}
      {isPublished && <Totals page={page} />}
      {isPublished && <FindUrl asset={asset} />}
      {isPublished ? (
        <Published page={page} acting={acting} stamp={stamp} />
      ) : (
        <Panel title="Runs">
          <Runs asset={asset} stamp={stamp} />
        </Panel>
      )}
      <Panel title="Next run" aside={<Act acting={acting} request={{ action: "plan" }} />}>
        <NextPlan started={acting.started} planned={planned} onPlanned={setPlanned} />
      </Panel>
      <Panel key={`verification ${page.verification !== null}`} title="Verification" folds open={page.verification !== null}>
        {page.verification ? (
          <Verified found={page.verification} link />
        ) : (
          <Note>This sitemap has not been verified yet. Verifying reads every published file back and checks it against the protocol and the manifest.</Note>
        )}
      </Panel>
      {page.announces && (
        <Panel title="Search engines">
          <AnnouncementTable asset={asset} />
        </Panel>
      )}
      {isPublished && (
        <Panel title="Generations">
          <Generations asset={asset} acting={acting} stamp={stamp} />
        </Panel>
      )}
      <NotAvailable actions={page.actions} />
    </>
  );
};
