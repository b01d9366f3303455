"""Manifests, plans and receipts come back as they were written, for ever."""

from __future__ import annotations

import gzip
import json
from datetime import datetime, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_sitemaps.errors import ManifestError
from airflow_sitemaps.shards import codec
from airflow_sitemaps.shards.codec import Receipt, StagedShard
from airflow_sitemaps.shards.guards import Refusal
from airflow_sitemaps.shards.manifest import (
    Day,
    Departed,
    GenerationNote,
    Manifest,
    PublicFile,
    SectionManifest,
    Shard,
)
from airflow_sitemaps.shards.plan import Action, Batch, Plan, RangeAction, SectionPlan
from airflow_sitemaps.shards.ranges import Digest, KeyRange, Known

FIRST_FORMAT = Path(__file__).parent / "data" / "manifest-format-1.json.gz"


def packed(body: bytes) -> bytes:
    """Gzip without a time, so that tests are named alike in every process."""
    return gzip.compress(body, mtime=0)


texts = st.text(max_size=12)
# What names an object has a form of its own; tests/security shows that nothing else is read.
paths = st.from_regex(r"(de/)?[A-Za-z0-9é _-]{1,9}\.xml\.gz", fullmatch=True)
runs = st.from_regex(r"[A-Za-z0-9_-]{1,20}", fullmatch=True)
bodies = st.builds("runs/{}/bodies/{}.gz".format, runs, runs)
names = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,9}", fullmatch=True)
folders = st.sampled_from(["", "de/", "a/b c/"])
numbers = st.integers(0, 2**40)
moments = st.datetimes(timezones=st.just(timezone.utc))
keys = st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), texts), min_size=1, max_size=3).map(tuple)
ranges = st.builds(KeyRange, st.none() | keys, st.none() | keys)
digests = st.builds(Digest, rows=numbers, newest=st.none() | texts, checksum=st.integers(0, 2**64 - 1))
counts = st.dictionaries(texts, numbers, max_size=3)
samples = st.dictionaries(texts, st.lists(texts, min_size=1, max_size=2).map(tuple), max_size=2)
files = st.builds(
    PublicFile,
    name=paths, body=bodies, xml_hash=texts, xml_byte_size=numbers, byte_size=numbers, modified_at=moments,
    etag=st.none() | texts, replaces=st.none() | texts, variant=numbers, past=st.lists(texts, max_size=2).map(tuple),
    listed=st.booleans(),
)  # fmt: skip
shards = st.builds(
    Shard,
    range=ranges, digest=digests, urls=numbers, file=st.none() | files, last_key=st.none() | keys,
    newest_lastmod=st.none() | texts, recheck_at=st.none() | moments, settled=st.booleans(), dropped=counts,
    fixed=counts, written_in=numbers,
)  # fmt: skip
sections = st.builds(
    SectionManifest,
    name=names, fingerprint=texts, digest_kind=texts, changed_in=numbers, next_serial=numbers,
    shards=st.lists(shards, max_size=3).map(tuple), base_url=texts, path=folders, null_keys=numbers, samples=samples,
    days=st.dictionaries(texts, st.builds(Day, most=numbers, least=numbers, urls=numbers, sample=texts), max_size=2),
    known=st.none()
    | st.builds(
        Known, surveyed_at=moments, version=texts, position=st.none() | texts, watermark=st.none() | moments,
        ages=st.lists(numbers, max_size=3).map(tuple),
    ),
)  # fmt: skip
notes = st.builds(
    GenerationNote, generation=numbers, committed_at=moments, run=texts, urls=numbers, shards=numbers, byte_size=numbers
)
departed = st.builds(Departed, area=st.sampled_from(["public", "state"]), key=paths, generation=numbers, at=moments)
manifests = st.builds(
    Manifest,
    generation=numbers, write_id=texts, run=runs, owner=texts, base_url=texts, committed_at=moments,
    sections=st.dictionaries(texts, sections, max_size=2),
    indexes=st.lists(files, max_size=2).map(tuple),
    promoted=st.booleans(), extras=st.lists(files, max_size=1).map(tuple), recheck_at=st.none() | moments,
    history=st.lists(notes, max_size=2).map(tuple), departed=st.lists(departed, max_size=2).map(tuple),
)  # fmt: skip


@settings(max_examples=60)
@given(manifests)
def test_a_manifest_comes_back_as_it_was(manifest):
    data = codec.encode(manifest)
    assert codec.decode_manifest(data) == manifest
    assert codec.encode(codec.decode_manifest(data)) == data


@pytest.mark.parametrize(
    "key", [("half \ud800 a character", "é"), (10**40,), (-(10**40), "x")], ids=["surrogate", "large", "both"]
)
def test_any_key_comes_back_as_it_was(key):
    cut = (Shard(range=KeyRange(None, key), last_key=key), Shard(range=KeyRange(key, None)))
    section = SectionManifest(
        name="pages", fingerprint="f", digest_kind="k", changed_in=1, next_serial=1, shards=cut, samples={"rule": ("\udfff",)}
    )  # fmt: skip
    made = Manifest(
        generation=1, write_id="w", run="r", owner="o", base_url="https://www.example.com/", sections={"pages": section},
        committed_at=datetime(2026, 1, 1, tzinfo=timezone.utc), indexes=(),
    )  # fmt: skip
    data = codec.encode(made)
    assert codec.decode_manifest(data) == made
    assert codec.encode(codec.decode_manifest(data)) == data


