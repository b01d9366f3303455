"""``SqlSource``: a section's rows in a SQL database, as a user writes it. Only assigns; no I/O."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from zoneinfo import ZoneInfo

from airflow_sitemaps.errors import SourceConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from airflow_sitemaps.ports import Source

COLUMNS: Final = ("lastmod", "changefreq", "priority", "images", "videos", "news", "alternates")
PARAMETER: Final = re.compile(r"(?!sitemap_)[A-Za-z_]\w*", re.ASCII)
BRACES: Final = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True, slots=True)
class SqlSource:
    """Rows of a table or a query, reached by an Airflow connection.

    ``table`` is a name (``mart.products``; quote parts that hold dots: ``mart."my.table"``). ``query`` is SQL, or the
    path of a ``.sql`` file beside the file that makes this source, in the working directory, or in the DAG folder.
    ``key`` is one orderable column or several, the ``loc`` column by default; an integer that grows with time is best.
    ``loc`` is a column with absolute or root-relative URLs, or a template ``https://host/p/{column}`` whose values
    are percent-encoded. ``lastmod``, ``changefreq`` and ``priority`` are columns; ``images``, ``videos``, ``news`` and
    ``alternates`` are columns that hold JSON. Instead of ``alternates``, ``group`` and ``language`` are columns: rows of
    one group are each other's versions in other languages (``x-default`` among them). ``where`` is a condition in SQL. ``parameters`` are values for
    ``:name`` in query and where. Query, where and text parameters take Jinja. ``timezone`` is the zone of times that
    have none (IANA name). ``materialize`` names a schema in which the query is stored for the session, when it is too
    dear to run once per range. ``reader`` ``"cursor"`` keeps to SQLAlchemy's cursor where the driver has Arrow.

    Raises:
        SourceConfigurationError: an argument that cannot be.
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
    group: str | None = field(default=None, kw_only=True)
    language: str | None = field(default=None, kw_only=True)
    where: str | None = field(default=None, kw_only=True)
    parameters: Mapping[str, Any] | None = field(default=None, kw_only=True)
    timezone: str = field(default="UTC", kw_only=True)
    materialize: str | None = field(default=None, kw_only=True)
    reader: Literal["auto", "cursor"] = field(default="auto", kw_only=True)
    folder: str = field(default="", kw_only=True, repr=False, compare=False)
    """Where a ``.sql`` file is looked for first: the folder of the file that makes this source."""
    run: str = field(default="", kw_only=True, repr=False, compare=False)
    """Airflow's name of the run, once rendered: its tasks share a materialised table."""
    written: SqlSource | None = field(default=None, kw_only=True, repr=False, compare=False)
    """The source as its user wrote it, before its texts were rendered."""

    def __post_init__(self) -> None:
        if not self.folder:
            object.__setattr__(self, "folder", _callers_folder())
        if not isinstance(self.conn_id, str) or not self.conn_id.strip():
            raise SourceConfigurationError(f"SqlSource({self.conn_id!r}): give the id of an Airflow connection")
        if (self.table is None) == (self.query is None):
            raise SourceConfigurationError(f"SqlSource({self.conn_id!r}): give one of table= and query=")
        for name in ("table", "query", "where", "loc", "materialize", "group", "language", *COLUMNS):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value.strip()):
                raise SourceConfigurationError(f"{self._me(name)}: give a text that is not empty, or leave it out")
        self._check_key()
        self._check_group()
        self._check_parameters()
        if self.reader not in ("auto", "cursor"):
            raise SourceConfigurationError(f"{self._me('reader')}: give 'auto' or 'cursor'")
        try:
            ZoneInfo(self.timezone)
        except (KeyError, ValueError, OSError):
            raise SourceConfigurationError(f"{self._me('timezone')}: give an IANA name, like 'Europe/Berlin'") from None

    def _check_key(self) -> None:
        names = self.key_columns
        if not names:
            raise SourceConfigurationError(
                f"{self._me('loc')} is a template over several columns: give key=, the column(s) that order the rows"
            )
        if any(not isinstance(name, str) or not name for name in names) or len(set(names)) != len(names):
            raise SourceConfigurationError(f"{self._me('key')}: give one column, or several different ones")

    def _check_group(self) -> None:
        if (self.group is None) != (self.language is None):
            raise SourceConfigurationError(
                f"SqlSource({self.conn_id!r}): give group= and language= together: the column that versions of one "
                "page share, and the column of each version's language"
            )
        if self.group is not None and self.alternates is not None:
            raise SourceConfigurationError(
                f"{self._me('alternates')}: give either alternates=, or group= and language="
            )

    def _check_parameters(self) -> None:
        for name in self.parameters or {}:
            if not isinstance(name, str) or not PARAMETER.fullmatch(name):
                raise SourceConfigurationError(
                    f"SqlSource({self.conn_id!r}, parameters=): {name!r} cannot be a parameter's name; give letters, "
                    "digits and underscores, and do not begin with 'sitemap_'"
                )

    def _me(self, argument: str) -> str:
        return f"SqlSource({self.conn_id!r}, {argument}={getattr(self, argument)!r})"

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The key's columns; by default that of ``loc``; empty where ``loc`` needs several."""
        if self.key is None:
            columns = BRACES.findall(self.loc) if "{" in self.loc else [self.loc]
            return tuple(columns) if len(set(columns)) == 1 else ()
        return (self.key,) if isinstance(self.key, str) else tuple(self.key)

    def open(self, *, section: str) -> AbstractContextManager[Source]:
        """Connect, and look at the columns.

        Raises:
            SourceConfigurationError: no such connection, table, column or file; the message lists those there are.
            SourceError: the database cannot be reached.
        """
        opened: AbstractContextManager[Source] = import_module("airflow_sitemaps.sources.opening").opened(self, section)
        return opened

    def identity(self) -> Mapping[str, object]:
        """What the rendered shards depend on: every argument, with texts as written, before Jinja."""
        if self.written is not None:
            return self.written.identity()
        identity: dict[str, object] = {
            name: getattr(self, name) for name in ("conn_id", "table", "loc", "where", *COLUMNS)
        }
        if self.group is not None:
            identity |= {"group": self.group, "language": self.language}
        parameters = {name: str(value) for name, value in sorted((self.parameters or {}).items())}
        return identity | {
            "source": "sql",
            "query": self.query_text(),
            "key": list(self.key_columns),
            "parameters": parameters,
            "timezone": self.timezone,
        }

    def describe(self) -> str:
        """For logs: connection id and table, or the query's file."""
        if self.table is not None:
            return f"{self.conn_id}: {self.table}"
        source = self.written or self
        return f"{self.conn_id}: {source.query if source.is_path() else 'a query'}"

    def rendered(self, render: Callable[[str], str]) -> SqlSource:
        """The same with query, where and text parameters rendered; a ``.sql`` file is read."""
        text = self.query_text()
        parameters = {k: render(v) if isinstance(v, str) else v for k, v in (self.parameters or {}).items()}
        return replace(
            self,
            query=None if text is None else render(text),
            where=None if self.where is None else render(self.where),
            parameters=parameters or None,
            run=_named(render("{{ dag.dag_id }}/{{ run_id }}")) if self.materialize else "",
            written=self.written or self,
        )

    def discard(self, *, section: str) -> None:
        """Drop the materialised table that the tasks of a run have shared; nothing where there is none.

        Raises:
            SourceConfigurationError: the connection is wrong.
        """
        import_module("airflow_sitemaps.sources.opening").discard(self, section)

    def query_text(self) -> str | None:
        """The query's SQL, read from its file where it is one.

        Raises:
            SourceConfigurationError: the file is not there; the message says which paths were tried.
        """
        if self.query is None or not self.is_path():
            return self.query
        tried = [folder / self.query for folder in (Path(self.folder), Path.cwd(), *_dag_folder())]
        for path in dict.fromkeys(tried):
            if path.is_file():
                return path.read_text(encoding="utf-8")
        raise SourceConfigurationError(
            f"{self._me('query')}: there is no such file; tried {', '.join(str(path) for path in dict.fromkeys(tried))}"
        )

    def is_path(self) -> bool:
        """Whether ``query`` names a file: one line that ends in ``.sql``. SQL itself does not end so."""
        text = (self.query or "").strip()
        return self.written is None and text.endswith(".sql") and "\n" not in text


def _named(run: str) -> str:
    """A run's name, or nothing where the template could not be rendered."""
    return "" if "{{" in run or not run.strip("/ ") else run


def _callers_folder() -> str:
    """The folder of the nearest file up the stack that is not of this package or the standard library's dataclasses."""
    package = str(Path(__file__).parent)
    frame = sys._getframe(1)  # noqa: SLF001 - the one way to know who calls, without a class to inherit from
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith("<") and not name.startswith(package) and Path(name).name != "dataclasses.py":
            return str(Path(name).absolute().parent)
        if frame.f_back is None:
            break
        frame = frame.f_back
    return str(Path.cwd())


def _dag_folder() -> list[Path]:
    """Airflow's DAG folder, where Airflow is loaded or its variable is set."""
    folder = os.environ.get("AIRFLOW__CORE__DAGS_FOLDER")
    if folder is None and "airflow.configuration" in sys.modules:
        folder = import_module("airflow.configuration").conf.get("core", "dags_folder", fallback=None)
    return [Path(folder)] if folder else []
