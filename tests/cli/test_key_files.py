"""The command `indexnow-key`: what it prints, and with which status."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.cli.test_commands import Shop
from tests.support.website import Page, serving

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_key_file_of_indexnow_is_served_or_not(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path, capfd)
    key = "0123-secret-key"
    monkeypatch.setenv("AIRFLOW_CONN_INDEXNOW_DEFAULT", json.dumps({"conn_type": "generic", "password": key}))
    with serving() as site:
        shop.file.write_text(shop.file.read_text().replace("https://shop.example/", f"{site.base}/"))
        arguments = ("indexnow-key", shop.target, "--allow-http", "--allow-private")

        status, out, err = shop.shell(*arguments)
        assert (status, out) == (1, f"NOT served: {site.base}/***.txt: the response has status 404\n")
        site.pages[f"/{key}.txt"] = Page(f"{key}\n".encode())
        status, out, _ = shop.shell(*arguments)
        assert (status, out) == (0, f"served: {site.base}/***.txt: holds the key\n")
        (file,) = shop.json(*arguments)["key_files"]

        assert file == {"address": f"{site.base}/***.txt", "served": True, "message": "holds the key"}
        status, out, more = shop.shell("indexnow-key", shop.target)
        assert status == 1
        assert out.startswith("not known: ")
        assert key not in out + err + more


def test_the_hosts_of_cross_submit_are_included(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, key = Shop(tmp_path, capfd), "0123-secret-key"
    monkeypatch.setenv("AIRFLOW_CONN_INDEXNOW_DEFAULT", json.dumps({"conn_type": "generic", "password": key}))
    with serving() as site, serving() as other:
        text = shop.file.read_text().replace("https://shop.example/", f"{site.base}/")
        shop.file.write_text(text.replace("shards=", f"cross_submit=[{other.base!r}], shards="))
        site.pages[f"/{key}.txt"] = Page(key.encode())

        status, out, _ = shop.shell("indexnow-key", shop.target, "--allow-http", "--allow-private")

    assert status == 1
    assert f"NOT served: {other.base}/***.txt" in out
