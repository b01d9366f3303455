"""One Airflow and one browser for all browser tests, with sitemaps that real runs have published."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.ui.browser import CHROMIUM, Visitor, chromium, log_in
from tests.ui.site import Site, running_site

if TYPE_CHECKING:
    from collections.abc import Iterator

THEMES = ("light", "dark")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where there is no Chromium, the pages cannot be opened."""
    if not Path(CHROMIUM).exists():
        for item in items:
            if "tests/ui" in str(item.path) and item.get_closest_marker("ui"):
                item.add_marker(pytest.mark.skip(reason="Debian's chromium is not installed (apt install chromium)"))


@dataclass(frozen=True, slots=True)
class Published:
    """What runs have published. ``asset`` gives a sitemap's address by its DAG."""

    site: Site
    first_run: str

    def asset(self, dag_id: str) -> str:
        return f"file://{self.site.home / 'sites' / dag_id / 'sitemap.xml'}"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running_site(tmp_path_factory.mktemp("airflow")) as found:
        yield found


@pytest.fixture(scope="session")
def published(site: Site) -> Published:
    """Runs of each DAG. The second one of ``fading`` is refused; ``failing``, ``twin_b`` and ``unreachable`` fail at once."""
    good, bad = ("shop", "fading", "hostile", "twin_a", "regions"), ("failing", "twin_b", "unreachable")
    runs = [(dag_id, site.trigger(dag_id)) for dag_id in (*good, *bad)]
    assert site.wait(*runs, seconds=1_200) == [*["success"] * len(good), *["failed"] * len(bad)]
    site.execute(
        "update products set updated_at = '2026-11-01 10:00:00' where id between 500 and 520",
        "delete from articles where id between 100 and 110",
        "delete from offers where id > 600",
    )
    assert site.run("shop", "fading") == ["success", "failed"]
    return Published(site, runs[0][1])


@pytest.fixture(scope="session")
def visitors(site: Site) -> Iterator[dict[str, Visitor]]:
    """The administrator in light and dark, and other users by name. No page asks another host for anything."""
    with chromium() as browser:
        found = {theme: log_in(browser, site.url, "admin", theme=theme) for theme in THEMES}
        for user in ("viewer", "keeper"):
            found[user] = log_in(browser, site.url, user)
        yield found
        assert {name: visitor.strangers for name, visitor in found.items() if visitor.strangers} == {}


@pytest.fixture
def admin(visitors: dict[str, Visitor]) -> Iterator[Visitor]:
    """The administrator, in light. No page may ask another host, or raise an error."""
    visitor = visitors["light"]
    visitor.errors.clear()
    yield visitor
    assert not visitor.strangers
    assert not visitor.errors


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures go: ``SITEMAPS_PICTURES`` (the documentation's are made by ``make pictures``), else nowhere kept."""
    folder = Path(os.environ.get("SITEMAPS_PICTURES") or tmp_path_factory.mktemp("pictures"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
