"""The host name of a worker whose processes share a machine with other workers."""

from __future__ import annotations

import os


def worker_name() -> str:
    """Return the name in the environment; Airflow's setting ``[core] hostname_callable`` names this function."""
    return os.environ.get("WORKER_NAME", "here")
