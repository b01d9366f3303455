"""The settings of a ``SqlSource``: their checks, and what opening the source derives from them. No I/O but a ``.sql`` file."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from airflow_sitemaps.errors import ConfigurationError, SourceConfigurationError
from airflow_sitemaps.protocol.url_template import Template
from airflow_sitemaps.sources import user_texts
from airflow_sitemaps.sources.columns import FEED_FIELDS, FIELDS, Observed

if TYPE_CHECKING:
    from airflow_sitemaps.sources.change_log import ChangeLog

PARAMETER: Final = re.compile(r"(?!sitemap_)[A-Za-z_]\w*", re.ASCII)
TEXTS: Final = ("table", "query", "where", "loc", "materialize", "group", "language", "timezone", *FIELDS)
TEMPLATES: Final = ("query", "where", "loc")
"""Texts that may have braces: templates of Jinja, and that of the URL."""

Reader = Literal["auto", "cursor"]
LastmodUnit = Literal["s", "ms", "us"]


@dataclass(frozen=True, slots=True)
class EntryColumns:
    """The columns of an entry besides its URL, and the time zone of times that have none; ``SqlSource`` documents them."""

    lastmod: str | Observed | None = field(default=None, kw_only=True)
    changefreq: str | None = field(default=None, kw_only=True)
    priority: str | None = field(default=None, kw_only=True)
    images: str | None = field(default=None, kw_only=True)
    videos: str | None = field(default=None, kw_only=True)
    news: str | None = field(default=None, kw_only=True)
    alternates: str | None = field(default=None, kw_only=True)
    page: Sequence[str] = field(default=(), kw_only=True)
    title: str | None = field(default=None, kw_only=True)
    description: str | None = field(default=None, kw_only=True)
    group: str | None = field(default=None, kw_only=True)
    language: str | None = field(default=None, kw_only=True)
    timezone: str = field(default="UTC", kw_only=True)

    @property
    def observed(self) -> tuple[str, ...]:
        """The columns whose changes date an entry; empty if its date is that of a column."""
        return self.lastmod.columns if isinstance(self.lastmod, Observed) else ()

    @property
    def page_columns(self) -> tuple[str, ...]:
        """The columns that make the page: those observed, or those of ``page``."""
        return self.observed or tuple(self.page)

    @property
    def field_columns(self) -> dict[str, str]:
        """The column of each optional part of an entry, by the part's name."""
        columns = {name: getattr(self, name) for name in FIELDS}
        if isinstance(self.lastmod, Observed):
            columns["lastmod"] = self.lastmod.initial
        return {name: column for name, column in columns.items() if column is not None}


