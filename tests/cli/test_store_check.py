"""``store-check``: each question with its answer, and the exit status."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sitemaps import MemoryStore
from airflow_sitemaps.cli import lookups, main
from airflow_sitemaps.errors import ConfigurationError, StoreError
from airflow_sitemaps.ports import Create, Update
from airflow_sitemaps.stores import default_connection, registered, scheme_of
from tests.pipeline.test_capability_probe import store_of
from tests.support.s3 import moto_server

if TYPE_CHECKING:
    from pathlib import Path


def test_a_folder_passes_and_nothing_is_left(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["store-check", str(tmp_path)]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line.partition(" (")[0] for line in lines] == [
        "ok     create an object: yes",
        "ok     create it once more: refused",
        "ok     replace another version of it: refused",
        "ok     replace an object that does not exist: refused",
        "ok     replace the present version: yes",
        "ok     delete another version of it: refused",
        "ok     copy it, under conditions on both objects: yes",
        "Publishing is accepted.",
    ]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(lookups.tempfile, "TemporaryDirectory", refuse)
    assert main(["store-check", str(tmp_path)]) != 0
    assert (
        f"{tmp_path}: no folder can be made here (Permission denied). Permit it to this user, or mount it writable"
        in capfd.readouterr().err
    )


def test_s3_by_its_connection(capfd: pytest.CaptureFixture[str]) -> None:
    """Moto ignores the conditions of copies and deletes, and publishing needs neither."""
    with moto_server() as server, server.connection("aws_default"):
        bucket = server.new_bucket()
        assert main(["store-check", f"s3://{bucket}/maps", "--json"]) == 0
        answer: dict[str, Any] = json.loads(capfd.readouterr().out)
        client = server.client()
        assert client.list_objects_v2(Bucket=bucket)["KeyCount"] == 0
        client.close()
    assert answer["accepted"] is True
    assert [reply["is_right"] for reply in answer["replies"]][:5] == [True] * 5
    assert answer["replies"][-1]["is_right"] is False
    assert all(reply["seconds"] > 0 for reply in answer["replies"])


@pytest.mark.parametrize(("ignored", "wrong"), [(Create, "create it once more"), (Update, "replace another version")])
def test_a_store_that_ignores_a_condition(
    ignored: type[Create | Update], wrong: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(ignored, "state")
    monkeypatch.setattr(lookups, "open_area", lambda *_: store.state)
    assert main(["store-check", "s3://bucket/maps"]) == 1
    out = capfd.readouterr().out
    (line,) = [line for line in out.splitlines() if line.startswith(f"WRONG  {wrong}")]
    assert line.endswith("Wanted: refused. Two concurrent runs could overwrite each other's files")
    assert out.endswith("Publishing is refused.\n")
    assert list(store.state.list()) == []


@pytest.mark.parametrize(
    ("error", "outcome"), [(StoreError("SlowDown"), "no clear answer"), (ConfigurationError("AccessDenied"), "refused")]
)
def test_a_copy_that_fails_is_named_with_its_cause(
    error: Exception, outcome: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that is busy refuses no copy, and a missing permission is named."""
    store = MemoryStore(base_url="https://example.com/").open()

    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(type(store.state), "copy", fails)
    monkeypatch.setattr(lookups, "open_area", lambda *_: store.state)
    assert main(["store-check", "s3://bucket/maps"]) == 0
    (line,) = [line for line in capfd.readouterr().out.splitlines() if line.startswith("WRONG  copy it")]
    assert f": {outcome} (" in line
    assert line.endswith(f"copying it within the store. {error}")


@pytest.mark.parametrize("operation", ["list", "get"])
def test_an_area_that_cannot_be_listed_or_read(
    operation: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run lists it and reads its manifest: ``s3:ListBucket`` and ``kms:Decrypt`` are needed too."""
    config = MemoryStore(base_url="https://example.com/")
    store = config.open()

    def denied(*_: object) -> None:
        raise ConfigurationError(f"{operation}: access denied")

    monkeypatch.setattr(type(store.state), operation, denied)
    monkeypatch.setattr(lookups, "open_area", lambda *_: store.state)
    assert main(["store-check", "s3://bucket/maps"]) == 1
    assert f"{operation}: access denied" in capfd.readouterr().err
    assert not config.state.objects


def test_an_address_that_cannot_be_opened(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for address, message in (
        ("oss://x/y", "no store has the scheme"),
        (str(tmp_path / "no"), "no such folder"),
        (str(tmp_path / "loop"), "no such folder"),
        ("~no-such-user/maps", "ConfigurationError: inspect ~no-such-user/maps"),
        (str(tmp_path / ("x" * 300)), "cannot hold this name"),
    ):
        assert main(["store-check", address]) == 1
        assert message in (said := capfd.readouterr().err)
        assert "Traceback" not in said


def test_an_empty_address_is_wrong_use(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["store-check", ""]) == 2
    assert "give a folder or the address of a store" in capfd.readouterr().err


def test_an_azure_account_is_named_by_its_https_address() -> None:
    address = "https://acme.blob.core.windows.net/web/sitemaps"
    entry = registered(scheme_of(address))
    assert (default_connection(address), entry is not None and entry.module) == (
        "wasb_default",
        "airflow_sitemaps.stores.azure",
    )
