"""Public files that take over the name of an earlier file."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec.structs import replace

from airflow_sitemaps.shards.manifest import PAST_CONTENTS

if TYPE_CHECKING:
    from datetime import datetime

    from airflow_sitemaps.shards.manifest import PublicFile


def succeed(before: PublicFile, after: PublicFile) -> PublicFile:
    """Return ``after`` as the successor of ``before``, in a variant that the name has not had with this content."""
    past = (*before.past, f"{before.xml_sha256[:16]}:{before.variant}")[-PAST_CONTENTS:]
    seen = [int(entry.partition(":")[2]) for entry in past if entry.startswith(after.xml_sha256[:16] + ":")]
    variant = max(seen) + 1 if seen else 0
    return replace(after, past=past, variant=variant, modified_at=later(after.modified_at, before.modified_at))


def restore(file: PublicFile, current_etag: str | None, now: datetime) -> PublicFile:
    """Return a file that another program changed or deleted, to be put again with the same bytes.

    Args:
        current_etag: Etag of the object that now has its name, or None if there is none.
    """
    return replace(file, etag=None, replaces=current_etag, modified_at=later(now, file.modified_at))


def later(now: datetime, before: datetime) -> datetime:
    """Return the time of a change: ``now``, but at least one second after the previous change.

    A crawler reads a file again only if its ``lastmod`` increases, and the index writes ``lastmod`` in whole seconds.
    Clocks of workers differ, and two commits may share a second.
    """
    return max(now, before + timedelta(seconds=1))
