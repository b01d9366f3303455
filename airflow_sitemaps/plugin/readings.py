"""Values that tasks and other programs wrote, read so that a wrong value becomes the default; and a cache of them.

Every text, list and mapping is limited in size: an event of another version, or a forged one, must not break a page.
"""

from __future__ import annotations

import inspect
import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from cachetools import LRUCache
from pydantic import BaseModel, ConfigDict, PlainSerializer, create_model

from airflow_sitemaps.protocol.lastmod import LastmodTrust
from airflow_sitemaps.shards.plan import SectionFailure
from airflow_sitemaps.shards.url_sample import PrefixCount

MAX_TEXT: Final = 2_000
"""Largest number of characters of one text in a response."""
MAX_ITEMS: Final = 1_000
NO_NUL: Final = r"^[^\x00]*$"
"""Pattern of the texts that PostgreSQL accepts."""

K = TypeVar("K")
V = TypeVar("V")


def integer(value: object) -> int:
    """Return a count, or 0 if the value is not a number."""
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**63 else 0


def text(value: object) -> str:
    """Return a text of limited length, or an empty text if the value is not a text."""
    return value[:MAX_TEXT] if isinstance(value, str) else ""


def mapping(value: object) -> dict[str, Any]:
    """Return a mapping of limited length, or an empty mapping if the value is not a mapping."""
    return {str(k)[:MAX_TEXT]: v for k, v in list(value.items())[:MAX_ITEMS]} if isinstance(value, Mapping) else {}


def items(value: object) -> list[Any]:
    """Return a list of limited length, or an empty list if the value is not a list."""
    return list(value[:MAX_ITEMS]) if isinstance(value, Sequence) and not isinstance(value, (str, bytes)) else []


def texts(value: object) -> list[str]:
    """Return the texts in a list."""
    return [text(v) for v in items(value) if isinstance(v, str)]


def timestamp(value: object) -> str:
    """Return a time as ISO 8601 in UTC, or an empty text if the value is not a time. Without a zone it is in UTC."""
    try:
        moment = moment_of(text(value))
        zoned = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
        return zoned.astimezone(timezone.utc).isoformat()
    except (ValueError, OverflowError):
        return ""


def moment_of(text: str) -> datetime:
    """Return the time of an ISO 8601 text."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def iso(moment: datetime) -> str:
    """Return a time as ISO 8601 in UTC, with milliseconds."""
    return moment.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def attributes(value: object, *names: str) -> dict[str, Any]:
    """Return some attributes of an object by name."""
    return {name: getattr(value, name) for name in names}


class StrictModel(BaseModel):
    """A request or response of the API, without undeclared fields."""

    model_config = ConfigDict(extra="forbid")


Moment = Annotated[datetime, PlainSerializer(iso, return_type=str)]

_WRONG: Final = object()
_NAMES: Final = {kind.__name__: kind for kind in (Mapping, SectionFailure, PrefixCount, LastmodTrust)}
"""Names that the annotations of ``pipeline.report`` use, and that it imports for type checkers only."""


def read_as(kind: Callable[..., V], value: object, /, **own: Any) -> V:
    """Return a dataclass, Struct or model from JSON. A wrong or missing value becomes the field's default, or else zero.

    ``own`` are values of fields that are not read.
    """
    written, fields = mapping(value), dict(own)
    for name, (convert, zero) in _fields(kind).items():
        if name in own:
            continue
        converted = convert(written[name]) if name in written else _WRONG
        if converted is not _WRONG:
            fields[name] = converted
        elif zero is not None:
            fields[name] = zero()
    return kind(**fields)


@cache
def hints_of(kind: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of a class's fields, by name."""
    return get_type_hints(kind, localns=_NAMES)


@cache
def _fields(kind: Callable[..., Any]) -> dict[str, tuple[Callable[[Any], Any], Callable[[], Any] | None]]:
    """Return the converter of each field, and what makes its zero if it has no default."""
    hints = hints_of(kind)
    return {
        name: (_converter(hints[name]), None if field.default is not field.empty else _zero(hints[name]))
        for name, field in inspect.signature(kind).parameters.items()
    }


def _zero(hint: Any) -> Callable[[], Any]:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return lambda: None
    if origin is Literal:
        return lambda: args[0]
    if origin is Mapping:
        return dict
    kind: Callable[[], Any] = origin or hint  # a class that is called without arguments gives its zero
    return kind


def _converter(hint: Any) -> Callable[[Any], Any]:
    """Return a function from a JSON value to a value of a type, or to ``_WRONG``."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _converter(args[0])
    if origin in (Union, UnionType):
        some = _converter(args[0])
        return lambda value: None if value is None else some(value)
    if origin is Literal:
        return lambda value: value if isinstance(value, str) and value in args else _WRONG
    if origin in (tuple, list):
        member = _converter(args[0])
        return lambda value: origin(v for v in map(member, items(value)) if v is not _WRONG)
    if origin in (Mapping, dict):
        member = _converter(args[1])
        return lambda value: {k: v for k, raw in mapping(value).items() if (v := member(raw)) is not _WRONG}
    return _SCALARS.get(hint) or (lambda value: read_as(hint, value))


def _number(value: object) -> Any:
    """Return a finite number from 0 on."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < 2**63 and math.isfinite(value) else _WRONG  # type: ignore[arg-type,operator]


_SCALARS: Final[Mapping[Any, Callable[[Any], Any]]] = {
    bool: lambda value: value if isinstance(value, bool) else _WRONG,
    int: lambda value: _WRONG if isinstance(value, bool) or not isinstance(value, (int, float)) else integer(value),
    float: _number,
    str: lambda value: text(value) if isinstance(value, str) else _WRONG,
}


def model_of(kind: type, about: str, *, without: Iterable[str] = (), **models: Any) -> Any:
    """Return a response model with a dataclass's fields, which takes its instances. ``models`` replace types."""
    fields = {name: (models.get(name, hint), ...) for name, hint in hints_of(kind).items() if name not in {*without}}
    config = ConfigDict(from_attributes=True, extra="forbid")
    return create_model(kind.__name__, __config__=config, __doc__=about, **fields)  # type: ignore[call-overload]


class BoundedCache(Generic[K, V]):
    """A cache that evicts the least recently used value first, and that threads may share."""

    def __init__(self, size: int) -> None:
        self._values: LRUCache[K, V] = LRUCache(size)
        self._lock = threading.Lock()

    def get(self, keys: Iterable[K]) -> dict[K, V]:
        """Return the cached values of these keys."""
        with self._lock:
            return {key: self._values[key] for key in keys if key in self._values}

    def add(self, values: Mapping[K, V]) -> None:
        """Store values."""
        with self._lock:
            self._values.update(values)
