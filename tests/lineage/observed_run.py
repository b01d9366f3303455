"""A DAG over a database and one over a database that is down, in a process that writes OpenLineage events to a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from airflow.sdk import DAG

from airflow_sitemaps import LocalStore, Section, Sitemap, SitemapTaskGroup, SqlSource
from tests.support.airflow_db import run, states

URL = "https://shop.example/"


def dag_of(site: Path) -> DAG:
    """Two sections over one database, by a table and by a query; some rows break a rule."""
    products = SqlSource("shop", table="products", key="id", loc=f"{URL}p/{{slug}}", lastmod="updated_at")
    pages = SqlSource("shop", query="SELECT id, url FROM pages WHERE listed = 1", key="id", loc="url")
    sitemap = Sitemap(LocalStore(site, base_url=URL), [Section("products", products), Section("pages", pages)])
    with DAG("lineage", schedule=None, max_active_runs=1, default_args={"retries": 0}) as dag:
        SitemapTaskGroup("sitemap", sitemap)
    return dag


def dag_over_a_database_that_is_down(site: Path) -> DAG:
    """One section; its connection holds a password and leads nowhere."""
    source = SqlSource("down", table="products", key="id", loc=f"{URL}p/{{slug}}")
    sitemap = Sitemap(LocalStore(site, base_url=URL), [Section("products", source)])
    with DAG("lineage_down", schedule=None, max_active_runs=1, default_args={"retries": 0}) as dag:
        SitemapTaskGroup("down", sitemap)
    return dag


def dag_of_shared_tables(site: Path) -> DAG:
    """Two sections over one table, and one by a templated query in a file; an index for each."""
    folder = site.parent / "queries"
    folder.mkdir()
    (folder / "pages.sql").write_text(
        "SELECT id, url FROM pages {% if params.full %} {% else %} WHERE listed = 1 {% endif %}"
    )
    loc = f"{URL}s/{{slug}}"
    sections = [
        Section("first", SqlSource("shop", table="products", key="id", loc=loc, title="slug", where="id < 10")),
        Section("rest", SqlSource("shop", table="products", key="id", loc=loc, lastmod="updated_at", where="id >= 10")),
        Section("pages", SqlSource("shop", query=str(folder / "pages.sql"), key="id", loc="url")),
    ]
    sitemap = Sitemap(LocalStore(site / "shared", base_url=URL), sections, index="per_section")
    with DAG("lineage_shared", schedule=None, max_active_runs=1, default_args={"retries": 0}) as dag:
        SitemapTaskGroup("sitemap", sitemap)
    return dag


def main(site: str) -> None:
    """Run each DAG once, and print the states of their tasks."""
    result: Any = run(dag_of(Path(site)))
    shared: Any = run(dag_of_shared_tables(Path(site)))
    failed: Any = run(dag_over_a_database_that_is_down(Path(site) / "down"))
    print({**states(result), **states(failed), "shared": set(states(shared).values())}, file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1])
