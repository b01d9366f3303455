"""The law of rows on live databases: whole runs over tables whose columns have any type, for every field of an entry.

Each run ends. Each row is listed, dropped or expired; each fault has a rule, a count, and samples that carry the key.
No row changes another row's fate. What is published is valid, and an incremental run equals a full one.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from lxml import etree

from airflow_sitemaps import Guards, MemoryStore, Section, ShardPolicy, Sitemap, SqlSource
from airflow_sitemaps.errors import RefusedError, SourceConfigurationError
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.protocol import CURRENT
from airflow_sitemaps.protocol.gzip import decompress
from airflow_sitemaps.protocol.rules import RULES, SAMPLE_LIMIT, SAMPLES_PER_RULE
from airflow_sitemaps.testing import FakeClock, crawl
from tests.support.databases import HAS_CLICKHOUSE
from tests.support.file_checks import assert_no_error, assert_valid
from tests.support.hostile_tables import TABLE, Filled, HostileTable, filled, tables
from tests.support.hostile_values import W
from tests.support.reference_renderer import NOW
from tests.support.source_sessions import connected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_sitemaps.pipeline.report import Report

ROWS = int(os.environ.get("SITEMAPS_LAW_ROWS", "480"))
"""Rows for each database; `make law` sets more."""
ROWS_OF_TABLE = 120 if ROWS < 10_000 else 1_000
XSD = Path(__file__).parents[2].parent / "shared" / "xsd" / "all.xsd"
SCHEMA = etree.XMLSchema(etree.parse(str(XSD))) if XSD.is_file() else None

DATABASES = ["sqlite", "postgresql", "duckdb", "mariadb", *(["clickhouse"] if HAS_CLICKHOUSE else [])]
LOCS = {
    "column": ("c_loc", ("loc",)),
    "template": (f"{W}/t/{{c_a}}/{{id}}", ("a",)),
    "path": (f"{W}/{{c_a:path}}/{{c_b}}?n={{id}}", ("a", "b")),
    "values": (f"{W}/{{c_a}}-{{c_b}}", ("a", "b")),
}
FIELDS = ("lastmod", "changefreq", "priority", "images", "videos", "news", "title", "description")
VERSIONS = {"none": (), "alternates": ("alternates",), "group": ("group", "language")}


@dataclass(frozen=True)
class Setting:
    """What is drawn of a section, beside its table."""

    loc: str
    fields: tuple[str, ...]
    kind: str
    format: str
    reader: str
    timezone: str
    unit: str | None
    duplicates: str
    feeds: bool

    @property
    def columns(self) -> tuple[str, ...]:
        return (*LOCS[self.loc][1], *self.fields)

    def source(self) -> SqlSource:
        arguments: dict[str, Any] = {name: f"c_{name}" for name in self.fields}
        unit = self.unit if "lastmod" in self.fields else None
        return SqlSource(
            "law",
            table=TABLE,
            key="id",
            loc=LOCS[self.loc][0],
            reader=self.reader,
            timezone=self.timezone,
            lastmod_unit=unit,
            **arguments,
        )  # type: ignore[arg-type]

    def sitemap(self, store: MemoryStore) -> Sitemap:
        section = Section("pages", self.source(), kind=self.kind, format=self.format)  # type: ignore[arg-type]
        feeds = ("atom", "rss", "mrss") if self.feeds else ()
        return Sitemap(
            store, [section], guards=Guards.disabled(), rules={"loc-duplicate": self.duplicates},
            shards=ShardPolicy(max_urls=ROWS_OF_TABLE // 4), feeds=feeds, recent=timedelta(days=2_000) if self.feeds else None,
        )  # type: ignore[arg-type]  # fmt: skip


@st.composite
def cases(draw: st.DrawFn, database: str) -> tuple[Setting, HostileTable]:
    """A section and its table."""
    versions = VERSIONS[draw(st.sampled_from(list(VERSIONS)))]
    fields = draw(st.lists(st.sampled_from(FIELDS), unique=True))
    plain = draw(st.integers(0, 9)) == 0
    setting = Setting(
        loc=draw(st.sampled_from(list(LOCS))),
        fields=() if plain else (*fields, *versions),
        kind="pages" if plain else draw(st.sampled_from(["pages", "pages", "pages", "news"])),
        format="text" if plain else "xml",
        reader=draw(st.sampled_from(["auto", "cursor"])),
        timezone=draw(st.sampled_from(["UTC", "Europe/Berlin"])),
        unit=draw(st.sampled_from([None, None, "s", "ms", "us"])),
        duplicates=draw(st.sampled_from(["drop_row", "keep"])),
        feeds=not plain and "lastmod" in fields and draw(st.integers(0, 2)) == 0,
    )
    return setting, draw(tables(database, setting.columns, ROWS_OF_TABLE))


# ---------------------------------------------------------------- what holds


def assert_counted(report: Report, rows: int) -> None:
    """Each row is listed, dropped or expired; each rule has samples with keys."""
    section = report.sections["pages"]
    dropped, expired = sum(section.rows_dropped.values()), sum(section.rows_expired.values())
    assert section.urls + dropped + expired == rows, (section.urls, section.rows_dropped, section.rows_expired, rows)
    for rule in {**section.rows_dropped, **section.rows_expired, **section.fields_fixed}:
        assert rule in RULES
        samples = section.samples.get(rule, ())
        assert 1 <= len(samples) <= SAMPLES_PER_RULE, (rule, samples)
        for sample in samples:
            assert rule == "key-null" or "key [" in sample, (rule, sample)
            assert len(sample) <= SAMPLE_LIMIT
            sample.encode("utf-8")
    json.dumps(report.to_dict(), ensure_ascii=False).encode("utf-8")


def listed(store: MemoryStore, names: set[str], form: str, seen: dict[bytes, Counter[bytes]]) -> Counter[bytes]:
    """The ``<url>`` elements of all listed files, each of which is valid; ``seen`` has what was read before."""
    elements: Counter[bytes] = Counter()
    for name, stored in store.public.objects.items():
        if name.endswith((".atom", ".rss")):
            etree.fromstring(stored.body)
        elif name in names:
            if stored.body not in seen:
                body = decompress(stored.body, max_byte_size=CURRENT.max_byte_size)
                seen[stored.body] = Counter(body.splitlines()) if form == "text" else valid_elements(body)
            elements.update(seen[stored.body])
    return elements


def valid_elements(body: bytes) -> Counter[bytes]:
    """The ``<url>`` elements of a file that keeps the protocol's rules."""
    assert_valid(body)
    assert_no_error(body)
    root = etree.fromstring(body)
    assert SCHEMA is None or SCHEMA.validate(root), SCHEMA.error_log
    return Counter(etree.tostring(url, method="c14n", exclusive=True) for url in root)


