"""The commonest first mistake, ``base_url`` without ``www.``: its likely cause is named by plan and build, log and shell."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG, BaseOperator

from airflow_sitemaps import (
    BingWebmasterOperator,
    IndexNowOperator,
    LocalStore,
    SearchConsoleInspectOperator,
    SearchConsoleSubmitOperator,
    Section,
    Sitemap,
    SitemapPingOperator,
    SitemapTaskGroup,
    SitemapVerifyOperator,
)
from airflow_sitemaps.cli.main import main
from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.operators import PLAN_FACTS, REFUSED
from airflow_sitemaps.operators.decisions import SitemapAnswerOperator
from airflow_sitemaps.operators.plan import SitemapPlanOperator
from airflow_sitemaps.operators.publish import SitemapPublishOperator
from airflow_sitemaps.testing import MemorySourceConfig
from tests.support.airflow_db import run, states, xcom

if TYPE_CHECKING:
    from pathlib import Path

CAUSE = "Likely cause: all 1,200 URLs are on www.example.com; base_url is https://example.com/."
PING = "https://example.com/?{sitemap}"
VERIFY_FLAGS = ("strict", "allow_http", "allow_private")
CODE = """
from airflow_sitemaps import LocalStore, Section, Sitemap
from airflow_sitemaps.testing import MemorySourceConfig
rows = [{"id": n, "loc": f"https://www.example.com/p/{n}"} for n in range(1_200)]
sitemap = Sitemap(LocalStore("site", base_url="https://example.com/"), [Section("products", MemorySourceConfig(rows))])
"""


@pytest.fixture
def dag(tmp_path: Path, request: pytest.FixtureRequest) -> DAG:
    rows = [{"id": n, "loc": f"https://www.example.com/p/{n}"} for n in range(1_200)]
    sitemap = Sitemap(
        LocalStore(tmp_path / "site", base_url="https://example.com/"), [Section("products", MemorySourceConfig(rows))]
    )
    with DAG(
        f"mistake_{request.node.name.partition('[')[0]}", schedule=None, max_active_runs=1, default_args={"retries": 0}
    ) as made:
        SitemapTaskGroup("sitemap", sitemap)
    return made


@pytest.mark.parametrize("conf", [{"dry_run": True}, {"check_rows": 50}], ids=["dry run", "check"])
def test_a_dry_run_says_it_in_its_log_and_to_the_pages(
    dag: DAG, conf: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    cause = CAUSE if "dry_run" in conf else CAUSE.replace("1,200", "50")
    with caplog.at_level(logging.INFO, logger="airflow_sitemaps"):
        planned = run(dag, conf)
    facts = xcom(planned, "sitemap.plan", PLAN_FACTS)
    assert any(cause in line for line in facts["warnings"])
    assert any(cause in line for line in facts["lines"])
    logged = [record for record in caplog.records if cause in record.getMessage()]
    assert {record.levelno for record in logged} >= {logging.WARNING}
    if "dry_run" in conf:
        assert states(planned)["sitemap.plan"] == "failed"
        assert all(cause in each["message"] for each in xcom(planned, "sitemap.plan", REFUSED)["refusals"])
    else:
        assert any(
            "check of section products: of the first 50 of 1,200 rows, 0 are listed" in line for line in facts["lines"]
        )
        assert "sitemap.publish" not in {task for task, state in states(planned).items() if state == "success"}


def test_a_build_says_it_to_the_pages(dag: DAG) -> None:
    refused = run(dag)
    assert states(refused)["sitemap.publish"] == "failed"
    facts = xcom(refused, "sitemap.publish", REFUSED)
    assert facts["refusals"]
    assert all(CAUSE in each["message"] for each in facts["refusals"])
    assert CAUSE in facts["message"]


@pytest.mark.parametrize("command", ["plan", "build"])
def test_the_shell_says_it(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(CODE)
    assert main([command, "shop.py:sitemap"]) == 1
    assert CAUSE in "".join(capsys.readouterr())


def test_the_shell_checks_rows_before_the_first_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(CODE)
    main(["plan", "shop.py:sitemap", "--check", "5", "--json"])
    (check,) = json.loads(capsys.readouterr().out)["checks"]
    assert (check["section"], check["rows"], check["all_rows"], check["urls"]) == ("products", 5, 1_200, 0)
    (rule,) = check["rules"]
    assert (rule["rule"], rule["verdict"], rule["effect"], rule["rows"]) == ("scope-host", "drop_row", "left out", 5)
    assert rule["samples"][0] == "https://www.example.com/p/0 (key [0])"
    assert "change base_url= or loc=" in rule["setting"]
    assert not list(tmp_path.rglob("*.xml*")), "a check writes nothing"
    main(["plan", "shop.py:sitemap", "--check", "5"])
    shown = capsys.readouterr().out
    assert "check of section products: of the first 5 of 1,200 rows, 0 are listed, in 0 bytes of XML" in shown
    assert "  scope-host (drop_row): 5 left out, such as 'https://www.example.com/p/0 (key [0])'" in shown
    with pytest.raises(SystemExit) as wrong:
        main(["plan", "shop.py:sitemap", "--check", "0"])
    assert wrong.value.code == 2


@pytest.mark.parametrize("sitemap", ["https://www.example.com/sitemap.xml", None])
@pytest.mark.parametrize(
    ("operator", "settings"),
    [
        (SitemapPlanOperator, {}),
        (SitemapPublishOperator, {"plan": ""}),
        (SitemapAnswerOperator, {"asked_by": "ask"}),
        (SitemapVerifyOperator, {}),
        (SitemapPingOperator, {"url": "https://example.com/"}),
    ],
)
def test_an_operator_refuses_a_sitemap_that_is_none(operator: Any, settings: dict[str, Any], sitemap: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"\('t'\): sitemap=.*; give a Sitemap"):
        operator(task_id="t", sitemap=sitemap, **settings)


@pytest.mark.parametrize(
    ("operator", "settings", "words"),
    [
        *((IndexNowOperator, {"max_urls": most}, "max_urls=.*; give a whole number") for most in ("100", None, 0)),
        *((IndexNowOperator, {flag: "false"}, f"{flag}='false'; give True or") for flag in ("backfill", "check_key")),
        (IndexNowOperator, {"skip_unchanged": None}, "skip_unchanged=None; give True or False"),
        (SitemapVerifyOperator, {"sample": -1}, "sample=-1; give a whole number of at least 0"),
        *((SitemapVerifyOperator, {"sample": each}, f"sample={each}; give a whole number") for each in (1.5, True)),
        *((SitemapVerifyOperator, {flag: "false"}, f"{flag}='false'; give True or False") for flag in VERIFY_FLAGS),
        (SitemapPingOperator, {"url": "https://www.google.com/ping?sitemap={sitemap}"}, "is retired: Google"),
        (SitemapPingOperator, {"url": "https://example.com/"}, "neither url nor body contains {sitemap}"),
        (SitemapPingOperator, {"url": PING, "method": "get it"}, "give a method such as"),
        *(
            (SitemapPingOperator, {"url": PING, **wrong}, "url=, method= and body= must be texts")
            for wrong in ({"url": None}, {"method": None}, {"body": {"x": 1}}, {"headers": "x"}, {"headers": {"X": 1}})
        ),
        (SitemapPlanOperator, {"allow": ["shrink:shop/products", "shrnk"]}, "there is no guard 'shrnk'; they are"),
        (SitemapPlanOperator, {"allow": 0.5}, "0.5 is no list of names"),
        *((SitemapPlanOperator, {"check_rows": n}, "check_rows=.*; give a whole") for n in (-1, float("inf"), "5")),
        *((SitemapPlanOperator, {"full": full}, "is neither true nor") for full in ("no", ["x"], "{{ params.full }}")),
        (SitemapPlanOperator, {"dry_run": "{{ params.dry_run }}"}, "dry_run=.* is neither true nor false"),
        *((SearchConsoleSubmitOperator, {"site": site}, "like 'sc-domain:") for site in ("www.e.com", None, 5)),
        *((BingWebmasterOperator, {"site": site}, "with '/' at the end") for site in ("https://e.com", None, 5)),
    ],
)
def test_an_operator_refuses_settings_that_cannot_be(operator: Any, settings: dict[str, Any], words: str) -> None:
    source = MemorySourceConfig([])
    sitemap = Sitemap(LocalStore("site", base_url="https://example.com/"), [Section("products", source)])
    with pytest.raises(ConfigurationError, match=words):
        operator(task_id="t", sitemap=sitemap, **settings)


@pytest.mark.parametrize(
    ("operator", "settings"),
    [
        (SitemapPingOperator, lambda later: {"url": later}),
        (SitemapPingOperator, lambda later: {"url": "https://example.com/", "body": later}),
        (SitemapPingOperator, lambda later: {"url": PING, "headers": {"X": later}}),
        (SitemapPingOperator, lambda later: {"url": PING, "headers": later}),
        (SearchConsoleSubmitOperator, lambda later: {"site": later}),
        (SearchConsoleInspectOperator, lambda later: {"property": later}),
        (SearchConsoleInspectOperator, lambda later: {"property": ["sc-domain:example.com", later]}),
        (BingWebmasterOperator, lambda later: {"site": later}),
        (SitemapVerifyOperator, lambda later: {"sample": later}),
        (SitemapVerifyOperator, lambda _: {"sample": 1e3}),
        (SitemapPlanOperator, lambda later: {"allow": later}),
        (SitemapPlanOperator, lambda later: {"allow": ["shop/total=0.4", later], "full": "true", "check_rows": 0}),
    ],
)
def test_an_operator_takes_what_airflow_replaces_later(operator: Any, settings: Any) -> None:
    source = MemorySourceConfig([])
    sitemap = Sitemap(LocalStore("site", base_url="https://example.com/"), [Section("products", source)])
    with DAG("later", schedule=None):
        xcom_arg = BaseOperator(task_id="before").output
        function = lambda context, jinja_env: "x"  # noqa: E731 - each value is made here
        for number, later in enumerate(("{% if True %}x{% endif %}", "{{ params.x }}", xcom_arg, function)):
            made = operator(task_id=f"t{number}", sitemap=sitemap, **settings(later))
            assert settings(later).items() <= vars(made).items()
