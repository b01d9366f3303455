"""One stage of this package in this process: ``python -m benchmarks.stages NAME JSON`` prints one JSON line.

What is imported late by the product is imported before the clock starts; what that costs is reported as ``import_s``.
"""

from __future__ import annotations

import json
import sys
import warnings
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks import data
from benchmarks.databases import server_cpu_s
from benchmarks.meter import metered, resident_mb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from airflow_sitemaps import Sitemap
    from airflow_sitemaps.sources.session import SqlSession

STAGES: dict[str, Callable[..., dict[str, Any]]] = {}


def stage(function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Register a stage by its function's name."""
    STAGES[function.__name__] = function
    return function


def load(database: str, store: str) -> float:
    """Import what a run imports; the MB that Airflow's own modules add to the process."""
    import pyarrow as pa
    import sqlalchemy  # noqa: F401

    pa.array(["pandas is imported here where it is installed"])
    if store.startswith("s3"):
        import boto3  # noqa: F401
    before = resident_mb()
    from airflow.sdk import BaseHook

    BaseHook.get_connection(f"bench_{database}")
    if store.startswith("s3"):
        from airflow.providers.amazon.aws.hooks.s3 import S3Hook  # noqa: F401
    airflow_mb = resident_mb() - before
    from airflow_sitemaps.pipeline import build  # noqa: F401
    from airflow_sitemaps.protocol.columnar.elements import render  # noqa: F401
    from airflow_sitemaps.shards import stream  # noqa: F401

    if database == "postgresql":
        import psycopg  # noqa: F401
    else:
        import duckdb_engine  # noqa: F401
    if store.startswith("s3"):
        from airflow_sitemaps.stores.s3.client import connections

        connections.of("bench_s3")
    with _source(database).open(section="pages") as session:
        session.now()
    return airflow_mb


def _source(database: str, reader: str = "auto", table: str = data.TABLE) -> Any:
    from airflow_sitemaps import SqlSource

    return SqlSource(
        f"bench_{database}", table=table, key="id", loc="loc", lastmod="lastmod", changefreq="changefreq",
        priority="priority", reader=reader,
    )  # fmt: skip


def sitemap_of(
    *,
    database: str,
    store: str,
    max_urls: int = 50_000,
    compression: str = "fast",
    reader: str = "auto",
    table: str = data.TABLE,
) -> Sitemap:
    """The benchmark's sitemap; ``store`` is a folder or an ``s3://`` address."""
    from airflow_sitemaps import LocalStore, S3Store, Section, ShardPolicy, Sitemap

    place = (
        S3Store(store, base_url=data.BASE, conn_id="bench_s3")
        if store.startswith("s3://")
        else LocalStore(store, base_url=data.BASE)
    )
    return Sitemap(
        store=place,
        sections=[Section("pages", _source(database, reader, table))],
        shards=ShardPolicy(max_urls=max_urls),
        compression=compression,
    )


@stage
def build(*, full: bool = False, **how: Any) -> dict[str, Any]:
    """A whole run by the package's own pipeline."""
    from airflow_sitemaps import pipeline

    airflow_mb = load(how["database"], how["store"])
    loaded_mb = resident_mb()
    sitemap = sitemap_of(**how)
    with metered() as found:
        report = pipeline.build(sitemap, full=full)
    told = report.to_dict()
    kept = {name: told[name] for name in ("urls", "result", "xml_bytes", "file_bytes", "fields_fixed", "seconds")}
    return {**found, "airflow_mb": airflow_mb, "loaded_mb": loaded_mb, **kept}


@stage
def imports(**_: Any) -> dict[str, Any]:
    """What a DAG file's imports cost beside Airflow's own."""
    from airflow.sdk import Asset, BaseOperator, TaskGroup, dag, task  # noqa: F401

    with metered() as found:
        from airflow_sitemaps import S3Store, Section, Sitemap, SitemapTaskGroup, SqlSource  # noqa: F401
        from airflow_sitemaps.operators.publish import SitemapWriteOperator  # noqa: F401
    heavy = sorted({"pyarrow", "sqlalchemy", "boto3", "botocore", "lxml", "duckdb", "pandas"} & set(sys.modules))
    return {"beyond_airflow_s": found["cpu_s"], "heavy": heavy}


@stage
def drain(*, database: str, shards: int, **_: Any) -> dict[str, Any]:
    """The same rows by the same select list and order, dropped: no code of the package but its SQL."""
    from airflow_sitemaps.sources.queries.context import rows_statement

    load(database, "")
    with _source(database).open(section="pages") as session:
        outputs = session.context.outputs(objects=False)
        statement, _columns = rows_statement(session.context, _span(session, shards), outputs)
        with metered() as found:
            rows = sum(batch.num_rows for batch in _bare(database, session, statement))
    return {**found, "rows": rows}


SCANS = {
    "bare_": "SELECT count(*), max(lastmod) FROM pages",
    "joined_": "SELECT sum(hashtextextended(concat_ws('|', id, loc, lastmod, changefreq, priority), 0)) FROM pages",
}
"""What the survey is compared with: a scan without a hash, and one hash of the five columns joined."""


@stage
def digest(*, database: str, max_urls: int = 50_000, store: str = "", postmaster: int = 0, **_: Any) -> dict[str, Any]:
    """The survey's statements alone, and ``SCANS``, in turn: wall, and CPU seconds of the server; medians of three."""
    import sqlalchemy as sa

    from airflow_sitemaps.shards.ranges import KeyRange, cut

    def scan(session: SqlSession, sql: str) -> None:
        with session.transaction("a scan") as connection:
            connection.execute(sa.text(sql)).one()

    load(database, store)
    found: list[dict[str, float]] = []
    with _source(database).open(section="pages") as session:
        ranges = cut(KeyRange(None, None), session.boundaries(KeyRange(None, None), max_urls))
        runs: dict[str, Callable[[], Any]] = {"": lambda: session.survey(ranges)}
        runs |= {name: partial(scan, session, sql) for name, sql in SCANS.items()}
        for _round in range(3):
            one = {}
            for name, run in runs.items():
                before = server_cpu_s(postmaster)
                with metered() as client:
                    run()
                one |= {f"{name}wall_s": client["wall_s"], f"{name}server_cpu_s": server_cpu_s(postmaster) - before}
            found.append(one)
    return {**{name: median(one[name] for one in found) for name in found[0]}, "ranges": len(ranges)}


@stage
def parts(*, database: str, rows: int = 300_000, **_: Any) -> dict[str, Any]:
    """CPU seconds per million rows of each part of the work alone, over the same record batches in memory."""
    import zlib

    from airflow_sitemaps.pipeline.request import SYSTEM_CLOCK, row_context_of
    from airflow_sitemaps.protocol.columnar.batch import SLICE_ROWS, clean
    from airflow_sitemaps.protocol.columnar.elements import render as rendered
    from airflow_sitemaps.protocol.gzip import compress
    from airflow_sitemaps.protocol.rules import Tally
    from airflow_sitemaps.shards.ranges import KeyRange, cut
    from airflow_sitemaps.shards.stream import ShardStream
    from airflow_sitemaps.shards.url_sample import level_of

    load(database, "")
    sitemap = sitemap_of(database=database, store="unused")
    judge = row_context_of(sitemap, sitemap.sections[0], SYSTEM_CLOCK)
    with _source(database).open(section="pages") as session:
        ends = session.boundaries(KeyRange(None, None), 50_000)[: rows // 50_000]
        ranges = cut(KeyRange(None, ends[-1]), ends[:-1])
        batches = list(session.read(ranges))
    pieces = [b.slice(start, SLICE_ROWS) for b in batches for start in range(0, b.num_rows, SLICE_ROWS)]
    million = sum(batch.num_rows for batch in batches) / 1e6
    bodies = []

    def render() -> None:
        for piece in pieces:
            b"".join(rendered(clean(piece, judge, Tally())).chunks())

    def stream() -> None:
        bodies.clear()
        for number in range(len(ranges)):
            shard = ShardStream(judge, "fast", level_of(round(million * 1e6)))
            for batch in batches:
                rows_of = batch.filter(pc.equal(batch["range"], number))
                if rows_of.num_rows:
                    shard.add(rows_of)
            bodies.extend(zlib.decompress(file.body, 31) for file in shard.finish())

    import pyarrow.compute as pc

    render()
    stream()
    timed: dict[str, Callable[[], object]] = {
        "render": render,
        "gzip fast": lambda: [compress(body) for body in bodies],
        "gzip small": lambda: [compress(body, "small") for body in bodies],
        "gzip zlib 6": lambda: [zlib.compress(body, 6) for body in bodies],
    }
    found: dict[str, Any] = {"xml_bytes_per_url": sum(map(len, bodies)) / million / 1e6}
    for name, work in timed.items():
        with metered() as one:
            made = work()
        found[name] = one["cpu_s"] / million
        if isinstance(made, list):
            found[f"{name} bytes"] = sum(map(len, made))
    return found


@stage
def changed(*, shards: int, **how: Any) -> dict[str, Any]:
    """A full build, an unchanged run beside its digest query alone, and a run after one row of one shard changed."""
    from airflow_sitemaps import pipeline

    postmaster = how.pop("postmaster")
    load(how["database"], how["store"])
    sitemap = sitemap_of(**how)
    found: dict[str, Any] = {}
    for name in ("full", "unchanged", "one shard"):
        if name == "one shard":
            _touch(how["database"], "+")
        try:
            found[name] = _one(lambda: pipeline.build(sitemap), postmaster)
        finally:
            if name == "one shard":
                _touch(how["database"], "-")
        if name == "unchanged":
            found |= _alone(sitemap, how["database"], postmaster)
    assert found["unchanged"]["result"] == "unchanged"
    assert found["one shard"]["rewritten"] == 1
    assert found["full"]["shards"] == shards, found["full"]
    return found


def _one(run: Callable[[], Any], postmaster: int) -> dict[str, Any]:
    server = server_cpu_s(postmaster)
    with metered() as found:
        report = run().to_dict()
    return {
        **found,
        "server_cpu_s": server_cpu_s(postmaster) - server,
        "result": report["result"],
        "shards": report["shards"]["total"],
        "rewritten": report["shards"]["rewritten"],
        "bytes": report["bytes_written"],
    }


def _alone(sitemap: Sitemap, database: str, postmaster: int) -> dict[str, Any]:
    """The digest query of all ranges as they are, on a fresh connection; and what an unchanged run was beside it."""
    from airflow_sitemaps.pipeline.state.repository import StateRepository

    current = StateRepository(sitemap.store.open().state).current()
    assert current is not None
    ranges = [shard.range for shard in current.manifest.sections["pages"].shards]
    times = []
    for _ in range(3):
        with _source(database).open(section="pages") as session:
            server = server_cpu_s(postmaster)
            with metered() as found:
                session.survey(ranges)
            times.append({**found, "server_cpu_s": server_cpu_s(postmaster) - server})
    from airflow_sitemaps import pipeline

    runs = [_one(lambda: pipeline.build(sitemap), postmaster) for _ in range(3)]
    return {"digest alone": times, "unchanged runs": runs}


def _touch(database: str, sign: str) -> None:
    """Change the time of one row, or change it back."""
    import sqlalchemy as sa

    with _source(database).open(section="pages") as session, session.engine.begin() as connection:
        connection.execute(
            sa.text(
                f"UPDATE pages SET lastmod = lastmod {sign} INTERVAL '1 second'"
                f" WHERE id = (SELECT min(id) + 1234 FROM pages)"
            )
        )


def _span(session: SqlSession, shards: int) -> Any:
    from airflow_sitemaps.shards.ranges import KeyRange, cut
    from airflow_sitemaps.sources.queries.key_spans import spans

    (span,) = spans(cut(KeyRange(None, None), session.boundaries(KeyRange(None, None), shards)))
    return span


def _bare(database: str, session: SqlSession, statement: Any) -> Iterator[pa.RecordBatch]:
    if database == "postgresql":
        from adbc_driver_postgresql import dbapi
        from sqlalchemy.dialects import postgresql

        from airflow_sitemaps.sources.dialects.postgresql_readers import BATCH_BYTES, BATCH_HINT
        from airflow_sitemaps.sources.driver import literal

        url = session.engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
        sql = literal(statement, postgresql.dialect(paramstyle="named"), session.context.dialect.text_literal)
        with dbapi.connect(url) as connection, connection.cursor() as cursor:
            cursor.adbc_statement.set_options(**{BATCH_HINT: str(BATCH_BYTES)})
            cursor.execute(sql)
            with cursor.fetch_record_batch() as reader:
                yield from reader
    else:
        clause, values = statement
        compiled = clause.compile(dialect=session.engine.dialect)
        with session.engine.connect() as connection:
            driver: Any = connection.connection.dbapi_connection
            rows = driver.sql(compiled.string, params=[values[name] for name in compiled.positiontup or ()])
            make = getattr(rows, "to_arrow_reader", None) or rows.fetch_arrow_reader
            yield from make(65_536)


def main() -> None:
    """Run the stage that the command line names."""
    warnings.simplefilter("ignore")
    name, how = sys.argv[1], json.loads(sys.argv[2])
    print(json.dumps(STAGES[name](**how)))


if __name__ == "__main__":
    main()
