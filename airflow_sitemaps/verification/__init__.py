"""Verification: read a published sitemap as a crawler does, and check it against the rules.

Each public name is imported on first use, because the XML parser is slow to import.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_sitemaps.verification.result import Failure as Failure
    from airflow_sitemaps.verification.result import Verification as Verification
    from airflow_sitemaps.verification.result import VerificationOptions as VerificationOptions
    from airflow_sitemaps.verification.subject import VerificationSubject as VerificationSubject
    from airflow_sitemaps.verification.subject import of_address as of_address
    from airflow_sitemaps.verification.subject import of_sitemap as of_sitemap
    from airflow_sitemaps.verification.verifier import verify as verify

_RESULTS = ("Failure", "Verification", "VerificationOptions")

__all__ = [
    "Failure",
    "Verification",
    "VerificationOptions",
    "VerificationSubject",
    "of_address",
    "of_sitemap",
    "verify",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "verifier" if name == "verify" else "result" if name in _RESULTS else "subject"
    return getattr(import_module(f"{__name__}.{home}"), name)
