"""Checks of one published file. Pure. Checks across files are in ``verification``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.protocol import lastmod
from airflow_sitemaps.protocol.entry import CHANGEFREQS, RowContext
from airflow_sitemaps.protocol.extensions import news, registry
from airflow_sitemaps.protocol.loc import is_clean, normalise, scope_fault, scope_of
from airflow_sitemaps.protocol.rules import Rulebook

if TYPE_CHECKING:
    from airflow_sitemaps.protocol.limits import Limits
    from airflow_sitemaps.protocol.loc import Scope
    from airflow_sitemaps.protocol.validation.findings import Findings
    from airflow_sitemaps.protocol.validation.reader import ReadEntry, ReadUrlset

_XSD_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d))?", re.ASCII)
_W3C_DATE: Final = re.compile(r"\d{4}(?:-\d\d)?|\d{4}-\d\d-\d\dT\d\d:\d\d(?:Z|[+-]\d\d:\d\d)", re.ASCII)
_PRIORITY: Final = re.compile(r"\+?(?:0*1(?:\.0*)?|0*(?:\.[0-9]+)?|0+\.)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationContext:
    """The settings with which a file is checked.

    Attributes:
        limits: Limits of a file.
        now: Time that decides what is in the future and how old an article is.
        address: Public URL of the file. None: not known, so the scope is not checked.
        cross_submit: Further hosts or origins whose URLs may be listed.
        path_scope: Whether URLs must be below the file's folder. False if robots.txt names the sitemap.
    """

    limits: Limits
    now: datetime
    address: str | None = None
    cross_submit: tuple[str, ...] = ()
    path_scope: bool = True

    @property
    def folder(self) -> str | None:
        """The file's folder in normal form, ending in ``/``; None if the address is unknown or not absolute."""
        return None if self.address is None else folder_of(self.address)


def folder_of(address: str) -> str | None:
    """Return the folder of a file's address in normal form, ending in ``/``, or None if the address is not absolute."""
    reading = normalise(address, origin="https://unknown.invalid")
    if reading.loc is None or "loc-relative" in reading.faults:
        return None
    return reading.loc.partition("#")[0].partition("?")[0].rpartition("/")[0] + "/"


def validate(file: ReadUrlset, context: ValidationContext, findings: Findings) -> None:
    """Record all faults in the size and the entries of a file. Findings of the reader are not repeated."""
    _check_size(file, context.limits, findings)
    folder = context.folder
    scope = scope_of(folder, context.cross_submit) if folder is not None else None
    master = RowContext(
        base_url=folder or "https://unknown.invalid/", rulebook=Rulebook.of({"video-title": "keep"}),
        limits=context.limits, max_urls=context.limits.max_urls, now=context.now,
    )  # fmt: skip
    seen: set[str] = set()
    for entry in file.entries:
        if entry.loc:
            loc = check_loc(entry, findings)
            if file.kind != "sitemapindex":
                _check_scope(loc, entry, scope, context, findings)
            if entry.loc in seen:
                check = "index-duplicate" if file.kind == "sitemapindex" else "loc-duplicate"
                findings.note(check, f"line {entry.line}: {entry.loc} stands twice in this file")
            seen.add(entry.loc)
        _check_hints(entry, context.now, findings)
        if entry.extensions:
            _check_extensions(entry, master, findings)


def check_loc(entry: ReadEntry, findings: Findings) -> str | None:
    """Record the faults of a URL. Return its normal form, or None if it has none."""
    if is_clean(entry.loc):
        return entry.loc
    reading = normalise(entry.loc, origin="https://unknown.invalid")
    for fault in reading.faults:
        findings.note("loc" if fault == "loc-missing" else fault, f"line {entry.line}: {entry.loc!r}")
    return None if "loc-relative" in reading.faults else reading.loc


def validate_index(
    index: ReadUrlset, address: str | None, findings: Findings, cross_submit: tuple[str, ...] = ()
) -> frozenset[str]:
    """Record files that an index must not list: those of another site, or of a folder above or beside its own.

    Args:
        address: Public URL of the index. None: not known, so nothing is checked.
        cross_submit: Further hosts or origins whose files may be listed. Default: none.

    Returns:
        The listed URLs of other sites.
    """
    folder = None if address is None else folder_of(address)
    if folder is None:
        return frozenset()
    scope = scope_of(folder, cross_submit)
    foreign: set[str] = set()
    for entry in index.entries:
        reading = normalise(entry.loc, origin=scope.origin)
        fault = scope_fault(reading.loc, scope) if reading.loc is not None else None
        if fault == "scope-host":
            foreign.add(entry.loc)
            findings.note("index-host", f"line {entry.line}: {entry.loc}")
        elif fault is not None:
            findings.note("index-path", f"line {entry.line}: {entry.loc}")
    return frozenset(foreign)


