"""Decode a body for the first time in eight threads of a fresh process, often: python -m tests.shards.first_decodes FOLDER.

The folder has a body for each reader. Each try is a fork of a process that has imported the decoders and decoded
nothing. Prints for each reader how many of the tries were killed by a signal, SIGALRM for one that hangs, or raised an
error.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_sitemaps.pipeline.plan import surveys
from airflow_sitemaps.pipeline.state import repository
from airflow_sitemaps.plugin import state_reader
from airflow_sitemaps.search_engines import fetches, index_status, inspection, quota, searchconsole
from airflow_sitemaps.shards import codec

if TYPE_CHECKING:
    from collections.abc import Callable

TRIES = 60
THREADS = 8
HANG_S = 60
"""Seconds until the kernel ends a try: a thread that loops with the GIL cannot be ended from Python."""

READERS: dict[str, Callable[[bytes], Any]] = {
    "manifest": codec.decode_manifest,
    "plan": codec.decode_plan,
    "receipt": codec.decode_receipt,
    "gone": codec.decode_gone,
    "early": lambda body: codec.decode_early(body, "e"),
    "report": state_reader._REPORT.decode,
    "run_report": repository._REPORT.decode,
    "announcement": repository._ANNOUNCED.decode,
    "known": surveys._RECORD.decode,
    "observation": index_status._OBSERVATION.decode,
    "coverage": searchconsole._OBSERVATION.decode,
    "rotation": inspection._ROTATION.decode,
    "spent": quota._SPENT.decode,
    "fetch_record": fetches._RECORD.decode,
    "fetches": fetches._SUMMARY.decode,
}


def attempt(read: Callable[[bytes], Any], body: bytes) -> None:
    """Decode in every thread at the same moment, and end the process: 0 if all succeeded."""
    signal.alarm(HANG_S)
    barrier, errors = threading.Barrier(THREADS), []

    def first() -> None:
        barrier.wait()
        try:
            read(body)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=first) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        print(repr(errors[0]), file=sys.stderr, flush=True)
    os._exit(1 if errors else 0)


def main(folder: str) -> None:
    """Print how the tries ended that did not end well."""
    sys.setswitchinterval(1e-6)
    found = {}
    for name, read in READERS.items():
        body, ends = (Path(folder) / name).read_bytes(), Counter[str]()
        for _ in range(TRIES):
            child = os.fork()
            if child == 0:
                attempt(read, body)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if code:
                ends[signal.Signals(-code).name if code < 0 else f"exit {code}"] += 1
        found[name] = dict(ends)
    print(found)


if __name__ == "__main__":
    main(sys.argv[1])
