"""The inventory: every listed URL with what its ledger knows, as tables, as counts, or as a dataset of Parquet files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import StoreContentError
from airflow_sitemaps.pipeline.concurrency import THREADS, mapped
from airflow_sitemaps.pipeline.earlier_parts import PARQUET, PART_SUFFIX, read_part
from airflow_sitemaps.pipeline.request import SYSTEM_CLOCK
from airflow_sitemaps.pipeline.state.repository import StateRepository, put_verified
from airflow_sitemaps.ports import Clock, ObjectStore, Overwrite

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_sitemaps.shards.manifest import LedgerPart, Manifest, PublicFile
    from airflow_sitemaps.sitemap import Sitemap

RECORD: Final = "inventory.json"
"""Key of the list of a dataset's files, which the next export compares with its own."""

PERIODS: Final = (1, 7, 30)
"""Days for which URLs are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionInventory:
    """The URLs of one section by age. ``listed`` and ``changed`` hold the numbers of the last 1, 7 and 30 days."""

    section: str
    urls: int
    of_unknown_age: int
    listed: tuple[int, ...]
    changed: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """A dataset of one generation: its files, and how many of them this export wrote and removed."""

    generation: int
    urls: int
    files: int
    written: int
    removed: int


def inventory(sitemap: Sitemap) -> Iterator[pa.Table]:
    """Yield one table for each shard of the published generation, with the columns of ``docs/ledger.md``.

    Raises:
        ConfigurationError: Nothing was published yet.
    """
    objects, manifest = _published(sitemap)
    places = iter(_places(manifest).values())
    while group := list(islice(places, THREADS)):  # no more in memory than these, however slow the caller is
        yield from mapped(partial(_rows, objects), group, "sitemap-inventory")


def count(tables: Iterable[pa.Table], *, clock: Clock = SYSTEM_CLOCK) -> tuple[SectionInventory, ...]:
    """Count the URLs of an inventory by section and age."""
    import pyarrow.compute as pc  # noqa: PLC0415 - pyarrow is loaded where work is done

    now = clock.now()
    numbers: dict[str, list[int]] = {}
    for rows in tables:
        ages = [rows["first_listed"], rows["changed_at"]]
        recent = [pc.sum(pc.greater(a, now - timedelta(days=days))).as_py() or 0 for a in ages for days in PERIODS]
        own = [rows.num_rows, rows["first_listed"].null_count, *recent]
        name = rows["section"][0].as_py()
        numbers[name] = [a + b for a, b in zip(numbers.get(name, [0] * len(own)), own, strict=True)]
    return tuple(
        SectionInventory(
            section=name, urls=own[0], of_unknown_age=own[1], listed=tuple(own[2:5]), changed=tuple(own[5:])
        )
        for name, own in numbers.items()
    )


def export(sitemap: Sitemap, area: ObjectStore) -> Export:
    """Write the inventory as Parquet files, one for each shard, and remove those that an earlier export wrote there.

    The area holds nothing else. Files of unchanged shards stay. While an export runs, a shard may be in two files; after a
    crash, the next export removes what is too much.

    Raises:
        ConfigurationError: Nothing was published yet.
        StoreContentError: The area has an ``inventory.json`` that no export wrote, or one of another sitemap.
        StoreError: The area failed; the next export continues.
    """
    objects, manifest = _published(sitemap)
    places = _places(manifest)
    stored = area.get(RECORD)
    try:
        record = {"files": []} if stored is None else json.loads(stored.body)
        before: list[str] = record["files"]
        owner = record.get("sitemap", sitemap.index_url)
        is_ours = all(key.endswith(PART_SUFFIX) for key in before)
    except (ValueError, KeyError, TypeError, AttributeError):
        is_ours = False
    if not is_ours:
        raise StoreContentError(f"{area.url(RECORD)} does not list the files of an inventory. Give a folder without it")
    if owner != sitemap.index_url:
        raise StoreContentError(
            f"{area.url(RECORD)} lists the inventory of another sitemap, {owner}, whose files this export would remove. Give "
            "another folder, or remove that file if nothing needs them"
        )
    there = mapped(lambda key: key if area.head(key) else None, places.keys() & set(before), "sitemap-inventory")
    new = sorted(places.keys() - set(there))
    _record(area, sitemap, manifest, sorted({*before, *places}))
    for _ in mapped(lambda key: _put(area, key, _rows(objects, places[key])), new, "sitemap-inventory"):
        pass
    old = sorted(set(before) - places.keys())
    for _ in mapped(area.delete, old, "sitemap-inventory"):
        pass
    _record(area, sitemap, manifest, sorted(places))
    return Export(
        generation=manifest.generation, urls=manifest.urls, files=len(places), written=len(new), removed=len(old)
    )


def _published(sitemap: Sitemap) -> tuple[ObjectStore, Manifest]:
    objects = sitemap.store.open().state
    return objects, StateRepository(objects).published()


def _places(manifest: Manifest) -> dict[str, tuple[str, PublicFile, LedgerPart | None]]:
    """Return section, file and part of each shard by its key in a dataset, which differs for another content."""
    places = {}
    for name, section in manifest.sections.items():
        for file, part in ((shard.file, shard.part) for shard in section.shards if shard.file is not None):
            content = file.xml_hash[:16] if part is None else part.checksum
            stem = file.name.rpartition("/")[2].partition(".")[0]
            places[f"{name}/{stem}-{content}{PART_SUFFIX}"] = name, file, part
    return places


def _rows(objects: ObjectStore, place: tuple[str, PublicFile, LedgerPart | None]) -> pa.Table:
    """Return the rows of a shard: of its part, or else of its body, which knows the URLs and lastmods only."""
    import pyarrow as pa  # noqa: PLC0415 - pyarrow is loaded where work is done

    from airflow_sitemaps import ledger  # noqa: PLC0415 - pyarrow is loaded where work is done

    section, file, part = place
    rows = None if part is None else read_part(objects, part)
    if rows is None:
        rows = ledger.rows_of_body(StateRepository(objects).content(file), is_text=file.name.endswith(".txt.gz"))
    names = (pa.repeat(pa.scalar(text), rows.num_rows) for text in (section, file.name))
    columns = dict(zip(("section", "shard"), names, strict=True)) | {name: rows[name] for name in ledger.SCHEMA.names}
    return pa.table(columns)


def _put(area: ObjectStore, key: str, rows: pa.Table) -> None:
    from airflow_sitemaps.ledger import encode  # noqa: PLC0415 - pyarrow is loaded where work is done

    put_verified(area, key, encode(rows, ""), mode=Overwrite(), write_id=key, content_type=PARQUET)


def _record(area: ObjectStore, sitemap: Sitemap, manifest: Manifest, files: list[str]) -> None:
    record = {"sitemap": sitemap.index_url, "generation": manifest.generation, "files": files}
    body = json.dumps(record, indent=1).encode()
    put_verified(area, RECORD, body, mode=Overwrite(), write_id=manifest.write_id, content_type="application/json")
