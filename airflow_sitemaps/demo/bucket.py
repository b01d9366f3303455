"""An S3 server in this process, the content of its bucket, and a check of it, read like a crawler."""

from __future__ import annotations

import gzip
import logging
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

BUCKET: Final = "places-web"
SITEMAP: Final = "{http://www.sitemaps.org/schemas/sitemap/0.9}"
REGION: Final = "us-east-1"
USER: Final = "demo-user"
PASSWORD: Final = "demo-password"  # noqa: S105 - the in-process server takes any


@dataclass(frozen=True, slots=True)
class Seen:
    """A listed object: its etag, the time of its last change, and its size in bytes."""

    etag: str
    modified: str
    byte_size: int


@dataclass(frozen=True, slots=True)
class Difference:
    """The files of a folder that changed between two listings, and the size in bytes of the new and changed ones."""

    untouched: int
    changed: int
    new: int
    gone: int
    byte_size: int


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket of the server at ``endpoint``."""

    endpoint: str
    client: Any

    def look(self, prefix: str) -> dict[str, Seen]:
        """Return all objects under a prefix, by their name below it."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return {
            entry["Key"][len(prefix) :]: Seen(entry["ETag"], entry["LastModified"].isoformat(), entry["Size"])
            for page in pages
            for entry in page.get("Contents", ())
        }

    def download(self, prefix: str, folder: Path) -> int:
        """Copy all objects under a prefix to a folder, and return their size in bytes."""
        total = 0
        for name in self.look(prefix):
            body = self.client.get_object(Bucket=BUCKET, Key=prefix + name)["Body"].read()
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
            total += len(body)
        return total


def difference(before: Mapping[str, Seen], after: Mapping[str, Seen]) -> Difference:
    """Compare two listings by etag and time."""
    both = before.keys() & after.keys()
    changed = {name for name in both if before[name] != after[name]}
    new = after.keys() - before.keys()
    return Difference(
        untouched=len(both) - len(changed),
        changed=len(changed),
        new=len(new),
        gone=len(before.keys() - after.keys()),
        byte_size=sum(after[name].byte_size for name in changed | new),
    )


@contextmanager
def serve() -> Iterator[Bucket]:
    """Start moto's server on a free port, create the bucket, and stop the server at the end."""
    import boto3
    from botocore.config import Config
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # else it prints every request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name=REGION,
            aws_access_key_id=USER,
            aws_secret_access_key=PASSWORD,
            config=Config(s3={"addressing_style": "path"}),
        )
        client.create_bucket(Bucket=BUCKET)
        yield Bucket(endpoint, client)
    finally:
        server.stop()


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Totals of the files that the index lists; ``not_ascii`` counts URLs with percent-encoded letters beyond ASCII."""

    files: int
    urls: int
    distinct: int
    not_ascii: int
    examples: tuple[str, ...]


def read_site(folder: Path, base_url: str, index: str = "sitemap.xml") -> Checked:
    """Read all files that the index in a folder lists."""
    from xml.etree import ElementTree as ET

    seen: set[str] = set()
    urls = 0
    names = [
        (loc.text or "").removeprefix(base_url)
        for loc in ET.parse(folder / index).iter(f"{SITEMAP}loc")  # noqa: S314
    ]
    for name in names:
        with gzip.open(folder / name) as stream:
            locs = [loc.text or "" for loc in ET.parse(stream).iter(f"{SITEMAP}loc")]  # noqa: S314
        urls += len(locs)
        seen.update(locs)
    encoded = sorted(loc for loc in seen if "%" in loc)
    examples = tuple(encoded[:: max(1, len(encoded) // 3)][:3])
    return Checked(files=len(names), urls=urls, distinct=len(seen), not_ascii=len(encoded), examples=examples)
