"""A real S3 server for tests: Ceph's gateway over one monitor and one OSD in memory, as Debian packages it.

Started as children of the test, on loopback, without authentication between the daemons, in a folder that is removed.
Needs the packages ``radosgw``, ``ceph-mon`` and ``ceph-osd``.
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

from tests.support.s3 import S3Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAMS = ("ceph", "ceph-mon", "ceph-osd", "monmaptool", "radosgw", "radosgw-admin")
READY_S = 90

CONF = """
[global]
fsid = {fsid}
mon_host = [v2:127.0.0.1:{mon_v2},v1:127.0.0.1:{mon_v1}]
public_network = 127.0.0.0/8
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
ms_mon_client_mode = crc
ms_mon_cluster_mode = crc
ms_mon_service_mode = crc
ms_cluster_mode = crc
ms_service_mode = crc
ms_client_mode = crc
osd_objectstore = memstore
osd_crush_chooseleaf_type = 0
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 4
osd_pool_default_pg_autoscale_mode = off
mon_allow_pool_size_one = true
mon_max_pg_per_osd = 1000
mon_data = {folder}/mon
osd_data = {folder}/osd
rgw_data = {folder}/rgw
rgw_frontends = beast endpoint=127.0.0.1:{http}
rgw_thread_pool_size = 32
admin_socket = {folder}/$name.asok
log_file = {folder}/$name.log
crash_dir = {folder}
pid_file =
"""


def missing_programs() -> list[str]:
    """What must be installed before ``radosgw_server`` can start."""
    return [program for program in PROGRAMS if shutil.which(program) is None]


@contextmanager
def radosgw_server(folder: Path) -> Iterator[S3Server]:
    """A gateway with one user, ready to answer. ``folder`` must be empty; its path must be short (sockets)."""
    fsid, osd = str(uuid4()), str(uuid4())
    mon_v2, mon_v1, http = _free_ports(3)
    conf = folder / "ceph.conf"
    conf.write_text(CONF.format(fsid=fsid, folder=folder, mon_v1=mon_v1, mon_v2=mon_v2, http=http))
    for name in ("mon", "osd", "rgw"):
        (folder / name).mkdir()
    monmap = folder / "monmap"
    addresses = f"[v2:127.0.0.1:{mon_v2},v1:127.0.0.1:{mon_v1}]"
    server = S3Server(f"http://127.0.0.1:{http}", label="radosgw")
    with ExitStack() as stack:
        _run("monmaptool", "--create", "--fsid", fsid, "--addv", "a", addresses, str(monmap))
        _run("ceph-mon", "-c", str(conf), "--mkfs", "-i", "a", "--monmap", str(monmap))
        stack.enter_context(_child("ceph-mon", "-c", str(conf), "-i", "a", "-f"))
        _run("ceph", "-c", str(conf), "--connect-timeout", "30", "osd", "new", osd)
        _run("ceph-osd", "-c", str(conf), "-i", "0", "--mkfs", "--osd-uuid", osd)
        stack.enter_context(_child("ceph-osd", "-c", str(conf), "-i", "0", "-f"))
        user = ("user", "create", "--uid=tests", "--display-name=tests")
        keys = (f"--access-key={server.access_key}", f"--secret-key={server.secret_key}")
        _run("radosgw-admin", "-c", str(conf), *user, *keys)
        gateway = stack.enter_context(_child("radosgw", "-c", str(conf), "-n", "client.rgw.a", "-f"))
        _wait_for(server.endpoint, gateway)
        yield server


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=READY_S)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")


@contextmanager
def _child(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon in the foreground, stopped at the end."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)  # nothing that it holds is kept, and a clean stop takes long
        process.wait(30)


def _wait_for(endpoint: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"radosgw ended with {process.returncode} before it was ready")
        try:
            with urllib.request.urlopen(endpoint, timeout=2):
                return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"radosgw was not ready within {READY_S} s")


def _free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)]
        return [s.getsockname()[1] for s in sockets]
