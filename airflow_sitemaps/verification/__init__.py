"""Verification: read a published sitemap as a crawler does, and check it against the rules.

Each public name is imported on first use, because the XML parser is slow to import.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_sitemaps.verification.result import Failure, Verification, VerificationOptions
    from airflow_sitemaps.verification.subject import VerificationSubject, of_address, of_sitemap
    from airflow_sitemaps.verification.verifier import verify

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
    homes = {"Failure": "result", "Verification": "result", "VerificationOptions": "result", "verify": "verifier"}
    return getattr(import_module(f"{__name__}.{homes.get(name, 'subject')}"), name)
