"""Sitemaps of any size from SQL, sharded, incremental, published safely from Airflow.

Importing this package does nothing: each public name is loaded when it is first used, so that a DAG file pays
only for what it names.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from airflow_sitemaps.operators.indexnow import IndexNowOperator as IndexNowOperator
    from airflow_sitemaps.operators.ping import SitemapPingOperator as SitemapPingOperator
    from airflow_sitemaps.operators.plan import SitemapPlanOperator as SitemapPlanOperator
    from airflow_sitemaps.operators.publish import SitemapPublishOperator as SitemapPublishOperator
    from airflow_sitemaps.operators.rollback import SitemapRollbackOperator as SitemapRollbackOperator
    from airflow_sitemaps.operators.searchconsole import SearchConsoleSubmitOperator as SearchConsoleSubmitOperator
    from airflow_sitemaps.operators.verify import SitemapVerifyOperator as SitemapVerifyOperator
    from airflow_sitemaps.operators.write import SitemapWriteOperator as SitemapWriteOperator
    from airflow_sitemaps.shards.guards import Guards as Guards
    from airflow_sitemaps.shards.policy import ShardPolicy as ShardPolicy
    from airflow_sitemaps.sitemap import Section as Section
    from airflow_sitemaps.sitemap import Sitemap as Sitemap
    from airflow_sitemaps.sources.sql import SqlSource as SqlSource
    from airflow_sitemaps.stores.local import LocalStore as LocalStore
    from airflow_sitemaps.stores.memory import MemoryStore as MemoryStore
    from airflow_sitemaps.stores.s3 import S3Store as S3Store
    from airflow_sitemaps.task_group import SitemapTaskGroup as SitemapTaskGroup

_HOME = {
    "Guards": "shards.guards",
    "IndexNowOperator": "operators.indexnow",
    "LocalStore": "stores.local",
    "MemoryStore": "stores.memory",
    "S3Store": "stores.s3",
    "SearchConsoleSubmitOperator": "operators.searchconsole",
    "Section": "sitemap",
    "ShardPolicy": "shards.policy",
    "Sitemap": "sitemap",
    "SitemapPingOperator": "operators.ping",
    "SitemapPlanOperator": "operators.plan",
    "SitemapPublishOperator": "operators.publish",
    "SitemapRollbackOperator": "operators.rollback",
    "SitemapTaskGroup": "task_group",
    "SitemapVerifyOperator": "operators.verify",
    "SitemapWriteOperator": "operators.write",
    "SqlSource": "sources.sql",
}
__all__ = sorted([*_HOME, "__version__"])  # noqa: PLE0605 - a list, only not written as one


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