def moment(entry: ReadEntry) -> datetime | None:
    """Return an entry's lastmod as a time in UTC, or None if it has no valid one."""
    if not entry.lastmod:
        return None
    try:
        value = lastmod.parse(entry.lastmod)
    except lastmod.LastmodError:
        return None
    return None if value is None else lastmod.begins(value)


def _check_size(file: ReadUrlset, limits: Limits, findings: Findings) -> None:
    most, check = (
        (limits.max_sitemaps, "limit-sitemaps") if file.kind == "sitemapindex" else (limits.max_urls, "limit-urls")
    )
    if len(file.entries) > most:
        findings.note(check, f"{len(file.entries):,} entries (limit {most:,}, {limits.name} profile)")
    if file.byte_size > limits.max_byte_size:
        findings.note(
            "limit-bytes", f"{file.byte_size:,} bytes (limit {limits.max_byte_size:,}, {limits.name} profile)"
        )
    if not file.entries and file.kind in ("urlset", "sitemapindex", "text") and not file.problems:
        findings.note("empty", "the file lists nothing")
    articles = sum(len(entry.extensions.get("news", ())) for entry in file.entries if entry.extensions)
    if articles > news.MAX_NEWS:
        findings.note("limit-news", f"{articles:,} articles (limit {news.MAX_NEWS:,})")


def _check_scope(
    loc: str | None, entry: ReadEntry, scope: Scope | None, context: ValidationContext, findings: Findings
) -> None:
    if scope is None or loc is None or loc.startswith(scope.folder):
        return
    fault = scope_fault(loc, scope)
    if fault == "scope-host" or (fault == "scope-path" and context.path_scope):
        findings.note(fault, f"line {entry.line}: {entry.loc} (sitemap in {scope.folder})")


def _check_hints(entry: ReadEntry, now: datetime, findings: Findings) -> None:
    if entry.lastmod is not None:
        _check_lastmod(entry, now, findings)
    if entry.changefreq is not None and entry.changefreq not in CHANGEFREQS:
        findings.note("changefreq", f"line {entry.line}: {entry.changefreq!r}")
    if entry.priority is not None and (not _PRIORITY.fullmatch(entry.priority) or entry.priority in ("", "+", ".")):
        findings.note("priority", f"line {entry.line}: {entry.priority!r}")


def _check_lastmod(entry: ReadEntry, now: datetime, findings: Findings) -> None:
    written = entry.lastmod or ""
    if not _XSD_DATE.fullmatch(written):
        check = "lastmod-xsd" if _W3C_DATE.fullmatch(written) else "lastmod-format"
        findings.note(check, f"line {entry.line}: {written[:60]!r}")
        return
    try:
        value = lastmod.parse(written)
    except lastmod.LastmodError:
        findings.note("lastmod-format", f"line {entry.line}: {written[:60]!r} is no date of the calendar")
        return
    if value is not None and lastmod.is_future(value, now):
        findings.note("lastmod-future", f"line {entry.line}: {written}")


def _check_extensions(entry: ReadEntry, master: RowContext, findings: Findings) -> None:
    for kind, records in entry.extensions.items():
        rule = registry.RULE_OF[kind]
        if kind == "alternates":  # a link of another rel (amphtml) is no alternate, and none of our business
            records = [link for link in records if link.get("rel") in (None, "not given")]  # noqa: PLW2901
        faults, mended = registry.faults(kind, records, context=master, page=entry.loc)
        for fault in faults:
            findings.note(rule, f"line {entry.line}: {fault}")
        for broken in mended:
            check = rule if broken == "loc-relative" else broken
            findings.note(check, f"line {entry.line}: {rule}: a URL breaks {broken}")
    for article in entry.extensions.get("news", ()):
        _check_age(entry, article.get("publication_date"), master.now, findings)
    links = entry.extensions.get("alternates", ())
    if links and not any(link.get("href") == entry.loc or "media" in link for link in links):
        findings.note("alternate-self", f"line {entry.line}: {entry.loc} is not among its own alternates")


def _check_age(entry: ReadEntry, published: str | None, now: datetime, findings: Findings) -> None:
    try:
        value = lastmod.parse(published or "")
    except lastmod.LastmodError:
        return
    if value is None:
        return
    age = now - lastmod.begins(value)
    if age > news.WINDOW and (isinstance(value, datetime) or age.days > news.WINDOW.days):
        findings.note("news-old", f"line {entry.line}: published {published}")
