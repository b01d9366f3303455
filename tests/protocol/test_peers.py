"""Every case of the peers' test suites, through the real rendering path; and every choice that they leave to us."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import feedparser
import pyarrow as pa
import pytest
from lxml import etree

from airflow_sitemaps.errors import RefusedError
from airflow_sitemaps.protocol import CURRENT, feeds, lastmod, robots
from airflow_sitemaps.protocol.markup import render_index
from airflow_sitemaps.protocol.reader import read
from airflow_sitemaps.protocol.rules import CHECKS, Findings
from airflow_sitemaps.protocol.validator import ValidationContext, validate_index
from airflow_sitemaps.protocol.validator import validate as judge_file
from airflow_sitemaps.shards.stream import ShardStream
from tests.protocol import cases

if TYPE_CHECKING:
    from collections.abc import Callable

PEERS = cases.SHARED / "cases" / "peers.jsonl"
XSD = cases.SHARED / "xsd" / "all.xsd"
ALL = cases.load(PEERS) if PEERS.is_file() else []
DECISIONS = cases.ROOT / "docs" / "decisions" / "protocol-policy.md"

needs_peers = pytest.mark.skipif(not ALL, reason="../shared/cases/peers.jsonl is not here")

OTHERWISE = {
    "sitemapjs-alltags-1": "URLs are percent-encoded",
    "sitemapjs-alltags-2": "URLs are percent-encoded",
    "sitemapjs-alltags-3": "URLs are percent-encoded; alternates of another rel than alternate are left out",
    "sitemapjs-alltags-5": "URLs are percent-encoded",
    "sitemapjs-alltags-6": "URLs are percent-encoded",
    "sitemapjs-alltags-7": "URLs are percent-encoded",
    "presta-image": "a license that is no URL is left out",
    "samdark-complex": "credentials do not belong into a public file: the row is dropped",
    "usp-url-auth-port": "credentials do not belong into a public file: the row is dropped",
    "gpslab-lang-bad-abc": "three-letter codes without a two-letter one are BCP 47",
    "gpslab-scope-another-path": "scope-path is kept and counted: robots.txt or a console may name the sitemap",
    "gpslab-scope-parent-path": "scope-path is kept and counted: robots.txt or a console may name the sitemap",
}
"""Policy cases that come out otherwise than the peer has it, each for a stated reason."""


def of_kind(*kinds: str) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in ALL if case["kind"] in kinds]


@needs_peers
@pytest.mark.parametrize("case", of_kind("urlset"))
def test_a_urlset_comes_out_as_expected(case: dict[str, Any]) -> None:
    content, tally = cases.render(case["records"], cases.row_context(cases.base_of(case)))
    found = list(cases.differences(case, cases.urls_of(content)))
    if case["id"] in OTHERWISE:
        assert case["force"] == "policy"
        assert found, "the list of exceptions is out of date"
        return
    assert not found, (found, tally.samples)
    if case["expected"] != "valid" and case["force"] == "must":
        assert tally.dropped or tally.fixed, "refused without being counted"


@needs_peers
@pytest.mark.skipif(not XSD.is_file(), reason="../shared/xsd is not here")
def test_whatever_comes_out_passes_the_schemas() -> None:
    schema = etree.XMLSchema(etree.parse(str(XSD)))
    judged = 0
    for case in ALL:
        if case["kind"] == "urlset":
            content, _ = cases.render(case["records"], cases.row_context(cases.base_of(case)))
            if content is not None:
                document = etree.fromstring(content)
                assert schema.validate(document), (case["id"], schema.error_log)
                judged += 1
    assert judged > 150


@needs_peers
@pytest.mark.parametrize("case", of_kind("urlset"))
def test_fields_without_effect_are_named(case: dict[str, Any]) -> None:
    _, tally = cases.render(case["records"], cases.row_context(cases.base_of(case)))
    named = {
        name.strip() for sample in tally.samples.get("ignored-field", []) for name in sample.split(" (")[0].split(",")
    }
    if case["expected"] == "valid":
        assert named == set(case.get("deprecated_tags", ())), case["id"]


@needs_peers
@pytest.mark.parametrize("case", of_kind("raw"))
def test_a_file_is_judged_as_expected(case: dict[str, Any]) -> None:
    file = read((PEERS.parent / case["file"]).read_bytes())
    findings = Findings()
    judge_file(file, ValidationContext(limits=CURRENT, now=cases.NOW), findings)
    found = {finding.check for finding in (*file.problems, *findings.listed())}
    errors = {check for check in found if CHECKS[check].severity == "error"}
    if case["expected"] == "valid" and case["force"] == "must":
        assert not errors
    elif case["force"] == "must":
        assert errors
        wanted = {
            "reject:xml": {"xml", "doctype"},
            "reject:xml-namespace": {"namespace"},
            "reject:xsd": {"structure", "video"},
        }
        assert errors & wanted[case["expected"]]
    elif case["id"] == "raw-bom":
        assert found == {"bom"}


@needs_peers
@pytest.mark.parametrize("case", of_kind("limits"))
def test_limits_hold(case: dict[str, Any]) -> None:
    given = case["input"]
    if "shards" in given:
        entries = [(f"https://www.example.com/s-{n}.xml.gz", None) for n in range(given["shards"])]
        with pytest.raises(RefusedError, match="50,001"):
            render_index(entries)
        assert render_index(entries[:-1]).count(b"<sitemap>") == 50_000
        return
    stream = ShardStream(cases.row_context("https://www.example.com/"))
    files = []
    for start in range(0, given["urls"], 50_000):
        rows = [{"loc": given["loc"].replace("{i}", str(n))} for n in range(start, min(start + 50_000, given["urls"]))]
        piece = cases.batch(rows)
        keys = [f"[{n}]" for n in range(start, start + len(rows))]
        files += stream.add(piece.set_column(2, "key", pa.array(keys, pa.string())))
    files += stream.finish()
    sizes = [file.urls for file in files if file.body is not None]
    assert sum(sizes) == given["urls"]
    assert all(0 < size <= 50_000 for size in sizes)
    assert all(file.xml_byte_size <= CURRENT.max_byte_size for file in files)
    if "max_bytes" in case:
        assert len(sizes) > 1
    elif given["urls"]:
        assert sizes == case["shard_sizes"]


@needs_peers
@pytest.mark.parametrize("case", of_kind("index"))
def test_an_index_comes_out_as_expected(case: dict[str, Any]) -> None:
    entries = [(entry["loc"], _moment(entry["lastmod"])) for entry in case["entries"]]
    file = read(render_index(entries))
    assert file.kind == "sitemapindex"
    assert not file.problems
    assert [entry.loc for entry in file.entries] == [entry["loc"] for entry in case["entries"]]
    findings = Findings()
    validate_index(file, "http://testserver/simple/index.xml", findings)
    assert not findings


@needs_peers
@pytest.mark.parametrize("case", of_kind("rss", "atom"))
def test_a_feed_comes_out_as_expected(case: dict[str, Any]) -> None:
    entries = [
        feeds.FeedEntry(
            loc=r["loc"], lastmod=lastmod.parse(r["lastmod"]), title=r["title"], description=r["description"]
        )
        for r in case["records"]
    ]
    channel = feeds.Channel(address="https://www.example.com/feed.xml", site="https://www.example.com/", title="News")
    style = "atom" if case["kind"] == "atom" else "rss"
    body = feeds.render(style, channel, entries)
    for part in case.get("must_contain", ()):
        assert part in body.decode()
    parsed = feedparser.parse(body)
    assert not parsed.bozo, parsed.get("bozo_exception")
    assert {entry.link for entry in parsed.entries} == {record["loc"] for record in case["records"]}
    for entry in parsed.entries:
        stamp = entry.get("published_parsed") or entry.updated_parsed
        assert datetime(*stamp[:6]).isoformat() + "Z" == case["dates"][entry.link]
    titles = {entry.link: entry.title for entry in parsed.entries}
    assert titles == {
        record["loc"]: record["title"].replace("<b>", "").replace("</b>", "") for record in case["records"]
    } or titles == {record["loc"]: record["title"] for record in case["records"]}


@needs_peers
@pytest.mark.parametrize("case", of_kind("robots-read"))
def test_robots_is_read_as_expected(case: dict[str, Any]) -> None:
    assert list(robots.read(case["input"]).sitemaps) == case["sitemaps"]
    assert robots.merge(case["input"].encode(), case["sitemaps"]).decode() == case["input"]


@needs_peers
@pytest.mark.parametrize("case", of_kind("robots"))
def test_robots_lines_come_out_as_expected(case: dict[str, Any]) -> None:
    theirs = [line for line in case["lines"] if not line.startswith("Sitemap:")]
    merged = robots.merge(("\n".join(theirs) + "\n").encode(), case["input"]["sitemaps"]).decode()
    assert [line for line in merged.splitlines() if not line.startswith("#")] == case["lines"]


@needs_peers
def test_every_policy_case_is_decided_in_the_docs() -> None:
    text = DECISIONS.read_text(encoding="utf-8")
    missing = [case["id"] for case in ALL if case["force"] == "policy" and f"`{case['id']}`" not in text]
    assert not missing


def _moment(value: str) -> datetime | None:
    read_value: date | datetime | None = lastmod.parse(value)
    return None if read_value is None else lastmod.begins(read_value)


def test_the_exceptions_are_known_by_a_reason() -> None:
    known: Callable[[str], bool] = lambda reason: len(reason) > 10  # noqa: E731
    assert all(map(known, OTHERWISE.values()))
