"""The API server's first requests, eight at the same moment, often: python -m tests.plugin.first_requests FOLDER.

Each try is a fork of a process that has made the application and answered nothing. Prints how the tries ended that did
not answer every request.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from airflow import settings
from airflow.api_fastapi.app import create_app, get_auth_manager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.utils.session import create_session
from fastapi.testclient import TestClient

from airflow_sitemaps.shards.codec import encode
from tests.support.airflow_db import database
from tests.support.plugin_factories import add_history, manifest

TRIES = 4
SITES = 4
HANG_S = 120
"""Seconds until the kernel ends a try."""


def attempt(application: Any) -> None:
    """Request the map of each sitemap, and a URL of each, at the same moment; end the process: 0 if all have answers."""
    signal.alarm(HANG_S)
    settings.engine.dispose(close=False)  # the parent's connections are not this process's
    token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="admin", role="ADMIN"))
    client = TestClient(application, base_url="http://testserver/", headers={"Authorization": f"Bearer {token}"})
    wanted = [
        (
            "shards" if n < SITES else "find",
            {"asset": f"s3://shop-{n % SITES}/sitemap.xml", "url": "https://shop.example/p"},
        )
        for n in range(2 * SITES)
    ]
    wanted = [(f"sitemap/{name}" if name == "shards" else name, params) for name, params in wanted]
    barrier, answers = threading.Barrier(len(wanted)), []

    def request(name: str, params: dict[str, str]) -> None:
        barrier.wait()
        answer = client.get(f"/sitemaps-ui/api/{name}", params=params)
        answers.append((answer.status_code, answer.json().get("unavailable")))

    threads = [threading.Thread(target=request, args=one) for one in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = [(200, None)] * len(wanted)
    if answers != expected:
        print(answers, file=sys.stderr, flush=True)
    os._exit(0 if answers == expected else 1)


def main(folder: Path) -> None:
    """Print how the tries ended that did not end well."""
    database()
    with create_session() as session:
        for n in range(SITES):
            state = folder / f"state-{n}"
            state.mkdir()
            (state / "manifest.json.gz").write_bytes(encode(manifest(200)))
            add_history(session, f"s3://shop-{n}/sitemap.xml", f"shop_{n}", 2, state_url=str(state))
    application, ends = create_app(), Counter[str]()
    sys.setswitchinterval(1e-6)
    for _ in range(TRIES):
        child = os.fork()
        if child == 0:
            attempt(application)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code:
            ends[signal.Signals(-code).name if code < 0 else f"exit {code}"] += 1
    print(dict(ends))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
