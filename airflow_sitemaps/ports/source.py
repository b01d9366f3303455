"""The protocol of a source: the rows of one section in a database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_sitemaps.shards.ranges import Key, KeyRange, Survey


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate:
    """A URL that several rows share.

    Attributes:
        loc: The URL as the source has it.
        rows: Number of rows with this URL.
    """

    loc: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeReading:
    """What a change log says.

    Attributes:
        position: Where the log ends, for the next reading. Only the source understands it.
        ranges: Positions of the ranges with a changed key, in ascending order, or None if any range may have changed.
        changes: Number of changes read. Default: 0.
        cause: Why any range may have changed. Default: "".
        is_gap: Whether the cause is a fault that a person should know of, such as a truncated log. Default: False.
        warning: What else a person should know of the log, such as a transaction that has been open for long. Default: "".
    """

    position: str
    ranges: tuple[int, ...] | None
    changes: int = 0
    cause: str = ""
    is_gap: bool = False
    warning: str = ""


class Requests(NamedTuple):
    """Requests in an access log of one address for one path, in the name of one crawler and with one status.

    ``at`` is the time of the newest one. ``address`` is None if the log has none.
    """

    crawler: str
    path: str
    address: str | None
    status: str
    at: datetime
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SiblingSurvey:
    """A survey of one of several siblings, and the ``table_version`` of its rows, read before it ("" if there is none)."""

    survey: Survey
    version: str = ""


class Source(Protocol):
    """The rows of one section, in an open database session.

    Only the database compares keys. Every method raises ``SourceError`` when the database fails, and
    ``SourceConfigurationError`` when a connection, table or column is wrong. The message names the cause. What has a body
    here is right for rows in memory.
    """

    @property
    def digest_kind(self) -> str:
        """Name and version of the row-hash expression. Digests of different kinds are not compared."""

    @property
    def key_kinds(self) -> Sequence[str]:
        """One text per key column: its name, kind and collation, such as ``id integer`` or ``slug text "de-x-icu"``.

        Boundaries are valid only for the kinds under which they were cut. If this differs from the manifest, the
        section's ranges must be cut again. An empty source may not know the kind of a column (``id unknown``).
        """

    @property
    def state(self) -> str:
        """The state of the data that every query reads, for ``SourceConfig.at``; empty for the present."""
        return ""

    def boundaries(self, within: KeyRange, every: int) -> Sequence[Key]:
        """Compute the keys at which to cut a range into pieces of limited size.

        Rows that share a key are never separated, so a key with more than ``every`` rows gives one oversized piece.

        Args:
            within: The range to cut.
            every: Maximum number of rows in a piece.

        Returns:
            Strictly increasing keys inside ``within``, none equal to its lower end. The last piece is not empty.
        """

    def largest_key(self, within: KeyRange) -> tuple[Key, int] | None:
        """Find the key that the most rows of a range share.

        Returns:
            The key and its number of rows, or None if the range has no rows.
        """

    def survey(self, ranges: Sequence[KeyRange], *, urgent: bool = False) -> Survey:
        """Compute the digest of each range in one consistent read.

        Args:
            ranges: Disjoint ranges in key order.
            urgent: Whether the digests have the checksum ``urgent`` too. Default: False.
        """

    def sibling(self, config: SourceConfig, *, section: str) -> Source | None:
        """Return a source over this one's connection for settings with the same ``sibling_key``.

        Args:
            config: The settings.
            section: Name of the section, for messages.

        Returns:
            The source, which is closed with this one. None if it needs a connection of its own.
        """
        return None

    def survey_siblings(
        self, configs: Sequence[SourceConfig], ranges: Sequence[Sequence[KeyRange]], *, urgent: bool = False
    ) -> Sequence[SiblingSurvey] | None:
        """Survey this source and others with the same ``sibling_key`` in one scan, each in ranges of its own.

        Returns:
            The surveys in the order of ``configs``, or None if this database cannot do it.
        """
        return None

    def scan_estimate(self) -> int | None:
        """Return how many bytes the surveys so far were estimated to scan, or None if the database does not say."""
        return None

    def rank(self, keys: Sequence[Key]) -> Sequence[int] | None:
        """Return the position of each key in the database's own order; 0 is the least, and equal keys share a rank.

        Returns:
            The positions, which do not depend on the rows. None if the key's type does not accept one of the keys.
        """

    def read(self, ranges: Sequence[KeyRange]) -> Iterator[pa.RecordBatch]:
        """Read the rows of some ranges, ordered by range, then key, then all emitted columns in binary order.

        Args:
            ranges: Disjoint ranges in key order.

        Yields:
            Record batches of at most about 64 Ki rows, with these columns:

            - ``range``: int32, the index into ``ranges``;
            - ``row_hash``: uint64 or int64; the caller sums it modulo 2**64 to the checksum that ``survey`` gives;
            - ``key``: string, a JSON array of the row's canonical key parts; int64 if the key is one integer;
            - ``loc``: string, the URL as the source has it (a template is expanded, its values percent-encoded);
            - ``lastmod``: ``timestamp[us, UTC]``, ``date32``, or the source's own string, which is parsed row by row;
            - ``changefreq``: string;
            - ``priority``: float64 or string;
            - ``images``, ``videos``, ``news``, ``alternates``: string, JSON;
            - ``title``, ``description``: string, for feeds;
            - ``fingerprint``: uint64 or int64, a hash of the columns that date the entry.

            The first four columns are always present. The others are present only if the section has them.
        """

    def touched(self, ranges: Sequence[KeyRange], since: datetime) -> Sequence[int]:
        """Find the ranges that hold recently modified rows.

        Args:
            ranges: Disjoint ranges in key order.
            since: Earliest lastmod that counts as recent.

        Returns:
            Positions, in ascending order, of the ranges with a row whose lastmod is ``since`` or later.

        Raises:
            SourceConfigurationError: The source has no lastmod that can be compared.
        """

    def newest(self, ranges: Sequence[KeyRange], since: datetime, most: int) -> Sequence[pa.RecordBatch]:
        """Read rows whose lastmod is ``since`` or later, with the columns of ``read``, in any order.

        It is called where ``touched`` is, if changes may wait and recent entries are listed.

        Args:
            ranges: Disjoint ranges in key order.
            since: Earliest lastmod.
            most: Most rows: the newest.
        """
        return ()

    def duplicates(self, most: int) -> Sequence[Duplicate]:
        """Find up to ``most`` URLs that more than one row has, whatever their keys; the most frequent come first."""

    def table_version(self) -> str | None:
        """Return a version of the section's rows, or None if the database keeps none that is exact.

        Two equal versions mean that every query gives the same rows. Different versions mean nothing.
        """
        return None

    def changes(self, ranges: Sequence[KeyRange], since: str | None) -> ChangeReading:
        """Read the change log. Only sources whose configuration has a ``change_log_interval`` have one.

        Every change up to the returned position is visible to the queries that follow.

        Args:
            ranges: Disjoint ranges in key order.
            since: The position of an earlier reading, or None to learn only the present position.

        Raises:
            SourceConfigurationError: The log lacks a column, or its key is of another type than the source's.
        """

    def now(self) -> datetime:
        """Return the time of the rows that queries read, by the database's clock, in UTC."""

    def clock(self) -> datetime:
        """Return the present time of the database's clock, in UTC. It is later than any change that was read."""


