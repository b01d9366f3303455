"""The report of a run, for the log, the shell, the asset event and the UI."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal

from airflow_sitemaps.errors import PartlyPublishedError
from airflow_sitemaps.protocol.lastmod import LastmodTrust
from airflow_sitemaps.quantities import counted
from airflow_sitemaps.shards.codec import Receipt
from airflow_sitemaps.shards.guards.judgement import changes_by_day, trust_of_week
from airflow_sitemaps.shards.layout import extra_urls, robots_urls
from airflow_sitemaps.shards.manifest import Manifest, SectionManifest
from airflow_sitemaps.shards.plan import Plan, SectionFailure, SectionPlan
from airflow_sitemaps.shards.url_sample import PrefixCount, top_prefixes

REPORT_FORMAT = 1

Result = Literal["published", "partly_published", "unchanged", "planned", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardCounts:
    """Number of shards after a run, and of shards by what the run did with them.

    Attributes:
        total: Shards after the run. Default: 0, as for every count.
        kept: Shards that stayed as they were.
        created: Shards with a new file name.
        rewritten: Shards whose bytes changed under the same name.
        removed: Shards that the index no longer lists.
        repaired: Shards that were put again with the same bytes, because another program changed or deleted them.
        waiting: Shards with changed rows that wait for their turn (``ShardPolicy(rewrite_after=…)``). They are not counted
            apart: most are among ``kept``.
    """

    total: int = 0
    kept: int = 0
    created: int = 0
    rewritten: int = 0
    removed: int = 0
    repaired: int = 0
    waiting: int = 0

    def has_changes(self) -> bool:
        """Return whether any public file changed."""
        return bool(self.created or self.rewritten or self.removed or self.repaired)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What a section, or the whole sitemap, holds after a run. Numbers default to 0, mappings and tuples to empty.

    Attributes:
        urls: Entries in all files.
        rows: Source rows, valid or not.
        shards: Shards, and what the run did with them.
        rows_dropped: Dropped rows by rule.
        rows_expired: Rows omitted because of their age, by rule.
        fields_fixed: Rows with a repaired field, by rule.
        xml_bytes: Uncompressed size of the shards, in bytes.
        file_bytes: Stored size of the shards, in bytes.
        rows_read: Rows that this run read.
        bytes_written: Bytes that this run wrote.
        drift: Sentences about files that another program changed.
    """

    urls: int = 0
    rows: int = 0
    shards: ShardCounts = field(default_factory=ShardCounts)
    rows_dropped: Mapping[str, int] = field(default_factory=dict)
    rows_expired: Mapping[str, int] = field(default_factory=dict)
    fields_fixed: Mapping[str, int] = field(default_factory=dict)
    xml_bytes: int = 0
    file_bytes: int = 0
    rows_read: int = 0
    bytes_written: int = 0
    drift: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionReport(Counts):
    """Report of one section: its counts, and more.

    Attributes:
        samples: A few faulty rows by rule. Default: none.
        reasons: Number of written shards by reason. Default: none.
        newest_lastmod: Newest lastmod of all entries. Default: None.
        faults_before: Rows dropped and fields repaired by rule in the previous generation. Default: none.
        rows_before: Source rows in the previous generation. Default: 0.
        extensions: Images, videos, articles (``news``) and alternates in all files, by kind. Default: none.
        lastmods_moved: Number of changed URLs that the run dated. Default: 0.
        lastmods_kept: Number of changed URLs that kept their dates (``keep_lastmods``). Default: 0.
        urls_changed: Number of URLs that changed, by the ledger, on each of the last seven days with a change. Default: none.
        lastmod_trust: Dates of the last seven days that moved, and pages that changed, where ``page=`` names columns. Default:
            None.
    """

    samples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)
    newest_lastmod: str | None = None
    faults_before: Mapping[str, int] = field(default_factory=dict)
    rows_before: int = 0
    extensions: Mapping[str, int] = field(default_factory=dict)
    lastmods_moved: int = 0
    lastmods_kept: int = 0
    urls_changed: Mapping[str, int] = field(default_factory=dict)
    lastmod_trust: LastmodTrust | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryReport:
    """What a section's canary found.

    Attributes:
        requested: Number of pages that answered.
        faulty: Number of faulty ones.
        faults: Number of faulty pages by check. A page may fail several.
        verdict: ``passed``, ``refused`` or ``undecided``.
        reason: Why it is undecided. Default: "".
    """

    requested: int
    faulty: int
    faults: Mapping[str, int]
    verdict: Literal["passed", "refused", "undecided"]
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Counts):
    """Report of a run: the counts of the whole sitemap, and more. Times are ISO 8601 in UTC.

    Attributes:
        run: Identifier of the run.
        result: ``published`` (a new generation), ``partly_published`` (a new generation without the sections that
            ``failures`` names), ``unchanged`` (nothing to do), ``planned`` (a dry run) or ``refused`` (guards
            refused; see ``refusals``).
        generation: Current generation after the run; 0 if there is none.
        previous_generation: Current generation before the run; 0 if there was none.
        committed_at: Time of the current generation's commit. Default: None, there is none.
        index_urls: Addresses of the index files. Default: none.
        robots_urls: Addresses for robots.txt: the index files and the feeds. Default: none.
        extra_urls: Addresses of the file of recent entries and of the feeds. Default: none.
        seconds: Duration of each stage, in seconds: wall time for ``plan`` and ``publish``, and for ``write`` the sum
            over its batches. Default: none.
        swept: Number of files and private objects that the run removed. Default: 0.
        warnings: Sentences for people. Default: none.
        refusals: What the guards refused. Default: none.
        failures: Sections that the run could not publish. Default: none.
        action: What the run did: ``build`` (default), or ``rollback to`` a generation.
        prefixes: The scheme, host and first folder of most URLs, with their numbers after and before the run, estimated
            from about 2,000 URLs of each section. The greatest first. Default: none.
        planned: Names of the sections that the run planned. Default: none.
        urls_gone: Number of URLs in the file of gone URLs. Default: 0.
        canaries: What the canaries found, by section. Default: none ran.
        format: Version of the report's format. Default: the current one.
    """

    run: str
    result: Result
    generation: int
    previous_generation: int
    started_at: str
    finished_at: str
    sections: Mapping[str, SectionReport]
    committed_at: str | None = None
    index_urls: tuple[str, ...] = ()
    robots_urls: tuple[str, ...] = ()
    extra_urls: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    swept: int = 0
    warnings: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    failures: tuple[SectionFailure, ...] = ()
    action: str = "build"
    prefixes: tuple[PrefixCount, ...] = ()
    planned: tuple[str, ...] = ()
    urls_gone: int = 0
    canaries: Mapping[str, CanaryReport] = field(default_factory=dict)
    format: int = REPORT_FORMAT

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """Number of objects that the sweep at the end of a run removed, public and private."""

    objects: int = 0
    warnings: tuple[str, ...] = ()


