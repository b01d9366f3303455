"""Reading by Arrow and reading by SQLAlchemy's cursor publish the same bytes, whatever the rows hold."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_sitemaps.pipeline import build
from airflow_sitemaps.shards.guards import Guards
from airflow_sitemaps.shards.layout import ShardPolicy
from airflow_sitemaps.sitemap import Section, Sitemap
from airflow_sitemaps.sources.session_factory import session_of
from airflow_sitemaps.sources.sql import SqlSource
from airflow_sitemaps.stores.memory import MemoryStore
from airflow_sitemaps.testing import FakeClock
from tests.support.source_sessions import create, live

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_sitemaps.ports import Source
    from tests.support.databases import Database

COLUMNS = {
    "id": "integer", "loc": "text", "stamp": "timestamp", "zoned": "zoned", "day": "date", "told": "text",
    "cf": "text", "weight": "float", "amount": "decimal", "images": "text",
}  # fmt: skip
BASE = "https://shop.example/"
LASTMODS = ("stamp", "zoned", "day", "told")
PRIORITIES = ("weight", "amount", "told")

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
paths = st.one_of(texts, st.sampled_from(["a&b", "a'b", "l'été", "日本/语", "%zz", "%41", "&amp;", " x ", "", "../y"]))
moments = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))
rows = st.fixed_dictionaries(
    {
        "loc": st.one_of(st.none(), paths.map(BASE.__add__), texts),
        "stamp": st.none() | moments,
        "zoned": st.none() | moments.map(lambda moment: moment.replace(tzinfo=timezone.utc)),
        "day": st.none() | st.dates(date(1, 1, 1), date(9999, 12, 31)),
        "told": st.one_of(st.none(), texts, st.dates().map(str), moments.map(str), st.floats().map(str)),
        "cf": st.one_of(st.none(), texts, st.sampled_from(["daily", "WEEKLY", " never "])),
        "weight": st.none() | st.floats(-1, 2) | st.sampled_from([float("nan"), float("inf"), 0.1 + 0.2]),
        "amount": st.none() | st.decimals(-1, 2, places=3),
        "images": st.one_of(
            st.none(), texts, st.sampled_from(["[]", '["https://shop.example/a.jpg?b&c"]', '[{"loc": 1}]'])
        ),
    }
)


@dataclass(frozen=True, slots=True)
class Direct:
    """A ``SqlSource`` over a database at hand, past Airflow's connections."""

    source: SqlSource
    base: Database
    timezone: str = "UTC"

    @contextmanager
    def open(self, *, section: str) -> Iterator[Source]:
        """A session."""
        engine = self.base.engine()
        try:
            with session_of(self.source, section, engine) as session:
                yield session
        finally:
            engine.dispose()

    def identity(self) -> Any:
        """That of the source."""
        return self.source.identity()

    def describe(self) -> str:
        """That of the source."""
        return self.source.describe()

    def discard(self, *, section: str) -> None:
        """Nothing is shared."""

    def rendered(self, render: Any) -> Direct:
        """Nothing to render."""
        return self


def published(base: Database, reader: Any, lastmod: str, priority: str) -> dict[str, bytes]:
    """Every public object that a build by one reader makes."""
    source = SqlSource(
        "test", table="same_files", key="id", loc="loc", lastmod=lastmod, changefreq="cf", priority=priority,
        images="images", reader=reader,
    )  # fmt: skip
    store = MemoryStore(base_url=BASE)
    sitemap = Sitemap(
        store=store,
        sections=[Section("pages", Direct(source, base))],
        shards=ShardPolicy(max_urls=7),
        guards=replace(Guards(), max_dropped=1.0),
    )
    build(sitemap, clock=FakeClock(), allow=("dropped:pages", "empty:pages"))
    public = store.open().public
    return {info.key: public.get(info.key).body for info in public.list()}  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["postgresql", "duckdb"])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.lists(rows, min_size=1, max_size=40),
    lastmod=st.sampled_from(LASTMODS),
    priority=st.sampled_from(PRIORITIES),
)
def test_both_readers_publish_the_same_bytes(
    name: str, data: list[dict[str, Any]], lastmod: str, priority: str
) -> None:
    base = live(name)
    create(base, "same_files", COLUMNS)
    valid = {"id": 0, **dict.fromkeys(COLUMNS), "loc": BASE + "valid"} | {"id": 0}
    base.insert("same_files", [valid, *({"id": number, **row} for number, row in enumerate(data, 1))])
    by_arrow = published(base, "auto", lastmod, priority)
    assert by_arrow == published(base, "cursor", lastmod, priority)
    assert any(key.startswith("pages-") for key in by_arrow)
