"""Guards: their settings and permits, what they refuse, and the week that they compare with."""

from airflow_sitemaps.shards.guards.canary import Canary
from airflow_sitemaps.shards.guards.guard_settings import (
    ADDRESS,
    SMALLEST,
    Guards,
    Permit,
    Refusal,
    check_permits,
    permitted,
    refusal_text,
)

__all__ = ["ADDRESS", "SMALLEST", "Canary", "Guards", "Permit", "Refusal", "check_permits", "permitted", "refusal_text"]
