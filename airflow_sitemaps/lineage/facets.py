"""Facets and datasets of the tasks of a sitemap, for Airflow's OpenLineage provider."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.lineage.dataset_names import Database, DatasetName, database_of, file_of, parts_of
from airflow_sitemaps.quantities import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from airflow_sitemaps.sitemap import Section, Sitemap

log = logging.getLogger(__name__)

MAX_DATASETS: Final = 200
"""Largest number of datasets in one event. A sitemap with more sections lists the first ones."""

_COLUMN_SETTINGS: Final = (
    "lastmod", "changefreq", "priority", "images", "videos", "news", "alternates", "title", "description", "group",
    "language",
)  # fmt: skip
_OUTPUT_COLUMNS: Final = ("loc", "lastmod", "changefreq", "priority", "images", "videos", "news", "alternates")


def of_plan(sitemap: Sitemap, facts: Mapping[str, Any]) -> Any:
    """Return the lineage of a plan: the tables that it surveyed, with their row counts."""
    sections = facts.get("sections", {})
    chosen = [section for section in sitemap.sections if section.name in sections]
    return _guarded(lambda: _lineage(_inputs(chosen, {name: s.get("rows") for name, s in sections.items()}), []))


def of_write(sitemap: Sitemap, facts: Mapping[str, Any]) -> Any:
    """Return the lineage of a writing task: from the tables of its sections to their files.

    Args:
        facts: The facts of what was written, as in XCom.
    """
    written = facts.get("sections", {})
    chosen = [section for section in sitemap.sections if section.name in written]

    def build() -> Any:
        counts = {
            name: {"rows": each.get("urls"), "size": each.get("bytes"), "files": each.get("shards")}
            for name, each in written.items()
        }
        inputs = _inputs(chosen, {name: each.get("rows") for name, each in written.items()})
        return _lineage(inputs, _outputs(sitemap, chosen, counts))

    return _guarded(build)


def of_publish(sitemap: Sitemap, report: Mapping[str, Any]) -> Any:
    """Return the lineage of a publication: from all tables to the index and the files of each section."""
    sections = report.get("sections", {})

    def build() -> Any:
        rows = {name: section.get("rows") for name, section in sections.items()}
        dropped = {name: section.get("rows_dropped") or {} for name, section in sections.items()}
        counts = {
            name: {
                "rows": section.get("urls"),
                "size": section.get("file_bytes"),
                "files": (section.get("shards") or {}).get("total"),
            }
            for name, section in sections.items()
        }
        outputs = [*_indexes(sitemap, report), *_outputs(sitemap, sitemap.sections, counts)]
        return _lineage(_inputs(sitemap.sections, rows, dropped), outputs)

    return _guarded(build)


def _guarded(build: Callable[[], Any]) -> Any:
    """Return what ``build`` returns; None if ``[sitemaps] lineage`` is false, and with a warning if it fails."""
    from airflow_sitemaps.airflow_compat import is_enabled  # noqa: PLC0415 - Airflow takes seconds to import

    try:
        return build() if is_enabled("lineage") else None
    except Exception as error:  # lineage must never fail a run
        log.warning("Lineage is not available (%s). The run continues.", type(error).__name__)
        return None


def _lineage(inputs: list[Any], outputs: list[Any]) -> Any:
    from airflow.providers.openlineage.extractors import OperatorLineage  # noqa: PLC0415 - optional

    return OperatorLineage(inputs=inputs[:MAX_DATASETS], outputs=outputs[:MAX_DATASETS])


def _inputs(
    sections: Iterable[Section],
    rows: Mapping[Any, int | None],
    dropped: Mapping[str, Mapping[str, int]] | None = None,
) -> list[Any]:
    """Return the tables of sections, each once, with columns, row counts and data quality.

    Sections that share a table add up: their columns, the rows that they read, and what their rules dropped.
    """
    from openlineage.client.event_v2 import InputDataset  # noqa: PLC0415 - optional

    readers: dict[DatasetName, list[Section]] = {}
    alone: set[str] = set()
    for section in sections:
        names = tables_of(section)
        if len(names) == 1:
            alone.add(section.name)
        for name in names:
            readers.setdefault(name, []).append(section)
    return [
        InputDataset(
            namespace=name.namespace,
            name=name.name,
            facets={"schema": _schema(dict.fromkeys(c for section in members for c in columns_of(section)))},
            inputFacets=_input_facets(
                _sum(rows.get(section.name) if section.name in alone else None for section in members),
                {section.name: (dropped or {}).get(section.name, {}) for section in members},
            ),
        )
        for name, members in readers.items()
    ]


def _sum(numbers: Iterable[int | None]) -> int | None:
    """Return the sum of numbers; None if one of them is not known."""
    summands = list(numbers)
    return None if None in summands else sum(number or 0 for number in summands)


def _input_facets(rows: int | None, dropped: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """Return the row count of a table, and an assertion for each rule that drops rows of a section."""
    from openlineage.client.facet_v2 import (  # noqa: PLC0415 - optional
        data_quality_assertions_dataset,
        data_quality_metrics_input_dataset,
        input_statistics_input_dataset,
    )

    facets: dict[str, Any] = {}
    if rows is not None:
        facets["dataQualityMetrics"] = data_quality_metrics_input_dataset.DataQualityMetricsInputDatasetFacet(
            rowCount=rows, columnMetrics={}
        )
        facets["inputStatistics"] = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(rowCount=rows)
    if any(dropped.values()):
        assertions = [
            data_quality_assertions_dataset.Assertion(
                assertion=rule,
                success=False,
                severity="warn",
                expected="0",
                actual=str(number),
                description=f"{counted(number, 'row')} not listed in section {section}",
            )
            for section, numbers in dropped.items()
            for rule, number in sorted(numbers.items())
        ]
        facets["dataQualityAssertions"] = data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(
            assertions=assertions
        )
    return facets


def _outputs(sitemap: Sitemap, sections: Iterable[Section], counts: Mapping[Any, Mapping[str, Any]]) -> list[Any]:
    """Return one dataset for the files of each section."""
    from openlineage.client.event_v2 import OutputDataset  # noqa: PLC0415 - optional

    public_url = sitemap.store.open().public.url("")
    datasets = []
    for section in sections:
        name = file_of(public_url, f"{section.path}{section.name}")
        datasets.append(
            OutputDataset(
                namespace=name.namespace,
                name=name.name,
                facets={"schema": _schema(_OUTPUT_COLUMNS)},
                outputFacets=_statistics(counts.get(section.name, {})),
            )
        )
    return datasets


def _indexes(sitemap: Sitemap, report: Mapping[str, Any]) -> list[Any]:
    """Return one dataset for each index file. If there are several, none of them lists all files."""
    from openlineage.client.event_v2 import OutputDataset  # noqa: PLC0415 - optional

    base_url, public_url = sitemap.store.base_url, sitemap.store.open().public.url("")
    keys = [str(url).removeprefix(base_url) for url in report.get("index_urls", ())] or [sitemap.store.index_name]
    counts = {
        "rows": report.get("urls"),
        "size": report.get("file_bytes"),
        "files": (report.get("shards") or {}).get("total"),
    }
    names = [file_of(public_url, key) for key in keys]
    return [
        OutputDataset(
            namespace=name.namespace, name=name.name, outputFacets=_statistics(counts) if len(names) == 1 else {}
        )
        for name in names
    ]


def _statistics(counts: Mapping[str, Any]) -> dict[str, Any]:
    from openlineage.client.facet_v2 import output_statistics_output_dataset as statistics  # noqa: PLC0415 - optional

    if counts.get("rows") is None:
        return {}
    return {
        "outputStatistics": statistics.OutputStatisticsOutputDatasetFacet(
            rowCount=counts["rows"], size=counts.get("size"), fileCount=counts.get("files")
        )
    }


def _schema(columns: Iterable[str]) -> Any:
    from openlineage.client.facet_v2 import schema_dataset  # noqa: PLC0415 - optional

    return schema_dataset.SchemaDatasetFacet(
        fields=[schema_dataset.SchemaDatasetFacetFields(name=column) for column in columns]
    )


def columns_of(section: Section) -> list[str]:
    """Return the columns that a section reads, each once."""
    from airflow_sitemaps.protocol.url_template import Template  # noqa: PLC0415

    source = section.source
    columns = list(getattr(source, "key_columns", ()))
    loc = getattr(source, "loc", None)
    if isinstance(loc, str):
        columns += Template.parse(loc).columns if "{" in loc else (loc,)
    for field in _COLUMN_SETTINGS:
        column = getattr(source, field, None)
        if isinstance(column, str):
            columns.append(column)
    return list(dict.fromkeys(columns))


def tables_of(section: Section) -> list[DatasetName]:
    """Return the tables that a section reads; none for a source without a connection."""
    source = section.source
    conn_id, table, query = (getattr(source, name, None) for name in ("conn_id", "table", "query"))
    if not conn_id:
        return []
    database = _database(str(conn_id))
    if table:
        return [database.table(parts_of(str(table)))]
    if not query or str(query).strip().endswith(".sql"):
        return []
    from openlineage.common.sql import parse  # noqa: PLC0415 - optional

    parsed = parse([str(query)], dialect=database.kind)
    return [database.table([t.database or "", t.schema or "", t.name]) for t in (parsed.in_tables if parsed else ())]


def _database(conn_id: str) -> Database:
    from airflow.sdk import BaseHook  # noqa: PLC0415 - Airflow takes seconds to import

    connection = BaseHook.get_connection(conn_id)
    return database_of(
        connection.conn_type or "",
        connection.host or "",
        connection.port,
        connection.schema or "",
        connection.extra_dejson,
    )
