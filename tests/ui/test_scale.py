"""The pages at the protocol's limit: 50,000 shards and 1,000 generations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.ui.measure import answers, seconds_of_pages, seconds_of_search
from tests.ui.scale import MAX_BYTES, MAX_WIRE_BYTES, SHARDS, add_huge

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ui.browser import Visitor
    from tests.ui.conftest import Published

pytestmark = [pytest.mark.ui, pytest.mark.timeout(1_800)]


@pytest.fixture(scope="module")
def huge(published: Published) -> str:
    return add_huge(published.site)


def test_answers_stay_small(published: Published, huge: str) -> None:
    found = answers(published.site, huge, list(MAX_BYTES))

    assert (
        published.site.request("GET", "/sitemaps-ui/api/sitemap/shards", params={"asset": huge}).json()["shards"]
        == SHARDS
    )
    assert {a.path: a.byte_size for a in found if a.byte_size > MAX_BYTES[a.path]} == {}
    assert {a.path: a.wire_bytes for a in found if a.wire_bytes > MAX_WIRE_BYTES} == {}


def test_every_part_of_the_page_can_be_used(huge: str, admin: Visitor, pictures: Path) -> None:
    """``make bench`` measures how long each takes."""
    seconds = seconds_of_pages(admin, huge)

    admin.picture(pictures / "huge-light.png")
    print({name: round(each, 2) for name, each in seconds.items()})


def test_the_search_for_a_url_reads_one_file(huge: str, admin: Visitor) -> None:
    """The URL contains its key. ``make bench`` measures how long the answer takes."""
    seconds = seconds_of_search(admin, huge)

    expect(admin.page.get_by_test_id("url-result")).to_contain_text("1 of 49,485 shards read")
    print({name: round(each, 2) for name, each in seconds.items()})
