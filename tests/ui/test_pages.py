"""Each page and tab in a real browser, over what real runs published."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec
import pytest
from playwright.sync_api import expect

from airflow_sitemaps.operators.links import dag_page, run_page, sitemap_page, sitemaps_page
from airflow_sitemaps.search_engines.fetches import RECORD, FetchRecord
from tests.ui.browser import PANELS
from tests.ui.layout import BEFORE_FOLDS, IN_LINES, SIDEWAYS, WIDTHS, fits, shows_everything, width_of

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from playwright.sync_api import Route

    from tests.ui.browser import Visitor
    from tests.ui.conftest import Published
    from tests.ui.site import Site

pytestmark = [pytest.mark.ui, pytest.mark.timeout(1_800)]

THEMES = ["light", "dark"]
SITEMAPS = 11
"""Sitemaps that the DAGs declare; four of them were never published, two of these without an error."""


@pytest.mark.parametrize("theme", THEMES)
def test_the_list(published: Published, visitors: dict[str, Visitor], pictures: Path, theme: str) -> None:
    visitor = visitors[theme]
    page = visitor.visit("/")
    page.get_by_role("link", name="Sitemaps", exact=True).click()
    lines = page.get_by_test_id("sitemap-line")
    expect(lines).to_have_count(SITEMAPS)

    fading = lines.filter(has_text="fading.example/sitemap.xml")
    expect(fading).to_contain_text("Last run blocked by a safety check")
    expect(fading).to_contain_text("Failing")
    expect(lines.filter(has_text="Never published")).to_have_count(2)
    expect(page.get_by_text("11 sitemaps with")).to_contain_text("4 failing")
    assert page.evaluate("document.documentElement.className").split() == [theme]
    fits(page)
    visitor.picture(pictures / f"sitemaps-{theme}.png")
    assert not visitor.errors


@pytest.mark.parametrize("theme", THEMES)
def test_one_sitemap(published: Published, visitors: dict[str, Visitor], theme: str) -> None:
    visitor = visitors[theme]
    page = visitor.sitemap(published.asset("shop"))

    expect(page.get_by_role("heading", name="shop.example/sitemap.xml")).to_be_visible()
    lines = page.get_by_test_id("section-state")
    expect(lines).to_have_count(2)
    expect(lines.filter(has_text="products")).to_contain_text("1,200")
    expect(lines.get_by_role("img")).to_have_count(2)
    for name in ("Data read", "Newest lastmod", "URLs", "Verified", "Generation"):
        expect(page.get_by_role("term").filter(has_text=re.compile(f"^{name}$"))).to_be_visible()
    crumbs = page.get_by_test_id("sitemaps-page").get_by_role("navigation", name="breadcrumb")
    expect(crumbs.get_by_role("link")).to_have_text(["Sitemaps", "shop.example/sitemap.xml"])
    expect(page).to_have_title("shop.example/sitemap.xml - Airflow")
    fits(page)
    for title in PANELS.values():
        panel = page.get_by_role("region", name=title, exact=True)
        expect(panel).to_be_visible()
        assert panel.locator("details").first.get_attribute("open") is None, title
        panel.locator("summary").first.press("Enter")
        assert panel.locator("details").first.get_attribute("open") is not None, title
    expect(page.get_by_role("img", name=re.compile("URLs over 2 runs"))).to_be_visible()
    expect(page.get_by_test_id("map-products")).to_be_visible()
    expect(page.get_by_text("Roll back to 1")).to_be_visible()
    fits(page)
    assert not visitor.errors


@pytest.mark.parametrize("theme", THEMES)
def test_the_tabs_of_a_dag_and_a_run(published: Published, visitors: dict[str, Visitor], theme: str) -> None:
    visitor = visitors[theme]
    page = visitor.visit("/dags/shop")
    page.get_by_role("link", name="Sitemap", exact=True).click()
    expect(page.get_by_role("heading", name="shop.example/sitemap.xml")).to_be_visible()
    expect(page.get_by_test_id("section-state")).to_have_count(2)
    fits(page)

    page = visitor.visit(run_page("shop", published.first_run))
    expect(page.get_by_role("heading", name="Result")).to_be_visible()
    expect(page.get_by_text("4 of 4 batches done")).to_be_visible()
    expect(page.get_by_text("products 1/3 (10 shards)")).to_be_visible()
    fits(page)
    assert not visitor.errors


def test_the_publish_task_leads_to_index_and_page_and_batches_have_names(published: Published, admin: Visitor) -> None:
    run = f"/dags/shop/runs/{quote(published.first_run, safe='')}/tasks"
    page = admin.visit(f"{run}/sitemap.publish/details")
    expect(page.get_by_role("link", name="Sitemap index")).to_have_attribute("href", "https://shop.example/sitemap.xml")
    address = page.get_by_role("link", name="Sitemap page").get_attribute("href")
    assert address == f"{admin.url}{sitemap_page(published.asset('shop'))}"

    page = admin.visit(f"{run}/sitemap.write/mapped")
    expect(page.get_by_text("products 1/3 (10 shards)").first).to_be_visible()


def test_pages_after_another_without_a_reload(published: Published, admin: Visitor) -> None:
    """The host imports a bundle once an address: the second page must not come up empty."""
    page = admin.visit(sitemaps_page())
    page.get_by_role("link", name="shop.example/sitemap.xml").click()
    expect(page.get_by_role("heading", name="shop.example/sitemap.xml")).to_be_visible()
    page.get_by_role("link", name="DAG shop").click()
    page.get_by_role("link", name="Sitemap", exact=True).click()
    expect(page.get_by_role("heading", name="shop.example/sitemap.xml")).to_be_visible()
    page.get_by_role("link", name="Last run").click()
    expect(page.get_by_test_id("run-head")).to_be_visible()
    page.get_by_role("link", name="Sitemap page").click()
    page.get_by_test_id("sitemaps-page").get_by_role("link", name="Sitemaps", exact=True).click()
    expect(page.get_by_test_id("sitemap-line")).to_have_count(SITEMAPS)


def test_a_refused_run_says_what_to_do(published: Published, visitors: dict[str, Visitor], pictures: Path) -> None:
    visitor = visitors["light"]
    page = visitor.sitemap(published.asset("fading"))
    problem = page.get_by_test_id("problem-refused")

    expect(problem).to_contain_text("3,000")
    expect(problem).to_contain_text("Generation 1 is still live.")
    expect(problem.get_by_role("button", name="Override “shrink:offers=0.8” for one run")).to_be_visible()
    visitor.picture(pictures / "refused-light.png")
    with width_of(page, 360):
        shows_everything(page)
    problem.get_by_role("link", name="Open the run").click()
    expect(page.get_by_test_id("refusal")).to_contain_text("shrink")


def test_the_shard_map_by_pointer_and_by_keys(published: Published, admin: Visitor, pictures: Path) -> None:
    page = admin.sitemap(published.asset("shop"), "map")
    shards, line = page.get_by_test_id("map-products"), page.get_by_test_id("map-line")
    shards.scroll_into_view_if_needed()

    shards.hover(position={"x": 30, "y": 5})
    expect(line).to_contain_text("products, shard 2 of 30: 40 URLs")
    shards.click(position={"x": 30, "y": 5})
    details = page.get_by_test_id("shard-details")
    expect(details).to_contain_text("products-00002.xml.gz")
    expect(details).to_contain_text("From 41 (inclusive) to 81 (exclusive)")
    expect(details.get_by_role("link")).to_have_attribute("href", "https://shop.example/products-00002.xml.gz")
    shards.focus()
    for key in ("Home", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    expect(details).to_contain_text("products-00003.xml.gz")
    for mode in ("Age", "Fill", "Dropped rows", "Last run"):
        page.get_by_role("button", name=mode, exact=True).click()
        expect(page.get_by_role("button", name=mode, exact=True)).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("list", name="Legend")).to_contain_text("written:")


def test_hostile_rows_are_text(published: Published, admin: Visitor) -> None:
    page = admin.sitemap(published.asset("hostile"), "issues")

    expect(page.get_by_test_id("sample").first).to_be_visible()
    samples = " ".join(page.get_by_test_id("sample").all_inner_texts())
    assert "javascript:alert(document.domain)" in samples
    assert "<script>" in samples
    assert "\u202e" not in samples
    assert "broken in" not in page.title()
    assert page.get_by_test_id("sitemaps-page").locator("script, img, iframe").count() == 0
    assert page.locator("a[href^=javascript]").count() == 0


def test_a_viewer_gets_no_action(published: Published, visitors: dict[str, Visitor]) -> None:
    asset = published.asset("shop")
    page = visitors["viewer"].sitemap(asset, *PANELS)
    page.get_by_test_id("map-products").click(position={"x": 5, "y": 5})
    expect(page.get_by_test_id("shard-details")).to_contain_text("products-00001.xml.gz")

    expect(page.get_by_text("Read-only: no permission to trigger runs.")).to_be_visible()
    for name in ("Run now", "Verify", "Rebuild", "Plan the next run", "Override", "Roll back"):
        expect(page.get_by_role("button", name=re.compile(name))).to_have_count(0)
    for action in ("run", "verify", "rollback", "full", "plan"):
        wish = {"asset": asset, "action": action, "generation": 1 if action == "rollback" else None}
        assert published.site.request("POST", "/sitemaps-ui/api/actions", user="viewer", json=wish).status_code == 403


def test_anonymous_gets_nothing(site: Site, visitors: dict[str, Visitor]) -> None:
    browser = visitors["light"].context.browser
    assert browser is not None
    with browser.new_context() as context:
        page = context.new_page()
        for path in ("api/sitemaps", "api/openapi.json", "static/airflow-sitemaps.js"):
            answer = context.request.get(f"{site.url}/sitemaps-ui/{path}")
            assert (path, answer.status) == (path, 401)
        page.goto(f"{site.url}{sitemaps_page()}")
        page.wait_for_url(re.compile("/auth/login"))
        expect(page.get_by_test_id("sitemap-line")).to_have_count(0)


def test_times_are_in_the_zone_that_is_chosen_in_airflows_menu(published: Published, admin: Visitor) -> None:
    page = admin.sitemap(published.asset("shop"), "history", "generations")
    expect(page.get_by_text("Times are in Europe/Berlin.")).to_be_visible()
    page.evaluate("""() => localStorage.setItem('timezone', '"Asia/Tokyo"')""")
    try:
        expect(page.get_by_text("Times are in Asia/Tokyo.")).to_be_visible()
        expect(page.get_by_role("region", name="Generations", exact=True)).to_contain_text("GMT+9")
    finally:
        page.evaluate("() => localStorage.removeItem('timezone')")


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_no_width_cuts_anything_off(published: Published, visitors: dict[str, Visitor], theme: str, width: int) -> None:
    """U17, U25: in the list, on pages with many shards and with feeds, and in the DAG's tab, with all panels open."""
    visitor = visitors[theme]
    opened = f"open={','.join(PANELS)}"
    with width_of(visitor.page, width):
        pages = [f"{sitemap_page(published.asset(name))}&{opened}" for name in ("shop", "north")]
        for path in (sitemaps_page(), *pages, f"{dag_page('shop')}?{opened}"):
            page = visitor.visit(path)
            expect(page.get_by_test_id("verdict").first).to_be_visible()
            expect(page.get_by_test_id("loading")).to_have_count(0)
            shows_everything(page)


