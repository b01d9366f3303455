"""The index."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from lxml import etree

from airflow_sitemaps.errors import RefusedError
from airflow_sitemaps.protocol import CURRENT, ORIGINAL, Limits
from airflow_sitemaps.protocol.markup import render_index

XSD = Path(__file__).parents[2].parent / "shared" / "xsd" / "siteindex.xsd"
MOMENT = datetime(2024, 5, 1, 12, 30, 15, 999_999, tzinfo=timezone(timedelta(hours=2)))
ENTRIES = [
    ("https://example.com/a-00001.xml.gz?x=1&y='2'", MOMENT),
    ("https://example.com/b-00001.xml.gz", None),
]


def test_the_bytes() -> None:
    assert render_index(ENTRIES, stylesheet="/style.xsl?a&b") == (
        b'<?xml version="1.0" encoding="UTF-8"?>\n'
        b'<?xml-stylesheet type="text/xsl" href="/style.xsl?a&amp;b"?>\n'
        b'<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
        b"<sitemap><loc>https://example.com/a-00001.xml.gz?x=1&amp;y=&apos;2&apos;</loc>"
        b"<lastmod>2024-05-01T10:30:15Z</lastmod></sitemap>\n"
        b"<sitemap><loc>https://example.com/b-00001.xml.gz</loc></sitemap>\n"
        b"</sitemapindex>\n"
    )


@pytest.mark.skipif(not XSD.exists(), reason="the schemas of sitemaps.org lie beside the project, not in it")
def test_it_is_valid() -> None:
    schema = etree.XMLSchema(etree.parse(XSD))
    schema.assertValid(etree.fromstring(render_index(ENTRIES, stylesheet="/s.xsl")))


def test_limits() -> None:
    many = [(f"https://example.com/{n}", None) for n in range(1_001)]
    assert render_index(many, limits=CURRENT).count(b"<sitemap>") == 1_001
    with pytest.raises(RefusedError, match=r"1,001 sitemaps \(limit 1,000, original profile\)"):
        render_index(many, limits=ORIGINAL)
    tight = Limits(name="tight", max_urls=1, max_byte_size=500, max_sitemaps=2_000)
    with pytest.raises(RefusedError, match=r"bytes for 1,001 sitemaps \(limit 500, tight profile\)"):
        render_index(many, limits=tight)
