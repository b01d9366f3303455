"""Last generation announced to each service, recorded in the private area."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.pipeline.state.conditional_put import ObjectHeaders, put_verified
from airflow_sitemaps.ports import Overwrite

if TYPE_CHECKING:
    from airflow_sitemaps.ports import ObjectStore

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9.-]*")


def last_announced(objects: ObjectStore, who: str) -> int | None:
    """Read the last generation whose changes were announced to a service.

    Returns:
        The number of the generation, or None if none was announced.

    Raises:
        StoreError: The store failed.
    """
    stored = objects.get(_key(who))
    if stored is None:
        return None
    try:
        generation = json.loads(stored.body)["generation"]
    except (ValueError, KeyError, TypeError):
        return None  # after a damaged record, the last changes are only announced again
    return generation if isinstance(generation, int) else None


def record_announced(objects: ObjectStore, who: str, generation: int) -> None:
    """Record that a generation was announced to a service.

    Raises:
        StoreError: The store failed.
    """
    body = json.dumps({"generation": generation}).encode()
    key = _key(who)
    put_verified(
        objects,
        key,
        body,
        mode=Overwrite(),
        write_id=f"{key}#{generation}",
        headers=ObjectHeaders(content_type="application/json"),
    )


def _key(who: str) -> str:
    if not _NAME.fullmatch(who):
        raise ValueError(f"{who!r} cannot be part of a key")
    return f"told/{who}.json"
