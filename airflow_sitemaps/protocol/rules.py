"""Rules a row is held to, what becomes of a fault, and the count of what was found."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import ConfigurationError, RuleError

if TYPE_CHECKING:
    from collections.abc import Mapping

SAMPLES_PER_RULE: Final = 5
SAMPLE_CHARACTERS: Final = 200


class Verdict(str, Enum):
    """What becomes of a row with a fault."""

    KEEP = "keep"
    """Written as it is, and counted."""
    REPAIR = "repair"
    """Mended, written, and counted."""
    OMIT_FIELD = "omit_field"
    """The faulty field is left out, the URL stays, and the fault is counted."""
    DROP_ROW = "drop_row"
    """The row is not written, and is counted with samples."""
    FAIL = "fail"
    """The run fails before anything is published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule: its stable name, what it says, where that is said, and what its fault may become."""

    name: str
    text: str
    source: str
    default: Verdict
    allowed: tuple[Verdict, ...]


_K, _R, _O, _D, _F = Verdict.KEEP, Verdict.REPAIR, Verdict.OMIT_FIELD, Verdict.DROP_ROW, Verdict.FAIL
_PROTOCOL = "sitemaps.org/protocol.html"


def _rule(name: str, text: str, source: str, *verdicts: Verdict) -> Rule:
    return Rule(name=name, text=text, source=source, default=verdicts[0], allowed=verdicts)


_ALL = (
    _rule("key-null", "a row has a key, else no shard can hold it", "this project", _D, _F),
    _rule("loc-missing", "a row has a URL", _PROTOCOL, _D, _F),
    _rule("loc-duplicate", "a URL is listed once; of equal ones in a shard the first is kept", _PROTOCOL, _D, _F, _K),
    _rule("loc-relative", "a URL is absolute; root-relative ones are completed", _PROTOCOL, _R, _D, _F),
    _rule("loc-scheme", "a URL is http or https", _PROTOCOL, _D, _F),
    _rule(
        "loc-host", "a URL has a valid host; an international one is written in punycode", "RFC 3986, RFC 5891", _D, _F
    ),
    _rule("loc-port", "a port is 1 to 65535", "RFC 3986", _D, _F),
    _rule("loc-characters", "a URL holds no control character or lone surrogate", "RFC 3986, XML 1.0", _D, _F),
    _rule("loc-encoding", "characters outside RFC 3986 are percent-encoded as UTF-8", _PROTOCOL, _R, _D, _F),
    _rule(
        "loc-entity",
        "a URL holds no HTML entity; those already in the data are resolved",
        "this project",
        _R,
        _K,
        _D,
        _F,
    ),
    _rule("loc-too-long", "a URL has fewer than 2,048 characters", _PROTOCOL, _D, _F),
    _rule(
        "scope-host", "a URL has the sitemap's scheme, host and port, or those of cross_submit", _PROTOCOL, _D, _F, _K
    ),
    _rule(
        "scope-path",
        "a URL lies at or below the sitemap's directory, unless robots.txt names the sitemap",
        _PROTOCOL,
        _K,
        _D,
        _F,
    ),
    _rule(
        "lastmod-format",
        "lastmod is a date, or a date-time with a zone",
        "w3.org/TR/NOTE-datetime, sitemap.xsd",
        _O,
        _D,
        _F,
    ),
    _rule("lastmod-range", "lastmod lies in the years 1 to 9999", "XML Schema 1.0", _O, _D, _F),
    _rule(
        "lastmod-future",
        "lastmod is not in the future; it is written when its time has come",
        "this project",
        _O,
        _K,
        _D,
        _F,
    ),
    _rule("changefreq", "changefreq is one of the protocol's seven words", _PROTOCOL, _O, _D, _F),
    _rule("priority", "priority is a number from 0.0 to 1.0", _PROTOCOL, _O, _D, _F),
    _rule("extension-json", "images, videos, news and alternates are JSON", "this project", _O, _D, _F),
    _rule(
        "image",
        "an image has a URL, and a URL at most 1,000 images",
        "developers.google.com, image sitemaps",
        _O,
        _D,
        _F,
    ),
    _rule(
        "video",
        "a video has its required fields, within their limits",
        "developers.google.com, video sitemaps",
        _O,
        _D,
        _F,
    ),
    _rule(
        "video-title",
        "a video's title has at most 100 characters; with 'keep' it may be longer, as Google reads it",
        "sitemap-video.xsd",
        _O,
        _K,
    ),
    _rule(
        "news",
        "a news entry has its required fields, within their limits",
        "developers.google.com, news sitemaps",
        _O,
        _D,
        _F,
    ),
    _rule(
        "alternate",
        "an alternate has a language code and an absolute URL",
        "developers.google.com, localized versions",
        _O,
        _D,
        _F,
    ),
    _rule(
        "alternate-dropped",
        "a version that the group names is listed itself; one whose URL is dropped leaves the others' alternates",
        "developers.google.com, localized versions",
        _O,
        _K,
        _F,
    ),
    _rule(
        "news-age",
        "an article is listed in a news sitemap for two days; older ones are left out, which is no fault of theirs",
        "developers.google.com, news sitemaps",
        _O,
        _K,
    ),
    _rule(
        "ignored-field", "fields that Google no longer reads are written and named", "developers.google.com", _K, _O, _F
    ),
    _rule("entry-too-large", "one entry fits into one file", _PROTOCOL, _D, _F),
)

RULES: Final[Mapping[str, Rule]] = MappingProxyType({rule.name: rule for rule in _ALL})
"""Every rule by its name."""


@dataclass(frozen=True, slots=True)
class Rulebook:
    """The verdict of every rule: the defaults, and what the user set."""

    verdicts: Mapping[str, Verdict]

    @classmethod
    def of(cls, settings: Mapping[str, str | Verdict] | None = None) -> Rulebook:
        """The defaults with ``settings`` (rule name → verdict) over them.

        Raises:
            ConfigurationError: a rule or verdict that does not exist, or a verdict the rule cannot have.
        """
        verdicts = {rule.name: rule.default for rule in RULES.values()}
        for name, verdict in (settings or {}).items():
            if name not in RULES:
                raise ConfigurationError(f"rules: there is no rule {name!r}; the rules are {', '.join(RULES)}")
            allowed = [v.value for v in RULES[name].allowed]
            if str(getattr(verdict, "value", verdict)) not in allowed:
                raise ConfigurationError(f"rules: {name!r} cannot be {verdict!r}; it can be {', '.join(allowed)}")
            verdicts[name] = Verdict(verdict)
        return cls(MappingProxyType(verdicts))

    def __getitem__(self, rule: str) -> Verdict:
        return self.verdicts[rule]


@dataclass(slots=True)
class Tally:
    """Faults found, by rule: how many rows each verdict met, and a few samples. Mutable; merge with ``add``.

    ``dropped`` counts rows, ``mended`` counts repairs, omissions and keeps. ``samples`` holds up to
    ``SAMPLES_PER_RULE`` texts of at most ``SAMPLE_CHARACTERS`` characters each.
    """

    dropped: dict[str, int] = field(default_factory=dict)
    mended: dict[str, int] = field(default_factory=dict)
    samples: dict[str, list[str]] = field(default_factory=dict)

    def count(
        self, rule: str, verdict: Verdict, samples: list[str], rows: int | None = None, *, where: str = ""
    ) -> None:
        """Count ``rows`` rows (default: one per sample) under a rule.

        Raises:
            RuleError: the verdict is ``fail``.
        """
        number = len(samples) if rows is None else rows
        if not number:
            return
        if verdict is Verdict.FAIL:
            shown = "; ".join(repr(s[:SAMPLE_CHARACTERS]) for s in samples[:SAMPLES_PER_RULE])
            raise RuleError(
                f"{where or 'source'}: {number:,} row(s) break the rule {rule!r} ({RULES[rule].text}), which is set to "
                f"'fail': {shown}. Nothing was published. Mend the rows, or set the rule to one of "
                f"{', '.join(v.value for v in RULES[rule].allowed if v is not Verdict.FAIL)}.",
                rule=rule,
            )
        counts = self.dropped if verdict is Verdict.DROP_ROW else self.mended
        counts[rule] = counts.get(rule, 0) + number
        kept = self.samples.setdefault(rule, [])
        kept.extend(s[:SAMPLE_CHARACTERS] for s in samples[: SAMPLES_PER_RULE - len(kept)])

    def add(self, other: Tally) -> None:
        """Add another tally's counts and samples to this one."""
        for mine, theirs in ((self.dropped, other.dropped), (self.mended, other.mended)):
            for rule, number in theirs.items():
                mine[rule] = mine.get(rule, 0) + number
        for rule, samples in other.samples.items():
            kept = self.samples.setdefault(rule, [])
            kept.extend(samples[: SAMPLES_PER_RULE - len(kept)])
