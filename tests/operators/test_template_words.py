"""The words of templates: those of every run, those of a run with a logical date, and undefined ones."""

from __future__ import annotations

import gzip
import json
import logging
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import jinja2
import pytest
from airflow.models.renderedtifields import RenderedTaskInstanceFields
from airflow.sdk import DAG
from airflow.sdk.definitions.context import KNOWN_CONTEXT_KEYS
from airflow.utils.session import create_session
from airflow.utils.types import DagRunType
from lazy_object_proxy import Proxy
from sqlalchemy import select

from airflow_sitemaps.airflow_compat import AirflowFailException, AirflowSkipException
from airflow_sitemaps.errors import TemplateError
from airflow_sitemaps.operators.plan import listed
from airflow_sitemaps.sensors import SitemapSourceSensor
from airflow_sitemaps.sitemap import Section, Sitemap
from airflow_sitemaps.sources.sql import SqlSource
from airflow_sitemaps.stores.local import LocalStore
from airflow_sitemaps.task_group import SitemapTaskGroup
from airflow_sitemaps.templates import LOGICAL_DATE, renderer, shell_environment, words_of_run
from tests.semantics.shop import dag_of
from tests.semantics.steps import Steps
from tests.support.airflow_db import run, states, xcom_of

if TYPE_CHECKING:
    from pathlib import Path

URL = "https://shop.example/"
NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=timezone.utc)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection, connection:
        connection.execute("CREATE TABLE pages (id INTEGER PRIMARY KEY, slug TEXT)")
        connection.execute("INSERT INTO pages VALUES (1, 'about'), (2, 'imprint')")
    extra = {"sqlalchemy_url": f"sqlite:///{tmp_path / 'shop.db'}"}
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps({"conn_type": "generic", "extra": extra}))
    monkeypatch.setenv("AIRFLOW_VAR_PREFIX", "v")
    return tmp_path


def sitemap(folder: Path, query: str) -> Sitemap:
    source = SqlSource("shop", query=query, key="id", loc=URL + "{url}")
    return Sitemap(LocalStore(folder / "site", base_url=URL), [Section("pages", source)])


EVERY = (
    "SELECT id, slug || '{{ run_after | ds_nodash }}{{ params.suffix }}{{ var.value.prefix }}{{ conn.shop.conn_type }}' "
    "AS url FROM pages"
)


@pytest.mark.parametrize("date", [None, NOW], ids=["without a logical date", "with a logical date"])
def test_the_words_of_every_run(folder: Path, date: datetime | None) -> None:
    dag = dag_of(sitemap(folder, EVERY), f"every_{date is None}", params={"suffix": "x"})

    run = Steps.start(dag, "one", logical_date=date, without_date=date is None).step()

    assert run.state == "success"
    (body,) = (folder / "site").glob("pages-*")
    assert "xvgeneric" in gzip.decompress(body.read_bytes()).decode()


