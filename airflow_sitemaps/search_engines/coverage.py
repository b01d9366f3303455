"""Coverage in Search Console by section: observations and their history, kept in the private area.

Each observation is a separate object, so two tasks at the same time lose nothing.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.pipeline.state.conditional_put import ObjectHeaders, put_verified
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.ports import Overwrite

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from airflow_sitemaps.ports import ObjectStore
    from airflow_sitemaps.search_engines.searchconsole import SubmittedSitemap
    from airflow_sitemaps.shards.manifest import Manifest
    from airflow_sitemaps.sitemap import Sitemap

COVERAGE: Final = "coverage/searchconsole/"
"""Prefix of the observations in the private area."""

KEPT: Final = 200
"""Number of observations that are kept."""

COVERAGE_FORMAT: Final = 1
"""Version of an observation's document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexCoverage:
    """The state of one index in Search Console.

    Attributes:
        url: Address of the index.
        section: Section of the index; empty for the index of all sections.
        listed: Number of URLs that the published generation lists in it.
        discovered: Number of URLs that Google found in it, by kind (``web``, ``image``, ``news``, ``video``).
            Default: none.
        errors: Number of errors. Default: 0.
        warnings: Number of warnings. Default: 0.
        pending: Whether Google has not processed it yet. Default: False.
        last_downloaded: Time of Google's last download, RFC 3339. Default: None, if Google has not read it yet.
    """

    url: str
    section: str
    listed: int
    discovered: Mapping[str, int] = field(default_factory=dict)
    errors: int = 0
    warnings: int = 0
    pending: bool = False
    last_downloaded: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The coverage of all indexes of a sitemap at one time.

    Attributes:
        at: Time of the observation, ISO 8601 in UTC.
        generation: The published generation.
        site: The Search Console property.
        indexes: One entry for each index.
    """

    at: str
    generation: int
    site: str
    indexes: tuple[IndexCoverage, ...]


def observe(sitemap: Sitemap, site: str, submitted: Sequence[SubmittedSitemap], now: datetime) -> Observation | None:
    """Store an observation, remove those above ``KEPT``, and return it; None if nothing is published.

    Raises:
        StoreError: The store failed.
    """
    objects = sitemap.store.open().state
    root = StateRepository(objects).root()
    if root is None:
        return None
    observation = Observation(
        at=now.isoformat(),
        generation=root.manifest.generation,
        site=site,
        indexes=tuple(_coverage(root.manifest, each) for each in submitted),
    )
    document = {"format": COVERAGE_FORMAT, **asdict(observation)}
    key = f"{COVERAGE}{now:%Y%m%dT%H%M%S%f}.json"
    put_verified(
        objects,
        key,
        json.dumps(document).encode(),
        mode=Overwrite(),
        write_id=key,
        headers=ObjectHeaders(content_type="application/json"),
    )
    keys = sorted(info.key for info in objects.list(COVERAGE))
    for old in keys[:-KEPT]:
        objects.delete(old)
    return observation


def history(objects: ObjectStore, most: int = KEPT) -> list[Observation]:
    """Return the newest observations, oldest first. Objects that cannot be read are left out.

    Raises:
        StoreError: The store failed.
    """
    keys = sorted(info.key for info in objects.list(COVERAGE))[-most:]
    observations = []
    for key in keys:
        stored = objects.get(key)
        observation = _read(stored.body) if stored is not None else None
        if observation is not None:
            observations.append(observation)
    return observations


def _read(body: bytes) -> Observation | None:
    try:
        document: dict[str, Any] = json.loads(body)
        if document.pop("format") != COVERAGE_FORMAT:
            return None
        indexes = tuple(IndexCoverage(**index) for index in document.pop("indexes"))
        return Observation(**document, indexes=indexes)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _coverage(manifest: Manifest, submitted: SubmittedSitemap) -> IndexCoverage:
    section = section_of(manifest, submitted.path)
    return IndexCoverage(
        url=submitted.path,
        section=section,
        listed=manifest.sections[section].urls if section else manifest.urls,
        discovered=dict(submitted.urls),
        errors=submitted.errors,
        warnings=submitted.warnings,
        pending=submitted.pending,
        last_downloaded=submitted.last_downloaded,
    )


def section_of(manifest: Manifest, index_url: str) -> str:
    """Return the section of an index that lists only one section; empty for the index of all sections."""
    record = manifest.index_record
    if record is not None and record.mode == "one":
        return ""
    stem, _, _ = index_url.removeprefix(manifest.base_url).partition(".")
    names = [name for name in manifest.sections if re.fullmatch(rf".*-{re.escape(name)}(?:-\d+)?", stem, re.ASCII)]
    return max(names, key=len, default="")
