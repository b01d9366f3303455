/** One sitemap: is it fresh, whole and sound, by section? What needs attention, and, folded, everything else. */

import { Box, Button, Flex, Grid, HStack, Heading, Table, Text } from "@chakra-ui/react";
import { type ReactNode, useCallback, useEffect, useMemo, useState } from "react";
import { useNavigate } from "react-router-dom";

import { type ApiError, address, post, useGet } from "../api";
import { ago, bytes, count, counted, duration, few, percent, sentence, shortly, sum, visible } from "../format";
import { Act, type Acting, NotAvailable, ReadOnly, Started, useActions } from "../parts/Actions";
import { AnnouncementTable } from "../parts/AnnouncementTable";
import { ActivityBadges, Again, Age, AsOf, Export, Failure, Fold, Inner, LeftOut, Logs, Message, More, Note, Option, Outer, Panel, State, Trail, VerdictBadge, Waiting, When, settled } from "../parts/basics";
import { ChangesPreview } from "../parts/ChangesPreview";
import { Chart, type ChartPoint } from "../parts/charts";
import { FindUrl } from "../parts/FindUrl";
import { GuardHistory } from "../parts/GuardHistory";
import { Drift, Gauges, Issues, type Fact, Facts, Number as Figure, Sections, Stages, Verified, Wide, inUnit, isUnfinished, shardChanges } from "../parts/report";
import { Runs } from "../parts/Runs";
import { SectionStates, affected, leftOut } from "../parts/SectionStates";
import { ShardMap } from "../parts/ShardMap";
import { dagOf, listPage, questionOf, runTabOf } from "../routes";
import { useParam } from "../search";
import { MODES, type Mode } from "../shardmap";
import { useTitle } from "../title";
import { type FetchTimesAnswer, type Gauge, type GenerationsAnswer, type History as HistoryAnswer, type Problem, type ShardColumns, type SitemapPage, type Unavailable, isUnavailable } from "../types";
import { useZone } from "../zone";
import { NextPlan } from "./NextPlan";
import { nameOf } from "./SitemapList";

const PROBLEMS_AT_FIRST = 3;

/** The sections whose observed dates a safety check kept from moving: in place of an override, their URLs can keep their dates. */
const redated = (permits: string[]): string[] => permits.filter((permit) => permit.startsWith("redated:")).map((permit) => permit.slice("redated:".length));

const overrideLabel = (permits: string[]): string => `Override ${few(permits.map((permit) => `“${permit}”`))} for one run`;

const ProblemLine = ({ problem, acting }: { problem: Problem; acting: Acting }) => {
  const detail = problem.detail && <Text whiteSpace="pre-line">{sentence(visible(problem.detail))}</Text>;
  return (
    <Message status={problem.severity} data-testid={`problem-${problem.kind}`} px={3} py={2} title={sentence(visible(problem.title))}>
      {problem.severity === "error" && detail}
      {problem.next_step && (
        <Text>
          <Text as="span" fontWeight="semibold">
            Next step:{" "}
          </Text>
          {visible(problem.next_step)}
        </Text>
      )}
      {(problem.run_id || problem.permits.length > 0) && (
        <HStack mt={1} gap={3} wrap="wrap">
          {problem.run_id && (
            <Inner inAlert to={runTabOf(problem.dag_id, problem.run_id)}>
              Open the run
            </Inner>
          )}
          {problem.questions.map((question) => (
            <Inner inAlert key={question.run_id} to={questionOf(question.dag_id, question.run_id)}>
              Answer for {visible(question.section)}
            </Inner>
          ))}
          <Logs inAlert dagId={problem.dag_id} runId={problem.run_id} tasks={problem.failed_tasks} />
          {redated(problem.permits).length > 0 && <Act acting={acting} request={{ action: "keep", sections: redated(problem.permits) }} label={`Keep the dates of ${few(redated(problem.permits))}`} />}
          {problem.permits.length > 0 && <Act acting={acting} request={{ action: "allow", permits: problem.permits, run: problem.store_run }} label={overrideLabel(problem.permits)} />}
        </HStack>
      )}
      {problem.severity !== "error" && detail && (
        <details>
          <summary>Details</summary>
          {detail}
        </details>
      )}
    </Message>
  );
};

