"""The pipeline over real servers: Ceph's radosgw, Azurite and Google's JSON API keep what they promise, rclone is refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sitemaps import Guards, Section, ShardPolicy, Sitemap, pipeline
from airflow_sitemaps.errors import ConfigurationError, ConflictError, StoreError
from airflow_sitemaps.pipeline import build, stages
from airflow_sitemaps.pipeline.state.capability_probe import WORTH_ASKING, copies, forget
from airflow_sitemaps.ports import Overwrite
from airflow_sitemaps.testing import MemorySourceConfig, crawl
from tests.simulation.faults import Fault, Faults, FaultyStore, SimulatedCrash

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_sitemaps.ports import StoreConfig
    from airflow_sitemaps.shards.plan import Plan
    from tests.support.s3 import S3Server

pytestmark = pytest.mark.heavy

FREE = Guards.disabled()


class Site:
    """Rows, and the store that they are published to."""

    def __init__(self, store: StoreConfig) -> None:
        self.store = store
        self.rows: list[dict[str, Any]] = [self.row(10 * n) for n in range(1, 31)]

    def row(self, key: int) -> dict[str, Any]:
        return {"id": key, "loc": f"{self.store.base_url}p/{key}", "priority": 0.5}

    def sitemap(self, store: StoreConfig | None = None, **settings: Any) -> Sitemap:
        source = MemorySourceConfig([dict(row) for row in self.rows], key="id", priority="priority")
        sections = [Section("pages", source)]
        return Sitemap(store or self.store, sections, shards=ShardPolicy(max_urls=5), guards=FREE, **settings)

    def etags(self) -> dict[str, str]:
        return {info.key: info.etag for info in self.store.open().public.list()}

    def bodies(self) -> dict[str, bytes]:
        public = self.store.open().public
        return {name: stored.body for name in self.etags() if (stored := public.get(name)) is not None}

    def check(self) -> None:
        """What is listed is what the rows say, each URL once."""
        found = crawl(self.store.open()).entries()
        assert {loc: facts[0][2] for loc, facts in found.items()} == {r["loc"]: str(r["priority"]) for r in self.rows}
        assert all(len(facts) == 1 for facts in found.values())


@contextmanager
def site_on(server: S3Server, **settings: Any) -> Iterator[Site]:
    forget()
    with server.store(**settings) as store:
        yield Site(store)


@pytest.fixture(params=["radosgw", "azure", "gcs"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """A site on each server that enforces conditions."""
    if request.param == "radosgw":
        with site_on(request.getfixturevalue("radosgw")) as site:
            yield site
        return
    forget()
    yield Site(request.getfixturevalue(f"{request.param}_store"))


def test_first_and_incremental(site: Site) -> None:
    assert build(site.sitemap()).urls == 30
    site.check()
    before = site.etags()
    assert build(site.sitemap()).result == "unchanged"
    assert site.etags() == before
    site.rows[7]["priority"] = 0.9
    del site.rows[20]
    site.rows.append(site.row(999))
    assert build(site.sitemap()).result == "published"
    site.check()
    changed = {name for name, etag in site.etags().items() if before.get(name) != etag}
    assert 3 <= len(changed) <= 5 < len(before)


def test_so_many_files_that_the_store_is_asked_to_copy_them(site: Site) -> None:
    """Whatever it answers: the same files are public."""
    site.rows = [site.row(10 * n) for n in range(1, 61)]
    assert build(site.sitemap()).shards.created == 12
    site.check()
    for row in site.rows:
        row["priority"] = 0.9
    assert build(site.sitemap()).shards.rewritten == 12
    site.check()
    print("copies by condition:", copies(site.store.open(), WORTH_ASKING))


def test_of_rivals_one_wins_and_nothing_is_lost(site: Site) -> None:
    build(site.sitemap())
    for round_ in range(1, 6):
        site.rows[round_]["priority"] = round_ / 10
        site.rows.append(site.row(1000 + round_))
        plans = [stages.plan(site.sitemap()) for _ in range(3)]

        def run(planned: Plan) -> int:
            numbers = [batch.number for batch in planned.batches]
            keys = [stages.write(site.sitemap(), planned.key, number).receipt_key for number in numbers]
            with suppress(ConflictError):
                return stages.publish(site.sitemap(), planned.key, keys).generation
            return 0

        with ThreadPoolExecutor(3) as pool:
            generations = sorted(pool.map(run, plans))
        assert generations == [0, 0, round_ + 1]
        site.check()


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
@pytest.mark.parametrize("key", ["pages-0000[2-9].xml.gz", "sitemap.xml"])
def test_an_unfinished_promotion_is_rolled_forward(site: Site, key: str, fault: Fault) -> None:
    build(site.sitemap())
    before = crawl(site.store.open()).locs()
    for row in site.rows:
        row["priority"] = 0.1
    faulty = FaultyStore(site.store, Faults().on("put", key, fault, area="public"))
    with pytest.raises(SimulatedCrash):
        build(site.sitemap(faulty))
    assert crawl(site.store.open()).locs() == before
    assert pipeline.status(site.sitemap()).generation == 2
    assert build(site.sitemap()).result == "unchanged"
    site.check()
    assert pipeline.status(site.sitemap()).generation == 2


@pytest.mark.parametrize(
    "fault",
    [Fault.LOST_ANSWER, Fault.REFUSED_AFTER, Fault.CONFLICT, Fault.UNAVAILABLE, Fault.CRASH_BEFORE, Fault.CRASH_AFTER],
)
def test_whichever_call_fails_the_next_run_ends_at_what_the_rows_say(site: Site, fault: Fault) -> None:
    """Each ninth call of a run, in turn: a lost answer, a retry of the client's own, a 409, a 429 or 503, a killed process."""
    build(site.sitemap())
    for number in range(1, 1000, 9):
        site.rows[number % 30]["priority"] = number % 7 / 10
        faults = Faults().at(number, fault)
        faulty = FaultyStore(site.store, faults)
        with suppress(SimulatedCrash, ConflictError, StoreError):
            build(site.sitemap(faulty))
        build(site.sitemap())
        site.check()
        if not faults.struck:
            return
    raise AssertionError("a run has less than a thousand calls")


