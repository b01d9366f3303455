"""Triggers that poll in Airflow's triggerer, without a worker slot, and what a poll compares.

That is the value of a probe with that of the last start, or whole tables with what is published.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final

from asgiref.sync import sync_to_async

from airflow_sitemaps.airflow_compat import BaseTrigger, TriggerEvent
from airflow_sitemaps.errors import SitemapError, SourceConfigurationError, SourceError
from airflow_sitemaps.pipeline.request import RunRequest, chosen, with_published_members
from airflow_sitemaps.pipeline.state.repository import StateRepository, put_verified
from airflow_sitemaps.pipeline.status import last_survey
from airflow_sitemaps.ports import Overwrite
from airflow_sitemaps.shards.ranges import KeyRange, total
from airflow_sitemaps.sources.sql import SqlSource

if TYPE_CHECKING:
    import sqlalchemy as sa

    from airflow_sitemaps.shards.manifest import SectionManifest
    from airflow_sitemaps.sitemap import Section, Sitemap

log = logging.getLogger(__name__)


class SitemapSourceTrigger(BaseTrigger):
    """Wait until a query returns another value than the ``known`` one of the last start; None fires at once."""

    def __init__(self, *, conn_id: str, sql: str, known: str | None, poll_interval: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.conn_id = conn_id
        self.sql = sql
        self.known = known
        self.poll_interval = poll_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments."""
        arguments = {"conn_id": self.conn_id, "sql": self.sql, "known": self.known, "poll_interval": self.poll_interval}
        return "airflow_sitemaps.triggers.SitemapSourceTrigger", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: the new value, or why the query is wrong. A database that is down is queried again."""
        poll = sync_to_async(query_value, thread_sensitive=False)
        while True:
            try:
                value = await poll(self.conn_id, self.sql)
                if value != self.known:
                    yield TriggerEvent({"value": value})  # type: ignore[no-untyped-call]
                    return
            except SourceError as error:
                log.warning("The next poll is in %s s. %s", self.poll_interval, error)
            except SitemapError as error:
                yield _error_event(error)
                return
            await asyncio.sleep(self.poll_interval)


class SitemapTablesTrigger(BaseTrigger):
    """Wait until the tables of a sitemap differ from the published digests, which are as JSON can hold them.

    At ``recheck_at`` (ISO 8601, UTC; None: never) files change though no table does. The first poll is after one interval.
    """

    def __init__(self, *, tables: Sequence[Mapping[str, Any]], recheck_at: str | None, poll_interval: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tables = tables
        self.recheck_at = recheck_at
        self.poll_interval = poll_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments."""
        arguments = {"tables": self.tables, "recheck_at": self.recheck_at, "poll_interval": self.poll_interval}
        return "airflow_sitemaps.triggers.SitemapTablesTrigger", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: what differs, or why a table cannot be read. A database that is down is polled again."""
        tables = [TableDigest(**table) for table in self.tables]
        versions: dict[str, str | None] = {}
        recheck_at = None if self.recheck_at is None else datetime.fromisoformat(self.recheck_at)
        while True:
            left = float("inf") if recheck_at is None else (recheck_at - datetime.now(timezone.utc)).total_seconds()
            await asyncio.sleep(min(self.poll_interval, left))
            if left <= self.poll_interval:
                reason = f"files change at {self.recheck_at}, because rows or gone URLs are then too old, or rows no longer in the future"
                yield TriggerEvent({"value": reason})  # type: ignore[no-untyped-call]
                return
            try:
                for table in tables:
                    poll = sync_to_async(table.poll, thread_sensitive=False)
                    versions[table.section], difference = await poll(versions.get(table.section))
                    if difference:
                        yield TriggerEvent({"value": difference})  # type: ignore[no-untyped-call]
                        return
            except SourceError as error:
                log.warning("The next poll is in %s s. %s", self.poll_interval, error)
            except SitemapError as error:
                yield _error_event(error)
                return


def _error_event(error: SitemapError) -> TriggerEvent:
    """Return the event of an error, with whether a retry may find the missing connection or credentials."""
    retryable = {"retryable": True} if getattr(error, "retryable", False) else {}
    return TriggerEvent({"error": str(error), **retryable})  # type: ignore[no-untyped-call]


_TABLES: Final = re.compile(r"\b(?:from|join)\s+([\w.\"`$-]+)", re.IGNORECASE)
_COLON: Final = re.compile(r"(?<!\\):")
_NOT_IN_KEYS: Final = re.compile(r"[^A-Za-z0-9_.-]")

CLOCK_TOLERANCE: Final = timedelta(minutes=5)
"""Difference between the clocks of the sensor's worker and of the planner's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeMark:
    """The value of a probe at which a run was last started, as text, and the time of the start (ISO 8601)."""

    value: str
    at: str


