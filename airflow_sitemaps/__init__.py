"""Sitemaps of any size from SQL, sharded, incremental, published safely from Airflow.

Importing this package does nothing: each public name is loaded when it is first used, so that a DAG file pays
only for what it names.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from airflow_sitemaps.errors import ConfigurationError as ConfigurationError
    from airflow_sitemaps.errors import ConflictError as ConflictError
    from airflow_sitemaps.errors import ConnectionNotFoundError as ConnectionNotFoundError
    from airflow_sitemaps.errors import CredentialsError as CredentialsError
    from airflow_sitemaps.errors import GuardError as GuardError
    from airflow_sitemaps.errors import IncompleteError as IncompleteError
    from airflow_sitemaps.errors import InvalidSitemapError as InvalidSitemapError
    from airflow_sitemaps.errors import ManifestError as ManifestError
    from airflow_sitemaps.errors import OwnershipError as OwnershipError
    from airflow_sitemaps.errors import PartlyPublishedError as PartlyPublishedError
    from airflow_sitemaps.errors import RefusedError as RefusedError
    from airflow_sitemaps.errors import RequestError as RequestError
    from airflow_sitemaps.errors import RuleError as RuleError
    from airflow_sitemaps.errors import SitemapError as SitemapError
    from airflow_sitemaps.errors import SourceConfigurationError as SourceConfigurationError
    from airflow_sitemaps.errors import SourceError as SourceError
    from airflow_sitemaps.errors import SourceMovedError as SourceMovedError
    from airflow_sitemaps.errors import StoreContentError as StoreContentError
    from airflow_sitemaps.errors import StoreError as StoreError
    from airflow_sitemaps.errors import TemplateError as TemplateError
    from airflow_sitemaps.errors import TemplateValueError as TemplateValueError
    from airflow_sitemaps.errors import TransientError as TransientError
    from airflow_sitemaps.notifications import SitemapNotifier as SitemapNotifier
    from airflow_sitemaps.operators.announcements import IndexNowOperator as IndexNowOperator
    from airflow_sitemaps.operators.announcements import SearchConsoleSubmitOperator as SearchConsoleSubmitOperator
    from airflow_sitemaps.operators.announcements import SitemapPingOperator as SitemapPingOperator
    from airflow_sitemaps.operators.decisions import Approval as Approval
    from airflow_sitemaps.operators.inspections import BingWebmasterOperator as BingWebmasterOperator
    from airflow_sitemaps.operators.inspections import SearchConsoleInspectOperator as SearchConsoleInspectOperator
    from airflow_sitemaps.operators.inspections import SitemapFetchesOperator as SitemapFetchesOperator
    from airflow_sitemaps.operators.plan import SitemapPlanOperator as SitemapPlanOperator
    from airflow_sitemaps.operators.publish import SitemapPublishOperator as SitemapPublishOperator
    from airflow_sitemaps.operators.publish import SitemapRollbackOperator as SitemapRollbackOperator
    from airflow_sitemaps.operators.publish import SitemapWriteOperator as SitemapWriteOperator
    from airflow_sitemaps.operators.verify import SitemapFreshnessOperator as SitemapFreshnessOperator
    from airflow_sitemaps.operators.verify import SitemapVerifyOperator as SitemapVerifyOperator
    from airflow_sitemaps.pipeline.report import Report as Report
    from airflow_sitemaps.protocol.rules import Verdict as Verdict
    from airflow_sitemaps.search_engines.crawlers import Crawler as Crawler
    from airflow_sitemaps.sensors import SitemapSourceSensor as SitemapSourceSensor
    from airflow_sitemaps.shards.guards import Canary as Canary
    from airflow_sitemaps.shards.guards import Guards as Guards
    from airflow_sitemaps.shards.layout import ShardPolicy as ShardPolicy
    from airflow_sitemaps.sitemap import Section as Section
    from airflow_sitemaps.sitemap import Sitemap as Sitemap
    from airflow_sitemaps.sources.access_log import AccessLog as AccessLog
    from airflow_sitemaps.sources.change_log import ChangeLog as ChangeLog
    from airflow_sitemaps.sources.columns import Observed as Observed
    from airflow_sitemaps.sources.list_source import ListSource as ListSource
    from airflow_sitemaps.sources.sql import SqlSource as SqlSource
    from airflow_sitemaps.stores.azure import AzureBlobStore as AzureBlobStore
    from airflow_sitemaps.stores.gcs import GCSStore as GCSStore
    from airflow_sitemaps.stores.local import LocalStore as LocalStore
    from airflow_sitemaps.stores.memory import MemoryStore as MemoryStore
    from airflow_sitemaps.stores.s3 import S3Store as S3Store
    from airflow_sitemaps.task_group import SitemapTaskGroup as SitemapTaskGroup
    from airflow_sitemaps.web_services import Website as Website

_NAMES = {
    "errors": (
        "ConfigurationError ConflictError ConnectionNotFoundError CredentialsError GuardError IncompleteError "
        "InvalidSitemapError ManifestError OwnershipError PartlyPublishedError RefusedError RequestError "
        "RuleError SitemapError SourceConfigurationError SourceError SourceMovedError StoreContentError "
        "StoreError TemplateError TemplateValueError TransientError"
    ),
    "notifications": "SitemapNotifier",
    "operators.announcements": "IndexNowOperator SearchConsoleSubmitOperator SitemapPingOperator",
    "operators.decisions": "Approval",
    "operators.inspections": "BingWebmasterOperator SearchConsoleInspectOperator SitemapFetchesOperator",
    "operators.plan": "SitemapPlanOperator",
    "operators.publish": "SitemapPublishOperator SitemapRollbackOperator SitemapWriteOperator",
    "operators.verify": "SitemapFreshnessOperator SitemapVerifyOperator",
    "pipeline.report": "Report",
    "protocol.rules": "Verdict",
    "search_engines.crawlers": "Crawler",
    "sensors": "SitemapSourceSensor",
    "shards.guards": "Canary Guards",
    "shards.layout": "ShardPolicy",
    "sitemap": "Section Sitemap",
    "sources.access_log": "AccessLog",
    "sources.change_log": "ChangeLog",
    "sources.columns": "Observed",
    "sources.list_source": "ListSource",
    "sources.sql": "SqlSource",
    "stores.azure": "AzureBlobStore",
    "stores.gcs": "GCSStore",
    "stores.local": "LocalStore",
    "stores.memory": "MemoryStore",
    "stores.s3": "S3Store",
    "task_group": "SitemapTaskGroup",
    "web_services": "Website",
}
"""The public names by the module that holds them."""
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted([*_HOME, "__version__"])  # noqa: PLE0605 - a list, only not written as one


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
