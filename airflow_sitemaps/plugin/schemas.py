"""The API's requests and responses, for its OpenAPI description. The pages' TypeScript types are made from it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Text = Annotated[str, Field(max_length=500)]
VerdictState = Literal["healthy", "warning", "failing", "not_verified", "unknown"]
Activity = Literal["", "running", "planning", "queued"]
ActionName = Literal["run", "plan", "full", "rebuild", "allow", "verify", "rollback"]


class StrictModel(BaseModel):
    """A model without undeclared fields."""

    model_config = ConfigDict(extra="forbid")


class FreshnessState(StrictModel):
    """Age of the newest published data and its objective, in seconds; None where there is none."""

    data_at: str | None
    age_s: float | None
    objective_s: float | None
    source: Literal["", "sitemap", "schedule"]
    state: Literal["no_objective", "fresh", "behind_schedule", "missed"]


class SitemapLine(StrictModel):
    """One sitemap in the list. Sizes in bytes, times ISO 8601 in UTC. ``history``: URLs after the last runs."""

    asset: str
    name: str
    dag_id: str
    dag_ids: list[str]
    tags: list[str]
    index_url: str | None
    index_files: int
    state: VerdictState
    reason: str
    activity: Activity
    paused: bool
    orphaned: bool
    archived: bool
    problems: list[str]
    result: str
    run_dag_id: str
    run_id: str
    generation: int
    at: str | None
    committed_at: str | None
    verified_at: str | None
    freshness: FreshnessState
    urls: int
    shards: int
    file_bytes: int
    rows: int
    dropped: int
    history: list[int]


class ListTotals(StrictModel):
    """Counts over every sitemap that the user may see, archived ones excluded."""

    sitemaps: int
    urls: int
    healthy: int
    warning: int
    failing: int
    not_verified: int
    unknown: int
    running: int
    archived: int


class SitemapList(StrictModel):
    """A page of the list. ``total``: sitemaps that match the filter; ``totals``: over all sitemaps."""

    sitemaps: list[SitemapLine]
    total: int
    totals: ListTotals
    dags: list[str]
    tags: list[str]
    as_of: str


class FailedTask(StrictModel):
    """A task that failed; ``map_index`` is -1 for a task that is not mapped."""

    task_id: str
    map_index: int


class Problem(StrictModel):
    """One thing to look at, and what to do next."""

    severity: Literal["error", "warning", "info"]
    kind: str
    title: str
    detail: str
    next_step: str
    permits: list[str]
    dag_id: str
    run_id: str
    failed_tasks: list[FailedTask]


class VerificationFailure(StrictModel):
    """One check that failed at one place, ``count`` times."""

    severity: Literal["error", "warning"]
    rule: str
    where: str
    message: str
    count: int


class Verification(StrictModel):
    """One run of a verifying task; numbers are None where it pushed none, ``failures`` are the first ones."""

    dag_id: str
    run_id: str
    task_id: str
    state: str
    start: str | None
    end: str | None
    files: int | None
    urls: int | None
    errors: int
    warnings: int
    failures: list[VerificationFailure]


class Gauge(StrictModel):
    """Usage of one limit, in ``unit``."""

    name: str
    used: int
    limit: int
    unit: str
    source: str
    next_step: str
    warns: bool
    limit_note: str = ""


class ActionState(StrictModel):
    """An action: whether the DAG can do it (else why not), and whether the user may trigger it."""

    action: ActionName
    dag_id: str
    possible: bool
    why_not: str
    paused: bool
    allowed: bool


class PublishingDag(StrictModel):
    """A DAG that publishes the sitemap."""

    dag_id: str
    paused: bool
    has_import_errors: bool
    schedule: str
    next_run: str | None


class SectionReport(StrictModel):
    """One section of a report. ``outcomes``: what happened to the rows that broke each rule."""

    urls: int
    rows: int
    xml_bytes: int
    file_bytes: int
    rows_read: int
    bytes_written: int
    shards: dict[str, int]
    rows_dropped: dict[str, int]
    fields_fixed: dict[str, int]
    outcomes: dict[str, str]
    samples: dict[str, list[str]]
    reasons: dict[str, int]
    max_urls: int
    newest_lastmod: str | None
    drift: list[str]


class Report(StrictModel):
    """A run's report, as the asset event carries it."""

    run: str
    result: str
    action: str
    generation: int
    previous_generation: int
    started_at: str | None
    finished_at: str | None
    committed_at: str | None
    index_urls: list[str]
    robots_urls: list[str]
    urls: int
    rows: int
    xml_bytes: int
    file_bytes: int
    rows_read: int
    bytes_written: int
    swept: int
    shards: dict[str, int]
    rows_dropped: dict[str, int]
    fields_fixed: dict[str, int]
    seconds: dict[str, float]
    sections: dict[str, SectionReport]
    drift: list[str]
    warnings: list[str]
    refusals: list[str]


