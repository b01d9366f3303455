"""Explain why rows of a section are not listed: the most frequent rules with samples, and the likely cause."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_sitemaps.protocol.rules import Tally
    from airflow_sitemaps.shards.manifest import SectionManifest

FREQUENT: Final = 3
"""Maximum number of rules that an explanation names, the most frequent first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLosses:
    """Rows of a section that are not listed.

    Attributes:
        rows: Rows of the section, or those of them that were read.
        base_url: Address of the folder of the section's files.
        dropped: Rows dropped because of a fault, by rule. Default: none.
        expired: Rows omitted because of their age, by rule. Default: none.
        samples: A few faulty rows by rule. Default: none.
    """

    rows: int
    base_url: str
    dropped: Mapping[str, int] = field(default_factory=dict)
    expired: Mapping[str, int] = field(default_factory=dict)
    samples: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def of_section(cls, section: SectionManifest, base_url: str) -> RowLosses:
        """Collect the losses of a section as rendered.

        Args:
            section: The section.
            base_url: Address of the folder of its files.
        """
        dropped: Counter[str] = Counter()
        expired: Counter[str] = Counter()
        for shard in section.shards:
            dropped.update(shard.dropped)
            expired.update(shard.expired)
        if section.null_keys:
            dropped["key-null"] += section.null_keys
        return cls(rows=section.rows, base_url=base_url, dropped=dropped, expired=expired, samples=section.samples)

    @classmethod
    def of_tally(cls, tally: Tally, rows: int, base_url: str) -> RowLosses:
        """Collect the losses of rows that were checked.

        Args:
            tally: The counts of the rows.
            rows: Number of the rows.
            base_url: Address of the folder of the section's files.
        """
        return cls(rows=rows, base_url=base_url, dropped=tally.dropped, expired=tally.expired, samples=tally.samples)

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
        if rule == "scope-host":
            hosts = hosts_of(self.samples.get(rule, ()))
            if hosts:
                which = "URLs are" if all_rows else "URLs seem to be"
                return f"Likely cause: {some} {which} on {' and '.join(hosts)}; base_url is {self.base_url}."
        if rule == "key-null":
            return f"Likely cause: the key is NULL in {some} rows; use key columns that are never NULL."
        if rule == "loc-missing":
            return f"Likely cause: a column of loc= is NULL or empty in {some} rows."
        if rule == "loc-relative":
            template = f'loc="{self.base_url}{{slug}}"'
            return f"Likely cause: {some} values of loc= are only parts of URLs; write a template, such as {template}."
        if rule == "loc-scheme":
            return f"Likely cause: {some} values of loc= begin with neither https:// nor http://."
        return ""


def hosts_of(samples: Sequence[str]) -> list[str]:
    """Return the hosts of the URLs in samples of faulty rows, in order."""
    hosts: list[str] = []
    for sample in samples:
        start = sample.find("http")
        host = _host(sample[start:].split()[0].strip("'\",;)")) if start >= 0 else ""
        if host and host not in hosts:
            hosts.append(host)
    return hosts


def _host(url: str) -> str:
    try:
        return urlsplit(url).netloc
    except ValueError:  # such as an unclosed bracket
        return ""
