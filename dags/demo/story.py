"""The steps of the demonstration, printed as they run. All numbers are measured.

A first build, changes, nothing new, a broken load and its repair, and a refused change that a person may allow.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from airflow_sitemaps.quantities import size
from demo.services import (
    DAGS,
    SITE,
    STATE,
    DagRun,
    DemoError,
    Difference,
    Home,
    Seen,
    difference,
    read_site,
    serve,
)

if TYPE_CHECKING:
    from rich.console import Console
    from sqlalchemy import Engine

    from demo.services import Bucket, Checked

MAX_URLS: Final = 5_000
"""Maximum number of URLs per shard, so that there are dozens of shards. The default, and the limit of the protocol, is 50,000."""

WORK: Final = ".demo"
"""Folder for the database and Airflow's home, in the current one."""

PUBLISHED: Final = "demo-site"
"""Folder for the published files."""

BASE_URL: Final = "https://places.example/"
DAG_FILE: Final = "places_sitemap.py"
RUNS: Final = 6


@dataclass(frozen=True, slots=True)
class Told:
    """One run: its title, the DAG run, its report, and the changes in the bucket."""

    title: str
    run: DagRun
    report: dict[str, Any]
    files: Difference


@dataclass(frozen=True, slots=True)
class Scene:
    """What the runs share."""

    console: Console
    airflow: Home
    bucket: Bucket
    engine: Engine

    def say(self, text: str = "") -> None:
        """Print lines as they are, without a break at the width of the terminal."""
        self.console.print(text, soft_wrap=True)

    def run(self, number: int, title: str, *, state: str = "success") -> Told:
        """Run the DAG, which must end in a state, and print one line about it."""
        before: dict[str, Seen] = self.bucket.look(SITE)
        if 1 < number < RUNS:  # the first two processes would write Airflow's configuration at one time
            self.airflow.start(DAG_FILE, "places_sitemap", number + 1)
        with self.console.status(f"Airflow runs the DAG places_sitemap: {title} …"):
            done = self.airflow.run(DAG_FILE, "places_sitemap", number, state=state)
        report = self.bucket.newest_report()
        color = {"published": "green", "refused": "red"}.get(report["result"], "default")
        self.say(
            f"Run {number}, {title}: [{color}]{report['result']}[/{color}], generation {report['generation']}; "
            f"{len(done.tasks)} tasks, {done.seconds:.1f} s in Airflow"
        )
        return Told(title, done, report, difference(before, self.bucket.look(SITE)))


def run(places: int | None = None) -> bool:
    """Run all steps, over so many places if a number is given. Return whether every result is as expected."""
    from rich.console import Console
    from sqlalchemy import create_engine

    console = Console(highlight=False)
    started = time.monotonic()
    home, folder = Path(WORK).resolve(), Path(PUBLISHED).resolve()
    for old in (home, folder):
        shutil.rmtree(old, ignore_errors=True)
    (home / "dags").mkdir(parents=True)
    shutil.copy(DAGS / DAG_FILE, home / "dags")
    engine = create_engine(_warehouse(home))
    try:
        with serve() as bucket:
            scene = Scene(console, _airflow(home, bucket), bucket, engine)
            scene.airflow.start(DAG_FILE, "places_sitemap", 1)
            _load(console, engine, places)
            scene.say(
                f"Store: an S3 server in this process. Airflow: a home of its own, {WORK}/airflow.\n"
                f"Sitemap: three sections; {MAX_URLS:,} URLs a file, for many files (the default is 50,000).\n"
            )
            well = _changes(scene)
            well = _broken_load(scene) and well
            total = bucket.download(SITE, folder)
            well = _verdict(scene, read_site(folder, BASE_URL), _expected(engine)) and well
            well = _question(scene) and well
            bucket.download(STATE, home / "state")
    except DemoError as error:
        console.print(f"[red]{error}[/red]")
        return False
    finally:
        engine.dispose()
    scene.say(
        f"\nAll of this took {time.monotonic() - started:.0f} s.\n"
        f"  The published files, {size(total)}:  [bold]{PUBLISHED}/[/bold], beginning with {PUBLISHED}/sitemap.xml\n"
        f"  The logs of the runs:  {WORK}/run-1.log and so on\n"
        "  Airflow's UI, with the page Sitemaps and the question to answer:  [bold]make demo-page[/bold]"
    )
    return well


def show(port: int) -> bool:
    """Serve Airflow's UI over what ``run`` left, until Ctrl-C. Return whether it could."""
    home, folder = Path(WORK).resolve(), Path(PUBLISHED).resolve()
    if not (home / "state").is_dir() or not folder.is_dir():
        print(f"There is no demonstration in {PUBLISHED} and {WORK}. Run `make demo` first.")
        return False
    areas = ((SITE, folder), (STATE, home / "state"))
    with serve() as bucket:
        for area in areas:
            bucket.upload(*area)
        print(
            f"Open http://127.0.0.1:{port} in a minute; only this machine can. Its home page lists the question under\n"
            "Required Actions; Sitemaps in the navigation shows the runs. Ctrl-C ends it."
        )
        try:
            status = _airflow(home, bucket).show(port)
        except DemoError as error:
            print(error)
            return False
        for area in areas:  # an answer is there the next time
            bucket.download(*area)
    if status:
        print(f"Airflow ended with status {status}; its log is {WORK}/airflow.log.")
    return status == 0


