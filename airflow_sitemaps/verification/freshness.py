"""Freshness from outside: the age of a sitemap's indexes as a crawler gets them over HTTP."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.http.client import FetchError
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.pipeline.status import last_check
from airflow_sitemaps.protocol.limits import CURRENT
from airflow_sitemaps.protocol.validation.findings import Findings
from airflow_sitemaps.protocol.validation.reader import read, unpack
from airflow_sitemaps.protocol.validation.validator import moment

if TYPE_CHECKING:
    from airflow_sitemaps.ports import StoreConfig
    from airflow_sitemaps.shards.manifest import Manifest
    from airflow_sitemaps.verification.fetchers import Fetcher


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedIndex:
    """An index as served.

    Attributes:
        url: Address of the index.
        age_s: Its age in seconds; None if the index could not be read, or if its age is unknown.
        current: Whether it is the index of the published generation.
        message: Description of the index's state.
    """

    url: str
    age_s: float | None
    current: bool
    message: str

    def to_dict(self) -> dict[str, Any]:
        """Return the index as JSON values."""
        return asdict(self)


def served_indexes(store: StoreConfig, fetcher: Fetcher, now: datetime) -> list[ServedIndex]:
    """Read every index of a sitemap over HTTP, and determine its age.

    The index of the published generation is as old as the last run that published or found nothing to change. An index
    of an earlier generation, which a cache still serves, is as old as the commit that replaced it. Any other index is
    as old as its newest ``lastmod``.

    Raises:
        ConfigurationError: Nothing is published yet.
        StoreError: The state cannot be read.
    """
    state = StateRepository(store.open().state)
    root = state.root()
    if root is None:
        raise ConfigurationError(f"{store.describe()}: nothing is published yet. Build the sitemap first")
    checked = last_check(state)
    last_success = datetime.fromisoformat(checked) if checked else root.manifest.committed_at
    return [
        _served_index(root.manifest, state, index.name, fetcher, last_success, now) for index in root.manifest.indexes
    ]


def _served_index(
    manifest: Manifest, state: StateRepository, name: str, fetcher: Fetcher, last_success: datetime, now: datetime
) -> ServedIndex:
    url = manifest.base_url + name
    try:
        response = fetcher.get(url)
    except FetchError as error:
        return ServedIndex(url=url, age_s=None, current=False, message=f"not readable: {error}")
    if response.status != 200:
        return ServedIndex(url=url, age_s=None, current=False, message=f"the status is {response.status}, not 200")
    content = unpack(response.body, Findings(), CURRENT)
    checksum = hashlib.sha256(content).hexdigest()
    if checksum in _checksums(manifest, name):
        age_s = max(0.0, (now - last_success).total_seconds())
        message = f"generation {manifest.generation}; the last successful run ended at {last_success.isoformat()}"
        return ServedIndex(url=url, age_s=age_s, current=True, message=message)
    replaced_at = manifest.committed_at
    for note in sorted(manifest.history, key=lambda note: note.generation, reverse=True):
        earlier = state.generation(note.generation) if note.generation < manifest.generation else None
        if earlier is None:
            continue
        if checksum in _checksums(earlier, name):
            age_s = max(0.0, (now - replaced_at).total_seconds())
            message = (
                f"outdated: generation {earlier.generation}, replaced at {replaced_at.isoformat()}; purge the cache"
            )
            return ServedIndex(url=url, age_s=age_s, current=False, message=message)
        replaced_at = earlier.committed_at
    newest = max(filter(None, map(moment, read(response.body).entries)), default=None)
    age: float | None = None if newest is None else max(0.0, (now - newest).total_seconds())
    return ServedIndex(url=url, age_s=age, current=False, message="not an index of this sitemap's kept generations")


def _checksums(manifest: Manifest, name: str) -> set[str]:
    return {index.xml_sha256 for index in manifest.indexes if index.name == name}