def query_value(conn_id: str, sql: str) -> str:
    """Return the values of a query's first row, mostly one, as text; empty for NULL or no row.

    If the query is wrong, the message of the SourceConfigurationError has the database's reason, and what tables or
    columns exist. A database that cannot be reached is a SourceError.
    """
    import sqlalchemy as sa
    from sqlalchemy import exc

    from airflow_sitemaps.sources.driver import is_passing, redacted, translated
    from airflow_sitemaps.sources.session_factory import engine_of

    engine = engine_of(conn_id)
    what = f"probe over connection {conn_id!r}"
    try:
        with translated(engine, what, SourceError), engine.connect() as connection:
            try:
                row = connection.execute(sa.text(_COLON.sub(r"\:", sql))).first()  # it has no parameters
            except (exc.StatementError, exc.ResourceClosedError) as error:
                if isinstance(error, exc.DBAPIError) and is_passing(error):
                    raise
                connection.rollback()
                reason = " ".join(redacted(engine, getattr(error, "orig", None) or error).split())[:300]
                raise SourceConfigurationError(f"{what}: {reason}.{_what_exists(connection, sql)}") from None
    finally:
        engine.dispose()
    return ", ".join("" if value is None else str(value) for value in row or ())


def _what_exists(connection: sa.Connection, sql: str) -> str:
    """Return the columns of the tables in a query, and for tables that do not exist the names of those that do."""
    import sqlalchemy as sa
    from sqlalchemy import exc

    from airflow_sitemaps.sources.user_texts import name_parts, nearest

    inspector = sa.inspect(connection)
    text = ""
    for name in dict.fromkeys(_TABLES.findall(sql)):
        try:
            *schema, table = (part.text for part in name_parts(name))
            place = schema[-1] if schema else None
            names = [*inspector.get_table_names(schema=place), *inspector.get_view_names(schema=place)]
            existing = {each.casefold(): each for each in names}.get(table.casefold())
            if existing is None:
                text += f" There is no table {name}.{nearest(table, names)}"
            else:
                columns = [str(column["name"]) for column in inspector.get_columns(existing, schema=place)]
                text += f" The columns of {name} are {', '.join(columns[:50])}{', …' if len(columns) > 50 else ''}."
        # SQLAlchemy raises NotImplementedError for what a dialect cannot look up.
        except (exc.SQLAlchemyError, NotImplementedError, SourceConfigurationError):
            text += f" The tables at {name} could not be listed."
    return text


def last_mark(sitemap: Sitemap, name: str, sections: Sequence[str] = ()) -> ProbeMark | None:
    """Return the mark of the last start; None if there is none, or if no run that began since covered a section.

    A run that began before the start may have read the rows of before, however late it ended. A run of other sections
    did not read the rows at all. ``sections`` are those that the sensor starts; none means all.
    """
    state = StateRepository(sitemap.store.open().state)
    stored = state.objects.get(_key(name))
    if stored is None:
        return None
    try:
        document = json.loads(stored.body)
        mark = ProbeMark(value=str(document["value"]), at=str(document["at"]))
        started = datetime.fromisoformat(mark.at).astimezone(timezone.utc)
        before = str(document.get("surveyed") or "")
    except (ValueError, KeyError, TypeError):
        return None  # a damaged mark costs one run that finds nothing to change
    surveyed = last_survey(state, [section.name for section in _selected(with_published_members(sitemap), sections)])
    if surveyed is None or surveyed <= before:  # no run since, though one may be within the tolerance
        return None
    return mark if datetime.fromisoformat(surveyed) >= started - CLOCK_TOLERANCE else None


def record_mark(sitemap: Sitemap, name: str, mark: ProbeMark, sections: Sequence[str] = ()) -> None:
    """Store the mark of a start of some sections (none: all) under the sensor's name, which is unique for the sitemap."""
    state = StateRepository(sitemap.store.open().state)
    surveyed = last_survey(state, [section.name for section in _selected(with_published_members(sitemap), sections)])
    body = json.dumps({"value": mark.value, "at": mark.at, "surveyed": surveyed}).encode()
    key = _key(name)
    put_verified(state.objects, key, body, mode=Overwrite(), write_id=f"{key}#{mark.at}")


