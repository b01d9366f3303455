"""Keys as JSON arrays. A key is stored with its row in this form, and read back as a value to bind."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_sitemaps.shards.key import Key


def dump(key: Key) -> str:
    """Return a key as JSON."""
    return json.dumps(list(key), ensure_ascii=False, separators=(",", ":"))


def load(text: str | int) -> Key:
    """Return the key that ``dump`` or ``column`` wrote."""
    return (text,) if isinstance(text, int) else tuple(json.loads(text))


def column(parts: Sequence[pa.Array]) -> pa.Array:
    """Return the ``key`` column of a batch.

    Args:
        parts: One int64 or string array per key column.

    Returns:
        JSON, or the array itself if the key is a single integer.
    """
    if len(parts) == 1 and pa.types.is_int64(parts[0].type):
        return parts[0]
    texts = [_json(part) for part in parts]
    inner = texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, pa.scalar(","))
    return pc.binary_join_element_wise(pa.scalar("["), inner, pa.scalar("]"), pa.scalar(""))


def _json(part: pa.Array) -> pa.Array:
    if pa.types.is_integer(part.type) or pa.types.is_decimal(part.type):
        return pc.cast(part, pa.string())
    part = pc.cast(part, pa.string())
    if pc.any(pc.match_substring_regex(part, r"[\x00-\x1f]")).as_py():
        return pa.array([json.dumps(text, ensure_ascii=False) for text in part.to_pylist()], pa.string())
    part = pc.replace_substring(part, "\\", "\\\\")
    part = pc.replace_substring(part, '"', '\\"')
    return pc.binary_join_element_wise(pa.scalar('"'), part, pa.scalar('"'), pa.scalar(""))
