"""How the metrics count runs: once by their result, whatever the number of tries, batches and sections that fail."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger
from airflow.sdk.observability import stats

from tests.semantics.shop import dag_of
from tests.semantics.steps import Steps
from tests.simulation.faults import Fault
from tests.support.airflow_db import xcom_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.semantics.shop import Shop


class Counted(NoStatsLogger):
    """A backend that keeps what it counts."""

    def __init__(self) -> None:
        self.counts: list[tuple[str, int, Mapping[str, str]]] = []

    def incr(self, stat: str, count: int = 1, rate: float = 1, *, tags: Any = None) -> None:  # type: ignore[override]
        self.counts.append((stat, count, tags or {}))

    def values(self, name: str, tag: str) -> dict[str, int]:
        """What was counted under a name, by the value of a tag."""
        found: Counter[str] = Counter()
        for stat, count, tags in self.counts:
            if stat == name:
                found[tags[tag]] += count
        return dict(found)


@pytest.fixture
def counted() -> Iterator[Counted]:
    backend = Counted()
    stats.initialize(factory=lambda: backend, export_legacy_names=False)
    yield backend
    stats.initialize(factory=NoStatsLogger, export_legacy_names=False)


def test_a_refused_section_beside_published_ones_can_be_allowed_and_is_counted_once(
    shop: Shop, counted: Counted
) -> None:
    dag = dag_of(shop.sitemap(), "partly_allowed", publish_kwargs={"retries": 3})
    Steps.start(dag, "one").step()
    shop.sql("DELETE FROM products WHERE id > 5")
    shop.add("pages", 30)

    Steps.start(dag, "two").step()

    assert counted.values("sitemaps.runs", "result") == {"published": 1, "partly_published": 1}
    assert counted.values("sitemaps.refusals", "guard") == {"shrink": 1}
    (refusal,) = xcom_of("partly_allowed", "two", "sitemap.publish", "sitemap_refused")["refusals"]
    assert (refusal["guard"], refusal["section"]) == ("shrink", "products")
    Steps.start(dag, "three", conf={"allow": [refusal["permit"]]}).step()
    assert shop.urls() == shop.expected()


def test_a_try_that_is_repeated_ends_no_run(shop: Shop, counted: Counted) -> None:
    shop.faults.on("put", "plans/*", Fault.UNAVAILABLE, area="state", times=40)
    dag = dag_of(shop.sitemap(), "counted_tries", plan_kwargs={"retries": 2, "retry_delay": 0})

    run = Steps.start(dag, "one").step()

    assert run.tries.count("sitemap.plan") == 3
    assert counted.values("sitemaps.runs", "result") == {"failed": 1}


def test_a_dry_run_that_fails_is_not_counted(shop: Shop, counted: Counted) -> None:
    shop.sql("DROP TABLE pages")

    run = Steps.start(dag_of(shop.sitemap(), "counted_dry"), "one", conf={"dry_run": True}).step()

    assert run.states["sitemap.plan"] == "failed"
    assert counted.values("sitemaps.runs", "result") == {}


@pytest.mark.parametrize(("policy", "result"), [("publish_others", "partly_published"), ("fail_all", "failed")])
def test_batches_that_fail_are_one_run_that_failed(shop: Shop, counted: Counted, policy: str, result: str) -> None:
    dag = dag_of(shop.sitemap(on_section_failure=policy), f"counted_{policy}")
    Steps.start(dag, "one").step()
    shop.sql("UPDATE products SET slug = slug || '-x'")
    shop.add("pages", 30)
    shop.faults.on("put", "runs/*/bodies/products-*", Fault.UNAVAILABLE, area="state", times=80)

    run = Steps.start(dag, "two").step()

    assert [state for name, state in run.states.items() if ".write" in name].count("failed") > 1
    assert counted.values("sitemaps.runs", "result") == {"published": 1, result: 1}
