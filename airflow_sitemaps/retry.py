"""Retries of calls to other machines: a limited number, with growing random pauses or the pauses they request."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from tenacity import Retrying, before_sleep_log, retry_if_exception, stop_after_attempt, wait_random_exponential

if TYPE_CHECKING:
    from collections.abc import Callable
    from logging import Logger

    from tenacity import RetryCallState


def repeated(
    *errors: type[BaseException],
    attempts: int,
    pause_s: float,
    longest_pause_s: float,
    log: Logger,
    requested_s: Callable[[BaseException], float | None] = lambda error: None,
    sleep: Callable[[float], None] = time.sleep,
) -> Retrying:
    """Return a retrier: ``repeated(...)(function, argument)`` calls a function again while it raises one of the errors.

    All other errors, and the last one, are raised. Each pause in seconds is random, so that many workers do not call at
    once; its bound doubles from ``pause_s`` to ``longest_pause_s``. An error that requests a longer one
    (``requested_s``) is raised at once.
    """
    growing = wait_random_exponential(multiplier=pause_s, max=longest_pause_s)

    def is_repeated(error: BaseException) -> bool:
        return isinstance(error, errors) and (requested_s(error) or 0.0) <= longest_pause_s

    def pause(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        requested = requested_s(error) if error is not None else None
        return growing(state) if requested is None else requested

    return Retrying(
        stop=stop_after_attempt(attempts),
        wait=pause,
        retry=retry_if_exception(is_repeated),
        before_sleep=before_sleep_log(log, logging.INFO),
        sleep=sleep,
        reraise=True,
    )
