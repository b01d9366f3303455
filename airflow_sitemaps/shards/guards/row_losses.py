"""Explain why rows of a section are not listed: the most frequent rules with samples, and the likely cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from airflow_sitemaps.shards.manifest import SectionManifest

FREQUENT: Final = 3
"""Maximum number of rules that an explanation names, the most frequent first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLosses:
    """Rows of a section that are not listed: ``dropped`` for a fault, ``expired`` for their age. Both are by rule.

    ``rows`` are those of the section, or those of them that were read.
    """

    rows: int
    base_url: str
    dropped: Mapping[str, int] = field(default_factory=dict)
    expired: Mapping[str, int] = field(default_factory=dict)
    samples: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def of_section(cls, section: SectionManifest, base_url: str) -> RowLosses:
        """Collect the losses of a section as rendered."""
        dropped: Counter[str] = Counter()
        expired: Counter[str] = Counter()
        for shard in section.shards:
            dropped.update(shard.dropped)
            expired.update(shard.expired)
        if section.null_keys:
            dropped["key-null"] += section.null_keys
        return cls(rows=section.rows, base_url=base_url, dropped=dropped, expired=expired, samples=section.samples)

    def explanation(self) -> str:
        """Return sentences for people, or "" if every row is listed. The cause is first: a reader may cut the end."""
        parts = []
        for counts, what in ((self.dropped, "dropped"), (self.expired, "past their age")):
            if counts:
                parts.append(f"Rows {what} by rule: {'; '.join(self._rules(counts))}.")
        return " ".join((self.likely_cause(), *parts)).strip()

    def _rules(self, counts: Mapping[str, int]) -> list[str]:
        rules = []
        for rule, number in Counter(counts).most_common(FREQUENT):
            samples = self.samples.get(rule, ())
            shown = f", such as {samples[0]!r}" if samples else ""
            rules.append(f"{rule} {number:,}{shown}")
        return rules

    def likely_cause(self) -> str:
        """Return a sentence about the most frequent fault, or "" if its cause is not known."""
        if not self.dropped:
            return ""
        rule, number = Counter(self.dropped).most_common(1)[0]
        all_rows = number == self.rows
        some = f"all {number:,}" if all_rows else f"{number:,}"
        samples = self.samples.get(rule, ())
        origins, verb = " and ".join(_origins(samples, self.base_url)), "are" if all_rows else "seem to be"
        # The rule of the field names what the article lacks; that of the row shows its value.
        reasons = self.samples.get("news") or self.samples.get("extension-json")
        causes = {
            "scope-host": origins and f"{some} URLs {verb} on {origins}; base_url is {self.base_url}",
            "key-null": f"the key is NULL in {some} rows; use key columns that are never NULL",
            "loc-missing": f"a column of loc= is NULL or empty in {some} rows",
            "loc-relative": f"{some} values of loc= are only parts of URLs; {_advice(samples, self.base_url)}",
            "loc-scheme": f"{some} values of loc= begin with neither https:// nor http://",
            "news-missing": reasons and f"the article is not complete in {some} rows, such as {reasons[0]!r}",
            "loc-duplicate": f"{some} rows repeat the URL of another row; check loc= and the joins of the query",
        }
        return f"Likely cause: {cause}." if (cause := causes.get(rule)) else ""


def _advice(samples: Sequence[str], base_url: str) -> str:
    """Return the template that makes URLs of values such as ``products/1`` or ``www.example.com/products/1``."""
    value = samples[0].strip("'") if samples else ""
    field = "{slug:path}" if "/" in value.partition(" (")[0] else "{slug}"
    scheme, _, rest = base_url.partition("://")
    if value.startswith(rest):
        return f'begin the template of loc= with {scheme}://, or for a column write loc="{scheme}://{field}"'
    return f'write a template, such as loc="{base_url}{field}"'


def _origins(samples: Sequence[str], base_url: str) -> list[str]:
    """Return the hosts of the URLs in samples of faulty rows, in order, with the scheme where only that is another one."""
    origins: list[str] = []
    for sample in samples:
        start = sample.find("http")
        scheme, host = _scheme_and_host(sample[start:].split()[0].strip("'\",;)")) if start >= 0 else ("", "")
        origin = f"{scheme}://{host}" if host and host == _scheme_and_host(base_url)[1] else host
        if origin and origin not in origins:
            origins.append(origin)
    return origins


def _scheme_and_host(url: str) -> tuple[str, str]:
    try:
        parts = urlsplit(url)
    except ValueError:  # such as an unclosed bracket
        return "", ""
    return parts.scheme, parts.netloc
