/** The plan of the next run: a click starts a dry run, and its plan appears here. The address keeps which one. */

import { useEffect } from "react";

import { useGet } from "../api";
import { visible } from "../format";
import type { Acting } from "../parts/Actions";
import { Failure, Inner, Message, Note, Waiting, hasEnded } from "../parts/basics";
import { Plan } from "../parts/report";
import { progressOf, runTabOf } from "../routes";
import type { RunProgress } from "../types";

const PlanOf = ({ dagId, runId }: { dagId: string; runId: string }) => {
  const { data, error, reload } = useGet<RunProgress>(
    progressOf(dagId, runId),
    {},
    (latest) => (latest && (hasEnded(latest.state) || latest.groups.some(({ plan }) => plan)) ? undefined : 1_500),
  );
  const plans = data?.groups.flatMap(({ plan }) => (plan ? [plan] : [])) ?? [];
  const refused = data?.groups.flatMap((group) => group.refused) ?? [];
  const failed = [...new Set(data?.groups.flatMap((group) => Object.values(group.failed)))];
  if (data && hasEnded(data.state) && !plans.length) {
    return (
      <Message status={data.state === "failed" ? "error" : "info"}>
        {data.state === "failed" ? "The dry run failed." : "The dry run has no plan: its tasks were skipped, or Airflow no longer keeps what they pushed."} {failed.map(visible).join(" ")}{" "}
        <Inner inAlert to={runTabOf(dagId, runId)}>
          Open the run
        </Inner>
      </Message>
    );
  }
  if (!plans.length) return error ? <Failure error={error} retry={reload} /> : <Waiting what={`the plan of ${visible(runId)}`} />;
  return (
    <>
      {refused.map((refusal, index) => (
        <Message key={index} status="warning" mb={3}>
          A run would be blocked by a safety check: {visible(refusal.message)}
        </Message>
      ))}
      {failed.map((reason) => (
        <Message key={reason} status="warning" mb={3}>
          A run would not publish every section: {visible(reason)}
        </Message>
      ))}
      {plans.map((plan, index) => (
        <Plan key={index} plan={plan} />
      ))}
    </>
  );
};

interface NextPlanProps {
  started: Acting["started"];
  /** The dry run that the address names, as `dag/run`. */
  planned: string | undefined;
  onPlanned: (planned: string) => void;
}

export const NextPlan = ({ started, planned, onPlanned }: NextPlanProps) => {
  const fresh = started?.action === "plan" ? `${started.dag_id}/${started.run_id}` : undefined;
  useEffect(() => {
    if (fresh && fresh !== planned) onPlanned(fresh);
  });
  const shown = fresh ?? planned;
  const cut = shown?.indexOf("/") ?? -1;
  if (shown && cut > 0) return <PlanOf key={shown} dagId={shown.slice(0, cut)} runId={shown.slice(cut + 1)} />;
  return <Note>“Plan the next run” starts a dry run: it queries the source for changes, and shows here what would be written. Nothing is published.</Note>;
};
