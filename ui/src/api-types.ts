/** The API's requests and responses, made from openapi.json by `npm run types`. Do not edit. */

/**
 * The action to perform. ``shards`` are names for ``rebuild``, ``permits`` are for ``allow``, such as ``shrink:products``.
 */
export interface ActionRequest {
  asset: string;
  action: "run" | "plan" | "full" | "rebuild" | "allow" | "keep" | "verify" | "rollback";
  /**
   * @maxItems 1000
   */
  sections: string[];
  /**
   * @maxItems 1000
   */
  shards: string[];
  /**
   * @maxItems 1000
   */
  permits: string[];
  generation: number | null;
}
/**
 * One announcement to a search engine or another service. ``summary`` and ``files`` are its response.
 */
export interface AnnouncementRow {
  service: "indexnow" | "searchconsole" | "inspection" | "bing" | "fetches" | "ping";
  dag_id: string;
  run_id: string;
  task_id: string;
  map_index: number;
  state: string;
  at: string | null;
  summary: string;
  reason: string;
  files: {
    [k: string]: unknown;
  }[];
}
/**
 * Announcements, newest first, and the number of parts of mapped tasks that are left out.
 */
export interface Announcements {
  rows: AnnouncementRow[];
  left_out: number;
}
/**
 * Whether to archive an orphaned sitemap, or to show it again.
 */
export interface ArchiveBody {
  asset: string;
  archived: boolean;
}
/**
 * A run in which Airflow asks a person about a section that a guard refused.
 */
export interface AskingRun {
  section: string;
  dag_id: string;
  run_id: string;
}
/**
 * An action: whether the DAG can perform it (else why not), and whether the user may trigger it.
 *
 * ``dag_id`` is empty if no DAG performs it. ``param`` is the DAG param that takes the generation of a rollback.
 */
export interface AvailableAction {
  action: "run" | "plan" | "full" | "rebuild" | "allow" | "keep" | "verify" | "rollback";
  dag_id: string;
  possible: boolean;
  why_not: string;
  paused: boolean;
  allowed: boolean;
}
/**
 * One batch of the write task. Its numbers are None until it is written.
 */
export interface BatchProgress {
  task_id: string;
  map_index: number;
  kind: string;
  state: string;
  tries: number;
  start: string | null;
  end: string | null;
  label: string;
  rows_planned: number | null;
  rows: number | null;
  urls: number | null;
  dropped: number | null;
  bytes: number | null;
}
/**
 * What Search Console reported at the newest submissions. ``at`` has their times, oldest first.
 */
export interface Coverage {
  site: string;
  at: (string | null)[];
  indexes: CoverageRow[];
  left_out: number;
}
/**
 * The newest state of one index in Search Console.
 *
 * ``section`` is empty for the index of all sections. ``discovered_history`` has one number for each submission, None
 * where the index was not submitted.
 */
export interface CoverageRow {
  url: string;
  section: string;
  listed: number;
  pending: boolean;
  errors: number;
  warnings: number;
  last_read: string | null;
  discovered: {
    [k: string]: number;
  };
  discovered_history: (number | null)[];
}
/**
 * The sitemaps that a DAG publishes or verifies.
 */
export interface DagSitemaps {
  sitemaps: SitemapLine[];
}
/**
 * One sitemap in the list. Sizes are in bytes, times ISO 8601 in UTC.
 *
 * ``generation`` is the live one; ``data_read_at`` is when the newest successful run began to read its data; ``history``
 * has the URLs after each of the last runs.
 */
