/** The tab of a DAG run: its plan and what came of it, live while its batches are being written. */

import { Alert, Box, Flex, HStack, Heading, Progress, Table, Text } from "@chakra-ui/react";
import { useEffect, useState } from "react";

import { useGet } from "../api";
import { bytes, count, counted, duration, percent, short, visible, when } from "../format";
import { Failure, Inner, Note, Page, Panel, State, Waiting, hasEnded, pageOf, runOf } from "../parts/basics";
import { Drift, Faults, Number, Plan, Sections, Stages, Tile, Tiles, Verified, Wide, shardChanges } from "../parts/report";
import type { Batch, Report, RunGroup, RunProgress, SitemapLine, Step } from "../types";

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

const Steps = ({ steps, now }: { steps: Step[]; now: number }) => (
  <HStack as="ol" listStyleType="none" wrap="wrap" gap={3} aria-label="Steps">
    {steps.map((step) => (
      <HStack as="li" key={step.task_id} borderWidth="1px" borderColor="border" borderRadius="md" px={3} py={1.5} fontSize="sm">
        <Text fontWeight="medium">{visible(step.task_id)}</Text>
        <State state={step.state} />
        <Text color="fg.muted">{took(step.start, step.end, now)}</Text>
        {step.tries > 1 && <Text color="fg.muted">try {count(step.tries)}</Text>}
      </HStack>
    ))}
  </HStack>
);