class SourceConfig(Protocol):
    """Settings of a source: cheap to create, opened only where the rows are read.

    What has a body here is right for a source without templates, change log, time travel and shared data.
    """

    @property
    def timezone(self) -> str:
        """IANA name of the time zone of date-times that carry none."""

    @property
    def observed(self) -> Sequence[str]:
        """The columns whose changes date an entry. If there are any, ``lastmod`` is only the date of a new URL."""
        return ()

    @property
    def change_log_interval(self) -> timedelta | None:
        """How long the change log replaces a survey of every range; None if there is no change log."""
        return None

    @property
    def sibling_key(self) -> str | None:
        """A text that only sources have in common that share connections and surveys (``Source.sibling``), or None."""
        return None

    def open(self, *, section: str) -> AbstractContextManager[Source]:
        """Connect to the database.

        Args:
            section: Name of the section, for messages and for names of temporary tables.
        """

    def at(self, state: str) -> SourceConfig:
        """Return a copy that reads the state that a plan chose.

        Args:
            state: The ``Source.state`` of the plan.
        """
        return self

    def identity(self) -> Mapping[str, object]:
        """Return, as JSON values, all settings that the rendered shards depend on.

        They are part of the section's fingerprint.
        """

    def describe(self) -> str:
        """Describe the source in logs: connection id and table, never a secret."""

    def discard(self, *, section: str) -> None:
        """Remove what the tasks of a run share, such as a materialised table: the state that ``at`` was given."""
        return

    def rendered(self, render: Callable[[str], str]) -> SourceConfig:
        """Return a copy with its template fields rendered (by Jinja, in Airflow)."""
        return self
