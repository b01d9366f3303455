"""One JSON object of an extension column, read field by field. Every problem is recorded."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.protocol.extensions.json_value import shown
from airflow_sitemaps.protocol.markup import FORBIDDEN, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_sitemaps.protocol.extensions.values import Addresses

_YES_NO: Final = re.compile(r"(?:yes|no|Yes|No|YES|NO)")
_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,18}(?:\.[0-9]{0,18})?")
_SHOWN_FIELDS: Final = 10


@dataclass(slots=True)
class FieldProblems:
    """The problems of one row's column. Mutable.

    Attributes:
        faults: Descriptions of faults, with the names of the fields.
        ignored: Fields that search engines ignore.
    """

    faults: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)

    def fault(self, what: str) -> None:
        """Record a fault in words that name the field."""
        self.faults.append(what)


class Unusable(Exception):  # noqa: N818 - not an error: the part is left out, and its notes say why
    """A required field is missing or faulty, so the whole image, video, news or alternate is omitted."""


@dataclass(slots=True)
class FieldReader:
    """Reads the fields of one JSON object.

    A getter returns escaped XML text, or None if a field is absent or faulty. An empty string, list or null counts as
    absent.

    Attributes:
        name: Name of the object in messages (``image``, ``video 2``).
        values: The object.
        notes: The recorded problems.
        addresses: Parses the URLs and dates.
        write_ignored: Whether fields without effect are written.
    """

    name: str
    values: dict[str, Any]
    notes: FieldProblems
    addresses: Addresses
    write_ignored: bool = True
    _read: set[str] = field(default_factory=set)

    def raw(self, name: str) -> Any:
        """Return the JSON value, or None if the field is absent."""
        self._read.add(name)
        value = self.values.get(name)
        return None if value in ("", [], {}) else value

    def fault(self, name: str, what: str) -> None:
        """Record a fault of a field."""
        self.notes.fault(f"{self.name}: {name} {what}")

    def wanted(self, name: str, label: str) -> bool:
        """Return whether a field that search engines ignore is present and to be written. Record its label."""
        if self.raw(name) is None:
            return False
        if label not in self.notes.ignored:
            self.notes.ignored.append(label)
        return self.write_ignored

    def plain(self, name: str, *, limit: int | None = None) -> str | None:
        """Return unescaped text of at most ``limit`` characters. Numbers count as text."""
        value = self.raw(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            self.fault(name, f"is {shown(value)}, not text")
            return None
        if isinstance(value, float) and not math.isfinite(value):
            self.fault(name, f"is {shown(value)}, not text")
            return None
        value = str(value)
        if FORBIDDEN.search(value):
            self.fault(name, f"holds a character that XML forbids: {shown(value)}")
            return None
        if limit is not None and len(value) > limit:
            self.fault(name, f"has {len(value):,} characters (limit {limit:,})")
            return None
        return value if value.strip() else None

    def text(self, name: str, *, limit: int | None = None) -> str | None:
        """Return text of at most ``limit`` characters."""
        value = self.plain(name, limit=limit)
        return None if value is None else text(value)

    def url(self, name: str) -> str | None:
        """Return an unescaped absolute http(s) URL of any host, normalised like a ``loc``."""
        value = self.raw(name)
        if value is None:
            return None
        if not isinstance(value, str):
            self.fault(name, f"is {shown(value)}, not a URL")
            return None
        address, fault = self.addresses.normalise(value)
        if fault:
            self.fault(name, f"{fault}: {shown(value)}")
        return address

    def date(self, name: str) -> str | None:
        """Return a W3C date, or a date-time with a zone."""
        value = self.raw(name)
        if value is None:
            return None
        if not isinstance(value, str):
            self.fault(name, f"is {shown(value)}, not a date")
            return None
        written = self.addresses.date(value)
        if written is None:
            self.fault(name, f"is {shown(value)}, not a date or a date-time with a zone")
            return None
        return written

    def yes_no(self, name: str) -> str | None:
        """Return ``yes`` or ``no``, from a boolean or from one of the XSD's six spellings."""
        value = self.raw(name)
        if value is None:
            return None
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, str) and _YES_NO.fullmatch(value):
            return value
        self.fault(name, f"is {shown(value)}, not yes or no")
        return None

    def choice(self, name: str, allowed: Sequence[str]) -> str | None:
        """Return one of the allowed words."""
        value = self.raw(name)
        if value is None or (isinstance(value, str) and value in allowed):
            return value
        self.fault(name, f"is {shown(value)}, not one of {', '.join(allowed)}")
        return None

    def integer(self, name: str, *, least: int = 0, most: int | None = None) -> str | None:
        """Return a whole number from ``least`` to ``most``, both inclusive."""
        number = self._number(name)
        if number is None:
            return None
        if number != number.to_integral_value() or number < least or (most is not None and number > most):
            bounds = f"{least:,} to {most:,}" if most is not None else f"{least:,} or more"
            self.fault(name, f"is {shown(self.values[name])}, not a whole number, {bounds}")
            return None
        return str(int(number))

    def decimal(self, name: str, *, least: int = 0, most: int | None = None) -> str | None:
        """Return a decimal from ``least`` to ``most``, both inclusive, without an exponent."""
        number = self._number(name)
        if number is None:
            return None
        if number < least or (most is not None and number > most):
            bounds = f"{least} to {most}" if most is not None else f"{least} or more"
            self.fault(name, f"is {shown(self.values[name])}, not a number, {bounds}")
            return None
        return f"{number:f}"

    def parts(self, name: str) -> list[FieldReader]:
        """Return readers for a list of objects, or for one object."""
        value = self.raw(name)
        members = value if isinstance(value, list) else [] if value is None else [value]
        parts: list[FieldReader] = []
        for number, part in enumerate(members, 1):
            label = f"{self.name}: {name}" if len(members) == 1 else f"{self.name}: {name} {number}"
            values = part if isinstance(part, dict) else {"value": part}
            parts.append(FieldReader(label, values, self.notes, self.addresses, self.write_ignored))
        return parts

    def finish(self) -> None:
        """Record the fields that were not read: unknown or misspelled names."""
        unknown = [name for name in self.values if name not in self._read]
        if unknown:
            self.notes.fault(f"{self.name}: left out unknown fields: {', '.join(map(shown, unknown[:_SHOWN_FIELDS]))}")

    def unusable(self, what: str) -> Unusable:
        """Record why this part is omitted, and return the exception to raise."""
        self.notes.fault(f"{self.name} left out: {what}")
        return Unusable(what)

    def _number(self, name: str) -> Decimal | None:
        value = self.raw(name)
        if value is None:
            return None
        if not isinstance(value, bool) and isinstance(value, (int, float, str)):
            if isinstance(value, float) and not math.isfinite(value):
                self.fault(name, f"is {value}, not a number")
                return None
            written = f"{Decimal(repr(value)):f}" if isinstance(value, float) else str(value).strip()
            if _DECIMAL.fullmatch(written):
                return Decimal(written)
        self.fault(name, f"is {shown(value)}, not a number")
        return None
