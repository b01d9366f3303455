"""Plans, reports and progress as lines for people, the same in task logs and in the shell."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.quantities import counted, size

if TYPE_CHECKING:
    from airflow_sitemaps.pipeline.batch_writer import Written
    from airflow_sitemaps.pipeline.report import Report, SectionReport
    from airflow_sitemaps.protocol.lastmod import LastmodTrust
    from airflow_sitemaps.shards.url_sample import PrefixCount

EVERY_S: Final = 15.0
"""Seconds between two lines of one stage; a shorter stage logs only its end."""
_WARNINGS: Final = ("WARNING", "warning:", "drift:")
MAX_NAMES: Final = 20
_REFUSALS: Final = ("REFUSED", "refused:", "ERROR", "NOT PUBLISHED", "not published:", "NOT valid")


def level(line: str) -> int:
    """Return the logging level of a line of a plan, a report or a verification."""
    text = line.lstrip()
    if text.startswith(_REFUSALS):
        return logging.ERROR
    return logging.WARNING if text.startswith(_WARNINGS) else logging.INFO


def logged(line: str) -> tuple[int, str]:
    """Return the logging level of a line, and the line without the word that repeats this level."""
    severity = level(line)
    for word in ("WARNING ", "warning: ", "ERROR "):
        line = line.removeprefix(word)
    return severity, line


def rate(number: int, seconds: float, unit: str) -> str:
    """Format a rate: ``120,000 URLs/s``; without a duration there is no rate."""
    return f"{number / seconds:,.0f} {unit}/s" if seconds > 0 else f"no time for a rate of {unit}"


def counts(numbers: Mapping[str, int]) -> str:
    """Format counts by name, the greatest first: ``loc-missing 12, loc-host 3``."""
    return ", ".join(f"{name} {number:,}" for name, number in sorted(numbers.items(), key=lambda item: -item[1]))


def lines(report: Report) -> Iterator[str]:
    """Yield the lines of a report, from the result to the samples of dropped rows."""
    yield headline(report)
    for name, section in report.sections.items():
        yield from _section_lines(name, section)
    own = {sentence for section in report.sections.values() for sentence in section.drift}
    yield from (f"WARNING changed outside: {sentence}" for sentence in report.drift if sentence not in own)
    if others := _not_checked(report):
        yield f"not checked, since this run is of other sections: {others}"
    yield from prefix_lines(report.prefixes)
    for name, canary in report.canaries.items():
        faults = "; ".join(f"{counted(number, 'page')} {check}" for check, number in canary.faults.items())
        yield (
            f"canary of section {name}: {canary.verdict}; {canary.faulty:,} of {counted(canary.requested, 'page')} faulty"
            f"{f' ({faults})' if faults else ''}{f'; {canary.reason}' if canary.reason else ''}"
        )
    if report.urls_gone:
        yield f"the file of gone URLs lists {counted(report.urls_gone, 'URL')}"
    if report.swept:
        yield f"swept {counted(report.swept, 'file')} not referred to any more"
    yield from (f"WARNING {warning}" for warning in report.warnings)
    yield from (f"REFUSED {refusal}" for refusal in report.refusals)
    yield from (f"NOT PUBLISHED {failure}" for failure in report.failures)
    yield "stages: " + (", ".join(f"{stage} {s:.2f} s" for stage, s in report.seconds.items()) or "none ran")
    yield from (f"index: {url}" for url in report.index_urls)


def _not_checked(report: Report) -> str:
    """Return the names of the sections that the run did not plan, as published before; empty if there are none."""
    concerned = {*report.planned, *(failure.section for failure in report.failures)}
    present = (name for name, section in report.sections.items() if section.shards.total)  # else it is retired
    names = [name for name in present if name not in concerned] if concerned else []
    more = f" and {len(names) - MAX_NAMES:,} more" if len(names) > MAX_NAMES else ""
    return f"{', '.join(names[:MAX_NAMES])}{more}"


def prefix_lines(counts_by_prefix: Iterable[PrefixCount]) -> Iterator[str]:
    """Write a line for each of the most frequent prefixes of URLs, with the number before where it differs."""
    for count in counts_by_prefix:
        before = "" if count.urls == count.urls_before else f" (before: {count.urls_before:,})"
        yield f"URLs below {count.prefix}: about {count.urls:,}{before}"


def headline(report: Report) -> str:
    """Write one line with the result, URLs, shards and bytes of a run."""
    shards = report.shards
    waiting = f"; the changes of {counted(shards.waiting, 'shard')} wait" if shards.waiting else ""
    if report.result == "unchanged":
        return (
            f"unchanged: generation {report.generation} stands, {counted(report.urls, 'URL')} in {counted(shards.total, 'shard')}"
            f"{waiting}; nothing public was touched"
        )
    return (
        f"{report.result}: generation {report.generation} (before: {report.previous_generation}), {counted(report.urls, 'URL')} "
        f"in {counted(shards.total, 'shard')}: {shards.kept:,} kept, {shards.rewritten:,} rewritten, {shards.created:,} created, "
        f"{shards.removed:,} removed, {shards.repaired:,} repaired{waiting}; {size(report.bytes_written)} written"
    )


def written_line(written: Written) -> str:
    """Write one line with the result of a batch."""
    took = written.seconds
    return (
        f"{counted(written.shards, 'shard')} with {counted(written.urls, 'URL')} from {counted(written.rows, 'row')} in {took:.1f} s "
        f"({rate(written.rows, took, 'rows')}, {rate(written.urls, took, 'URLs')}); "
        f"{size(written.bytes_written)} staged, {counted(written.dropped, 'row')} dropped"
        f"{f', {written.expired:,} past their age' if written.expired else ''}; receipt {written.receipt_key}"
    )


def _section_lines(name: str, section: SectionReport) -> Iterator[str]:
    if section.shards.removed and not section.shards.total and not section.rows:
        yield f"section {name}: its {counted(section.shards.removed, 'file')} left the index"
        return
    yield (
        f"section {name}: {counted(section.urls, 'URL')} of {counted(section.rows, 'row')} in {counted(section.shards.total, 'shard')}, "
        f"{size(section.file_bytes)}; {counted(section.rows_read, 'row')} read, {size(section.bytes_written)} written"
    )
    if section.reasons and section.bytes_written:
        yield f"section {name}: written because: {counts(section.reasons)}"
    yield from fault_lines(name, section)
    if section.rows_expired:
        yield f"section {name}: rows past their age, not listed: {counts(section.rows_expired)}"
    if section.lastmod_trust is not None:
        yield from trust_lines(name, section.lastmod_trust)
    yield from (f"WARNING section {name}: changed outside: {sentence}" for sentence in section.drift)


def trust_lines(name: str, trust: LastmodTrust) -> Iterator[str]:
    """Say how far the dates of a section can be trusted: one line for each kind of fault that the week has, with samples."""
    kinds = (
        (trust.date_only, trust.date_only_samples, "dates that moved, {} moved though no column of page= changed"),
        (trust.page_only, trust.page_only_samples, "pages that changed, {} kept their date"),
    )
    for number, urls, text in kinds:
        if number:
            samples = f", for example {', '.join(urls)}" if urls else ""
            yield f"section {name}: in the last 7 days, of {trust.both + number:,} {text.format(f'{number:,}')}{samples}"


def _is_of_most_rows(section: SectionReport, number: int, before: int) -> bool:
    """Return whether a fault of most rows, often the layout's and so growing with the table, is no more frequent."""
    return 2 * before >= section.rows_before > 0 and number * section.rows_before <= before * section.rows