export interface SitemapLine {
  asset: string;
  name: string;
  dag_id: string;
  dag_ids: string[];
  tags: string[];
  index_url: string | null;
  index_files: number;
  state: "healthy" | "warning" | "failing" | "not_verified" | "unknown";
  reason: string;
  activity: "" | "running" | "planning" | "queued";
  paused: boolean;
  orphaned: boolean;
  archived: boolean;
  problems: string[];
  result: string;
  run_dag_id: string;
  run_id: string;
  generation: number;
  at: string | null;
  committed_at: string | null;
  verified_at: string | null;
  data_read_at: string | null;
  newest_lastmod: string | null;
  freshness: DataAge;
  urls: number;
  shards: number;
  file_bytes: number;
  rows: number;
  dropped: number;
  history: number[];
}
/**
 * Age of the newest published data and its objective, in seconds. None if there is none.
 *
 * ``data_at``: when the newest successful run began to read its data. ``source``: of the objective; empty for none.
 * ``idle_s``: seconds since a run last ended without an error before it read the data, because a sensor saw no change or
 * a branch skipped it. Such a run keeps the schedule.
 */
export interface DataAge {
  data_at: string | null;
  age_s: number | null;
  objective_s: number | null;
  source: "" | "sitemap" | "schedule";
  /**
   * The state that the verdict uses.
   */
  state: "no_objective" | "fresh" | "idle" | "behind_schedule" | "missed";
}
/**
 * A DAG that publishes the sitemap. ``next_run`` is None if no run is scheduled, or the DAG is paused.
 *
 * ``is_stale``: whether Airflow no longer finds the DAG in a DAG file. ``has_import_errors``: whether that file currently
 * fails to import.
 */
export interface DagState {
  dag_id: string;
  paused: boolean;
  has_import_errors: boolean;
  next_run: string | null;
}
/**
 * An estimated share, with the bounds of its 95 % interval.
 */
export interface Estimate {
  share: number;
  low: number;
  high: number;
}
/**
 * A check that failed ``count`` times in one place.
 */
export interface FailedCheck {
  severity: "error" | "warning";
  rule: string;
  where: string;
  message: string;
  count: number;
}
/**
 * A run that published nothing, because it was refused or failed.
 */
export interface FailedRun {
  at: string;
  dag_id: string;
  run_id: string;
  result: "refused" | "failed";
  seconds: number | null;
}
/**
 * A failed task. ``map_index`` is -1 for a task that is not mapped.
 */
export interface FailedTask {
  task_id: string;
  map_index: number;
}
/**
 * The last fetch of every shard by crawler and section, in seconds since 1970; 0: none since the day ``since``.
 */
export interface FetchTimes {
  since: string;
  crawlers: {
    [k: string]: {
      [k: string]: number[];
    };
  };
}
/**
 * A shard that lists the URL, with the fields of its entry.
 */
export interface FoundEntry {
  section: string;
  shard: string;
  file_url: string | null;
  lower: string | null;
  upper: string | null;
  written_in: number;
  fields: {
    [k: string]: string;
  };
}
/**
 * How far the listed URLs came in an engine: all sections, then each one, largest first.
 */
export interface Funnel {
  sections: SectionFunnel[];
  left_out: number;
}
/**
 * The stages of a section that tasks observed; of all sections, if ``section`` is empty.
 */
export interface SectionFunnel {
  section: string;
  stages: FunnelStage[];
}
/**
 * How many of the listed URLs reached a stage, and when that was observed.
 *
 * ``low`` and ``high`` are the bounds of an estimate, at 95 %; None for a count.
 */
export interface FunnelStage {
  stage: "listed" | "fetched" | "discovered" | "crawled" | "indexed";
  urls: number;
  low: number | null;
  high: number | null;
  at: string | null;
}
/**
 * Usage of one limit, in ``unit``.
 */
export interface Gauge {
  name: string;
  used: number;
  limit: number;
  unit: string;
  source: string;
  next_step: string;
  warns: boolean;
  limit_note: string;
}
/**
 * The differences between two generations.
 *
 * ``urls`` is None if too many files differ to compare their URLs here; ``note`` then says so. ``to_generation`` is
 * None for what a blocked run would publish.
 */
