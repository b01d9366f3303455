"""All exceptions of this package, grouped by what a handler does about them.

SitemapError
├── ConfigurationError (ValueError)     the user corrects code or a connection; no retry helps
│   ├── SourceConfigurationError        connection, table, column, template or query
│   │   ├── ConnectionNotFoundError     the connection is not defined; retry, as a secrets backend may recover
│   │   └── TemplateError               a template uses a word that this run does not define
│   │       └── TemplateValueError      Airflow does not return a variable or connection that it uses; retry
│   ├── CredentialsError                no credentials; retry, as a metadata service may recover
│   ├── RequestError                    a run's request names a section, shard, guard or group that does not exist
│   └── OwnershipError                  another pipeline or an unknown program owns this address
├── RefusedError                        refused; check the data, then permit the change or correct the data; no retry helps
│   ├── GuardError                      shrink, growth, empty, dropped, vanished, …
│   └── RuleError                       a faulty row broke a rule that is set to ``fail``
├── TransientError                      a retry may succeed
│   ├── SourceError                     the database failed during a query
│   │   └── SourceMovedError            fewer rows were read than planned: the table changed during the run
│   ├── StoreError (OSError)            the store failed, or its answer was unclear and could not be read back
│   └── IncompleteError                 a batch has no receipt, or a body is missing; write it again
├── ConflictError                       another run committed first; plan again, do not repeat this step
├── PartlyPublishedError                sections failed and the others were published; run again for those
└── StoreContentError                   a stored object is invalid or not what was written
    ├── ManifestError                   a manifest that cannot be read, or that has a newer format
    └── InvalidSitemapError             a published file breaks a rule (verify)

A message says what happened, where, the limit, and the next step.
"""

from __future__ import annotations

from typing import Any, ClassVar


class SitemapError(Exception):
    """Base class of all errors of this package.

    Attributes:
        sections: Sections that failed while the others had nothing to publish. Default: empty, the whole run failed.
    """

    sections: tuple[str, ...] = ()


class ConfigurationError(SitemapError, ValueError):
    """The user's configuration is wrong. A retry fails in the same way, unless ``retryable`` is True.

    Attributes:
        retryable: Whether a retry may succeed without any change. Default: False.
    """

    retryable: ClassVar[bool] = False


class SourceConfigurationError(ConfigurationError):
    """The connection, table, column, template or query of a source is wrong."""


class ConnectionNotFoundError(SourceConfigurationError):
    """Airflow defines no such connection, or its secrets backend did not answer; a retry may succeed."""

    retryable: ClassVar[bool] = True


class TemplateError(SourceConfigurationError):
    """A template uses a word that the run does not define, or is not a template."""

    def within(self, where: str) -> TemplateError:
        """Return the same error with its location in front of its message."""
        return type(self)(f"{where}: {self}")


class TemplateValueError(TemplateError):
    """Airflow does not return a variable or a connection that a template uses; a retry may succeed."""

    retryable: ClassVar[bool] = True


class CredentialsError(ConfigurationError):
    """The store has no credentials, or the service that issues them did not answer; a retry may succeed."""

    retryable: ClassVar[bool] = True


class RequestError(ConfigurationError):
    """The request of one run names what does not exist. The sitemap itself is as sound as before."""


class OwnershipError(ConfigurationError):
    """The address belongs to another pipeline, or holds a sitemap that another program wrote."""


class RefusedError(SitemapError):
    """The run was refused before anything public changed. A retry is refused in the same way."""


class GuardError(RefusedError):
    """One or more guards refused.

    Attributes:
        refusals: The refusals, each with its ``guard``, ``section``, ``message`` (the measured numbers and the limit) and
            ``permit``, which lets one run pass (``airflow_sitemaps.shards.guards.Refusal``).
        run: Identifier of the refused run in the store, or "" if nothing of it is kept.
    """

    def __init__(self, message: str, refusals: tuple[Any, ...] = (), *, run: str = "") -> None:
        super().__init__(message)
        self.refusals = refusals
        self.run = run


class RuleError(RefusedError):
    """A faulty row broke a rule whose verdict is ``fail``."""

    def __init__(self, message: str, *, rule: str = "", section: str = "") -> None:
        super().__init__(message)
        self.rule = rule
        self.section = section


class TransientError(SitemapError):
    """A failure after which a retry may succeed."""


class SourceError(TransientError):
    """The database failed during a query."""


class SourceMovedError(SourceError):
    """Fewer rows were read than the plan counted: the table changed during the run."""


class StoreError(TransientError, OSError):
    """The store failed, or its answer was unclear and could not be read back."""


class IncompleteError(TransientError):
    """The plan cannot be published: a batch has no receipt, or a body is missing. Publishing again fails in the same way."""


class ConflictError(SitemapError):
    """Another run committed first; this one is stale and must be planned again.

    Attributes:
        winner: Identifier of the other run.
    """

    def __init__(self, message: str, *, winner: str = "") -> None:
        super().__init__(message)
        self.winner = winner


class PartlyPublishedError(SitemapError):
    """Some sections could not be published and stay as they were before.

    Attributes:
        report: The report of the run (``airflow_sitemaps.Report``).
        failures: Why each section was not published (``airflow_sitemaps.shards.plan.SectionFailure``).
        refusals: What the guards refused of these sections.
        run: Identifier of the run in the store, or "" if there is no report.
    """

    def __init__(self, message: str, *, report: object = None, failures: tuple[object, ...] = ()) -> None:
        super().__init__(message)
        self.report = report
        self.failures = failures
        self.refusals: tuple[Any, ...] = tuple(
            refusal for failure in failures for refusal in getattr(failure, "refusals", ())
        )
        self.run: str = getattr(report, "run", "")


class StoreContentError(SitemapError):
    """An object in the store is damaged, or was written by another program."""


class ManifestError(StoreContentError):
    """A manifest cannot be read: it is damaged, or a newer version of this package wrote it."""


class InvalidSitemapError(StoreContentError):
    """A published sitemap breaks the rules of the protocol."""
