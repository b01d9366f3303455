/** The API's answers, as `airflow_sitemaps/plugin/schemas.py` describes them. */

export type Health = "error" | "warning" | "ok";
export type Severity = "error" | "warning" | "info";
export type ActionName = "run" | "plan" | "full" | "rebuild" | "allow" | "verify" | "rollback";
export type Counts = Record<string, number>;

export interface SitemapLine {
  asset: string;
  name: string;
  dag_id: string;
  index_url: string | null;
  health: Health;
  trouble: string[];
  result: string;
  run_id: string;
  generation: number;
  at: string;
  committed_at: string | null;
  urls: number;
  shards: number;
  file_bytes: number;
  rows: number;
  dropped: number;
  line: number[];
}

export interface Problem {
  severity: Severity;
  kind: string;
  title: string;
  detail: string;
  next_step: string;
  permits: string[];
  run_id: string;
  run_dag_id: string;
}

export interface Verification {
  dag_id: string;
  run_id: string;
  state: string;
  start: string | null;
  end: string | null;
  files: number | null;
  urls: number | null;
  errors: number;
  warnings: number;
  failures: { severity: "error" | "warning"; rule: string; where: string; message: string; count: number }[];
}

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

export interface ActionOffer {
  action: ActionName;
  dag_id: string;
  possible: boolean;
  why_not: string;
  paused: boolean;
  allowed: boolean;
}

export interface SectionReport {
  urls: number;
  rows: number;
  xml_bytes: number;
  file_bytes: number;
  rows_read: number;
  bytes_written: number;
  shards: Counts;
  rows_dropped: Counts;
  fields_mended: Counts;
  samples: Record<string, string[]>;
  reasons: Counts;
  newest_lastmod: string | null;
  drift: string[];
}

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
  urls: number;
  rows: number;
  xml_bytes: number;
  file_bytes: number;
  rows_read: number;
  bytes_written: number;
  swept: number;
  shards: Counts;
  rows_dropped: Counts;
  fields_mended: Counts;
  seconds: Counts;
  sections: Record<string, SectionReport>;
  drift: string[];
  warnings: string[];
  refusals: string[];
}

export interface SitemapPage extends SitemapLine {
  report: Report;
  store: Record<"kind" | "public_url" | "state_url" | "conn_id" | "base_url" | "index_name", string | null>;
  group_id: string;
  problems: Problem[];
  verification: Verification | null;
  gauges: Gauge[];
  rules: Record<string, string>;
  sections_left_out: number;
  shortened: string[];
  dag: { paused: boolean; gone: boolean; every: string; next_run: string | null } | null;
  actions: ActionOffer[];
}

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
  seconds: number[];
  file_bytes: number[];
  bytes_written: number[];
  rows_read: number[];
}

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

export interface ShardMapAnswer {
  generation: number;
  committed_at: string;
  run: string;
  promoted: boolean;
  shards: number;
  limits: { urls: number; xml_bytes: number; files: number };
  sections: MapSection[];
}

export interface ShardTexts {
  name: string | null;
  url: string | null;
  lower: string | null;
  upper: string | null;
  lastmod: string | null;
  dropped: Counts;
  mended: Counts;
  settled: boolean;
}

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

export interface Trouble {
  trouble: string;
}

export interface PlanFacts {
  key: string | null;
  base_generation: number;
  rows_to_read: number;
  batches: number;
  changes: boolean;
  sections: Record<
    string,
    { actions: Counts; reasons: Counts; rows: number; rows_to_read: number; gone: number }
  >;
  warnings: string[];
  lines: string[];
  more_lines: number;
}

export interface Batch {
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

export interface Step {
  task_id: string;
  kind: string;
  state: string;
  tries: number;
  start: string | null;
  end: string | null;
}

export interface RunGroup {
  group_id: string;
  steps: Step[];
  plan: PlanFacts | null;
  failed: Record<string, string>;
  refused: { guard: string; section: string; message: string; permit: string }[];
  batches: Batch[];
  verifications: Verification[];
  speed: {
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
  };
}

export interface RunProgress {
  dag_id: string;
  run_id: string;
  state: string;
  by: string;
  start: string | null;
  end: string | null;
  conf: Record<string, unknown>;
  groups: RunGroup[];
  reports: { group_id: string; at: string; report: Report; rules: Record<string, string> }[];
}
