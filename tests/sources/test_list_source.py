"""``ListSource``: pages from the DAG file, from CSV and YAML; what is refused; what a change costs."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sitemaps import ListSource, LocalStore, MemoryStore, Section, ShardPolicy, Sitemap
from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.shards.ranges import KeyRange, cut

URL = "https://www.example.com/"


def urls(folder: Path) -> list[str]:
    names = re.findall("<loc>(.*?)</loc>", (folder / "sitemap.xml").read_text())
    bodies = [gzip.decompress((folder / name.removeprefix(URL)).read_bytes()).decode() for name in names]
    return [url for body in bodies for url in re.findall("<loc>(.*?)</loc>", body)]


def sitemap(folder: Path, source: ListSource) -> Sitemap:
    return Sitemap(LocalStore(folder / "site", base_url=URL), [Section("pages", source)])


def test_pages_of_a_list_are_published_and_changes_are_noticed(tmp_path: Path) -> None:
    first = ListSource(["/", "/about", {"loc": "https://www.example.com/imprint", "lastmod": "2026-01-02"}])

    assert build(sitemap(tmp_path, first)).result == "published"
    assert urls(tmp_path / "site") == [f"{URL}", f"{URL}about", f"{URL}imprint"]
    assert build(sitemap(tmp_path, ListSource([*reversed(first.pages)]))).result == "unchanged"  # order is no change

    changed = ListSource(["/", "/about", "/contact"])
    assert build(sitemap(tmp_path, changed)).result == "published"
    assert urls(tmp_path / "site") == [f"{URL}", f"{URL}about", f"{URL}contact"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pages.csv", "loc,lastmod,priority\n/,2026-01-02,0.5\n/about,,\n"),
        ("pages.yaml", "- loc: /\n  lastmod: 2026-01-02\n  priority: 0.5\n- /about\n"),
        ("pages.yml", "[{loc: /, lastmod: '2026-01-02', priority: 0.5}, /about]"),
    ],
)
def test_a_file_beside_the_dag(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8-sig")
    dag = f"from airflow_sitemaps import ListSource\nsource = ListSource(file={name!r})"
    names: dict[str, Any] = {}

    exec(compile(dag, str(tmp_path / "dag.py"), "exec"), names)

    source = names["source"]
    assert build(sitemap(tmp_path, source)).result == "published"
    assert urls(tmp_path / "site") == [URL, f"{URL}about"]
    body = gzip.decompress(next((tmp_path / "site").glob("pages-*")).read_bytes()).decode()
    assert body.count("<lastmod>2026-01-02</lastmod>") == 1
    assert name in source.describe()


@pytest.mark.parametrize(
    ("pages", "said"),
    [
        ([], "give either a list of pages"),
        ("/about", "give either a list of pages"),
        (["/", "/about", "/"], "listed more than once: /$"),
        (["about"], "entry 1: loc='about': give a URL that begins with '/'"),
        (["/", {"lastmod": "2026-01-01"}], "entry 2: loc=None"),
        (["/", {"loc": "/a", "changed": "x"}], "entry 2: unknown field changed; the fields are loc, lastmod"),
        (["/", 7], "entry 2: 7 is neither a URL nor a mapping"),
        ([f"/{n}" for n in range(50_001)], "50,001 entries; the limit is 50,000"),
    ],
)
def test_a_wrong_list_is_refused_when_it_is_made(pages: Any, said: str) -> None:
    with pytest.raises(SourceConfigurationError, match=said):
        ListSource(pages)


def test_a_page_may_be_any_mapping() -> None:
    (entry,) = ListSource([MappingProxyType({"loc": "/", "priority": 0.5})]).entries
    assert (entry.loc, entry.priority) == ("/", "0.5")


def test_a_character_that_json_escapes_as_two_is_read_from_yaml(tmp_path: Path) -> None:
    file = tmp_path / "pages.yaml"
    file.write_text('["https://www.example.com/\\ud83d\\ude00"]')
    assert build(sitemap(tmp_path, ListSource(file=str(file)))).urls == 1
    assert urls(tmp_path / "site") == [f"{URL}%F0%9F%98%80"]
    file.write_text('["https://www.example.com/\\ud83d"]')
    with pytest.raises(SourceConfigurationError, match=r"entry 1: a text holds half of a surrogate pair"):
        build(sitemap(tmp_path, ListSource(file=str(file))))


def test_what_yaml_merges_is_not_named_twice(tmp_path: Path) -> None:
    file = tmp_path / "pages.yaml"
    file.write_text(
        "- &a {loc: /a, priority: 0.5}\n- &b {<<: *a, loc: /b, lastmod: 2026-01-02}\n- {<<: *a, <<: *b, loc: /c}\n"
    )
    build(sitemap(tmp_path, ListSource(file=str(file))))
    assert urls(tmp_path / "site") == [f"{URL}{page}" for page in "abc"]


def test_a_file_is_named_by_a_text() -> None:
    with pytest.raises(SourceConfigurationError, match=r"or file='pages\.csv'"):
        ListSource(file=Path("pages.csv"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("pages.txt", "/", "the name ends in none of .csv, .yaml, .yml"),
        ("missing.csv", None, "there is no such file; tried"),
        ("pages.csv", "loc,lastmod,loc\n/a,2026-01-02,/b\n", "the header line names 'loc' more than once"),
        ("pages.csv", "loc\n/,2026\n", "entry 1: it has more fields than the header line"),
        ("pages.csv", "url\n/\n", "unknown field url"),
        ("pages.yaml", "a: [", "this is not YAML"),
        ("pages.yaml", "- {loc: /, lastmod: 2026-02-30}", "this is not YAML: day is out of range for month"),
        ("pages.yaml", "- {loc: /}\n- {loc: /a, lastmod: 2026-01-02, loc: /b}", "'loc' is named twice.*line 2"),
        ("pages.yaml", "[" * 5_000, "this is not YAML: maximum recursion depth"),
        ("pages.yaml", "a: 1", "give a list of URLs"),
        ("pages.yaml", "", "give a list of URLs"),
        ("pages.csv", "loc\n", "the list is empty"),
    ],
)
def test_a_wrong_file_is_refused_when_the_source_is_made(
    name: str, text: str | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path(name).write_text(text)

    with pytest.raises(SourceConfigurationError, match=said):
        ListSource(file=name)


def test_a_zone_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SourceConfigurationError, match="IANA"):
        ListSource(["/"], timezone="Mars/Olympus")


@given(st.sets(st.text(st.characters(codec="utf-8"), max_size=6), min_size=1, max_size=60), st.integers(1, 9))
def test_ranges_part_the_list_and_their_digests_are_those_of_their_rows(names: set[str], every: int) -> None:
    source = ListSource([f"/{name}|" for name in sorted(names)])
    with source.open(section="pages") as session:
        ranges = cut(KeyRange(None, None), session.boundaries(KeyRange(None, None), every))
        survey = session.survey(ranges)
        batches = list(session.read(ranges))
        assert session.rank([(loc,) for loc in sorted(f"/{name}|" for name in names)]) == list(range(len(names)))

    assert sum(batch.num_rows for batch in batches) == len(names)
    for number, digest in enumerate(survey.digests):
        rows = [row for batch in batches for row in batch.to_pylist() if row["range"] == number]
        assert 1 <= len(rows) <= every
        assert digest.rows == len(rows)
        assert digest.checksum == sum(row["row_hash"] for row in rows) % 2**64
        assert [row["loc"] for row in rows] == sorted(row["loc"] for row in rows)


def test_a_key_of_a_list_has_one_row() -> None:
    with ListSource(["/b", "/a"]).open(section="pages") as source:
        assert source.largest_key(KeyRange(None, None)) == (("/a",), 1)
        assert source.largest_key(KeyRange(("/c",), None)) is None


def test_a_list_has_no_change_log() -> None:
    with ListSource(["/a"]).open(section="pages") as session:
        reading = session.changes([KeyRange(None, None)], "7")

    assert (reading.ranges, reading.cause, reading.is_gap) == (None, "a list has no change log", False)


def test_a_long_list_is_cut_into_shards() -> None:
    store = MemoryStore(base_url=URL)
    source = ListSource([f"/{number:04d}" for number in range(100)])

    report = build(Sitemap(store, [Section("pages", source)], shards=ShardPolicy(max_urls=10)))

    assert report.urls == 100
    assert report.shards.total >= 10
