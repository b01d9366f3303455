"""Records of a section that are kept between runs, beside the manifest.

A record only saves work. A run that finds none, or none that fits the section as last committed, surveys every range.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from airflow_sitemaps.pipeline.state.conditional_put import ObjectHeaders, put_verified
from airflow_sitemaps.ports import Overwrite

if TYPE_CHECKING:
    from airflow_sitemaps.pipeline.state.repository import StateRepository
    from airflow_sitemaps.shards.decoder import Decoder
    from airflow_sitemaps.shards.manifest import SectionManifest

log = logging.getLogger(__name__)


class SectionRecord(Protocol):
    """A record: a dataclass of texts, numbers and times."""

    @property
    def changed_in(self) -> int:
        """Generation that had last changed the section when the record was stored."""


R = TypeVar("R", bound=SectionRecord)


def read_record(state: StateRepository, key: str, decoder: Decoder[R], section: SectionManifest, name: str) -> R | None:
    """Read a record.

    Returns:
        The record, or None if there is none that is valid for this state of the section.
    """
    stored = state.objects.get(key)
    if stored is None:
        return None
    try:
        record = decoder.decode(stored.body)
    except (ValueError, RecursionError):
        log.warning("section %s: %s cannot be read and is ignored", section.name, name)
        return None
    return record if record.changed_in == section.changed_in else None


def write_record(state: StateRepository, key: str, record: Any, write_id: str) -> None:
    """Store a record for the next run.

    Args:
        write_id: Identifier of the write, different from that of every other write of the key.
    """
    put_verified(
        state.objects,
        key,
        json.dumps(asdict(record), default=datetime.isoformat).encode(),
        mode=Overwrite(),
        write_id=write_id,
        headers=ObjectHeaders(content_type="application/json"),
    )
