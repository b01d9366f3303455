"""A quick S3 server for measurements: conditional puts and copies, heads, gets, lists, deletes.

It checks no signature. Run as a process of its own, so that its work is not charged to the client:
``python -m benchmarks.sink`` prints its port. Bodies stay in memory; with a folder as argument, in one file there.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
from dataclasses import dataclass
from email.utils import formatdate
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


@dataclass(frozen=True)
class Spooled:
    """A body in the file of all bodies."""

    file: int
    offset: int
    byte_size: int

    def __len__(self) -> int:
        return self.byte_size

    def __bytes__(self) -> bytes:
        return os.pread(self.file, self.byte_size, self.offset)


@dataclass(frozen=True)
class Held:
    """One object."""

    body: bytes | Spooled
    etag: str
    headers: tuple[tuple[str, str], ...]
    modified: str


class Sink:
    """All objects of all buckets by their path. Equal bodies are kept once."""

    def __init__(self, folder: str | None = None) -> None:
        self.objects: dict[str, Held] = {}
        self.bodies: dict[str, bytes | Spooled] = {}
        self.byte_sizes: dict[str, int] = {"in": 0, "out": 0}
        self.file = None if folder is None else os.open(folder, os.O_TMPFILE | os.O_RDWR)
        self.end = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, with as many requests as it brings."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                first, *lines = head.decode("latin-1").split("\r\n")
                method, target, _ = first.split(" ")
                headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines if line)}
                if headers.get("expect", "").lower() == "100-continue":
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                body = await self._body(reader, headers)
                self.byte_sizes["in"] += len(body)
                writer.write(self._answer(method, target, headers, body))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    @staticmethod
    async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if "aws-chunked" not in headers.get("content-encoding", ""):
            return body
        whole, rest = b"", body
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            length = int(size.partition(b";")[0], 16)
            if not length:
                break
            whole, rest = whole + rest[:length], rest[length + 2 :]
        return whole

    def _answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> bytes:
        parts = urlsplit(target)
        path, query = unquote(parts.path), parse_qs(parts.query, keep_blank_values=True)
        if method == "GET" and path == "/-/bytes":
            return _response(200, f"{self.byte_sizes['in']} {self.byte_sizes['out']}".encode())
        if method == "GET" and "list-type" in query:
            return self._list(path, query.get("prefix", [""])[0])
        if method == "PUT" and path.count("/") > 1 and path.strip("/").count("/"):
            return self._put(path, headers, body)
        if method == "PUT":
            return _response(200)
        found = self.objects.get(path)
        if method == "DELETE":
            self.objects.pop(path, None)
            return _response(204)
        if found is None:
            return _response(404, b"" if method == "HEAD" else b"<Error><Code>NoSuchKey</Code></Error>")
        more = (("ETag", found.etag), ("Last-Modified", found.modified), *found.headers)
        if method == "HEAD":
            return _response(200, b"", more, length=len(found.body))
        self.byte_sizes["out"] += len(found.body)
        return _response(200, bytes(found.body), more)

    def _keep(self, etag: str, body: bytes) -> bytes | Spooled:
        if etag in self.bodies or self.file is None:
            return self.bodies.setdefault(etag, body)
        rest = memoryview(body)
        while rest:
            rest = rest[os.pwrite(self.file, rest, self.end + len(body) - len(rest)) :]
        self.bodies[etag] = Spooled(self.file, self.end, len(body))
        self.end += len(body)
        return self.bodies[etag]

    def _put(self, path: str, headers: dict[str, str], body: bytes) -> bytes:
        there = self.objects.get(path)
        refused = headers.get("if-none-match") == "*" and there is not None
        wanted = headers.get("if-match")
        if refused or (wanted is not None and (there is None or wanted.strip('"') != there.etag.strip('"'))):
            return _response(412, b"<Error><Code>PreconditionFailed</Code></Error>")
        source = headers.get("x-amz-copy-source")
        if source is not None:
            return self._copy("/" + unquote(source).lstrip("/"), path, headers)
        etag = '"' + hashlib.md5(body).hexdigest() + '"'
        self.objects[path] = Held(self._keep(etag, body), etag, _kept(headers), formatdate(usegmt=True))
        return _response(200, b"", (("ETag", etag),))

    def _copy(self, source: str, path: str, headers: dict[str, str]) -> bytes:
        """As AWS does it: under conditions of both ends (that of ``path`` holds), with headers of its own."""
        found = self.objects.get(source)
        if found is None:
            return _response(404, b"<Error><Code>NoSuchKey</Code></Error>")
        wanted = headers.get("x-amz-copy-source-if-match")
        if wanted is not None and wanted.strip('"') != found.etag.strip('"'):
            return _response(412, b"<Error><Code>PreconditionFailed</Code></Error>")
        self.objects[path] = Held(found.body, found.etag, _kept(headers), formatdate(usegmt=True))
        return _response(200, f"<CopyObjectResult><ETag>{escape(found.etag)}</ETag></CopyObjectResult>".encode())

    def _list(self, path: str, prefix: str) -> bytes:
        bucket = path.rstrip("/") + "/"
        rows = [
            f"<Contents><Key>{escape(key.removeprefix(bucket))}</Key><ETag>{escape(held.etag)}</ETag>"
            f"<Size>{len(held.body)}</Size><LastModified>2024-01-01T00:00:00.000Z</LastModified></Contents>"
            for key, held in sorted(self.objects.items())
            if key.startswith(bucket + prefix)
        ]
        xmlns = "http://s3.amazonaws.com/doc/2006-03-01/"
        text = f'<ListBucketResult xmlns="{xmlns}"><IsTruncated>false</IsTruncated>{"".join(rows)}</ListBucketResult>'
        return _response(200, text.encode())


def _kept(headers: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((k, v) for k, v in headers.items() if k.startswith("x-amz-meta-") or k == "content-type")


def _response(
    status: int, body: bytes = b"", headers: tuple[tuple[str, str], ...] = (), length: int | None = None
) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body) if length is None else length}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


async def main() -> None:
    """Serve until killed."""
    sink = Sink(*sys.argv[1:2])
    server = await asyncio.start_server(sink.serve, "127.0.0.1", 0, limit=1 << 22)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
