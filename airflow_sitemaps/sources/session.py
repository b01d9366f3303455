"""A session of a source: the rows of one section in one database, with the queries of ``ports.Source``."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import cache, partial
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import exc

from airflow_sitemaps.errors import RefusedError, SourceConfigurationError, SourceError
from airflow_sitemaps.ports import ChangeReading, Duplicate, SiblingSurvey, SourceConfig
from airflow_sitemaps.quantities import size
from airflow_sitemaps.sources.columns import Kind
from airflow_sitemaps.sources.driver import WAIT_BOUND, is_passing, labelled, redacted
from airflow_sitemaps.sources.queries import Relation, boundaries, is_fixed, key_spans, siblings, survey
from airflow_sitemaps.sources.queries.context import QueryContext, SpanReader, columns_of, rows_statement
from airflow_sitemaps.sources.row_values import batches_of
from airflow_sitemaps.sources.source_settings import SourceSettings
from airflow_sitemaps.sources.user_texts import name_parts
from airflow_sitemaps.waits import arriving, waiting

if TYPE_CHECKING:
    import sqlalchemy as sa

    from airflow_sitemaps.shards.ranges import Key, KeyRange, Survey
    from airflow_sitemaps.sources.queries.change_log_query import ChangeLogReader
    from airflow_sitemaps.sources.queries.key_spans import KeySpan
    from airflow_sitemaps.sources.run_state import RunState

REFUSALS: Final = (exc.DataError, exc.IntegrityError, exc.NotSupportedError, exc.ProgrammingError)
"""A database's answers to a value that a type does not accept. The table and its columns were checked before."""

log = logging.getLogger(__name__)


