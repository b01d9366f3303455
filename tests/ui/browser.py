"""Headless Chromium, logged in to Airflow, that lets no request leave for another host and notes what went wrong."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from playwright.sync_api import expect, sync_playwright

from airflow_sitemaps.operators.links import sitemap_page

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext, Page

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
PANELS = {
    "runs": "Runs",
    "history": "History",
    "map": "Shard map",
    "rows": "Rows and files",
    "issues": "Validation issues",
    "limits": "Protocol limits",
    "drift": "External changes",
    "next": "Next run",
    "verification": "Verification",
    "generations": "Generations",
}
"""The folded panels of a sitemap's page: their names in its address, and their titles."""
WAIT_MS = 180_000
expect.set_options(timeout=WAIT_MS)
HEIGHT = 900


@dataclass(slots=True)
class Visitor:
    """A person at a browser. ``strangers``: requests to other hosts; ``errors``: what the page's console complained of."""

    url: str
    context: BrowserContext
    page: Page
    strangers: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def visit(self, path: str) -> Page:
        """Open a page of Airflow."""
        self.page.goto(f"{self.url}{path}", wait_until="domcontentloaded")
        return self.page

    def sitemap(self, asset: str, *panels: str) -> Page:
        """Open one sitemap's page, with some of its panels open."""
        page = self.visit(sitemap_page(asset) + (f"&open={','.join(panels)}" if panels else ""))
        page.get_by_test_id("verdict-reason").wait_for()
        return page

    def picture(self, path: Path) -> None:
        """The whole page as a PNG file, in a window so tall that nothing is scrolled."""
        size = self.page.viewport_size or {"width": 1360, "height": HEIGHT}
        expect(self.page.get_by_test_id("loading")).to_have_count(0)
        self.page.mouse.move(0, 0)
        height = size["height"]
        while hidden := self.page.evaluate(HIDDEN):
            height += hidden
            self.page.set_viewport_size({"width": size["width"], "height": height})
            self.page.evaluate(LAID_OUT)
        self.page.screenshot(path=path)
        self.page.set_viewport_size(size)


HIDDEN = """() => {
  const page = document.querySelector('[data-testid="sitemaps-page"]');
  return Math.max(0, page.scrollHeight - page.clientHeight);
}"""

LAID_OUT = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""Two frames: the page has its new size, and what observes sizes has drawn."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS), headless=True)
        yield browser
        browser.close()


def log_in(
    browser: Browser,
    url: str,
    user: str,
    *,
    theme: Literal["light", "dark"] = "light",
    width: int = 1360,
) -> Visitor:
    """A visitor who has logged in by the form."""
    context = browser.new_context(
        viewport={"width": width, "height": HEIGHT}, timezone_id="Europe/Berlin", locale="en-GB"
    )
    context.add_init_script(f"localStorage.setItem('theme', '{theme}')")
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    visitor = Visitor(url, context, page)
    page.on("request", lambda r: None if r.url.startswith((url, "data:", "blob:")) else visitor.strangers.append(r.url))
    page.on("console", lambda m: visitor.errors.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda e: visitor.errors.append(str(e)))
    page.goto(f"{url}/auth/login", wait_until="domcontentloaded")
    page.locator("input[name=username]").fill(user)
    page.locator("input[name=password]").fill(user)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda address: "/auth/login" not in address)
    return visitor