class SitemapPage(SitemapLine):
    """One sitemap: the last report, what is wrong, usage of limits, and what can be done."""

    report: Report
    event_at: str | None
    store: dict[str, str | None]
    problem_list: list[Problem]
    verification: Verification | None
    gauges: list[Gauge]
    rules: dict[str, str]
    sections_left_out: int
    shortened: list[str]
    dags: list[PublishingDag]
    actions: list[ActionState]
    may_archive: bool
    archived_by: str
    announces: bool
    as_of: str


class HistoryColumns(StrictModel):
    """Runs that published, oldest first, a column each. ``seconds``: wall time of the DAG run, None where unknown."""

    event: list[int]
    at: list[str]
    dag_id: list[str]
    run_id: list[str]
    result: list[str]
    action: list[str]
    generation: list[int]
    urls: list[int]
    shards: list[int]
    created: list[int]
    rewritten: list[int]
    removed: list[int]
    repaired: list[int]
    dropped: list[int]
    file_bytes: list[int]
    bytes_written: list[int]
    rows_read: list[int]
    seconds: list[float | None]


class FailedRun(StrictModel):
    """A run that published nothing: refused or failed."""

    at: str
    dag_id: str
    run_id: str
    result: Literal["refused", "failed"]
    seconds: float | None


class History(StrictModel):
    """Runs for the charts. ``before``: query with it for earlier ones; None where there are none."""

    columns: HistoryColumns
    failures: list[FailedRun]
    before: int | None


class RunRow(StrictModel):
    """One run in the table of runs. ``urls_delta``: against the run before; ``reason``: why it was refused or failed."""

    number: int
    dag_id: str
    run_id: str
    kind: Literal["publish", "rollback"]
    state: str
    result: Literal["published", "unchanged", "refused", "failed", "planned", "skipped", "running", "queued"]
    trigger: str
    start: str | None
    end: str | None
    seconds: float | None
    generation: int | None
    urls: int | None
    urls_delta: int | None
    shards_written: int | None
    dropped: int | None
    reason: str
    failed_tasks: list[FailedTask]


class RunTable(StrictModel):
    """Runs, newest first. ``before``: query with it for earlier ones; None where there are none."""

    runs: list[RunRow]
    before: int | None


class AnnouncementRow(StrictModel):
    """One announcement to a search engine or another service. ``numbers``: what it returned."""

    service: Literal["indexnow", "searchconsole", "ping"]
    dag_id: str
    run_id: str
    task_id: str
    state: str
    at: str | None
    summary: str
    reason: str
    numbers: dict[str, int]
    files: list[dict[str, Any]]


class Announcements(StrictModel):
    """Announcements, newest first."""

    rows: list[AnnouncementRow]


class Unavailable(StrictModel):
    """The store could not be read; the page shows the sentence instead."""

    unavailable: str


class MapSection(StrictModel):
    """A section's shards in key order, a column each. Sizes in bytes, times in seconds since 1970."""

    name: str
    null_keys: int
    urls: list[int]
    rows: list[int]
    xml_bytes: list[int]
    file_bytes: list[int]
    written_at: list[int]
    written_in: list[int]
    dropped: list[int]
    state: list[int]


class MapLimits(StrictModel):
    """The protocol's limits."""

    urls: int
    xml_bytes: int
    files: int


class ShardColumns(StrictModel):
    """Every shard's numbers."""

    generation: int
    committed_at: str
    run: str
    promoted: bool
    shards: int
    limits: MapLimits
    sections: list[MapSection]


class ShardTexts(StrictModel):
    """One shard's texts: file name and URL (None: no file), key range ``[lower, upper)`` (None: open), newest lastmod."""

    name: str | None
    url: str | None
    lower: str | None
    upper: str | None
    lastmod: str | None
    dropped: dict[str, int]
    mended: dict[str, int]
    settled: bool


class ShardPage(StrictModel):
    """Shards of a section from a position on, of one generation."""

    generation: int
    section: str
    start: int
    shards: list[ShardTexts]


class KeptGeneration(StrictModel):
    """A generation that can be rolled back to."""

    generation: int
    committed_at: str | None
    urls: int | None
    shards: int | None
    byte_size: int | None
    action: str | None
    touched: int | None
    dropped: int | None


class Generations(StrictModel):
    """The published generation and the kept ones, newest first."""

    generation: int
    kept: list[KeptGeneration]