def many_sections(answer: dict[str, Any], number: int) -> dict[str, Any]:
    """A page's response with more sections than its sitemap has; every sixth one fails for a reason of its own."""
    section = answer["sections"][0]
    failed = {
        "state": "failing",
        "result": "failed",
        "next_step": "Correct the section's query, then clear the task.",
    }
    answer["sections"] = [
        {
            **section,
            "name": f"section-of-a-locale-{n}",
            "urls_trend": [n, 2 * n, 3 * n],
            **({**failed, "reason": f"no such column: slug_{n}\nLINE 1: select slug_{n}"} if n % 6 == 5 else {}),
        }
        for n in range(number)
    ]
    answer["changed_outside"] = {"generation": 9, "action": "rollback", "at": answer["at"]}
    return {**answer, "state": "failing", "reason": "Last run failed", "generation": 9}


@pytest.mark.parametrize("number", [1, 6, 30])
def test_the_first_screen_with_any_number_of_sections(published: Published, admin: Visitor, number: int) -> None:
    """V15, V16: one line for each section, the worst first, and at most 3,000 pixels before the first folded panel."""
    asset = published.asset("shop")

    def answer(route: Route) -> None:
        route.fulfill(json=many_sections(route.fetch().json(), number))

    pattern = re.compile(r"/sitemaps-ui/api/sitemap\?")
    admin.page.route(pattern, answer)
    try:
        for width in WIDTHS:
            with width_of(admin.page, width):
                page = admin.sitemap(asset)
                lines = page.get_by_test_id("section-state")
                expect(lines).to_have_count(number)
                expect(lines.first.get_by_test_id("verdict")).to_have_text("Failing" if number > 5 else re.compile("."))
                shows_everything(page)
                assert page.evaluate(BEFORE_FOLDS) <= 3_000, width
                expect(page.get_by_text(re.compile("Changed outside Airflow.*: rollback"))).to_be_visible()
                assert "\ufffd" not in page.get_by_test_id("sitemaps-page").inner_text()
                crumb = page.get_by_role("navigation", name="breadcrumb").get_by_role("link", name="Sitemaps")
                assert crumb.evaluate(IN_LINES) == 1, width
    finally:
        admin.page.unroute(pattern)