class SqlSession:
    """The ``Source`` of a ``SqlSource``. Each question is one read-only transaction."""

    def __init__(
        self, *, engine: sa.Engine, context: QueryContext, arrow: bool = True, max_scan_bytes: int | None = None,
        state: RunState | None = None, change_log: Callable[[QueryContext, sa.Connection], ChangeLogReader] | None = None,
    ) -> None:  # fmt: skip
        """Keep an engine and the context of its queries, which read the ``state``. None: the present."""
        self.engine = engine
        self.context = context
        self.arrow = arrow
        self.change_log = change_log
        # A column that gets a time zone or becomes a double keeps the hashes of its rows, and its texts change.
        emitted = enumerate(context.emitted)
        marks = [str(place) for place, each in emitted if each.kind is Kind.ZONED or each.type_name == "real"]
        self.digest_kind = "/".join([context.dialect.digest_kind, *marks])
        self.key_kinds: Sequence[str] = [column.description() for column in context.key]
        self._state = state
        self.state = "" if state is None else str(state)
        self._meter = ScanMeter(context, max_scan_bytes)
        self._surveyed: frozenset[str] = frozenset()  # siblings whose conditions the database has accepted

    @contextmanager
    def transaction(self, doing: str, *, reads: bool = False) -> Iterator[sa.Connection]:
        """Yield a connection in its own transaction, which may read the table. Errors name the step."""
        what = f"{self.context.name}: {doing}"
        with waiting(what, WAIT_BOUND), self.context.dialect.transaction(self.engine, what, reads=reads) as connection:
            yield connection

    # ------------------------------------------------------------ ports.Source

    def boundaries(self, within: KeyRange, every: int) -> Sequence[Key]:
        with self.transaction("finding boundaries", reads=True) as connection:
            self._meter.check(connection, within)
            return boundaries.find(self.context, connection, within, every)

    def largest_key(self, within: KeyRange) -> tuple[Key, int] | None:
        with self.transaction("counting the rows of each key", reads=True) as connection:
            return boundaries.largest_key(self.context, connection, within)

    def survey(self, ranges: Sequence[KeyRange], *, urgent: bool = False) -> Survey:
        with self.transaction("the survey", reads=True) as connection:
            self._meter.admit(connection, ranges)
            return survey.take(self.context, connection, ranges, urgent=urgent)

    def scan_estimate(self) -> int | None:
        return self._meter.total

    def rank(self, keys: Sequence[Key]) -> Sequence[int] | None:
        if not keys:
            return []
        with self.transaction("ordering keys") as connection:
            try:
                return boundaries.rank(self.context, connection, keys)
            except REFUSALS as error:
                if is_passing(error):
                    raise
                reason = redacted(self.engine, error.orig)
                log.warning("%s: the key's type does not accept a stored key: %s", self.context.name, reason)
                return None

    def read(self, ranges: Sequence[KeyRange]) -> Iterator[pa.RecordBatch]:
        join = key_spans.spans_with_gaps if self.context.dialect.joins_ranges else key_spans.spans
        what = f"{self.context.name}: reading rows"
        with ExitStack() as stack:
            with waiting(what, WAIT_BOUND):
                rows_of = stack.enter_context(self._reader())
            for span in join(ranges):
                for part in span.split(self.context.dialect):
                    if not part.wanted():
                        continue
                    places = pa.array(part.places, pa.int32())
                    # Close explicitly: a reader that stops early must not wait for the garbage collector.
                    with waiting(what, WAIT_BOUND):
                        rows = rows_of(part)
                    with closing(rows) as batches:
                        for raw in arriving(batches, what, WAIT_BOUND):
                            if raw.num_rows:
                                yield self.context.batch(raw, places)

    def touched(self, ranges: Sequence[KeyRange], since: datetime) -> Sequence[int]:
        with self.transaction("finding changed rows", reads=True) as connection:
            return boundaries.touched(self.context, connection, ranges, since)

    def newest(self, ranges: Sequence[KeyRange], since: datetime, most: int) -> Sequence[pa.RecordBatch]:
        context, dialect, batches = self.context, self.context.dialect, list[pa.RecordBatch]()
        outputs = context.outputs(objects=True)
        with self.transaction("reading changed rows", reads=True) as connection, dialect.reading(connection):
            for part in boundaries.parts(context, ranges, 1):
                statement, columns = boundaries.newest_rows(context, part, outputs, since, most)
                for raw in batches_of(dialect.rows(connection, statement), columns):
                    rows = context.batch(raw, pa.array(part.places, pa.int32()))
                    batches.append(rows.filter(pc.greater_equal(rows["range"], 0)))  # without the gaps
                if sum(batch.num_rows for batch in batches) > most:  # each statement has returned its own newest
                    table = pa.Table.from_batches(batches)
                    newest = pc.select_k_unstable(table, most, [("lastmod", "descending")])
                    batches = table.take(newest).combine_chunks().to_batches()
        return batches

    def duplicates(self, most: int) -> Sequence[Duplicate]:
        with self.transaction("finding duplicate URLs", reads=True) as connection:
            return survey.duplicates(self.context, connection, most)

    def values(self, column: str, least: int, most: int) -> list[tuple[str | int | bool, int]]:
        """Return up to ``most`` values of a column that at least so many rows have, with their rows, the largest first."""
        try:
            with self.transaction(f"counting the rows of each {column}", reads=True) as connection:
                return siblings.values(self.context, connection, column, least, most)
        except SourceError as error:
            if isinstance(error.__context__, exc.DBAPIError) and is_passing(error.__context__):
                raise
            with self.transaction("describing the columns") as connection:
                context, wanted = self.context, {"Section.each": [column.strip('"`')]}
                columns_of(connection, context.dialect, context.relation, context.name, wanted)  # a retry adds none
            raise

    def table_version(self) -> str | None:
        relation = self.context.versioned
        return None if relation is None else self._versions([relation])[0]

    def _versions(self, relations: Sequence[Relation]) -> list[str | None]:
        """Return the version of the rows of relations over the session's table, read by one statement."""
        table = relations[0].table
        if table is None or not self.context.dialect.keeps_versions:
            return [None] * len(relations)
        try:
            with self.transaction("reading the table's version") as connection:
                version = self.context.dialect.table_version(connection, name_parts(table))
        except SourceError as error:
            log.info("%s; every range is surveyed", error)
            version = None
        return [None if version is None else f"{version} {_identity(relation)}" for relation in relations]

    def sibling(self, config: SourceConfig, *, section: str) -> SqlSession | None:
        if self.context.dialect.hashes_here or not isinstance(config, SourceSettings):
            return None  # SQLite checks the values of the key in the rows of each source
        relation = siblings.relation_of_source(config)
        context = replace(
            self.context, name=config.name_in(section), relation=relation, template=config.loc,
            versioned=relation if relation.table is not None and is_fixed(relation.where) else None,
        )  # fmt: skip
        engine = labelled(self.engine, config.origin, section)
        session = SqlSession(engine=engine, context=context, arrow=self.arrow, max_scan_bytes=config.max_scan_bytes)
        session._surveyed = self._surveyed
        if _identity(relation) not in self._surveyed:
            with session.transaction("reading no row") as connection:
                columns_of(connection, context.dialect, relation, context.name, {})  # the database may refuse the value
        return session

    def survey_siblings(
        self, configs: Sequence[SourceConfig], ranges: Sequence[Sequence[KeyRange]], *, urgent: bool = False
    ) -> Sequence[SiblingSurvey] | None:
        if self.context.dialect.hashes_here:
            return None
        sources = [config for config in configs if isinstance(config, SourceSettings)]
        relations = [siblings.relation_of_source(source) for source in sources]
        versions: list[str | None] = [None] * len(sources)
        if self.context.versioned is not None and all(is_fixed(each.where) for each in relations):
            versions = self._versions(relations)
        with self.transaction(f"the survey of {len(sources):,} sections", reads=True) as connection:
            if siblings.are_numbers_in_text(self.context, connection, sources[0]):
                return None
            before = self._meter.total
            admit = partial(self._meter.admit, connection)
            try:
                surveys = siblings.take(self.context, connection, sources, ranges, admit, urgent=urgent)
            except BaseException:
                self._meter.total = before  # or the estimate would count against the surveys that follow
                raise
        self._surveyed = frozenset(map(_identity, relations))
        return [SiblingSurvey(version=v or "", survey=s) for v, s in zip(versions, surveys, strict=True)]

    def changes(self, ranges: Sequence[KeyRange], since: str | None) -> ChangeReading:
        if self.change_log is None:
            raise ValueError(f"{self.context.name}: there is no change log; give SqlSource(change_log=)")
        with self.transaction("reading the change log", reads=True) as connection:
            return self.change_log(self.context, connection).read(ranges, since)

    def now(self) -> datetime:
        return self.clock() if self._state is None else self._state.moment

    def clock(self) -> datetime:
        with self.transaction("reading the clock") as connection:
            return self.context.dialect.time(connection)

    # ------------------------------------------------------------ reading

    @contextmanager
    def _reader(self) -> Iterator[SpanReader]:
        """Open one connection for all ranges of a ``read``: the driver's own for Arrow, otherwise SQLAlchemy's."""
        context, dialect = self.context, self.context.dialect
        own = dialect.own_reader(context, self.engine) if self.arrow else None
        if own is not None:
            with own as reader:
                yield reader
            return
        tell = cache(partial(log.info, "%s: reading %s", context.name))  # each way once
        outputs = context.outputs(objects=not (self.arrow and dialect.arrow_keeps_times))
        what = f"{context.name}: reading rows"
        with dialect.transaction(self.engine, what, reads=True) as connection, dialect.reading(connection):

            def rows_of(span: KeySpan) -> Generator[pa.RecordBatch, None, None]:
                statement, columns = rows_statement(context, span, outputs)
                if self.arrow:
                    return batches_of(dialect.arrow_rows(connection, statement, tell), columns)
                tell("rows through a cursor")
                return batches_of(dialect.rows(connection, statement), columns)

            yield rows_of


