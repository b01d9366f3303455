"""The files that a manifest describes, by their public address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_sitemaps.shards.index_layout import address

if TYPE_CHECKING:
    from airflow_sitemaps.shards.manifest import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """The manifest's description of one file.

    Attributes:
        urls: Number of URLs in the file. None for an extra file (feed, recent entries), whose URLs are not counted.
        xml_sha256: SHA-256 of the uncompressed content, in hexadecimal.
        listed: Whether an index lists the file.
    """

    urls: int | None
    xml_sha256: str
    listed: bool


def manifest_files(manifest: Manifest | None) -> dict[str, ManifestFile]:
    """Return every shard and extra file of a generation by its public address.

    Args:
        manifest: The generation. None returns an empty mapping.
    """
    if manifest is None:
        return {}
    files: dict[str, ManifestFile] = {}
    for section in manifest.sections.values():
        for shard in section.shards:
            if shard.file is not None:
                files[address(section, shard.file.name)] = ManifestFile(
                    urls=shard.urls, xml_sha256=shard.file.xml_sha256, listed=True
                )
    for file in manifest.extras:
        files[manifest.base_url + file.name] = ManifestFile(urls=None, xml_sha256=file.xml_sha256, listed=file.listed)
    return files
