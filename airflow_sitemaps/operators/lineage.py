"""Lineage of sitemaps as OpenLineage events, and the asset scheme ``sitemap``. Names follow OpenLineage's naming rules.

It needs Airflow's OpenLineage provider, which is optional (openlineage.io/docs/spec/naming). No name holds a secret.
``sitemap://www.example.com/sitemap.xml`` names a sitemap by its public address.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, urlsplit

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.quantities import counted

if TYPE_CHECKING:
    from airflow_sitemaps.sitemap import Section, Sitemap

log = logging.getLogger(__name__)

MAX_DATASETS: Final = 200
"""Largest number of datasets in one event. A sitemap with more sections lists the first ones."""

_COLUMN_SETTINGS: Final = (
    "lastmod", "changefreq", "priority", "images", "videos", "news", "alternates", "title", "description", "group",
    "language",
)  # fmt: skip
_OUTPUT_COLUMNS: Final = ("loc", "lastmod", "changefreq", "priority", "images", "videos", "news", "alternates")
_PORTS: Final = {
    "postgres": 5432, "mysql": 3306, "mssql": 1433, "oracle": 1521, "redshift": 5439, "trino": 8080, "clickhouse": 8123,
}  # fmt: skip
_SCHEMES: Final = {"postgresql": "postgres", "mariadb": "mysql", "clickhousedb": "clickhouse"}
_SCHEMAS: Final = {"postgres": "public", "redshift": "public", "mssql": "dbo"}
"""Schema of unqualified tables."""
_IDENTIFIER: Final = re.compile(r'"((?:[^"]|"")*)"|`((?:[^`]|``)*)`|\[([^\]]*)\]|([^."`\[\]]+)')


def _guarded(build: Callable[[Sitemap, Mapping[str, Any]], Any]) -> Callable[[Sitemap, Mapping[str, Any]], Any]:
    """Let a function return None if ``[sitemaps] lineage`` is false, and with a warning if it fails."""

    @wraps(build)
    def guarded(sitemap: Sitemap, facts: Mapping[str, Any]) -> Any:
        from airflow_sitemaps.airflow_compat import is_enabled
        from airflow_sitemaps.pipeline.request import with_published_members

        try:
            return build(with_published_members(sitemap), facts) if is_enabled("lineage") else None
        except Exception as error:  # lineage must never fail a run
            log.warning("Lineage is not available (%s). The run continues.", type(error).__name__)
            return None

    return guarded


@_guarded
def of_plan(sitemap: Sitemap, facts: Mapping[str, Any]) -> Any:
    """Return the lineage of a plan: the tables that it surveyed, with their row counts."""
    sections = facts.get("sections", {})
    chosen = [section for section in sitemap.sections if section.name in sections]
    return _lineage(_inputs(chosen, {name: each.get("rows") for name, each in sections.items()}), [])


@_guarded
def of_write(sitemap: Sitemap, facts: Mapping[str, Any]) -> Any:
    """Return the lineage of a writing task: from the tables of its sections to their files."""
    written = facts.get("sections", {})
    chosen = [section for section in sitemap.sections if section.name in written]
    counts = {
        name: {"rows": each.get("urls"), "size": each.get("bytes"), "files": each.get("shards")}
        for name, each in written.items()
    }
    inputs = _inputs(chosen, {name: each.get("rows") for name, each in written.items()})
    return _lineage(inputs, _outputs(sitemap, chosen, counts))


@_guarded
def of_publish(sitemap: Sitemap, facts: Mapping[str, Any]) -> Any:
    """Return the lineage of a publication, by its report: from all tables to the index and the files of each section."""
    sections = facts.get("sections", {})
    rows = {name: section.get("rows") for name, section in sections.items()}
    dropped = {name: section.get("rows_dropped") or {} for name, section in sections.items()}
    counts = {name: _counts(section) for name, section in sections.items()}
    outputs = [*_indexes(sitemap, facts), *_outputs(sitemap, sitemap.sections, counts)]
    return _lineage(_inputs(sitemap.sections, rows, dropped), outputs)


def _counts(report: Mapping[str, Any]) -> dict[str, Any]:
    files = (report.get("shards") or {}).get("total")
    return {"rows": report.get("urls"), "size": report.get("file_bytes"), "files": files}


def _lineage(inputs: list[Any], outputs: list[Any]) -> Any:
    from airflow.providers.openlineage.extractors import OperatorLineage

    return OperatorLineage(inputs=inputs[:MAX_DATASETS], outputs=outputs[:MAX_DATASETS])


def _inputs(
    sections: Iterable[Section], rows: Mapping[Any, int | None], dropped: Mapping[str, Mapping[str, int]] | None = None
) -> list[Any]:
    """Return the tables of sections, each once, with columns, rows and data quality. Sections that share one add up."""
    from openlineage.client.event_v2 import InputDataset

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
    from openlineage.client import facet_v2

    facets: dict[str, Any] = {}
    if rows is not None:
        metrics, statistics = facet_v2.data_quality_metrics_input_dataset, facet_v2.input_statistics_input_dataset
        facets["dataQualityMetrics"] = metrics.DataQualityMetricsInputDatasetFacet(rowCount=rows, columnMetrics={})
        facets["inputStatistics"] = statistics.InputStatisticsInputDatasetFacet(rowCount=rows)
    if any(dropped.values()):
        quality = facet_v2.data_quality_assertions_dataset
        failed = partial(quality.Assertion, success=False, severity="warn", expected="0")
        assertions = [
            failed(
                assertion=rule,
                actual=str(number),
                description=f"{counted(number, 'row')} not listed in section {section}",
            )
            for section, numbers in dropped.items()
            for rule, number in sorted(numbers.items())
        ]
        facets["dataQualityAssertions"] = quality.DataQualityAssertionsDatasetFacet(assertions=assertions)
    return facets


def _outputs(sitemap: Sitemap, sections: Iterable[Section], counts: Mapping[Any, Mapping[str, Any]]) -> list[Any]:
    """Return one dataset for the files of each section."""
    place = _place(sitemap)
    facets = {"schema": _schema(_OUTPUT_COLUMNS)}
    names = {section.name: file_of(place, f"{section.path}{section.name}") for section in sections}
    return [_output(name, counts.get(section, {}), facets=facets) for section, name in names.items()]


def _place(sitemap: Sitemap) -> str:
    opened = sitemap.store.open()
    return opened.dataset_url or opened.public.url("")


def _indexes(sitemap: Sitemap, report: Mapping[str, Any]) -> list[Any]:
    """Return one dataset for each index file. If there are several, none of them lists all files."""
    base_url, place = sitemap.store.base_url, _place(sitemap)
    keys = [str(url).removeprefix(base_url) for url in report.get("index_urls", ())] or [sitemap.store.index_name]
    counts = _counts(report) if len(keys) == 1 else {}
    return [_output(file_of(place, key), counts) for key in keys]


def _output(name: DatasetName, counts: Mapping[str, Any], **facets: Any) -> Any:
    from openlineage.client.event_v2 import OutputDataset
    from openlineage.client.facet_v2 import output_statistics_output_dataset as statistics

    measured: dict[str, Any] = {}
    if counts.get("rows") is not None:
        measured["outputStatistics"] = statistics.OutputStatisticsOutputDatasetFacet(
            rowCount=counts["rows"], size=counts.get("size"), fileCount=counts.get("files")
        )
    return OutputDataset(namespace=name.namespace, name=name.name, outputFacets=measured, **facets)


def _schema(columns: Iterable[str]) -> Any:
    from openlineage.client.facet_v2 import schema_dataset

    return schema_dataset.SchemaDatasetFacet(
        fields=[schema_dataset.SchemaDatasetFacetFields(name=column) for column in columns]
    )


def columns_of(section: Section) -> list[str]:
    """Return the columns that a section reads, each once."""
    from airflow_sitemaps.sources.user_texts import loc_columns

    source = section.source
    columns = list(getattr(source, "key_columns", ()))
    loc = getattr(source, "loc", None)
    if isinstance(loc, str):
        columns += loc_columns(loc)
    settings = (getattr(source, field, None) for field in _COLUMN_SETTINGS)
    return list(dict.fromkeys([*columns, *(column for column in settings if isinstance(column, str))]))


def tables_of(section: Section) -> list[DatasetName]:
    """Return the tables that a section reads; none for a source without a connection."""
    source = section.source
    conn_id, table, query = (getattr(source, name, None) for name in ("conn_id", "table", "query"))
    if not conn_id:
        return []
    from airflow.sdk import BaseHook

    connection = BaseHook.get_connection(str(conn_id))
    names = connection.conn_type or "", connection.host or "", connection.port, connection.schema or ""
    database = database_of(*names, connection.extra_dejson)
    if table:
        return [database.table(parts_of(str(table)))]
    if not query or str(query).strip().endswith(".sql"):
        return []
    from openlineage.common.sql import parse

    parsed = parse([str(query)], dialect=database.kind)
    return [database.table([t.database or "", t.schema or "", t.name]) for t in (parsed.in_tables if parsed else ())]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetName:
    """The name of a dataset, within the namespace of a database's address, of ``s3://bucket`` or of ``file``."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """The parts of a connection that a dataset's name needs. ``host`` is Snowflake's account, ``database`` a file's path."""

    kind: str
    host: str = ""
    port: int | None = None
    database: str = ""
    schema: str = ""

    @property
    def namespace(self) -> str:
        """Namespace of the database's tables."""
        if self.kind == "bigquery":
            return "bigquery"
        if self.kind in ("sqlite", "duckdb"):
            return f"{self.kind}:{self.database}"
        port = self.port or _PORTS.get(self.kind)
        return f"{self.kind}://{self.host}" + (f":{port}" if port else "")

    def table(self, parts: Sequence[str]) -> DatasetName:
        """Return the name of a table, completed with the default database and schema."""
        given = [part for part in parts if part]
        if self.kind in ("mysql", "clickhouse"):
            defaults = [self.database or self.schema]
        elif self.kind in ("sqlite", "duckdb"):
            defaults = []
        else:
            defaults = [self.database, self.schema]
        missing = len(defaults) + 1 - len(given)
        complete = [*defaults[:missing], *given] if missing > 0 else given
        return DatasetName(namespace=self.namespace, name=".".join(part for part in complete if part))


