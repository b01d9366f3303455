/** Actions: each is confirmed first, and is a DAG run that Airflow's history keeps. */

import { Box, Button, CloseButton, Code, Dialog, Portal, Text } from "@chakra-ui/react";
import { type ReactNode, useEffect, useState } from "react";

import { type ApiError, post, useGet } from "../api";
import { count, few, visible } from "../format";
import { progressOf, runTabOf } from "../routes";
import type { ActionName, AvailableAction, RunProgress } from "../types";
import { Inner, Message, Note, hasEnded } from "./basics";

export interface ActionRequest {
  action: ActionName;
  sections?: string[];
  shards?: string[];
  permits?: string[];
  generation?: number;
  /** The blocked run that an override is about, in the store. It is not sent. */
  run?: string;
}

const NAMES: Record<ActionName, string> = {
  allow: "Override",
  full: "Rebuild",
  keep: "Keep the dates",
  plan: "Plan the next run",
  rebuild: "Rebuild the shard",
  rollback: "Roll back",
  run: "Run now",
  verify: "Verify",
};

const listed = (texts: string[] | undefined) => few(texts ?? []);

const EXPLAINED: Record<ActionName, (request: ActionRequest) => string> = {
  allow: (request) =>
    `Runs the DAG once with these safety checks overridden: ${listed(request.permits)}. Do this only if the change in the data is intended. Later runs are checked as before.`,
  full: (request) =>
    `Reads and renders every shard of ${request.sections?.length ? listed(request.sections) : "all sections"} again. Files whose content is the same are not written. This queries the source for every row.`,
  keep: (request) =>
    `Runs the DAG once. URLs of ${listed(request.sections)} whose columns changed keep their dates, and their new values are recorded. Do this if the pages did not change, such as after a column was reformatted.`,
  plan: () => "Queries the source for changes and shows what the next run would do. Nothing is written or published.",
  rebuild: (request) =>
    `Reads and renders ${listed(request.shards)} again and publishes it if its content changed. Other changed shards are published with it.`,
  rollback: (request) =>
    `Publishes generation ${count(request.generation ?? 0)} again, as a new generation. The next run of the publishing DAG brings the sitemap up to date again; pause that DAG if the source’s data is wrong.`,
  run: () => "Queries the source for changes, writes the shards that changed, and publishes a new generation if anything changed.",
  verify: () => "Reads every published file back and checks it against the protocol and the manifest. Nothing is changed.",
};

export interface Acting {
  /** Opens the confirmation; undefined where the user may not act or the DAG cannot do it. */
  ask: (request: ActionRequest) => (() => void) | undefined;
  stateOf: (action: ActionName) => AvailableAction | undefined;
  dialog: ReactNode;
  started: { dag_id: string; run_id: string; action: ActionName } | undefined;
}

/** Shown in the confirmation of an action: what it would change. */
export type Preview = (request: ActionRequest) => ReactNode;

export const useActions = (asset: string, actions: AvailableAction[], onStarted: () => void, preview?: Preview): Acting => {
  const [request, setWish] = useState<ActionRequest>();
  const [error, setError] = useState<ApiError>();
  const [busy, setBusy] = useState(false);
  const [started, setStarted] = useState<Acting["started"]>();
  const stateOf = (action: ActionName) => actions.find((candidate) => candidate.action === action);
  const chosen = request && stateOf(request.action);

  const confirm = async () => {
    if (!request) return;
    setBusy(true);
    setError(undefined);
    try {
      const run = await post<{ dag_id: string; run_id: string }>("actions", { ...request, asset, run: undefined });
      setStarted({ ...run, action: request.action });
      setWish(undefined);
      onStarted();
    } catch (failed) {
      setError(failed as ApiError);
    } finally {
      setBusy(false);
    }
  };
  // Not before the answer, which would otherwise come to the dialog that is opened next.
  const close = () => {
    if (busy) return;
    setWish(undefined);
    setError(undefined);
  };
  const dialog = (
    <Dialog.Root open={request !== undefined} onOpenChange={({ open }) => !open && close()} role="alertdialog">
      <Portal>
        <Dialog.Backdrop />
        <Dialog.Positioner>
          <Dialog.Content data-testid="confirm" dir="ltr">
            <Dialog.Header>
              <Dialog.Title>{request && NAMES[request.action]}?</Dialog.Title>
            </Dialog.Header>
            <Dialog.Body>
              {request && <Text>{EXPLAINED[request.action](request)}</Text>}
              {request && preview?.(request)}
              {chosen && (
                <Note mt={3}>
                  Triggers a run of the DAG <Code>{visible(chosen.dag_id)}</Code>, which Airflow’s history keeps.
                  {chosen.paused ? " This DAG is paused: the run stays queued until the DAG is unpaused." : ""}
                </Note>
              )}
              {error && (
                <Message status="error" mt={3}>
                  {visible(error.message)}
                </Message>
              )}
            </Dialog.Body>
            <Dialog.Footer>
              <Button variant="outline" disabled={busy} onClick={close}>
                Cancel
              </Button>
              <Button loading={busy} colorPalette={request?.action === "rollback" || request?.action === "allow" ? "red" : "blue"} onClick={() => void confirm()}>
                {request && NAMES[request.action]}
              </Button>
            </Dialog.Footer>
            <Dialog.CloseTrigger asChild>
              <CloseButton size="sm" disabled={busy} />
            </Dialog.CloseTrigger>
          </Dialog.Content>
        </Dialog.Positioner>
      </Portal>
    </Dialog.Root>
  );
  return {
    ask: (action) => {
      const found = stateOf(action.action);
      return found?.possible && found.allowed ? () => setWish(action) : undefined;
    },
    dialog,
    stateOf,
    started,
  };
};

