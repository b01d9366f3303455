"""The messages as Slack, Apprise and mail receive them, sent by Airflow's own notifiers for these services.

``make test-notifiers`` makes an environment for the providers.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG

from airflow_sitemaps import LocalStore, Section, Sitemap, SitemapNotifier, SitemapTaskGroup, SqlSource
from airflow_sitemaps.notifications.message import HTML, SLACK, SUBJECT, TEXT, SitemapMessage
from airflow_sitemaps.operators.links import run_page
from tests.support.airflow_db import run
from tests.support.smtp_server import smtp_server
from tests.support.website import Page, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from email.message import EmailMessage
    from pathlib import Path

slack = pytest.importorskip(
    "airflow.providers.slack.notifications.slack", reason="no provider of Slack: run `make test-notifiers`"
)
webhook = pytest.importorskip(
    "airflow.providers.slack.notifications.slack_webhook", reason="no provider of Slack: run `make test-notifiers`"
)
apprise = pytest.importorskip(
    "airflow.providers.apprise.notifications.apprise", reason="no provider of Apprise: run `make test-notifiers`"
)
smtp = pytest.importorskip(
    "airflow.providers.smtp.notifications.smtp", reason="no provider of SMTP: run `make test-notifiers`"
)

INDEX = "https://shop.example/a&b/sitemap.xml"
WEBHOOK, API, APPRISE = "/services/T/B/x", "/api/chat.postMessage", "/apprise"


class Services:
    """Servers on the loopback that accept messages as the services do, and the connections to them."""

    def __init__(self, site: Any, port: int, mails: list[EmailMessage]) -> None:
        self.site, self.mails = site, mails
        self.up()
        mail = {
            "conn_type": "smtp", "host": "127.0.0.1", "port": port,
            "extra": {"disable_ssl": True, "disable_tls": True},
        }  # fmt: skip
        apprise_url = site.base.replace("http://", "json://") + APPRISE
        self.connections = {
            "WEBHOOK": {"conn_type": "slackwebhook", "password": f"{site.base}{WEBHOOK}"},
            "API": {"conn_type": "slack", "password": "xoxb-token", "extra": {"base_url": f"{site.base}/api/"}},
            "ANY": {"conn_type": "apprise", "extra": {"config": {"path": apprise_url, "tag": "seo"}}},
            "MAIL": mail,
        }

    def up(self) -> None:
        json_type = {"Content-Type": "application/json"}
        self.site.pages[WEBHOOK] = Page(b"ok")
        self.site.pages[API] = Page(b'{"ok": true}', headers=json_type)
        self.site.pages[APPRISE] = Page(b"{}", headers=json_type)

    def down(self, *paths: str) -> None:
        for path in paths:
            self.site.pages[path] = Page(b"down", 500)

    def mailed(self) -> list[tuple[str, str]]:
        """Subject and HTML of each mail."""
        html = [mail.get_body(("html",)) for mail in self.mails]
        texts = ["" if part is None else str(part.get_content()).strip() for part in html]
        return [(str(mail["subject"]), text) for mail, text in zip(self.mails, texts, strict=True)]

    @staticmethod
    def alert(kwargs: dict[str, Any]) -> None:
        """Send what a missed deadline sends, as the triggerer does."""
        context = {
            "dag_run": {"dag_id": "shop", "dag_run_id": "scheduled__1"},
            "deadline": {"id": "1", "deadline_time": "2026-01-02T03:00:00Z"},
        }

        async def alert() -> None:
            await SitemapNotifier(**kwargs, context=context)

        asyncio.run(alert())

    def sent(self, path: str) -> list[dict[str, Any]]:
        """The JSON documents that a path received."""
        return [json.loads(body) for _, asked, _, body in self.site.asked if asked == path]


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    with smtp_server() as (port, mails), serving() as site:
        services = Services(site, port, mails)
        for name, connection in services.connections.items():
            monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(connection))
        monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example")
        yield services


def notifiers() -> list[Any]:
    """The notifiers as docs/watch.md says to make them."""
    return [
        webhook.SlackWebhookNotifier(slack_webhook_conn_id="webhook", text=SLACK),
        slack.SlackNotifier(slack_conn_id="api", channel="#seo", text=SLACK),
        apprise.AppriseNotifier(apprise_conn_id="any", title=SUBJECT, body=TEXT),
        smtp.SmtpNotifier(
            smtp_conn_id="mail", to="seo@shop.example", from_email="a@shop.example", subject=SUBJECT, html_content=HTML
        ),
    ]


def targets() -> list[dict[str, Any]]:
    """The same as JSON, as deadline alerts need them."""
    path = "airflow.providers"
    return [
        {
            "notifier": f"{path}.slack.notifications.slack_webhook.SlackWebhookNotifier",
            "slack_webhook_conn_id": "webhook",
            "text": SLACK,
        },
        {
            "notifier": f"{path}.slack.notifications.slack.SlackNotifier",
            "slack_conn_id": "api",
            "channel": "#seo",
            "text": SLACK,
        },
        {"notifier": f"{path}.apprise.notifications.apprise.AppriseNotifier", "apprise_conn_id": "any", "body": TEXT},
        {
            "notifier": f"{path}.smtp.notifications.smtp.SmtpNotifier",
            "smtp_conn_id": "mail",
            "to": "seo@shop.example",
            "from_email": "a@shop.example",
            "subject": SUBJECT,
            "html_content": HTML,
        },
    ]


class Shop:
    """A table of 2,000 rows and a DAG that publishes it and sends the messages."""

    def __init__(self, folder: Path) -> None:
        self.database = folder / "shop.db"
        self.execute("CREATE TABLE products (id INTEGER PRIMARY KEY)")
        numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)"
        self.execute(f"INSERT INTO products {numbers} SELECT i FROM n")
        base = "https://shop.example/a&b/"
        source = SqlSource("shop_services", table="products", key="id", loc=f"{base}{{id}}")
        sitemap = Sitemap(LocalStore(folder / "site", base_url=base), [Section("products", source)])
        notifier = SitemapNotifier(*notifiers(), sitemap=sitemap)
        arguments = {"on_failure_callback": notifier, "retries": 0}
        with DAG("services", schedule=None, max_active_runs=1, default_args=arguments) as self.dag:
            SitemapTaskGroup("sitemap", sitemap, publish_kwargs={"on_success_callback": notifier})

    @property
    def connection(self) -> str:
        return json.dumps({"conn_type": "generic", "extra": {"sqlalchemy_url": f"sqlite:///{self.database}"}})

    def execute(self, statement: str) -> None:
        with sqlite3.connect(self.database) as connection:
            connection.execute(statement)
        connection.close()

    def run(self) -> str:
        """Run the DAG and return the address of the run's page."""
        return f"https://airflow.example{run_page('services', str(run(self.dag).run_id))}"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    made = Shop(tmp_path)
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_SERVICES", made.connection)
    return made