def database_of(conn_type: str, host: str, port: int | None, schema: str, extra: Mapping[str, Any]) -> Database:
    """Return the database of an Airflow connection. Passwords and keys in its extra are not read."""
    url = extra.get("sqlalchemy_url")
    if url:
        return _database_of_url(str(url))
    kind = conn_type.replace("google_cloud_platform", "bigquery").replace("gcpbigquery", "bigquery")
    kind = _SCHEMES.get(kind, kind)
    if kind == "snowflake":
        account = str(extra.get("account") or host)
        region = str(extra.get("region") or "")
        return Database(
            kind=kind, host=f"{account}.{region}" if region else account,
            database=str(extra.get("database") or ""), schema=schema or "PUBLIC",
        )  # fmt: skip
    if kind == "bigquery":
        return Database(kind=kind, database=str(extra.get("project") or extra.get("project_id") or ""), schema=schema)
    if kind == "trino":
        return Database(kind=kind, host=host, port=port, database=str(extra.get("catalog") or ""), schema=schema)
    if kind in ("sqlite", "duckdb"):
        return Database(kind=kind, database=(host or schema).partition("?")[0])  # MotherDuck's token is in the query
    return Database(kind=kind, host=host, port=port, database=schema, schema=_SCHEMAS.get(kind, ""))


