"""Whether the pages can be used with a keyboard and a screen reader: judged by axe-core, and by pressing keys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from airflow_sitemaps.operators.links import run_page, sitemaps_page
from tests.ui.browser import PANELS
from tests.ui.conftest import THEMES

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.ui.browser import Visitor
    from tests.ui.conftest import Published

pytestmark = [pytest.mark.ui, pytest.mark.timeout(1_800)]

AXE = Path(__file__).parents[2] / "ui" / "node_modules" / "axe-core" / "axe.min.js"
FAULTS = """async where => (await axe.run(where, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']}))
  .violations.map(v => `${v.id}: ${v.help}: ${v.nodes.slice(0, 5).map(n => n.html.slice(0, 300)).join(' | ')}`)"""

STILL = """() => document.getAnimations()
  .every(one => one.playState === 'finished' || one.effect.getComputedTiming().iterations === Infinity)"""
"""Nothing fades in or out any more: axe-core judges colours as they are."""


def faults(page: Page, where: str = "[data-testid=sitemaps-page]") -> list[str]:
    """What axe-core finds wrong in a part of the page; the rest is Airflow's."""
    page.evaluate(AXE.read_text())
    return list(page.evaluate(FAULTS, where))


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed (cd ui && npm ci)")
@pytest.mark.parametrize("theme", THEMES)
def test_axe_finds_nothing(published: Published, visitors: dict[str, Visitor], theme: str) -> None:
    visitor = visitors[theme]
    page = visitor.visit(sitemaps_page())
    expect(page.get_by_test_id("sitemap-line").first).to_be_visible()
    assert faults(page) == []

    page = visitor.sitemap(published.asset("fading"))
    assert faults(page) == []
    page = visitor.sitemap(published.asset("fading"), *PANELS)
    page.get_by_test_id("map-offers").click(position={"x": 5, "y": 5})
    expect(page.get_by_test_id("shard-details")).to_contain_text("offers-00001")
    assert faults(page) == []
    page.get_by_role("button", name="Run now").click()
    expect(page.get_by_test_id("confirm")).to_be_visible()
    page.wait_for_function(STILL)
    assert faults(page, "[data-testid=confirm]") == []
    page.keyboard.press("Escape")

    page = visitor.visit(run_page("shop", published.first_run))
    expect(page.get_by_role("heading", name="Result")).to_be_visible()
    assert faults(page) == []


def test_an_action_is_reached_and_left_by_keys_alone(published: Published, admin: Visitor) -> None:
    page = admin.sitemap(published.asset("shop"))
    button = page.get_by_role("button", name="Run now")
    page.get_by_test_id("sitemaps-page").get_by_role("link", name="Sitemaps", exact=True).focus()
    for _ in range(20):
        page.keyboard.press("Tab")
        if button.evaluate("node => node === document.activeElement"):
            break
    expect(button).to_be_focused()

    page.keyboard.press("Enter")
    dialog = page.get_by_role("alertdialog")
    expect(dialog).to_be_visible()
    expect(dialog).to_have_accessible_name("Run now?")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(button).to_be_focused()


def test_a_chart_and_the_map_are_read_by_keys(published: Published, admin: Visitor) -> None:
    page = admin.sitemap(published.asset("shop"), "history", "map")
    chart = page.get_by_role("img", name="URLs over 2 runs")
    chart.focus()
    page.keyboard.press("Home")
    expect(page.get_by_text("1,590 in generation 1 (").first).to_be_visible()

    shards = page.get_by_role("application", name="Shards of products")
    shards.focus()
    page.keyboard.press("End")
    expect(page.get_by_test_id("map-line")).to_contain_text("products, shard 30 of 30")
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Selected shard")).to_contain_text("products-00030.xml.gz")