def test_a_sitemap_that_was_never_published(published: Published, admin: Visitor) -> None:
    """U4: its page and its DAG's tab show the error, and link to the log of the task that failed."""
    for path in (sitemap_page(published.asset("failing")), dag_page("failing")):
        page = admin.visit(path)
        problem = page.get_by_test_id("problem-failed")
        expect(problem).to_contain_text("no such table: no_such_table")
        expect(problem).to_contain_text("Nothing has been published yet.")
        expect(page.get_by_test_id("run-row")).to_have_count(1)
    problem.get_by_role("link", name="Log of sitemap.plan").click()
    page.wait_for_url(re.compile("/dags/failing/runs/.*/tasks/sitemap.plan"))
    expect(page.get_by_text("no such table: no_such_table").first).to_be_visible()


def test_two_dags_on_one_address(published: Published, admin: Visitor) -> None:
    """U5."""
    page = admin.sitemap(published.asset("twin"))

    expect(page.get_by_test_id("verdict").first).to_have_text("Failing")
    expect(page.get_by_test_id("problem-several-publishers")).to_contain_text(
        "2 DAGs publish this sitemap: twin_a, twin_b"
    )
    expect(page.get_by_test_id("problem-failed")).to_contain_text("Last run of twin_b failed")
    expect(page.get_by_text("Objective: 36 h")).to_be_visible()


