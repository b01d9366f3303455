"""SQL for identifiers and string literals, which dialects inherit."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from airflow_sitemaps.sources.statements.binds import guarded

if TYPE_CHECKING:
    import sqlalchemy as sa

    from airflow_sitemaps.sources.columns import Column
    from airflow_sitemaps.sources.statements.table_name import NamePart


class IdentifierSql:
    """SQL for identifiers and string literals."""

    folds_names: ClassVar[bool] = False
    """Whether an unquoted table name in lower case refers to a name in upper case."""
    escapes_backslash: ClassVar[bool] = False
    """Whether a backslash begins an escape in a string literal."""

    def __init__(self, dialect: sa.Dialect) -> None:
        """Keep the identifier quoting of an engine's dialect."""
        self._preparer = dialect.identifier_preparer

    def quote(self, name: str) -> str:
        """Quote an identifier for use in ``sqlalchemy.text``, as the database writes it.

        Every identifier is quoted, because SQLAlchemy's lists of reserved words lag behind the databases.
        """
        return self._guarded(self._preparer.quote_identifier(name))

    def quote_table(self, part: NamePart) -> str:
        """Quote one part of a table's name.

        If the database folds the case of plain names, a part that the user wrote without quotes is quoted only if it has to be.
        """
        if self.folds_names and not part.is_quoted:
            return self._guarded(self._preparer.quote(part.text))
        return self.quote(part.text)

    def _guarded(self, quoted: str) -> str:
        if getattr(self._preparer, "_double_percents", False):
            # ``text`` doubles percent signs, so they must be single here.
            quoted = quoted.replace("%%", "%")
        return guarded(quoted)

    def column(self, column: Column) -> str:
        """Return the SQL name of a column of the source, which every statement calls ``src``."""
        return f"src.{self.quote(column.name)}"

    def text_literal(self, value: str) -> str:
        """Return a text as a SQL literal."""
        if self.escapes_backslash:
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        return "'" + value.replace("'", "''") + "'"
