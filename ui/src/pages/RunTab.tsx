/** The tab of a DAG run: its plan and its result, live while its batches are being written. */

import { Box, Flex, HStack, Heading, Progress, Table, Text } from "@chakra-ui/react";
import { type ReactNode, useEffect, useState } from "react";

import { useGet } from "../api";
import { bytes, count, counted, duration, percent, sentence, short, visible } from "../format";
import { AsOf, Failure, Inner, LeftOut, Logs, Message, Note, Page, Panel, State, Waiting, When, hasEnded, partOf } from "../parts/basics";
import { Drift, Issues, Number, Plan, Sections, Stages, Tile, Tiles, Verified, Wide, shardChanges } from "../parts/report";
import { logOf, pageOf, progressOf } from "../routes";
import type { BatchProgress, DagSitemaps, RunGroup, RunProgress, RunReport, TaskStep } from "../types";
import { nameOf } from "./SitemapList";

const BATCHES_AT_FIRST = 40;

const COLOURS: Record<string, string> = {
  failed: "red.500",
  queued: "gray.400",
  running: "blue.500",
  scheduled: "gray.300",
  skipped: "gray.300",
  success: "green.500",
  up_for_retry: "orange.500",
  upstream_failed: "orange.400",
};

const useNow = (running: boolean) => {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!running) return undefined;
    const timer = setInterval(() => setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, [running]);
  return now;
};

const took = (start: string | null, end: string | null, now: number) =>
  start ? duration(Math.max(0, ((end ? Date.parse(end) : now) - Date.parse(start)) / 1000)) : "–";

const Steps = ({ steps, now, run }: { steps: TaskStep[]; now: number; run: RunProgress }) => (
  <HStack as="ol" listStyleType="none" wrap="wrap" gap={3} aria-label="Steps">
    {steps.map((step) => (
      <HStack as="li" key={partOf(step)} borderWidth="1px" borderColor="border" borderRadius="md" px={3} py={1.5} fontSize="sm">
        <Inner to={logOf(run.dag_id, run.run_id, step.task_id, step.map_index)}>{partOf(step)}</Inner>
        <State state={step.state} />
        <Text color="fg.muted">{took(step.start, step.end, now)}</Text>
        {step.tries > 1 && <Text color="fg.muted">Try {count(step.tries)}</Text>}
      </HStack>
    ))}
  </HStack>
);

/** An estimate, rounded so that it does not jump with every batch. */
const roughly = (seconds: number): string => duration(seconds < 60 ? Math.ceil(seconds / 10) * 10 : seconds < 600 ? Math.ceil(seconds / 60) * 60 : Math.ceil(seconds / 300) * 300);

const Cells = ({ batches }: { batches: BatchProgress[] }) => (
  <Flex wrap="wrap" gap="2px" role="img" aria-label={`${counted(batches.length, "batch")} by state`}>
    {batches.map((batch) => (
      <Box
        key={batch.map_index}
        width={batches.length > 400 ? "6px" : "14px"}
        height={batches.length > 400 ? "6px" : "14px"}
        borderRadius="2px"
        bg={COLOURS[batch.state] ?? "gray.300"}
        title={`${visible(batch.label)}: ${batch.state}`}
      />
    ))}
  </Flex>
);

const ORDER = ["failed", "up_for_retry", "running", "queued", "scheduled", "upstream_failed", "success", "skipped"];

