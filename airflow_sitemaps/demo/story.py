"""The steps of the demonstration, printed as they run: build, change the data, build twice more. All numbers are measured."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from airflow_sitemaps.demo.services import (
    DagRun,
    DemoError,
    Difference,
    Home,
    Seen,
    dags_folder,
    difference,
    read_site,
    serve,
)
from airflow_sitemaps.quantities import size

if TYPE_CHECKING:
    from rich.console import Console
    from sqlalchemy import Engine

    from airflow_sitemaps.demo.services import Bucket, Checked

MAX_URLS: Final = 5_000
"""Maximum number of URLs per shard, so that there are dozens of shards. The default, and the limit of the protocol, is 50,000."""

PREFIX: Final = "site/"
BASE_URL: Final = "https://places.example/"


@dataclass(frozen=True, slots=True)
class Told:
    """One run in the table: its title, the DAG run, and the changes in the bucket."""

    title: str
    run: DagRun
    files: Difference


def run(*, site: str, work: str, places: int | None = None) -> bool:
    """Run all steps. Return whether every result is as expected."""
    from rich.console import Console
    from sqlalchemy import create_engine

    console = Console()
    started = time.monotonic()
    home, folder = Path(work).resolve(), Path(site).resolve()
    for old in (home, folder):
        shutil.rmtree(old, ignore_errors=True)
    home.mkdir(parents=True)
    url = f"duckdb:///{home / 'places.duckdb'}"
    engine = create_engine(url)
    try:
        _load(console, engine, places)
        with serve() as bucket:
            airflow = Home(
                work=home,
                dags=dags_folder(),
                warehouse_url=url,
                endpoint=bucket.endpoint,
                settings={"PLACES_STORE": "s3://places-web/site", "PLACES_MAX_URLS": str(MAX_URLS)},
            )
            console.print(
                f"S3: moto, in this process. Airflow: its home and metadata database in {work}/airflow, created for this demonstration.\n"
                f"Shards: {MAX_URLS:,} URLs each, so that there are enough to look at (the default is 50,000).\n"
            )
            runs = _runs(console, airflow, bucket, engine)
            total = bucket.download(PREFIX, folder)
        well = _verdict(console, read_site(folder, BASE_URL), _expected(engine))
    except DemoError as error:
        console.print(f"[red]{error}[/red]")
        return False
    finally:
        engine.dispose()
    _table(console, runs)
    console.print(f"\nThe published files, {size(total)}, are in [bold]{site}/[/bold]; logs of the runs in {work}/.")
    console.print(f"All of this took {time.monotonic() - started:.0f} s.")
    return well


def _load(console: Console, engine: Engine, places: int | None) -> None:
    from airflow_sitemaps.demo import warehouse

    started = time.monotonic()
    rows = warehouse.load(engine, limit=places)
    engine.dispose()  # DuckDB lets one process write, or several read
    console.print(
        f"Warehouse: {rows['places']:,} places and {rows['countries']:,} countries of GeoNames (CC BY 4.0), loaded into "
        f"DuckDB in {time.monotonic() - started:.1f} s.\nTheir modification times are invented, because the package contains none."
    )


def _runs(console: Console, airflow: Home, bucket: Bucket, engine: Engine) -> list[Told]:
    runs = [_one(console, airflow, bucket, {}, 1, "first build")]
    _change(console, engine)
    runs.append(_one(console, airflow, bucket, bucket.look(PREFIX), 2, "after the changes"))
    runs.append(_one(console, airflow, bucket, bucket.look(PREFIX), 3, "nothing changed"))
    return runs


def _one(console: Console, airflow: Home, bucket: Bucket, before: dict[str, Seen], number: int, title: str) -> Told:
    with console.status(f"Airflow runs the DAG places_sitemap: {title} …"):
        done = airflow.run("places_sitemap.py", "places_sitemap", number)
    report = done.extra["report"]
    console.print(
        f"Run {number}, {title}: {report['result']}, generation {report['generation']}, {report['urls']:,} URLs; "
        f"{len(done.tasks)} tasks, {done.seconds:.1f} s including Airflow's start"
    )
    return Told(title, done, difference(before, bucket.look(PREFIX)))


def _change(console: Console, engine: Engine) -> None:
    from airflow_sitemaps.demo import warehouse

    changes = warehouse.change(engine, now=datetime.now(timezone.utc))
    engine.dispose()
    console.print(
        f"\nThe data changes: {changes.inserted_in_the_middle} places inserted in the middle, "
        f"{changes.inserted_at_the_end} at the end, {changes.updated} updated, {changes.deleted} deleted.\n"
    )


def _expected(engine: Engine) -> int:
    from sqlalchemy import text

    with engine.connect() as connection:
        return int(
            connection.execute(
                text("SELECT (SELECT count(*) + count(native_name) FROM places) + (SELECT count(*) FROM countries)")
            ).scalar_one()
        )


def _verdict(console: Console, found: Checked, expected: int) -> bool:
    well = found.urls == found.distinct == expected
    console.print(
        f"\nRead back as a crawler does: the index lists {found.files} files with {found.urls:,} URLs, "
        f"{found.distinct:,} of them distinct, {found.not_ascii:,} with letters beyond ASCII; the warehouse has "
        f"{expected:,} rows: " + ("[green]equal[/green]" if well else "[red]not equal[/red]")
    )
    for example in found.examples:
        console.print(f"  {unquote(example)}", highlight=False)
    return well


def _table(console: Console, told: list[Told]) -> None:
    from rich.table import Table

    table = Table(title="What each run did")
    table.add_column("")
    for one in told:
        table.add_column(one.title, justify="right")
    for name, cells in zip(_ROWS, zip(*map(_figures, told), strict=True), strict=True):
        table.add_row(name, *cells)
    console.print(table)


_ROWS: Final = (
    "shards",
    "  kept as they were",
    "  rewritten",
    "  created",
    "  no longer listed",
    "rows read from the warehouse",
    "files that S3 shows as touched",
    "  their bytes",
    "time of plan, write, publish",
    "time of the DAG run, with Airflow",
)


def _figures(one: Told) -> tuple[str, ...]:
    report: dict[str, Any] = one.run.extra["report"]
    shards, files = report["shards"], one.files
    return (
        *(f"{shards[name]:,}" for name in ("total", "kept", "rewritten", "created", "removed")),
        f"{report['rows_read']:,}",
        f"{files.changed + files.new:,} of {files.untouched + files.changed + files.new:,}",
        size(files.byte_size),
        f"{sum(report['seconds'].values()):.2f} s",
        f"{one.run.seconds:.1f} s",
    )
