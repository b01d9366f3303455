"""The parts of the demonstration: real names, the warehouse and its changes, the reader of the result."""

from __future__ import annotations

import gzip
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from demo import warehouse
from demo.services import Difference, Seen, difference, read_site

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 5, 6, tzinfo=timezone.utc)


@pytest.fixture(scope="module")
def world() -> list[dict[str, Any]]:
    """The thousand greatest places: reading them all takes seconds, so once."""
    return warehouse.real_places(1_000)


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb"])
def test_the_warehouse_is_loaded_and_changed(
    dialect: str, tmp_path: Path, world: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warehouse, "real_places", lambda limit: world[:limit])
    engine = sa.create_engine(f"{dialect}:///{tmp_path / 'places.db'}")
    assert warehouse.load(engine, limit=10)["places"] == 10

    rows = warehouse.load(engine, limit=1_000)
    changes = warehouse.change(engine, now=NOW)

    assert rows == {"places": 1_000, "countries": 252}
    with engine.connect() as connection:
        number, natives, newest = connection.execute(
            sa.text("SELECT count(*), count(native_name), max(updated_at) FROM places")
        ).one()
        updated = connection.execute(
            sa.text("SELECT count(*) FROM places WHERE updated_at = :now AND name NOT LIKE 'Newtown %'").bindparams(
                sa.bindparam("now", type_=sa.DateTime())
            ),
            {"now": NOW.replace(tzinfo=None)},
        ).scalar_one()
    engine.dispose()
    assert number == 1_000 + changes.inserted_in_the_middle + changes.inserted_at_the_end - changes.deleted
    assert (updated, changes.updated, changes.stamped) == (200 + 100, 200, 100)
    assert natives > 500
    assert str(newest).startswith("2026-05-06")


def test_a_load_that_breaks_is_repaired(
    tmp_path: Path, world: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warehouse, "real_places", lambda limit: world[:limit])
    engine = sa.create_engine(f"duckdb:///{tmp_path / 'places.db'}")
    warehouse.load(engine, limit=300)

    def places() -> list[Any]:
        with engine.connect() as connection:
            return sorted(connection.execute(sa.text("SELECT * FROM places")).all())

    before = places()
    warehouse.lose(engine)
    assert len(places()) < 0.75 * len(before)
    warehouse.restore(engine)
    assert places() == before
    engine.dispose()


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb"])
def test_the_smallest_places_without_a_native_name_are_given_up(
    dialect: str, tmp_path: Path, world: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    unnamed = [place for place in world if place["native_name"] is None]
    places = unnamed[:30] + [place for place in world if place["native_name"] is not None][:50]
    monkeypatch.setattr(warehouse, "real_places", lambda limit: places)
    engine = sa.create_engine(f"{dialect}:///{tmp_path / 'places.db'}")
    warehouse.load(engine)

    assert warehouse.give_up(engine) == 20

    gone = {place["id"] for place in sorted(unnamed[:30], key=lambda place: (place["population"], place["id"]))[:20]}
    with engine.connect() as connection:
        left = {row[0] for row in connection.execute(sa.text("SELECT id FROM places"))}
    engine.dispose()
    assert left == {place["id"] for place in places} - gone


def test_places_are_real_and_names_multilingual(world: list[dict[str, Any]]) -> None:
    found = {place["name"]: place for place in world}

    assert found["Tokyo"]["country"] == "jp"
    assert found["Moscow"]["native_name"] is not None
    assert not any(letter.isascii() for letter in found["Moscow"]["native_name"] if letter.isalpha())
    assert [place["id"] for place in world] == sorted(place["id"] for place in world)
    assert warehouse.slug("Saint-Étienne / du  Rouvray") == "Saint-Étienne-du-Rouvray"


def test_what_a_bucket_shows_of_a_run() -> None:
    before = {"a": Seen("1", "t0", 10), "b": Seen("2", "t0", 20), "c": Seen("3", "t0", 30)}
    after = {"a": Seen("1", "t0", 10), "b": Seen("2", "t1", 21), "d": Seen("4", "t1", 40)}

    assert difference(before, after) == Difference(untouched=1, changed=1, new=1, gone=1, byte_size=61)


def test_the_result_is_read_from_the_index_on(tmp_path: Path) -> None:
    namespace = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
    urls = ["https://a.example/x", "https://a.example/%E6%9D%B1"]
    (tmp_path / "sitemap.xml").write_text(
        f"<sitemapindex {namespace}><sitemap><loc>https://a.example/p-1.xml.gz</loc></sitemap></sitemapindex>"
    )
    body = "".join(f"<url><loc>{url}</loc></url>" for url in [*urls, urls[0]])
    (tmp_path / "p-1.xml.gz").write_bytes(gzip.compress(f"<urlset {namespace}>{body}</urlset>".encode()))

    found = read_site(tmp_path, "https://a.example/")

    assert (found.files, found.urls, found.distinct, found.not_ascii) == (1, 3, 2, 1)
    (tmp_path / "p-1.xml.gz").unlink()
    with pytest.raises(FileNotFoundError):
        read_site(tmp_path, "https://a.example/")
