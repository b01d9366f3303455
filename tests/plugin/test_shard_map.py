"""The shard map out of a manifest's bytes."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from msgspec.structs import replace

from airflow_sitemaps.errors import ManifestError
from airflow_sitemaps.plugin.shard_map import MAX_PAGE, read_map
from airflow_sitemaps.shards.codec import encode
from airflow_sitemaps.shards.manifest import FORMAT, Manifest
from airflow_sitemaps.shards.ranges import Key, KeyRange
from tests.support.plugin_factories import manifest


def cut_at(key: Key) -> Manifest:
    """Two shards with a boundary."""
    made = manifest(2)
    section = made.sections["products"]
    first, second = section.shards
    shards = (replace(first, range=KeyRange(None, key)), replace(second, range=KeyRange(key, None)))
    return replace(made, sections={"products": replace(section, shards=shards)})


def changed(**fields: Any) -> bytes:
    """A manifest's bytes with some of its fields changed."""
    persisted = json.loads(gzip.decompress(encode(manifest(3))))
    return gzip.compress(json.dumps({**persisted, **fields}).encode())


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ((7,), "7"),
        (("de", "bērlin"), "de/bērlin"),
        ((10**40,), str(10**40)),
        (("half \ud800 a character",), "half ? a character"),
        (("x" * 5_000,), "x" * 200),
    ],
)
def test_keys_of_all_kinds_are_shown(key: Key, shown: str) -> None:
    found = read_map(encode(cut_at(key)), "here")

    assert [(text.lower, text.upper) for text in found.page("products", 0, 2).shards] == [(None, shown), (shown, None)]


def test_a_page_is_bounded() -> None:
    found = read_map(encode(manifest(MAX_PAGE + 10)), "here")

    assert len(found.page("products", 0, 10_000).shards) == MAX_PAGE
    assert len(found.page("products", MAX_PAGE, 10_000).shards) == 10
    assert found.page("products", 10_000, 10).shards == []
    assert found.page("no such section", 0, 10).shards == []


def test_a_newer_format_asks_for_an_upgrade_whatever_else_is_new() -> None:
    with pytest.raises(ManifestError, match=f"has format {FORMAT + 1}.*upgrade"):
        read_map(changed(format=FORMAT + 1, sections="elsewhere"), "here")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x1f\x8b rubbish",
        gzip.compress(b"[]"),
        gzip.compress(b'{"generation": 1}'),
        gzip.compress(b"[" * 100_000),
        changed(generation="7"),
        changed(sections={"products": {"name": "products", "shards": [{"range": [[1.5], None]}]}}),
        gzip.compress(b" " * (80 << 20)),
    ],
    ids=["empty", "rubbish", "list", "half", "deep", "text for a number", "odd key", "bomb"],
)
def test_a_damaged_manifest_is_one_error(body: bytes) -> None:
    with pytest.raises(ManifestError, match="here cannot be read"):
        read_map(body, "here")