def test_a_store_that_cannot_be_reached_is_named_with_the_true_cause(published: Published, admin: Visitor) -> None:
    """U12: the cause stands once, in the problem, with one full stop."""
    page = admin.sitemap("s3://nowhere/maps/sitemap.xml")
    problem = page.get_by_test_id("problem-failed")

    expect(problem).to_contain_text("EndpointConnectionError: Could not connect to the endpoint URL")
    text = problem.inner_text()
    assert text.count("Could not connect") == 1
    assert "s3://nowhere/maps-state/manifest.json.gz" in text
    assert "conditional writes" not in text
    assert ".." not in text
    assert "Nothing has been published yet." in text


def test_a_sitemap_with_an_index_per_section_feeds_recent_entries_and_images(
    published: Published, admin: Visitor
) -> None:
    """U21: it is titled after the folder of its indexes; each file and each kind of content is on the page."""
    page = admin.sitemap(published.asset("north"), "rows")

    expect(page.get_by_role("heading", level=1)).to_have_text("regions.example/")
    indexes = page.get_by_role("group", name="Indexes")
    expect(indexes).to_contain_text("https://regions.example/sitemap-guides.xml")
    expect(indexes).to_contain_text("https://regions.example/sitemap-articles.xml")
    expect(page.get_by_role("group", name="Recent entries")).to_contain_text("https://regions.example/recent.xml.gz")
    expect(page.get_by_role("group", name="Feeds").get_by_role("link")).to_have_count(2)
    region = page.get_by_role("region", name="Table: Sections")
    expect(region).to_contain_text("30 images, 30 alternates")
    files = page.get_by_role("region", name="Rows and files", exact=True)
    expect(files).to_contain_text(re.compile(r"[\d.]+ KiB \([\d.]+ KiB uncompressed\)"))
    fits(page)


def test_a_run_of_three_sitemaps_names_each_in_its_link(published: Published, admin: Visitor) -> None:
    """U27: no two links of a run's tab have one text; the DAG's tab lets one choose."""
    page = admin.visit(dag_page("regions"))
    choices = page.get_by_role("group", name="Sitemaps of this DAG").get_by_role("button")
    expect(choices).to_have_count(3)
    choices.filter(has_text="west.example").click()
    expect(page.get_by_role("heading", name="west.example/sitemap.xml")).to_be_visible()
    expect(page).to_have_url(re.compile("asset="))
    page.get_by_role("link", name="Last run").click()
    links = page.get_by_test_id("sitemaps-page").get_by_role("link", name="Sitemap page")
    expect(links).to_have_count(3)
    assert sorted(links.all_inner_texts()) == [
        "Sitemap page: regions.example/",
        "Sitemap page: south.example/sitemap.xml",
        "Sitemap page: west.example/sitemap.xml",
    ]
    links.filter(has_text="south.example").click()
    expect(page.get_by_role("heading", name="south.example/sitemap.xml")).to_be_visible()