/** The first problems; more on request, so that what follows stays near. */
const Problems = ({ problems, label, acting }: { problems: Problem[]; label: string; acting: Acting }) => {
  const line = (problem: Problem, index: number) => <ProblemLine key={`${problem.kind} ${index}`} problem={problem} acting={acting} />;
  const more = problems.slice(PROBLEMS_AT_FIRST);
  if (!problems.length) return null;
  return (
    <Flex as="section" aria-label={label} direction="column" gap={2}>
      {problems.slice(0, PROBLEMS_AT_FIRST).map(line)}
      {more.length > 0 && (
        <details>
          <summary>{count(more.length)} more</summary>
          <Flex direction="column" gap={2} mt={2}>
            {more.map(line)}
          </Flex>
        </details>
      )}
    </Flex>
  );
};

/** Hides an orphaned sitemap from the list, or shows it again. */
const Archive = ({ page, reload }: { page: SitemapPage; reload: () => void }) => {
  const [error, setError] = useState<ApiError>();
  if (!page.may_archive) return null;
  if (page.named_by.length && !page.archived) return <Note>To archive it, remove it first from the DAGs that name it: {few(page.named_by)}.</Note>;
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

/** The verdict as a sentence; where it is about some of the sections, it names them. */
export const verdictText = (page: Pick<SitemapPage, "sections" | "state" | "reason" | "report" | "sections_left_out">): string => {
  const [known, missing] = [page.sections.length, leftOut(page)];
  if (page.state === "healthy" && missing) return `${count(known)} of ${counted(known + missing, "section")} are known, and healthy.`;
  if (page.state === "healthy") return known > 1 ? `All ${count(known)} sections are healthy.` : "";
  if (page.reason === "Not verified") return "";
  const which = affected(page);
  return `${sentence(visible(page.reason))}${which && `: ${which}`}.`;
};

const objectiveText = ({ freshness }: SitemapPage): string => (freshness.objective_s === null ? "No objective" : `Objective: ${duration(freshness.objective_s)}`);

const liveText = ({ changed_outside: changed, committed_at }: SitemapPage): string => {
  const at = changed ? changed.at : committed_at;
  const age = at ? ` ${ago(at, Date.now())}` : "";
  return changed ? `Changed outside Airflow${age}: ${visible(changed.action)}` : `Published${age}`;
};

/** Addresses of one kind; the first three, and the others on request. */
const Addresses = ({ label, urls }: { label: string; urls: string[] }) => {
  const [more, setMore] = useState(false);
  const shown = more ? urls : urls.slice(0, 3);
  if (!urls.length) return null;
  return (
    <HStack gap={3} wrap="wrap" fontSize="sm" mt={1} aria-label={label} role="group">
      <Text color="fg.muted">{label}</Text>
      {shown.map((url) => (
        <Outer key={url} href={url} />
      ))}
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
    <HStack columnGap={4} rowGap={0} wrap="wrap" fontSize="sm" mt={1}>
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
      <Text fontSize="sm" data-testid="verdict-reason">
        {verdictText(page)} {page.verified_at ? <>Last passed verification <Age at={page.verified_at} />.</> : page.verification ? "No verification has passed." : "Never verified."}
        {page.archived_by && ` Archived by ${visible(page.archived_by)}.`}
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

const checkedText = ({ verification: found }: SitemapPage): string => {
  if (!found) return "Not verified yet";
  if (found.files === null) return isUnfinished(found) ? "The last one did not finish" : "Passed";
  return found.errors + found.warnings ? `${counted(found.errors, "error")}, ${counted(found.warnings, "warning")}` : `${counted(found.files, "file")}, no issues`;
};

/** Fresh, whole, sound, and which generation is live. */
const factsOf = (page: SitemapPage): Fact[] => {
  const { report, verification } = page;
  const isUnknown = isUnfinished(verification);
  const [dropped, expired] = [sum(report.rows_dropped), sum(report.rows_expired)];
  const without = [dropped ? `${count(dropped)} dropped (${percent(dropped, report.rows)})` : "", expired ? `${count(expired)} expired` : ""].filter(Boolean);
  return [
    { help: objectiveText(page), name: "Data read", value: <Age at={page.data_read_at} /> },
    { help: `in ${counted(page.sections.length + leftOut(page), "section")}`, name: "Newest lastmod", value: <Age at={page.newest_lastmod} never="None" /> },
    { help: [`of ${counted(report.rows, "row")}`, ...without].join("; "), name: "URLs", value: count(page.urls) },
    { help: verification ? checkedText(page) : "Verify reads every file back", name: "Verified", value: <Age at={(isUnknown ? null : verification?.end) ?? page.verified_at} never="Never" />, warns: isUnknown || (verification?.errors ?? 0) > 0 },
    { help: liveText(page), name: "Generation", value: count(page.generation), warns: page.changed_outside !== null },
  ];
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
      label: `generation ${count(columns.generation[index] ?? 0)} (${shortly(at, timeZone)})`,
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
  const { data, instead, stale } = settled(useGet<HistoryAnswer>("sitemap/history", { asset, limit: 1000, stamp }, undefined, true), "history");
  const timeZone = useZone();
  const navigate = useNavigate();
  if (instead) return instead;
  const moments = momentsOf(data, timeZone);
  if (!moments.length) return stale ?? <Note>No run has published this sitemap yet.</Note>;
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
      {stale}
      <Grid templateColumns="repeat(auto-fill, minmax(min(100%, 19rem), 1fr))" gap={6}>
        <Chart title="URLs" points={pointsOf((index) => columns.urls[index])} format={(value) => count(Math.round(value))} onOpen={open} />
        <Chart title="Files written" points={pointsOf(written)} format={count} bars palette="teal" onOpen={open} />
        <Chart title="Rows dropped" points={pointsOf((index) => columns.dropped[index])} format={count} bars palette="orange" onOpen={open} />
        <Chart title="Run time" points={pointsOf((index) => columns.seconds[index])} format={duration} bars palette="purple" onOpen={open} />
      </Grid>
      <Note mt={3}>
        {counted(moments.length, "run")}, oldest on the left{data.before ? "; earlier ones are not shown" : ""}. A red cross is a run that failed or was blocked; click a point to open its run. Times are in {timeZone ?? Intl.DateTimeFormat().resolvedOptions().timeZone}.
      </Note>
    </>
  );
};

type Times = Record<string, number[]>;

/** Loads the last fetches of the shards, lets the user choose the crawler, and says what they are. */
const FetchTimes = ({ asset, onTimes }: { asset: string; onTimes: (times: Times | undefined) => void }) => {
  const [crawler, setCrawler] = useParam("crawler");
  const { data, instead } = settled(useGet<FetchTimesAnswer>("sitemap/shards/fetches", { asset }), "fetches");
  const answer = data && !isUnavailable(data) ? data : undefined;
  const crawlers = Object.keys(answer?.crawlers ?? {});
  const chosen = crawlers.find((name) => name === (crawler ?? "google")) ?? crawlers[0];
  useEffect(() => {
    onTimes(chosen === undefined ? undefined : answer?.crawlers[chosen]);
  }, [answer, chosen, onTimes]);
  if (instead) return instead;
  if (chosen === undefined) return <Note>No fetch is known: no SitemapFetchesOperator has read an access log with one.</Note>;
  return (
    <HStack role="group" aria-label="Crawler" gap={1} wrap="wrap" mb={2}>
      {crawlers.map((name) => (
        <Option key={name} chosen={name === chosen} onClick={() => setCrawler(name === "google" ? undefined : name)}>
          {visible(name)}
        </Option>
      ))}
      <Note>Fetches in the access log since {visible(data.since)}.</Note>
    </HStack>
  );
};

const MapOf = ({ page, acting }: { page: SitemapPage; acting: Acting }) => {
  const { data, error, reload } = useGet<ShardColumns | Unavailable>("sitemap/shards", { asset: page.asset });
  const [colour, setColour] = useParam("colour");
  const [shard, setShard] = useParam("shard");
  const [times, setTimes] = useState<Times>();
  const wanted: Mode = MODES.find((name) => name === colour) ?? "run";
  const mode = wanted === "fetched" && !times ? "run" : wanted;
  const columns = useMemo(() => (data && !isUnavailable(data) && times ? { ...data, sections: data.sections.map((each) => ({ ...each, fetched_at: times[each.name] ?? [] })) } : data), [data, times]);
  const rebuild = acting.ask({ action: "rebuild", shards: [""] }) && ((name: string) => acting.ask({ action: "rebuild", shards: [name] })?.());
  const maxUrls = useMemo(() => Object.fromEntries(page.sections.map(({ name, max_urls }) => [name, max_urls])), [data]);
  return (
    <>
      {error && <Failure error={error} retry={reload} />}
      {!data && !error && <Waiting what="the manifest" />}
      {data && isUnavailable(data) && (
        <Message status="info" data-testid="map-unavailable" title="Shard map unavailable" aside={<Again retry={reload} />}>
          {visible(data.unavailable)}
        </Message>
      )}
      {data && !isUnavailable(data) && (
        <>
          {!data.promoted && (
            <Message status="warning" mb={3}>
              Generation {count(data.generation)} is committed, but not all of its files are public yet; the next run publishes them.
            </Message>
          )}
          {wanted === "fetched" && <FetchTimes asset={page.asset} onTimes={setTimes} />}
          <ShardMap asset={page.asset} answer={columns as ShardColumns} maxUrls={maxUrls} mode={mode} onMode={(name) => setColour(name === "run" ? undefined : name)} selected={shard} onSelect={setShard} rebuild={rebuild} />
        </>
      )}
    </>
  );
};

const Generations = ({ asset, acting, stamp }: { asset: string; acting: Acting; stamp: string }) => {
  const [open, setOpen] = useState(false);
  const { data, instead, stale } = settled(useGet<GenerationsAnswer>("sitemap/generations", { asset, stamp }, undefined, true), "generations");
  if (instead) return instead;
  if (!data.kept.length) return stale ?? <Note>Generation {count(data.generation)} is the only one; there is none to roll back to.</Note>;
  const shown = open ? data.kept : data.kept.slice(0, 8);
  const canRollBack = acting.ask({ action: "rollback", generation: 1 }) !== undefined;
  return (
    <>
      {stale}
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
            <Figure>{count(kept.urls)}</Figure>
            <Figure>{count(kept.shards)}</Figure>
            <Figure>{bytes(kept.byte_size)}</Figure>
            <Figure>{count(kept.dropped)}</Figure>
            {canRollBack && (
              <Table.Cell textAlign="end">
                <Act acting={acting} request={{ action: "rollback", generation: kept.generation }} label={`Roll back to ${count(kept.generation)}`} size="xs" />
              </Table.Cell>
            )}
          </Table.Row>
        ))}
      </Wide>
      {shown.length < data.kept.length && (
        <More onClick={() => setOpen(true)}>Show all {count(data.kept.length)}</More>
      )}
    </>
  );
};

