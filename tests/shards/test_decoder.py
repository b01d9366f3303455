"""Threads of a fresh process that decode at the same moment neither crash nor hang."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import msgspec
import pytest

import airflow_sitemaps
from airflow_sitemaps.pipeline.plan.surveys import _Stored
from airflow_sitemaps.pipeline.report import make_report
from airflow_sitemaps.search_engines.fetches import CrawlerFetches, Fetches, FetchRecord, SectionFetches
from airflow_sitemaps.search_engines.index_status import Observation, Stratum
from airflow_sitemaps.search_engines.inspection import Rotation
from airflow_sitemaps.search_engines.quota import Spent
from airflow_sitemaps.search_engines.searchconsole import IndexCoverage
from airflow_sitemaps.search_engines.searchconsole import Observation as Coverage
from airflow_sitemaps.shards import codec
from airflow_sitemaps.shards.codec import Receipt, StagedShard
from airflow_sitemaps.shards.gone import GoneUrls, LastWords
from airflow_sitemaps.shards.plan import Action, Batch, Plan, RangeAction, SectionPlan
from airflow_sitemaps.shards.ranges import Digest, EarlyEntries, EarlyEntry, KeyRange, Known
from tests.shards.first_decodes import READERS
from tests.support.plugin_factories import manifest

AT = datetime(2026, 1, 1, tzinfo=timezone.utc)
HERE = KeyRange(None, (7,))
DIGEST = Digest(rows=3, newest="2026-01-01", checksum=5)


def plan() -> bytes:
    section = SectionPlan(
        name="pages", base=7, fingerprint="f", digest_kind="k",
        actions=(RangeAction(range=HERE, kind=Action.REWRITE, digest=DIGEST, reason="rows changed"),),
    )  # fmt: skip
    batch = Batch(number=0, section="pages", actions=(0,), rows=5)
    return codec.encode(Plan(run="r", created_at=AT, base_generation=7, sections={"pages": section}, batches=(batch,)))


def receipt() -> bytes:
    piece = StagedShard(range=HERE, digest=DIGEST, urls=1, body="runs/r/bodies/b.xml.gz", last_key=(3,))
    return codec.encode(
        Receipt(run="r", batch=0, section="pages", pieces={0: (piece,)}, rows=5, bytes_written=1, seconds=0.5)
    )


def body(name: str) -> bytes:
    if name == "manifest":
        return codec.encode(manifest(3))
    if name in ("plan", "receipt"):
        return {"plan": plan, "receipt": receipt}[name]()
    if name == "early":
        return codec.encode(EarlyEntries(entries=(EarlyEntry(lower=(3,), element="<url/>\n"),)))
    if name == "gone":
        words = {"https://x/2": LastWords(said={"a": None, "b": AT}, awaits=("c",))}
        return codec.encode(GoneUrls(urls={"https://x/1": AT}, words=words))
    observation = Observation(engine="google", day=AT.date(), sections={"pages": {"new": Stratum(urls=5, inspected=2)}})
    record: object = {
        "report": {"run": "r", "urls": 5},
        "run_report": make_report(
            None, (), old=None, new=manifest(3), finished=AT, run="r", started_at="", result="published"
        ),
        "announcement": {"generation": 3, "at": "2026-01-01"},
        "observation": observation,
        "fetch_record": FetchRecord(files={"a.xml": {"google": 7}}),
        "fetches": Fetches(crawlers={"google": CrawlerFetches(sections={"pages": SectionFetches(files=1)})}),
        "coverage": Coverage(
            at="2026-01-01", generation=1, site="s", indexes=(IndexCoverage(url="u", section="", listed=1),)
        ),
        "rotation": Rotation(today=observation, cursors={"pages": {"new": 7}}),
        "spent": Spent(day=AT.date(), spent={"s": 2}, until=AT),
        "known": _Stored(known=Known(surveyed_at=AT, version="v", watermark=AT, ages=(1, 2)), changed_in=3),
    }[name]
    return msgspec.json.encode(record)


@pytest.mark.long
def test_the_first_decodes_of_a_process_may_be_concurrent(tmp_path: Path) -> None:
    for name in READERS:
        (tmp_path / name).write_bytes(body(name))
    run = subprocess.run(
        [sys.executable, "-m", "tests.shards.first_decodes", str(tmp_path)], capture_output=True, text=True
    )
    assert (run.returncode, run.stdout.strip()) == (0, str({name: {} for name in READERS})), run.stderr


def test_each_decoder_is_made_at_import_and_tried() -> None:
    """Nothing decodes into a type in another way; each decoder has a reader above, the codec's version through all."""
    package = Path(airflow_sitemaps.__file__).parent
    texts = {p.relative_to(package).as_posix(): p.read_text() for p in package.rglob("*.py")}
    own = texts.pop("shards/__init__.py")
    assert own.count("msgspec.json.Decoder(") == 1
    round_it = r"msgspec\.(json\.|msgpack\.)?(decode|convert|Decoder)\("
    assert [path for path, text in texts.items() if re.search(round_it, text)] == []
    calls = [line for text in texts.values() for line in text.splitlines() if re.search(r"\bDecoder\(", line)]
    assert [line for line in calls if not re.fullmatch(r"_[A-Z]+: Final = Decoder\([\w\[\], ]+\)", line)] == []
    assert len(calls) == len(READERS) + 1
