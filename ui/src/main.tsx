import { DagTab } from "./pages/DagTab";
import { NavPage } from "./pages/NavPage";
import { RunTab } from "./pages/RunTab";

interface Props {
  dagId?: string;
  runId?: string;
}

/** One bundle for the page in the navigation and for the tabs on a DAG and a run: the host says which by its props. */
const AirflowPlugin = ({ dagId, runId }: Props) => {
  if (dagId && runId) return <RunTab dagId={dagId} runId={runId} />;
  if (dagId) return <DagTab dagId={dagId} />;
  return <NavPage />;
};

export default AirflowPlugin;
