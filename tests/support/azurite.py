"""Azurite, Microsoft's emulator of Azure Blob Storage, in memory on loopback; ``make test-stores-deps`` installs it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from airflow_sitemaps.stores.azure import connections
from tests.support.clients import close_clients

if TYPE_CHECKING:
    from collections.abc import Iterator

ACCOUNT = "devstoreaccount1"
KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="  # Azurite's, documented
)
HOME = Path(__file__).parents[2] / ".test" / "azurite"
READY_S = 120


def azurite_program() -> str | None:
    """Where Azurite is, or None."""
    own = HOME / "node_modules" / ".bin" / "azurite-blob"
    return str(own) if own.exists() else shutil.which("azurite-blob")


@dataclass(frozen=True)
class AzureServer:
    """An Azure server, as a test sees it."""

    endpoint: str

    def client(self) -> Any:
        """A client that does not come from the code under test."""
        from azure.storage.blob import BlobServiceClient  # noqa: PLC0415 - an extra

        return BlobServiceClient(self.endpoint, credential=KEY)

    def new_container(self) -> str:
        """Make a container of a fresh name."""
        name = f"container-{uuid4().hex[:12]}"
        with self.client() as client:
            client.create_container(name)
        return name

    @contextmanager
    def connection(self, conn_id: str, *, endpoint: str | None = None, **extra: object) -> Iterator[str]:
        """An Airflow connection to this server, or to something in front of it."""
        account = f"{endpoint or self.endpoint}"
        text = f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={account};"
        variable = f"AIRFLOW_CONN_{conn_id.upper()}"
        os.environ[variable] = json.dumps({"conn_type": "wasb", "extra": {"connection_string": text, **extra}})
        try:
            yield conn_id
        finally:
            close_clients(connections, conn_id)
            del os.environ[variable]


@contextmanager
def azurite_server(program: str) -> Iterator[AzureServer]:
    """Serve blobs from memory on a free port of loopback."""
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    command = [program, "--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence"]
    process = subprocess.Popen(
        [*command, "--silent", "--skipApiVersionCheck", "--disableTelemetry"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(port, process)
        yield AzureServer(f"http://127.0.0.1:{port}/{ACCOUNT}")
    finally:
        process.terminate()
        process.wait(30)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"Azurite ended with {process.returncode} before it was ready")
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"Azurite did not listen on port {port} within {READY_S} s")
