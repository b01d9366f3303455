/** Every run of a sitemap, as a table. */

import { Flex, Table, Text } from "@chakra-ui/react";
import { useState } from "react";

import { type ApiError, get, useGet } from "../api";
import { count, duration, sentence, signed, visible } from "../format";
import { runTabOf } from "../routes";
import type { RunRow, RunTable } from "../types";
import { Failure, Inner, Logs, More, Note, State, When, settled } from "./basics";
import { Number as Figure, Wide } from "./report";

const AT_ONCE = 15;

const Row = ({ run }: { run: RunRow }) => (
  <Table.Row verticalAlign="top" data-testid="run-row">
    <Table.Cell minW="7em">
      <Inner to={runTabOf(run.dag_id, run.run_id)}>
        <When at={run.start} />
      </Inner>
    </Table.Cell>
    <Table.Cell>
      <State state={run.result} />
      {run.kind === "rollback" && (
        <Note fontSize="xs">
          Rollback
        </Note>
      )}
    </Table.Cell>
    <Table.Cell>{visible(run.trigger)}</Table.Cell>
    <Figure>{run.seconds === null ? "–" : duration(run.seconds)}</Figure>
    <Figure>{run.generation === null ? "–" : count(run.generation)}</Figure>
    <Figure>{run.urls === null ? "–" : count(run.urls)}</Figure>
    <Figure>{run.urls_delta === null ? "–" : signed(run.urls_delta)}</Figure>
    <Figure>{run.shards_written === null ? "–" : count(run.shards_written)}</Figure>
    <Table.Cell minW="10em" maxW="34em">
      {(run.reason || run.failed_tasks.length > 0) && (
        <Flex direction="column" gap={1} fontSize="sm">
          {run.reason && (
            <Text overflowWrap="anywhere" whiteSpace="pre-line">
              {sentence(visible(run.reason))}
            </Text>
          )}
          <Logs dagId={run.dag_id} runId={run.run_id} tasks={run.failed_tasks} />
        </Flex>
      )}
    </Table.Cell>
  </Table.Row>
);

/** The newest runs; more on request. `stamp` changes whenever the newest may have changed. */
export const Runs = ({ asset, stamp }: { asset: string; stamp: string }) => {
  const { data, instead, stale } = settled(useGet<RunTable>("sitemap/runs", { asset, limit: AT_ONCE, stamp }, undefined, true), "runs");
  const [extended, setExtended] = useState<{ newest: RunTable; all: RunTable }>();
  const [failure, setFailure] = useState<ApiError>();
  const [busy, setBusy] = useState(false);
  if (instead) return instead;
  // What follows an older list does not follow a newer one.
  const { runs, before } = extended?.newest === data ? extended.all : data;
  const more = async () => {
    setBusy(true);
    setFailure(undefined);
    try {
      const page = await get<RunTable>("sitemap/runs", { asset, before: before ?? 0, limit: 50 });
      setExtended({ all: { ...page, runs: [...runs, ...page.runs] }, newest: data });
    } catch (failed) {
      setFailure(failed as ApiError);
    } finally {
      setBusy(false);
    }
  };
  if (!runs.length) return stale ?? <Note>No run yet.</Note>;
  return (
    <Flex direction="column" gap={3}>
      {stale}
      <Wide
        label="Runs"
        below="44rem"
        names={[
          ["Started", "start"],
          ["Result", "start"],
          ["Triggered by", "start"],
          ["Run time", "end"],
          ["Generation", "end"],
          ["URLs", "end"],
          ["Change", "end"],
          ["Files written", "end"],
          ["Details", "start"],
        ]}
      >
        {runs.map((run) => (
          <Row key={`${run.dag_id} ${run.run_id} ${run.kind}`} run={run} />
        ))}
      </Wide>
      {failure && <Failure error={failure} />}
      {before !== null && (
        <More disabled={busy} onClick={() => void more()}>Show earlier runs</More>
      )}
    </Flex>
  );
};
