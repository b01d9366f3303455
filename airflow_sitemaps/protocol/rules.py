"""The rules that rows must follow, the checks of published files, and the counts of what breaks them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final, Literal

from airflow_sitemaps.errors import ConfigurationError, RuleError
from airflow_sitemaps.quantities import counted

SAMPLES_PER_RULE: Final = 5
"""Number of samples kept for each rule."""

SAMPLE_CHARACTERS: Final = 200
"""Maximum number of characters of a sample's value, URL and key."""

SAMPLE_LIMIT: Final = 3 * SAMPLE_CHARACTERS + 20
"""Maximum number of characters of a whole sample."""


class Verdict(str, Enum):
    """What happens to a row that breaks a rule."""

    KEEP = "keep"
    """The row is written unchanged, and counted."""
    REPAIR = "repair"
    """The value is fixed, the row is written, and the fix is counted."""
    OMIT_FIELD = "omit_field"
    """The faulty field is omitted, the URL stays, and the fault is counted."""
    DROP_ROW = "drop_row"
    """The row is not written, and is counted with samples."""
    FAIL = "fail"
    """The run fails before anything is published."""


class Effect(str, Enum):
    """The effect of a counted fault on its row, in the words of reports and pages."""

    FIXED = "fixed"
    FIELD_REMOVED = "field removed"
    LEFT_OUT = "left out"
    LISTED_ANYWAY = "listed anyway"
    EXPIRED = "expired"
    """The row is omitted because of its age, which is not a fault: a news article after two days."""


