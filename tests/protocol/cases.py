"""Cases in the form of the peers' ones, brought through the real rendering path and compared by meaning."""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from lxml import etree

from airflow_sitemaps.protocol import CURRENT, EXTENSIONS, RowContext, gzip
from airflow_sitemaps.protocol.loc import normalise, origin_of
from airflow_sitemaps.protocol.rules import Tally, rulebook_of
from airflow_sitemaps.shards.stream import ShardStream

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared"
NOW = datetime(2026, 11, 1, 12, tzinfo=timezone.utc)
SITEMAP = "{http://www.sitemaps.org/schemas/sitemap/0.9}"

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")
_FIELDS = ("lastmod", "changefreq", "priority")

Shape = tuple[str, str, tuple[tuple[str, str], ...], tuple[Any, ...]]


def load(path: Path) -> list[dict[str, Any]]:
    """The cases of a file, one JSON object a line."""
    lines = path.read_text(encoding="utf-8", errors="surrogatepass").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def row_context(base_url: str, rules: Mapping[str, str] | None = None, **settings: Any) -> RowContext:
    """The context of a case."""
    given = {"limits": CURRENT, "max_urls": CURRENT.max_urls, "now": NOW, "section": "case", **settings}
    return RowContext(base_url=base_url, rulebook=rulebook_of(rules), **given)


def base_of(case: Mapping[str, Any]) -> str:
    """The folder of a case's sitemap: as it says, or the root of its first URL's host."""
    if "context" in case:
        return str(case["context"]["sitemap_url"]).rpartition("/")[0] + "/"
    reading = normalise(str(case["records"][0].get("loc", "")) if case["records"] else "", origin="")
    absolute = reading.loc is not None and "loc-relative" not in reading.faults
    return (origin_of(reading.loc) if reading.loc is not None and absolute else "https://example.com") + "/"


def batch(records: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """The record batch that a source would read the records as."""
    columns: dict[str, pa.Array] = {
        "range": pa.array([0] * len(records), pa.int32()),
        "row_hash": pa.array(range(len(records)), pa.uint64()),
        "key": pa.array([json.dumps([n]) for n in range(len(records))], pa.string()),
        "loc": pa.array([record.get("loc") for record in records], pa.string()),
    }
    for name in _FIELDS:
        if any(name in record for record in records):
            values = [None if record.get(name) is None else str(record[name]) for record in records]
            columns[name] = pa.array(values, pa.string())
    for name in EXTENSIONS:
        if any(name in record for record in records):
            values = [json.dumps(record[name]) if name in record else None for record in records]
            columns[name] = pa.array(values, pa.string())
    return pa.RecordBatch.from_pydict(columns)


def render(records: Sequence[Mapping[str, Any]], master: RowContext) -> tuple[bytes | None, Tally]:
    """The file that records make, uncompressed (None: no row was valid), and the faults counted."""
    stream = ShardStream(master)
    files = [*stream.add(batch(records)), *stream.finish()]
    assert len(files) == 1
    body = files[0].body
    content = None if body is None else gzip.decompress(body, max_byte_size=1 << 28)
    return content, files[0].tally


def urls_of(content: bytes | None) -> list[list[Shape]]:
    """The children of each ``<url>``, by meaning."""
    if content is None:
        return []
    return [[shape(child) for child in url] for url in etree.fromstring(content)]


def shape(element: Any) -> Shape:
    """An element by meaning: prefixes, white space, zones and spellings of numbers make no difference."""
    return (
        str(element.tag),
        meaning(element.text or ""),
        tuple(sorted((str(name), meaning(value)) for name, value in element.attrib.items())),
        tuple(shape(child) for child in element),
    )


def fragment_shape(fragment: str) -> Shape:
    """The shape of an expected fragment."""
    return shape(etree.fromstring(fragment.encode()))


def meaning(value: str) -> str:
    """A value so that equal meanings are equal texts; fractions of a second are cut."""
    value = " ".join(value.split())
    if _MOMENT.fullmatch(value):
        moment = datetime.fromisoformat(re.sub(r"\.\d+", "", value).replace("Z", "+00:00"))
        return moment.astimezone(timezone.utc).isoformat()
    return str(Decimal(value).normalize()) if _NUMBER.fullmatch(value) else value


def differences(case: Mapping[str, Any], urls: list[list[Shape]]) -> Iterator[str]:
    """What differs from what a case expects."""
    if case["expected"] == "valid":
        yield from _differences_from_fragments(case, urls)
        return
    leaks = [fragment_shape(leak) for leak in case.get("leak", ())]
    out = [child for url in urls for child in url]
    if leaks and all(leak in out for leak in leaks):
        yield f"{case['expected']}: let through: {case['leak'][0][:200]}"
    if case["bad"] == "loc" and any(f"{SITEMAP}loc" == child[0] and not child[1] for child in out):
        yield "an empty loc"


def _differences_from_fragments(case: Mapping[str, Any], urls: list[list[Shape]]) -> Iterator[str]:
    expected = [[fragment_shape(part) for part in parts] for parts in case["fragments"]]
    if len(urls) != len(expected):
        yield f"{len(urls)} urls, expected {len(expected)}"
        return
    for number, (got, wanted) in enumerate(zip(urls, expected, strict=True)):
        if number == 0 and "loc_out" in case:
            if got[0][1] not in case["loc_out"]:
                yield f"loc {got[0][1]!r} is none of {case['loc_out']}"
            got, wanted = got[1:], wanted[1:]  # noqa: PLW2901 - the rest is compared as it is
        if sorted(map(repr, got)) != sorted(map(repr, wanted)):
            yield f"url {number}: {got!r}, expected {wanted!r}"
