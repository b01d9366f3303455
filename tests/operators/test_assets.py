"""The asset of a sitemap, and the event's extra, however large the report."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from airflow_sitemaps.assets import asset_of, event_extra, fits
from airflow_sitemaps.operators.links import SitemapIndexLink
from airflow_sitemaps.pipeline.report import Report, SectionReport, totals
from airflow_sitemaps.protocol.lastmod import LastmodTrust
from airflow_sitemaps.sitemap import Section, Sitemap
from airflow_sitemaps.stores.local import LocalStore
from airflow_sitemaps.stores.memory import MemoryStore
from airflow_sitemaps.stores.s3 import S3Store
from airflow_sitemaps.testing import MemorySourceConfig

SECTIONS = [Section("products", MemorySourceConfig([]))]


def test_an_asset_is_named_by_the_index_in_its_store() -> None:
    s3 = Sitemap(S3Store("s3://acme-web/maps/", base_url="https://acme.com/maps/"), SECTIONS).asset
    local = Sitemap(LocalStore("/srv/www", base_url="https://acme.com/", index_name="index.xml"), SECTIONS).asset
    relative = Sitemap(LocalStore("site", base_url="https://acme.com/"), SECTIONS).asset
    memory = Sitemap(MemoryStore(base_url="https://acme.com/"), SECTIONS).asset

    assert (s3.name, s3.uri) == ("sitemap s3://acme-web/maps/sitemap.xml", "s3://acme-web/maps/sitemap.xml")
    assert (local.name, local.uri) == ("sitemap file:///srv/www/index.xml", "file:///srv/www/index.xml")
    assert relative.uri == f"file://{Path.cwd()}/site/sitemap.xml"
    assert memory.uri == "https://acme.com/sitemap.xml"


def test_a_sitemap_knows_its_asset() -> None:
    sitemap = Sitemap(S3Store("s3://acme-web/maps", base_url="https://acme.com/maps/"), SECTIONS)

    assert sitemap.asset == asset_of(sitemap.store, sitemap.freshness)
    assert sitemap.sections_asset.name == "sections of sitemap s3://acme-web/maps/sitemap.xml"
    assert sitemap.sections_asset.uri == "s3://acme-web/maps/sitemap.xml/sections"


def a_report(sections: int, *, samples: int = 0, reasons: int = 0) -> Report:
    made = {
        f"section-{n}": SectionReport(
            urls=n,
            rows_read=n,
            samples={"loc-host": tuple("https://elsewhere.example/" + "x" * 170 for _ in range(samples))},
            reasons={f"{'because ' * 10}{r}": 1 for r in range(reasons)},
        )
        for n in range(sections)
    }
    return Report(
        run="r", result="published", generation=2, previous_generation=1, started_at="", finished_at="",
        committed_at="", index_urls=("https://acme.com/sitemap.xml",), sections=made, **totals(made),
    )  # fmt: skip


STORE = {"public_url": "s3://shop/"}


def test_a_small_report_is_told_whole() -> None:
    report = a_report(3, samples=2, reasons=2)

    extra = event_extra(report, store=STORE, dag_id="d")

    assert extra["report"] == report.to_dict()
    assert (extra["format"], extra["store"], extra["dag_id"]) == (1, STORE, "d")
    assert "shortened" not in extra


@pytest.mark.parametrize(("sections", "samples", "reasons"), [(20, 20, 0), (20, 0, 50), (40, 40, 40)])
def test_a_large_one_loses_its_samples_and_reasons_first(sections: int, samples: int, reasons: int) -> None:
    extra = event_extra(a_report(sections, samples=samples, reasons=reasons), store=STORE)

    assert fits(extra)
    assert extra["shortened"][0] == "samples"
    assert len(extra["report"]["sections"]) == sections
    assert extra["report"]["urls"] == sum(range(sections))


def test_the_sample_urls_of_untrue_dates_go_with_the_other_samples() -> None:
    large = a_report(20, samples=20)
    trust = LastmodTrust(date_only=7, date_only_samples=("https://acme.com/1",))
    sections = {name: replace(section, lastmod_trust=trust) for name, section in large.sections.items()}
    extra = event_extra(replace(large, sections=sections), store=STORE)

    assert extra["shortened"][0] == "samples"
    assert extra["report"]["sections"]["section-0"]["lastmod_trust"] == asdict(LastmodTrust(date_only=7)) | {
        "date_only_samples": [],
        "page_only_samples": [],
    }


def test_a_huge_one_keeps_the_sections_that_changed_most() -> None:
    extra = event_extra(a_report(2_000), store=STORE)

    assert fits(extra)
    kept = list(extra["report"]["sections"])
    assert extra["sections_left_out"] == 2_000 - len(kept)
    assert kept == [f"section-{n}" for n in range(2_000 - len(kept), 2_000)]
    assert extra["report"]["urls"] == sum(range(2_000)), "the sums are of all sections"


@pytest.mark.parametrize(("without", "named"), [((), 0), (("section-7",), 299)])
def test_a_huge_one_names_no_planned_sections_if_all_were(without: tuple[str, ...], named: int) -> None:
    """The pages read at most 1,000 names, and none as all."""
    large = a_report(300)
    planned = tuple(name for name in large.sections if name not in without)

    extra = event_extra(replace(large, planned=planned, robots_urls=("https://acme.com/" * 9,) * 300), store=STORE)

    assert fits(extra)
    assert len(extra["report"]["planned"]) == named
    assert len(extra["report"]["sections"]) > 40


def test_a_huge_one_keeps_the_sections_with_rows_left_out() -> None:
    """The page and alerts judge them."""
    large = a_report(2_000)
    sections = {**large.sections, "section-0": replace(large.sections["section-0"], rows_dropped={"loc-host": 3})}
    extra = event_extra(replace(large, sections=sections), store=STORE)
    assert extra["report"]["sections"]["section-0"]["rows_dropped"] == {"loc-host": 3}
    assert extra["sections_left_out"] > 0


@pytest.mark.parametrize(
    ("base", "link"),
    [("https://acme.com/", "https://acme.com/sitemap.xml"), ("http://localhost/", "http://localhost/sitemap.xml")],
)
def test_the_link_leads_to_the_index(base: str, link: str) -> None:
    class Holder:
        sitemap = Sitemap(MemoryStore(base_url=base), SECTIONS)

    assert SitemapIndexLink().get_link(Holder(), ti_key=None) == link  # type: ignore[arg-type]
    assert SitemapIndexLink().get_link(object(), ti_key=None) == ""  # type: ignore[arg-type]
