"""``SqlSource``: the rows of a section in a SQL database, as a user defines them. Creating one does no I/O."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.sources import user_texts
from airflow_sitemaps.sources.columns import Observed
from airflow_sitemaps.sources.source_settings import SourceSettings
from airflow_sitemaps.sources.user_texts import NamePart, found_file, loc_columns, name_parts, nearest, written_name

if TYPE_CHECKING:
    from airflow_sitemaps.ports import Source


Value = str | int | bool


@dataclass(frozen=True, slots=True)
class SqlSource(SourceSettings):
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
        lastmod: A column with the time of the last change, or ``Observed`` with the columns that make the page, whose
            changes date it. Default: None.
        page: The columns that make the page, if ``lastmod`` is a column: the runs then count dates that move without a change of
            these, and changes without a new date. Default: none.
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
        where = f"SqlSource.from_dbt(model={model!r})"
        if given := {"table", "query"} & arguments.keys():
            raise SourceConfigurationError(
                f"{where}: {min(given)}= cannot be given for a model, because the model names its table; omit it"
            )
        table, columns = dbt_model(manifest, model, user_texts.callers_folder())
        source = cls(conn_id, table=table, **arguments)
        check_columns(columns, source, where)
        return source

    # ------------------------------------------------------------ ports.SourceConfig

    @property
    def change_log_interval(self) -> timedelta | None:
        """How long the change log stands for a survey of every range; None if there is none."""
        return None if self.change_log is None else self.change_log.full_every

    @property
    def sibling_key(self) -> str | None:
        """What sources have in common that differ only by the value of one equality, such as ``locale = 'de'``."""
        from airflow_sitemaps.sources.queries.siblings import sibling_key  # noqa: PLC0415 - imports SQLAlchemy and Arrow

        return sibling_key(self)

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
            # A value of the table (``part``) is no template, whatever its text.
            written = {n: value for n, value in (self.parameters or {}).items() if not n.startswith("sitemap_")}
            user_texts.refuse_templates(self.query_text(), self.where, written)
        return opened(self, section)

    def at(self, state: str) -> SqlSource:
        """Return a copy that reads the state that a plan fixed: of the table, or its materialized table."""
        return self._with({"_state": state})

    def part(self, column: str, value: Value | None, others: Sequence[Value] = ()) -> SqlSource:
        """Return a copy with only the rows of one value of a column, or, if it is None, those of none of the ``others``."""
        from airflow_sitemaps.sources.queries.siblings import part_of  # noqa: PLC0415 - imports SQLAlchemy and Arrow

        if value is None and not others:
            return self
        where, parameters = part_of(column, value, others, self.where)
        template = None if self._template is None else cast("SqlSource", self._template).part(column, value, others)
        parameters = {**(self.parameters or {}), **parameters}
        return self._with({"where": where, "parameters": parameters, "_template": template})

    def rendered(self, render: Callable[[str], str]) -> SqlSource:
        """Return a copy with query, where and text parameters rendered. A ``.sql`` file is read first.

        Args:
            render: The function that renders a Jinja template.

        Raises:
            TemplateError: A text cannot be rendered. The message names the argument.
        """
        text = self.query_text()
        parameters = {
            name: user_texts.rendered_text(render, f"parameters[{name!r}]", value) if isinstance(value, str) else value
            for name, value in (self.parameters or {}).items()
        }
        query = f"query={self.query!r}" if self.is_path() else "query="
        values = {
            "query": None if text is None else user_texts.rendered_text(render, query, text),
            "where": None if self.where is None else user_texts.rendered_text(render, "where=", self.where),
            "parameters": parameters or None,
            "change_log": None if self.change_log is None else self.change_log.rendered(render),
            "run": user_texts.run_name(render, user_texts.RUN_NAMES[0]) if self.materialize else "",
            "origin": user_texts.run_name(render, user_texts.RUN_NAMES[1]),
            "_template": self._template or self,
        }
        rendering = self._with(values)
        rendering._check()  # noqa: SLF001 - of the same class
        return rendering

    def _with(self, values: Mapping[str, Any]) -> SqlSource:
        """Return a copy with other values of some fields, which are not checked."""
        copied = copy.copy(self)
        for name, value in values.items():
            object.__setattr__(copied, name, value)
        return copied

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

        discard(self, section)

    # ------------------------------------------------------------ triggers

    def resolved(self) -> dict[str, Any]:
        """Return the settings that differ from their defaults, with the query's text, as far as JSON can hold them.

        The state that a plan chose and the change log are left out: a trigger reads the present state of the table.
        """
        settings = {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if each.init and each.name not in ("as_of", "change_log") and getattr(self, each.name) != each.default
        }
        lists: dict[str, Any] = {name: list(settings[name]) for name in ("session", "page") if name in settings}
        if isinstance(self.lastmod, Observed):
            lists["lastmod"] = {"columns": list(self.lastmod.columns), "initial": self.lastmod.initial}
        return settings | lists | {"key": list(self.key_columns), "query": self.query_text(), "origin": self.origin}

    @classmethod
    def restored(cls, settings: Mapping[str, Any]) -> SqlSource:
        """Return a source of the settings that ``resolved`` gave."""
        values = {name: value for name, value in settings.items() if name != "origin"}
        if isinstance(values.get("lastmod"), dict):
            values["lastmod"] = Observed(*values["lastmod"]["columns"], initial=values["lastmod"]["initial"])
        return cls(**values)._with({"origin": settings["origin"]})  # noqa: SLF001 - of the same class


# ------------------------------------------------------------ dbt's manifest (schemas.getdbt.com/dbt/manifest/v12.json)


SCHEMA: Final = re.compile(r"/manifest/v(\d+)\.json$")
OLDEST: Final = 4
"""The manifest of dbt 1.0."""
RELATIONS: Final = frozenset({"model", "seed", "snapshot"})
"""The kinds of nodes that are tables or views."""
UNQUOTED: Final = frozenset({"snowflake"})
"""The adapters that write names without quotes unless the project says so."""


def dbt_model(manifest: str, model: str, folder: str) -> tuple[str, tuple[str, ...]]:
    """Return a model's table, and its columns if dbt enforces its contract, so that it has no others.

    A relative path ``manifest`` is looked for in ``folder``, in the working directory and in the DAG folder. ``model``
    is its name, ``package.name``, ``name.v2`` for a version, or dbt's unique id.
    """
    hint = "`dbt parse`, `dbt compile` and `dbt run` write it"
    path = found_file(manifest, folder, f"SqlSource.from_dbt(manifest={manifest!r})", hint=hint)
    content = _content(path, path.stat().st_mtime_ns)
    where = f"SqlSource.from_dbt(manifest={manifest!r}, model={model!r})"
    node = _node(content, model, where)
    config = node.get("config") or {}
    if config.get("materialized") == "ephemeral":
        raise SourceConfigurationError(
            f"{where}: the model is ephemeral, so the database has no table of it. Materialize it as a table, a view or an "
            "incremental model, or give its SQL as query="
        )
    columns = tuple(str(each.get("name", name)) for name, each in (node.get("columns") or {}).items())
    contract = config.get("contract") or {}
    return _table(node, content, where), columns if contract.get("enforced") else ()


def check_columns(columns: tuple[str, ...], settings: SourceSettings, where: str) -> None:
    """Refuse a column that is not one of a contract.

    Without a contract, the manifest lists only documented columns, and the database checks the others.
    """
    if not columns:
        return
    folded = {column.casefold() for column in columns}
    groups = (name for name in (settings.group, settings.language) if name is not None)
    for name in (
        *settings.key_columns,
        *loc_columns(settings.loc),
        *settings.field_columns.values(),
        *settings.page_columns,
        *groups,
    ):
        if name.casefold() not in folded:
            raise SourceConfigurationError(
                f"{where}: the model has no column {name!r} in its contract.{nearest(name, columns)}"
            )


@lru_cache(maxsize=4)
def _content(path: Path, _modified_at: int) -> Mapping[str, Any]:
    """Return a manifest. A file that several sections name is read once."""
    try:
        content = json.loads(path.read_bytes())
        version = SCHEMA.search(str(content["metadata"]["dbt_schema_version"]))
        nodes = content["nodes"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise SourceConfigurationError(
            f"{path} is not a dbt manifest ({type(error).__name__}: {error}); give the path of target/manifest.json"
        ) from None
    if version is None or not isinstance(nodes, dict):
        raise SourceConfigurationError(f"{path} is no manifest of dbt; give the path of target/manifest.json")
    if int(version[1]) < OLDEST:
        raise SourceConfigurationError(
            f"{path} is a manifest of version {version[1]}; the oldest that is read is {OLDEST}, of dbt 1.0: upgrade dbt"
        )
    return dict(content)


def _node(content: Mapping[str, Any], model: str, where: str) -> Mapping[str, Any]:
    """Return the node of a model. Of several versions it is the latest, as in dbt's own ``ref``."""
    nodes = [node for node in content["nodes"].values() if node.get("resource_type") in RELATIONS]
    matches = [node for node in nodes if model in _names(node)]
    latest = [node for node in matches if node.get("version") == node.get("latest_version")]
    if len(matches) > 1 and len({node["package_name"] for node in matches}) == 1 and len(latest) == 1:
        matches = latest
    if len(matches) == 1:
        return dict(matches[0])
    if matches:
        ids = ", ".join(sorted(str(node["unique_id"]) for node in matches))
        raise SourceConfigurationError(f"{where}: several models have this name: {ids}. Give one as package.name")
    disabled = [each for group in (content.get("disabled") or {}).values() for each in group if model in _names(each)]
    if disabled:
        raise SourceConfigurationError(f"{where}: the model is disabled in dbt, so it has no table. Enable it")
    names = [str(node["name"]) for node in nodes]
    raise SourceConfigurationError(f"{where}: the manifest has no such model.{nearest(model, names)}")


def _names(node: Mapping[str, Any]) -> set[str]:
    name, package = str(node.get("name")), str(node.get("package_name"))
    names = {name, f"{name}.v{node['version']}"} if node.get("version") is not None else {name}
    return {*names, *(f"{package}.{each}" for each in names), str(node.get("unique_id"))}


def _table(node: Mapping[str, Any], content: Mapping[str, Any], where: str) -> str:
    """Return the relation's name as dbt quotes it: of database, schema and alias if the manifest was only parsed."""
    written = node.get("relation_name")
    if written:
        try:
            return written_name(name_parts(str(written)))
        except SourceConfigurationError:
            raise SourceConfigurationError(
                f"{where}: the relation's name {written!r} cannot be read; give it as table= in this database's form"
            ) from None
    parts = [node.get("database"), node.get("schema"), node.get("alias") or node.get("name")]
    if not parts[1]:
        raise SourceConfigurationError(
            f"{where}: the manifest names no schema for it; run `dbt compile`, and try again"
        )
    quoted = content["metadata"].get("adapter_type") not in UNQUOTED
    return written_name(NamePart(str(part), is_quoted=quoted) for part in parts if part)
