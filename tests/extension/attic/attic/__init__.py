"""A store and a database of a third party: folders under ``ATTIC``, and SQLite under another name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from airflow_sitemaps import LocalStore
from airflow_sitemaps.sources.dialects.sqlite import SQLite
from airflow_sitemaps.stores.local import open_area as open_folder

if TYPE_CHECKING:
    from airflow_sitemaps.ports import ObjectStore


class AtticDialect(SQLiteDialect_pysqlite):
    """SQLAlchemy's dialect."""

    name = "attic"
    supports_statement_cache = True


class Attic(SQLite):
    """The dialect of the package."""

    name = "attic"


class AtticStore(LocalStore):
    """A store with addresses of its own: ``attic://shop``."""

    def __init__(self, url: str, *, base_url: str) -> None:
        super().__init__(folder_of(url), base_url=base_url)
        self.url = url

    @property
    def uri(self) -> str:
        """Address of the public area."""
        return self.url

    def console_url(self) -> str:
        """Return the page of the store's console."""
        return f"https://attic.example/{self.url.partition('://')[2]}"


def open_area(url: str, conn_id: str | None) -> ObjectStore:
    """Open an area for reading."""
    return open_folder(str(folder_of(url)), conn_id)


def folder_of(url: str) -> Path:
    """Return the folder of an address."""
    return Path(os.environ["ATTIC"], url.partition("://")[2])
