"""The notifier in real runs: mail and webhook as their servers receive them."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from airflow.providers.http.notifications import HttpNotifier
from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.sdk import DAG
from airflow.sdk.bases.notifier import BaseNotifier
from asgiref.sync import async_to_sync

from airflow_sitemaps import LocalStore, Section, Sitemap, SitemapNotifier, SitemapTaskGroup
from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.http import AccessRules, HttpClient
from airflow_sitemaps.notifications.message import HTML, SLACK, SUBJECT
from airflow_sitemaps.testing import MemorySourceConfig
from tests.support.airflow_db import run, states
from tests.support.smtp_server import smtp_server
from tests.support.website import Page, serving

if TYPE_CHECKING:
    from pathlib import Path

URL = "https://shop.example/"


class Webhook(BaseNotifier):
    """A notifier that runs in the triggerer."""

    template_fields = ("text",)

    def __init__(self, *, url: str, text: str) -> None:
        super().__init__()
        self.url, self.text = url, text

    async def async_notify(self, context: Any) -> None:
        client = HttpClient(rules=AccessRules(allow_http=True, allow_private=True))
        await asyncio.to_thread(client.send, "POST", self.url, body=self.text.encode())


class Synchronous(BaseNotifier):
    """A notifier without the asynchronous form. Airflow 3.1 reads its connection through the triggerer's event loop."""

    loops: ClassVar[list[Any]] = []

    def notify(self, context: Any) -> None:
        async def get_connection() -> None:
            self.loops.append(asyncio.get_running_loop())

        async_to_sync(get_connection)()


class Broken(BaseNotifier):
    """A notifier whose service is down."""

    def notify(self, context: Any) -> None:
        raise ConnectionError("secret")


def test_mail_and_webhook_say_what_each_run_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rows: list[dict[str, Any]] = [{"id": n, "loc": f"{URL}p/{n}"} for n in range(2_000)]
    sitemap = Sitemap(LocalStore(tmp_path / "site", base_url=URL), [Section("products", MemorySourceConfig(rows))])
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example")
    with smtp_server() as (port, mails), serving() as webhook:
        webhook.pages["/services/T/B/x"] = Page(b"ok")
        mail = {
            "conn_type": "smtp",
            "host": "127.0.0.1",
            "port": port,
            "extra": {"disable_ssl": True, "disable_tls": True},
        }
        monkeypatch.setenv("AIRFLOW_CONN_MAIL", json.dumps(mail))
        monkeypatch.setenv("AIRFLOW_CONN_SLACK", json.dumps({"conn_type": "http", "host": webhook.base}))
        notifier = SitemapNotifier(
            Broken(),
            SmtpNotifier(
                to="seo@shop.example",
                from_email="airflow@shop.example",
                subject=SUBJECT,
                html_content=HTML,
                smtp_conn_id="mail",
            ),
            HttpNotifier(http_conn_id="slack", endpoint="services/T/B/x", json={"text": SLACK}),
            sitemap=sitemap,
        )
        with DAG(
            "notified", schedule=None, max_active_runs=1, default_args={"on_failure_callback": notifier, "retries": 0}
        ) as dag:
            SitemapTaskGroup("sitemap", sitemap, publish_kwargs={"on_success_callback": notifier})
        assert set(states(run(dag)).values()) == {"success"}
        assert states(run(dag))["sitemap.publish"] == "success"  # unchanged: no message
        del rows[500:]
        assert states(run(dag))["sitemap.plan"] == "failed"

        subjects = [str(message["subject"]) for message in mails]
        texts = [json.loads(body)["text"] for _, path, _, body in webhook.asked if path == "/services/T/B/x"]

    assert subjects == [
        "Sitemap published: https://shop.example/sitemap.xml, 2,000 URLs",
        "Sitemap refused: https://shop.example/sitemap.xml; the published sitemap is unchanged",
    ]
    published, refused = texts
    assert published.startswith(
        "*Sitemap published: https://shop.example/sitemap.xml, 2,000 URLs*\n• Generation 1: 1 created"
    )
    assert "<https://airflow.example/dags/notified/runs/" in published
    assert "*To do:* Check the source. If the data is right, run the DAG once with allow=['shrink:products=" in refused
    assert "Broken could not send the message: ConnectionError" in caplog.text
    assert "secret" not in caplog.text


def test_a_deadline_alert_sends_from_the_triggerer_what_json_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example")
    with serving() as webhook:
        webhook.pages["/hook"] = Page(b"ok")
        target = {
            "notifier": "tests.notifications.test_notifier.Webhook",
            "url": f"{webhook.base}/hook",
            "text": "{{ sitemap.text }}",
        }
        kwargs = json.loads(json.dumps({"sitemap": f"{URL}sitemap.xml", "targets": [target]}))
        context = {
            "dag_run": {"dag_id": "shop", "dag_run_id": "scheduled__1"},
            "deadline": {"id": "1", "deadline_time": "2026-01-02T03:00:00Z"},
        }

        async def alert() -> None:
            await SitemapNotifier(**kwargs, context=context)

        asyncio.run(alert())
        ((_, _, _, body),) = webhook.asked

    assert body.decode().splitlines() == [
        f"Sitemap late: {URL}sitemap.xml was not published in time",
        "The deadline was 2026-01-02T03:00:00Z",
        "To do: Check whether the run waits for its data, a pool or a worker.",
        "https://airflow.example/dags/shop/runs/scheduled__1/plugin/sitemap-run",
    ]


def test_a_notifier_without_the_asynchronous_form_keeps_the_loop_of_the_triggerer() -> None:
    async def alert() -> None:
        Synchronous.loops.append(asyncio.get_running_loop())
        await SitemapNotifier(Synchronous(), sitemap=URL, context={"deadline": {"deadline_time": "2026-01-02"}})

    asyncio.run(alert())
    triggerers, own = Synchronous.loops
    assert own is triggerers


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        *(
            ({"targets": targets}, "neither a notifier nor a mapping")
            for targets in ([{"text": "x"}], {"notifier": "a.B"}, "slack", None, [Broken], [5])
        ),
        *(({"sitemap": sitemap}, "give a Sitemap, or its name") for sitemap in (5, Sitemap, ["shop"])),
        ({"unchanged": "false"}, "unchanged='false'; give True or False"),
    ],
)
def test_settings_that_cannot_be_are_refused_when_the_notifier_is_made(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        SitemapNotifier(**settings)


def test_a_class_that_does_not_exist_costs_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    SitemapNotifier(targets=[{"notifier": "airflow_sitemaps.nothing.Here"}])({"exception": "x"})

    assert "The notifier airflow_sitemaps.nothing.Here cannot be created" in caplog.text
