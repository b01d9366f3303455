"""Checks of decoded manifests, plans and receipts: types, bounds, and names that stay within their area.

A program that can write to the state area controls the published files. Even so, a damaged or forged object must cause
an error, not a write to another place, an endless loop, or a TypeError in the middle of a promotion.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any, Final

from airflow_sitemaps.shards.digest import MODULUS, Digest
from airflow_sitemaps.shards.key import KeyRange
from airflow_sitemaps.shards.manifest import (
    Departed,
    IndexFile,
    IndexRecord,
    Manifest,
    PublicFile,
    SectionManifest,
)
from airflow_sitemaps.shards.plan import Plan, SectionPlan
from airflow_sitemaps.shards.receipt import Receipt, StagedShard

Check = Callable[[Any], bool]

MOST: Final = 1 << 63
"""Upper bound, exclusive, of every count, size and position."""

BODY: Final = re.compile(r"runs/[A-Za-z0-9_-]{1,100}/bodies/(?!\.)[A-Za-z0-9._-]{1,200}")
RUN: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
SECTION: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
PATH: Final = re.compile(r"[^/\\\x00-\x1f\x7f]+(?:/[^/\\\x00-\x1f\x7f]+)*")


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value < MOST


def _number(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < MOST


def _moment(value: Any) -> bool:
    return isinstance(value, datetime) and value.tzinfo is not None


def _key(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and all(type(part) in (int, str) for part in value)


def _range(value: Any) -> bool:
    return isinstance(value, KeyRange) and all(end is None or _key(end) for end in (value.lower, value.upper))


def _digest(value: Any) -> bool:
    return (
        isinstance(value, Digest)
        and _count(value.rows)
        and 0 <= value.checksum < MODULUS
        and (value.newest is None or _text(value.newest))
    )


def _texts(value: Any) -> bool:
    return isinstance(value, tuple) and all(map(_text, value))


def _each(kind: type, check: Check) -> Check:
    """Return a check of a mapping: keys of one type, and values that pass ``check``."""
    return lambda value: isinstance(value, Mapping) and all(isinstance(n, kind) and check(v) for n, v in value.items())


def relative_path(value: Any) -> bool:
    """Return whether a name is a relative path without ``..`` and control characters, so it stays in its folder."""
    return _text(value) and PATH.fullmatch(value) is not None and not {".", ".."} & set(value.split("/"))


def _folder(value: Any) -> bool:
    return value == "" or (_text(value) and value.endswith("/") and relative_path(value[:-1]))


def _paths(value: Any) -> bool:
    return isinstance(value, tuple) and all(map(relative_path, value))


def _matches(pattern: re.Pattern[str]) -> Check:
    return lambda value: _text(value) and pattern.fullmatch(value) is not None


BY_ANNOTATION: Final[Mapping[str, Check]] = {
    "str": _text,
    "int": _count,
    "float": _number,
    "bool": lambda value: type(value) is bool,
    "datetime": _moment,
    "Key": _key,
    "KeyRange": _range,
    "Digest": _digest,
    "tuple[str, ...]": _texts,
    "tuple[int, ...]": lambda value: isinstance(value, tuple) and all(map(_count, value)),
    "Mapping[str, int]": _each(str, _count),
    "Mapping[str, tuple[str, ...]]": _each(str, _texts),
}
"""Checks by the text of a field's annotation. Fields of other types are checked when they are decoded."""

BY_FIELD: Final[Mapping[tuple[type, str], Check]] = {
    (PublicFile, "name"): relative_path,
    (PublicFile, "body"): _matches(BODY),
    (IndexFile, "name"): relative_path,
    (IndexRecord, "name"): relative_path,
    (IndexRecord, "mode"): lambda value: value in ("one", "per_section"),
    (IndexRecord, "extras"): _paths,
    (Departed, "area"): lambda value: value in ("public", "state"),
    (Departed, "key"): relative_path,
    (SectionManifest, "name"): _matches(SECTION),
    (SectionManifest, "path"): _folder,
    (Manifest, "run"): _matches(RUN),
    (SectionPlan, "name"): _matches(SECTION),
    (SectionPlan, "taken"): _paths,
    (Plan, "run"): _matches(RUN),
    (Plan, "adopted"): _paths,
    (StagedShard, "body"): _matches(BODY),
    (Receipt, "run"): _matches(RUN),
    (Receipt, "section"): _matches(SECTION),
}
"""Checks of fields that name objects. They are stricter than the check of the annotation."""


def checks_of(kind: type) -> tuple[tuple[str, Check], ...]:
    """Return the checks of a persisted dataclass, by field name. An optional field may be None."""
    checks = []
    for field in fields(kind):
        annotation = str(field.type)
        name = annotation.removesuffix(" | None")
        check = BY_FIELD.get((kind, field.name)) or BY_ANNOTATION.get(name)
        if name != annotation:
            check = None if check is None else _optional(check)
        elif check is None:
            check = _is_there
        if check is not None:
            checks.append((field.name, check))
    return tuple(checks)


def _is_there(value: Any) -> bool:
    return value is not None


def _optional(check: Check) -> Check:
    return lambda value: value is None or check(value)


def misfit(plan: Plan) -> str | None:
    """Return what a plan refers to that does not exist, or None if every reference is valid."""
    for name, section in plan.sections.items():
        if name != section.name:
            return f"section {name!r} has the name {section.name!r}"
    for number, batch in enumerate(plan.batches):
        section_plan = plan.sections.get(batch.section)
        if section_plan is None or batch.number != number:
            return f"batch {number} is of section {batch.section!r} and numbered {batch.number}"
        if any(position >= len(section_plan.targets) for position in batch.targets):
            return f"batch {number} writes ranges that do not exist"
    return None
