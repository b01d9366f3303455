"""Report of a run, for the log, the shell, the asset event and the UI."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from airflow_sitemaps.errors import PartlyPublishedError
from airflow_sitemaps.quantities import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_sitemaps.shards.plan import SectionFailure
    from airflow_sitemaps.shards.url_sample import PrefixCount

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
    """

    total: int = 0
    kept: int = 0
    created: int = 0
    rewritten: int = 0
    removed: int = 0
    repaired: int = 0

    def __add__(self, other: ShardCounts) -> ShardCounts:
        mine, theirs = asdict(self), asdict(other)
        return ShardCounts(**{name: mine[name] + theirs[name] for name in mine})


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionReport:
    """Report of one section.

    Counts cover the whole section after the run, except ``rows_read`` and ``bytes_written``, which cover this run.
    Numbers default to 0, mappings and tuples to empty.

    Attributes:
        urls: Entries in all files.
        rows: Source rows, valid or not.
        shards: Shards, and what the run did with them.
        rows_dropped: Dropped rows by rule.
        rows_expired: Rows omitted because of their age, by rule.
        fields_fixed: Rows with a repaired field, by rule.
        samples: A few faulty rows by rule.
        reasons: Number of written shards by reason.
        xml_bytes: Uncompressed size of all files, in bytes.
        file_bytes: Stored size of all files, in bytes.
        rows_read: Rows that this run read.
        bytes_written: Bytes that this run wrote.
        newest_lastmod: Newest lastmod of all entries. Default: None.
        drift: Sentences about files that another program changed.
        faults_before: Rows dropped and fields repaired by rule in the previous generation.
        rows_before: Source rows in the previous generation.
        extensions: Images, videos, articles (``news``) and alternates in all files, by kind.
    """

    urls: int = 0
    rows: int = 0
    shards: ShardCounts = field(default_factory=ShardCounts)
    rows_dropped: Mapping[str, int] = field(default_factory=dict)
    rows_expired: Mapping[str, int] = field(default_factory=dict)
    fields_fixed: Mapping[str, int] = field(default_factory=dict)
    samples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)
    xml_bytes: int = 0
    file_bytes: int = 0
    rows_read: int = 0
    bytes_written: int = 0
    newest_lastmod: str | None = None
    drift: tuple[str, ...] = ()
    faults_before: Mapping[str, int] = field(default_factory=dict)
    rows_before: int = 0
    extensions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Report of a run.

    Times are ISO 8601 in UTC. Counts cover the whole sitemap after the run, except ``rows_read`` and
    ``bytes_written``, which cover this run. Optional numbers default to 0, mappings and tuples to empty.

    Attributes:
        run: Identifier of the run.
        result: ``published`` (a new generation), ``partly_published`` (a new generation without the sections that
            ``failures`` names), ``unchanged`` (nothing to do), ``planned`` (a dry run) or ``refused`` (guards
            refused; see ``refusals``).
        generation: Current generation after the run; 0 if there is none.
        previous_generation: Current generation before the run; 0 if there was none.
        started_at: Start of the run.
        finished_at: End of the run.
        committed_at: Time of the current generation's commit, or None if there is none.
        index_urls: Addresses of the index files.
        urls: Entries in all files.
        rows: Source rows, valid or not.
        shards: Shards, and what the run did with them.
        rows_dropped: Dropped rows by rule.
        fields_fixed: Rows with a repaired field, by rule.
        sections: Reports of the sections by name.
        rows_expired: Rows omitted because of their age, by rule.
        robots_urls: Addresses for robots.txt: the index files and the feeds.
        extra_urls: Addresses of the file of recent entries and of the feeds.
        seconds: Duration of each stage, in seconds: wall time for ``plan`` and ``publish``, and for ``write`` the sum
            over its batches.
        xml_bytes: Uncompressed size of the shards, in bytes.
        file_bytes: Stored size of the shards, in bytes.
        rows_read: Rows that this run read.
        bytes_written: Bytes that this run wrote.
        drift: Sentences about files that another program changed.
        swept: Number of files and private objects that the run removed.
        warnings: Sentences for people.
        refusals: What the guards refused.
        failures: Sections that the run could not publish.
        action: What the run did: ``build`` (default), or ``rollback to`` a generation.
        prefixes: The scheme, host and first folder of most URLs, with their numbers after and before the run, estimated
            from about 2,000 URLs of each section. The greatest first.
        planned: Names of the sections that the run planned.
        format: Version of the report's format. Default: the current one.
    """

    run: str
    result: Result
    generation: int
    previous_generation: int
    started_at: str
    finished_at: str
    committed_at: str | None
    index_urls: tuple[str, ...]
    urls: int
    rows: int
    shards: ShardCounts
    rows_dropped: Mapping[str, int]
    fields_fixed: Mapping[str, int]
    sections: Mapping[str, SectionReport]
    rows_expired: Mapping[str, int] = field(default_factory=dict)
    robots_urls: tuple[str, ...] = ()
    extra_urls: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    xml_bytes: int = 0
    file_bytes: int = 0
    rows_read: int = 0
    bytes_written: int = 0
    drift: tuple[str, ...] = ()
    swept: int = 0
    warnings: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    failures: tuple[SectionFailure, ...] = ()
    action: str = "build"
    prefixes: tuple[PrefixCount, ...] = ()
    planned: tuple[str, ...] = ()
    format: int = REPORT_FORMAT

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return asdict(self)


def raise_failures(report: Report) -> None:
    """Raise an error if a run could not publish every section.

    Raises:
        PartlyPublishedError: The report names failed sections.
    """
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
    shards = ShardCounts()
    dropped: dict[str, int] = {}
    mended: dict[str, int] = {}
    expired: dict[str, int] = {}
    for section in sections.values():
        shards = shards + section.shards
        for counts, more in (
            (dropped, section.rows_dropped),
            (mended, section.fields_fixed),
            (expired, section.rows_expired),
        ):
            for rule, number in more.items():
                counts[rule] = counts.get(rule, 0) + number
    names = ("urls", "rows", "xml_bytes", "file_bytes", "rows_read", "bytes_written")
    sums = {name: sum(getattr(section, name) for section in sections.values()) for name in names}
    drift = tuple(sentence for section in sections.values() for sentence in section.drift)
    rules = {"rows_dropped": dropped, "fields_fixed": mended, "rows_expired": expired}
    return {**sums, **rules, "shards": shards, "drift": drift}