def _warehouse(home: Path) -> str:
    return f"duckdb:///{home / 'places.duckdb'}"


def _airflow(home: Path, bucket: Bucket) -> Home:
    return Home(
        work=home,
        dags=home / "dags",
        warehouse_url=f"{_warehouse(home)}?access_mode=read_only",  # so that several tasks can read
        endpoint=bucket.endpoint,
        settings={"PLACES_STORE": "s3://places-web/site", "PLACES_MAX_URLS": str(MAX_URLS)},
    )


def _load(console: Console, engine: Engine, places: int | None) -> None:
    from demo import warehouse

    started = time.monotonic()
    rows = warehouse.load(engine, limit=places)
    engine.dispose()  # DuckDB lets one process write, or several read
    console.print(
        f"Warehouse: {rows['places']:,} places and {rows['countries']:,} countries of GeoNames (CC BY 4.0), in DuckDB, "
        f"loaded in {time.monotonic() - started:.1f} s.\nTheir dates are invented: the package has none.",
        soft_wrap=True,
    )


def _changes(scene: Scene) -> bool:
    """Build, change the data, run twice. Return whether exactly the dates of the changed places moved."""
    from demo import warehouse

    runs = [scene.run(1, "first build")]
    rows = warehouse.change(scene.engine, now=datetime.now(timezone.utc))
    scene.engine.dispose()
    scene.say(
        f"\nThe data changes: {rows.inserted_in_the_middle} places are new in the middle, {rows.inserted_at_the_end} at the "
        f"end; {rows.updated} change, {rows.deleted} go.\nThe load also writes today's date to {rows.stamped:,} places that "
        "did not change."
    )
    runs.append(scene.run(2, "after the changes"))
    moved = runs[-1].report["sections"]["places"]["lastmods_moved"]
    scene.say(
        f"  Section places observes its pages: the dates of {moved:,} places moved, those that changed.\n"
        "  Section native takes the column updated_at: every date that the load wrote is in its files.\n"
    )
    runs.append(scene.run(3, "nothing changed"))
    scene.say()
    _table(scene.console, runs)
    return bool(moved == rows.updated)


def _broken_load(scene: Scene) -> bool:
    """Lose rows, see the run refused, and repair the load. Return whether no file was touched."""
    from demo import warehouse

    warehouse.lose(scene.engine)
    scene.engine.dispose()
    scene.say("\nA load breaks: a third of the places are missing.")
    refused = scene.run(4, "after the broken load", state="failed")
    for failure in refused.report["failures"]:
        scene.say(f"  {failure['message']}")
    scene.say(
        f"  Files that changed: {refused.files.changed + refused.files.new + refused.files.gone}. "
        "Crawlers see the sitemap of run 3.\n"
    )
    warehouse.restore(scene.engine)
    scene.engine.dispose()
    scene.say("The load is repaired; nothing has to be cleaned up.")
    again = scene.run(5, "after the repair")
    return (
        not (refused.files.changed or refused.files.new or refused.files.gone) and again.report["result"] == "unchanged"
    )


def _question(scene: Scene) -> bool:
    """Give up places on purpose, and show what Airflow asks. Return whether it asks about the one section."""
    from rich.markdown import Markdown
    from rich.panel import Panel

    from demo import warehouse

    number = warehouse.give_up(scene.engine)
    scene.engine.dispose()
    scene.say(f"\nThe site gives up {number:,} small places, on purpose. A guard cannot know that, so Airflow asks.")
    refused = scene.run(6, "after that", state="failed")
    for subject, body in refused.run.questions:
        scene.console.print(Panel(Markdown(body), title=f"Required Actions: {subject}"))
    return len(refused.run.questions) == 1


def _expected(engine: Engine) -> int:
    from sqlalchemy import text

    with engine.connect() as connection:
        return int(
            connection.execute(
                text("SELECT (SELECT count(*) + count(native_name) FROM places) + (SELECT count(*) FROM countries)")
            ).scalar_one()
        )


def _verdict(scene: Scene, found: Checked, expected: int) -> bool:
    well = found.urls == found.distinct == expected
    scene.say(
        f"\nRead as a crawler does: the index lists {found.files} files with {found.urls:,} URLs, all different: "
        f"{'yes' if found.urls == found.distinct else 'no'}.\nThe warehouse has {expected:,} rows: "
        + ("[green]equal[/green]" if well else "[red]not equal[/red]")
        + f". {found.not_ascii:,} URLs have letters beyond ASCII, such as"
    )
    for example in found.examples:
        scene.say(f"  {unquote(example)}")
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
    "files in the sitemap",
    "  kept as they were",
    "  rewritten",
    "  created",
    "  no longer listed",
    "URLs",
    "rows read",
    "files that changed on S3",
    "  their bytes",
    "plan, write, publish",
    "in Airflow",
)


def _figures(one: Told) -> tuple[str, ...]:
    report, files = one.report, one.files
    shards = report["shards"]
    return (
        *(f"{shards[name]:,}" for name in ("total", "kept", "rewritten", "created", "removed")),
        f"{report['urls']:,}",
        f"{report['rows_read']:,}",
        f"{files.changed + files.new:,} of {files.untouched + files.changed + files.new:,}",
        size(files.byte_size),
        f"{sum(report['seconds'].values()):.2f} s",
        f"{one.run.seconds:.1f} s",
    )
