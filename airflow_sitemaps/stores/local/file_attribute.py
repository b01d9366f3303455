"""Metadata in an extended attribute of a public file, which a pipeline with another state folder can read.

A sidecar is stored in the state folder of one pipeline. The attribute shows all other pipelines who owns the file. It
belongs to one content: if a program overwrites the file in place, the attribute is no longer valid. On file systems
without extended attributes, other pipelines see a file without metadata.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME: Final = "user.airflow-sitemaps"
"""Name of the attribute. Without privileges only attributes in ``user.`` can be set."""


def write_attribute(handle: int, etag: str, metadata: Mapping[str, str]) -> None:
    """Attach metadata to an open file, if the file system supports it.

    Args:
        etag: Etag of the content that the metadata belongs to.
    """
    if hasattr(os, "setxattr"):  # Linux
        with suppress(OSError):
            os.setxattr(handle, NAME, json.dumps({"etag": etag, "metadata": dict(metadata)}).encode())


def read_attribute(handle: int, etag: str) -> dict[str, str]:
    """Read the metadata that is attached to an open file.

    Returns:
        The metadata. It is empty if there is none, or if it belongs to another content.
    """
    if not hasattr(os, "getxattr"):
        return {}
    try:
        fields = json.loads(os.getxattr(handle, NAME))
        metadata = fields["metadata"] if fields["etag"] == etag else {}
        return {name: value for name, value in metadata.items() if isinstance(name, str) and isinstance(value, str)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
