"""Standard streams: only the result is written to standard output. All other output is written to standard error."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

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


@contextmanager
def log_lines(*, verbose: bool) -> Iterator[None]:
    """Write log lines to standard error: warnings of all libraries, and with ``verbose`` this package's INFO lines."""
    root, ours = logging.getLogger(), logging.getLogger("airflow_sitemaps")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", datefmt="%H:%M:%S"))
    earlier = (list(root.handlers), root.level, ours.level)
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    ours.setLevel(logging.INFO if verbose else logging.WARNING)
    try:
        yield
    finally:
        root.handlers[:] = earlier[0]
        root.setLevel(earlier[1])
        ours.setLevel(earlier[2])
