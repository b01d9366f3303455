/** The API's requests and responses, made from openapi.json by `npm run types`. Do not edit. */

/**
 * What to do. ``shards``: names for ``rebuild``; ``permits``: for ``allow``, like ``shrink:products``.
 */
export interface ActionBody {
  asset: string;
  action: "run" | "plan" | "full" | "rebuild" | "allow" | "verify" | "rollback";
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
 * An action: whether the DAG can do it (else why not), and whether the user may trigger it.
 */
export interface ActionState {
  action: "run" | "plan" | "full" | "rebuild" | "allow" | "verify" | "rollback";
  dag_id: string;
  possible: boolean;
  why_not: string;
  paused: boolean;
  allowed: boolean;
}
/**
 * One announcement to a search engine or another service. ``numbers``: what it returned.
 */
export interface AnnouncementRow {
  service: "indexnow" | "searchconsole" | "ping";
  dag_id: string;
  run_id: string;
  task_id: string;
  state: string;
  at: string | null;
  summary: string;
  reason: string;
  numbers: {
    [k: string]: number;
  };
  files: {
    [k: string]: unknown;
  }[];
}
/**
 * Announcements, newest first.
 */
export interface Announcements {
  rows: AnnouncementRow[];
}
/**
 * Whether an orphaned sitemap is to be archived, or shown again.
 */
export interface ArchiveBody {
  asset: string;
  archived: boolean;
}
/**
 * One batch of the writing task; numbers are None until it is written.
 */
export interface Batch {
  task_id: string;
  number: number;
  label: string;
  state: string;
  tries: number;
  start: string | null;
  end: string | null;
  rows_planned: number | null;
  rows: number | null;
  urls: number | null;
  dropped: number | null;
  bytes: number | null;
}
/**
 * The sitemaps that a DAG publishes or verifies.
 */
export interface DagSitemaps {
  sitemaps: SitemapLine[];
}
/**
 * One sitemap in the list. Sizes in bytes, times ISO 8601 in UTC. ``history``: URLs after the last runs.
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
  freshness: FreshnessState;
  urls: number;
  shards: number;
  file_bytes: number;
  rows: number;
  dropped: number;
  history: number[];
}
/**
 * Age of the newest published data and its objective, in seconds; None where there is none.
 */
export interface FreshnessState {
  data_at: string | null;
  age_s: number | null;
  objective_s: number | null;
  source: "" | "sitemap" | "schedule";
  state: "no_objective" | "fresh" | "behind_schedule" | "missed";
}
/**
 * A run that published nothing: refused or failed.
 */
export interface FailedRun {
  at: string;
  dag_id: string;
  run_id: string;
  result: "refused" | "failed";
  seconds: number | null;
}
/**
 * A task that failed; ``map_index`` is -1 for a task that is not mapped.
 */
export interface FailedTask {
  task_id: string;
  map_index: number;
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
 * What would differ. ``urls`` is None where too many files differ to compare them here; ``note`` says so.
 */
export interface GenerationChanges {
  from_generation: number;
  to_generation: number;
  sections: SectionChanges[];
  urls: UrlChanges | null;
  note: string;
}
/**
 * How a section differs between two generations, from their manifests.
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
 * URLs that differ between two generations: counts and the first of each kind.
 */
export interface UrlChanges {
  added: number;
  changed: number;
  removed: number;
  added_samples: string[];
  changed_samples: string[];
  removed_samples: string[];
}
/**
 * The published generation and the kept ones, newest first.
 */
export interface Generations {
  generation: number;
  kept: KeptGeneration[];
}
/**
 * A generation that can be rolled back to.
 */
export interface KeptGeneration {
  generation: number;
  committed_at: string | null;
  urls: number | null;
  shards: number | null;
  byte_size: number | null;
  action: string | null;
  touched: number | null;
  dropped: number | null;
}
/**
 * Runs for the charts. ``before``: query with it for earlier ones; None where there are none.
 */
export interface History {
  columns: HistoryColumns;
  failures: FailedRun[];
  before: number | null;
}
/**
 * Runs that published, oldest first, a column each. ``seconds``: wall time of the DAG run, None where unknown.
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
 * Counts over every sitemap that the user may see, archived ones excluded.
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
 * The protocol's limits.
 */
export interface MapLimits {
  urls: number;
  xml_bytes: number;
  files: number;
}
/**
 * A section's shards in key order, a column each. Sizes in bytes, times in seconds since 1970.
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
 * A plan in numbers; ``lines`` explain it.
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
  warnings: string[];
  lines: string[];
  more_lines: number;
}
/**
 * A section of a plan. ``actions`` and ``reasons``: shards by action and by reason.
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
 * One thing to look at, and what to do next.
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
}
/**
 * A DAG that publishes the sitemap.
 */
export interface PublishingDag {
  dag_id: string;
  paused: boolean;
  has_import_errors: boolean;
  schedule: string;
  next_run: string | null;
}
/**
 * A guard that refused the run; ``permit``: what lets one run pass.
 */
export interface Refusal {
  guard: string;
  section: string;
  message: string;
  permit: string;
}
/**
 * A run's report, as the asset event carries it.
 */
export interface Report {
  run: string;
  result: string;
  action: string;
  generation: number;
  previous_generation: number;
  started_at: string | null;
  finished_at: string | null;
  committed_at: string | null;
  index_urls: string[];
  robots_urls: string[];
  urls: number;
  rows: number;
  xml_bytes: number;
  file_bytes: number;
  rows_read: number;
  bytes_written: number;
  swept: number;
  shards: {
    [k: string]: number;
  };
  rows_dropped: {
    [k: string]: number;
  };
  fields_fixed: {
    [k: string]: number;
  };
  seconds: {
    [k: string]: number;
  };
  sections: {
    [k: string]: SectionReport;
  };
  drift: string[];
  warnings: string[];
  refusals: string[];
}
/**
 * One section of a report. ``outcomes``: what happened to the rows that broke each rule.
 */
export interface SectionReport {
  urls: number;
  rows: number;
  xml_bytes: number;
  file_bytes: number;
  rows_read: number;
  bytes_written: number;
  shards: {
    [k: string]: number;
  };
  rows_dropped: {
    [k: string]: number;
  };
  fields_fixed: {
    [k: string]: number;
  };
  outcomes: {
    [k: string]: string;
  };
  samples: {
    [k: string]: string[];
  };
  reasons: {
    [k: string]: number;
  };
  max_urls: number;
  newest_lastmod: string | null;
  drift: string[];
}
/**
 * One sitemap's tasks in a run. ``failed``: why, by task.
 */
export interface RunGroup {
  group_id: string;
  steps: Step[];
  plan: PlanNumbers | null;
  verifications: Verification[];
  failed: {
    [k: string]: string;
  };
  refused: Refusal[];
  batches: Batch[];
  speed: Speed;
}
/**
 * A sitemap task of a run that is not mapped.
 */
export interface Step {
  task_id: string;
  kind: string;
  state: string;
  tries: number;
  start: string | null;
  end: string | null;
}
/**
 * One run of a verifying task; numbers are None where it pushed none, ``failures`` are the first ones.
 */
export interface Verification {
  dag_id: string;
  run_id: string;
  task_id: string;
  state: string;
  start: string | null;
  end: string | null;
  files: number | null;
  urls: number | null;
  errors: number;
  warnings: number;
  failures: VerificationFailure[];
}
/**
 * One check that failed at one place, ``count`` times.
 */
export interface VerificationFailure {
  severity: "error" | "warning";
  rule: string;
  where: string;
  message: string;
  count: number;
}
/**
 * Batches and rows done and left. ``rows_to_read`` is None without a plan.
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
 * A run: its steps, batches, speed, what is left, and the reports of what it published.
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
  as_of: string;
}
/**
 * What a run published for one sitemap.
 */
export interface RunReport {
  group_id: string;
  at: string;
  report: Report;
  rules: {
    [k: string]: string;
  };
}
/**
 * One run in the table of runs. ``urls_delta``: against the run before; ``reason``: why it was refused or failed.
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
 * Runs, newest first. ``before``: query with it for earlier ones; None where there are none.
 */
export interface RunTable {
  runs: RunRow[];
  before: number | null;
}
/**
 * Every shard's numbers.
 */
export interface ShardColumns {
  generation: number;
  committed_at: string;
  run: string;
  promoted: boolean;
  shards: number;
  limits: MapLimits;
  sections: MapSection[];
}
/**
 * Shards of a section from a position on, of one generation.
 */
export interface ShardPage {
  generation: number;
  section: string;
  start: number;
  shards: ShardTexts[];
}
/**
 * One shard's texts: file name and URL (None: no file), key range ``[lower, upper)`` (None: open), newest lastmod.
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
  mended: {
    [k: string]: number;
  };
  settled: boolean;
}
/**
 * A page of the list. ``total``: sitemaps that match the filter; ``totals``: over all sitemaps.
 */
export interface SitemapList {
  sitemaps: SitemapLine[];
  total: number;
  totals: ListTotals;
  dags: string[];
  tags: string[];
  as_of: string;
}
/**
 * One sitemap: the last report, what is wrong, usage of limits, and what can be done.
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
  freshness: FreshnessState;
  urls: number;
  shards: number;
  file_bytes: number;
  rows: number;
  dropped: number;
  history: number[];
  report: Report;
  event_at: string | null;
  store: {
    [k: string]: string | null;
  };
  problem_list: Problem[];
  verification: Verification | null;
  gauges: Gauge[];
  rules: {
    [k: string]: string;
  };
  sections_left_out: number;
  shortened: string[];
  dags: PublishingDag[];
  actions: ActionState[];
  may_archive: boolean;
  archived_by: string;
  announces: boolean;
  as_of: string;
}
/**
 * The DAG run that an action triggered.
 */
export interface Started {
  dag_id: string;
  run_id: string;
}
/**
 * The store could not be read; the page shows the sentence instead.
 */
export interface Unavailable {
  unavailable: string;
}
/**
 * A shard that lists the URL, with the fields of its entry.
 */
export interface UrlMatch {
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
 * Whether a sitemap lists a URL. ``complete``: whether every shard that could hold it was read.
 */
export interface UrlSearch {
  url: string;
  asset: string;
  generation: number;
  listed: boolean;
  complete: boolean;
  matches: UrlMatch[];
  shards_read: number;
  shards_total: number;
  note: string;
}
/**
 * Answers of every sitemap that serves the URL's host.
 */
export interface UrlSearches {
  results: UrlSearch[];
  note: string;
}