@dataclass
class Law:
    """A table that is published, and what must hold after each run."""

    setting: Setting
    rows: Filled
    clock: FakeClock

    def __post_init__(self) -> None:
        self.store = MemoryStore(base_url=W + "/", now=self.clock.now)
        self.seen: dict[bytes, Counter[bytes]] = {}

    def run(self, **arguments: Any) -> Counter[bytes]:
        """Build, and return the elements that are published."""
        self.clock.advance(timedelta(seconds=1))
        return self._judged(self.store, self.clock, **arguments)

    def rebuilt(self) -> Counter[bytes]:
        """What a first build, elsewhere, publishes at the same moment."""
        return self._judged(MemoryStore(base_url=W + "/", now=self.clock.now), FakeClock(self.clock.now()))

    def _judged(self, store: MemoryStore, clock: FakeClock, **arguments: Any) -> Counter[bytes]:
        report = build(self.setting.sitemap(store), clock=clock, **arguments)
        self.report = report
        assert_counted(report, self.rows.count())
        if not report.urls:
            return Counter()
        return listed(store, set(crawl(store.open()).files), self.setting.format, self.seen)

    def assert_unchanged(self) -> None:
        """Nothing changed in the table, so nothing is read or written."""
        before = crawl(self.store.open()).files if self.report.urls else {}
        again = build(self.setting.sitemap(self.store), clock=self.clock)
        reasons = {reason.partition(":")[0] for reason in again.sections["pages"].reasons}
        assert again.result == "unchanged"
        assert not again.rows_read or reasons == {"unsettled"}, (
            "only shards with different rows of one URL are read again"
        )
        assert not before or crawl(self.store.open()).files == before


def hold(setting: Setting, rows: Filled) -> None:
    """Run over the rows, remove some, change and add some, and compare with a rebuild."""
    law = Law(setting, rows, FakeClock(NOW))
    try:
        first = law.run()
    except RefusedError as error:
        assert_nothing_listed(error, rows.count())
        return
    law.assert_unchanged()
    rows.remove(ROWS_OF_TABLE // 20)
    fewer = law.run()
    if setting.duplicates == "keep" and "group" not in setting.fields:
        assert fewer <= first, "a row that is gone changed another row's entry"
        lists = 2 if setting.feeds else 1  # a file of recent entries lists a row once more
        assert first.total() - fewer.total() <= lists * (ROWS_OF_TABLE // 20)
    rows.change(ROWS_OF_TABLE // 20)
    rows.add(ROWS_OF_TABLE // 10)
    incremental = law.run()
    law.assert_unchanged()
    assert law.run(full=True) == incremental
    again = law.rebuilt()
    if setting.duplicates == "keep":
        assert again == incremental
    else:  # of equal URLs in one shard the first is listed, and shards are cut elsewhere
        assert locs(again) == locs(incremental)


def assert_nothing_listed(error: RefusedError, rows: int) -> None:
    """The run ends without a sitemap only where no row can be listed; the error names the rules, with counts and samples."""
    text = str(error)
    assert "no section would have any URL" in text or "has no URLs now" in text
    counts = re.findall(r"(?:by rule: |; )([a-z-]+) ([\d,]+), such as", text)
    assert {rule for rule, _ in counts} <= RULES.keys(), text
    assert sum(int(number.replace(",", "")) for _, number in counts) == rows or len(counts) >= 3, text


def locs(elements: Counter[bytes]) -> set[bytes]:
    return {element.partition(b"</loc>")[0].rpartition(b"<loc>")[2] or element for element in elements}


# ---------------------------------------------------------------- the runs


@pytest.fixture(scope="module")
def connections() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.mark.timeout(0)
@pytest.mark.filterwarnings("ignore:Did not recognize type")  # SQLAlchemy's inspector, of MariaDB's INET6
@pytest.mark.parametrize("name", DATABASES)
def test_the_law_holds_for_columns_of_any_type(name: str, connections: pytest.MonkeyPatch) -> None:
    base = connected(name, "law", connections)

    @given(case=cases(name))
    @settings(
        max_examples=max(1, ROWS // ROWS_OF_TABLE),
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def check(case: tuple[Setting, HostileTable]) -> None:
        setting, table = case
        with filled(base, table) as rows:
            try:
                hold(setting, rows)
            except SourceConfigurationError:
                if "group" not in setting.fields:  # else its column may have a type whose values cannot be compared
                    raise

    check()
