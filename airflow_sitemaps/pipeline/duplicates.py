"""URLs that rows of different shards share: asked of the database on request, since each shard sees only its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_sitemaps.ports import Duplicate
    from airflow_sitemaps.sitemap import Section


def find_duplicates(sections: Sequence[Section], most: int = 20) -> dict[str, tuple[Duplicate, ...]]:
    """Section → up to ``most`` URLs that it has more than once, the most frequent first.

    Within a shard the first of equal URLs is kept and the others counted (rule ``loc-duplicate``); over several shards
    both are listed. Raises SourceError, SourceConfigurationError.
    """
    found = {}
    for section in sections:
        with section.source.open(section=section.name) as source:
            found[section.name] = tuple(source.duplicates(most))
    return found
