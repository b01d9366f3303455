"""Stores of files, by the scheme of their addresses: a local folder, S3, Google Cloud Storage, Azure Blob Storage; and memory.

Another distribution registers a store by an entry point in the group ``airflow_sitemaps.stores``. Its name is the scheme, such
as ``oss``. Its value is a function with the arguments of ``open_area``.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Final

from airflow_sitemaps import setting_checks
from airflow_sitemaps.errors import ConfigurationError

if TYPE_CHECKING:
    from airflow_sitemaps.ports import ObjectStore

GROUP: Final = "airflow_sitemaps.stores"
FOLDER: Final = "file"
"""Scheme of an address without one: a path."""

_OWN: Final = {
    FOLDER: "airflow_sitemaps.stores.local:open_area",
    "az": "airflow_sitemaps.stores.azure:open_area",
    "gs": "airflow_sitemaps.stores.gcs:open_area",
    "https": "airflow_sitemaps.stores.azure:open_area",  # an account's address
    "s3": "airflow_sitemaps.stores.s3:open_area",
}

_CONNECTIONS: Final = {"az": "wasb_default", "https": "wasb_default", "gs": "google_cloud_default", "s3": "aws_default"}
"""Airflow's default connection of each scheme."""


def default_connection(url: str) -> str | None:
    """Return Airflow's default connection for an address. None: its store needs none, or is not one of this package."""
    return _CONNECTIONS.get(scheme_of(url))


def scheme_of(url: str) -> str:
    """Return the scheme of an address in lower case; ``file`` for a path."""
    scheme, separator, _ = url.partition("://")
    return scheme.lower() if separator else FOLDER


def registered(scheme: str) -> EntryPoint | None:
    """Return the entry point of a scheme. Those of this package cannot be replaced."""
    if scheme in _OWN:
        return EntryPoint(name=scheme, value=_OWN[scheme], group=GROUP)
    return next((each for each in entry_points(group=GROUP) if each.name.lower() == scheme), None)


def open_area(url: str, conn_id: str | None) -> ObjectStore:
    """Open an area of a store for reading. Nothing is created. ``conn_id`` None: the credentials of the machine."""
    if (entry := registered(scheme_of(url))) is None:
        schemes = sorted({*_OWN} - {"https"} | {*(each.name.lower() for each in entry_points(group=GROUP))})
        raise ConfigurationError(
            f"{url!r}: no store has the scheme {scheme_of(url)!r}. The schemes are {', '.join(schemes)}; install "
            f"the distribution that registers it in the entry points {GROUP!r}"
        )
    opened: ObjectStore = setting_checks.loaded(entry)(url, conn_id)
    return opened