def _key(name: str) -> str:
    plain = _NOT_IN_KEYS.sub("_", name)
    own = "" if plain == name else f"-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
    return f"probes/{plain}{own}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDigest:
    """The published digest of a section's table.

    Rows that only exchange their keys give the same digest: the same URLs stay listed. ``source`` has the settings of its
    ``SqlSource``, as JSON can hold them. ``kind`` is None if the section is not published. ``checksum`` is the sum of the
    rows' hashes, as 16 hexadecimal digits.
    """

    section: str
    source: Mapping[str, Any]
    kind: str | None
    rows: int
    checksum: str

    def poll(self, version: str | None) -> tuple[str | None, str]:
        """Return the table's version (None: the database has no exact one), and how it differs from what is published.

        The table is not read while its version is the one of the last poll.
        """
        from airflow_sitemaps.sources.session_factory import opened

        with opened(SqlSource.restored(self.source), self.section) as session:
            present = session.table_version()
            if present is not None and present == version:
                return present, ""
            digest = session.survey([KeyRange(None, None)]).digests[0]
            kind = session.digest_kind
        now = (kind if self.kind is not None else None, digest.rows, f"{digest.checksum:016x}")
        if now == (self.kind, self.rows, self.checksum):
            return present, ""
        return present, (
            f"section {self.section!r}: {digest.rows:,} rows with checksum {now[2]}; "
            f"published are {self.rows:,} with {self.checksum}"
        )


def in_worker(sitemap: Sitemap, sections: Collection[str]) -> str:
    """Return why the triggerer cannot compare the tables of these sections (none: of all); empty if it can."""
    for section in _selected(with_published_members(sitemap), sections):
        source = section.source
        if section.member is not None:
            return f"section {section.name!r} is of a Section.each"
        if not isinstance(source, SqlSource):
            return f"section {section.name!r} has no SqlSource"
        if source.materialize is not None:
            return f"section {section.name!r} stores its query's rows (materialize=)"
        if source.change_log is not None:
            return f"section {section.name!r} has a change log (change_log=)"
        if sitemap.shards_of(section).rewrite_after is not None:
            return f"section {section.name!r} lets shards wait (rewrite_after=)"
        if (how := sitemap.change_detection_of(section)) != "digest":
            return f"section {section.name!r} has change_detection={how!r}"
        if not _is_json(source.resolved()):
            return f"a parameter of section {section.name!r} is neither text, number, boolean nor None"
    return ""


def published(sitemap: Sitemap, sections: Collection[str]) -> tuple[list[TableDigest], datetime | None]:
    """Return the published digest of each section's table, and when the files change without the tables.

    That is the first time at which a published row is rendered differently or an extra file changes; None if there is
    no such time. ``in_worker`` must have returned the empty text.
    """
    manifest = StateRepository(sitemap.store.open().state).manifest()
    selected = _selected(sitemap, sections)
    states = [None if manifest is None else manifest.sections.get(section.name) for section in selected]
    moments = [None if manifest is None else manifest.recheck_at]
    moments += [shard.recheck_at for state in states if state is not None for shard in state.shards]
    gone = None if manifest is None else manifest.gone
    moments += [gone.oldest + sitemap.gone] if gone and gone.oldest and sitemap.gone else []
    digests = [_digest(section, state) for section, state in zip(selected, states, strict=True)]
    return digests, min(filter(None, moments), default=None)


def _selected(sitemap: Sitemap, sections: Collection[str]) -> list[Section]:
    return list(chosen(sitemap, RunRequest(sections=tuple(sections))))


def _digest(section: Section, state: SectionManifest | None) -> TableDigest:
    whole = total(shard.digest for shard in (state.shards if state is not None else ()))
    assert isinstance(section.source, SqlSource)
    return TableDigest(
        section=section.name,
        source=section.source.resolved(),
        kind=state.digest_kind if state is not None else None,
        rows=whole.rows,
        checksum=f"{whole.checksum:016x}",
    )


def _is_json(settings: Mapping[str, Any]) -> bool:
    try:
        return bool(json.loads(json.dumps(settings, allow_nan=False)) == settings)
    except (TypeError, ValueError):
        return False
