"""Everything this package raises, grouped by what a handler does about it.

SitemapError
├── ConfigurationError (ValueError)     the user mends code or a connection; no retry helps
│   ├── SourceConfigurationError        connection, table, column, template or query
│   └── OwnershipError                  another pipeline, or nobody we know, owns this address
├── RefusedError                        a guard said no; look at the data, then allow it or mend it; no retry helps
│   ├── GuardError                      shrink, growth, empty, dropped, vanished, …
│   └── RuleError                       a rule set to ``fail`` met a faulty row
├── TransientError                      trying again is right
│   ├── SourceError                     the database failed in the middle of something
│   │   └── SourceMovedError            fewer rows were read than were planned: the table moved under the run
│   ├── StoreError (OSError)            the store failed, or its answer was unclear and could not be read back
│   └── IncompleteError                 not every batch has its receipt yet
├── ConflictError                       somebody else committed first; plan again, do not repeat this step
└── StoreContentError                   what lies in the store is not what we wrote, or not valid
    ├── ManifestError                   a manifest that cannot be read, or is of a newer format
    └── InvalidSitemapError             a published file breaks a rule (verify)

A message says what, where, the limit, and the next step.
"""

from __future__ import annotations


class SitemapError(Exception):
    """Root of all errors of this package."""


class ConfigurationError(SitemapError, ValueError):
    """The user's configuration cannot work; a retry would fail alike."""


class SourceConfigurationError(ConfigurationError):
    """The connection, table, column, template or query of a source is wrong."""


class OwnershipError(ConfigurationError):
    """The address belongs to another pipeline, or holds a sitemap that something else wrote."""


class RefusedError(SitemapError):
    """The run was refused before anything public changed; a retry would be refused alike."""


class GuardError(RefusedError):
    """One or more guards said no. ``refusals`` holds each with its name, section and numbers."""

    def __init__(self, message: str, refusals: tuple[object, ...] = ()) -> None:
        super().__init__(message)
        self.refusals = refusals


class RuleError(RefusedError):
    """A rule whose verdict is ``fail`` met a faulty row."""

    def __init__(self, message: str, *, rule: str = "", section: str = "") -> None:
        super().__init__(message)
        self.rule = rule
        self.section = section


class TransientError(SitemapError):
    """Something failed that may well work the next time."""


class SourceError(TransientError):
    """The database failed while it was being asked."""


class SourceMovedError(SourceError):
    """Fewer rows were read than the plan counted: the table moved under the run."""


class StoreError(TransientError, OSError):
    """The store failed, or its answer was unclear and could not be read back."""


class IncompleteError(TransientError):
    """The plan cannot be published: a batch has no receipt."""


class ConflictError(SitemapError):
    """Another run committed first; this one is stale and must be planned anew. ``winner`` names the other."""

    def __init__(self, message: str, *, winner: str = "") -> None:
        super().__init__(message)
        self.winner = winner


class StoreContentError(SitemapError):
    """An object in the store is damaged or not ours."""


class ManifestError(StoreContentError):
    """A manifest cannot be read: damaged, or written by a newer version of this package."""


class InvalidSitemapError(StoreContentError):
    """A published sitemap breaks the rules of the protocol."""
