"""The findings of reading and checking a file: counted by check, with the first few samples."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from airflow_sitemaps.protocol.rules import safe_text

SAMPLES: Final = 3
SAMPLE_CHARACTERS: Final = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A check that failed in one file.

    Attributes:
        check: Name of the check.
        count: Number of times it failed.
        samples: Descriptions of the first few.
    """

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
    """Collects findings. Mutable. A file with a million faults needs no more memory than one with three.

    Attributes:
        whole: Whether every entry of the file was read. Default: True.
    """

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
