"""Gzip whose bytes depend on the content alone, and a reader that is safe against gzip bombs.

The header contains no name, operating system or time. Its four bytes for the time are zero, or a small counter
(``with_variant``) that makes a body differ from an earlier one with the same content. The output of igzip depends on
how its input is divided, so it always gets blocks of ``FEED_BYTE_SIZE``.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, Final, Literal

from airflow_sitemaps.errors import InvalidSitemapError

Preset = Literal["fast", "small"]
"""``fast``: igzip level 2, a fifth larger than zlib 6 at eleven times its speed. ``small``: see ``_SMALL_LEVEL``."""

FEED_BYTE_SIZE: Final = 256 * 1024

_HEADER: Final = b"\x1f\x8b\x08\x00" + b"\x00\x00\x00\x00" + b"\x00\xff"
"""Magic number and method; no time; no flags, and an unknown system."""
_FAST_LEVEL: Final = 2
_SMALL_LEVEL: Final = 6
"""Level 6 of zlib-ng: files no larger than those of zlib 6, at about twice its speed, and it can stream."""
_READ_BYTE_SIZE: Final = 1 << 20
_PIECE_BYTE_SIZE: Final = 1 << 16


class Compressor:
    """Compresses a stream of bytes into one gzip member. It is not thread-safe.

    It fills one buffer repeatedly, because large objects that are allocated and freed cause page faults each time.
    """

    def __init__(self, preset: Preset = "fast") -> None:
        self._stream = _deflater(preset)
        self._buffer = memoryview(bytearray(FEED_BYTE_SIZE))
        self._filled = 0
        self._out: list[bytes] = []

    def feed(self, data: bytes) -> None:
        """Add bytes. Their division into calls does not affect the result."""
        start = 0
        with memoryview(data) as view:
            while start < len(view):
                taken = min(FEED_BYTE_SIZE - self._filled, len(view) - start)
                self._buffer[self._filled : self._filled + taken] = view[start : start + taken]
                self._filled += taken
                start += taken
                if self._filled == FEED_BYTE_SIZE:
                    self._compress()

    def finish(self) -> bytes:
        """Return the whole member. No bytes can be added afterwards."""
        if self._filled:
            self._compress()
        member = b"".join((*self._out, self._stream.flush()))
        return _HEADER + memoryview(member)[len(_HEADER) :]  # zlib-ng writes another system

    def _compress(self) -> None:
        self._out.append(self._stream.compress(self._buffer[: self._filled]))
        self._filled = 0


def _deflater(preset: Preset) -> Any:
    """Return a compressor of a gzip member, with the interface of ``zlib.compressobj``."""
    if preset == "fast":
        from isal import isal_zlib  # noqa: PLC0415

        return isal_zlib.compressobj(_FAST_LEVEL, isal_zlib.DEFLATED, 31)
    from zlib_ng import zlib_ng  # noqa: PLC0415

    return zlib_ng.compressobj(_SMALL_LEVEL, zlib_ng.DEFLATED, 31)


def compress(data: bytes, preset: Preset = "fast") -> bytes:
    """Return ``data`` as one gzip member."""
    compressor = Compressor(preset)
    compressor.feed(data)
    return compressor.finish()


def with_variant(gz: bytes, variant: int) -> bytes:
    """Return the same gzip, but another ETag: with ``variant`` (below 2**32; 0 is the plain form) in the time field."""
    return gz if variant == variant_of(gz) else b"".join((gz[:4], struct.pack("<I", variant), memoryview(gz)[8:]))


def variant_of(gz: bytes) -> int:
    """Return the variant that ``with_variant`` wrote."""
    return int(struct.unpack_from("<I", gz, 4)[0])


def decompress(data: bytes, *, max_byte_size: int, limit: int | None = None) -> bytes:
    """Decompress one or more gzip members. Zero padding after them is ignored. ``limit`` is the protocol's, for the message.

    Raises:
        InvalidSitemapError: The data is not gzip, is damaged or truncated, is followed by other data, or its content
            has more than ``max_byte_size`` bytes, of which not many more are ever in memory.
    """
    if not data.startswith(b"\x1f\x8b"):
        raise InvalidSitemapError(f"not a gzip file: it begins with {data[:8]!r}; store it compressed or name it .xml")
    parts: list[bytes] = []
    room, end = max_byte_size, 0
    while data.startswith(b"\x1f\x8b", end):
        part, end = _member(data, end, room, max_byte_size, limit)
        parts.append(part)
        room -= len(part)
    if (rest := data[end:]).strip(b"\x00"):
        raise InvalidSitemapError(
            f"damaged gzip: {len(rest):,} bytes after the compressed data are not gzip; write the file again"
        )
    return b"".join(parts)


def _member(data: bytes, start: int, room: int, max_byte_size: int, limit: int | None) -> tuple[bytes, int]:
    """Return the content of a member, at most ``room`` bytes, and its end. It is read in pieces: zlib copies what it leaves."""
    stream = zlib.decompressobj(wbits=31)
    parts: list[bytes] = []
    pending, end = b"", start
    try:
        while not stream.eof:
            if not pending:
                pending = data[end : end + _PIECE_BYTE_SIZE]
                end += len(pending)
            part = stream.decompress(pending, min(room + 1, _READ_BYTE_SIZE))
            pending = stream.unconsumed_tail
            if not part and not stream.eof and not pending and end == len(data):
                raise InvalidSitemapError("damaged gzip: the file is cut short; write it again")
            room -= len(part)
            if room < 0:
                raise InvalidSitemapError(
                    f"the gzip file holds more than {max_byte_size:,} bytes of content (a sitemap has at most "
                    f"{limit or max_byte_size:,}): reading stopped; split the file"
                )
            parts.append(part)
    except zlib.error as error:
        raise InvalidSitemapError(f"damaged gzip: {error}; write the file again") from error
    return b"".join(parts), end - len(stream.unused_data)
