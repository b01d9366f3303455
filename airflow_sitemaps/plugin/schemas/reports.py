"""Responses about a run's report."""

from __future__ import annotations

from airflow_sitemaps.plugin.schemas.strict_model import StrictModel


class SectionReport(StrictModel):
    """One section of a report. ``rows_expired`` are past their age, such as news after two days, and no fault.

    ``outcomes`` is the effect of each broken rule on its rows; ``extensions`` are the numbers of images, videos, articles
    (``news``) and alternates.
    """

    urls: int
    rows: int
    xml_bytes: int
    file_bytes: int
    rows_read: int
    bytes_written: int
    shards: dict[str, int]
    rows_dropped: dict[str, int]
    rows_expired: dict[str, int]
    fields_fixed: dict[str, int]
    outcomes: dict[str, str]
    samples: dict[str, list[str]]
    reasons: dict[str, int]
    extensions: dict[str, int]
    max_urls: int
    max_dropped: float
    newest_lastmod: str | None
    drift: list[str]


class Report(StrictModel):
    """The report of a run, from the asset event."""

    run: str
    result: str
    action: str
    generation: int
    previous_generation: int
    started_at: str | None
    finished_at: str | None
    committed_at: str | None
    index_urls: list[str]
    robots_urls: list[str]
    extra_urls: list[str]
    urls: int
    rows: int
    xml_bytes: int
    file_bytes: int
    rows_read: int
    bytes_written: int
    swept: int
    shards: dict[str, int]
    rows_dropped: dict[str, int]
    rows_expired: dict[str, int]
    fields_fixed: dict[str, int]
    seconds: dict[str, float]
    sections: dict[str, SectionReport]
    drift: list[str]
    warnings: list[str]
    refusals: list[str]
