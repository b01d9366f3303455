"""Decoders of persisted JSON that threads may share from their first use on.

msgspec describes a type when it first decodes it, and keeps the description on the type. Two threads that do this at the
same time corrupt it: the process crashes, or loops without releasing the GIL. A ``Decoder`` completes the description
when it is made. Make each one at import, as a constant of its module; ``tests/structure`` checks that nothing decodes
into a type in another way.
"""

from __future__ import annotations

import json
import threading
from typing import Final, Generic, TypeVar

import msgspec

T = TypeVar("T")

_lock: Final = threading.Lock()
"""Held while a description is made, since two modules of shared types may be imported in two threads."""


class Decoder(Generic[T]):
    """Decodes JSON into one type: a dataclass, a ``msgspec.Struct``, or another type that msgspec knows."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        with _lock:
            self._decoder = msgspec.json.Decoder(kind)

    def decode(self, text: bytes) -> T:
        """Decode JSON.

        Args:
            text: JSON in UTF-8. Lone surrogates, which UTF-8 cannot encode, may be encoded as Python's ``surrogatepass``
                does.

        Raises:
            ValueError: The text is no JSON. ``msgspec.ValidationError``, a subclass, if a value is not of the type.
            RecursionError: The text is nested too deeply.
        """
        try:
            return self._decoder.decode(text)
        except UnicodeDecodeError:
            value = json.loads(text.decode("utf-8", "surrogatepass"))
            return msgspec.convert(value, self._kind, str_keys=True)
