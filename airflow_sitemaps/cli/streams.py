"""Standard streams: only the result is written to standard output. All other output is written to standard error."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def answer_stream() -> Iterator[TextIO]:
    """Yield the real standard output. Until the end of the block, all other output is redirected to standard error.

    The redirection covers both the file descriptor and ``sys.stdout``, because Airflow and C libraries print to either.
    """
    sys.stdout.flush()
    try:
        number = sys.stdout.fileno()
        kept = os.dup(number)
    except (OSError, ValueError):  # no file descriptor, as under a test's capture: replace only the name
        own, sys.stdout = sys.stdout, sys.stderr
        try:
            yield own
        finally:
            sys.stdout = own
        return
    own, sys.stdout = sys.stdout, sys.stderr
    os.dup2(sys.stderr.fileno(), number)
    try:
        with os.fdopen(kept, "w", encoding="utf-8", closefd=False) as stream:
            yield stream
    finally:
        sys.stdout = own
        os.dup2(kept, number)
        os.close(kept)


AIRFLOW_LEVEL: Final = "AIRFLOW__LOGGING__LOGGING_LEVEL"
"""Environment variable of the level at which Airflow logs."""


@contextmanager
def log_lines(*, verbose: bool, quiet_airflow: bool = True) -> Iterator[None]:
    """Write log lines to standard error: warnings of all libraries, and with ``verbose`` this package's INFO lines.

    Airflow replaces the handlers and the level of the root logger when it is imported, which may happen within the
    block. So this package's logger has its own handler, and Airflow gets its level from the environment.

    Args:
        quiet_airflow: Whether an Airflow that is imported or started in the block logs warnings only, unless the
            environment says otherwise. Default: True.
    """
    root, ours = logging.getLogger(), logging.getLogger("airflow_sitemaps")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", datefmt="%H:%M:%S"))
    earlier = [(logger, list(logger.handlers), logger.level, logger.propagate) for logger in (root, ours)]
    root.handlers[:] = ours.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    ours.setLevel(logging.INFO if verbose else logging.WARNING)
    ours.propagate = False
    sets_level = quiet_airflow and AIRFLOW_LEVEL not in os.environ
    if sets_level:
        os.environ[AIRFLOW_LEVEL] = "WARNING"
    try:
        yield
    finally:
        for logger, handlers, level, propagate in earlier:
            logger.handlers[:] = handlers
            logger.setLevel(level)
            logger.propagate = propagate
        if sets_level:
            del os.environ[AIRFLOW_LEVEL]