@dataclass(frozen=True, slots=True)
class SourceSettings(EntryColumns):
    """The settings of a ``SqlSource``, which documents them."""

    conn_id: str
    table: str | None = field(default=None, kw_only=True)
    query: str | None = field(default=None, kw_only=True)
    key: str | Sequence[str] | None = field(default=None, kw_only=True)
    loc: str = field(kw_only=True)
    where: str | None = field(default=None, kw_only=True)
    parameters: Mapping[str, Any] | None = field(default=None, kw_only=True)
    lastmod_unit: LastmodUnit | None = field(default=None, kw_only=True)
    materialize: str | None = field(default=None, kw_only=True)
    session: Sequence[str] = field(default=(), kw_only=True)
    max_scan_bytes: int | None = field(default=None, kw_only=True)
    as_of: Literal["plan"] | None = field(default=None, kw_only=True)
    change_log: ChangeLog | None = field(default=None, kw_only=True)
    reader: Reader = field(default="auto", kw_only=True)
    # The first folder in which a .sql file is searched for: that of the file that makes this source.
    _folder: str = field(default="", init=False, repr=False, compare=False)
    # Airflow's name of the run, in which a materialized table stays for later tasks. It is set by ``rendered``.
    run: str = field(default="", init=False, repr=False, compare=False)
    # DAG, task and run, for the comment before each statement. They are set by ``rendered``.
    origin: str = field(default="", init=False, repr=False, compare=False)
    # The state of the table that the run's plan fixed.
    _state: str = field(default="", init=False, repr=False, compare=False)
    # The source before its texts were rendered.
    _template: SourceSettings | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_folder", user_texts.callers_folder())
        self._check()

    # ------------------------------------------------------------ checks

    def _check(self) -> None:
        if not isinstance(self.conn_id, str) or not self.conn_id.strip():
            raise SourceConfigurationError(f"SqlSource({self.conn_id!r}): give the id of an Airflow connection")
        if "://" in self.conn_id:  # the URL may hold a password, so the message does not repeat it
            raise SourceConfigurationError(
                "SqlSource: the first argument is a URL; give the id of an Airflow connection. To define one from the URL, "
                "run `airflow connections add warehouse --conn-uri URL` and write SqlSource('warehouse', …)"
            )
        if (self.table is None) == (self.query is None):
            raise SourceConfigurationError(f"SqlSource({self.conn_id!r}): give one of table= and query=")
        faults = chain(self._faults_of_texts(), self._faults_of_columns(), self._faults_of_reading())
        for name, is_wrong, advice in faults:
            if is_wrong:
                raise self._refusal(name, advice)
        for table in (self.table, self.materialize):
            if table is not None:
                user_texts.name_parts(table)
        self._check_parameters()
        self._check_change_log()

    # Each yields arguments, whether they are wrong, and what to give instead. A check relies on those before it.

    def _faults_of_texts(self) -> Iterator[tuple[str, bool, str]]:
        for name in TEXTS:
            is_text = (name == "lastmod" and self.observed) or user_texts.is_absent_or_text(getattr(self, name))
            yield name, not is_text, "give a text that is not empty, or omit it"
        for name in ("conn_id", "key", "page", "session", *TEXTS):
            template = name not in TEMPLATES and user_texts.TEMPLATE.search(str(getattr(self, name) or ""))
            yield name, bool(template), "only query=, where= and parameters= are templates"
        for name in ("page", "session"):
            yield name, not isinstance(getattr(self, name), Collection), "give a list of texts"
        yield "loc", self.loc is None, "give a column, or a template like '/p/{slug}'"
        if "{" in self.loc or "}" in self.loc:
            try:
                columns = Template.parse(self.loc).columns
            except ConfigurationError as error:
                raise self._refusal("loc", str(error)) from None
            yield "loc", not columns, "the template names no column; write at least one in braces, like '/p/{slug}'"

    def _faults_of_columns(self) -> Iterator[tuple[str, bool, str]]:
        several = "this is a template over several columns: give key=, one or more columns that order the rows"
        yield "loc", self.key is None and not self.key_columns, several
        is_key = self.key is None or user_texts.are_columns(self.key)
        yield "key", not is_key, "give one column, or several different ones"
        together = (
            "give group= and language= together: the column that versions of one page share, and the column of each "
            "version's language"
        )
        yield "group", (self.group is None) != (self.language is None), together
        is_double = self.group is not None and self.alternates is not None
        yield "alternates", is_double, "give either alternates=, or group= and language="
        if self.page:
            is_list = not isinstance(self.page, str) and user_texts.are_columns(self.page)
            yield "page", not is_list, "give a list of one or more different columns"
            yield "page", bool(self.observed), "Observed(…) names the columns that make the page. Omit page="
            compared = "give lastmod= too, the column of dates that is compared with these"
            yield "page", self.lastmod is None, compared
            yield (
                "page",
                self.lastmod in self.page,
                "leave out the column of lastmod=, which is compared with the others",
            )
        if self.lastmod_unit is not None:
            yield "lastmod_unit", self.lastmod_unit not in get_args(LastmodUnit), "give 's', 'ms' or 'us'"
            dated = "give lastmod= too, a column or Observed(…, initial=…)"
            yield "lastmod_unit", "lastmod" not in self.field_columns, dated

    def _faults_of_reading(self) -> Iterator[tuple[str, bool, str]]:
        yield "timezone", not user_texts.is_zone(self.timezone), "give an IANA name, like 'Europe/Berlin'"
        yield "reader", self.reader not in get_args(Reader), "give 'auto' or 'cursor'"
        are_texts = not isinstance(self.session, str) and all(
            isinstance(sql, str) and sql.strip() for sql in self.session
        )
        yield "session", not are_texts, "give a list of statements, like [\"SET statement_timeout = '10min'\"]"
        ceiling = self.max_scan_bytes
        if ceiling is not None:
            is_number = isinstance(ceiling, int) and not isinstance(ceiling, bool) and ceiling > 0
            yield "max_scan_bytes", not is_number, "give a whole number of bytes above 0"
            unknown = (
                "cannot be combined with materialize=, because the query is stored before its survey can be estimated. Limit "
                "the query in session=, for example with a time-out"
            )
            yield "max_scan_bytes", self.materialize is not None, unknown
        if self.as_of is not None:
            yield "as_of", self.as_of != "plan", "give 'plan', or omit it"
            timeless = (
                "it needs table=, because a query cannot be read as of a time. For a query, give materialize= instead: all "
                "tasks of the run then read the same rows"
            )
            yield "as_of", self.table is None or self.materialize is not None, timeless

    def _check_parameters(self) -> None:
        if self.parameters is not None and not isinstance(self.parameters, Mapping):
            raise self._refusal("parameters", "give a mapping of names to values")
        for name in self.parameters or {}:
            if not isinstance(name, str) or not PARAMETER.fullmatch(name):
                raise SourceConfigurationError(
                    f"SqlSource({self.conn_id!r}, parameters=): {name!r} cannot be a parameter's name; give letters, "
                    "digits and underscores, and do not begin with 'sitemap_'"
                )

    def _check_change_log(self) -> None:
        if self.change_log is None:
            return
        from airflow_sitemaps.sources.change_log import SINCE, ChangeLog  # noqa: PLC0415 - most DAG files do not need it

        where = f"SqlSource({self.conn_id!r}, change_log=)"
        if not isinstance(self.change_log, ChangeLog):
            raise SourceConfigurationError(
                f"{where}: give ChangeLog(table=…, position=…) or ChangeLog(query=…, position=…)"
            )
        if len(self.change_log.key_columns(self.key_columns)) != len(self.key_columns):
            raise SourceConfigurationError(
                f"{where}: key={self.change_log.key!r} has another number of columns than the source's key "
                f"({', '.join(self.key_columns)})"
            )
        if SINCE in (self.parameters or {}):
            raise SourceConfigurationError(f"{where}: parameters= holds {SINCE!r}, the name of the last position")
        excluded = {
            "group": "a change of one row changes the entries of its whole group, which the change log does not name. Collect "
            "the versions in the query, write all their keys to the change log, or omit change_log=",
            "as_of": "the state that the plan reads is older than the change log. Omit one of the two",
            "materialize": "the stored rows are older than the change log. Omit one of the two",
        }
        for name, reason in excluded.items():
            if getattr(self, name) is not None:
                raise SourceConfigurationError(f"{where}: it cannot be used with {name}=: {reason}")

    def _refusal(self, name: str, advice: str) -> SourceConfigurationError:
        return SourceConfigurationError(f"{self._argument(name)}: {advice}")

    def _argument(self, name: str) -> str:
        return f"SqlSource({self.conn_id!r}, {name}={getattr(self, name)!r})"

    # ------------------------------------------------------------ what opening the source needs

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The key's columns. The default is the column of ``loc``; it is empty if ``loc`` has several."""
        if self.key is None:
            columns = user_texts.loc_columns(self.loc)
            return columns if len(columns) == 1 else ()
        return (self.key,) if isinstance(self.key, str) else tuple(self.key)

    @property
    def state(self) -> str:
        """``plan`` to choose a state, the state or table of stored rows that a plan chose, or "" for the present."""
        return self._state or self.as_of or ""

    def identity(self) -> Mapping[str, object]:
        """Return what the rendered shards depend on: every argument, with texts as they are before Jinja renders them."""
        if self._template is not None:
            return self._template.identity()
        identity: dict[str, object] = {
            name: getattr(self, name)
            for name in ("conn_id", "table", "loc", "where", *FIELDS)
            # Feed fields that are not set are left out, so that sources without them keep their fingerprint.
            if name not in FEED_FIELDS or getattr(self, name) is not None
        }
        if isinstance(self.lastmod, Observed):
            identity["lastmod"] = {"observed": list(self.lastmod.columns), "initial": self.lastmod.initial}
        if self.page:
            identity["page"] = list(self.page_columns)
        if self.group is not None:
            identity |= {"group": self.group, "language": self.language}
        if self.lastmod_unit is not None:
            identity["lastmod_unit"] = self.lastmod_unit
        parameters = {name: _shown(value) for name, value in sorted((self.parameters or {}).items())}
        return identity | {
            "source": "sql", "query": self.query_text(), "key": list(self.key_columns), "parameters": parameters,
            "timezone": self.timezone,
        }  # fmt: skip

    def describe(self) -> str:
        """Return the connection id and the table, or the query's file, for logs."""
        if self.table is not None:
            return f"{self.conn_id}: {self.table}"
        source = self._template or self
        return f"{self.conn_id}: {source.query if source.is_path() else 'a query'}"

    def name_in(self, section: str) -> str:
        """Return what messages call this source in a section."""
        return f"section {section!r} ({self.describe()})"

    def query_text(self) -> str | None:
        """Return the query's SQL, read from its file if it names one."""
        if self.query is None or not self.is_path():
            return self.query
        return user_texts.file_text(self.query, self._folder, self._argument("query"))

    def is_path(self) -> bool:
        """Return whether ``query`` names a file: one line that ends in ``.sql``, which SQL itself never does."""
        text = (self.query or "").strip()
        return self._template is None and text.endswith(".sql") and "\n" not in text

    def change_log_identity(self) -> str:
        """Return a hash of all that a position in the change log depends on, with texts before they are rendered."""
        change_log = (self._template or self).change_log
        if change_log is None:
            return ""
        parameters = sorted((name, _shown(value)) for name, value in (self.parameters or {}).items())
        rows = [self.conn_id, self.table, self.query_text(), self.where, parameters]
        return sha256(json.dumps([change_log.identity(), rows], default=str).encode()).hexdigest()


def _shown(value: object) -> str:
    """Return a parameter as a text. The order of a set differs between processes, so it is sorted."""
    return str(sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value)
