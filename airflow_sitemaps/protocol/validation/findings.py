"""The findings of reading and checking a file: counted by check, with the first few places."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from airflow_sitemaps.protocol.rules import safe_text

SAMPLES: Final = 3
SAMPLE_CHARACTERS: Final = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check that failed in one file.

    Attributes:
        check: the check's name.
        count: how often it failed.
        samples: the first few places, in words.
    """

    check: str
    count: int
    samples: tuple[str, ...]

    @property
    def message(self) -> str:
        """For people: the samples, and how many more there are."""
        more = self.count - len(self.samples)
        return "; ".join(self.samples) + (f"; and {more:,} more" if more > 0 else "")


@dataclass(slots=True)
class Findings:
    """Gathers findings. Mutable; a file with a million faults costs no more memory than one with three."""

    _counts: dict[str, int] = field(default_factory=dict)
    _samples: dict[str, list[str]] = field(default_factory=dict)

    def note(self, check: str, sample: str, count: int = 1) -> None:
        """Count a fault, and keep its words while they are among the first."""
        self._counts[check] = self._counts.get(check, 0) + count
        kept = self._samples.setdefault(check, [])
        if len(kept) < SAMPLES:
            kept.append(safe_text(sample[:SAMPLE_CHARACTERS]))

    def listed(self) -> tuple[Finding, ...]:
        """One finding for each check that failed, in the order in which they first did."""
        return tuple(
            Finding(check=check, count=count, samples=tuple(self._samples[check]))
            for check, count in self._counts.items()
        )

    def __bool__(self) -> bool:
        return bool(self._counts)
