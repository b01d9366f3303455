"""One JSON object of an extension column, parsed and read field by field. Every problem is recorded."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final

from airflow_sitemaps.protocol import RowContext, lastmod
from airflow_sitemaps.protocol.loc import WHITE, is_clean, normalise, scope_of
from airflow_sitemaps.protocol.markup import FORBIDDEN, escape
from airflow_sitemaps.protocol.rules import RULES, Verdict

MAX_DEPTH: Final = 32
"""Maximum number of levels of lists and objects. It is fixed, so that the depth of the caller's stack has no effect."""

SHOWN_CHARACTERS: Final = 60

_TOO_DEEP: Final = f"lists and objects are nested too deeply (limit {MAX_DEPTH} levels)"
_MAX_DIGITS: Final = 400


def _integer(digits: str) -> int:
    """Parse a whole number. The number of digits is limited, because the time would grow with its square."""
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"a number of {len(digits):,} digits (limit {_MAX_DIGITS})")
    return int(digits)


_decode: Final = json.JSONDecoder(parse_int=_integer).decode


class JsonFault(ValueError):  # noqa: N818 - a value that breaks a rule, not a failure
    """A text is not usable JSON. The message says why."""


def parse(text: str) -> Any:
    """Parse the JSON of a column, or raise JsonFault. NaN and Infinity are refused later, with their fields."""
    try:
        return _decode(text)
    except json.JSONDecodeError as error:
        if text.lstrip()[:8].lower().startswith(("http://", "https://")):
            message = 'a bare URL is not JSON; write it in double quotes, or as a list: ["https://…"]'
        else:
            message = f"not JSON: {error.msg} at character {error.pos + 1:,}"
        raise JsonFault(message) from error
    except RecursionError as error:
        raise JsonFault(_TOO_DEEP) from error
    except ValueError as error:
        raise JsonFault(str(error)) from error