export interface GenerationChanges {
  from_generation: number;
  to_generation: number | null;
  sections: SectionChanges[];
  urls: UrlChanges | null;
  note: string;
}
/**
 * The differences of a section between two generations, from their manifests.
 */
export interface SectionChanges {
  section: string;
  urls_before: number;
  urls_after: number;
  files_added: number;
  files_changed: number;
  files_removed: number;
}
/**
 * The URLs that differ between two generations: counts, and the first of each kind.
 *
 * ``ages`` says of these when they were first listed, last changed, and gone (``first_listed``, ``changed_at``, ``gone``), as
 * far as a ledger knows.
 */
export interface UrlChanges {
  added: number;
  changed: number;
  removed: number;
  added_samples: string[];
  changed_samples: string[];
  removed_samples: string[];
  ages: {
    [k: string]: {
      [k: string]: string;
    };
  };
}
/**
 * The published generation and the kept ones, newest first.
 */
export interface Generations {
  generation: number;
  kept: KeptGeneration[];
}
/**
 * A generation that is available for a rollback.
 */
export interface KeptGeneration {
  generation: number;
  committed_at: string;
  urls: number;
  shards: number;
  byte_size: number;
  action: string;
  dropped: number;
}
/**
 * Runs with results of guards, newest first.
 */
export interface GuardHistory {
  runs: GuardResults[];
}
/**
 * What guards, permits, people and canaries decided in one run. ``at`` is ISO 8601.
 */
export interface GuardResults {
  run: string;
  at: string;
  lines: string[];
}
/**
 * Runs for the charts. Pass ``before`` to get earlier runs; None if there are no earlier ones.
 */
export interface History {
  columns: HistoryColumns;
  failures: FailedRun[];
  before: number | null;
}
/**
 * Runs that published, oldest first, one column for each number. ``seconds`` is the DAG run's wall time, if known.
 */
export interface HistoryColumns {
  event: number[];
  at: string[];
  dag_id: string[];
  run_id: string[];
  result: string[];
  action: string[];
  generation: number[];
  urls: number[];
  shards: number[];
  created: number[];
  rewritten: number[];
  removed: number[];
  repaired: number[];
  dropped: number[];
  file_bytes: number[];
  bytes_written: number[];
  rows_read: number[];
  seconds: (number | null)[];
}
/**
 * Estimates by section from URLs that were inspected in an engine, which tells these ``stages`` of a URL.
 *
 * ``history`` has, by section, the share of the last stage on each of the ``days``, oldest first, None where there is none.
 */
export interface IndexStatus {
  properties: string[];
  stages: string[];
  at: string | null;
  days: string[];
  sections: SectionStatus[];
  history: {
    [k: string]: (number | null)[];
  };
  left_out: number;
}
/**
 * The index status of a section. The days are medians, None if at least half were not crawled since.
 */
export interface SectionStatus {
  section: string;
  urls: number;
  inspected: number;
  failed: number;
  discovered: Estimate | null;
  crawled: Estimate | null;
  indexed: Estimate | null;
  reasons: {
    [k: string]: number;
  };
  other_canonical: number;
  first_crawl_days: number | null;
  first_crawl_of: number;
  recrawl_days: number | null;
  recrawl_of: number;
}
/**
 * Rows of a section that broke a rule: ``text`` is the rule's, ``result`` the effect on the rows.
 */
export interface Issue {
  section: string;
  rule: string;
  text: string;
  result: string;
  rows: number;
  samples: string[];
}
/**
 * How far the dates of a column can be trusted, as numbers of URLs of which the date or the page changed.
 *
 * Only a URL that had a date before and has one now counts. The samples are of the newest runs, at most three of a kind.
 *
 * Attributes:
 *     both: The columns that make the page changed, and the date moved.
 *     date_only: The date moved, and none of these columns changed.
 *     page_only: One of these columns changed, and the date did not move.
 */
export interface LastmodTrust {
  both: number;
  date_only: number;
  page_only: number;
  date_only_samples: string[];
  page_only_samples: string[];
}
/**
 * Counts over all sitemaps that the user may see, except archived ones.
 */
