"""Up to which generation somebody outside was told of the changes: a small mark in the private area."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.pipeline.putting import put_surely
from airflow_sitemaps.ports import Overwrite

if TYPE_CHECKING:
    from airflow_sitemaps.ports import ObjectStore

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9.-]*")


def told(objects: ObjectStore, who: str) -> int | None:
    """The last generation whose changes ``who`` (a host's name) was told of; None: never. Raises StoreError."""
    found = objects.get(_key(who))
    if found is None:
        return None
    try:
        generation = json.loads(found.body)["generation"]
    except (ValueError, KeyError, TypeError):
        return None  # a damaged mark costs only that the last changes are told again
    return generation if isinstance(generation, int) else None


def tell(objects: ObjectStore, who: str, generation: int) -> None:
    """Remember that ``who`` was told. Raises StoreError."""
    body = json.dumps({"generation": generation}).encode()
    key = _key(who)
    put_surely(objects, key, body, mode=Overwrite(), write_id=f"{key}#{generation}", content_type="application/json")


def _key(who: str) -> str:
    if not _NAME.fullmatch(who):
        raise ValueError(f"{who!r} cannot be part of a key")
    return f"told/{who}.json"