const WRAPPED = { height: "auto", maxW: "100%", minH: 9, overflowWrap: "anywhere", py: 1, textAlign: "start", whiteSpace: "normal" } as const;

/** A button for an action; nothing where the user may not do it or the DAG cannot. */
export const Act = ({ acting, request, label, size = "sm" }: { acting: Acting; request: ActionRequest; label?: string; size?: "xs" | "sm" }) => {
  const ask = acting.ask(request);
  if (!ask) return null;
  return (
    <Button size={size} variant="outline" onClick={ask} {...(size === "sm" ? WRAPPED : { whiteSpace: "nowrap" })}>
      {label ?? NAMES[request.action]}
    </Button>
  );
};

const STATES: Record<string, string> = {
  failed: "failed",
  queued: "queued",
  running: "running",
  success: "succeeded",
};

/** The run that an action triggered. The page is reloaded when it ends. */
export const Started = ({ started, onEnd }: { started: NonNullable<Acting["started"]>; onEnd: () => void }) => {
  const { data, error } = useGet<RunProgress>(progressOf(started.dag_id, started.run_id), {}, (latest) => (latest && hasEnded(latest.state) ? undefined : 2_000));
  const state = data?.state ?? (error ? "state unknown" : "queued");
  const ended = hasEnded(state);
  useEffect(() => {
    if (ended) onEnd();
  }, [ended, onEnd]);
  return (
    <Message status={state === "failed" ? "error" : error ? "warning" : ended ? "success" : "info"} role="status" data-testid="started" title={`${NAMES[started.action]}: ${STATES[state] ?? visible(state)}`}>
      {error && <Text>{visible(error.message)}</Text>}
      <Inner inAlert to={runTabOf(started.dag_id, started.run_id)}>
        {ended ? "Open" : "Watch"} {visible(started.run_id)}
      </Inner>
    </Message>
  );
};

/** What cannot be done from here, and how to add it. */
export const NotAvailable = ({ actions }: { actions: AvailableAction[] }) => {
  const missing = actions.filter(({ possible, why_not }) => !possible && why_not);
  const reasons = [...new Set(missing.map(({ why_not }) => why_not))];
  if (!reasons.length) return null;
  return (
    <Box as="details" fontSize="sm" color="fg.muted">
      <summary>Further actions that a DAG can add</summary>
      {reasons.map((reason) => (
        <Text key={reason} mt={1} wordBreak="break-word">
          {visible(reason)}
        </Text>
      ))}
    </Box>
  );
};

/** Says at the top of the page that the user may not act, or for some actions of which DAG. */
export const ReadOnly = ({ actions }: { actions: AvailableAction[] }) => {
  const possible = actions.filter((action) => action.possible);
  const denied = possible.filter(({ allowed }) => !allowed);
  if (!denied.length) return null;
  return <Note>{denied.length === possible.length ? "Read-only: no permission to trigger runs." : `No permission to trigger runs of ${few([...new Set(denied.map(({ dag_id }) => dag_id))])}.`}</Note>;
};