export interface ListTotals {
  sitemaps: number;
  urls: number;
  healthy: number;
  warning: number;
  failing: number;
  not_verified: number;
  unknown: number;
  running: number;
  archived: number;
}
/**
 * Limits of the protocol.
 */
export interface MapLimits {
  urls: number;
  xml_bytes: number;
  files: number;
}
/**
 * A section's shards in key order, one column for each number. Sizes are in bytes, times in seconds since 1970.
 */
export interface MapSection {
  name: string;
  null_keys: number;
  urls: number[];
  rows: number[];
  xml_bytes: number[];
  file_bytes: number[];
  written_at: number[];
  written_in: number[];
  dropped: number[];
  state: number[];
}
/**
 * The live generation, if no DAG run of Airflow made it, such as a rollback in the shell.
 */
export interface OutsideChange {
  generation: number;
  action: string;
  at: string | null;
}
/**
 * The numbers of a plan. ``lines`` explain it.
 */
export interface PlanNumbers {
  key: string | null;
  base_generation: number;
  rows_to_read: number;
  batches: number;
  changes: boolean;
  sections: {
    [k: string]: PlanSection;
  };
  more_sections: number;
  warnings: string[];
  lines: string[];
  more_lines: number;
}
/**
 * A section of a plan. ``actions`` and ``reasons`` are numbers of shards.
 */
export interface PlanSection {
  actions: {
    [k: string]: number;
  };
  reasons: {
    [k: string]: number;
  };
  rows: number;
  rows_to_read: number;
  gone: number;
}
/**
 * A condition that needs attention, and the next step.
 *
 * ``kind`` is a stable name, for tests and styles; ``title`` is one sentence without a full stop; ``permits`` let one
 * run pass; ``failed_tasks`` have logs with details; ``dag_id`` is empty for no link; ``sections`` are those that it
 * concerns, none for the whole sitemap; ``questions`` are runs that ask a person; ``store_run`` has what was blocked.
 */
export interface Problem {
  severity: "error" | "warning" | "info";
  kind: string;
  title: string;
  detail: string;
  next_step: string;
  permits: string[];
  dag_id: string;
  run_id: string;
  failed_tasks: FailedTask[];
  questions: AskingRun[];
  store_run: string;
}
/**
 * A refusal that a task pushed; ``guard`` is empty if no guard refused. ``permit`` lets one run pass.
 */
export interface PushedRefusal {
  guard: string;
  section: string;
  message: string;
  permit: string;
}
/**
 * The report of a run, from the asset event.
 */
export interface Report {
  urls: number;
  rows: number;
  shards: ShardCounts;
  rows_dropped: {
    [k: string]: number;
  };
  rows_expired: {
    [k: string]: number;
  };
  fields_fixed: {
    [k: string]: number;
  };
  xml_bytes: number;
  file_bytes: number;
  rows_read: number;
  bytes_written: number;
  drift: string[];
  run: string;
  result: "published" | "partly_published" | "unchanged" | "planned" | "refused";
  generation: number;
  previous_generation: number;
  started_at: string;
  finished_at: string;
  sections: {
    [k: string]: SectionReport;
  };
  committed_at: string | null;
  index_urls: string[];
  robots_urls: string[];
  extra_urls: string[];
  seconds: {
    [k: string]: number;
  };
  swept: number;
  warnings: string[];
  refusals: string[];
  action: string;
}
/**
 * Number of shards after a run, and of shards by what the run did with them.
 *
 * Attributes:
 *     total: Shards after the run. Default: 0, as for every count.
 *     kept: Shards that stayed as they were.
 *     created: Shards with a new file name.
 *     rewritten: Shards whose bytes changed under the same name.
 *     removed: Shards that the index no longer lists.
 *     repaired: Shards that were put again with the same bytes, because another program changed or deleted them.
 *     waiting: Shards with changed rows that wait for their turn (``ShardPolicy(rewrite_after=…)``). They are not counted
 *         apart: most are among ``kept``.
 */