const Cells = ({ batches }: { batches: Batch[] }) => (
  <Flex wrap="wrap" gap="2px" role="img" aria-label={`${counted(batches.length, "batch").replace(/batchs$/u, "batches")} by state`}>
    {batches.map((batch) => (
      <Box
        key={batch.number}
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

const Batches = ({ group, now }: { group: RunGroup; now: number }) => {
  const { speed, batches } = group;
  const share = speed.rows_to_read ? speed.rows / speed.rows_to_read : speed.batches ? speed.done / speed.batches : 0;
  const listed = [...batches].sort((one, other) => ORDER.indexOf(one.state) - ORDER.indexOf(other.state) || one.number - other.number);
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
            {speed.seconds_left === null ? `${duration(speed.elapsed_s)} in all` : `about ${duration(speed.seconds_left)} left`}
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
          ["Time", "end"],
        ]}
      >
        {listed.slice(0, BATCHES_AT_FIRST).map((batch) => (
          <Table.Row key={batch.number}>
            <Table.Cell>{visible(batch.label)}</Table.Cell>
            <Table.Cell>
              <State state={batch.state} />
              {batch.tries > 1 ? ` try ${count(batch.tries)}` : ""}
            </Table.Cell>
            <Number>{batch.rows !== null ? count(batch.rows) : batch.rows_planned !== null ? `${count(batch.rows_planned)} planned` : "–"}</Number>
            <Number>{batch.urls !== null ? count(batch.urls) : "–"}</Number>
            <Number>{batch.dropped !== null ? count(batch.dropped) : "–"}</Number>
            <Number>{batch.bytes !== null ? bytes(batch.bytes) : "–"}</Number>
            <Number>{took(batch.start, batch.end, now)}</Number>
          </Table.Row>
        ))}
      </Wide>
      {listed.length > BATCHES_AT_FIRST && <Note>The first {count(BATCHES_AT_FIRST)} of {count(listed.length)}, what needs somebody on top.</Note>}
    </Flex>
  );
};

const Result = ({ report, rules }: { report: Report; rules: Record<string, string> }) => (
  <Flex direction="column" gap={4}>
    <Tiles>
      <Tile name="Result" value={<State state={report.result} />} help={report.action} />
      <Tile name="Generation" value={count(report.generation)} help={`before: ${count(report.previous_generation)}`} />
      <Tile name="URLs" value={count(report.urls)} help={`of ${counted(report.rows, "row")}`} />
      <Tile name="Shards" value={count(report.shards["total"] ?? 0)} help={shardChanges(report.shards)} />
      <Tile name="Rows read" value={count(report.rows_read)} help={percent(report.rows_read, report.rows)} />
      <Tile name="Written" value={bytes(report.bytes_written)} help={report.swept ? `${count(report.swept)} old files swept` : " "} />
    </Tiles>
    <Sections sections={report.sections} />
    <Stages seconds={report.seconds} />
    <Faults report={report} rules={rules} />
    {report.drift.length > 0 && <Drift drift={report.drift} />}
  </Flex>
);

const Group = ({ group, progress, now }: { group: RunGroup; progress: RunProgress; now: number }) => {
  const found = progress.reports.find(({ group_id }) => group_id === group.group_id);
  const failed = [
    ...group.steps.filter(({ state }) => state === "failed").map(({ task_id }) => task_id),
    ...group.batches.filter(({ state }) => state === "failed").map(({ label }) => label),
  ];
  const why = [...new Set(Object.values(group.failed))];
  return (
    <Panel title={group.group_id || "Sitemap"}>
      <Flex direction="column" gap={5}>
        <Steps steps={group.steps} now={now} />
        {group.refused.map((refusal, index) => (
          <Alert.Root key={index} status="error" data-testid="refusal">
            <Alert.Indicator />
            <Alert.Content minW={0}>
              <Alert.Title>Refused{refusal.guard ? ` by the guard ${visible(refusal.guard)}` : ""}</Alert.Title>
              <Alert.Description wordBreak="break-word">
                {visible(refusal.message)} Nothing was published.
                {refusal.permit && ` If the change is meant, let one run pass from the sitemap’s page, or trigger the DAG with allow = ["${visible(refusal.permit)}"].`}
              </Alert.Description>
            </Alert.Content>
          </Alert.Root>
        ))}
        {!group.refused.length && failed.length > 0 && (
          <Alert.Root status="error">
            <Alert.Indicator />
            <Alert.Description>
              {failed.slice(0, 5).map(visible).join(", ")} failed; what was published before stays as it was. {why.map((said) => `${visible(said)}${said.endsWith(".") ? "" : "."} `)}
              <Inner inAlert to={runOf(progress.dag_id, progress.run_id)}>
                Read the log
              </Inner>
              , then clear the task.
            </Alert.Description>
          </Alert.Root>
        )}
        {group.plan && (
          <Box>
            <Heading as="h3" size="sm" mb={2}>
              Plan
            </Heading>
            <Plan plan={group.plan} />
          </Box>
        )}
        {group.batches.length > 0 && (
          <Box>
            <Heading as="h3" size="sm" mb={2}>
              Batches
            </Heading>
            <Batches group={group} now={now} />
          </Box>
        )}
        {group.verifications.map((verification) => (
          <Box key={verification.run_id}>
            <Heading as="h3" size="sm" mb={2}>
              Verification
            </Heading>
            <Verified found={verification} />
          </Box>
        ))}
        {found && (
          <Box>
            <Heading as="h3" size="sm" mb={2}>
              What came of it
            </Heading>
            <Result report={found.report} rules={found.rules} />
          </Box>
        )}
      </Flex>
    </Panel>
  );
};

export const RunTab = ({ dagId, runId }: { dagId: string; runId: string }) => {
  const path = `dags/${encodeURIComponent(dagId)}`;
  const { data, error, reload } = useGet<RunProgress>(`${path}/runs/${encodeURIComponent(runId)}`, {}, (latest) =>
    latest && hasEnded(latest.state) ? undefined : 2_000,
  );
  const sitemaps = useGet<{ sitemaps: SitemapLine[] }>(`${path}/sitemaps`).data?.sitemaps ?? [];
  const running = data !== undefined && !hasEnded(data.state);
  const now = useNow(running);
  return (
    <Page>
      {error && <Failure error={error} retry={reload} />}
      {!data && !error && <Waiting what="the run" />}
      {data && (
        <>
          <HStack gap={4} wrap="wrap" fontSize="sm" data-testid="run-head">
            <State state={data.state} />
            <Text fontSize="sm">
              started {when(data.start)}, {running ? "running for" : "took"} {took(data.start, data.end, now)}
              {data.by ? `, triggered by ${visible(data.by)}` : ""}
            </Text>
            {Object.keys(data.conf).length > 0 && (
              <Text fontSize="sm" color="fg.muted" wordBreak="break-word">
                with {visible(JSON.stringify(data.conf))}
              </Text>
            )}
            {sitemaps.map((line) => (
              <Inner key={line.asset} to={pageOf(line.asset)}>
                Page of the sitemap
              </Inner>
            ))}
          </HStack>
          {data.groups.map((group) => (
            <Group key={group.group_id} group={group} progress={data} now={now} />
          ))}
          {!data.groups.length && <Note>{running ? "No sitemap task has been scheduled in this run yet." : "This run had no sitemap task."}</Note>}
        </>
      )}
    </Page>
  );
};
