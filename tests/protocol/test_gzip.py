"""Deterministic gzip, its variants, and the capped reader."""

from __future__ import annotations

import gzip
import itertools
import random
import tracemalloc
import zlib
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_sitemaps.errors import InvalidSitemapError
from airflow_sitemaps.protocol import gzip as gzip_module
from airflow_sitemaps.protocol.gzip import (
    FEED_BYTE_SIZE,
    Compressor,
    Preset,
    compress,
    decompress,
    variant_of,
    with_variant,
)

BODY = b"".join(b"<url><loc>https://example.com/%d</loc></url>\n" % (n * n % 99_991) for n in range(20_000))


@pytest.mark.parametrize("preset", ["fast", "small"])
@given(cuts=st.lists(st.integers(0, len(BODY)), max_size=8))
@settings(max_examples=15, deadline=None)
def test_the_cut_of_the_feeds_makes_no_difference(preset: Preset, cuts: list[int]) -> None:
    compressor = Compressor(preset)
    edges = [0, *sorted(cuts), len(BODY)]
    for start, end in itertools.pairwise(edges):
        compressor.feed(BODY[start:end])
    result = compressor.finish()
    assert result == compress(BODY, preset)
    assert gzip.decompress(result) == BODY


@pytest.mark.parametrize("preset", ["fast", "small"])
@pytest.mark.parametrize("size", [0, 1, FEED_BYTE_SIZE - 1, FEED_BYTE_SIZE, FEED_BYTE_SIZE + 1])
def test_every_size_comes_back(preset: Preset, size: int) -> None:
    body = BODY[:size]
    assert gzip.decompress(compress(body, preset)) == body
    assert decompress(compress(body, preset), max_byte_size=size) == body


def test_the_header_tells_no_time_name_or_system() -> None:
    assert compress(b"x")[:10] == b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"


def test_small_is_no_larger_than_zlib_6() -> None:
    assert len(compress(BODY, "small")) <= len(zlib.compress(BODY, 6))


def test_variants_differ_in_bytes_alone() -> None:
    plain = compress(BODY)
    assert with_variant(plain, 0) == plain
    assert variant_of(plain) == 0
    seventh = with_variant(plain, 7)
    assert seventh != plain
    assert variant_of(seventh) == 7
    assert variant_of(with_variant(plain, 2**32 - 1)) == 2**32 - 1
    assert with_variant(seventh, 0) == plain
    assert decompress(seventh, max_byte_size=len(BODY)) == BODY


def test_several_members_and_padding_are_read() -> None:
    data = compress(b"one ") + gzip.compress(b"two") + b"\x00" * 512
    assert decompress(data, max_byte_size=7) == b"one two"


def test_what_is_copied_does_not_grow_with_the_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """zlib copies what follows a member: given the whole rest for each, the time is quadratic."""
    given: list[int] = []

    class Counted:
        def __init__(self, **settings: int) -> None:
            self._stream = zlib.decompressobj(**settings)

        def decompress(self, data: bytes, most: int) -> bytes:
            given.append(len(data))
            return self._stream.decompress(data, most)

        def __getattr__(self, name: str) -> object:
            return getattr(self._stream, name)

    monkeypatch.setattr(gzip_module, "zlib", SimpleNamespace(decompressobj=Counted, error=zlib.error))
    assert decompress(gzip.compress(b"") * 10_000, max_byte_size=1) == b""
    assert max(given) <= 1 << 16


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 3_000_000])
def test_members_of_any_size_are_read_in_pieces(size: int) -> None:
    body = random.Random(7).randbytes(size)
    data = gzip.compress(body) + gzip.compress(b"end") + b"\0" * 9
    assert decompress(data, max_byte_size=size + 3) == body + b"end"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a gzip file"),
        (b"<?xml version", "not a gzip file"),
        (compress(BODY)[:-9], "the file is cut short"),
        (compress(BODY)[:5], "the file is cut short"),
        (compress(BODY) + b"garbage", "7 bytes after"),
        (compress(BODY)[:-6] + b"\x00\x00\x00\x00\x00\x00", "damaged gzip"),
        (compress(b"a") + compress(BODY)[:-9], "the file is cut short"),
    ],
)
def test_what_is_damaged_is_said(data: bytes, message: str) -> None:
    with pytest.raises(InvalidSitemapError, match=message):
        decompress(data, max_byte_size=10**7)


def test_a_bomb_stays_small() -> None:
    bomb = gzip.compress(bytes(300_000_000), compresslevel=1)
    tracemalloc.start()
    try:
        with pytest.raises(InvalidSitemapError, match="more than 1,000,000 bytes"):
            decompress(bomb, max_byte_size=1_000_000)
        with pytest.raises(InvalidSitemapError, match="more than 1,000,000 bytes"):
            decompress(gzip.compress(bytes(900_000)) * 1_000, max_byte_size=1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
