"""S3 servers for tests, all on loopback: moto in this process, and how an Airflow connection reaches one."""

from __future__ import annotations

import json
import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from uuid import uuid4

import boto3
from botocore.config import Config
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

from airflow_sitemaps.stores.s3 import S3Store
from airflow_sitemaps.stores.s3.client import connections
from airflow_sitemaps.stores.s3.objects import S3Objects
from tests.support.clients import close_clients

if TYPE_CHECKING:
    from collections.abc import Iterator

REGION = "us-east-1"


@dataclass(frozen=True)
class S3Server:
    """An S3 server, as a test sees it. ``label`` is for ids of tests."""

    endpoint: str
    access_key: str = "test-access-key"
    secret_key: str = "test-secret-key"
    label: str = "moto"

    def client(self) -> Any:
        """A client that does not come from the code under test."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            config=Config(
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
                s3={"addressing_style": "path"},
                retries={"total_max_attempts": 1},
            ),
        )

    def new_bucket(self) -> str:
        """Make a bucket of a fresh name."""
        name = f"bucket-{uuid4().hex[:12]}"
        client = self.client()
        try:
            client.create_bucket(Bucket=name)
        finally:
            client.close()
        return name

    @contextmanager
    def connection(self, conn_id: str, *, endpoint: str | None = None, **config: object) -> Iterator[str]:
        """An Airflow connection to this server, or to something in front of it; clients are closed at the end."""
        kwargs: dict[str, object] = {"retries": {"mode": "standard", "total_max_attempts": 2}, **config}
        variable = f"AIRFLOW_CONN_{conn_id.upper()}"
        extra = {"endpoint_url": endpoint or self.endpoint, "region_name": REGION, "config_kwargs": kwargs}
        login, password = self.access_key, self.secret_key
        os.environ[variable] = json.dumps({"conn_type": "aws", "login": login, "password": password, "extra": extra})
        close_clients(connections, conn_id)  # an earlier test of this process may have opened one of this name
        try:
            yield conn_id
        finally:
            close_clients(connections, conn_id)
            del os.environ[variable]

    @contextmanager
    def store(
        self, *, prefix: str = "maps", endpoint: str | None = None, bucket: str = "", **settings: Any
    ) -> Iterator[S3Store]:
        """A store on a fresh bucket of this server. ``settings`` are those of ``S3Store``."""
        with self.connection(f"s3_{uuid4().hex[:8]}", endpoint=endpoint) as conn_id:
            url = f"s3://{bucket or self.new_bucket()}/{prefix}"
            yield S3Store(url, base_url="https://www.example.com/maps/", conn_id=conn_id, **settings)


class ConditionalCopies:
    """Moto with the conditions of CopyObject, of source and destination, which it ignores and AWS enforces.

    ``prefix``: what precedes the names of the conditions on the destination; R2 has names of its own.
    """

    def __init__(self, moto: Any, prefix: str = "HTTP_") -> None:
        self.moto, self.prefix = moto, prefix

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        source = environ.get("HTTP_X_AMZ_COPY_SOURCE")
        if source and not self._holds(environ, "/" + unquote(source).lstrip("/")):
            start_response("412 Precondition Failed", [("Content-Type", "application/xml")])
            return [b"<Error><Code>PreconditionFailed</Code><Message>a condition does not hold</Message></Error>"]
        return self.moto(environ, start_response)

    def _holds(self, environ: dict[str, Any], source: str) -> bool:
        there = self._etag(environ, environ["PATH_INFO"])
        wanted, source_wanted = environ.get(f"{self.prefix}IF_MATCH"), environ.get("HTTP_X_AMZ_COPY_SOURCE_IF_MATCH")
        if environ.get(f"{self.prefix}IF_NONE_MATCH") == "*" and there is not None:
            return False
        if wanted is not None and there != wanted.strip('"'):
            return False
        return source_wanted is None or self._etag(environ, source) == source_wanted.strip('"')

    def _etag(self, environ: dict[str, Any], path: str) -> str | None:
        told: dict[str, str] = {}

        def start(status: str, headers: list[tuple[str, str]], *_: Any) -> None:
            told.update({name.lower(): value for name, value in headers} if status.startswith("200") else {})

        kept = {name: value for name, value in environ.items() if "IF_" not in name and "COPY" not in name}
        asked = {"REQUEST_METHOD": "HEAD", "PATH_INFO": path, "RAW_URI": path, "REQUEST_URI": path}
        about = {**kept, **asked, "CONTENT_LENGTH": "0", "wsgi.input": BytesIO()}
        for _ in self.moto(about, start):
            pass
        return told["etag"].strip('"') if "etag" in told else None


class GoogleByS3:
    """Moto as Google Cloud Storage by the S3 protocol: conditions by ETag hold for reads only, and writes pass over them."""

    def __init__(self, moto: Any) -> None:
        self.moto = moto

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        if environ["REQUEST_METHOD"] in ("PUT", "DELETE"):
            environ = {
                name: value for name, value in environ.items() if name not in ("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH")
            }
        return self.moto(environ, start_response)


@contextmanager
def moto_server(
    *, conditional_copies: bool = False, copies_as: str = "HTTP_", is_google: bool = False
) -> Iterator[S3Server]:
    """Moto's S3 on a free port of loopback, one request at a time.

    Moto stores an object first and its metadata a moment later, and looks at a condition before it stores: only with
    its requests in a row is it as whole as the servers that it stands for.
    """
    moto = DomainDispatcherApplication(create_backend_app)
    moto = ConditionalCopies(moto, copies_as) if conditional_copies else moto
    moto = GoogleByS3(moto) if is_google else moto
    turn = threading.Lock()

    def application(environ: dict[str, Any], start_response: Any) -> Any:
        with turn:
            return moto(environ, start_response)

    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=MotoRequestHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield S3Server(f"http://127.0.0.1:{server.port}")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def areas(store: S3Store) -> tuple[S3Objects, S3Objects]:
    """The public and the state area of an S3 store, typed as what they are."""
    opened = store.open()
    public, state = opened.public, opened.state
    assert isinstance(public, S3Objects)
    assert isinstance(state, S3Objects)
    return public, state