@pytest.mark.parametrize("theme", THEMES)
def test_the_dashboard_shows_what_needs_attention(
    published: Published, visitors: dict[str, Visitor], pictures: Path, theme: str
) -> None:
    """The panel counts as the list does, whatever other tests have published, and names the most urgent sitemaps first."""
    visitor = visitors[theme]
    listed = published.site.request("GET", "/sitemaps-ui/api/sitemaps", params={"sort": "state", "limit": 500}).json()
    failing = listed["totals"]["failing"]
    reasons = {one["asset"]: one["reason"] for one in listed["sitemaps"]}
    assert reasons[published.asset("failing")] == "Last run failed"
    page = visitor.visit("/")
    widget = page.get_by_test_id("sitemaps-widget")
    expect(widget).to_contain_text(f"{listed['totals']['sitemaps']} sitemaps")
    lines = widget.get_by_test_id("widget-line")
    expect(lines).to_have_count(min(5, failing + listed["totals"]["warning"]))
    expect(lines.filter(has_text="Failing")).to_have_count(min(5, failing))
    visitor.page.mouse.move(0, 0)
    widget.screenshot(path=pictures / f"dashboard-{theme}.png")
    for width in WIDTHS:
        with width_of(page, width):
            wide = widget.evaluate("node => [node.scrollWidth - node.clientWidth, node.getBoundingClientRect().right]")
            assert wide[0] <= 1, width
            assert wide[1] <= width, width
    widget.get_by_role("link", name=f"{failing} failing").click()
    expect(page).to_have_url(re.compile("state=failing"))
    expect(page.get_by_test_id("sitemap-line")).to_have_count(failing)
    expect(page.get_by_test_id("sitemap-line").filter(has_text="failing")).not_to_have_count(0)
    assert not visitor.errors


def test_our_links_leave_the_hosts_tab_highlighted(published: Published, admin: Visitor) -> None:
    """U18."""
    page = admin.sitemap(published.asset("shop"))
    page.get_by_role("link", name="Last run").click()
    expect(page.get_by_test_id("run-head")).to_be_visible()
    tab = page.get_by_role("link", name="Sitemap run", exact=True)
    reached = tab.evaluate("node => getComputedStyle(node).backgroundColor + node.className + node.ariaCurrent")
    tab.click()
    expect(page.get_by_test_id("run-head")).to_be_visible()

    assert tab.evaluate("node => getComputedStyle(node).backgroundColor + node.className + node.ariaCurrent") == reached


def test_the_list_is_searched_sorted_and_kept_on_back(published: Published, admin: Visitor) -> None:
    """U19, U20, U30: search, filter and sorting are in the address; Back comes to the same place; the title says where."""
    page = admin.visit(sitemaps_page())
    lines = page.get_by_test_id("sitemap-line")
    expect(lines).to_have_count(SITEMAPS)
    expect(page).to_have_title("Sitemaps - Airflow")
    search = page.get_by_label("Search address or DAG")
    search.press_sequentially("example", delay=150)
    expect(search).to_be_focused()
    expect(lines).to_have_count(7)  # four were never published: their addresses are not known yet
    page.get_by_label("State", exact=True).select_option("failing")
    expect(lines).to_have_count(2)
    page.get_by_role("button", name="URLs").click()
    page.get_by_role("button", name="URLs ▼").click()
    expect(page.get_by_role("button", name="URLs ▲")).to_be_visible()
    expect(lines.first).to_contain_text("twin.example")
    expect(page).to_have_url(re.compile(r"(?=.*search=example)(?=.*state=failing)(?=.*sort=urls)"))
    page.set_viewport_size({"width": 420, "height": 500})
    page.get_by_test_id("sitemaps-page").evaluate("node => node.scrollTo(0, 300)")
    page.wait_for_function("() => Object.values(sessionStorage).includes('300')")
    lines.last.get_by_role("link").first.click()
    expect(page).to_have_title("fading.example/sitemap.xml - Airflow")
    page.go_back()
    expect(lines).to_have_count(2)
    page.wait_for_function("() => document.querySelector('[data-testid=sitemaps-page]').scrollTop >= 200")
    page.set_viewport_size({"width": 1360, "height": 900})
    page.get_by_label("Search address or DAG").fill("")
    expect(lines).to_have_count(4)
    page.get_by_label("Tag", exact=True).select_option("seo")
    expect(lines).to_have_count(1)
    csv = published.site.request("GET", "/sitemaps-ui/api/sitemaps.csv", params={"state": "failing"}).text
    assert [row.split(",")[3] for row in csv.splitlines()[1:]] == ["failing"] * 4


