"""BigQuery's real client over its REST interface on loopback: statements are transpiled, and DuckDB runs them.

Rows come in pages of JSON, which the client turns into Arrow; or, with ``storage=True``, as Arrow from
``tests.support.bigquery_storage``.
"""

from __future__ import annotations

import atexit
import json
import re
import threading
from datetime import date, datetime, timezone
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import sqlalchemy as sa

from tests.support import bigquery_storage, transpiled

PAGE_ROWS: Final = 3
PARAMETER: Final = re.compile(r"@`?(\w+)`?")
NUMBERS: Final = ("INT64", "FLOAT64", "NUMERIC", "BIGNUMERIC")
TYPES: Final = transpiled.WAREHOUSES["bigquery"].codes
JOBS: Final[dict[str, dict[str, Any]]] = {}


def lacking() -> str | None:
    """What is missing, or None."""
    return None if "bigquery" in transpiled.NAMES else "sqlalchemy_bigquery is not installed: make test-warehouses"


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    """Run a statement, and return its first page."""
    values = {given["name"]: _literal(given) for given in request.get("queryParameters", ())}
    text = PARAMETER.sub(lambda match: values.get(match[1], match[0]), request["query"])
    rows, described = transpiled.answer("bigquery", text)
    fields = [
        {
            "name": name,
            "type": TYPES.get(kind.partition("(")[0], "INTEGER" if "INT" in kind else "STRING"),
            "mode": "NULLABLE",
        }
        for name, kind in described
    ]
    job = f"job_{len(JOBS)}"
    JOBS[job] = {"fields": fields, "rows": [{"f": [{"v": _cell(value)} for value in row]} for row in rows]}
    bigquery_storage.keep(job, fields, rows)
    return _page(job, 0)


def _page(job: str, start: int) -> dict[str, Any]:
    found = JOBS[job]
    end = start + PAGE_ROWS
    more = {"pageToken": str(end)} if end < len(found["rows"]) else {}
    return {
        "kind": "bigquery#queryResponse", "jobComplete": True, "totalRows": str(len(found["rows"])),
        "schema": {"fields": found["fields"]}, "rows": found["rows"][start:end],
        "jobReference": {"projectId": "mart", "jobId": job, "location": "EU"}, "cacheHit": False, **more,
    }  # fmt: skip


def _job(job: str) -> dict[str, Any]:
    """A query that is done. Its rows are in a temporary table, which the Storage API reads."""
    table = {"projectId": "mart", "datasetId": "_results", "tableId": job}
    return {
        "kind": "bigquery#job", "id": f"mart:EU.{job}", "status": {"state": "DONE"},
        "jobReference": {"projectId": "mart", "jobId": job, "location": "EU"},
        "configuration": {"jobType": "QUERY", "query": {"query": "", "destinationTable": table}},
        "statistics": {"query": {"statementType": "SELECT"}},
    }  # fmt: skip


def _literal(given: dict[str, Any]) -> str:
    value = given["parameterValue"].get("value")
    if value is None:
        return "NULL"
    if given["parameterType"]["type"] in NUMBERS:
        return str(value)
    return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return value.isoformat()
        epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
        past = value - epoch
        return str((past.days * 86_400 + past.seconds) * 1_000_000 + past.microseconds)
    return value.isoformat() if isinstance(value, date) else str(value)


class Handler(BaseHTTPRequestHandler):
    """The interface's ``jobs.query``, ``jobs.getQueryResults`` and ``jobs.get``."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            self._send(200, _answer(json.loads(body)))
        except Exception as error:
            self._send(400, {"error": {"code": 400, "message": str(error), "errors": [{"reason": "invalidQuery"}]}})

    def do_GET(self) -> None:
        kind, job = re.findall(r"/(queries|jobs)/(\w+)", self.path)[0]
        start = re.search(r"pageToken=(\d+)", self.path)
        if kind == "jobs":
            self._send(200, _job(job))
        elif "maxResults=0" in self.path:
            self._send(200, {**_page(job, 0), "rows": []})
        else:
            self._send(200, _page(job, int(start[1]) if start else 0))

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Silent."""


@cache
def _address() -> str:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    atexit.register(server.shutdown)
    return f"http://127.0.0.1:{server.server_address[1]}"


def storage_engine() -> sa.Engine:
    """An engine whose driver reads results of several pages by the Storage API; dispose of it."""
    return engine(storage=bigquery_storage.client())


def engine(storage: Any = None) -> sa.Engine:
    """An engine of sqlalchemy-bigquery; dispose of it."""
    from google.auth.credentials import AnonymousCredentials  # noqa: PLC0415 - only where the packages are
    from google.cloud import bigquery  # noqa: PLC0415
    from google.cloud.bigquery import dbapi  # noqa: PLC0415

    client = bigquery.Client("mart", AnonymousCredentials(), client_options={"api_endpoint": _address()})
    return sa.create_engine(
        "bigquery://mart?user_supplied_client=true",
        creator=lambda: dbapi.connect(client, storage, prefer_bqstorage_client=storage is not None),
    )