def _database_of_url(url: str) -> Database:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return Database(kind="unknown")
    kind = parts.scheme.partition("+")[0]
    kind = _SCHEMES.get(kind, kind)
    if kind in ("sqlite", "duckdb"):
        return Database(kind=kind, database=parts.path.removeprefix("/"))
    database, _, schema = parts.path.strip("/").partition("/")
    if kind == "bigquery":
        return Database(kind=kind, database=parts.hostname or "", schema=database)
    return Database(
        kind=kind, host=parts.hostname or "", port=port, database=database, schema=schema or _SCHEMAS.get(kind, "")
    )


def parts_of(table: str) -> tuple[str, ...]:
    """Return the parts of a table's name as written, without their quotes."""
    names = (next(part for part in match if part) for match in _IDENTIFIER.findall(table) if any(match))
    return tuple(part.replace('""', '"').replace("``", "`") for part in names)


def file_of(place: str, name: str) -> DatasetName:
    """Return the name of a file in a store, whose public area is ``place``: a bucket's address, a path or ``file://…``.

    The address of a bucket is the one that OpenLineage gives it, such as ``gs://bucket/prefix`` or
    ``wasbs://container@account.dfs.core.windows.net/prefix``.
    """
    parts = urlsplit(place)
    if parts.scheme in ("", "file"):
        return DatasetName(namespace="file", name=f"{parts.path.rstrip('/')}/{name}")
    authority = parts.netloc if parts.scheme == "wasbs" else parts.netloc.rpartition("@")[2]
    return DatasetName(namespace=f"{parts.scheme}://{authority}", name=f"{parts.path.strip('/')}/{name}".lstrip("/"))


def create_asset(*, url: str, extra: Any = None) -> Any:
    """Return the asset of the sitemap whose index is at a public address."""
    from airflow.sdk import Asset

    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(f"{url!r}: give the address of an index, like 'https://www.example.com/sitemap.xml'")
    return Asset(uri=f"sitemap://{parts.netloc.rpartition('@')[2]}{parts.path}", extra=extra)


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """Return the normal form of a ``sitemap://`` URI: without credentials, query and fragment, the host in lower case."""
    host = uri.netloc.rpartition("@")[2].lower()
    if not host or not uri.path.strip("/"):
        raise ValueError("a sitemap asset has a host and a path, like sitemap://www.example.com/sitemap.xml")
    return uri._replace(netloc=host, query="", fragment="")


def convert_asset_to_openlineage(asset: Any, lineage_context: Any) -> Any:
    """Return the OpenLineage dataset of a ``sitemap://`` asset: the site and the path of the index."""
    from airflow.providers.common.compat.openlineage.facet import Dataset

    parts = urlsplit(asset.uri)
    return Dataset(namespace=f"https://{parts.netloc.rpartition('@')[2]}", name=parts.path)