def raise_failures(report: Report) -> None:
    """Raise ``PartlyPublishedError`` if a run could not publish every section."""
    if not report.failures:
        return
    lines = "\n".join(f"  - {failure}" for failure in report.failures)
    names = {failure.section for failure in report.failures}
    others = "the others are published" if report.result == "partly_published" else "the others are unchanged"
    raise PartlyPublishedError(
        f"{counted(len(names), 'section')} not published; the earlier files stay public, and {others}. Remove the "
        f"cause, then run again:\n"
        f"{lines}",
        report=report,
        failures=report.failures,
    )


def totals(sections: Mapping[str, SectionReport]) -> dict[str, Any]:
    """Compute the fields of a report that are sums over its sections."""
    reports = sections.values()
    numbers = ("urls", "rows", "xml_bytes", "file_bytes", "rows_read", "bytes_written")
    by_rule = ("rows_dropped", "fields_fixed", "rows_expired")
    return {
        **{name: sum(getattr(report, name) for report in reports) for name in numbers},
        **{name: _sums(getattr(report, name) for report in reports) for name in by_rule},
        "shards": ShardCounts(**_sums(asdict(report.shards) for report in reports)),
        "drift": tuple(sentence for report in reports for sentence in report.drift),
    }


def _sums(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(total)


def make_report(
    plan: Plan | None,
    receipts: Sequence[Receipt],
    *,
    old: Manifest | None,
    new: Manifest | None,
    finished: datetime,
    seconds: Mapping[str, float] | None = None,
    swept: Swept = Swept(),
    **fields: Any,
) -> Report:
    """Create the report of a run from its plan; without one, ``fields`` has the run and its start.

    ``new`` equals ``old`` if nothing changed. ``seconds`` are of further stages than ``plan`` and ``write``, and ``fields``
    what neither the manifests nor the plan show, such as ``result``.
    """
    sections = {}
    before, after = (manifest.sections if manifest is not None else {} for manifest in (old, new))
    for name in dict.fromkeys((*after, *before)):
        section_plan = plan.sections.get(name) if plan is not None else None
        own = [receipt for receipt in receipts if receipt.section == name]
        sections[name] = _section(before.get(name), after.get(name), section_plan, own, finished)
    fields = {**totals(sections), **fields}
    durations = dict(seconds or {})
    if plan is not None:
        fields |= {"run": plan.run, "started_at": plan.created_at.isoformat(), "planned": tuple(plan.sections)}
        fields.setdefault("failures", plan.failures)
        durations = {"plan": plan.seconds, "write": sum(receipt.seconds for receipt in receipts), **durations}
        drifted = (*plan.index_drift, *(repair.name for repair in plan.repairs_elsewhere))
        fields["drift"] += tuple(f"{name} was changed by another program" for name in drifted)
    if new is not None:
        fields["committed_at"] = new.committed_at.isoformat()
        fields["index_urls"] = new.index_urls
        fields |= {
            "robots_urls": robots_urls(new),
            "extra_urls": extra_urls(new),
            "urls_gone": new.gone.urls if new.gone else 0,
        }
    return Report(
        generation=new.generation if new is not None else 0,
        previous_generation=old.generation if old is not None else 0,
        finished_at=finished.isoformat(),
        sections=sections,
        seconds={stage: round(value, 3) for stage, value in durations.items()},
        swept=swept.objects,
        warnings=(*(plan.warnings if plan is not None else ()), *swept.warnings),
        prefixes=top_prefixes(before.values(), after.values()),
        **fields,
    )


def _section(
    before: SectionManifest | None,
    after: SectionManifest | None,
    plan: SectionPlan | None,
    receipts: Sequence[Receipt],
    now: datetime,
) -> SectionReport:
    fields: dict[str, Any] = {}
    if after is not None:
        fields = {
            "urls": after.urls,
            "rows": after.rows,
            "rows_dropped": _dropped(after),
            "fields_fixed": _sums(shard.fixed for shard in after.shards),
            "rows_expired": _sums(shard.expired for shard in after.shards),
            "extensions": _sums(shard.extensions for shard in after.shards),
            "samples": dict(after.samples),
            "urls_changed": changes_by_day(after, now),
            "lastmod_trust": trust_of_week(after, now),
            "xml_bytes": sum(file.xml_byte_size for file in after.files()),
            "file_bytes": sum(file.byte_size for file in after.files()),
            "newest_lastmod": max((s.newest_lastmod for s in after.shards if s.newest_lastmod), default=None),
        }
    if before is not None:
        fields["faults_before"] = _sums((_dropped(before), *(shard.fixed for shard in before.shards)))
        fields["rows_before"] = before.rows
    if plan is not None:
        done = (each for each in plan.actions if each.reason and each.kind.value not in ("keep", "empty"))
        fields |= {"reasons": dict(Counter(action.reason for action in done)), "drift": plan.drift}
        if plan.ledger is not None and plan.ledger.dates is not None and after != before:
            changed = sum(p.changed for receipt in receipts for pieces in receipt.pieces.values() for p in pieces)
            fields["lastmods_kept" if plan.ledger.dates.keep else "lastmods_moved"] = changed
    return SectionReport(
        shards=count_shards(before, after),
        rows_read=sum(receipt.rows for receipt in receipts),
        bytes_written=sum(receipt.bytes_written for receipt in receipts),
        **fields,
    )


def _dropped(section: SectionManifest) -> dict[str, int]:
    without_key = {"key-null": section.null_keys} if section.null_keys else {}
    return _sums((*(shard.dropped for shard in section.shards), without_key))


def count_shards(before: SectionManifest | None, after: SectionManifest | None) -> ShardCounts:
    """Count the changes of a section's files, by their names and bytes."""
    old = {file.name: file for file in before.files()} if before is not None else {}
    new = {file.name: file for file in after.files()} if after is not None else {}
    both = [name for name in new if name in old]
    same = [name for name in both if new[name].stamp == old[name].stamp]
    repaired = sum(new[name].modified_at != old[name].modified_at for name in same)
    return ShardCounts(
        total=len(new),
        kept=len(same) - repaired,
        created=len(new) - len(both),
        rewritten=len(both) - len(same),
        removed=len(old) - len(both),
        repaired=repaired,
        waiting=sum(shard.dirty_since is not None for shard in after.shards) if after is not None else 0,
    )