def test_an_undefined_word_fails_without_retries_and_says_what_to_write(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dag = dag_of(sitemap(folder, "SELECT id, slug AS url FROM pages WHERE '{{ ts }}' > ''"), "undefined",
                 plan_kwargs={"retries": 3})  # fmt: skip

    run = Steps.start(dag, "one", run_type=DagRunType.ASSET_TRIGGERED, without_date=True).step()

    assert run.state == "failed"
    assert run.tries == ["sitemap.plan", "sitemap.publish"], "publish fails for lack of a plan"
    said = xcom_of(dag.dag_id, "one", "sitemap.plan", "sitemap_failed")["message"]
    assert said == (
        "section 'pages': query=: the template word 'ts' is not defined: this run has no logical date, as when an asset "
        "or a trigger without a date starts it. Write {{ run_after | ts }} instead, which works in every run"
    )


def test_the_sql_that_runs_is_shown_as_a_rendered_template_and_in_the_log(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "airflow_sitemaps.operators.plan")
    dag = dag_of(sitemap(folder, EVERY), "shown", params={"suffix": "x"})
    Steps.start(dag, "one", without_date=True).step("sitemap.plan")

    with create_session() as session:
        fields = session.scalars(
            select(RenderedTaskInstanceFields.rendered_fields).where(RenderedTaskInstanceFields.dag_id == "shown")
        ).one()
    assert "xvgeneric' AS url FROM pages" in fields["sql"]["pages"]
    (logged,) = [message for message in caplog.messages if message.startswith("section pages: rendered SQL: ")]
    assert "xvgeneric' AS url FROM pages" in logged


def test_a_date_that_is_none_is_not_a_word() -> None:
    words = words_of_run({"logical_date": None, "data_interval_end": None, "ds": "2026-03-04", "params": None})

    assert words == {"ds": "2026-03-04", "params": None}


@pytest.mark.parametrize("word", sorted(LOGICAL_DATE))
def test_each_word_of_a_logical_date_has_another_that_works_in_every_run(word: str, folder: Path) -> None:
    words = {"run_after": NOW}

    assert renderer(shell_environment(), words)(LOGICAL_DATE[word])
    with pytest.raises(TemplateError, match=f"the template word '{word}' is not defined"):
        renderer(shell_environment(), words)("{{ " + word + " }}")


EARLIER = ["prev_start_date_success", "prev_end_date_success", "prev_data_interval_start_success",
           "prev_data_interval_end_success"]  # fmt: skip


def never() -> datetime:
    raise AssertionError("a word that no template uses calls Airflow")


@pytest.mark.parametrize("word", EARLIER)
def test_a_first_run_has_no_word_of_an_earlier_one(word: str) -> None:
    lazy = {**dict.fromkeys(EARLIER, Proxy(never)), word: Proxy(lambda: None), "run_after": NOW}
    render = renderer(shell_environment(), words_of_run(lazy))

    for text in ("x > '{{ " + word + " }}'", "x > '{{ " + word + " | ts }}'", "x > '{{ " + word + ".year }}'"):
        with pytest.raises(TemplateError, match=f"the template word '{word}' has no value: no run with an earlier"):
            render(text)
    assert render("{{ run_after | ds }}{% if " + word + " %}x{% endif %}") == "2026-03-04"
    assert render("{% if " + word + " is defined %}x{% endif %}{{ " + word + " | default('y') }}") == "y"
    later = renderer(shell_environment(), words_of_run({**lazy, word: Proxy(lambda: NOW)}))
    assert later("{% if " + word + " is defined %}{{ " + word + " | ds }}{% endif %}") == "2026-03-04"


def test_the_words_of_an_earlier_run_are_airflows() -> None:
    words = {name for name in KNOWN_CONTEXT_KEYS if name.startswith("prev_") and name.endswith("_success")}

    assert words == set(EARLIER)


@pytest.mark.parametrize("date", [None, NOW], ids=["without a logical date", "with a logical date"])
def test_the_first_run_of_a_dag_puts_no_none_into_the_sql(folder: Path, date: datetime | None) -> None:
    query = "SELECT id, slug AS url FROM pages WHERE '{{ prev_end_date_success }}' > ''"
    dag = dag_of(sitemap(folder, query), f"first_{date is None}")

    run = Steps.start(dag, "one", logical_date=date, without_date=date is None).step()

    assert run.state == "failed"
    said = xcom_of(dag.dag_id, "one", "sitemap.plan", "sitemap_failed")["message"]
    assert said.startswith(
        "section 'pages': query=: the template word 'prev_end_date_success' has no value: no run with"
    )


def test_a_dag_that_renders_natively_does_not_change_the_sql(folder: Path) -> None:
    source = SqlSource("shop", query="SELECT id, slug || :version AS url FROM pages", key="id", loc=URL + "{url}",
                       parameters={"version": "{{ params.version }}"})  # fmt: skip
    native = Sitemap(LocalStore(folder / "site", base_url=URL), [Section("pages", source)])
    dag = dag_of(native, "native", params={"version": "1.10"})
    dag.render_template_as_native_obj = True

    run = Steps.start(dag, "one").step()

    assert run.state == "success"
    (body,) = (folder / "site").glob("pages-*")
    assert "about1.10<" in gzip.decompress(body.read_bytes()).decode()


@pytest.mark.parametrize("native", [False, True])
def test_a_dag_may_have_delimiters_of_its_own(folder: Path, native: bool) -> None:
    """They are those of all templates of its sitemap; the package's own texts are rendered too."""
    own = {
        "variable_start_string": "<<",
        "variable_end_string": ">>",
        "block_start_string": "<%",
        "block_end_string": "%>",
    }
    source = SqlSource("shop", query="SELECT id, slug || '{{<< params.suffix >>' AS url FROM pages", key="id", loc=URL + "{url}",
                       materialize="main")  # fmt: skip
    permits = ["<% if params.suffix %>shrink:pages<% endif %>"]
    settings = {"jinja_environment_kwargs": own, "render_template_as_native_obj": native, "params": {"suffix": "x"}}
    with DAG(
        f"own_delimiters_{native}", schedule=None, max_active_runs=1, default_args={"retries": 0}, **settings
    ) as dag:
        site = Sitemap(LocalStore(folder / "site", base_url=URL), [Section("pages", source)])
        SitemapTaskGroup("sitemap", site, plan_kwargs={"allow": permits})

    ended = run(dag)

    assert set(states(ended).values()) == {"success"}
    (body,) = (folder / "site").glob("pages-*")
    assert "imprint%7B%7Bx<" in gzip.decompress(body.read_bytes()).decode()
    (written,) = (ti for ti in ended.get_task_instances() if ti.task_id == "sitemap.write")
    assert written.rendered_map_index == "pages 1/1 (1 shard)"
    with dag:
        SitemapSourceSensor(task_id="sensor", sitemap=site, sections="<< params.names >>")
    words = {"dag": dag, "task": dag.get_task("sitemap.plan"), "run_id": "one"}
    plain = source.rendered(renderer(dag.get_template_env(), {**words, "params": {"suffix": "x"}}))
    assert (plain.run, plain.origin) == (f"{dag.dag_id}/one", f"dag={dag.dag_id} task=sitemap.plan run=one")


def test_a_dag_that_allows_undefined_words_does_not_allow_them_in_the_sql(folder: Path) -> None:
    query = "SELECT id, slug AS url FROM pages WHERE '{{ ds }}' < 'a'"
    dag = dag_of(sitemap(folder, query), "lax")
    dag.template_undefined = jinja2.Undefined

    run = Steps.start(dag, "one", without_date=True).step()

    assert run.state == "failed"
    assert "'ds' is not defined" in xcom_of(dag.dag_id, "one", "sitemap.plan", "sitemap_failed")["message"]


def test_a_number_of_native_rendering_is_a_name() -> None:
    assert listed(2024) == ("2024",)


@pytest.mark.parametrize("word", ["var.value.nowhere", "var.json.nowhere.x", "conn.nowhere.host"])
def test_a_value_that_airflow_does_not_return_is_an_error_of_its_section(folder: Path, word: str) -> None:
    whole = sitemap(folder, "SELECT id, slug AS url FROM pages")
    other = sitemap(folder, f"SELECT id, slug AS url FROM pages WHERE '{{{{ {word} }}}}' <> ''").sections[0]
    whole = replace(whole, sections=[*whole.sections, replace(other, name="other")])

    run = Steps.start(dag_of(whole, f"nowhere_{word}"), "one").step()

    assert run.states["sitemap.publish"] == "failed"
    facts = xcom_of(run.dag.dag_id, "one", "sitemap.publish", "sitemap_failed")
    assert facts["is_published"]
    assert "query=: the template cannot be rendered: " in facts["message"]
    assert "nowhere" in facts["message"]


@pytest.mark.parametrize("error", [AirflowSkipException, AirflowFailException])
def test_a_macro_may_end_the_task(error: type[Exception]) -> None:
    def macro() -> None:
        raise error("no new rows")

    with pytest.raises(error):
        renderer(shell_environment(), {"macro": macro})("SELECT {{ macro() }}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{ nothing }}", "the template word 'nothing' is not defined in this run. These work in every run: run_after"),
        ("{{ params.nothing }}", "The params are: full"),
        ("{% if %}", "this is not a valid Jinja template"),
        ("{{ params.full + 'x' }}", "the template cannot be rendered: TypeError"),
        ("{{ 1 / 0 }}", "the template cannot be rendered: ZeroDivisionError"),
    ],
)
def test_other_mistakes_are_named(text: str, said: str) -> None:
    with pytest.raises(TemplateError, match=said):
        renderer(shell_environment(), {"run_after": NOW, "params": {"full": False}})(text)