const issuesText = (page: SitemapPage): string => {
  const [dropped, fixed] = [sum(page.report.rows_dropped), sum(page.report.fields_fixed)];
  const parts = [dropped ? `${counted(dropped, "row")} dropped` : "", fixed ? `${counted(fixed, "field")} fixed` : ""];
  return parts.filter(Boolean).join(", ") || "None";
};

const GAUGES = 13;

/** For the order: the fullest first, but last the files' URLs, of which a file is meant to be full. */
const useOf = ({ used, limit, unit }: Gauge): number => used / limit + (unit === "URLs" ? 0 : 2);

const fullest = (gauge: Gauge | undefined): string => (gauge ? `${visible(gauge.name)}: ${percent(gauge.used, gauge.limit)} of ${inUnit(gauge.limit, gauge.unit)}` : "");

const nextText = (page: SitemapPage): ReactNode => {
  const next = page.dags.map(({ next_run }) => next_run).filter((at) => at !== null);
  if (page.paused) return "Paused: no next run";
  return next.length ? <When at={next.sort()[0]} /> : "No scheduled time";
};

/** Folded panels about what was published; a sitemap that was never published has none of them. */
const Published = ({ page, acting, stamp, inMap }: { page: SitemapPage; acting: Acting; stamp: string; inMap: boolean }) => {
  const { report, asset } = page;
  const issues = sum(report.rows_dropped) + sum(report.fields_fixed);
  const gauges = [...page.gauges].sort((one, other) => useOf(other) - useOf(one));
  return (
    <>
      <Fold id="history" title="History" gist="URLs, files, rows and time of each run">
        <History asset={asset} stamp={stamp} />
      </Fold>
      <Fold id="map" title="Shard map" gist={counted(page.shards, "file")} open={inMap}>
        <MapOf key={stamp} page={page} acting={acting} />
      </Fold>
      <Fold id="rows" title="Rows and files" gist={`${counted(report.rows, "row")}, ${bytes(page.file_bytes)} (${bytes(report.xml_bytes)} uncompressed), ${shardChanges(report.shards).toLowerCase()}`}>
        <Sections
          until={page.report.finished_at}
          sections={report.sections}
          act={acting.ask({ action: "full", sections: [""] }) && ((name) => <Act acting={acting} request={{ action: "full", sections: [name] }} label="Rebuild section" size="xs" />)}
        />
        {page.sections_left_out > 0 && <LeftOut number={page.sections_left_out} />}
        <Stages seconds={report.seconds} />
      </Fold>
      <Fold
        id="issues"
        title="Validation issues"
        gist={issuesText(page)}
        aside={
          issues > 0 && (
            <Export href={address("sitemap/issues.csv", { asset })} />
          )
        }
      >
        <Issues issues={page.issues} />
        {page.shortened.includes("samples") && <Note>The samples did not fit into the event; the publishing task’s log has them.</Note>}
      </Fold>
      <Fold id="limits" title="Protocol limits" gist={fullest(gauges[0])}>
        <Gauges gauges={gauges.slice(0, GAUGES)} />
        {gauges.length > GAUGES && <Note mt={3}>{count(gauges.length - GAUGES)} more are not shown.</Note>}
      </Fold>
      <Fold id="drift" title="External changes" gist={report.drift.length ? counted(report.drift.length, "file") : "None at last publish"}>
        <Drift drift={report.drift} at={page.event_at} />
      </Fold>
    </>
  );
};

