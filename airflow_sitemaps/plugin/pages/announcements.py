"""Search engines and other services: what each task announced, what Search Console reported since, and index status."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal

from sqlalchemy.orm import Session

from airflow_sitemaps.operators import FAILED, PART_OF
from airflow_sitemaps.plugin import dag_runs
from airflow_sitemaps.plugin.dag_profiles import AssetTasks
from airflow_sitemaps.plugin.dag_runs import RETURNED, Pushed, TaskState
from airflow_sitemaps.plugin.pages.outcomes import why
from airflow_sitemaps.plugin.readings import (
    Moment,
    StrictModel,
    attributes,
    integer,
    items,
    mapping,
    model_of,
    read_as,
    text,
    texts,
    timestamp,
)
from airflow_sitemaps.quantities import counted
from airflow_sitemaps.search_engines import fetches, index_status
from airflow_sitemaps.search_engines.announcer import Announcement
from airflow_sitemaps.search_engines.crawlers import GOOGLE
from airflow_sitemaps.search_engines.searchconsole import Observation, SubmittedSitemap

MAX_RUNS: Final = 20
MAX_FILES: Final = 50
MAX_PARTS: Final = 100
"""Number of parts of a mapped task that are read of one run, those that failed first."""
MAX_OBSERVATIONS: Final = 30
"""Number of newest submissions to Search Console that are read. Each one is an object of the store."""
MAX_INDEXES: Final = 100
MAX_DAYS: Final = 30
"""Number of newest days of inspections that are read. Each one is an object of the store."""
MAX_SECTIONS: Final = 200


class AnnouncementRow(StrictModel):
    """One announcement to a search engine or another service. ``summary`` and ``files`` are its response."""

    service: Literal["indexnow", "searchconsole", "inspection", "bing", "fetches", "ping"]
    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    state: str
    at: Moment | None
    summary: str
    reason: str
    files: list[dict[str, Any]]


class Announcements(StrictModel):
    """Announcements, newest first, and the number of parts of mapped tasks that are left out."""

    rows: list[AnnouncementRow]
    left_out: int = 0


class CoverageRow(StrictModel):
    """The newest state of one index in Search Console.

    ``section`` is empty for the index of all sections. ``discovered_history`` has one number for each submission, None
    where the index was not submitted.
    """

    url: str
    section: str
    listed: int
    pending: bool
    errors: int
    warnings: int
    last_read: str | None
    discovered: dict[str, int]
    discovered_history: list[int | None]


class Coverage(StrictModel):
    """What Search Console reported at the newest submissions. ``at`` has their times, oldest first."""

    site: str = ""
    at: list[str | None] = []
    indexes: list[CoverageRow] = []
    left_out: int = 0


if TYPE_CHECKING:
    from airflow_sitemaps.plugin.pages.verdict import SectionSnapshot

    SectionStatus = index_status.SectionStatus
else:
    _share = model_of(index_status.Estimate, "An estimated share, with the bounds of its 95 % interval.")
    SectionStatus = model_of(
        index_status.SectionStatus,
        "The index status of a section. The days are medians, None if at least half were not crawled since.",
        **dict.fromkeys(index_status.STAGES, _share | None),
    )


class IndexStatus(StrictModel):
    """Estimates by section from URLs that were inspected in an engine, which tells these ``stages`` of a URL.

    ``history`` has, by section, the share of the last stage on each of the ``days``, oldest first, None where there is none.
    """

    properties: list[str] = []
    stages: list[str] = []
    at: str | None = None
    days: list[str] = []
    sections: list[SectionStatus] = []
    history: dict[str, list[float | None]] = {}
    left_out: int = 0


class FunnelStage(StrictModel):
    """How many of the listed URLs reached a stage, and when that was observed.

    ``low`` and ``high`` are the bounds of an estimate, at 95 %; None for a count.
    """

    stage: Literal["listed", "fetched", "discovered", "crawled", "indexed"]
    urls: int
    low: int | None = None
    high: int | None = None
    at: str | None = None


class SectionFunnel(StrictModel):
    """The stages of a section that tasks observed; of all sections, if ``section`` is empty."""

    section: str
    stages: list[FunnelStage]


class Funnel(StrictModel):
    """How far the listed URLs came in an engine: all sections, then each one, largest first."""

    sections: list[SectionFunnel] = []
    left_out: int = 0


def announcements(session: Session, tasks: AssetTasks, asset: str) -> Announcements:
    """Return announcements of the newest runs, and the last ones of tasks that ended in none of them, newest first.

    Of tasks that are mapped over sitemaps, they are the parts of this one.
    """
    kinds = {(dag_id, task_id): kind for dag_id, task_id, kind in tasks.announce}
    runs = dag_runs.recent_runs(session, {dag_id for dag_id, _ in kinds}, MAX_RUNS)
    pairs = [(run.dag_id, run.run_id) for members in runs.values() for run in members]
    done = [t for t in dag_runs.sitemap_tasks(session, pairs, batches=False) if (t.dag_id, t.task_id) in kinds]
    done = [task for task in done if task.state not in ("skipped", "removed", "scheduled")]
    ended = {(task.dag_id, task.task_id) for task in done if task.state in ("success", "failed")}
    done += dag_runs.newest_ended(session, kinds.keys() - ended)
    part_of = dag_runs.pushed_by(session, done, (PART_OF,))
    done = [t for t in done if mapping(part_of.get((*t.key, PART_OF))).get("sitemap", asset) == asset]
    parts = defaultdict[tuple[str, str, str], list[TaskState]](list)
    for task in sorted(done, key=lambda task: task.state != "failed"):
        parts[task.key[:3]].append(task)
    left_out = sum(max(0, len(members) - MAX_PARTS) for members in parts.values())
    done = [task for members in parts.values() for task in members[:MAX_PARTS]]
    pushed = dag_runs.pushed_by(session, done, (RETURNED, FAILED))
    rows = [_row(task, kinds[task.dag_id, task.task_id], pushed) for task in done]
    return Announcements(rows=sorted(rows, key=lambda row: str(row.at or "~"), reverse=True), left_out=left_out)


def _row(task: TaskState, kind: Any, pushed: Pushed) -> AnnouncementRow:
    returned = pushed.get((*task.key, RETURNED))
    summary, files = _READERS[kind](returned) if returned is not None else ("", [])
    return AnnouncementRow(
        service=kind,
        **attributes(task, "dag_id", "run_id", "task_id", "map_index", "state"),
        at=task.end or task.start,
        summary=summary,
        reason=why(pushed.get((*task.key, FAILED))) if task.state in dag_runs.FAILED else "",
        files=files,
    )


Response = tuple[str, list[dict[str, Any]]]
"""What a service returned: a sentence, and the files that it is about."""


def _indexnow(value: Any) -> Response:
    done = read_as(Announcement, value)
    if done.too_many:
        return "Too many URLs changed; none were submitted.", []
    if not done.urls and not done.outside:
        return "No changed URLs to submit.", []
    left_out = f"; {done.outside:,} outside the folder of the key were left out" if done.outside else ""
    return f"{counted(done.urls, 'URL')} submitted in {counted(done.requests, 'request')}{left_out}.", []


def _searchconsole(value: Any) -> Response:
    indexes = [read_as(SubmittedSitemap, item) for item in items(value)[:MAX_FILES]]
    files: list[dict[str, Any]] = [
        {"url": i.path, "last_read": i.last_downloaded or None, "errors": i.errors, "discovered": i.urls.get("web", 0)}
        for i in indexes
    ]
    discovered = sum(file["discovered"] for file in files)
    errors, warnings = (sum(getattr(index, name) for index in indexes) for name in ("errors", "warnings"))
    read = max((file["last_read"] for file in files if file["last_read"]), default="")
    when = f"last read by Google {read[:10]}" if read else "not read by Google yet"
    of_files = f"{counted(discovered, 'URL')} discovered, {counted(errors, 'error')}, {counted(warnings, 'warning')}"
    return f"{of_files}; {when}.", files


def _inspection(value: Any) -> Response:
    returned = mapping(value)
    sections = counted(len(mapping(returned.get("sections"))), "section")
    return f"{counted(integer(returned.get('inspected')), 'inspection')} in {sections} in the last 7 days.", []


def _bing(value: Any) -> Response:
    summary, _ = _inspection(value)
    site = read_as(index_status.SiteState, mapping(value).get("site"))
    files = [
        {
            "url": feed.url,
            "feed": feed.status or "not submitted",
            "urls": feed.urls,
            "last_read": timestamp(feed.last_read) or None,
        }
        for feed in site.feeds[:MAX_FILES]
    ]
    pages = site.pages
    if not pages:
        return summary, files
    crawled, errors = counted(pages.get("crawled", 0), "page"), counted(pages.get("errors", 0), "error")
    of_site = f"Of the whole site on {site.day}: {crawled} crawled, {errors}"
    return f"{summary} {of_site}, {pages.get('in_index', 0):,} in the index.", files


def _fetches(value: Any) -> Response:
    crawlers = {name: mapping(each) for name, each in list(mapping(value).items())[:MAX_FILES]}
    by = ", ".join(f"{counted(integer(each.get('fetches')), 'fetch')} by {name}" for name, each in crawlers.items())
    late, false = (sum(integer(each.get(key)) for each in crawlers.values()) for key in ("late", "false"))
    return f"{by}; {counted(late, 'file')} late, {false:,} requests by false crawlers.", []


def _ping(value: Any) -> Response:
    statuses = {url: integer(status) for url, status in list(mapping(value).items())[:MAX_FILES]}
    accepted = sum(200 <= status < 300 for status in statuses.values())
    files = [{"url": url, "status": status} for url, status in statuses.items()]
    return f"{accepted:,} of {len(files):,} requests accepted.", files


_READERS: Final[Mapping[str, Callable[[Any], Response]]] = {
    "indexnow": _indexnow,
    "searchconsole": _searchconsole,
    "inspection": _inspection,
    "bing": _bing,
    "fetches": _fetches,
    "ping": _ping,
}


def coverage_of(observations: Sequence[Observation]) -> Coverage:
    """Return the newest state of each index in Search Console, without that of recent entries, and the earlier numbers."""
    if not observations:
        return Coverage()
    rows = [row for row in observations[-1].indexes if row.section] or observations[-1].indexes
    earlier = [{text(index.url): index.discovered for index in each.indexes} for each in observations]
    return Coverage(
        site=text(observations[-1].site),
        at=[timestamp(each.at) or None for each in observations],
        indexes=[
            read_as(
                CoverageRow,
                attributes(index, "url", "section", "listed", "pending", "errors", "warnings", "discovered"),
                last_read=timestamp(index.last_downloaded) or None,
                discovered_history=[each[url].get("web", 0) if url in each else None for each in earlier],
            )
            for index in rows[:MAX_INDEXES]
            for url in [text(index.url)]
        ],
        left_out=max(0, len(rows) - MAX_INDEXES),
    )


def index_status_of(observations: Sequence[index_status.Observation]) -> IndexStatus:
    """Return the newest estimates, with those of the earlier days."""
    if not observations:
        return IndexStatus()
    shown = observations[-MAX_DAYS:]
    ends = range(len(observations) - len(shown) + 1, len(observations) + 1)
    by_day = [{each.section: each for each in index_status.statuses(observations[:end])} for end in ends]

    def share_of(status: SectionStatus | None) -> float | None:
        """Return the share that came furthest, of the stages that the newest observation tells."""
        share = None if status is None else status.shares.get(shown[-1].stages[-1])
        return None if share is None else share.share

    largest = sorted(by_day[-1].values(), key=lambda status: -status.urls)[:MAX_SECTIONS]
    return IndexStatus(
        properties=texts(shown[-1].properties),
        stages=list(shown[-1].stages),
        at=timestamp(shown[-1].at) or None,
        days=[each.day.isoformat() for each in shown],
        sections=largest,
        history={name: [share_of(day.get(name)) for day in by_day] for name in (status.section for status in largest)},
        left_out=len(by_day[-1]) - len(largest),
    )


def funnel_of(
    sections: Sequence[SectionSnapshot],
    fetched: fetches.Fetches,
    submitted: Sequence[Observation],
    inspected: Sequence[index_status.Observation],
    engine: str = GOOGLE.name,
) -> Funnel:
    """Return how many of the listed URLs of published sections an engine fetched, discovered, crawled and indexed.

    A count may be of an earlier generation, so none is larger than the number of listed URLs. A URL is fetched with its
    file. Google counts discovered URLs by index, so a section without an index of its own has no such stage.
    """
    published = sorted((each for each in sections if each.published), key=lambda each: -each.urls)
    files = fetched.crawlers[engine].sections if engine in fetched.crawlers else {}
    indexes = defaultdict[str, list[CoverageRow]](list)
    for row in coverage_of(submitted[-1:]).indexes:
        indexes[published[0].name if len(published) == 1 else row.section].append(row)
    statuses = {each.section: each for each in index_status.statuses(inspected)}
    is_whole = all(each.name in statuses for each in published if each.urls)
    inspected_at = timestamp(inspected[-1].at) or None if inspected else None

    def funnel(section: str, members: Sequence[SectionSnapshot], status: SectionStatus | None) -> SectionFunnel:
        urls = sum(each.urls for each in members)
        changed = max((each.changed_at for each in members if each.changed_at), default=None)
        stages = [FunnelStage(stage="listed", urls=urls, at=changed.isoformat() if changed else None)]
        if read := [files[each.name] for each in members if each.name in files]:
            last = max((each.last for each in read if each.last), default=None)
            stages.append(FunnelStage(stage="fetched", urls=min(urls, sum(each.urls for each in read)), at=last))
        of_members = [indexes[each.name] for each in members]
        if rows := indexes[section] or ([*chain(*of_members)] if all(of_members) else []):
            number = sum(row.discovered.get("web", 0) for row in rows)
            last = max((row.last_read for row in rows if row.last_read), default=None)
            stages.append(FunnelStage(stage="discovered", urls=min(urls, number), at=last))
        if status is not None:  # which says nothing of URLs that are in no property
            stages += [_estimated(*each, min(urls, status.urls), inspected_at) for each in status.shares.items()]
        return SectionFunnel(section=section, stages=stages)

    rows = [funnel(each.name, [each], statuses.get(each.name)) for each in published[:MAX_SECTIONS]]
    if len(published) > 1:
        rows.insert(0, funnel("", published, index_status.total(inspected) if is_whole else None))
    return Funnel(sections=rows, left_out=max(0, len(published) - MAX_SECTIONS))


def _estimated(stage: Any, estimate: index_status.Estimate, urls: int, at: str | None) -> FunnelStage:
    number, low, high = (round(share * urls) for share in (estimate.share, estimate.low, estimate.high))
    return FunnelStage(stage=stage, urls=number, low=low, high=high, at=at)