@given(ranges, digests, keys, samples, counts)
def test_plans_and_receipts_come_back_as_they_were(within, digest, key, shown, counted):
    action = RangeAction(
        range=within, kind=Action.REWRITE, digest=digest, carries=3, reason="rows changed", drifted=True
    )
    section = SectionPlan(
        name="pages", base=7, fingerprint="f", digest_kind="k", actions=(action,), gone=(1,), taken=("x",),
        null_key_samples=("y",), known=Known(surveyed_at=datetime(2026, 1, 1, tzinfo=timezone.utc), position="[7]"), survey_note="n",
        warnings=("w",),
    )  # fmt: skip
    plan = Plan(
        run="r", created_at=datetime(2026, 1, 1, tzinfo=timezone.utc), base_generation=7, sections={"pages": section},
        batches=(Batch(number=0, section="pages", actions=(0,), rows=5),), allow=("shrink",),
        refusals=(Refusal(guard="shrink", section="pages", message="m"),),
    )  # fmt: skip
    assert codec.decode_plan(codec.encode(plan)) == plan
    piece = StagedShard(
        range=within, digest=digest, urls=1, body="runs/r/bodies/b.xml.gz", last_key=key, samples=shown, dropped=counted
    )
    receipt = Receipt(
        run="r", batch=0, section="pages", pieces={0: (piece,), 4: ()}, rows=5, bytes_written=1, seconds=0.5
    )
    assert codec.decode_receipt(codec.encode(receipt)) == receipt


def test_the_first_format_is_read_for_ever():
    manifest = codec.decode_manifest(FIRST_FORMAT.read_bytes())
    assert manifest.generation == 3
    assert manifest.promoted
    section = manifest.sections["pages"]
    assert [shard.urls for shard in section.shards] == [2, 2, 0]
    assert section.shards[0].range == KeyRange(None, (30,))
    assert section.shards[0].digest == Digest(rows=2, newest="2026-01-01T00:00:00+00:00", checksum=2**64 - 1)
    assert section.shards[1].file is not None
    assert section.shards[1].file.past == ("0123456789abcdef:0",)
    assert section.shards[1].recheck_at == datetime(2026, 2, 1, tzinfo=timezone.utc)
    assert section.samples == {"loc-missing": ("None",)}
    assert manifest.indexes[0].byte_size == 300
    assert [note.generation for note in manifest.history] == [2, 3]
    assert manifest.departed[0].key == "pages-00001.xml.gz"


def test_a_newer_format_is_refused():
    data = gzip.compress(json.dumps({"format": 2}).encode())
    with pytest.raises(ManifestError, match="format 2; this version of airflow-sitemaps reads up to 1: upgrade"):
        codec.decode_manifest(data, "s3://bucket/manifest.json.gz")


@pytest.mark.parametrize(
    ("digest", "why"),
    [
        ([1, None, 2**64], "a checksum has 64 bits"),
        ([1, None, -1], "Expected `int` >= 0"),
        ([1, None, "xyz"], "Expected `int`, got `str`"),
        ([-1, None, 0], "Expected `int` >= 0"),
        ([1, None], "Expected `array` of at least length 3"),
        ([1, None, 0, 2**64], "a checksum has 64 bits"),
        ([1, None, 0, 4, 5], "Expected `array` of at most length 4"),  # msgspec gives no place for this
        ([1, 5, 0], "Expected `str | null`"),
        ({"rows": 1}, "Expected `array`"),
    ],
)
def test_a_damaged_digest_is_named_with_its_place(digest, why):
    value = json.loads(gzip.decompress(FIRST_FORMAT.read_bytes()))
    value["sections"]["pages"]["shards"][0]["digest"] = digest
    with pytest.raises(ManifestError, match=why if "at most" in why else rf"{why}.*shards\[0\]\.digest"):
        codec.decode_manifest(packed(json.dumps(value).encode()))


@pytest.mark.parametrize(
    "ends", [[], [None], [None, None, None], {"lower": None}, [[], None], [[1.5], None], ["a", None]]
)
def test_a_damaged_range_is_no_range(ends):
    value = json.loads(gzip.decompress(FIRST_FORMAT.read_bytes()))
    value["sections"]["pages"]["shards"][0]["range"] = ends
    with pytest.raises(ManifestError, match=r"at most length 2|shards\[0\]\.range"):
        codec.decode_manifest(packed(json.dumps(value).encode()))


def test_what_a_newer_minor_version_added_is_passed_over():
    value = json.loads(gzip.decompress(FIRST_FORMAT.read_bytes()))
    value["something_new"] = 1
    assert codec.decode_manifest(gzip.compress(json.dumps(value).encode())) == codec.decode_manifest(
        FIRST_FORMAT.read_bytes()
    )


@pytest.mark.parametrize("data", [b"", b"x", packed(b"{"), packed(b"[]"), packed(b'{"format": 1}')])
def test_damage_names_the_place_and_the_next_step(data):
    with pytest.raises(ManifestError, match=r"s3://bucket/manifest.json.gz cannot be read .* adopt"):
        codec.decode_manifest(data, "s3://bucket/manifest.json.gz")
