"""Retries of calls to other machines: a limited number, with growing, random pauses."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tenacity import Retrying, before_sleep_log, retry_if_exception_type, stop_after_attempt, wait_random_exponential

if TYPE_CHECKING:
    from logging import Logger


def repeated(
    *errors: type[BaseException], attempts: int, pause_s: float, longest_pause_s: float, log: Logger
) -> Retrying:
    """Return a caller that repeats a function while it raises one of the errors.

    Args:
        errors: Exceptions that justify another attempt; all others are raised at once.
        attempts: Number of calls, the first included.
        pause_s: Upper bound in seconds of the first pause; it doubles with each attempt. The pause is random below its
            bound, so that many workers do not call at once.
        longest_pause_s: Upper bound in seconds of every pause.
        log: Logger of each repetition, at level INFO.

    Returns:
        A callable: ``repeated(...)(function, argument)``. After the last attempt it raises what the function raised.
    """
    return Retrying(
        stop=stop_after_attempt(attempts),
        wait=wait_random_exponential(multiplier=pause_s, max=longest_pause_s),
        retry=retry_if_exception_type(errors),
        before_sleep=before_sleep_log(log, logging.INFO),
        reraise=True,
    )
