"""The history of safety checks on a sitemap's page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_sitemaps.errors import GuardError
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.pipeline.state.repository import REPORTS
from airflow_sitemaps.ports import Overwrite
from tests.plugin.test_coverage_columns import URI, publish

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy.orm import Session

    from airflow_sitemaps import Sitemap
    from tests.plugin.conftest import Client


def emptied(sitemap: Sitemap) -> Sitemap:
    """The sitemap after every row of its section ``news`` left."""
    sitemap.sections[0].source.rows.clear()  # type: ignore[attr-defined]
    return sitemap


def test_refusals_and_permits_are_listed_newest_first(admin: Client, session: Session, tmp_path: Path) -> None:
    sitemap = emptied(publish(session, tmp_path))
    with pytest.raises(GuardError, match="has no rows"):
        build(sitemap)
    allowed = build(sitemap, allow=["empty:news"])

    runs: list[dict[str, Any]] = admin.get("api/sitemap/guards", asset=URI).json()["runs"]

    assert (len(runs), runs[0]["run"], runs[0]["at"]) == (2, allowed.run, allowed.finished_at)
    assert runs[0]["lines"][0].startswith("allowed: Section 'news' has no rows")
    assert runs[1]["lines"][0].startswith("refused: Section 'news' has no rows")


def test_nothing_is_listed_where_no_guard_spoke(admin: Client, session: Session, tmp_path: Path) -> None:
    publish(session, tmp_path)

    assert admin.get("api/sitemap/guards", asset=URI).json() == {"runs": []}


def test_a_damaged_report_is_left_out(admin: Client, session: Session, tmp_path: Path) -> None:
    state = publish(session, tmp_path).store.open().state
    state.put(f"{REPORTS}29990101T000000Z-x.json", b"{", mode=Overwrite(), metadata={}, content_type="application/json")

    assert admin.get("api/sitemap/guards", asset=URI).json() == {"runs": []}
