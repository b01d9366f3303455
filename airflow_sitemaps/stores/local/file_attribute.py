"""Metadata in an extended attribute of a public file, which another pipeline with another state folder can read.

A sidecar is stored in the state folder of one pipeline. The attribute tells every other one whose the file is. It
belongs to one content: a program that overwrites the file in place leaves an attribute that no longer counts. Where the
file system has no extended attributes, other pipelines see a file without metadata.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME: Final = "user.airflow-sitemaps"
"""Name of the attribute; only ``user.`` attributes may be set without privileges."""


def write_attribute(handle: int, etag: str, metadata: Mapping[str, str]) -> None:
    """Attach metadata to an open file, where the file system can.

    Args:
        handle: Descriptor of the file.
        etag: Etag of the content that the metadata belongs to.
        metadata: The object's metadata.
    """
    if hasattr(os, "setxattr"):  # Linux
        with suppress(OSError):
            os.setxattr(handle, NAME, json.dumps({"etag": etag, "metadata": dict(metadata)}).encode())


def read_attribute(handle: int, etag: str) -> dict[str, str]:
    """Read the metadata that is attached to an open file.

    Args:
        handle: Descriptor of the file.
        etag: Etag of its content.

    Returns:
        The metadata; empty where there is none, or where it belongs to another content.
    """
    if not hasattr(os, "getxattr"):
        return {}
    try:
        fields = json.loads(os.getxattr(handle, NAME))
        metadata = fields["metadata"] if fields["etag"] == etag else {}
        return {name: value for name, value in metadata.items() if isinstance(name, str) and isinstance(value, str)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
