"""``SqlSource``: the rows of a section in a SQL database, as a user defines them. Creating one does no I/O."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from airflow_sitemaps.errors import ConfigurationError, SourceConfigurationError
from airflow_sitemaps.protocol.url_template import Template
from airflow_sitemaps.sources.columns import FEED_FIELDS, FIELDS
from airflow_sitemaps.sources.spec import SourceSpec
from airflow_sitemaps.sources.statements import source_settings
from airflow_sitemaps.sources.statements.user_texts import (
    callers_folder,
    found_file,
    name_parts,
    refuse_templates,
    rendered_text,
    run_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from datetime import timedelta

    from airflow_sitemaps.ports import Source
    from airflow_sitemaps.sources.statements.change_log_settings import ChangeLog
    from airflow_sitemaps.sources.statements.source_settings import LastmodUnit, Reader

PARAMETER: Final = re.compile(r"(?!sitemap_)[A-Za-z_]\w*", re.ASCII)
TEXTS: Final = ("table", "query", "where", "loc", "materialize", "group", "language", "timezone", *FIELDS)


@dataclass(frozen=True, slots=True)
class SqlSource:
    """Rows of a table or a query, reached by an Airflow connection.

    ``query``, ``where`` and text parameters may be Jinja templates.

    Attributes:
        conn_id: The id of the Airflow connection.
        table: A table's name (``mart.products``); quote parts that hold dots: ``mart."my.table"``. Give this or
            ``query``.
        query: SQL, or the path of a ``.sql`` file beside the file that makes this source, in the working directory,
            or in the DAG folder. Give this or ``table``.
        key: One orderable column or several. Default: the column of ``loc``. An integer that grows with time is best.
        loc: A column with absolute or root-relative URLs, or a template ``https://host/p/{column}`` whose values are
            percent-encoded; the slashes of ``{column:path}`` stay slashes.
        lastmod: A column with the time of the last change. Default: None.
        changefreq: A column with the change frequency, one of the protocol's words. Default: None.
        priority: A column with the priority from 0.0 to 1.0. Default: None.
        images: A column that holds JSON. Default: None.
        videos: A column that holds JSON. Default: None.
        news: A column that holds JSON. Default: None.
        alternates: A column that holds JSON. Default: None.
        title: A column of text: the page's title, which feeds show. Default: None.
        description: A column of text: the page's description, which feeds show. Default: None.
        group: A column whose equal values make rows each other's versions in other languages. Give this or
            ``alternates``. NULL, the empty text and zero form no group. Default: None.
        language: The column of each version's language or ``x-default``. Required with ``group``. Default: None.
        where: A condition in SQL. Default: None.
        parameters: Values for ``:name`` in ``query`` and ``where``. Default: None.
        timezone: The IANA name of the time zone of times that have none. Default: ``UTC``.
        lastmod_unit: The unit of a numeric lastmod: seconds, milliseconds or microseconds since 1970. Default: None,
            which drops numbers by the rule ``lastmod-format``.
        materialize: A schema in which the query's rows are stored for the run, when the query is too expensive to run
            once per range. Default: None.
        session: Statements that run first on each connection, such as a time-out, a warehouse or a role. They are not part
            of what the files depend on. Default: none.
        max_scan_bytes: The largest number of bytes that the surveys of one plan may scan, by BigQuery's dry run. A survey
            above it is refused before it runs. Other databases refuse the argument. Default: None, for no limit.
        as_of: ``plan`` makes all queries of a run, in the plan and in every write task, read the state of the table at the
            time of planning, by the time travel of BigQuery, Snowflake or Delta. Default: None, each task reads the present.
        change_log: The keys that changed since the last run; only their key ranges are digested. Default: None, every range
            is.
        reader: ``auto`` reads by the driver's own Arrow interface if it has one. ``cursor`` always reads by
            SQLAlchemy's cursor. Default: ``auto``.

    Raises:
        SourceConfigurationError: An argument is invalid.
    """

    conn_id: str
    table: str | None = field(default=None, kw_only=True)
    query: str | None = field(default=None, kw_only=True)
    key: str | Sequence[str] | None = field(default=None, kw_only=True)
    loc: str = field(kw_only=True)
    lastmod: str | None = field(default=None, kw_only=True)
    changefreq: str | None = field(default=None, kw_only=True)
    priority: str | None = field(default=None, kw_only=True)
    images: str | None = field(default=None, kw_only=True)
    videos: str | None = field(default=None, kw_only=True)
    news: str | None = field(default=None, kw_only=True)
    alternates: str | None = field(default=None, kw_only=True)
    title: str | None = field(default=None, kw_only=True)
    description: str | None = field(default=None, kw_only=True)
    group: str | None = field(default=None, kw_only=True)
    language: str | None = field(default=None, kw_only=True)
    where: str | None = field(default=None, kw_only=True)
    parameters: Mapping[str, Any] | None = field(default=None, kw_only=True)
    timezone: str = field(default="UTC", kw_only=True)
    lastmod_unit: LastmodUnit | None = field(default=None, kw_only=True)
    materialize: str | None = field(default=None, kw_only=True)
    session: Sequence[str] = field(default=(), kw_only=True)
    max_scan_bytes: int | None = field(default=None, kw_only=True)
    as_of: Literal["plan"] | None = field(default=None, kw_only=True)
    change_log: ChangeLog | None = field(default=None, kw_only=True)
    reader: Reader = field(default="auto", kw_only=True)
    # The first folder in which a .sql file is searched for: that of the file that makes this source.
    _folder: str = field(default="", init=False, repr=False, compare=False)
    # Airflow's name of the run. It is set when the texts are rendered.
    _run: str = field(default="", init=False, repr=False, compare=False)
    # DAG, task and run. They are set when the texts are rendered.
    _origin: str = field(default="", init=False, repr=False, compare=False)
    # The state of the table that the run's plan fixed.
    _state: str = field(default="", init=False, repr=False, compare=False)
    # The source before its texts were rendered.
    _template: SqlSource | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Keep the caller's folder, and check the arguments."""
        object.__setattr__(self, "_folder", callers_folder())
        self._check()

    @classmethod
    def from_dbt(cls, conn_id: str, *, manifest: str, model: str, **arguments: Any) -> SqlSource:
        """Return a source over the table or view of a dbt model.

        Args:
            conn_id: The id of the Airflow connection.
            manifest: The path of dbt's ``manifest.json``. A relative path is looked for as a ``.sql`` file is.
            model: The name of a model, seed or snapshot: ``name``, ``package.name`` or, for a version, ``name.v2``.
            arguments: The other arguments of ``SqlSource``, except ``table`` and ``query``.

        Raises:
            SourceConfigurationError: The file is no manifest, the model is not in it or is no table or view, its contract
                lacks a column, or an argument is invalid.
        """
        from airflow_sitemaps.sources.dbt_manifest import check_columns, dbt_model  # noqa: PLC0415 - few sources need it

        where = f"SqlSource.from_dbt(model={model!r})"
        if given := {"table", "query"} & arguments.keys():
            raise SourceConfigurationError(
                f"{where}: {min(given)}= cannot be given for a model, because the model names its table; omit it"
            )
        relation = dbt_model(manifest, model, callers_folder())
        source = cls(conn_id, table=relation.table, **arguments)
        check_columns(relation, source.spec(), where)
        return source

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
        for name in TEXTS:
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value.strip()):
                raise SourceConfigurationError(f"{self._argument(name)}: give a text that is not empty, or omit it")
        if self.table is not None:
            name_parts(self.table)
        if self.materialize is not None:
            name_parts(self.materialize)
        self._check_loc()
        self._check_key()
        self._check_group()
        self._check_parameters()
        source_settings.check_choices(
            self.conn_id, self.reader, self.session, self.lastmod, self.lastmod_unit, self.timezone
        )
        source_settings.check_exclusive(self.conn_id, self.table, self.materialize, self.max_scan_bytes, self.as_of)
        if self.change_log is not None:
            source_settings.check_source(self._spec(self.query))

    def _check_loc(self) -> None:
        if "{" not in self.loc and "}" not in self.loc:
            return
        try:
            columns = Template.parse(self.loc).columns
        except ConfigurationError as error:
            raise SourceConfigurationError(f"{self._argument('loc')}: {error}") from None
        if not columns:
            raise SourceConfigurationError(
                f"{self._argument('loc')}: the template names no column; write at least one in braces, like '/p/{{slug}}'"
            )

    def _check_key(self) -> None:
        if self.key is not None and not isinstance(self.key, (str, Sequence)):
            raise SourceConfigurationError(f"{self._argument('key')}: give one column, or several different ones")
        names = self.key_columns
        if self.key is None and not names:
            raise SourceConfigurationError(
                f"{self._argument('loc')} is a template over several columns: give key=, one or more columns that order the rows"
            )
        if (
            not names
            or any(not isinstance(name, str) or not name.strip() for name in names)
            or len(set(names)) != len(names)
        ):
            raise SourceConfigurationError(f"{self._argument('key')}: give one column, or several different ones")

    def _check_group(self) -> None:
        if (self.group is None) != (self.language is None):
            raise SourceConfigurationError(
                f"SqlSource({self.conn_id!r}): give group= and language= together: the column that versions of one "
                "page share, and the column of each version's language"
            )
        if self.group is not None and self.alternates is not None:
            raise SourceConfigurationError(
                f"{self._argument('alternates')}: give either alternates=, or group= and language="
            )

    def _check_parameters(self) -> None:
        if self.parameters is not None and not isinstance(self.parameters, Mapping):
            raise SourceConfigurationError(f"{self._argument('parameters')}: give a mapping of names to values")
        for name in self.parameters or {}:
            if not isinstance(name, str) or not PARAMETER.fullmatch(name):
                raise SourceConfigurationError(
                    f"SqlSource({self.conn_id!r}, parameters=): {name!r} cannot be a parameter's name; give letters, "
                    "digits and underscores, and do not begin with 'sitemap_'"
                )

    def _argument(self, name: str) -> str:
        return f"SqlSource({self.conn_id!r}, {name}={getattr(self, name)!r})"

    # ------------------------------------------------------------ ports.SourceConfig

    @property
    def change_log_interval(self) -> timedelta | None:
        """How long the change log stands for a survey of every range; None if there is none."""
        return None if self.change_log is None else self.change_log.full_every

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The key's columns. The default is the column of ``loc``; it is empty if ``loc`` has several."""
        if self.key is None:
            columns = Template.parse(self.loc).columns if "{" in self.loc else (self.loc,)
            return columns if len(columns) == 1 else ()
        return (self.key,) if isinstance(self.key, str) else tuple(self.key)

    def open(self, *, section: str) -> AbstractContextManager[Source]:
        """Connect to the database and check the columns.

        Args:
            section: The section's name, for messages and for names of materialized tables.

        Returns:
            A context manager of the open source, which it closes at the end.

        Raises:
            SourceConfigurationError: The connection, table, column or file does not exist. The message lists those that
                exist.
            SourceError: The database cannot be reached.
            TemplateError: A template is not rendered.
        """
        from airflow_sitemaps.sources.session_factory import opened  # noqa: PLC0415 - imports SQLAlchemy and Arrow

        if self._template is None:
            refuse_templates(self.query_text(), self.where, self.parameters)
        return opened(self.spec(), section)

    def at(self, state: str) -> SqlSource:
        """Return a copy that reads the state that a plan fixed: of the table, or its materialized table."""
        pinned = copy.copy(self)
        object.__setattr__(pinned, "_state", state)
        return pinned

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
        if self.group is not None:
            identity |= {"group": self.group, "language": self.language}
        if self.lastmod_unit is not None:
            identity["lastmod_unit"] = self.lastmod_unit
        parameters = {name: str(value) for name, value in sorted((self.parameters or {}).items())}
        return identity | {
            "source": "sql",
            "query": self.query_text(),
            "key": list(self.key_columns),
            "parameters": parameters,
            "timezone": self.timezone,
        }

    def describe(self) -> str:
        """Return the connection id and the table, or the query's file, for logs."""
        if self.table is not None:
            return f"{self.conn_id}: {self.table}"
        source = self._template or self
        return f"{self.conn_id}: {source.query if source.is_path() else 'a query'}"

    def rendered(self, render: Callable[[str], str]) -> SqlSource:
        """Return a copy with query, where and text parameters rendered. A ``.sql`` file is read first.

        Args:
            render: The function that renders a Jinja template.

        Raises:
            TemplateError: A text cannot be rendered. The message names the argument.
        """
        text = self.query_text()
        parameters = {
            name: rendered_text(render, f"parameters[{name!r}]", value) if isinstance(value, str) else value
            for name, value in (self.parameters or {}).items()
        }
        query = f"query={self.query!r}" if self.is_path() else "query="
        rendering = copy.copy(self)
        values = {
            "query": None if text is None else rendered_text(render, query, text),
            "where": None if self.where is None else rendered_text(render, "where=", self.where),
            "parameters": parameters or None,
            "change_log": None if self.change_log is None else self.change_log.rendered(render),
            "_run": run_name(render("{{ dag.dag_id }}/{{ run_id }}")) if self.materialize else "",
            "_origin": run_name(render("dag={{ dag.dag_id }} task={{ task.task_id }} run={{ run_id }}")),
            "_template": self._template or self,
        }
        for name, value in values.items():
            object.__setattr__(rendering, name, value)
        rendering._check()  # noqa: SLF001 - of the same class
        return rendering

    def sql_text(self) -> str:
        """Return readable SQL that selects the rows: query or table, with condition and parameters."""
        text = self.query_text() or f"SELECT * FROM {self.table}"
        if self.where is not None:
            text = (
                f"SELECT * FROM ({text}) WHERE {self.where}" if self.query is not None else f"{text} WHERE {self.where}"
            )
        parameters = ", ".join(f":{name} = {value!r}" for name, value in (self.parameters or {}).items())
        return f"{text}\n-- {parameters}" if parameters else text

    def discard(self, *, section: str) -> None:
        """Drop the materialized table that a plan chose as its state (see ``at``), if it exists.

        Args:
            section: The section's name.

        Raises:
            SourceConfigurationError: The connection is wrong.
        """
        from airflow_sitemaps.sources.session_factory import discard  # noqa: PLC0415 - imports SQLAlchemy and Arrow

        discard(self.spec(), section)

    def spec(self) -> SourceSpec:
        """Return the settings that opening needs, with the query's text read from its file."""
        spec = self._spec(self.query_text())
        return replace(
            spec, change_log_identity=source_settings.change_log_identity(spec, (self._template or self).change_log)
        )

    def _spec(self, query: str | None) -> SourceSpec:
        return SourceSpec(
            conn_id=self.conn_id,
            description=self.describe(),
            table=self.table,
            query=query,
            where=self.where,
            parameters=dict(self.parameters or {}),
            key=self.key_columns,
            loc=self.loc,
            fields={name: getattr(self, name) for name in FIELDS if getattr(self, name) is not None},
            group=self.group,
            language=self.language,
            timezone=self.timezone,
            lastmod_unit=self.lastmod_unit,
            materialize=self.materialize,
            session=tuple(self.session),
            max_scan_bytes=self.max_scan_bytes,
            as_of=self._state or self.as_of or "",
            run=self._run,
            origin=self._origin,
            arrow=self.reader == "auto",
            change_log=self.change_log,
        )

    def query_text(self) -> str | None:
        """Return the query's SQL, read from its file if it names one.

        Raises:
            SourceConfigurationError: The file does not exist. The message lists the paths that were tried.
        """
        if self.query is None or not self.is_path():
            return self.query
        return found_file(self.query, self._folder, self._argument("query")).read_text(encoding="utf-8")

    def is_path(self) -> bool:
        """Return whether ``query`` names a file: one line that ends in ``.sql``, which SQL itself never does."""
        text = (self.query or "").strip()
        return self._template is None and text.endswith(".sql") and "\n" not in text
