"""Sections that a run does not write: their damaged files are put again, and their unknown URLs refuse nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_sitemaps.errors import GuardError, SourceError
from airflow_sitemaps.pipeline import stages
from airflow_sitemaps.pipeline.request import RunRequest
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.ports import Overwrite
from tests.pipeline.test_section_failures import Shop, partly
from tests.support.environment import row

if TYPE_CHECKING:
    from collections.abc import Callable


def _database_down(shop: Shop) -> None:
    shop.fail("survey", SourceError("down"))


def _rows_gone(shop: Shop) -> None:
    del shop.products[10:]


def _rows_faulty(shop: Shop) -> None:
    for at in range(20, 40):
        shop.products[at] = {**shop.products[at], "loc": "ftp://www.example.com/"}


@pytest.fixture
def shop() -> Shop:
    made = Shop()
    made.build()
    return made


def public_file(shop: Shop) -> str:
    return next(info.key for info in shop.store.open().public.list("products"))


@pytest.mark.parametrize("cause", [_database_down, _rows_gone, _rows_faulty])
@pytest.mark.parametrize("has_news", [True, False])
def test_a_deleted_file_of_a_section_that_is_not_published_is_put_again(
    shop: Shop, cause: Callable[[Shop], None], has_news: bool
) -> None:
    before = shop.locs()
    name = public_file(shop)
    shop.store.open().public.delete(name)
    cause(shop)
    if has_news:
        shop.posts.append(row(2_000))
    error = partly(shop)
    assert shop.locs() == before | ({row(2_000)["loc"]} if has_news else set())
    report = error.report
    assert any(name in sentence for sentence in report.drift)  # type: ignore[attr-defined]
    assert report.sections["products"].shards.repaired == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("content", [None, b"another program's bytes"])
def test_a_run_of_other_sections_puts_a_damaged_file_again(shop: Shop, content: bytes | None) -> None:
    before = shop.locs()
    public = shop.store.open().public
    name = public_file(shop)
    if content is None:
        public.delete(name)
    else:
        public.put(name, content, mode=Overwrite(), metadata={}, content_type="text/plain")
    report = shop.build(sections=["posts"])
    assert (report.result, shop.locs()) == ("published", before)
    assert shop.build(sections=["posts"]).result == "unchanged"
    assert shop.build().result == "unchanged"


def test_a_file_that_another_run_replaced_since_the_plan_stays(shop: Shop) -> None:
    name = public_file(shop)
    shop.store.open().public.delete(name)
    planned = stages.plan(shop.sitemap(), RunRequest(sections=("posts",)), clock=shop.clock)
    shop.products[0] = row(0, lastmod="2026-03-04")
    assert shop.build(sections=["products"]).result == "published"
    current = StateRepository(shop.store.open().state).current()
    assert current is not None
    assert stages.publish(shop.sitemap(), planned.key, [], clock=shop.clock).result == "unchanged"
    after = StateRepository(shop.store.open().state).current()
    assert after is not None
    assert after.manifest.sections == current.manifest.sections


def test_a_url_that_a_section_beside_the_run_may_list_refuses_nothing(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    """The products were published before must_list was set, and their manifest does not record whether they list it."""
    home = shop.products[0]["loc"]
    shop.settings = {"must_list": [home]}
    shop.posts.append(row(2_000))
    assert shop.build(sections=["posts"]).result == "published"
    assert f"no section is known to list {home}; section products, which this run does not read" in caplog.text
    shop.posts.append(row(2_001))
    _database_down(shop)
    partly(shop)
    assert {home, row(2_001)["loc"]} <= shop.locs()


def test_a_url_that_no_section_lists_refuses_a_run_of_all_sections(shop: Shop) -> None:
    shop.settings = {"must_list": [row(9_999)["loc"]]}
    shop.posts.append(row(2_000))
    with pytest.raises(GuardError, match="no section lists 1 URL of must_list"):
        shop.build()
