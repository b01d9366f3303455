/** Actions: each asks before it does anything, and is a DAG run that Airflow's history keeps. */

import { Alert, Box, Button, CloseButton, Code, Dialog, Flex, Portal, Text } from "@chakra-ui/react";
import { type ReactNode, useEffect, useState } from "react";

import { type ApiError, post, useGet } from "../api";
import { count, visible } from "../format";
import type { ActionName, ActionOffer, RunProgress } from "../types";
import { Inner, Note, hasEnded, runTabOf } from "./basics";

export interface Wish {
  action: ActionName;
  sections?: string[];
  shards?: string[];
  permits?: string[];
  generation?: number;
}

const NAMES: Record<ActionName, string> = {
  allow: "Let one run pass",
  full: "Rebuild",
  plan: "Plan the next run",
  rebuild: "Rebuild the shard",
  rollback: "Roll back",
  run: "Run now",
  verify: "Verify",
};

const listed = (texts: string[] | undefined) => (texts ?? []).map(visible).join(", ");

const EXPLAINED: Record<ActionName, (wish: Wish) => string> = {
  allow: (wish) =>
    `Runs the DAG once and lets these guards pass: ${listed(wish.permits)}. Do this only when the change in the data is meant. Later runs are guarded as before.`,
  full: (wish) =>
    `Reads and renders every shard of ${wish.sections?.length ? listed(wish.sections) : "all sections"} again. Files whose content comes out equal are not written. This asks the warehouse for every row.`,
  plan: () => "Asks the warehouse what changed and shows what the next run would do. Nothing is written or published.",
  rebuild: (wish) => `Reads and renders ${listed(wish.shards)} again and publishes it if its content changed. Other changed shards are published with it.`,
  rollback: (wish) =>
    `Publishes generation ${count(wish.generation ?? 0)} again, as a new generation. The next run of the publishing DAG brings the sitemap up to date again: pause that DAG if the source's data is wrong.`,
  run: () => "Asks the warehouse what changed, writes those shards and publishes a new generation, if anything changed.",
  verify: () => "Reads every published file back and checks it against the protocol and the manifest. Nothing is changed.",
};

export interface Acting {
  /** Opens the confirmation; undefined where the user may not act or the DAG cannot do it. */
  ask: (wish: Wish) => (() => void) | undefined;
  offer: (action: ActionName) => ActionOffer | undefined;
  dialog: ReactNode;
  started: { dag_id: string; run_id: string; action: ActionName } | undefined;
}

export const useActions = (asset: string, offers: ActionOffer[], onStarted: () => void): Acting => {
  const [wish, setWish] = useState<Wish>();
  const [error, setError] = useState<ApiError>();
  const [busy, setBusy] = useState(false);
  const [started, setStarted] = useState<Acting["started"]>();
  const offer = (action: ActionName) => offers.find((candidate) => candidate.action === action);
  const chosen = wish && offer(wish.action);

  const confirm = async () => {
    if (!wish) return;
    setBusy(true);
    setError(undefined);
    try {
      const run = await post<{ dag_id: string; run_id: string }>("actions", { ...wish, asset });
      setStarted({ ...run, action: wish.action });
      setWish(undefined);
      onStarted();
    } catch (failed) {
      setError(failed as ApiError);
    } finally {
      setBusy(false);
    }
  };
  const close = () => {
    setWish(undefined);
    setError(undefined);
  };
  const dialog = (
    <Dialog.Root open={wish !== undefined} onOpenChange={({ open }) => !open && close()} role="alertdialog">
      <Portal>
        <Dialog.Backdrop />
        <Dialog.Positioner>
          <Dialog.Content data-testid="confirm">
            <Dialog.Header>
              <Dialog.Title>{wish && NAMES[wish.action]}?</Dialog.Title>
            </Dialog.Header>
            <Dialog.Body>
              {wish && <Text>{EXPLAINED[wish.action](wish)}</Text>}
              {chosen && (
                <Text mt={3} color="fg.muted" fontSize="sm">
                  Triggers a run of the DAG <Code>{visible(chosen.dag_id)}</Code>; it stands in Airflow’s history.
                  {chosen.paused ? " This DAG is paused: the run waits until somebody unpauses it." : ""}
                </Text>
              )}
              {error && (
                <Alert.Root status="error" mt={3}>
                  <Alert.Indicator />
                  <Alert.Description>{visible(error.message)}</Alert.Description>
                </Alert.Root>
              )}
            </Dialog.Body>
            <Dialog.Footer>
              <Button variant="outline" onClick={close}>
                Cancel
              </Button>
              <Button loading={busy} colorPalette={wish?.action === "rollback" || wish?.action === "allow" ? "red" : "blue"} onClick={() => void confirm()}>
                {wish && NAMES[wish.action]}
              </Button>
            </Dialog.Footer>
            <Dialog.CloseTrigger asChild>
              <CloseButton size="sm" />
            </Dialog.CloseTrigger>
          </Dialog.Content>
        </Dialog.Positioner>
      </Portal>
    </Dialog.Root>
  );
  return {
    ask: (asked) => {
      const found = offer(asked.action);
      return found?.possible && found.allowed ? () => setWish(asked) : undefined;
    },
    dialog,
    offer,
    started,
  };
};