def test_shard_and_colour_are_in_the_address(published: Published, admin: Visitor) -> None:
    """U20, U26: a reload keeps them, and the details are where they can be seen."""
    page = admin.sitemap(published.asset("shop"), "map")
    page.get_by_role("button", name="Age", exact=True).click()
    page.get_by_test_id("map-products").click(position={"x": 30, "y": 5})
    details = page.get_by_test_id("shard-details")
    expect(details).to_contain_text("products-00002.xml.gz")
    expect(details).to_be_in_viewport()
    page.reload()
    expect(details).to_contain_text("products-00002.xml.gz")
    expect(page.get_by_role("button", name="Age", exact=True)).to_have_attribute("aria-pressed", "true")


@pytest.mark.parametrize("theme", THEMES)
def test_the_map_is_coloured_by_the_last_fetch_of_a_crawler(
    published: Published, visitors: dict[str, Visitor], pictures: Path, theme: str
) -> None:
    now = int(time.time())
    files = {"products-00001.xml.gz": {"google": now, "bing": 7}, "products-00002.xml.gz": {"google": 7}}
    record = published.site.home / "sites/shop-state" / RECORD
    record.parent.mkdir(exist_ok=True)
    record.write_bytes(msgspec.json.encode(FetchRecord(since="2026-01-01", files=files)))
    visitor = visitors[theme]
    page = visitor.sitemap(published.asset("shop"), "map")

    page.get_by_role("button", name="Last fetched", exact=True).press("Enter")

    crawlers = page.get_by_role("group", name="Crawler")
    expect(crawlers.get_by_role("button", name="google", exact=True)).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_text("Fetches in the access log since 2026-01-01.")).to_be_visible()
    expect(page.get_by_text(re.compile("changed since"))).to_be_visible()
    visitor.picture(pictures / f"fetched-{theme}.png")
    page.set_viewport_size({"width": 390, "height": 900})
    visitor.picture(pictures / f"fetched-narrow-{theme}.png")
    crawlers.get_by_role("button", name="bing", exact=True).click()
    page.wait_for_url(re.compile("crawler=bing"))
    page.set_viewport_size({"width": 1280, "height": 900})


def test_a_url_is_found(published: Published, admin: Visitor) -> None:
    page = admin.sitemap(published.asset("shop"))
    page.get_by_label("URL to find").fill("https://shop.example/products/product-77")
    page.get_by_role("button", name="Find URL").click()
    expect(page.get_by_test_id("url-match")).to_contain_text("products-00002.xml.gz")
    expect(page.get_by_test_id("url-match")).to_contain_text("lastmod: 2026-")
    page.get_by_label("URL to find").fill("https://shop.example/products/none")
    page.get_by_role("button", name="Find URL").click()
    expect(page.get_by_test_id("url-result")).to_contain_text("Not listed")
    page = admin.visit(sitemaps_page())
    page.get_by_label("URL to find").fill("https://shop.example/products/product-77")
    page.get_by_role("button", name="Find URL").click()
    expect(page.get_by_test_id("url-result")).to_contain_text("Listed in generation")


def test_a_narrow_window(published: Published, admin: Visitor, pictures: Path) -> None:
    size = admin.page.viewport_size
    admin.page.set_viewport_size({"width": 420, "height": 900})
    try:
        page = admin.sitemap(published.asset("shop"))
        fits(page)
        admin.picture(pictures / "narrow-light.png")
        assert page.evaluate(SIDEWAYS) == []
        page = admin.visit(sitemaps_page())
        expect(page.get_by_test_id("sitemap-line")).to_have_count(SITEMAPS)
        fits(page)
        assert page.evaluate(SIDEWAYS) == []
        admin.picture(pictures / "narrow-list-light.png")
    finally:
        admin.page.set_viewport_size(size or {"width": 1360, "height": 900})
