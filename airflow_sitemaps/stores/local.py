"""A folder of this machine as a store: for a web server's document root, for trials, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.stores.address import DEFAULT_CACHE_CONTROL, checked_base_url, checked_index_name
from airflow_sitemaps.stores.opened import OpenedStore

if TYPE_CHECKING:
    import os

BOOKS: Final = ".local-store"
"""Folder within the state folder for what a file system cannot keep beside a file: metadata, locks, half files."""


class LocalStore:
    """A public folder that a web server serves, and a private one beside it for manifests and plans.

    ``state_dir`` is the sibling ``<path>-state`` unless given. Conditional writes hold between all processes that
    share the folders through locks (on one machine, or over a network file system whose locks work).

    Raises:
        ConfigurationError: a base URL or index name that cannot be; on ``open``, one folder inside the other.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        base_url: str,
        state_dir: str | os.PathLike[str] | None = None,
        index_name: str = "sitemap.xml",
        cache_control: str = DEFAULT_CACHE_CONTROL,
        single_writer: bool = False,
    ) -> None:
        if not str(path):
            raise ConfigurationError("LocalStore(''): give the folder that is served, like 'public/sitemaps'")
        self.path = Path(path)
        self.state_dir = None if state_dir is None else Path(state_dir)
        where = f"LocalStore({str(path)!r})"
        self.base_url = checked_base_url(base_url, where=where)
        self.index_name = checked_index_name(index_name, where=where)
        self.cache_control = cache_control
        self.single_writer = single_writer

    def open(self) -> OpenedStore:
        """Make the folders where they are missing. Raises ConfigurationError, StoreError."""
        from airflow_sitemaps.stores.local_objects import LocalObjects, made_folder, swept_scratch  # noqa: PLC0415

        public, state = self.folders()
        for folder in (public, state, state / BOOKS):
            made_folder(folder)
        swept_scratch(public, state / BOOKS)
        return OpenedStore(
            public=LocalObjects(area="public", root=public, books=state / BOOKS),
            state=LocalObjects(area="state", root=state, books=state / BOOKS),
            base_url=self.base_url,
            index_name=self.index_name,
            cache_control=self.cache_control,
            enforces_conditions=True,
        )

    def folders(self) -> tuple[Path, Path]:
        """The public and the state folder, absolute and without symlinks. Raises ConfigurationError."""
        public = self.path.expanduser().resolve()
        beside = public.with_name(public.name + "-state") if public.name else public
        state = beside if self.state_dir is None else self.state_dir.expanduser().resolve()
        if state == public or public in state.parents or state in public.parents:
            raise ConfigurationError(
                f"LocalStore({str(self.path)!r}): the folders {public} and {state} lie within each other: what is "
                "private would be served. Give state_dir= a folder outside the public one"
            )
        return public, state

    def describe(self) -> str:
        return f"{self.path} for {self.base_url}"

    def __repr__(self) -> str:
        return f"LocalStore({str(self.path)!r}, base_url={self.base_url!r})"