def _identity(relation: Relation) -> str:
    """Return a hash of what selects the rows of a table."""
    values = json.dumps([relation.table, relation.where, sorted(relation.parameters.items())], default=str)
    return sha256(values.encode()).hexdigest()


class ScanMeter:
    """The estimates of one session. ``total``: bytes of all admitted surveys. None: none was, or it is unknown."""

    def __init__(self, context: QueryContext, ceiling: int | None) -> None:
        self._context = context
        self._ceiling = ceiling
        self.total: int | None = None

    def admit(self, connection: sa.Connection, ranges: Sequence[KeyRange], context: QueryContext | None = None) -> None:
        """Add a survey's estimate to the total, and log it. Refuse one above the ceiling, or of unknown size.

        ``context`` is that of the survey if it has more rows than the session's own.
        """
        estimate = self._estimate(connection, ranges, context or self._context)
        if estimate is not None:
            self.total = (self.total or 0) + estimate
            log.info("%s: the survey will scan about %s", self._context.name, size(estimate))

    def check(self, connection: sa.Connection, within: KeyRange) -> None:
        """Refuse a range whose survey would exceed the ceiling, before it is cut. Without a ceiling, query nothing."""
        if self._ceiling is not None:
            self._estimate(connection, [within], self._context)

    def _estimate(self, connection: sa.Connection, ranges: Sequence[KeyRange], context: QueryContext) -> int | None:
        """Return the estimate of a survey's statements, or None if the database has none or fails."""
        name, dialect = self._context.name, self._context.dialect
        estimate = None
        if dialect.estimates_scans:
            try:
                estimate = sum(dialect.scanned_bytes(connection, each) for each in survey.statements(context, ranges))
            # Of any driver: without an estimate the survey goes on, unless there is a ceiling.
            except Exception as error:
                cause = redacted(connection.engine, getattr(error, "orig", None) or error)
                log.info("%s: the database cannot estimate what the survey will scan: %s", name, cause)
        if self._ceiling is None:
            return estimate
        if estimate is None:
            raise SourceConfigurationError(
                f"{name}: max_scan_bytes={self._ceiling:,}: this database ({dialect.name}) cannot "
                "estimate the scan of this source's survey, so the limit cannot be enforced; only BigQuery can. Omit "
                "max_scan_bytes, and limit the statements in session=. The documentation lists each database's own limit (What a run costs the database)"
            )
        whole = (self.total or 0) + estimate
        if whole > self._ceiling:
            raise RefusedError(
                f"{name}: the survey would scan about {whole:,} bytes (BigQuery dry run), and the limit is "
                f"max_scan_bytes={self._ceiling:,}. It was not run, and the section was not published. Raise max_scan_bytes, or "
                "read less: fewer columns, a where= on the partition column, or change_detection='watermark'"
            )
        return estimate
