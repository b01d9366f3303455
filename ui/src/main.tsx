import { useLocation } from "react-router-dom";

import { DagTab } from "./pages/DagTab";
import { NavPage } from "./pages/NavPage";
import { RunTab } from "./pages/RunTab";
import { Widget } from "./pages/Widget";
import { listPage } from "./routes";

interface Props {
  dagId?: string;
  runId?: string;
}

/**
 * One bundle for every view. The host says by its props which DAG or run a tab is for; its dashboard and the page in the
 * navigation have no props, and differ by their address.
 */
const AirflowPlugin = ({ dagId, runId }: Props) => {
  const { pathname } = useLocation();
  if (dagId && runId) return <RunTab dagId={dagId} runId={runId} />;
  if (dagId) return <DagTab dagId={dagId} />;
  return pathname.startsWith(listPage) ? <NavPage /> : <Widget />;
};

export default AirflowPlugin;
