"""Google Cloud Storage on loopback: its JSON API with every condition, and the fake server of PyPI that has most of them."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from base64 import b64encode
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import uuid4

from airflow_sitemaps.stores.gcs import clients
from tests.support.clients import close_clients

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = "STORAGE_EMULATOR_HOST"
PAGE = 1000
OBJECT = re.compile(r"/(?:download/|upload/)?storage/v1/b/([^/]+)/o(?:/([^/]+))?(?:/rewriteTo/b/([^/]+)/o/([^/]+))?")


@dataclass
class Stored:
    """An object of the server."""

    body: bytes
    generation: int
    fields: dict[str, Any]
    updated: datetime


@dataclass
class Buckets:
    """The buckets of a server, and how it differs from the real one.

    ``rewrite_bytes``: how much one request copies, so that a copy takes several. ``ignores``: operations whose conditions
    are not enforced. ``too_fast``: names of objects, and how often the next writes of them are answered with 429.
    ``others``: requests for anything but objects.
    """

    objects: dict[str, dict[str, Stored]] = field(default_factory=dict)
    uploads: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    last: int = 0
    rewrite_bytes: int = 1 << 30
    ignores: frozenset[str] = frozenset()
    too_fast: dict[str, int] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    def generation(self) -> int:
        """A time in microseconds, greater than the last."""
        self.last = max(self.last + 1, time.time_ns() // 1000)
        return self.last


class Refusal(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason = status, reason


class Handler(BaseHTTPRequestHandler):
    """One connection of the JSON API."""

    protocol_version = "HTTP/1.1"
    state: Buckets

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_PUT = do_DELETE = do_GET

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        headers: dict[str, str] = {"Content-Type": "application/json"}
        try:
            with self.state.lock:
                status, content = 200, self._do(parts.path, query, body, headers)
        except Refusal as e:
            error = {"code": e.status, "message": str(e), "errors": [{"reason": e.reason, "message": str(e)}]}
            status, content = e.status, json.dumps({"error": error}).encode()
        if status == 200 and self.command == "DELETE":
            status = 204
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _do(self, path: str, query: dict[str, str], body: bytes, headers: dict[str, str]) -> bytes:
        if path == "/storage/v1/b" and self.command == "POST":
            name = json.loads(body)["name"]
            self.state.objects[name] = {}
            return json.dumps({"kind": "storage#bucket", "name": name}).encode()
        match = OBJECT.fullmatch(path)
        if match is None:
            self.state.others.append(path)
            raise Refusal(400, "invalid", f"no such path: {path}")
        bucket, key, to_bucket, to_key = (unquote(part) if part else "" for part in match.groups())
        if bucket not in self.state.objects:
            raise Refusal(404, "notFound", "The specified bucket does not exist.")
        operation = "copy" if to_key else {"GET": "read", "DELETE": "delete"}.get(self.command, "put")
        self.state.seen.append(operation if key or operation == "put" else "list")
        if to_key:
            return self._rewrite(bucket, key, to_bucket, to_key, query, body)
        if path.startswith("/upload/"):
            return self._upload(bucket, query, body, headers)
        if not key:
            return self._list(bucket, query)
        stored = self._found(bucket, key)
        self._check("delete" if self.command == "DELETE" else "read", query, "ifGenerationMatch", stored)
        if self.command == "DELETE":
            del self.state.objects[bucket][key]
            return b""
        if query.get("alt") != "media":
            return json.dumps(self._resource(bucket, key, stored)).encode()
        headers["Content-Type"] = stored.fields.get("contentType", "application/octet-stream")
        headers["X-Goog-Generation"] = str(stored.generation)
        headers["X-Goog-Hash"] = f"crc32c={_crc32c(stored.body)}"
        if stored.fields.get("contentEncoding"):
            headers["Content-Encoding"] = stored.fields["contentEncoding"]
        return stored.body

    def _upload(self, bucket: str, query: dict[str, str], body: bytes, headers: dict[str, str]) -> bytes:
        if query.get("uploadType") == "multipart":
            text = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
            metadata, media = BytesParser().parsebytes(text + body).get_payload()
            boundary = re.search('boundary="?([^";]+)', self.headers["Content-Type"])
            assert boundary is not None
            raw = body.split(b"--" + boundary[1].encode())[2].partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")
            fields = json.loads(metadata.get_payload(decode=True))
            fields.setdefault("contentType", media.get_content_type())
            return self._put(bucket, fields, query, raw)
        if "upload_id" not in query:
            fields, upload = json.loads(body or b"{}"), uuid4().hex
            fields.setdefault("contentType", self.headers.get("X-Upload-Content-Type", ""))
            fields.setdefault("name", query.get("name", ""))
            self._check("put", query, "ifGenerationMatch", self.state.objects[bucket].get(fields["name"]))
            self.state.uploads[upload] = (bucket, fields, query)
            host = f"http://{self.headers['Host']}"
            headers["Location"] = f"{host}/upload/storage/v1/b/{bucket}/o?uploadType=resumable&upload_id={upload}"
            return b"{}"
        bucket, fields, first = self.state.uploads.pop(query["upload_id"])
        return self._put(bucket, fields, first, body)

    def _put(self, bucket: str, fields: dict[str, Any], query: dict[str, str], body: bytes) -> bytes:
        key = fields["name"]
        self._slow(key)
        self._check("put", query, "ifGenerationMatch", self.state.objects[bucket].get(key))
        return json.dumps(self._resource(bucket, key, self._store(bucket, key, fields, body))).encode()

    def _store(self, bucket: str, key: str, fields: dict[str, Any], body: bytes) -> Stored:
        stored = Stored(body, self.state.generation(), fields, datetime.now(timezone.utc))
        self.state.objects[bucket][key] = stored
        return stored

    def _rewrite(self, bucket: str, key: str, to_bucket: str, to_key: str, query: dict[str, str], body: bytes) -> bytes:
        source = self._found(bucket, key)
        self._slow(to_key)
        self._check("copy", query, "ifSourceGenerationMatch", source)
        self._check("copy", query, "ifGenerationMatch", self.state.objects[to_bucket].get(to_key))
        done = int(query.get("rewriteToken", "0")) + self.state.rewrite_bytes
        answer: dict[str, Any] = {"objectSize": str(len(source.body)), "done": done >= len(source.body)}
        answer["totalBytesRewritten"] = str(min(done, len(source.body)))
        if answer["done"]:
            fields = json.loads(body or b"{}") or source.fields
            stored = self._store(to_bucket, to_key, fields, source.body)
            answer["resource"] = self._resource(to_bucket, to_key, stored)
        else:
            answer["rewriteToken"] = str(done)
        return json.dumps(answer).encode()

    def _list(self, bucket: str, query: dict[str, str]) -> bytes:
        prefix, token = query.get("prefix", ""), query.get("pageToken", "")
        keys = sorted((k for k in self.state.objects[bucket] if k.startswith(prefix)), key=str.encode)
        keys = [k for k in keys if k.encode() > token.encode()]
        items = [self._resource(bucket, k, self.state.objects[bucket][k]) for k in keys[:PAGE]]
        for item in items:
            item.pop("metadata", None)
        more = {"nextPageToken": keys[PAGE - 1]} if len(keys) > PAGE else {}
        return json.dumps({"kind": "storage#objects", "items": items, **more}).encode()

    def _found(self, bucket: str, key: str) -> Stored:
        stored = self.state.objects[bucket].get(key)
        if stored is None:
            raise Refusal(404, "notFound", f"No such object: {bucket}/{key}")
        return stored

    def _slow(self, key: str) -> None:
        if self.state.too_fast.get(key, 0) > 0:
            self.state.too_fast[key] -= 1
            raise Refusal(429, "rateLimitExceeded", "The object exceeded the rate limit for object mutation operations")

    def _check(self, operation: str, query: dict[str, str], name: str, stored: Stored | None) -> None:
        there = stored.generation if stored is not None else 0
        if name in query and operation not in self.state.ignores and int(query[name]) != there:
            raise Refusal(412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.")

    @staticmethod
    def _resource(bucket: str, key: str, stored: Stored) -> dict[str, Any]:
        return stored.fields | {
            "kind": "storage#object",
            "bucket": bucket,
            "name": key,
            "size": str(len(stored.body)),
            "generation": str(stored.generation),
            "metageneration": "1",
            "crc32c": _crc32c(stored.body),
            "updated": stored.updated.isoformat().replace("+00:00", "Z"),
        }


def _crc32c(body: bytes) -> str:
    import google_crc32c  # noqa: PLC0415 - comes with the client

    return b64encode(google_crc32c.value(body).to_bytes(4, "big")).decode()


@dataclass(frozen=True)
class GCSServer:
    """A server of Google Cloud Storage, as a test sees it. ``state``: our own server's content; None: another server."""

    endpoint: str
    state: Buckets | None = None

    def client(self) -> Any:
        """A client that does not come from the code under test."""
        from google.auth.credentials import AnonymousCredentials  # noqa: PLC0415 - an extra
        from google.cloud import storage  # noqa: PLC0415

        options = {"api_endpoint": self.endpoint}
        return storage.Client(project="test", credentials=AnonymousCredentials(), client_options=options)

    def new_bucket(self) -> str:
        """Make a bucket of a fresh name."""
        name = f"bucket-{uuid4().hex[:12]}"
        self.client().create_bucket(name)
        return name

    @contextmanager
    def connection(self, conn_id: str, *, endpoint: str | None = None) -> Iterator[str]:
        """An Airflow connection whose client is made for this server, or for something in front of it."""
        variable, before = f"AIRFLOW_CONN_{conn_id.upper()}", os.environ.get(HOST)
        extra = {"is_anonymous": True, "project": "test"}
        os.environ[variable] = json.dumps({"conn_type": "google_cloud_platform", "extra": extra})
        os.environ[HOST] = endpoint or self.endpoint
        try:
            clients.of(conn_id)
        finally:
            del os.environ[HOST]
            if before is not None:
                os.environ[HOST] = before
        try:
            yield conn_id
        finally:
            close_clients(clients, conn_id)
            del os.environ[variable]


@contextmanager
def gcs_server() -> Iterator[GCSServer]:
    """Serve buckets from memory on a free port of loopback."""
    state = Buckets()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("BoundHandler", (Handler,), {"state": state}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield GCSServer(f"http://127.0.0.1:{server.server_port}", state)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
