"""Jinja in the shell, progress, and the summary's lines."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

from airflow_sitemaps import report_text
from airflow_sitemaps.cli.output import bars
from airflow_sitemaps.errors import TemplateError
from airflow_sitemaps.quantities import size
from airflow_sitemaps.report_text import LogProgress
from airflow_sitemaps.sitemap import Section, Sitemap
from airflow_sitemaps.sources.sql import SqlSource
from airflow_sitemaps.stores.local import LocalStore
from airflow_sitemaps.templates import rendered
from airflow_sitemaps.testing import MemorySourceConfig

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=timezone.utc)


class Templated(MemorySourceConfig):
    def rendered(self, render: Any) -> Any:
        return replace(self, loc=render(self.loc))


def texts(loc: str, **params: Any) -> str:
    sitemap = Sitemap(LocalStore("x", base_url="https://a.example/"), [Section("s", Templated([], loc=loc))])
    return rendered(sitemap, NOW, params).sections[0].source.loc  # type: ignore[attr-defined, no-any-return]


def test_dates_of_a_run_are_known() -> None:
    assert texts("{{ ds }} {{ ds_nodash }} {{ data_interval_end.year }}") == "2026-03-04 20260304 2026"
    assert texts("https://a.example/{slug}") == "https://a.example/{slug}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{ params.section }}", "The params are: none"),
        (
            "{{ ti.try_number }}",
            "the template word 'ti' is not defined in the shell. These work in every run: run_after",
        ),
        ("{{ run_id }}", "the template word 'run_id' is not defined in the shell"),
        ("{{ dag.dag_id }}", "the template word 'dag' is not defined in the shell"),
        ("{% if %}", "this is not a valid Jinja template"),
        ("{{ ''.__class__.__mro__ }}", "cannot be rendered"),
        ("{{ var.value.nothing }}", "the Airflow variable 'nothing' is not defined"),
        ("{{ var.value.get('nothing') }}", "the Airflow variable 'nothing' is not defined"),
        ("{{ conn.get('nothing').host }}", "the Airflow connection 'nothing' is not defined"),
        ("{{ 'a text' | ts }}", "AttributeError"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError"),
        ("{{ conn.nothing }}", "the Airflow connection 'nothing' is not defined"),
    ],
)
def test_other_words_are_refused(text: str, said: str) -> None:
    with pytest.raises(TemplateError, match=said):
        texts(text)


def test_get_returns_a_default() -> None:
    assert texts("{{ var.value.get('nothing', 'x') }} {{ conn.get('nothing', 'y') }}") == "x y"


def test_the_words_of_every_run_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_PREFIX", "v")
    monkeypatch.setenv("AIRFLOW_VAR_MAP", '{"a": 1}')
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", "postgres://shop@db/mart")

    assert texts("{{ run_after | ts }} {{ run_after | ds_nodash }}") == "2026-03-04T05:06:07+00:00 20260304"
    assert texts("{{ params.a }}", a=7) == "7"
    assert texts("{{ var.value.prefix }} {{ var.json.map.a }} {{ var.value.get('x', 'y') }}") == "v 1 y"
    assert texts("{{ conn.shop.host }} {{ dag_run.run_after.year }}") == "db 2026"


def test_log_progress_speaks_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    times = iter([0.0, 1.0, 16.0, 20.0])
    progress = LogProgress(logging.getLogger("test"), monotonic=lambda: next(times))
    with caplog.at_level(logging.INFO):
        progress.start("write", 200, "rows")
        progress.advance(10)
        progress.advance(70)
        progress.finish()

    assert caplog.messages == [
        "write: 80 of 200 (40%) rows in 16.0 s, 5 rows/s",
        "write done: 80 of 200 (40%) rows in 20.0 s, 4 rows/s",
    ]


def test_bars_show_each_stage(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    with bars() as progress:
        progress.start("survey", None, "sections")
        progress.advance(2)
        progress.finish()
        progress.start("write", 10, "rows")
        progress.advance(10)
        progress.finish()

    shown = capsys.readouterr().err
    assert "survey" in shown
    assert "10/10" in shown


def test_sizes_and_rates() -> None:
    assert [size(n) for n in (0, 1_023, 1_536, 3 << 20, 5 << 30)] == [
        "0 B",
        "1,023 B",
        "1.5 KB",
        "3.0 MB",
        "5.0 GB",
    ]
    assert report_text.rate(1_000, 0.5, "rows") == "2,000 rows/s"
    assert report_text.rate(1_000, 0, "rows") == "no time for a rate of rows"
    assert report_text.counts({"b": 1, "a": 2_000}) == "a 2,000, b 1"


def test_a_materialised_query_is_each_sessions_own_in_the_shell() -> None:
    source = SqlSource("shop", query="SELECT 1 AS id, 'x' AS url", key="id", loc="url", materialize="scratch")
    sitemap = Sitemap(LocalStore("x", base_url="https://a.example/"), [Section("s", source)])
    assert rendered(sitemap, NOW).sections[0].source.run == ""  # type: ignore[attr-defined]