def test_each_service_is_told_what_was_published_refused_and_failed(shop: Shop, services: Services) -> None:
    published = shop.run()
    shop.run()  # unchanged: no message
    shop.execute("DELETE FROM products WHERE id > 500")
    refused = shop.run()
    shop.execute("DROP TABLE products")
    failed = shop.run()

    whole = "the published sitemap is whole"
    cause = (
        "section 'products' (shop_services: products): the database refuses to read it: no such table: products. Check "
        "the table's name and schema, and that the connection may read it."
    )
    messages = [
        SitemapMessage(
            result="published",
            title=f"Sitemap published: {INDEX}, 2,000 URLs",
            lines=("Generation 1: 1 created of 1 shard",),
            link=published,
        ),
        SitemapMessage(
            result="refused",
            title=f"Sitemap refused: {INDEX}; the published sitemap is unchanged",
            lines=("Section 'products' would shrink from 2,000 to 500 rows (-75.0%; the limit is 15.0%, max_shrink).",),
            action="Check the source. If the data is right, run the DAG once with allow=['shrink:products=0.75'].",
            link=refused,
        ),
        SitemapMessage(
            result="failed",
            title=f"Sitemap failed: {INDEX}; {whole}",
            lines=(f"SourceConfigurationError: {cause}",),
            action="Fix the configuration and clear the task. A retry cannot help.",
            link=failed,
        ),
    ]
    assert [sent["text"] for sent in services.sent(WEBHOOK)] == [message.slack for message in messages]
    assert [(sent["channel"], sent["text"]) for sent in services.sent(API)] == [
        ("#seo", message.slack) for message in messages
    ]
    assert [(sent["title"], sent["message"]) for sent in services.sent(APPRISE)] == [
        (message.title, message.text) for message in messages
    ]
    assert services.mailed() == [(message.title, message.html) for message in messages]
    assert (
        f"*To do:* Fix the configuration and clear the task. A retry cannot help.\n<{failed}|Open the run"
        in (services.sent(WEBHOOK)[2]["text"])
    )
    assert "*Sitemap refused: https://shop.example/a&amp;b/sitemap.xml;" in services.sent(WEBHOOK)[1]["text"]


def test_each_service_is_told_from_the_triggerer_of_a_missed_deadline(services: Services) -> None:
    kwargs = json.loads(json.dumps({"sitemap": INDEX, "targets": targets()}))

    services.alert(kwargs)

    expected = SitemapMessage(
        result="late",
        title=f"Sitemap late: {INDEX} was not published in time",
        lines=("The deadline was 2026-01-02T03:00:00Z",),
        action="Check whether the run waits for its data, a pool or a worker.",
        link="https://airflow.example/dags/shop/runs/scheduled__1/plugin/sitemap-run",
    )
    assert [sent["text"] for sent in services.sent(WEBHOOK)] == [expected.slack]
    assert [sent["text"] for sent in services.sent(API)] == [expected.slack]
    assert [sent["message"] for sent in services.sent(APPRISE)] == [expected.text]
    assert services.mailed() == [(expected.title, expected.html)]


def test_services_that_are_down_keep_no_other_from_its_message(
    services: Services, caplog: pytest.LogCaptureFixture
) -> None:
    services.down(WEBHOOK, API, APPRISE)

    services.alert({"sitemap": INDEX, "targets": targets()})

    assert [subject for subject, _ in services.mailed()] == [f"Sitemap late: {INDEX} was not published in time"]
    assert {path: len(services.sent(path)) > 0 for path in (WEBHOOK, API, APPRISE)} == dict.fromkeys(
        (WEBHOOK, API, APPRISE), True
    )
    assert "SlackNotifier could not send the message: SlackApiError" in caplog.text
    assert "SlackWebhookNotifier could not send the message" in caplog.text
    assert "Failed to send JSON POST notification: Internal server error., error=500" in caplog.text
    assert "AppriseNotifier could not send" not in caplog.text, "docs/watch.md says that Apprise raises no error"
    assert "xoxb-token" not in caplog.text