export interface ShardCounts {
  total: number;
  kept: number;
  created: number;
  rewritten: number;
  removed: number;
  repaired: number;
  waiting: number;
}
/**
 * One section of a report. ``rows_expired`` are past their age, such as news after two days, and no fault.
 *
 * ``extensions`` are the numbers of images, videos, articles (``news``) and alternates.
 */
export interface SectionReport {
  urls: number;
  rows: number;
  shards: ShardCounts;
  rows_dropped: {
    [k: string]: number;
  };
  rows_expired: {
    [k: string]: number;
  };
  fields_fixed: {
    [k: string]: number;
  };
  xml_bytes: number;
  file_bytes: number;
  rows_read: number;
  bytes_written: number;
  drift: string[];
  reasons: {
    [k: string]: number;
  };
  newest_lastmod: string | null;
  extensions: {
    [k: string]: number;
  };
  lastmods_moved: number;
  lastmods_kept: number;
  urls_changed: {
    [k: string]: number;
  };
  lastmod_trust: LastmodTrust | null;
}
/**
 * One sitemap's tasks in a run. ``failed`` is the reason by task.
 */
export interface RunGroup {
  group_id: string;
  steps: TaskStep[];
  plan: PlanNumbers | null;
  verifications: VerificationRun[];
  failed: {
    [k: string]: string;
  };
  refused: PushedRefusal[];
  batches: BatchProgress[];
  speed: Speed;
}
/**
 * A sitemap task of a run.
 */
export interface TaskStep {
  task_id: string;
  map_index: number;
  kind: string;
  state: string;
  tries: number;
  start: string | null;
  end: string | null;
}
/**
 * One run of a verification task.
 *
 * Numbers are None if the task pushed none. ``failures`` are the first ones.
 */
export interface VerificationRun {
  dag_id: string;
  run_id: string;
  task_id: string;
  map_index: number;
  state: string;
  start: string | null;
  end: string | null;
  files: number | null;
  urls: number | null;
  errors: number;
  warnings: number;
  failures: FailedCheck[];
}
/**
 * Completed and remaining batches and rows. ``rows_to_read`` is None without a plan.
 */
export interface Speed {
  batches: number;
  done: number;
  failed: number;
  running: number;
  rows: number;
  rows_to_read: number | null;
  urls: number;
  elapsed_s: number;
  urls_a_second: number | null;
  seconds_left: number | null;
}
/**
 * A run: its steps, batches, speed, remaining work, and the reports of what it published.
 */
export interface RunProgress {
  dag_id: string;
  run_id: string;
  state: string;
  trigger: string;
  dry_run: boolean;
  start: string | null;
  end: string | null;
  conf: {
    [k: string]: unknown;
  };
  groups: RunGroup[];
  reports: RunReport[];
}
/**
 * The report of a run for one sitemap.
 */
export interface RunReport {
  group_id: string;
  at: string;
  report: Report;
  issues: Issue[];
  sections_left_out: number;
}
/**
 * One run in the table. ``urls_delta``: from the run before. ``reason``: why the run was refused or failed.
 */
export interface RunRow {
  number: number;
  dag_id: string;
  run_id: string;
  kind: "publish" | "rollback";
  state: string;
  result: "published" | "unchanged" | "refused" | "failed" | "planned" | "skipped" | "running" | "queued";
  trigger: string;
  start: string | null;
  end: string | null;
  seconds: number | null;
  generation: number | null;
  urls: number | null;
  urls_delta: number | null;
  shards_written: number | null;
  dropped: number | null;
  reason: string;
  failed_tasks: FailedTask[];
}
/**
 * Runs, newest first. Pass ``before`` to get earlier runs; None if there are no earlier ones.
 */