class SectionChanges(StrictModel):
    """How a section differs between two generations, from their manifests."""

    section: str
    urls_before: int
    urls_after: int
    files_added: int
    files_changed: int
    files_removed: int


class UrlChanges(StrictModel):
    """URLs that differ between two generations: counts and the first of each kind."""

    added: int
    changed: int
    removed: int
    added_samples: list[str]
    changed_samples: list[str]
    removed_samples: list[str]


class GenerationChanges(StrictModel):
    """What would differ. ``urls`` is None where too many files differ to compare them here; ``note`` says so."""

    from_generation: int
    to_generation: int
    sections: list[SectionChanges]
    urls: UrlChanges | None
    note: str


class UrlMatch(StrictModel):
    """A shard that lists the URL, with the fields of its entry."""

    section: str
    shard: str
    file_url: str | None
    lower: str | None
    upper: str | None
    written_in: int
    fields: dict[str, str]


class UrlSearch(StrictModel):
    """Whether a sitemap lists a URL. ``complete``: whether every shard that could hold it was read."""

    url: str
    asset: str
    generation: int
    listed: bool
    complete: bool
    matches: list[UrlMatch]
    shards_read: int
    shards_total: int
    note: str


class UrlSearches(StrictModel):
    """Answers of every sitemap that serves the URL's host."""

    results: list[UrlSearch]
    note: str


class DagSitemaps(StrictModel):
    """The sitemaps that a DAG publishes or verifies."""

    sitemaps: list[SitemapLine]


class PlanSection(StrictModel):
    """A section of a plan. ``actions`` and ``reasons``: shards by action and by reason."""

    actions: dict[str, int]
    reasons: dict[str, int]
    rows: int
    rows_to_read: int
    gone: int


class PlanNumbers(StrictModel):
    """A plan in numbers; ``lines`` explain it."""

    key: str | None
    base_generation: int
    rows_to_read: int
    batches: int
    changes: bool
    sections: dict[str, PlanSection]
    warnings: list[str]
    lines: list[str]
    more_lines: int


class Step(StrictModel):
    """A sitemap task of a run that is not mapped."""

    task_id: str
    kind: str
    state: str
    tries: int
    start: str | None
    end: str | None


class Batch(StrictModel):
    """One batch of the writing task; numbers are None until it is written."""

    task_id: str
    number: int
    label: str
    state: str
    tries: int
    start: str | None
    end: str | None
    rows_planned: int | None
    rows: int | None
    urls: int | None
    dropped: int | None
    bytes: int | None


class Speed(StrictModel):
    """Batches and rows done and left. ``rows_to_read`` is None without a plan."""

    batches: int
    done: int
    failed: int
    running: int
    rows: int
    rows_to_read: int | None
    urls: int
    elapsed_s: float
    urls_a_second: int | None
    seconds_left: int | None


class Refusal(StrictModel):
    """A guard that refused the run; ``permit``: what lets one run pass."""

    guard: str
    section: str
    message: str
    permit: str


class RunGroup(StrictModel):
    """One sitemap's tasks in a run. ``failed``: why, by task."""

    group_id: str
    steps: list[Step]
    plan: PlanNumbers | None
    verifications: list[Verification]
    failed: dict[str, str]
    refused: list[Refusal]
    batches: list[Batch]
    speed: Speed


class RunReport(StrictModel):
    """What a run published for one sitemap."""

    group_id: str
    at: str
    report: Report
    rules: dict[str, str]


class RunProgress(StrictModel):
    """A run: its steps, batches, speed, what is left, and the reports of what it published."""

    dag_id: str
    run_id: str
    state: str
    trigger: str
    dry_run: bool
    start: str | None
    end: str | None
    conf: dict[str, Any]
    groups: list[RunGroup]
    reports: list[RunReport]
    as_of: str


class ActionBody(StrictModel):
    """What to do. ``shards``: names for ``rebuild``; ``permits``: for ``allow``, like ``shrink:products``."""

    asset: Annotated[str, Field(max_length=1_500)]
    action: ActionName
    sections: Annotated[list[Text], Field(max_length=1_000)] = []
    shards: Annotated[list[Text], Field(max_length=1_000)] = []
    permits: Annotated[list[Text], Field(max_length=1_000)] = []
    generation: Annotated[int, Field(ge=1)] | None = None


class Started(StrictModel):
    """The DAG run that an action triggered."""

    dag_id: str
    run_id: str


class ArchiveBody(StrictModel):
    """Whether an orphaned sitemap is to be archived, or shown again."""

    asset: Annotated[str, Field(max_length=1_500)]
    archived: bool
