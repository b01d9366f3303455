"""The checks of a published sitemap, and what they find, counted by check with the first few samples."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

from airflow_sitemaps.protocol.rules import RULES, safe_text

if TYPE_CHECKING:
    from collections.abc import Mapping

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Check:
    """One check. ``error``: the sitemap is invalid or partly unreadable. ``warning``: a loss or a risk."""

    name: str
    text: str
    source: str
    severity: Severity


_PROTOCOL: Final = "sitemaps.org/protocol.html"
_XSD: Final = "sitemap.xsd, siteindex.xsd"
_GOOGLE: Final = "developers.google.com, sitemaps"
_LARGE: Final = "developers.google.com, large sitemaps"
_INDEXING: Final = "developers.google.com, crawling and indexing"
_OURS: Final = "this project"

_TABLE: Final[tuple[tuple[str, str, str, Severity], ...]] = (
    ("unreachable", "the file can be fetched and answers 200", _PROTOCOL, "error"),
    ("redirect", "the file's own address answers, without a redirect", _GOOGLE, "warning"),
    ("xml", "the file is well-formed XML, whole to its end", "XML 1.0", "error"),
    ("doctype", "the file has no DOCTYPE and no entity of its own", _OURS, "error"),
    ("encoding", "the file is UTF-8", _PROTOCOL, "error"),
    ("bom", "the file has no byte-order mark", _PROTOCOL, "warning"),
    ("root", "the root element is urlset or sitemapindex, or a feed's", _PROTOCOL, "error"),
    ("namespace", "the root element is of the 0.9 namespace", _PROTOCOL, "error"),
    ("structure", "the file holds the schema's elements only, each in its place and once, without other text or attributes", _XSD, "error"),
    ("element-order", "loc, lastmod, changefreq and priority are in the schema's order", _XSD, "warning"),
    ("extension-order", "elements of an extension are in the schema's order", "sitemap-video.xsd and others", "warning"),
    ("extension-unknown", "an extension is one of image, video, news, xhtml", _OURS, "warning"),
    ("gzip", "a compressed file is whole gzip, and .gz is compressed", _PROTOCOL, "error"),
    ("gzip-twice", "a file is compressed once", _OURS, "error"),
    ("content-encoding", "a .gz file is served without Content-Encoding: some clients unzip once and then fail", _OURS, "warning"),
    ("limit-urls", "a file lists at most 50,000 URLs", _PROTOCOL, "error"),
    ("limit-bytes", "a file has at most 52,428,800 bytes, uncompressed", _PROTOCOL, "error"),
    ("limit-sitemaps", "an index lists at most 50,000 sitemaps", _PROTOCOL, "error"),
    ("limit-indexes", "a site has at most 500 index files", _LARGE, "warning"),
    ("limit-news", "a file holds at most 1,000 articles", "developers.google.com, news sitemaps", "error"),
    ("empty", "a file lists at least one URL", _XSD, "error"),
    ("loc", "an entry has a URL", _PROTOCOL, "error"),
    ("loc-scheme", "a URL is http or https", _PROTOCOL, "error"),
    ("loc-relative", "a URL is absolute", _PROTOCOL, "error"),
    ("loc-host", "a URL has a valid host and no credentials", "RFC 3986", "error"),
    ("loc-port", "a port is 1 to 65535", "RFC 3986", "error"),
    ("loc-characters", "a URL holds no control character", "RFC 3986", "error"),
    ("loc-too-long", "a URL has fewer than 2,048 characters", _PROTOCOL, "error"),
    ("loc-encoding", "characters outside RFC 3986 are percent-encoded as UTF-8", _PROTOCOL, "warning"),
    ("loc-entity", "a URL holds no HTML entity that was escaped once more", _OURS, "warning"),
    ("loc-duplicate", "a URL is listed once in all files", _OURS, "warning"),
    ("scope-host", "a URL has the sitemap's scheme, host and port", _PROTOCOL, "error"),
    ("scope-path", "a URL is at or below the sitemap's folder, unless robots.txt names the sitemap", _PROTOCOL, "warning"),
    ("lastmod-format", "lastmod is a date, or a date-time with seconds and zone", "w3.org/TR/NOTE-datetime, " + _XSD, "error"),
    ("lastmod-xsd", "lastmod is of a form that the schema takes, not only the W3C's note", _XSD, "warning"),
    ("lastmod-future", "lastmod is not in the future", _OURS, "warning"),
    ("changefreq", "changefreq is one of the protocol's seven words", _PROTOCOL, "error"),
    ("priority", "priority is a number from 0.0 to 1.0", _PROTOCOL, "error"),
    ("image", "an image is as Google's image sitemaps have it", "developers.google.com, image sitemaps", "error"),
    ("video", "a video is as Google's video sitemaps have it", "developers.google.com, video sitemaps", "error"),
    ("news", "an article is as Google's news sitemaps have it", "developers.google.com, news sitemaps", "error"),
    ("news-old", "articles are of the last two days", "developers.google.com, news sitemaps", "warning"),
    ("alternate", "an alternate has a language and an absolute URL", "developers.google.com, localized versions", "error"),
    ("alternate-self", "a page with alternates lists itself among them", "developers.google.com, localized versions", "warning"),
    ("alternate-return", "a page that is named as an alternate names the other page too", "developers.google.com, localized versions", "warning"),
    ("index-nested", "an index lists no index", _PROTOCOL, "error"),
    ("index-duplicate", "an index lists a file once", _PROTOCOL, "error"),
    ("index-host", "a file of an index is on the index's own site", _LARGE, "error"),
    ("index-path", "a file of an index is in its folder or deeper", _LARGE, "warning"),
    ("index-lastmod", "an index's lastmod is no earlier than the newest lastmod in the file", _PROTOCOL, "warning"),
    ("robots-index", "robots.txt names the sitemap", _PROTOCOL, "warning"),
    ("manifest-missing", "a file of the manifest is listed and exists", _OURS, "error"),
    ("manifest-extra", "a file listed is in the manifest", _OURS, "error"),
    ("manifest-count", "a file lists as many URLs as the manifest says", _OURS, "error"),
    ("manifest-content", "a file has the content that the manifest says", _OURS, "error"),
    ("page-status", "a listed URL answers 200", _INDEXING, "error"),
    ("page-redirect", "a listed URL does not redirect", _INDEXING, "error"),
    ("page-noindex", "a listed URL is not marked noindex, by header or meta element", _INDEXING, "error"),
    ("page-canonical", "a listed URL names no other URL as canonical", _INDEXING, "error"),
    ("page-robots", "a listed URL is not disallowed by robots.txt", "RFC 9309", "error"),
)  # fmt: skip

_OF_ROWS: Final = frozenset({"loc-missing", "loc-slash"})
"""Rules of URLs that no file can break: it has neither rows without a URL nor templates."""


CHECKS: Final[Mapping[str, Check]] = MappingProxyType(
    {row[0]: Check(*row) for row in _TABLE}
    | {
        rule.name: Check(rule.name, rule.text, rule.source, "warning")
        for rule in RULES.values()
        if rule.name.startswith("loc-") and rule.name not in {*_OF_ROWS, *(row[0] for row in _TABLE)}
    }
)

SAMPLES: Final = 3
SAMPLE_CHARACTERS: Final = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A check that failed in one file: how often, and descriptions of the first few faults."""

    check: str
    count: int
    samples: tuple[str, ...]

    @property
    def message(self) -> str:
        """The samples, and how many more there are, for people."""
        more = self.count - len(self.samples)
        return "; ".join(self.samples) + (f"; and {more:,} more" if more > 0 else "")


@dataclass(slots=True)
class Findings:
    """Collects findings. Mutable. A million faults need no more memory than three. ``whole``: every entry was read."""

    whole: bool = True
    _counts: dict[str, int] = field(default_factory=dict)
    _samples: dict[str, list[str]] = field(default_factory=dict)

    def note(self, check: str, sample: str, count: int = 1) -> None:
        """Count a fault, and keep its description if it is one of the first."""
        self._counts[check] = self._counts.get(check, 0) + count
        kept = self._samples.setdefault(check, [])
        if len(kept) < SAMPLES:
            kept.append(safe_text(sample[:SAMPLE_CHARACTERS]))

    def listed(self) -> tuple[Finding, ...]:
        """Return one finding for each check that failed, in the order in which they first failed."""
        return tuple(
            Finding(check=check, count=count, samples=tuple(self._samples[check]))
            for check, count in self._counts.items()
        )

    def __bool__(self) -> bool:
        return bool(self._counts)
