"""The shapes of the API's answers and questions, for its OpenAPI description."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Text = Annotated[str, Field(max_length=500)]


class Closed(BaseModel):
    """Knows all its fields."""

    model_config = ConfigDict(extra="forbid")


class SitemapLine(Closed):
    """One sitemap in the list. Sizes in bytes, times ISO 8601 in UTC; ``line``: URLs of the last runs."""

    asset: str
    name: str
    dag_id: str
    index_url: str | None
    health: Literal["error", "warning", "ok"]
    trouble: list[str]
    result: str
    run_id: str
    generation: int
    at: str
    committed_at: str | None
    urls: int
    shards: int
    file_bytes: int
    rows: int
    dropped: int
    line: list[int]


class SitemapList(Closed):
    """A page of the list, trouble first. ``total``: of all pages."""

    sitemaps: list[SitemapLine]
    total: int


class Problem(Closed):
    """One thing to look at, and what to do next."""

    severity: Literal["error", "warning", "info"]
    kind: str
    title: str
    detail: str
    next_step: str
    permits: list[str]
    run_id: str
    run_dag_id: str


class VerificationFailure(Closed):
    """One check that failed at one place, ``count`` times."""

    severity: Literal["error", "warning"]
    rule: str
    where: str
    message: str
    count: int


class Verification(Closed):
    """The newest run of a verifying task; numbers are None where it left none, ``failures`` are the first ones."""

    dag_id: str
    run_id: str
    state: str
    start: str | None
    end: str | None
    files: int | None
    urls: int | None
    errors: int
    warnings: int
    failures: list[VerificationFailure]


class Gauge(Closed):
    """Headroom to one limit, in ``unit``."""

    name: str
    used: int
    limit: int
    unit: str
    source: str
    next_step: str
    warns: bool
    limit_note: str = ""


class ActionOffer(Closed):
    """An action: whether the DAG can do it (else why not), and whether the user may trigger it."""

    action: str
    dag_id: str
    possible: bool
    why_not: str
    paused: bool
    allowed: bool


class DagState(Closed):
    """The publishing DAG."""

    paused: bool
    gone: bool
    every: str
    next_run: str | None


class SitemapPage(SitemapLine):
    """One sitemap: the last run's report, what is wrong, headroom, and what can be done."""

    report: dict[str, Any]
    store: dict[str, str | None]
    group_id: str
    problems: list[Problem]
    verification: Verification | None
    gauges: list[Gauge]
    rules: dict[str, str]
    sections_left_out: int
    shortened: list[str]
    dag: DagState | None
    actions: list[ActionOffer]


class History(Closed):
    """Runs, oldest first, a column each. ``before``: ask with it for earlier ones; None where there are none."""

    columns: dict[str, list[Any]]
    before: int | None


class Trouble(Closed):
    """Something could not be read; the page shows the sentence instead."""

    trouble: str


class ShardTexts(Closed):
    """One shard's texts: file name and address (None: no file), key range ``[lower, upper)`` (None: open), newest lastmod."""

    name: str | None
    url: str | None
    lower: str | None
    upper: str | None
    lastmod: str | None
    dropped: dict[str, int]
    mended: dict[str, int]
    settled: bool


class ShardPage(Closed):
    """Shards of a section from a position on, of one generation."""

    generation: int
    section: str
    start: int
    shards: list[ShardTexts]


class KeptGeneration(Closed):
    """A generation that can be rolled back to."""

    generation: int
    committed_at: str | None
    urls: int | None
    shards: int | None
    byte_size: int | None
    action: str | None
    touched: int | None
    dropped: int | None


class Generations(Closed):
    """The published generation and the kept ones, newest first."""

    generation: int
    kept: list[KeptGeneration]


class DagSitemaps(Closed):
    """The sitemaps that a DAG publishes; ``unpublished``: assets without an event so far."""

    sitemaps: list[SitemapLine]
    unpublished: list[str]


class RunProgress(Closed):
    """A run: its steps, batches, speed, what is left, and the reports of what it published."""

    dag_id: str
    run_id: str
    state: str
    by: str
    start: str | None
    end: str | None
    conf: dict[str, Any]
    groups: list[dict[str, Any]]
    reports: list[dict[str, Any]]


class ActionWish(Closed):
    """What to do. ``shards``: names for ``rebuild``; ``permits``: for ``allow``, like ``shrink:products``."""

    asset: Annotated[str, Field(max_length=1_500)]
    action: Literal["run", "plan", "full", "rebuild", "allow", "verify", "rollback"]
    sections: Annotated[list[Text], Field(max_length=1_000)] = []
    shards: Annotated[list[Text], Field(max_length=1_000)] = []
    permits: Annotated[list[Text], Field(max_length=1_000)] = []
    generation: Annotated[int, Field(ge=1)] | None = None


class Started(Closed):
    """The DAG run that an action began."""

    dag_id: str
    run_id: str
