"""What the demonstration runs on: an S3 server in this process, and a separate Airflow with its home, database and connections.

``python -m demo.services FILE DAG_ID RESULT`` starts Airflow, waits for a line, makes one DAG run, and writes its result as
JSON to RESULT.
"""

from __future__ import annotations

import gzip
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

BUCKET: Final = "places-web"
SITE: Final = "site/"
STATE: Final = "site-state/"
"""The public and the state area of the sitemap in the bucket."""

DAGS: Final = Path(__file__).parents[1]
"""The folder of the example DAGs, from which ``demo`` is imported."""

SITEMAP: Final = "{http://www.sitemaps.org/schemas/sitemap/0.9}"
REGION: Final = "us-east-1"
USER: Final = "demo-user"
PASSWORD: Final = "demo-password"  # noqa: S105 - the in-process server takes any


STOP_S: Final = 60
"""Seconds that Airflow has to end."""


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
        """Replace a folder by all objects under a prefix, and return their size in bytes."""
        shutil.rmtree(folder, ignore_errors=True)
        total = 0
        for name in self.look(prefix):
            body = self.client.get_object(Bucket=BUCKET, Key=prefix + name)["Body"].read()
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
            total += len(body)
        return total

    def upload(self, prefix: str, folder: Path) -> None:
        """Copy all files of a folder to a prefix."""
        for path in (path for path in folder.rglob("*") if path.is_file()):
            name = path.relative_to(folder).as_posix()
            self.client.put_object(Bucket=BUCKET, Key=prefix + name, Body=path.read_bytes())

    def newest_report(self) -> dict[str, Any]:
        """Return the report of the last run, which the state area keeps, whatever its result."""
        name = max(name for name in self.look(STATE) if name.startswith("reports/"))
        body = self.client.get_object(Bucket=BUCKET, Key=STATE + name)["Body"].read()
        return dict(json.loads(body))


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


class DemoError(RuntimeError):
    """A part of the demonstration failed; the message names its log file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DagRun:
    """A DAG run that ended: ``seconds`` with the start of Airflow included, the states of its tasks, the open questions.

    Each question is its subject and its body, in Markdown.
    """

    seconds: float
    tasks: Mapping[str, str]
    questions: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """An AIRFLOW_HOME below ``work``, with the connections ``places`` and ``aws_default`` in its environment."""

    work: Path
    dags: Path
    warehouse_url: str
    endpoint: str
    settings: Mapping[str, str]
    started: dict[int, subprocess.Popen[str]] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """Return the environment of Airflow's processes, without the Airflow settings of this shell."""
        home = self.work / "airflow"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
        aws_extra = {"endpoint_url": self.endpoint, "region_name": REGION}
        return {
            **inherited,
            "PYTHONPATH": str(DAGS),
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.dags),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "AIRFLOW_CONN_PLACES": json.dumps(
                {"conn_type": "generic", "extra": {"sqlalchemy_url": self.warehouse_url}}
            ),
            "AIRFLOW_CONN_AWS_DEFAULT": json.dumps(
                {"conn_type": "aws", "login": USER, "password": PASSWORD, "extra": aws_extra}
            ),
            **self.settings,
        }

    def start(self, file: str, dag_id: str, number: int) -> None:
        """Start the process of a run, which logs to a file. It ends with this process if the run is never made."""
        (self.work / "airflow").mkdir(parents=True, exist_ok=True)
        result = self.work / f"run-{number}.json"
        command = [sys.executable, "-m", "demo.services", str(self.dags / file), dag_id, str(result)]
        with (self.work / f"run-{number}.log").open("wb") as stream:
            self.started[number] = subprocess.Popen(  # noqa: S603 - our own module
                command,
                env=self.environment(),
                stdin=subprocess.PIPE,
                stdout=stream,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def run(self, file: str, dag_id: str, number: int, *, state: str = "success") -> DagRun:
        """Run a DAG, which must end in a state, in a separate process."""
        log, result = self.work / f"run-{number}.log", self.work / f"run-{number}.json"
        if number not in self.started:
            self.start(file, dag_id, number)
        process, begun = self.started.pop(number), time.monotonic()
        process.communicate("go\n")
        seconds = time.monotonic() - begun
        if process.returncode != 0 or not result.is_file():
            raise DemoError(
                f"run {number} of the DAG {dag_id!r} failed (status {process.returncode}); its log is {log}"
            )
        document = json.loads(result.read_text())
        if document["state"] != state:
            raise DemoError(f"run {number} of the DAG {dag_id!r} ended as {document['state']!r}; its log is {log}")
        return DagRun(seconds=seconds, tasks=document["tasks"], questions=document["questions"])

    def show(self, port: int) -> int:
        """Run all of Airflow, with its UI for this machine only, until Ctrl-C, and return the exit status.

        Raises:
            DemoError: The port is in use.
        """
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError as error:
            raise DemoError(
                f"port {port} is not free: {error.strerror}. Give another one: make demo-page PORT={port + 1}"
            ) from error
        environment = {
            **self.environment(),
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""))),
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(port),
            "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{port}",
            "AIRFLOW__API__WORKERS": "1",
        }
        # A closed terminal ends it, too. A shell starts what runs in the background with SIGINT ignored, which is inherited.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler)
        command = [sys.executable, "-m", "airflow", "standalone"]
        with (self.work / "airflow.log").open("wb") as log:
            process = subprocess.Popen(  # noqa: S603 - Airflow's own command
                command, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        try:
            return process.wait()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)  # its processes get one signal, from it; after two the scheduler hangs
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S)
            return 0
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def main(file: str, dag_id: str, result: str) -> None:
    """Start Airflow, and run the DAG once when a line is read."""
    import httpx
    from airflow.sdk.execution_time.supervisor import in_process_api_server

    from airflow_sitemaps.airflow_compat import DagBag, configuration, initdb
    from airflow_sitemaps.operators.publish import SitemapPublishOperator
    from airflow_sitemaps.pipeline.approvals import question_text, questions_of, staged_plan
    from airflow_sitemaps.pipeline.request import SYSTEM_CLOCK, OpenSitemap

    database = configuration().get("database", "sql_alchemy_conn").removeprefix("sqlite:///")
    is_first = not Path(database).exists()
    # Tasks call Airflow's API within this process. Its first answer takes longer than a run.
    httpx.Client(transport=in_process_api_server().transport, base_url="http://in-process").get("/health")
    if not sys.stdin.readline():
        return
    if is_first:
        initdb()
    bag = DagBag(file)
    if bag.import_errors:
        sys.exit("\n".join(bag.import_errors.values()))
    dag = bag.dags[dag_id]
    run = dag.test()
    tasks = {
        f"{task.task_id}[{task.map_index}]" if task.map_index >= 0 else task.task_id: str(task.state)
        for task in run.get_task_instances()
    }
    publishers = [task for task in dag.tasks if isinstance(task, SitemapPublishOperator)]
    questions = [
        question_text(staged_plan(OpenSitemap.of(publisher.sitemap, SYSTEM_CLOCK), question.run)[0], question)
        for publisher in publishers
        for question in questions_of(publisher.sitemap).values()
    ]
    document = {"state": str(run.state.value), "tasks": tasks, "questions": questions}
    Path(result).write_text(json.dumps(document))


if __name__ == "__main__":
    main(*sys.argv[1:])
