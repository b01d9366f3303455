"""Names in a run's params where a DAG holds several sitemaps: ``group/section``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.operators import is_dry_run
from airflow_sitemaps.operators.plan import Names, SitemapPlanOperator, references
from airflow_sitemaps.shards.plan import Batch
from airflow_sitemaps.sitemap import Section, Sitemap
from airflow_sitemaps.sources.sql import SqlSource
from airflow_sitemaps.stores.local import LocalStore
from airflow_sitemaps.task_group import SitemapTaskGroup
from airflow_sitemaps.testing import MemorySourceConfig

if TYPE_CHECKING:
    from airflow_sitemaps.pipeline.stages import RunRequest


def plans(path: str = "") -> tuple[SitemapPlanOperator, SitemapPlanOperator]:
    """The planning tasks of two sitemaps in one DAG, which both have a section ``pages``."""
    with DAG("names", schedule=None, max_active_runs=1) as dag:
        for group, section in (("shop", "products"), ("blog", "posts")):
            store = LocalStore(group, base_url=f"https://{group}.example/")
            sections = [Section(name, MemorySourceConfig([]), path=path) for name in (section, "pages")]
            SitemapTaskGroup(group, Sitemap(store, sections))
    shop, blog = dag.get_task("shop.plan"), dag.get_task("blog.plan")
    assert isinstance(shop, SitemapPlanOperator)
    assert isinstance(blog, SitemapPlanOperator)
    return shop, blog


def requests(**params: Any) -> tuple[RunRequest | None, RunRequest | None]:
    shop, blog = plans()
    return shop.request(params), blog.request(params)


def test_a_section_with_its_group_concerns_that_sitemap_only() -> None:
    shop, blog = requests(sections=["shop/pages"])

    assert shop is not None
    assert shop.sections == ("pages",)
    assert blog is None


def test_a_group_without_a_section_is_every_section_of_that_sitemap_as_the_code_defines_them() -> None:
    for sections in (["shop/"], "shop/", ["shop/", "shop/pages"]):
        shop, blog = requests(sections=sections)

        assert shop is not None
        assert shop.sections == (), "as in a run without names"
        assert blog is None


def test_a_section_without_a_group_concerns_every_sitemap_that_has_it() -> None:
    shop, blog = requests(sections=["pages"])

    assert shop is not None
    assert blog is not None
    assert shop.sections == blog.sections == ("pages",)


def test_a_permit_with_its_group_lets_that_sitemap_pass_only() -> None:
    shop, blog = requests(allow=["shrink:blog/pages", "empty:posts"])

    assert shop is not None
    assert blog is not None
    assert shop.allow == ()
    assert blog.allow == ("shrink:pages", "empty:posts")


def test_a_permit_of_the_whole_sitemap_is_of_one_group_or_of_all() -> None:
    shop, blog = requests(allow=["blog/total=0.4", "adopt"])

    assert shop is not None
    assert blog is not None
    assert shop.allow == ("adopt",)
    assert blog.allow == ("total=0.4", "adopt")


@pytest.mark.parametrize("off", ["false", "False", "0", ""])
def test_a_text_switches_a_setting_off_as_well_as_on(off: str) -> None:
    for text, is_on in ((off, False), ("true", True)):
        shop, _ = requests(dry_run=text, full=text)
        assert shop is not None
        assert shop.dry_run is shop.full is is_on
        assert is_dry_run({"dry_run": text}) is is_on


def test_a_text_that_is_neither_true_nor_false_is_refused() -> None:
    shop, _ = plans()
    shop.explain_only = "{{ params.preview }}"  # type: ignore[assignment] - no template field

    with pytest.raises(ConfigurationError, match=r"dry_run='\{\{ params.preview \}\}' is neither true nor false"):
        shop.request({})


def test_a_number_of_rows_below_zero_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="check_rows=-1; give a whole number of at least 0"):
        requests(check_rows=-1)


def test_a_shard_with_its_group_is_written_again_by_that_sitemap_only() -> None:
    shop, blog = requests(rebuild=["shop/pages-00001", "de/posts-00001"])

    assert shop is not None
    assert blog is not None
    assert shop.rebuild == ("pages-00001", "de/posts-00001")
    assert blog.rebuild == ("de/posts-00001",)


def test_a_shard_in_a_folder_with_the_name_of_a_group_is_that_shard() -> None:
    names = {"rebuild": ["shop/products-00001", "blog/shop/pages-00001"]}
    shop, blog = (plan.request(names) for plan in plans("shop/"))

    assert shop is not None
    assert blog is not None
    assert shop.rebuild == ("shop/products-00001",)
    assert blog.rebuild == ("shop/pages-00001",)
    shop, _ = (plan.request({"rebuild": ["shop/shop/products-00001"]}) for plan in plans("shop/"))
    assert shop is not None
    assert shop.rebuild == ("shop/products-00001",)


def test_a_section_whose_name_begins_like_that_of_one_in_a_folder_is_no_file_of_it() -> None:
    with DAG("prefix", schedule=None, max_active_runs=1) as dag:
        store = LocalStore("de", base_url="https://de.example/")
        sections = [
            Section(name, MemorySourceConfig([]), path=path) for name, path in (("posts", "de/"), ("posts-eu", ""))
        ]
        SitemapTaskGroup("de", Sitemap(store, sections))
        family = SqlSource("shop", table="books", key="id", loc="loc")
        each = [Section.each("lang", family, name="books", path="each/")]
        SitemapTaskGroup("each", Sitemap(LocalStore("each", base_url="https://each.example/"), each))

    names = [Names.of(dag.get_task(f"{group}.plan")) for group in ("de", "each")]  # type: ignore[arg-type]

    assert names[0].shards(["de/posts-eu-00001", "de/posts-00001", "de/posts-00001.xml.gz"]) == (
        "posts-eu-00001", "de/posts-00001", "de/posts-00001.xml.gz",
    )  # fmt: skip
    assert names[1].shards(["each/books-pt-br-00001", "each/books-other-00001", "each/rest-00001"]) == (
        "each/books-pt-br-00001", "each/books-other-00001", "rest-00001",
    )  # fmt: skip


def test_a_planning_task_of_a_subclass_has_the_other_groups_too() -> None:
    class OwnPlan(SitemapPlanOperator):
        pass

    shop, _ = plans()
    with shop.get_dag():  # type: ignore[union-attr]
        own = OwnPlan(task_id="own", sitemap=shop.sitemap)

    assert own.request({"sections": ["blog/posts"]}) is None
    assert Names.of(shop).others.keys() == {"blog", ""}


@pytest.mark.parametrize("params", [{"sections": ["shpo/pages"]}, {"allow": ["shrink:shpo/pages"]}])
def test_an_unknown_group_is_refused_with_those_there_are(params: dict[str, Any]) -> None:
    shop, _ = plans()

    with pytest.raises(ConfigurationError, match=r"no group 'shpo'; its groups are: blog, shop"):
        shop.request(params)


@pytest.mark.parametrize("group", ["", "shop"])
def test_a_group_without_a_prefix_has_the_name_of_the_pages_and_its_own(group: str) -> None:
    """The pages know a group by the prefix of its tasks' IDs."""
    with DAG("mixed", schedule=None, max_active_runs=1) as dag:
        for name in ("shop", "blog"):
            sitemap = Sitemap(
                LocalStore(name, base_url=f"https://{name}.example/"), [Section("pages", MemorySourceConfig([]))]
            )
            SitemapTaskGroup(name, sitemap, prefix_group_id=name == "blog")
    shop, blog = (Names.of(dag.get_task(task_id)) for task_id in ("plan", "blog.plan"))  # type: ignore[arg-type]

    for names, mine in ((shop, True), (blog, False)):
        assert names.sections([f"{group}/pages"]) == ("pages",) * mine
        assert names.permits([f"shrink:{group}/pages"]) == ("shrink:pages",) * mine
        assert names.shards([f"{group}/pages-00001"]) == ("pages-00001",) * mine
        assert names.sections(["blog/pages"]) == ("pages",) * (not mine)


def test_a_task_over_many_sections_has_a_short_label() -> None:
    task = [Batch(number=n, section=f"section-{n}", actions=(0,), rows=1) for n in range(30)]

    (reference,) = references([task], "plans/x")

    assert reference["label"] == "section-0 1/1, section-1 1/1, section-2 1/1 and 27 more (30 shards)"
    assert reference["batches"] == list(range(30))


def test_a_written_section_of_another_group_is_none_of_a_column() -> None:
    names = Names(
        ["shop"], frozenset({"products", "products-*", "products-own"}), {"more": frozenset({"products-extra"})}
    )
    chosen = ["products-extra", "products-de", "products-own", "products-", "unknown", "shop/products-extra"]

    assert names.sections(chosen) == ("products-de", "products-own", "products-", "unknown", "products-extra")
    assert Names(["more"], names.others["more"], {"shop": names.own}).sections(chosen) == ("products-extra", "unknown")