/** A button for an action; nothing where the user may not do it or the DAG cannot. */
export const Act = ({ acting, wish, label, size = "sm" }: { acting: Acting; wish: Wish; label?: string; size?: "xs" | "sm" }) => {
  const ask = acting.ask(wish);
  if (!ask) return null;
  return (
    <Button size={size} variant="outline" onClick={ask} whiteSpace="nowrap">
      {label ?? NAMES[wish.action]}
    </Button>
  );
};

const SAID: Record<string, string> = {
  failed: "the run failed",
  queued: "the run was triggered",
  running: "the run is running",
  success: "the run has ended well",
};

/** The run that an action began, until it ends: the page is read anew then. */
export const Started = ({ started, onEnd }: { started: NonNullable<Acting["started"]>; onEnd: () => void }) => {
  const path = `dags/${encodeURIComponent(started.dag_id)}/runs/${encodeURIComponent(started.run_id)}`;
  const { data } = useGet<RunProgress>(path, {}, (latest) => (latest && hasEnded(latest.state) ? undefined : 2_000));
  const state = data?.state ?? "queued";
  const ended = hasEnded(state);
  useEffect(() => {
    if (ended) onEnd();
  }, [ended, onEnd]);
  return (
    <Alert.Root status={state === "failed" ? "error" : ended ? "success" : "info"} role="status" data-testid="started">
      <Alert.Indicator />
      <Alert.Content minW={0}>
        <Alert.Title>
          {NAMES[started.action]}: {SAID[state] ?? `the run is ${visible(state)}`}
        </Alert.Title>
        <Alert.Description>
          <Inner inAlert to={runTabOf(started.dag_id, started.run_id)}>
            {ended ? "See" : "Watch"} {visible(started.run_id)}
          </Inner>
        </Alert.Description>
      </Alert.Content>
    </Alert.Root>
  );
};

/** What cannot be done from here, and how to add it; that the user may only look. */
export const NotOffered = ({ offers }: { offers: ActionOffer[] }) => {
  const missing = offers.filter(({ possible, why_not }) => !possible && why_not);
  const forbidden = offers.some(({ possible, allowed }) => possible && !allowed);
  const reasons = [...new Set(missing.map(({ why_not }) => why_not))];
  if (!reasons.length && !forbidden) return null;
  return (
    <Flex direction="column" gap={1}>
      {forbidden && <Note>You may look but not act: triggering runs of this DAG needs a permission that you do not have.</Note>}
      {reasons.length > 0 && (
        <Box as="details" fontSize="sm" color="fg.muted">
          <summary>What else could be done from this page</summary>
          {reasons.map((reason) => (
            <Text key={reason} mt={1} wordBreak="break-word">
              {visible(reason)}
            </Text>
          ))}
        </Box>
      )}
    </Flex>
  );
};