const Batches = ({ group, now, run }: { group: RunGroup; now: number; run: RunProgress }) => {
  const { speed, batches } = group;
  const share = speed.rows_to_read ? speed.rows / speed.rows_to_read : speed.batches ? speed.done / speed.batches : 0;
  const listed = [...batches].sort((one, other) => ORDER.indexOf(one.state) - ORDER.indexOf(other.state) || one.map_index - other.map_index);
  return (
    <Flex direction="column" gap={3}>
      <Progress.Root value={Math.min(100, 100 * share)} colorPalette={speed.failed ? "red" : share >= 1 ? "green" : "blue"} data-testid="run-progress">
        <Flex justify="space-between" gap={3} wrap="wrap" fontSize="sm">
          <Progress.Label>
            {count(speed.done)} of {count(speed.batches)} batches done
            {speed.running ? `, ${count(speed.running)} running` : ""}
            {speed.failed ? `, ${count(speed.failed)} failed` : ""}
          </Progress.Label>
          <Text>
            {speed.rows_to_read ? `${short(speed.rows)} of ${short(speed.rows_to_read)} rows · ` : ""}
            {speed.urls_a_second ? `${short(speed.urls_a_second)} URLs/s · ` : ""}
            {speed.seconds_left === null ? `${duration(speed.elapsed_s)} elapsed` : `about ${roughly(speed.seconds_left)} left`}
          </Text>
        </Flex>
        <Progress.Track mt={1}>
          <Progress.Range />
        </Progress.Track>
      </Progress.Root>
      <Cells batches={batches} />
      <Wide
        label="Batches"
        names={[
          ["Batch", "start"],
          ["State", "start"],
          ["Rows", "end"],
          ["URLs", "end"],
          ["Rows dropped", "end"],
          ["Written", "end"],
          ["Run time", "end"],
        ]}
      >
        {listed.slice(0, BATCHES_AT_FIRST).map((batch) => (
          <Table.Row key={batch.map_index}>
            <Table.Cell>
              <Inner to={logOf(run.dag_id, run.run_id, batch.task_id, batch.map_index)}>{visible(batch.label)}</Inner>
            </Table.Cell>
            <Table.Cell>
              <State state={batch.state} />
              {batch.tries > 1 ? ` Try ${count(batch.tries)}` : ""}
            </Table.Cell>
            <Number>{batch.rows !== null ? count(batch.rows) : batch.rows_planned !== null ? `${count(batch.rows_planned)} planned` : "–"}</Number>
            <Number>{batch.urls !== null ? count(batch.urls) : "–"}</Number>
            <Number>{batch.dropped !== null ? count(batch.dropped) : "–"}</Number>
            <Number>{batch.bytes !== null ? bytes(batch.bytes) : "–"}</Number>
            <Number>{took(batch.start, batch.end, now)}</Number>
          </Table.Row>
        ))}
      </Wide>
      {listed.length > BATCHES_AT_FIRST && <Note>First {count(BATCHES_AT_FIRST)} of {count(listed.length)}, failed and running first.</Note>}
    </Flex>
  );
};

const Result = ({ report, issues, at, sections_left_out }: RunReport) => (
  <Flex direction="column" gap={4}>
    <Tiles>
      <Tile name="Result" value={<State state={report.result} />} help={report.action === "build" ? " " : sentence(visible(report.action))} />
      <Tile name="Generation" value={count(report.generation)} help={report.previous_generation ? `Previous: ${count(report.previous_generation)}` : "First build"} />
      <Tile name="URLs" value={count(report.urls)} help={`of ${counted(report.rows, "row")}`} />
      <Tile name="Files" value={count(report.shards.total)} help={shardChanges(report.shards)} />
      <Tile name="Rows read" value={count(report.rows_read)} help={percent(report.rows_read, report.rows)} />
      <Tile name="Written" value={bytes(report.bytes_written)} help={report.swept ? `${counted(report.swept, "old file")} removed` : " "} />
    </Tiles>
    <Sections sections={report.sections} until={report.finished_at} />
    {sections_left_out > 0 && <LeftOut number={sections_left_out} />}
    <Stages seconds={report.seconds} />
    <Issues issues={issues} />
    {report.drift.length > 0 && <Drift drift={report.drift} at={at} />}
  </Flex>
);

/** Tasks that failed for other reasons than a verification's findings, and why. */
const FailedTasks = ({ group, run }: { group: RunGroup; run: RunProgress }) => {
  const failed = [...group.steps, ...group.batches].filter(({ kind, state }) => state === "failed" && kind !== "verify");
  const names = [...new Set(failed.map(({ task_id }) => task_id))];
  const why = [...new Set(Object.values(group.failed))];
  if (!failed.length || (group.refused.length && !why.length)) return null;
  return (
    <Message status="error" data-testid="failed-tasks" title={`${counted(failed.length, "task")} failed: ${names.map(visible).join(", ")}`}>
      {why.map((reason) => (
        <Text key={reason} whiteSpace="pre-line">
          {sentence(visible(reason))}
        </Text>
      ))}
      <Text>Sections that were not published stay as they were. Read the log, then clear the task.</Text>
      <HStack gap={3} wrap="wrap" mt={1}>
        <Logs inAlert dagId={run.dag_id} runId={run.run_id} tasks={failed.slice(0, 5)} />
      </HStack>
    </Message>
  );
};