def test_a_delayed_write_that_arrives_after_the_next_run_changes_nothing(site: Site) -> None:
    build(site.sitemap())
    for key in ("manifest.json.gz", "pages-0000[1-9].xml.gz", "sitemap.xml"):
        for row in site.rows:
            row["priority"] = (row["priority"] * 10 % 9 + 1) / 10
        faults = Faults().on("put", key, Fault.LATE)
        with suppress(ConflictError, StoreError):
            build(site.sitemap(FaultyStore(site.store, faults)))
        build(site.sitemap())
        faults.land()
        build(site.sitemap())
        site.check()


def test_drift_is_repaired(site: Site) -> None:
    build(site.sitemap())
    public = site.store.open().public
    before = site.bodies()
    for name, body in (("pages-00001.xml.gz", None), ("pages-00003.xml.gz", b"x"), ("sitemap.xml", b"<x/>")):
        if body is None:
            public.delete(name)
        else:
            public.put(name, body, mode=Overwrite(), metadata={}, content_type="text/plain")
    report = build(site.sitemap())
    assert report.result == "published"
    site.check()
    after = site.bodies()
    assert {name for name in before if before[name] != after[name]} <= {"sitemap.xml"}


def test_a_rollback_and_the_way_back(site: Site) -> None:
    build(site.sitemap())
    kept = [dict(row) for row in site.rows]
    site.rows = site.rows[:8]
    build(site.sitemap())
    newest = site.rows
    assert pipeline.rollback(site.sitemap(), 1).generation == 3
    site.rows = kept
    site.check()
    site.rows = newest
    assert build(site.sitemap()).generation == 4
    site.check()


def test_what_departed_is_swept(site: Site) -> None:
    build(site.sitemap(index="per_section"))
    build(site.sitemap(index="one", grace=timedelta(0)))
    assert "sitemap-pages.xml" not in site.etags()
    site.check()


def test_a_store_that_ignores_conditions_gets_nothing(rclone: S3Server) -> None:
    with site_on(rclone) as site:
        with pytest.raises(ConfigurationError, match=r"ignores conditional writes.*single_writer=True"):
            build(site.sitemap())
        store = site.store.open()
        assert [list(store.public.list()), list(store.state.list())] == [[], []]


def test_a_single_writer_may_publish_to_it(rclone: S3Server) -> None:
    with site_on(rclone, single_writer=True) as site:
        assert build(site.sitemap()).urls == 30
        site.check()
        site.rows[3]["priority"] = 0.2
        assert build(site.sitemap()).result == "published"
        site.check()
        assert build(site.sitemap()).result == "unchanged"
