"""PgBouncer, from Debian's packages, in front of a PostgreSQL server of the tests."""

from __future__ import annotations

import shutil
import signal
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from tests.support.databases import own_folder, stop, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def pgbouncer(url: str, mode: str, *, connections: int, wait_s: int = 120) -> Iterator[str]:
    """Run PgBouncer with so many server connections, which clients wait for; yield the URL of the same database through it."""
    program = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/bin")
    if program is None:
        pytest.skip("PgBouncer is not installed (Debian: apt-get install pgbouncer)")
    server = sa.make_url(url)
    folder, user = own_folder("pgbouncer")
    settings = folder / "pgbouncer.ini"
    settings.write_text(
        f"[databases]\n* = host={server.query['host']} user={server.username}\n"
        f"[pgbouncer]\nlisten_addr =\nunix_socket_dir = {folder}\nauth_type = any\npool_mode = {mode}\n"
        f"default_pool_size = {connections}\nlogfile = {folder / 'log'}\nquery_wait_timeout = {wait_s}\nignore_startup_parameters = extra_float_digits\n"
    )
    process = subprocess.Popen([program, settings], user=user, start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        pooled = server.set(query={**server.query, "host": str(folder), "port": "6432"})
        wait_for(pooled.render_as_string(hide_password=False), process, folder / "log")
        yield pooled.render_as_string(hide_password=False)
    finally:
        stop(process, signal.SIGINT)