def check_depth(value: Any) -> None:
    """Raise JsonFault for a value whose lists and objects are nested deeper than ``MAX_DEPTH``."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(MAX_DEPTH):
        level = [
            part
            for whole in level
            for part in (whole.values() if isinstance(whole, dict) else whole)
            if isinstance(part, (dict, list))
        ]
    if level:
        raise JsonFault(_TOO_DEEP)


def shown(value: Any) -> str:
    """Return a value for a message: text as Python writes it, other values as JSON. Long values are shortened."""
    text = repr(value[: SHOWN_CHARACTERS + 1]) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"


@dataclass(slots=True)
class FieldProblems:
    """The problems of one row's column: faults that name the field, and fields that search engines ignore. Mutable.

    ``fixed`` lists the ``loc-…`` rules under which a URL was repaired.
    """

    context: RowContext
    faults: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    fixed: list[str] = field(default_factory=list)

    def normalise(self, raw: str, *, is_page: bool = False) -> tuple[str | None, str | None]:
        """Return the normal form of a URL, or None and the description of its fault.

        A faulty URL is repaired if the verdict of its rule is ``repair`` or ``keep``. Otherwise it is refused. A bare
        ``https://host`` gets a slash as a ``loc`` does if it ``is_page``; else readers compare the URL as given.
        """
        if is_clean(raw):
            return raw, None
        scope = scope_of(self.context.base_url, self.context.cross_submit)
        rulebook = self.context.rulebook
        reading = normalise(raw, origin=scope.origin, keep_entities=rulebook["loc-entity"] is Verdict.KEEP)
        if reading.loc is None:
            return None, f"breaks {reading.faults[-1]} ({RULES[reading.faults[-1]].text})"
        for rule in reading.faults:
            if rulebook[rule] not in (Verdict.REPAIR, Verdict.KEEP):
                return None, f"breaks {rule} ({RULES[rule].text})"
            self.fixed.append(rule)
        bare = raw.strip(WHITE)
        return (bare if reading.loc == bare + "/" and not is_page else reading.loc), None


_YES_NO: Final = ("yes", "no", "Yes", "No", "YES", "NO")
_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,18}(?:\.[0-9]{0,18})?")
_SHOWN_FIELDS: Final = 10


class Unusable(Exception):  # noqa: N818 - not an error: the part is left out, and its notes say why
    """A required field is missing or faulty, so the whole image, video, news or alternate is omitted."""


@dataclass(slots=True)
class FieldReader:
    """Reads the fields of one JSON object. Messages call it by its name (``image``, ``video 2``).

    A getter returns escaped XML text, or None if a field is absent or faulty. An empty string, list or null counts as
    absent.
    """

    name: str
    values: dict[str, Any]
    notes: FieldProblems
    _read: set[str] = field(default_factory=set, init=False)

    def raw(self, name: str) -> Any:
        """Return the JSON value, or None if the field is absent."""
        self._read.add(name)
        value = self.values.get(name)
        return None if value in ("", [], {}) else value

    def fault(self, name: str, what: str) -> None:
        """Record a fault of a field."""
        self.notes.faults.append(f"{self.name}: {name} {what}")

    def wanted(self, name: str, label: str) -> bool:
        """Return whether a field that search engines ignore is present and to be written. Record its label."""
        if self.raw(name) is None:
            return False
        if label not in self.notes.ignored:
            self.notes.ignored.append(label)
        return self.notes.context.rulebook["ignored-field"] is Verdict.KEEP

    def plain(self, name: str, *, limit: int | None = None) -> str | None:
        """Return unescaped text of at most ``limit`` characters. Numbers count as text."""
        value = self.raw(name)
        if value is None:
            return None
        is_text = isinstance(value, (str, int, float)) and not isinstance(value, bool)
        if not is_text or (isinstance(value, float) and not math.isfinite(value)):
            self.fault(name, f"is {shown(value)}, not text")
            return None
        value = str(value)
        if FORBIDDEN.search(value):
            self.fault(name, f"holds a character that XML forbids: {shown(value)}")
        elif limit is not None and len(value) > limit:
            self.fault(name, f"has {len(value):,} characters (limit {limit:,})")
        elif value.strip():
            return value
        return None

    def text(self, name: str, *, limit: int | None = None) -> str | None:
        """Return text of at most ``limit`` characters."""
        value = self.plain(name, limit=limit)
        return None if value is None else escape(value)

    def url(self, name: str, *, is_page: bool = False) -> str | None:
        """Return an unescaped absolute http(s) URL of any host, normalised like a ``loc``."""
        value = self._string(name, "a URL")
        if value is None:
            return None
        address, fault = self.notes.normalise(value, is_page=is_page)
        if fault:
            self.fault(name, f"{fault}: {shown(value)}")
        return address

    def date(self, name: str) -> str | None:
        """Return a W3C date, or a date-time with a zone. Without one, the section's zone applies."""
        value = self._string(name, "a date")
        if value is None:
            return None
        read = lastmod.parse_or_none(value, self.notes.context.timezone)
        if read is None:
            self.fault(name, f"is {shown(value)}, not a date or a date-time with a zone")
            return None
        return lastmod.render(read)

    def yes_no(self, name: str) -> str | None:
        """Return ``yes`` or ``no``, from a boolean or from one of the XSD's six spellings."""
        value = self.raw(name)
        if isinstance(value, bool):
            return "yes" if value else "no"
        return self.choice(name, _YES_NO)

    def choice(self, name: str, allowed: Sequence[str]) -> str | None:
        """Return one of the allowed words."""
        value = self.raw(name)
        if value is None or (isinstance(value, str) and value in allowed):
            return value
        self.fault(name, f"is {shown(value)}, not one of {', '.join(allowed)}")
        return None

    def integer(self, name: str, *, least: int = 0, most: int | None = None) -> str | None:
        """Return a whole number from ``least`` to ``most``, both inclusive."""
        number = self._number(name, least, most, whole=True)
        return None if number is None else str(int(number))

    def decimal(self, name: str, *, most: int | None = None) -> str | None:
        """Return a decimal from 0 to ``most``, both inclusive, without an exponent."""
        number = self._number(name, 0, most)
        return None if number is None else f"{number:f}"

    def parts(self, name: str) -> list[FieldReader]:
        """Return readers for a list of objects, or for one object."""
        value = self.raw(name)
        members = value if isinstance(value, list) else [] if value is None else [value]
        parts: list[FieldReader] = []
        for number, part in enumerate(members, 1):
            label = f"{self.name}: {name}" if len(members) == 1 else f"{self.name}: {name} {number}"
            parts.append(replace(self, name=label, values=part if isinstance(part, dict) else {"value": part}))
        return parts

    def part(self, name: str) -> FieldReader | None:
        """Return a field's part, the first of several, or None if the field is absent."""
        parts = self.parts(name)
        if len(parts) > 1:
            self.fault(name, f"is given {len(parts)} times, the first is kept")
        return parts[0] if parts else None

    def finish(self) -> None:
        """Record the fields that were not read: unknown or misspelled names."""
        unknown = [name for name in self.values if name not in self._read]
        if unknown:
            self.notes.faults.append(
                f"{self.name}: left out unknown fields: {', '.join(map(shown, unknown[:_SHOWN_FIELDS]))}"
            )

    def required(self, name: str, value: str | None) -> str:
        """Return the value of a field, or raise Unusable if it has none."""
        if value is None:
            raise self.unusable(f"it has no usable {name}")
        return value

    def unusable(self, what: str) -> Unusable:
        """Record why this part is omitted, and return the exception to raise."""
        self.notes.faults.append(f"{self.name} left out: {what}")
        return Unusable(what)

    def _string(self, name: str, what: str) -> str | None:
        value = self.raw(name)
        if value is None or isinstance(value, str):
            return value
        self.fault(name, f"is {shown(value)}, not {what}")
        return None

    def _number(self, name: str, least: int, most: int | None, *, whole: bool = False) -> Decimal | None:
        value = self.raw(name)
        if value is None:
            return None
        if isinstance(value, float) and not math.isfinite(value):
            self.fault(name, f"is {value}, not a number")
            return None
        written = f"{Decimal(repr(value)):f}" if isinstance(value, float) else str(value).strip()
        if not isinstance(value, (int, float, str)) or isinstance(value, bool) or not _DECIMAL.fullmatch(written):
            self.fault(name, f"is {shown(value)}, not a number")
            return None
        number = Decimal(written)
        if number >= least and (most is None or number <= most) and (not whole or number == number.to_integral_value()):
            return number
        bounds = f"{least:,} to {most:,}" if most is not None else f"{least:,} or more"
        self.fault(name, f"is {shown(value)}, not a {'whole ' if whole else ''}number, {bounds}")
        return None
