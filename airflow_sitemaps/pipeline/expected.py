"""What a manifest says about published files, by their public address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_sitemaps.shards.index import address

if TYPE_CHECKING:
    from airflow_sitemaps.shards.manifest import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """One file: its ``urls`` (None: not counted), the sha256 of its content, whether an index lists it."""

    urls: int | None
    xml_sha256: str
    listed: bool


def expected_files(manifest: Manifest | None) -> dict[str, Expected]:
    """Every shard and extra file of a generation by its address; none where there is no manifest."""
    expected: dict[str, Expected] = {}
    for section in manifest.sections.values() if manifest is not None else ():
        for shard in section.shards:
            if shard.file is not None:
                where = address(section, shard.file.name)
                expected[where] = Expected(urls=shard.urls, xml_sha256=shard.file.xml_sha256, listed=True)
    for file in manifest.extras if manifest is not None else ():
        where = manifest.base_url + file.name if manifest is not None else file.name
        expected[where] = Expected(urls=None, xml_sha256=file.xml_sha256, listed=file.listed)
    return expected
