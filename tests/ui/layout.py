"""Whether anything is cut off at a width: measured in the browser."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.ui.browser import LAID_OUT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

WIDTHS = (1440, 1024, 390)

WIDER = """() => { const p = document.querySelector('[data-testid=sitemaps-page]'); return p.scrollWidth - p.clientWidth; }"""
"""By how many pixels the page is wider than its window."""

SIDEWAYS = """() => [...document.querySelectorAll('[role=region]')]
  .filter(box => box.scrollWidth > box.clientWidth + 1).map(box => box.ariaLabel)"""
"""The tables that would have to be scrolled sideways."""

OVERFLOWING = """() => [...document.querySelectorAll('[data-testid=sitemaps-page] dd, [data-testid=sitemaps-page] dt')]
  .filter(cell => cell.scrollWidth > cell.clientWidth + 1).map(cell => cell.textContent)"""
"""Texts that leave their tile."""

PUSHED_OFF = """() => {
  const right = document.querySelector('[data-testid=sitemaps-page]').getBoundingClientRect().right;
  return [...document.querySelectorAll('[data-testid=sitemaps-page] :is(button, a, h1)')]
    .filter(one => one.checkVisibility() && one.getBoundingClientRect().right > right + 1)
    .filter(one => getComputedStyle(one.closest('thead') ?? one).clipPath === 'none').map(one => one.textContent);
}"""
"""Buttons, links and titles that end outside the window. A narrow table's head is clipped: only screen readers have it."""

BEFORE_FOLDS = """() => document.querySelector('section[aria-label=Runs]').getBoundingClientRect().top
  - document.querySelector('[data-testid=sitemaps-page]').getBoundingClientRect().top"""
"""Pixels of a sitemap's page above its first folded panel."""

IN_LINES = "node => node.getClientRects().length"
"""In how many lines a link stands."""


def fits(page: Page) -> None:
    """Nothing stands outside the page: tables scroll within themselves."""
    wide = page.evaluate(WIDER)
    assert wide <= 1, f"{page.url} is {wide} pixels wider than its window"


def shows_everything(page: Page) -> None:
    """Nothing is cut off: no tile's text leaves its tile, no table scrolls sideways, every button is in the window."""
    fits(page)
    for what in (SIDEWAYS, OVERFLOWING, PUSHED_OFF):
        found = page.evaluate(what)
        assert found == [], f"{page.url}: {found}"


@contextmanager
def width_of(page: Page, width: int) -> Iterator[None]:
    """A window of another width, until the block ends."""
    before = page.viewport_size or {"width": 1360, "height": 900}
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate(LAID_OUT)
    try:
        yield
    finally:
        page.set_viewport_size(before)