export interface RunTable {
  runs: RunRow[];
  before: number | null;
}
/**
 * Whether a sitemap lists a URL. ``complete``: whether every shard that could contain it was read.
 */
export interface SearchResult {
  url: string;
  asset: string;
  generation: number;
  listed: boolean;
  complete: boolean;
  matches: FoundEntry[];
  shards_read: number;
  shards_total: number;
  note: string;
}
/**
 * One section: its state and the reason, and what the live generation holds of it.
 *
 * ``last_checked`` is the time at which a successful run last began to read its data; ``last_changed`` the time at
 * which its files last changed; ``urls_trend`` its number of URLs after each of the last runs, oldest first.
 */
export interface SectionState {
  name: string;
  state: "healthy" | "warning" | "failing" | "not_verified" | "unknown";
  reason: string;
  next_step: string;
  last_checked: string | null;
  last_changed: string | null;
  newest_lastmod: string | null;
  urls: number;
  urls_trend: number[];
  max_urls: number;
  generation: number;
  result: "none" | "published" | "unchanged" | "refused" | "failed";
}
/**
 * The numbers of every shard.
 */
export interface ShardColumns {
  generation: number;
  promoted: boolean;
  shards: number;
  limits: MapLimits;
  sections: MapSection[];
}
/**
 * Part of a section's shards, of one generation. ``start`` is the position of the first one.
 */
export interface ShardPage {
  generation: number;
  section: string;
  start: number;
  shards: ShardTexts[];
}
/**
 * The texts of one shard.
 *
 * ``name`` and ``url`` are None if it has no file. The key range is ``[lower, upper)``; None: open.
 */
export interface ShardTexts {
  name: string | null;
  url: string | null;
  lower: string | null;
  upper: string | null;
  lastmod: string | null;
  dropped: {
    [k: string]: number;
  };
  fixed: {
    [k: string]: number;
  };
  settled: boolean;
}
/**
 * One page of the list.
 *
 * ``total`` is the number of sitemaps that match the filter; ``totals`` are over all sitemaps.
 */
export interface SitemapList {
  sitemaps: SitemapLine[];
  total: number;
  totals: ListTotals;
  dags: string[];
  tags: string[];
}
/**
 * One sitemap: its last report, its problems, its usage of limits, and the available actions.
 *
 * ``named_by``: the DAGs because of which an orphaned one cannot be archived.
 */
export interface SitemapPage {
  asset: string;
  name: string;
  dag_id: string;
  dag_ids: string[];
  tags: string[];
  index_url: string | null;
  index_files: number;
  state: "healthy" | "warning" | "failing" | "not_verified" | "unknown";
  reason: string;
  activity: "" | "running" | "planning" | "queued";
  paused: boolean;
  orphaned: boolean;
  archived: boolean;
  problems: string[];
  result: string;
  run_dag_id: string;
  run_id: string;
  generation: number;
  at: string | null;
  committed_at: string | null;
  verified_at: string | null;
  data_read_at: string | null;
  newest_lastmod: string | null;
  freshness: DataAge;
  urls: number;
  shards: number;
  file_bytes: number;
  rows: number;
  dropped: number;
  history: number[];
  sections: SectionState[];
  changed_outside: OutsideChange | null;
  report: Report;
  event_at: string | null;
  problem_list: Problem[];
  verification: VerificationRun | null;
  gauges: Gauge[];
  issues: Issue[];
  sections_left_out: number;
  shortened: string[];
  dags: DagState[];
  actions: AvailableAction[];
  may_archive: boolean;
  named_by: string[];
  archived_by: string;
  announces: boolean;
}
/**
 * The DAG run that an action triggered.
 */
export interface StartedRun {
  dag_id: string;
  run_id: string;
}
/**
 * The store cannot be read. The page shows this sentence instead.
 */
export interface Unavailable {
  unavailable: string;
}
/**
 * The results for every sitemap that serves the URL's host.
 */
export interface UrlSearches {
  results: SearchResult[];
  note: string;
}
