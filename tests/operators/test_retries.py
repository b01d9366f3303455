"""Which failures are retried: what a secrets backend or a metadata service that answers again may heal."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowTaskTimeout
from botocore.exceptions import CredentialRetrievalError, NoCredentialsError

from airflow_sitemaps import LocalStore, Section, Sitemap, SitemapTaskGroup, SqlSource, metrics
from airflow_sitemaps.errors import (
    ConfigurationError,
    CredentialsError,
    IncompleteError,
    SitemapError,
    SourceError,
    StoreError,
)
from airflow_sitemaps.operators import base
from airflow_sitemaps.pipeline import stages
from airflow_sitemaps.stores.s3.client import failure_of
from tests.semantics.shop import Shop, dag_of
from tests.semantics.steps import Steps
from tests.support.airflow_db import xcom_of

if TYPE_CHECKING:
    from pathlib import Path

URL = "https://shop.example/"


def test_a_connection_that_is_not_defined_is_retried(tmp_path: Path) -> None:
    source = SqlSource("nowhere", table="products", key="id", loc="url")
    sitemap = Sitemap(LocalStore(tmp_path / "site", base_url=URL), [Section("products", source)])
    settings = {"plan_kwargs": {"retries": 1, "retry_delay": 0}}

    run = Steps.start(dag_of(sitemap, "no_connection", **settings), "one").step()

    assert run.tries == ["sitemap.plan", "sitemap.plan", "sitemap.publish"], "publish fails for lack of a plan"
    assert run.state == "failed"
    assert "'nowhere' is not defined" in xcom_of("no_connection", "one", "sitemap.plan", "sitemap_failed")["message"]


def test_a_database_that_restarts_costs_a_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(tmp_path)
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", "postgres://nobody:secret@127.0.0.1:1/shop")

    def back(context: object) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_SHOP", shop.connection)

    settings = {"retry_delay": timedelta(0), "on_retry_callback": back}
    with DAG("restarting", schedule=None, max_active_runs=1, default_args=settings) as dag:
        SitemapTaskGroup("sitemap", shop.sitemap())
    run = Steps.start(dag, "one").step()

    assert run.tries[:3] == ["sitemap.plan", "sitemap.plan", "sitemap.write[0]"]
    assert run.state == "success"
    assert shop.urls() == shop.expected()


@pytest.mark.parametrize(
    "error", [NoCredentialsError(), CredentialRetrievalError(provider="metadata", error_msg="timed out")]
)
def test_missing_credentials_are_retried(error: Exception) -> None:
    found = failure_of("GetObject s3://bucket/key", error).error()

    assert isinstance(found, CredentialsError)
    assert isinstance(found, ConfigurationError)
    assert found.retryable


def test_other_configuration_is_not(caplog: pytest.LogCaptureFixture) -> None:
    pushed: dict[str, object] = {}

    class Instance:
        def xcom_push(self, key: str, value: object) -> None:
            pushed[key] = value

    context = {"ti": Instance()}
    with pytest.raises(base.AirflowFailException), base.permanent_failures(context):  # type: ignore[arg-type]
        raise ConfigurationError("no such section")
    with pytest.raises(SitemapError, match="no credentials"), base.permanent_failures(context):  # type: ignore[arg-type]
        raise CredentialsError("no credentials")

    assert pushed["sitemap_failed"] == {"error": "CredentialsError", "message": "no credentials"}
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert caplog.messages[0] == "A retry cannot fix this. no such section"


@pytest.mark.parametrize("task", ["plan", "write", "publish"])
def test_a_task_that_its_time_limit_ends_leaves_a_reason_and_is_counted(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path)
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", shop.connection)
    sent: list[metrics.Measurement] = []
    monkeypatch.setattr(metrics, "send", sent.extend)

    def ended(*args: object, **kwargs: object) -> None:
        raise AirflowTaskTimeout("Timeout, PID: 7")

    monkeypatch.setattr(stages, task, ended)
    dag_id = f"limited_{task}"
    run = Steps.start(dag_of(shop.sitemap(), dag_id), "one").step()

    assert run.state == "failed"
    failed = xcom_of(dag_id, "one", "sitemap.publish" if task == "write" else f"sitemap.{task}", "sitemap_failed")
    assert "AirflowTaskTimeout" in str(failed)
    assert task != "write" or "see its log" in failed["message"]
    assert task == "write" or [(each.metric.name, each.tags.get("result")) for each in sent] == [
        ("sitemaps.runs", "failed")
    ]


def test_a_missing_receipt_is_not_retried(caplog: pytest.LogCaptureFixture) -> None:
    ti = SimpleNamespace(xcom_push=lambda key, value: None)
    with pytest.raises(base.AirflowFailException), base.permanent_failures({"ti": ti}):  # type: ignore[arg-type]
        raise IncompleteError("1 of 6 batches have no receipt")

    assert caplog.messages == ["A retry cannot fix this. 1 of 6 batches have no receipt"]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (SourceError("connection refused"), "The database failed; a retry may succeed. connection refused"),
        (StoreError("no space left"), "The store failed; a retry may succeed. no space left"),
    ],
)
def test_what_is_down_is_said_in_one_plain_line(
    error: SitemapError, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    ti = SimpleNamespace(xcom_push=lambda key, value: None)
    with pytest.raises(type(error)), base.permanent_failures({"ti": ti}):  # type: ignore[arg-type]
        raise error

    assert caplog.messages == [said]
