"""The names that users import, and that they are all."""

from __future__ import annotations

import subprocess
import sys

import airflow_sitemaps
from airflow_sitemaps import errors

PUBLIC = {
    "AccessLog",
    "Approval",
    "AzureBlobStore",
    "Canary",
    "ChangeLog",
    "ConfigurationError",
    "ConflictError",
    "ConnectionNotFoundError",
    "Crawler",
    "BingWebmasterOperator",
    "CredentialsError",
    "GuardError",
    "IncompleteError",
    "InvalidSitemapError",
    "ManifestError",
    "OwnershipError",
    "PartlyPublishedError",
    "RefusedError",
    "RequestError",
    "RuleError",
    "SitemapError",
    "SourceConfigurationError",
    "SourceError",
    "SourceMovedError",
    "StoreContentError",
    "StoreError",
    "TemplateError",
    "TemplateValueError",
    "TransientError",
    "Report",
    "Verdict",
    "GCSStore",
    "Guards",
    "IndexNowOperator",
    "ListSource",
    "Observed",
    "LocalStore",
    "MemoryStore",
    "S3Store",
    "SearchConsoleInspectOperator",
    "SearchConsoleSubmitOperator",
    "Section",
    "ShardPolicy",
    "Sitemap",
    "SitemapFetchesOperator",
    "SitemapFreshnessOperator",
    "SitemapNotifier",
    "SitemapPingOperator",
    "SitemapPlanOperator",
    "SitemapPublishOperator",
    "SitemapRollbackOperator",
    "SitemapSourceSensor",
    "SitemapTaskGroup",
    "SitemapVerifyOperator",
    "SitemapWriteOperator",
    "SqlSource",
    "Website",
    "__version__",
}


def test_the_public_names_are_these() -> None:
    assert set(airflow_sitemaps.__all__) == PUBLIC
    assert set(dir(airflow_sitemaps)) == PUBLIC
    assert all(getattr(airflow_sitemaps, name) for name in PUBLIC)


def test_every_error_is_public() -> None:
    """What is raised across a package border is exported from the package's root."""
    kinds = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert kinds <= PUBLIC


def test_another_name_is_an_attribute_error() -> None:
    assert not hasattr(airflow_sitemaps, "SiteMap")


def test_importing_the_package_does_nothing() -> None:
    code = "import sys; before = set(sys.modules); import airflow_sitemaps\nnew = set(sys.modules) - before; print(sorted(m for m in new if m.partition('.')[0] not in sys.stdlib_module_names))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "['airflow_sitemaps']"
