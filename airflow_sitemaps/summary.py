"""What was planned and done, as lines for people: task logs and the shell say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from airflow_sitemaps.pipeline.report import Report, SectionReport
    from airflow_sitemaps.pipeline.stages import Written
    from airflow_sitemaps.pipeline.verification import Verification

_STEP: Final = 1_024


def size(number: float) -> str:
    """Bytes for people: ``1.6 MB``."""
    for unit in ("B", "KB", "MB"):
        if abs(number) < _STEP:
            return f"{number:,.0f} {unit}" if unit == "B" else f"{number:,.1f} {unit}"
        number /= _STEP
    return f"{number:,.1f} GB"


def rate(number: int, seconds: float, unit: str) -> str:
    """``120,000 URLs/s``; without a time there is no rate to tell."""
    return f"{number / seconds:,.0f} {unit}/s" if seconds > 0 else f"no time for a rate of {unit}"


def counts(numbers: Mapping[str, int]) -> str:
    """``loc-missing 12, loc-host 3``, the greatest first."""
    return ", ".join(f"{name} {number:,}" for name, number in sorted(numbers.items(), key=lambda item: -item[1]))


def lines(report: Report) -> Iterator[str]:
    """A report from the result down to the samples of dropped rows."""
    yield headline(report)
    for name, section in report.sections.items():
        yield from _section_lines(name, section)
    if report.swept:
        yield f"swept {report.swept:,} files that nothing refers to any more"
    yield from (f"WARNING {warning}" for warning in report.warnings)
    yield from (f"REFUSED {refusal}" for refusal in report.refusals)
    yield "stages: " + (", ".join(f"{stage} {s:.2f} s" for stage, s in report.seconds.items()) or "none ran")
    yield from (f"index: {url}" for url in report.index_urls)


def headline(report: Report) -> str:
    """One line: the result, URLs, shards, bytes."""
    shards = report.shards
    if report.result == "unchanged":
        return (
            f"unchanged: generation {report.generation} stands, {report.urls:,} URLs in {shards.total:,} shards; "
            "nothing public was touched"
        )
    return (
        f"{report.result}: generation {report.generation} (before: {report.previous_generation}), {report.urls:,} URLs "
        f"in {shards.total:,} shards: {shards.kept:,} kept, {shards.rewritten:,} rewritten, {shards.created:,} created, "
        f"{shards.dropped:,} dropped, {shards.repaired:,} repaired; {size(report.bytes_written)} written"
    )


def written_line(written: Written) -> str:
    """One line of what a batch came to."""
    took = written.seconds
    return (
        f"{written.shards:,} shards with {written.urls:,} URLs from {written.rows:,} rows in {took:.1f} s "
        f"({rate(written.rows, took, 'rows')}, {rate(written.urls, took, 'URLs')}); "
        f"{size(written.bytes_written)} staged, {written.dropped:,} rows dropped; receipt {written.receipt_key}"
    )


def _section_lines(name: str, section: SectionReport) -> Iterator[str]:
    yield (
        f"section {name}: {section.urls:,} URLs of {section.rows:,} rows in {section.shards.total:,} shards, "
        f"{size(section.file_bytes)}; {section.rows_read:,} rows read, {size(section.bytes_written)} written"
    )
    if section.reasons:
        yield f"section {name}: written because: {counts(section.reasons)}"
    yield from rule_lines(f"section {name}", section.rows_dropped, section.fields_mended, section.samples)
    yield from (f"section {name}: {sentence}" for sentence in section.drift)


def rule_lines(
    where: str, dropped: Mapping[str, int], mended: Mapping[str, int], samples: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Rows dropped and fields mended, by rule, with samples."""
    if dropped:
        yield f"{where}: rows dropped by rule: {counts(dropped)}"
    if mended:
        yield f"{where}: rows mended or kept with a fault, by rule: {counts(mended)}"
    for rule in {**dropped, **mended}:
        if samples.get(rule):
            yield f"{where}: {rule}, for example {'; '.join(map(repr, samples[rule]))}"


def verification_lines(found: Verification) -> Iterator[str]:
    """What verifying found: a line for each failure with its rule, and the sum."""
    for failure in found.failures:
        times = f" ({failure.count:,} times)" if failure.count > 1 else ""
        yield f"{failure.severity.upper()} {failure.rule}: {failure.where}: {failure.message}{times}"
    sampled = f", {found.sampled:,} pages fetched" if found.sampled else ""
    warnings = len(found.failures) - len(found.errors)
    yield (
        f"{'valid' if found.valid else 'NOT valid'}: {found.files:,} files, {found.urls:,} URLs{sampled}; "
        f"{len(found.errors):,} errors, {warnings:,} warnings"
    )
