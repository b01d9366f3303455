"""A worker that is forked again for each run, so that a test can kill it as often as it likes.

Reads one JSON job a line from standard input, forks a child that runs the pipeline, and writes one JSON line when the
child begins and one when it has ended.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import traceback
from importlib import import_module
from typing import Any

from airflow_sitemaps import Guards, LocalStore, S3Store, Section, ShardPolicy, Sitemap
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.testing import MemorySourceConfig

FREE = Guards.disabled()
BASE = "https://www.example.com/maps/"


def rows_of(job: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a version of the table: some change and some come with each version, and every eighth some go.

    It does not grow with the versions: nor does a run, whose every request is to be killed at in turn.
    """
    version = int(job["version"])
    keys = [10 * n for n in range(1, int(job.get("rows", 30)) + 1)] + [7 + 10 * n for n in range(version % 8)]
    return [{"id": key, "loc": f"{BASE}p/{key}", "priority": (key + version) % 3 / 10} for key in sorted(keys)]


def sitemap_of(job: dict[str, Any]) -> Sitemap:
    """The sitemap of a job."""
    store = (
        S3Store(job["url"], base_url=BASE, conn_id=job["conn_id"])
        if job["url"].startswith("s3:")
        else LocalStore(job["url"], base_url=BASE)
    )
    source = MemorySourceConfig(rows_of(job), key="id", priority="priority")
    return Sitemap(store, [Section("pages", source)], shards=ShardPolicy(max_urls=5), guards=FREE)


def child(job: dict[str, Any]) -> int:
    """Run the pipeline once; 0 done, 1 failed. Never returns to the zygote's loop."""
    if "file_size" in job:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (job["file_size"], job["file_size"]))
    try:
        build(sitemap_of(job))
    except Exception:
        traceback.print_exc(limit=-1)
        return 1
    return 0


def warm() -> None:
    """Import now what a run would import: each child would take seconds for it else."""
    for name in (
        "airflow.providers.amazon.aws.hooks.s3", "airflow_sitemaps.shards.stream", "airflow_sitemaps.stores.s3.client",
        "airflow_sitemaps.stores.s3.objects", "boto3", "lxml.etree", "pyarrow.compute",
    ):  # fmt: skip
        import_module(name)


def main() -> None:
    """Jobs in, results out. What the runs say goes nowhere: Airflow logs to standard output."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    warm()
    for line in sys.stdin:
        job = json.loads(line)
        os.environ.update(job.get("environment", {}))
        pid = os.fork()
        if pid == 0:
            os._exit(child(job))
        print(json.dumps({"pid": pid}), file=out, flush=True)
        _, status = os.waitpid(pid, 0)
        print(json.dumps({"code": os.waitstatus_to_exitcode(status)}), file=out, flush=True)


if __name__ == "__main__":
    main()