def fault_lines(name: str, section: SectionReport) -> Iterator[str]:
    """Report faults that are new or grow, as warnings with samples; the faults of the generation before are one line."""
    standing = {}
    faults = (("rows left out", section.rows_dropped), ("values fixed, omitted or kept", section.fields_fixed))
    for what, by_rule in faults:
        for rule, number in sorted(by_rule.items(), key=lambda item: -item[1]):
            before = section.faults_before.get(rule, 0)
            if number <= before or _is_of_most_rows(section, number, before):
                standing[rule] = number
                continue
            since = f", {before:,} in the generation before" if before else ""
            samples = "; ".join(map(repr, section.samples.get(rule, ())))
            shown = f", for example {samples}" if samples else ""
            yield f"WARNING section {name}: {what} by rule {rule}: {number:,}{since}{shown}"
    if standing:
        yield f"section {name}: faults that are not new, by rule: {counts(standing)}"


class LogProgress:
    """Logger of the progress of a stage, at most every ``every_s`` seconds, and of its result."""

    def __init__(
        self, log: logging.Logger, *, every_s: float = EVERY_S, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._every_s = every_s
        self._monotonic = monotonic
        self._stage, self._unit = "", ""
        self._total: int | None = None
        self._done = 0
        self._began = self._told = 0.0

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """Begin a stage of ``total`` units (None: not known)."""
        self._stage, self._total, self._unit, self._done = stage, total, unit, 0
        self._began = self._told = self._monotonic()

    def advance(self, number: int) -> None:
        """Add completed units; log at most every ``every_s`` seconds."""
        self._done += number
        now = self._monotonic()
        if now - self._told >= self._every_s:
            self._told = now
            self._log.info("%s: %s", self._stage, self._far(now))

    def finish(self) -> None:
        """End the stage; log a line if it had any units."""
        if self._done:
            self._log.info("%s done: %s", self._stage, self._far(self._monotonic()))

    def _far(self, now: float) -> str:
        took = now - self._began
        of = "" if not self._total else f" of {self._total:,} ({self._done / self._total:.0%})"
        speed = f", {self._done / took:,.0f} {self._unit}/s" if took > 0 and self._done >= took else ""
        return f"{self._done:,}{of} {self._unit} in {took:.1f} s{speed}"
