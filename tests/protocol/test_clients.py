"""Real clients read what we write: the same URLs and dates.

The clients are no dependencies of the project. ``npm install sitemap`` into a folder named by ``SITEMAP_NODE_PATH``
(its ``node_modules``) lets the parser of sitemap.js read along.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sitemaps.protocol import gzip
from airflow_sitemaps.protocol.markup import render_index
from tests.protocol import cases
from tests.support.website import Page, Site, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

MODIFIED = datetime(2026, 10, 2, 3, 4, 5, tzinfo=timezone.utc)


def records(base: str) -> list[dict[str, Any]]:
    """Entries with everything that clients stumble over."""
    paths = ["a?x=1&y='2'", "ü/日本/😀", "b%20c", "d//e", "f;g=h,i", "j(k)!$*"]
    rows: list[dict[str, Any]] = [{"loc": base + path} for path in paths]
    for row, changed in zip(rows, ["2026-10-01T10:00:00+02:00", "2026-10-01", "2026-09-30T23:59:59.9Z"], strict=False):
        row["lastmod"] = changed
    rows[0] |= {
        "changefreq": "daily",
        "priority": "0.8",
        "images": [{"loc": base + "i.jpg?a=1&b=2", "caption": "<b> & 'c'"}],
        "alternates": [{"hreflang": "de", "href": rows[0]["loc"]}, {"hreflang": "x-default", "href": base + "b%20c"}],
        "news": {"publication": {"name": "P & Q", "language": "en"}, "publication_date": "2026-10-31", "title": "<T>"},
        "videos": [
            {
                "thumbnail_loc": base + "t.jpg", "title": "V & W", "description": "D", "content_loc": base + "v.mp4",
                "duration": 60, "tags": ["x", "y"], "publication_date": "2026-10-01T00:00:00Z",
            }
        ],
    }  # fmt: skip
    return rows


def expected(base: str) -> dict[str, str | None]:
    """URL → lastmod as a moment in UTC."""
    return {
        base + "a?x=1&y='2'": "2026-10-01T08:00:00+00:00",
        base + "%C3%BC/%E6%97%A5%E6%9C%AC/%F0%9F%98%80": "2026-10-01T00:00:00+00:00",
        base + "b%20c": "2026-09-30T23:59:59+00:00",
        base + "d//e": None,
        base + "f;g=h,i": None,
        base + "j(k)!$*": None,
    }


@pytest.fixture
def site() -> Iterator[Site]:
    """An index of a compressed urlset and of a text sitemap, named by robots.txt."""
    with serving() as site:
        base = site.base + "/"
        content, tally = cases.render(records(base), cases.row_context(base))
        assert content is not None
        assert not tally.dropped
        entries = [(base + name, MODIFIED) for name in ("pages.xml.gz", "plain.txt")]
        site.pages = {
            "/robots.txt": Page(
                f"User-agent: *\nSitemap: {base}sitemap.xml\n".encode(), headers={"Content-Type": "text/plain"}
            ),
            "/sitemap.xml": Page(render_index(entries), headers={"Content-Type": "application/xml"}),
            "/pages.xml.gz": Page(gzip.compress(content), headers={"Content-Type": "application/gzip"}),
            "/plain.txt": Page(f"{base}t/1\n{base}t/2\n".encode(), headers={"Content-Type": "text/plain"}),
        }
        yield site


def in_utc(moment: datetime | None) -> str | None:
    if moment is None:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).astimezone(timezone.utc).isoformat()


def moment_of(written: str) -> str | None:
    return in_utc(datetime.fromisoformat(written.replace("Z", "+00:00")))


@pytest.mark.filterwarnings("default")
def test_ultimate_sitemap_parser(site: Site) -> None:
    tree = pytest.importorskip("usp.tree", reason="ultimate-sitemap-parser is not installed")
    base = site.base + "/"
    pages = {page.url: page for page in tree.sitemap_tree_for_homepage(base, use_known_paths=False).all_pages()}
    wanted: dict[str, str | None] = {**expected(base), base + "t/1": None, base + "t/2": None}
    assert {url: in_utc(page.last_modified) for url, page in pages.items()} == wanted
    first = pages[base + "a?x=1&y='2'"]
    assert float(first.priority) == pytest.approx(0.8)
    assert first.change_frequency.value == "daily"
    assert [(image.loc, image.caption) for image in first.images] == [(base + "i.jpg?a=1&b=2", "<b> & 'c'")]
    assert (first.news_story.title, first.news_story.publication_name) == ("<T>", "P & Q")
    assert list(first.alternates) == [("de", base + "a?x=1&y='2'"), ("x-default", base + "b%20c")]


@pytest.mark.filterwarnings("default")
def test_advertools(site: Site) -> None:
    advertools = pytest.importorskip("advertools", reason="advertools is not installed")
    base = site.base + "/"
    frame = advertools.sitemap_to_df(base + "pages.xml.gz")
    values = frame.astype(object).where(frame.notna(), None).to_dict("records")
    found = {row["loc"]: None if row["lastmod"] is None else moment_of(str(row["lastmod"])) for row in values}
    assert found == expected(base)
    assert frame["image_loc"].dropna().tolist() == [base + "i.jpg?a=1&b=2"]
    listed = advertools.sitemap_to_df(base + "sitemap.xml", recursive=False)
    assert listed["loc"].tolist() == [base + "pages.xml.gz", base + "plain.txt"]


@pytest.mark.filterwarnings("default")
def test_scrapy(site: Site) -> None:
    sitemap = pytest.importorskip("scrapy.utils.sitemap", reason="Scrapy is not installed")
    gz = pytest.importorskip("scrapy.utils.gz", reason="Scrapy is not installed")
    base = site.base + "/"
    index = sitemap.Sitemap(site.pages["/sitemap.xml"].body)
    assert index.type == "sitemapindex"
    assert [entry["loc"] for entry in index] == [base + "pages.xml.gz", base + "plain.txt"]
    body = gz.gunzip(site.pages["/pages.xml.gz"].body)
    found = {entry["loc"]: entry.get("lastmod") for entry in sitemap.Sitemap(body)}
    moments = {loc: None if value is None else moment_of(value) for loc, value in found.items()}
    assert moments == expected(base)
    assert list(sitemap.sitemap_urls_from_robots(site.pages["/robots.txt"].body)) == [base + "sitemap.xml"]


SCRIPT = """
import { createReadStream } from 'node:fs';
const { parseSitemap } = await import(process.argv[2]);
const items = await parseSitemap(createReadStream(process.argv[1]));
console.log(JSON.stringify(items));
"""


def test_the_parser_of_sitemap_js(site: Site, tmp_path: Any) -> None:
    modules, node = os.environ.get("SITEMAP_NODE_PATH"), shutil.which("node")
    if not modules or node is None:
        pytest.skip("node, or npm's sitemap in SITEMAP_NODE_PATH, is not here")
    base = site.base + "/"
    file = tmp_path / "pages.xml"
    file.write_bytes(gzip.decompress(site.pages["/pages.xml.gz"].body, max_byte_size=1 << 20))
    module = f"file://{modules}/sitemap/dist/esm/index.js"
    command = [node, "--input-type=module", "-e", SCRIPT, str(file), module]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    items = {item["url"]: item for item in json.loads(done.stdout)}
    moments = {url: None if "lastmod" not in item else moment_of(item["lastmod"]) for url, item in items.items()}
    assert moments == expected(base)
    first = items[base + "a?x=1&y='2'"]
    assert [link["url"] for link in first["links"]] == [base + "a?x=1&y='2'", base + "b%20c"]
    assert (first["video"][0]["title"], first["video"][0]["tag"]) == ("V & W", ["x", "y"])
    assert first["news"]["title"] == "<T>"
