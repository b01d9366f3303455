"""Key ranges, digests, the manifest, and the pure functions that decide what a run writes; here, the types of persisted fields.

A program that can write to the state area controls the published files. Even so, a damaged or forged object must cause
an error, not a write to another place, an endless loop, or a TypeError in the middle of a promotion. msgspec reads
these annotations when it decodes a manifest, a plan or a receipt.
"""

from __future__ import annotations

import json
import re
import threading
from datetime import datetime
from hashlib import sha256
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec
from msgspec import Meta, Struct

MOST: Final = (1 << 63) - 1
"""Greatest count, size or position."""

_PART: Final = r"(?!\.{1,2}(?:/|\Z))[^/\\\x00-\x1f\x7f]+"
"""One part of a path: not ``.`` or ``..``, and without separators and control characters."""

_PATH: Final = rf"{_PART}(?:/{_PART})*"

Count = Annotated[int, Meta(ge=0, le=MOST)]
"""A number of things, a size in bytes, or a position."""

Number = Annotated[float, Meta(ge=0, le=float(MOST))]
"""A duration in seconds, or a measured value."""

Moment = Annotated[datetime, Meta(tz=True)]
"""A time with its zone."""

RelativePath = Annotated[str, Meta(pattern=rf"\A{_PATH}\Z")]
"""A path that stays in its folder."""

Folder = Annotated[str, Meta(pattern=rf"\A(?:{_PATH}/)?\Z")]
"""A relative path that ends in ``/``, or an empty text."""

BodyKey = Annotated[str, Meta(pattern=r"\Aruns/[A-Za-z0-9_-]{1,100}/bodies/(?!\.)[A-Za-z0-9._-]{1,200}\Z")]
"""Key of a private body in the state area."""

Checksum = Annotated[str, Meta(pattern=r"\A[0-9a-f]{16}\Z")]
"""The first 16 hexadecimal digits of a SHA-256."""

RunName = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{1,100}\Z")]
"""Identifier of a run."""

SectionName = Annotated[str, Meta(pattern=r"\A[a-z0-9][a-z0-9_-]{0,63}\Z")]
"""Name of a section."""


T = TypeVar("T")

_lock: Final = threading.Lock()
"""Held while a description is made, since two modules of shared types may be imported in two threads."""


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A record of a persisted object. Fields that have their default are not stored."""


class Member(Record, frozen=True, kw_only=True):
    """A section that a run makes of a ``Section.each``, the ``family``. The value is None for the rows of all other values."""

    family: SectionName
    column: str
    value: str | int | bool | None = None


def checksum_of(data: bytes) -> str:
    """Return the ``Checksum`` of bytes."""
    return sha256(data).hexdigest()[:16]


def is_relative_path(value: Any) -> bool:
    """Return whether a name is a relative path without ``..`` and control characters, so it stays in its folder."""
    return isinstance(value, str) and re.fullmatch(_PATH, value) is not None


class Decoder(Generic[T]):
    """Decodes JSON into one type, in any thread.

    msgspec describes a type when it first decodes it, and keeps the description on the type. Two threads that do this
    at the same time corrupt it: the process crashes, or loops without releasing the GIL. A ``Decoder`` completes the
    description when it is made. Make each one at import, as a constant of its module; ``tests/shards/test_decoder.py``
    checks that nothing decodes into a type in another way.
    """

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        with _lock:
            self._decoder = msgspec.json.Decoder(kind)

    def decode(self, text: bytes) -> T:
        """Decode JSON in UTF-8. Lone surrogates, which UTF-8 cannot encode, may be encoded like by ``surrogatepass``.

        Raises:
            ValueError: The text is no JSON. ``msgspec.ValidationError``, a subclass, if a value is not of the type.
            RecursionError: The text is nested too deeply.
        """
        try:
            return self._decoder.decode(text)
        except UnicodeDecodeError:
            value = json.loads(text.decode("utf-8", "surrogatepass"))
            return msgspec.convert(value, self._kind, str_keys=True)

    def decode_or_none(self, text: bytes) -> T | None:
        """Decode JSON as ``decode`` does; None for a text that is damaged or of another type or format."""
        try:
            return self.decode(text)
        except (ValueError, RecursionError):
            return None
