"""The number of bytes that a survey will scan, as the database estimates it."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_sitemaps.shards.schema import Count


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanEstimate:
    """The bytes that statements are expected to scan.

    Attributes:
        byte_size: The number of bytes.
        basis: How the database says so, such as ``BigQuery dry run``.
        partitions: Number of partitions to scan. Default: None, the database has none or does not say.
        all_partitions: Number of partitions of the scanned tables. Default: None.
    """

    byte_size: Count
    basis: str
    partitions: Count | None = None
    all_partitions: Count | None = None

    def __add__(self, other: ScanEstimate) -> ScanEstimate:
        """Return the estimate of both scans together."""
        return ScanEstimate(
            byte_size=self.byte_size + other.byte_size,
            basis=self.basis,
            partitions=_sum(self.partitions, other.partitions),
            all_partitions=_sum(self.all_partitions, other.all_partitions),
        )


def _sum(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left + right
