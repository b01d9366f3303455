"""An open source: one section's rows in one database, asked as ``ports.Source`` says."""

from __future__ import annotations

import logging
from contextlib import closing, contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from airflow_sitemaps.errors import SourceError
from airflow_sitemaps.sources import boundaries, duplicates, reading, survey, touched
from airflow_sitemaps.sources.connect import translated
from airflow_sitemaps.sources.intervals import condition, nested_case, runs

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    import sqlalchemy as sa

    from airflow_sitemaps.ports import Duplicate
    from airflow_sitemaps.shards.digest import Survey
    from airflow_sitemaps.shards.key import Key, KeyRange
    from airflow_sitemaps.sources.columns import Mapping
    from airflow_sitemaps.sources.dialects.base import Dialect, Reader
    from airflow_sitemaps.sources.intervals import Run
    from airflow_sitemaps.sources.relation import Relation
    from airflow_sitemaps.sources.selection import Output, Selection
    from airflow_sitemaps.sources.statement import Statement

log = logging.getLogger(__name__)


class SqlSession:
    """The ``Source`` of a ``SqlSource``. Each question is one read-only transaction of its own.

    ``arrow`` False reads by SQLAlchemy's cursor even where the driver can hand out Arrow. ``unique`` says that no
    two rows share a key, ``indexed`` that an index leads with the key: both only choose between equal statements.
    """

    def __init__(
        self, *, engine: sa.Engine, dialect: Dialect, relation: Relation, selection: Selection, name: str,
        arrow: bool = True, unique: bool = False, indexed: bool = False,
    ) -> None:  # fmt: skip
        self.engine = engine
        self.dialect = dialect
        self.relation = relation
        self.selection = selection
        self.name = name
        self.arrow = arrow
        self.unique = unique
        self.indexed = indexed
        self.digest_kind = dialect.digest_kind

    @property
    def mapping(self) -> Mapping:
        """Which columns make an entry."""
        return self.selection.mapping

    @property
    def from_item(self) -> str:
        """The relation for ``FROM``, called ``src``."""
        return self.relation.from_item(self.dialect)

    @contextmanager
    def transaction(self, doing: str) -> Iterator[sa.Connection]:
        """A connection in a read-only transaction, with the session's formats set. Driver errors become ours."""
        with translated(self.engine, f"{self.name}: {doing} failed", SourceError), self.engine.connect() as connection:
            begin(connection, self.dialect)
            try:
                yield connection
            finally:
                if not connection.invalidated:
                    connection.rollback()

    # ------------------------------------------------------------ ports.Source

    def boundaries(self, within: KeyRange, every: int) -> Sequence[Key]:
        """See ``ports.Source``."""
        with self.transaction("finding boundaries") as connection:
            return boundaries.find(self, connection, within, every)

    def survey(self, ranges: Sequence[KeyRange]) -> Survey:
        """See ``ports.Source``."""
        with self.transaction("the survey") as connection:
            return survey.take(self, connection, ranges)

    def rank(self, keys: Sequence[Key]) -> Sequence[int]:
        """See ``ports.Source``."""
        if not keys:
            return []
        with self.transaction("ordering keys") as connection:
            return boundaries.rank(self, connection, keys)

    def read(self, ranges: Sequence[KeyRange]) -> Iterator[pa.RecordBatch]:
        """See ``ports.Source``."""
        with self._reader() as rows_of:
            for run in runs(ranges):
                for part in run.split(self.dialect):
                    places = pa.array(part.places, pa.int32())
                    # Closed by hand: a reader that stops early must not wait for the garbage collector.
                    with closing(rows_of(part)) as batches:
                        for raw in batches:
                            if raw.num_rows:
                                yield self.selection.batch(raw, places)

    def touched(self, ranges: Sequence[KeyRange], since: datetime) -> Sequence[int]:
        """See ``ports.Source``."""
        with self.transaction("looking for changed rows") as connection:
            return touched.find(self, connection, ranges, since, self.selection.timezone)

    def duplicates(self, most: int) -> Sequence[Duplicate]:
        """See ``ports.Source``."""
        with self.transaction("looking for duplicate URLs") as connection:
            return duplicates.find(self, connection, most)

    def now(self) -> datetime:
        """See ``ports.Source``."""
        with self.transaction("asking for the time") as connection:
            value = connection.exec_driver_sql(self.dialect.now_sql).scalar_one()
        moment = datetime.fromisoformat(value.replace("Z", "+00:00")) if isinstance(value, str) else value
        return moment.astimezone(timezone.utc) if moment.tzinfo else moment.replace(tzinfo=timezone.utc)

    # ------------------------------------------------------------ reading

    @contextmanager
    def _reader(self) -> Iterator[Reader]:
        """One connection for all ranges of a ``read``: the driver's own for Arrow, else SQLAlchemy's."""
        arrow = self.dialect.arrow_reader(self) if self.arrow else None
        if arrow is not None:
            with arrow as reader:
                yield reader
            return
        outputs = self.selection.outputs(objects=True)
        with self.transaction("reading rows") as connection, self.dialect.reading(connection):

            def rows_of(run: Run) -> Generator[pa.RecordBatch, None, None]:
                statement, columns = self.rows_statement(run, outputs)
                return reading.from_cursor(connection, self.dialect, statement, columns)

            yield rows_of

    def rows_statement(self, run: Run, outputs: Sequence[Output]) -> tuple[Statement, list[Output]]:
        """The ordered query of a run's rows, and what it selects: the bucket's number first."""
        binds = self.relation.binds()
        key = self.mapping.key
        bucket = self.bucket(run, binds)
        columns = [reading.bucket_output(bucket), *outputs]
        select = ", ".join(f"{column.sql} AS {column.name}" for column in columns)
        where = condition(self.dialect, key, run.within, binds)
        sql = f"SELECT {select} FROM {self.from_item} WHERE {where} ORDER BY {', '.join(self.order())}"
        return binds.statement(sql), columns

    def bucket(self, run: Run, binds: Any) -> str:
        """The number of a row's bucket within a run."""
        if not run.cuts:
            return "0"
        quick = self.dialect.buckets(self.mapping.key, run.cuts, binds)
        return quick or nested_case(self.dialect, self.mapping.key, run.cuts, binds)

    def order(self) -> list[str]:
        """Key, then all emitted columns by their bytes, so that rows of one key cannot change places."""
        order = [self.dialect.key_order(column) for column in self.mapping.key]
        if not self.unique:
            order += [self.dialect.binary_order(column) for column in self.mapping.emitted]
        return order


def begin(connection: sa.Connection, dialect: Dialect) -> None:
    """Set the session's formats and begin its read-only transaction."""
    for sql in (*dialect.session_sql, *dialect.begin_sql):
        connection.exec_driver_sql(sql)
