/** Paths of pages: ours and the host's. */

/** A segment as the host writes it: it leaves `:` and `+` of run ids as they are, and highlights a tab only then. */
const segment = (text: string): string => encodeURIComponent(text).replace(/%(?:3A|2B|40|24|26|3D|2C|3B)/gu, decodeURIComponent);

export const listPage = "/plugin/sitemaps";
export const pageOf = (asset: string) => `${listPage}?asset=${encodeURIComponent(asset)}`;
export const dagOf = (dagId: string) => `/dags/${segment(dagId)}`;
export const runOf = (dagId: string, runId: string) => `${dagOf(dagId)}/runs/${segment(runId)}`;
export const runTabOf = (dagId: string, runId: string) => `${runOf(dagId, runId)}/plugin/sitemap-run`;
/** The form in which a person answers what Airflow asks about a refused change. */
export const questionOf = (dagId: string, runId: string) => `${runOf(dagId, runId)}/tasks/ask/required_actions`;

/** The API's path of a run. */
export const progressOf = (dagId: string, runId: string) => `dags/${encodeURIComponent(dagId)}/runs/${encodeURIComponent(runId)}`;

/** The log of a task, or of one batch of a mapped task. */
export const logOf = (dagId: string, runId: string, taskId: string, mapIndex = -1) =>
  `${runOf(dagId, runId)}/tasks/${segment(taskId)}${mapIndex < 0 ? "" : `/mapped/${mapIndex}`}`;