const Refusals = ({ group, run }: { group: RunGroup; run: RunProgress }) => (
  <>
    {group.refused.map((refusal, index) => (
      <Message key={index} status="error" data-testid="refusal" whiteSpace="pre-line" title={`Blocked by a safety check${refusal.guard ? ` (${visible(refusal.guard)})` : ""}`}>
        {sentence(visible(refusal.message))} {run.dry_run ? `This was a dry run; a real run would ${refusal.section ? "block at least this section" : "be blocked as well"}.` : "What was published before stays public."}
        {refusal.permit && ` If the change is intended, override the check from the sitemap’s page, or trigger the DAG with allow = ["${visible(refusal.permit)}"].`}
      </Message>
    ))}
  </>
);

const Part = ({ name, children }: { name: string; children: ReactNode }) => (
  <Box>
    <Heading as="h3" size="sm" mb={2}>
      {name}
    </Heading>
    {children}
  </Box>
);

const Group = ({ group, progress, now }: { group: RunGroup; progress: RunProgress; now: number }) => {
  const published = progress.reports.find(({ group_id }) => group_id === group.group_id);
  return (
    <Panel title={group.group_id || "Sitemap"}>
      <Flex direction="column" gap={5}>
        <Steps steps={group.steps} now={now} run={progress} />
        <Refusals group={group} run={progress} />
        <FailedTasks group={group} run={progress} />
        {group.plan && (
          <Part name="Plan">
            <Plan plan={group.plan} />
          </Part>
        )}
        {group.batches.length > 0 && (
          <Part name="Batches">
            <Batches group={group} now={now} run={progress} />
          </Part>
        )}
        {group.verifications.map((verification) => (
          <Part key={partOf(verification)} name={group.verifications.length > 1 ? partOf(verification) : "Verification"}>
            <Verified found={verification} />
          </Part>
        ))}
        {published && (
          <Part name="Result">
            <Result {...published} />
          </Part>
        )}
      </Flex>
    </Panel>
  );
};

const HeadLine = ({ run, now }: { run: RunProgress; now: number }) => {
  const running = !hasEnded(run.state);
  return (
    <HStack gap={4} wrap="wrap" fontSize="sm" data-testid="run-head">
      <State state={run.state} />
      {run.dry_run && <State state="planned" />}
      <Text>
        Started <When at={run.start} />, {running ? "running for" : "took"} {took(run.start, run.end, now)}, triggered by {visible(run.trigger)}
      </Text>
      {Object.keys(run.conf).length > 0 && (
        <Text color="fg.muted" overflowWrap="anywhere">
          Params: {visible(JSON.stringify(run.conf))}
        </Text>
      )}
    </HStack>
  );
};

export const RunTab = ({ dagId, runId }: { dagId: string; runId: string }) => {
  const { data, error, asOf, reload } = useGet<RunProgress>(progressOf(dagId, runId), {}, (latest) =>
    latest && hasEnded(latest.state) ? undefined : 2_000,
  );
  const sitemaps = useGet<DagSitemaps>(`dags/${encodeURIComponent(dagId)}/sitemaps`).data?.sitemaps ?? [];
  const running = data !== undefined && !hasEnded(data.state);
  const now = useNow(running);
  return (
    <Page>
      {error && <Failure error={error} retry={reload} asOf={asOf} />}
      {!data && !error && <Waiting what="the run" />}
      {data && (
        <>
          <Flex justify="space-between" gap={3} wrap="wrap">
            <HeadLine run={data} now={now} />
            <AsOf at={asOf} />
          </Flex>
          <HStack gap={4} wrap="wrap" fontSize="sm">
            {sitemaps.map((line) => (
              <Inner key={line.asset} to={pageOf(line.asset)}>
                {sitemaps.length > 1 ? `Sitemap page: ${visible(nameOf(line))}` : "Sitemap page"}
              </Inner>
            ))}
          </HStack>
          {data.groups.map((group) => (
            <Group key={group.group_id} group={group} progress={data} now={now} />
          ))}
          {!data.groups.length && <Note>{running ? "No sitemap task is scheduled in this run yet." : "This run had no sitemap task."}</Note>}
        </>
      )}
    </Page>
  );
};
