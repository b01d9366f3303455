"""An opened store: two areas of objects and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_sitemaps.ports import ObjectStore


@dataclass(slots=True, kw_only=True)
class OpenedStore:
    """What ``open()`` of every store gives; implements ``ports.Store``.

    ``enforces_conditions`` and ``copies`` are None until the probe has asked.
    """

    public: ObjectStore
    state: ObjectStore
    base_url: str
    index_name: str
    cache_control: str
    enforces_conditions: bool | None = None
    copies: bool | None = False