export const SitemapView = ({ asset, trail = false }: { asset: string; trail?: boolean }) => {
  const { data: page, error, asOf, reload } = useGet<SitemapPage>("sitemap", { asset }, (latest) => (latest?.activity ? 4_000 : 20_000));
  const acting = useActions(asset, page?.actions ?? [], reload, (request) => {
    if (!page?.generation || (request.action !== "rollback" && request.action !== "allow")) return null;
    if (request.action === "allow" && !request.run) return <Note>The blocked run did not record what it would publish. “Plan the next run” shows what would change.</Note>;
    return <ChangesPreview asset={asset} from={page.generation} to={request.generation} run={request.run} />;
  });
  const [planned, setPlanned] = useParam("plan");
  const [shard] = useParam("shard");
  const [compared] = useParam("compare");
  const [ends, setEnds] = useState(0);
  const onEnd = useCallback(() => {
    setEnds((before) => before + 1);
    reload();
  }, [reload]);
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
  const stamp = `${page.at ?? ""} ${page.run_id} ${page.generation}`;
  return (
    <>
      {acting.dialog}
      <Head page={page} acting={acting} trail={trail} asOf={asOf} reload={reload} />
      {error && <Failure error={error} retry={reload} asOf={asOf} />}
      {acting.started && <Started key={acting.started.run_id} started={acting.started} onEnd={onEnd} />}
      {isPublished && <Facts facts={factsOf(page)} />}
      <Problems problems={page.problem_list.filter(({ severity }) => severity !== "info")} label="Needs attention" acting={acting} />
      {compared && (
        <Panel title="Proposed change">
          <ChangesPreview asset={asset} run={compared} />
        </Panel>
      )}
      {(isPublished || page.sections.length > 0) && (
        <Panel title="Sections">
          <SectionStates page={page} />
        </Panel>
      )}
      <Problems problems={page.problem_list.filter(({ severity }) => severity === "info")} label="Notes" acting={acting} />
      {isPublished && <FindUrl asset={asset} />}
      <Flex direction="column" gap={2}>
        <Fold id="runs" title="Runs" open={!isPublished} gist={page.run_id && <>Last: {<State state={page.result} />}</>}>
          <Runs asset={asset} stamp={`${stamp} ${page.activity} ${ends}`} />
        </Fold>
        {isPublished && <Published page={page} acting={acting} stamp={stamp} inMap={shard !== undefined} />}
        <Fold id="next" title="Next run" gist={nextText(page)} aside={<Act acting={acting} request={{ action: "plan" }} />} open={planned !== undefined || acting.started?.action === "plan"}>
          <NextPlan started={acting.started} planned={planned} onPlanned={setPlanned} />
        </Fold>
        <Fold id="verification" title="Verification" gist={checkedText(page)}>
          {page.verification ? (
            <Verified found={page.verification} link />
          ) : (
            <Note>This sitemap has not been verified yet. Verifying reads every published file back and checks it against the protocol and the manifest.</Note>
          )}
        </Fold>
        {isPublished && (
          <Fold id="guards" title="Safety checks" gist="What was blocked, overridden or answered, and what canaries found">
            <GuardHistory asset={asset} stamp={stamp} />
          </Fold>
        )}
        {page.announces && (
          <Fold id="engines" title="Search engines" gist="What was announced, and what they returned">
            <AnnouncementTable asset={asset} />
          </Fold>
        )}
        {isPublished && (
          <Fold id="generations" title="Generations" gist={`Generation ${count(page.generation)} is live`}>
            <Generations asset={asset} acting={acting} stamp={stamp} />
          </Fold>
        )}
      </Flex>
      <NotAvailable actions={page.actions} />
    </>
  );
};