_EFFECTS: Final = {
    Verdict.KEEP: Effect.LISTED_ANYWAY,
    Verdict.REPAIR: Effect.FIXED,
    Verdict.OMIT_FIELD: Effect.FIELD_REMOVED,
    Verdict.DROP_ROW: Effect.LEFT_OUT,
    Verdict.FAIL: Effect.LEFT_OUT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a document (``source``) requires of rows. Settings, reports and manifests use the name, so it is stable.

    ``default`` is the verdict unless the user sets another one of ``allowed``. A rule that ``expires`` omits rows because of
    their age. They are counted as expired, never as dropped, and no guard refuses a run because of them.
    """

    name: str
    text: str
    source: str
    default: Verdict
    allowed: tuple[Verdict, ...]
    expires: bool = False

    def effect(self, verdict: Verdict) -> Effect:
        """Return the effect of a fault on its row with this verdict."""
        return Effect.EXPIRED if self.expires and verdict is not Verdict.KEEP else _EFFECTS[verdict]


_K, _R, _O, _D, _F = Verdict.KEEP, Verdict.REPAIR, Verdict.OMIT_FIELD, Verdict.DROP_ROW, Verdict.FAIL
_PROTOCOL = "sitemaps.org/protocol.html"
_NEWS_PAGE = "developers.google.com, news sitemaps"


def _rule(name: str, text: str, source: str, *verdicts: Verdict, expires: bool = False) -> Rule:
    return Rule(name=name, text=text, source=source, default=verdicts[0], allowed=verdicts, expires=expires)


_ALL = (
    _rule("key-null", "a row has a key, else no shard can hold it", "this project", _D, _F),
    _rule("loc-missing", "a row has a URL, and each column of its template a value", _PROTOCOL, _D, _F),
    _rule("loc-duplicate", "a URL is listed once; of equal ones in a shard the first is kept", _PROTOCOL, _D, _F, _K),
    _rule("loc-slash", "a value of {column} in a template holds no slash: it is written as %2F, and {column:path} keeps it", "this project", _K, _F),
    _rule("loc-relative", "a URL is absolute; root-relative ones are completed", _PROTOCOL, _R, _D, _F),
    _rule("loc-scheme", "a URL is http or https", _PROTOCOL, _D, _F),
    _rule("loc-host", "a URL has a valid host; an international one is written in punycode", "RFC 3986, RFC 5891", _D, _F),
    _rule("loc-port", "a port is 1 to 65535", "RFC 3986", _D, _F),
    _rule("loc-characters", "a URL holds no control character or lone surrogate", "RFC 3986, XML 1.0", _D, _F),
    _rule("loc-replacement-character", "a URL holds no U+FFFD, plain or percent-encoded: it marks text that was decoded with the wrong encoding", "this project", _D, _F, _K),
    _rule("loc-encoding", "characters outside RFC 3986 are percent-encoded as UTF-8", _PROTOCOL, _R, _D, _F),
    _rule("loc-entity", "a URL holds no HTML entity; those already in the data are resolved", "this project", _R, _K, _D, _F),
    _rule("loc-too-long", "a URL has fewer than 2,048 characters", _PROTOCOL, _D, _F),
    _rule("scope-host", "a URL has the sitemap's scheme, host and port, or those of cross_submit", _PROTOCOL, _D, _F, _K),
    _rule("scope-path", "a URL is at or below the sitemap's directory, unless robots.txt names the sitemap", _PROTOCOL, _K, _D, _F),
    _rule("lastmod-format", "lastmod is a date, or a date-time with a zone", "w3.org/TR/NOTE-datetime, sitemap.xsd", _O, _D, _F),
    _rule("lastmod-range", "lastmod is after 0001-01-01 and before 9999-12-31; both stand for infinity in databases", "XML Schema 1.0", _O, _D, _F),
    _rule("lastmod-future", "lastmod is not in the future; it is written once the moment has passed", "this project", _O, _K, _D, _F),
    _rule("changefreq", "changefreq is one of the protocol's seven words", _PROTOCOL, _O, _D, _F),
    _rule("priority", "priority is a number from 0.0 to 1.0", _PROTOCOL, _O, _D, _F),
    _rule("extension-json", "images, videos, news and alternates are JSON", "this project", _O, _D, _F),
    _rule("image", "an image has a URL, and a URL at most 1,000 images", "developers.google.com, image sitemaps", _O, _D, _F),
    _rule("video", "a video has its required fields, within their limits", "developers.google.com, video sitemaps", _O, _D, _F),
    _rule("video-title", "a video's title has at most 100 characters; with 'keep' it may be longer, as Google reads it", "sitemap-video.xsd", _O, _K),
    _rule("news", "a news entry has its required fields, within their limits", "developers.google.com, news sitemaps", _O, _D, _F),
    _rule("alternate", "an alternate has a language code and an absolute URL", "developers.google.com, localized versions", _O, _D, _F),
    _rule("alternate-dropped", "a version that a group names is listed itself; one whose URL is dropped is removed from the others' alternates", "developers.google.com, localized versions", _O, _K, _F),
    _rule("news-age", "an article is listed in a news sitemap for two days; older ones expire, which is no fault", _NEWS_PAGE, _O, _K, expires=True),
    _rule("news-missing", "an entry of a news section has an article with all required fields; without a news column it has a lastmod", _NEWS_PAGE, _D, _F, _K),
    _rule("ignored-field", "fields that Google no longer reads are written and named", "developers.google.com", _K, _O, _F),
    _rule("entry-too-large", "one entry fits into one file", _PROTOCOL, _D, _F),
)  # fmt: skip

RULES: Final[Mapping[str, Rule]] = MappingProxyType({rule.name: rule for rule in _ALL})
"""All rules by name."""


Rulebook = Mapping[str, Verdict]
"""The verdict of every rule by its name: the default, or what the user set."""


def rulebook_of(settings: Mapping[str, str | Verdict] | None = None) -> Rulebook:
    """Return the defaults, overridden by a user's verdicts; raise ConfigurationError for one that is not allowed."""
    verdicts = {rule.name: rule.default for rule in RULES.values()}
    for name, verdict in (settings or {}).items():
        if name not in RULES:
            raise ConfigurationError(f"rules: there is no rule {name!r}; the rules are {', '.join(RULES)}")
        allowed = [v.value for v in RULES[name].allowed]
        if str(getattr(verdict, "value", verdict)) not in allowed:
            raise ConfigurationError(f"rules: {name!r} cannot be {verdict!r}; it can be {', '.join(allowed)}")
        verdicts[name] = Verdict(verdict)
    return MappingProxyType(verdicts)


def changed_rules(rulebook: Rulebook) -> dict[str, str]:
    """Return the verdicts that differ from their defaults, by rule name."""
    return {name: verdict.value for name, verdict in rulebook.items() if verdict is not RULES[name].default}


@dataclass(slots=True)
class Tally:
    """Counts of the faults in some rows, by rule. Mutable; ``add`` merges another tally.

    Rows are ``dropped`` because of a fault, ``fixed`` (listed with a repair, without a field, or unchanged), or ``expired``
    because of their age, which is not a fault. Samples are up to ``SAMPLES_PER_RULE`` texts by ``sample_text``.
    """

    dropped: dict[str, int] = field(default_factory=dict)
    fixed: dict[str, int] = field(default_factory=dict)
    expired: dict[str, int] = field(default_factory=dict)
    samples: dict[str, list[str]] = field(default_factory=dict)

    def count(
        self, rule: str, verdict: Verdict, samples: Sequence[str], rows: int | None = None, *, where: str = ""
    ) -> None:
        """Count rows that break a rule, or raise RuleError if the verdict is ``fail``; ``where`` is the section.

        ``samples`` show the first of the rows. ``rows`` None: one for each sample.
        """
        number = len(samples) if rows is None else rows
        if not number:
            return
        shown = [safe_text(sample)[:SAMPLE_LIMIT] for sample in samples[:SAMPLES_PER_RULE]]
        if verdict is Verdict.FAIL:
            raise _failure(rule, number, shown, where)
        effect = RULES[rule].effect(verdict)
        counts = {Effect.EXPIRED: self.expired, Effect.LEFT_OUT: self.dropped}.get(effect, self.fixed)
        counts[rule] = counts.get(rule, 0) + number
        self._keep(rule, shown)

    def add(self, other: Tally) -> None:
        """Add another tally's counts and samples to this one."""
        pairs = ((self.dropped, other.dropped), (self.fixed, other.fixed), (self.expired, other.expired))
        for mine, theirs in pairs:
            for rule, number in theirs.items():
                mine[rule] = mine.get(rule, 0) + number
        for rule, samples in other.samples.items():
            self._keep(rule, samples)

    def _keep(self, rule: str, samples: Sequence[str]) -> None:
        kept = self.samples.setdefault(rule, [])
        kept.extend(samples[: SAMPLES_PER_RULE - len(kept)])


def _failure(rule: str, number: int, samples: Sequence[str], where: str) -> RuleError:
    others = ", ".join(v.value for v in RULES[rule].allowed if v is not Verdict.FAIL)
    return RuleError(
        f"{where or 'source'}: {counted(number, 'row')} broke the rule {rule!r} ({RULES[rule].text}), which is set to "
        f"'fail': {'; '.join(map(repr, samples))}. The section was not published. Fix the rows, or set the rule to one of "
        f"{others}.",
        rule=rule,
        section=where,
    )


def safe_text(value: str) -> str:
    r"""Return a text that UTF-8 can encode. Each lone surrogate becomes its escape, such as ``\ud800``."""
    return value.encode("utf-8", "backslashreplace").decode() if not value.isascii() else value


def sample_text(value: str, *, loc: str | None = None, key: str | None = None) -> str:
    """Describe one faulty row for a tally by a value, the URL of the page, and the key of the row as a JSON array.

    Each part has at most ``SAMPLE_CHARACTERS`` characters. A URL or key that is shown already is not repeated.
    """
    parts = [_shortened(value)]
    if loc is not None and loc not in parts[0]:
        parts.append(_shortened(loc))
    text = key[2:-2] if key is not None and key.startswith('["') and key.endswith('"]') else ""
    if key is not None and not (text and any(text in part for part in parts)):
        parts.append(f"key {_shortened(key)}")
    return parts[0] if len(parts) == 1 else f"{parts[0]} ({'; '.join(parts[1:])})"


def _shortened(text: str) -> str:
    return text if len(text) <= SAMPLE_CHARACTERS else text[: SAMPLE_CHARACTERS - 1] + "…"


Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Check:
    """One check. ``error``: the sitemap is invalid or partly unreadable. ``warning``: a loss or a risk."""

    name: str
    text: str
    source: str
    severity: Severity


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
    ("lastmod-format", "lastmod is a date or a date-time with a zone, in a form of the note", "w3.org/TR/NOTE-datetime, " + _XSD, "error"),
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
    ("robots-file", "a sitemap's file is not disallowed by robots.txt", "RFC 9309", "error"),
    ("robots-index", "robots.txt names the sitemap", _PROTOCOL, "warning"),
    ("manifest-missing", "a file of the manifest is listed and exists", _OURS, "error"),
    ("manifest-extra", "a file listed is in the manifest", _OURS, "error"),
    ("manifest-count", "a file lists as many URLs as the manifest says", _OURS, "error"),
    ("manifest-content", "a file has the content that the manifest says", _OURS, "error"),
    ("page-status", "a listed URL answers 200", _INDEXING, "error"),
    ("page-redirect", "a listed URL does not redirect", _INDEXING, "error"),
    ("page-noindex", "a listed URL is not marked noindex, by header or meta element", _INDEXING, "error"),
    ("page-canonical", "a listed URL names no other URL as canonical", _INDEXING, "error"),
    ("page-soft-404", "a listed URL differs from the answer for a URL that cannot exist", _INDEXING, "error"),
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

SAMPLES_PER_CHECK: Final = 3
FINDING_CHARACTERS: Final = 240


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
        if len(kept) < SAMPLES_PER_CHECK:
            kept.append(safe_text(sample[:FINDING_CHARACTERS]))

    def listed(self) -> tuple[Finding, ...]:
        """Return one finding for each check that failed, in the order in which they first failed."""
        return tuple(
            Finding(check=check, count=count, samples=tuple(self._samples[check]))
            for check, count in self._counts.items()
        )

    def __bool__(self) -> bool:
        return bool(self._counts)
