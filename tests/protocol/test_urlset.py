"""Whole files: valid by the schemas, read back as they were written; the core cases of peers."""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lxml import etree

from airflow_sitemaps.protocol import CHANGEFREQS, lastmod
from airflow_sitemaps.protocol.columnar.batch import clean
from airflow_sitemaps.protocol.columnar.elements import render
from airflow_sitemaps.protocol.markup import FOOTER, NAMESPACE, escape, header
from airflow_sitemaps.protocol.rules import Tally
from tests.support.reference_renderer import Entry, render_entry, row_context

SHARED = Path(__file__).parents[2].parent / "shared"
CORE = ("lastmod", "changefreq", "priority")
LATER = datetime(2030, 1, 1, tzinfo=timezone.utc)


def test_the_bytes() -> None:
    entries = [
        Entry(
            loc="https://example.com/?a=1&b='2'",
            lastmod=datetime(2024, 5, 1, 12, tzinfo=timezone.utc),
            changefreq="daily",
            priority="0.8",
        ),
        Entry(loc="https://example.com/b", extensions="<image:image/>"),
    ]
    assert header({"image"}) + b"".join(map(render_entry, entries)) + FOOTER == (
        b'<?xml version="1.0" encoding="UTF-8"?>\n'
        b'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
        b' xmlns:image="http://www.google.com/schemas/sitemap-image/1.1">\n'
        b"<url><loc>https://example.com/?a=1&amp;b=&apos;2&apos;</loc><lastmod>2024-05-01T12:00:00Z</lastmod>"
        b"<changefreq>daily</changefreq><priority>0.8</priority></url>\n"
        b"<url><loc>https://example.com/b</loc><image:image/></url>\n"
        b"</urlset>\n"
    )


def test_the_five_characters() -> None:
    assert escape("&'\"<>&amp;") == "&amp;&apos;&quot;&lt;&gt;&amp;amp;"


@pytest.fixture(scope="module")
def schema() -> etree.XMLSchema:
    path = SHARED / "xsd" / "all.xsd"
    if not path.exists():
        pytest.skip("the schemas of sitemaps.org and Google lie beside the project, not in it")
    return etree.XMLSchema(etree.parse(path))


def test_columns_make_valid_files(schema: etree.XMLSchema) -> None:
    count = 3_000
    data = pa.record_batch(
        {
            "loc": [f"https://example.com/ä/{n}?a='{n}'&b" for n in range(count)],
            "lastmod": pa.array([n * 577_000_000_000 - 60_000_000_000_000_000 for n in range(count)]).cast(
                pa.timestamp("us", "UTC")
            ),
            "changefreq": [(*CHANGEFREQS, "often", None)[n % 9] for n in range(count)],
            "priority": [n / (count - 100) for n in range(count)],
            "alternates": ['[{"hreflang": "de", "href": "https://example.com/de?a&b"}]'] * count,
        }
    )
    cleaned = clean(data, row_context(), Tally())
    root = etree.fromstring(header(cleaned.prefixes()) + b"".join(render(cleaned).chunks()) + FOOTER)
    schema.assertValid(root)
    locs = [node.text for node in root.iter(f"{{{NAMESPACE}}}loc")]
    assert locs == [f"https://example.com/%C3%A4/{n}?a='{n}'&b" for n in range(count)]


# ---------------------------------------------------------------- peers' cases


def cases() -> list[dict[str, Any]]:
    path = SHARED / "cases" / "peers.jsonl"
    if not path.exists():
        return []
    found = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [
        case
        for case in found
        if case["kind"] == "urlset" and any("loc" in record and set(CORE) & set(record) for record in case["records"])
    ]


def written(record: dict[str, Any]) -> dict[str, str]:
    """The core elements that a record becomes."""
    columns = {name: [None if record.get(name) is None else str(record[name])] for name in CORE}
    data = pa.record_batch({"loc": ["https://example.com/"], **columns})
    tally = Tally()
    body = b"".join(render(clean(data, row_context(now=LATER), tally)).chunks())
    return dict(re.findall(r"<(\w+)>([^<]*)</", body.decode()))


def same(name: str, ours: str | None, theirs: str) -> bool:
    if ours is None:
        return False
    if name == "priority":
        return Decimal(ours) == Decimal(theirs)
    if name == "lastmod":
        value = lastmod.parse(theirs)
        return value is not None and lastmod.render(value) == ours
    return ours == theirs


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["id"])
def test_peers_core_elements(case: dict[str, Any], schema: etree.XMLSchema) -> None:
    records = case["records"]
    for number, record in enumerate(records):
        ours = written(record)
        xml = "".join(f"<{name}>{value}</{name}>" for name, value in ours.items())
        schema.assertValid(etree.fromstring(header() + f"<url>{xml}</url>".encode() + FOOTER))
        if case.get("bad") in CORE:
            assert case["bad"] not in ours or record[case["bad"]] != ours[case["bad"]]
        elif case["expected"] == "valid":
            theirs = dict(re.findall(r"<(\w+) xmlns=[^>]*>([^<]*)</", "".join(case["fragments"][number])))
            for name in set(theirs) & set(CORE):
                assert same(name, ours.get(name), theirs[name])
