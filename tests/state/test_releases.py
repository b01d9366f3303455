"""Upgrade and downgrade: this code reads the state that each release wrote, and writes what that release reads."""

from __future__ import annotations

import gzip
import json
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sitemaps.errors import ManifestError
from airflow_sitemaps.pipeline import build, inventory, publish, status
from airflow_sitemaps.pipeline.state.repository import MANIFEST, put_verified
from airflow_sitemaps.ports import Overwrite
from airflow_sitemaps.testing import FakeClock
from tests.state.shop import BEGAN, DATA, HOUR, sitemap_of, warehouse, write_state

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_sitemaps.ports import ObjectStore

RELEASES = sorted(path.name.removesuffix(".tar.gz") for path in DATA.glob("*.tar.gz"))
ADDED = "added_by_a_later_release"


@pytest.fixture(params=RELEASES)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The state of a release, after its second run; its third has written and not published."""
    with tarfile.open(DATA / f"{request.param}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(BEGAN + 3 * HOUR)


def documents(area: ObjectStore) -> dict[str, Any]:
    """The JSON documents of a state area, by their keys."""
    found = {}
    for key in sorted(info.key for info in area.list("")):
        stored = area.get(key)
        if stored is not None and key.endswith((".json", ".json.gz")):
            found[key] = json.loads(gzip.decompress(stored.body) if key.endswith(".gz") else stored.body)
    return found


def fields(value: Any, place: str = "") -> set[str]:
    """The names of the fields in a document, with their places."""
    if isinstance(value, dict):
        return {f"{place}.{name}" for name in value} | {f for n, v in value.items() for f in fields(v, f"{place}.{n}")}
    if isinstance(value, list):
        return {f for v in value for f in fields(v, f"{place}[]")}
    return set()


def kinds(area: ObjectStore) -> dict[str, set[str]]:
    """The fields of each kind of document: those of one folder, or of one name."""
    found: dict[str, set[str]] = {}
    for key, document in documents(area).items():
        found.setdefault(key.partition("/")[0], set()).update(fields(document))
    return found


def test_an_upgrade_reads_no_row_again_and_keeps_every_date(folder: Path, clock: FakeClock) -> None:
    """Where rendering changes on purpose, ``RENDERER`` is raised, and the changelog says that each row is read once."""
    sitemap = sitemap_of(folder)
    before = {row["loc"]: row for table in inventory(sitemap) for row in table.to_pylist()}
    warehouse(folder, 2)
    report = build(sitemap, clock=clock)
    assert (report.result, report.generation) == ("unchanged", 2)

    warehouse(folder, 3)
    report = build(sitemap, clock=clock)

    assert (report.result, report.generation) == ("published", 3)
    after = {row["loc"]: row for table in inventory(sitemap) for row in table.to_pylist()}
    assert len(after) == 30
    changed = {loc for loc in after if after[loc] != before.get(loc)}
    assert changed == {"https://www.example.com/7/other"}
    assert [note.generation for note in status(sitemap).history] == [1, 2, 3]


def test_an_upgrade_within_a_run_publishes_what_the_release_wrote(folder: Path, clock: FakeClock) -> None:
    sitemap = sitemap_of(folder)
    area = sitemap.store.open().state
    runs = [key for key in documents(area) if key.startswith("runs/")]
    run = max(key.split("/")[1] for key in runs)
    receipts = [key for key in runs if key.startswith(f"runs/{run}/receipts/")]
    warehouse(folder, 3)

    report = publish(sitemap, f"plans/{run}.json.gz", receipts, clock=clock)

    assert (report.result, report.generation) == ("published", 3)
    assert build(sitemap, clock=clock).result == "unchanged"


def test_a_downgrade_reads_what_a_later_release_of_the_format_wrote(folder: Path, clock: FakeClock) -> None:
    """A later release adds fields. Those of this release stay: what it wrote has every field that the archive has."""
    sitemap = sitemap_of(folder)
    area = sitemap.store.open().state
    for key, document in documents(area).items():
        body = json.dumps(with_field(document)).encode()
        put_verified(
            area, key, gzip.compress(body) if key.endswith(".gz") else body, mode=Overwrite(), write_id="later"
        )
    warehouse(folder, 2)
    assert build(sitemap, clock=clock).result == "unchanged"
    warehouse(folder, 3)
    assert build(sitemap, clock=clock).result == "published"


def with_field(value: Any) -> Any:
    """A document with one more field in each object that is not a mapping by name."""
    if isinstance(value, dict):
        more = {name: with_field(v) for name, v in value.items()}
        return {**more, ADDED: 1} if "format" in value else more
    return [with_field(v) for v in value] if isinstance(value, list) else value


def test_this_code_writes_every_field_that_the_release_wrote(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    again = tmp_path_factory.mktemp("again")
    write_state(again, FakeClock(BEGAN))
    then, now = (kinds(sitemap_of(each).store.open().state) for each in (folder, again))
    assert {kind: sorted(then[kind] - now.get(kind, set())) for kind in then} == {kind: [] for kind in then}


def test_a_higher_format_is_refused_before_anything_is_written(folder: Path, clock: FakeClock) -> None:
    sitemap = sitemap_of(folder)
    area = sitemap.store.open().state
    later = {**documents(area)[MANIFEST], "format": 2}
    put_verified(area, MANIFEST, gzip.compress(json.dumps(later).encode()), mode=Overwrite(), write_id="later")
    warehouse(folder, 3)
    before = {path: path.read_bytes() for path in (folder / "www").iterdir()}
    with pytest.raises(ManifestError, match="format 2; this version of airflow-sitemaps reads up to 1"):
        build(sitemap, clock=clock)
    assert {path: path.read_bytes() for path in (folder / "www").iterdir()} == before
    assert documents(area)[MANIFEST] == later


def test_there_is_a_state_of_the_first_release() -> None:
    assert RELEASES[0] == "0.1.0"
