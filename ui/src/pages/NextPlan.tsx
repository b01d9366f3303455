/** The plan of the next run: asked for by a click, which starts a dry run; its plan shows when it is made. */

import { Alert, Text } from "@chakra-ui/react";

import { useGet } from "../api";
import { visible } from "../format";
import type { Acting } from "../parts/Actions";
import { Failure, Inner, Note, Waiting, hasEnded, runTabOf } from "../parts/basics";
import { Plan } from "../parts/report";
import type { RunProgress } from "../types";

const Made = ({ dagId, runId }: { dagId: string; runId: string }) => {
  const { data, error, reload } = useGet<RunProgress>(
    `dags/${encodeURIComponent(dagId)}/runs/${encodeURIComponent(runId)}`,
    {},
    (latest) => (latest && (hasEnded(latest.state) || latest.groups.some(({ plan }) => plan)) ? undefined : 1_500),
  );
  if (error) return <Failure error={error} retry={reload} />;
  const plans = data?.groups.flatMap(({ plan }) => (plan ? [plan] : [])) ?? [];
  if (plans.length) return plans.map((plan, index) => <Plan key={index} plan={plan} />);
  if (data?.state === "failed") {
    return (
      <Alert.Root status="error">
        <Alert.Indicator />
        <Alert.Description>
          The dry run failed. <Inner inAlert to={runTabOf(dagId, runId)}>
            Open it
          </Inner> and read the log of its task plan.
        </Alert.Description>
      </Alert.Root>
    );
  }
  return <Waiting what={`the plan that ${visible(runId)} makes`} />;
};

export const NextPlan = ({ started }: { started: Acting["started"] }) => {
  if (started?.action === "plan") return <Made key={started.run_id} dagId={started.dag_id} runId={started.run_id} />;
  return (
    <Text asChild>
      <div>
        <Note>“Plan the next run” starts a dry run: it asks the warehouse what changed, and shows here what would be written. Nothing is published.</Note>
      </div>
    </Text>
  );
};
