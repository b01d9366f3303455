"""How long the pages take until they can be used, and how large the API's answers are."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import httpx

from tests.ui.scale import url_of

if TYPE_CHECKING:
    from tests.ui.browser import Visitor
    from tests.ui.site import Site


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the API. Sizes in bytes, before compression and as sent."""

    path: str
    seconds: float
    byte_size: int
    wire_bytes: int


def answers(site: Site, asset: str, paths: list[str]) -> list[Answer]:
    """Ask for each path once."""
    found = []
    headers = {"Authorization": f"Bearer {site.token()}", "Accept-Encoding": "gzip"}
    params = {"asset": asset, "section": "products"}
    more = {"sitemap/history": {"limit": "1000"}, "sitemaps": {"limit": "100"}, "find": {"url": url_of(40_000)}}
    for path in paths:
        asked = {**params, **more.get(path, {})}
        started = time.monotonic()
        with httpx.stream("GET", f"{site.url}/sitemaps-ui/api/{path}", params=asked, headers=headers, timeout=60) as r:
            wire = sum(len(part) for part in r.iter_raw())
            r.raise_for_status()
        seconds = time.monotonic() - started
        plain = httpx.get(f"{site.url}/sitemaps-ui/api/{path}", params=asked, headers=headers, timeout=60)
        found.append(Answer(path, seconds, len(plain.content), wire))
    return found


def seconds_of_search(visitor: Visitor, asset: str) -> dict[str, float]:
    """From a click on "Find URL" until the answer, for a URL that is listed and for one that is not."""
    page = visitor.sitemap(asset)
    found = {}
    for name, position, answer in (
        ("a URL that is listed", 40_000, "Listed in generation"),
        ("a URL that is not listed", 49_899, "Not listed in generation"),
    ):
        page.get_by_label("URL to find").fill(url_of(position))
        started = time.monotonic()
        page.get_by_role("button", name="Find URL").click()
        page.get_by_test_id("url-result").get_by_text(answer).wait_for()
        found[name] = time.monotonic() - started
    return found


def seconds_of_list(visitor: Visitor, lines: int) -> dict[str, float]:
    """From a click until a list of many sitemaps is there, and until its search has an answer."""
    page = visitor.visit("/")
    link = page.get_by_role("link", name="Sitemaps", exact=True).first
    link.wait_for()
    started = time.monotonic()
    link.click()
    page.get_by_test_id("sitemap-line").nth(lines - 1).wait_for()
    found = {"list": time.monotonic() - started}
    started = time.monotonic()
    page.get_by_label("Search address or DAG").fill("many-017")
    page.wait_for_function("() => document.querySelectorAll('[data-testid=sitemap-line]').length === 1")
    found["search in the list"] = time.monotonic() - started
    return found


def seconds_of_pages(visitor: Visitor, asset: str) -> dict[str, float]:
    """From a click in Airflow's UI until the page can be used; the map, until its cells answer to the pointer."""
    page = visitor.sitemap(asset, "map")
    page.get_by_test_id("map-products").wait_for()
    found = {}

    started = time.monotonic()
    page.get_by_test_id("sitemaps-page").get_by_role("link", name="Sitemaps", exact=True).click()
    page.get_by_test_id("sitemap-line").first.wait_for()
    found["list"] = time.monotonic() - started

    started = time.monotonic()
    page.get_by_role("link", name="huge.example/sitemap.xml").click()
    page.get_by_test_id("section-state").first.wait_for()
    found["page"] = time.monotonic() - started

    started = time.monotonic()
    page.get_by_role("region", name="History", exact=True).locator("summary").click()
    page.get_by_role("img", name="URLs over 1000 runs").wait_for()
    found["its charts"] = time.monotonic() - started

    started = time.monotonic()
    page.get_by_role("region", name="Shard map", exact=True).locator("summary").click()
    shards = page.get_by_test_id("map-products")
    shards.wait_for()
    found["its shard map"] = time.monotonic() - started

    started = time.monotonic()
    shards.hover(position={"x": 100, "y": 50})
    page.get_by_test_id("map-line").get_by_text("products, shard").wait_for()
    found["pointing at a shard"] = time.monotonic() - started

    started = time.monotonic()
    page.get_by_role("button", name="Age", exact=True).click()
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    found["another colouring"] = time.monotonic() - started

    started = time.monotonic()
    shards.click(position={"x": 110, "y": 50})
    page.get_by_test_id("shard-details").get_by_text("(exclusive)").wait_for()
    found["a shard's details"] = time.monotonic() - started
    assert "from the first" not in page.get_by_test_id("shard-details").inner_text(), "another cell than was clicked"
    shown = parse_qs(urlsplit(page.url).query)
    assert (shown["asset"], shown["colour"]) == ([asset], ["age"])
    return found
