"""A store in a folder of this machine: a web server's document root, or a folder for trials and tests."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.stores import StoreSettings

if TYPE_CHECKING:
    from airflow_sitemaps.ports import ObjectStore, Store
    from airflow_sitemaps.stores.local.permissions import Permissions

log = logging.getLogger(__name__)

BOOKS: Final = ".local-store"
"""Folder within the state folder for metadata, locks and scratch records, which a file system cannot store with a file."""


@dataclass(kw_only=True, eq=False, repr=False)
class LocalStore(StoreSettings):
    """A public folder that a web server serves, and a private one beside it for manifests and plans.

    File locks enforce conditional writes between all processes that share the folders: on one machine, or over a network
    file system whose locks work (see "A folder that a web server serves" in the documentation).

    Modes do not depend on the umask of the process. Files and folders get the permissions of the public folder unless
    ``file_mode`` and ``dir_mode`` are set. A public folder that does not exist is created with mode 0o755.

    The other settings are those of every store: ``StoreSettings``. The web server sends the headers. With ``single_writer``
    a file system without locks is accepted.

    Attributes:
        path: The public folder.
        state_dir: The private folder. None: the sibling ``<path>-state``.
        file_mode: Mode of public files, such as 0o644. None: everyone who may enter the public folder may read them.
        dir_mode: Mode of new public folders. None: the mode of the public folder.
        group: Name or ID of the group of public files and folders. None: the file system decides, so a setgid folder
            passes on its group.

    Raises:
        ConfigurationError: A base URL, index name, mode or group is invalid, or one folder contains the other.
    """

    path: str | os.PathLike[str] = field(kw_only=False)
    state_dir: str | os.PathLike[str] | None = None
    file_mode: int | None = None
    dir_mode: int | None = None
    group: str | int | None = None

    def __post_init__(self) -> None:
        from airflow_sitemaps.stores.local.permissions import check_mode  # noqa: PLC0415 - POSIX modules

        if not _may_be_folder(self.path):
            raise ConfigurationError(
                f"LocalStore({self.path!r}): give the folder that is served, like 'public/sitemaps'. A bucket has a store of its "
                "own, such as S3Store('s3://…')"
            )
        self.path = Path(self.path)
        super().__post_init__()
        where = self._named()
        if self.state_dir is not None:
            if not _may_be_folder(self.state_dir):
                raise ConfigurationError(f"{where}: state_dir={self.state_dir!r} must be a folder of this machine")
            with suppress(RuntimeError):  # an unknown home folder: ``open`` says so
                _ = self.path.expanduser(), self.state_folder
                self.folders()
        check_mode("file_mode", self.file_mode, required=0o600, where=where)
        check_mode("dir_mode", self.dir_mode, required=0o700, where=where)
        is_id = isinstance(self.group, int) and not isinstance(self.group, bool) and self.group >= 0
        if self.group is not None and not is_id and not (isinstance(self.group, str) and self.group):
            raise ConfigurationError(f"{where}: group={self.group!r} must be the name or id of a group")

    @property
    def uri(self) -> str:
        """Address of the public folder without a slash at its end."""
        return f"file://{Path(self.path).expanduser().absolute()}".rstrip("/")

    @property
    def state_uri(self) -> str:
        """Address of the private folder."""
        return str(self.state_folder.absolute())

    def open(self) -> Store:
        """Create missing folders, and return the store.

        Raises:
            ConfigurationError: One folder contains the other, or a folder may not be written.
            StoreError: The file system failed.
        """
        from airflow_sitemaps.stores.local.files import sweep_scratch  # noqa: PLC0415
        from airflow_sitemaps.stores.local.objects import LocalObjects  # noqa: PLC0415
        from airflow_sitemaps.stores.local.permissions import UMASK, make_folders  # noqa: PLC0415

        public, state = self.folders()
        permissions = self._permissions(public)
        for folder in (state, state / BOOKS):
            make_folders(folder, UMASK)
        sweep_scratch(state / BOOKS / "half", (public, state))
        books, locks = state / BOOKS, not self.single_writer
        served = LocalObjects(area="public", root=public, books=books, permissions=permissions, needs_locks=locks)
        private = LocalObjects(area="state", root=state, books=books, needs_locks=locks)
        return self._opened(served, private, enforces_conditions=True, records_etags=True)

    def folders(self) -> tuple[Path, Path]:
        """Return the public and the state folder, absolute and without symlinks.

        Raises:
            ConfigurationError: One folder contains the other, or a folder may not be read.
        """
        from airflow_sitemaps.stores.local.permissions import explained  # noqa: PLC0415

        with explained("inspect", Path(self.path)):
            public = Path(self.path).expanduser().resolve()
            state = self.state_folder.resolve()
        if state == public or public in state.parents or state in public.parents:
            raise ConfigurationError(
                f"LocalStore({str(self.path)!r}): one of the folders {public} and {state} contains the other, so private "
                "files would be served. Give state_dir= a folder outside the public one"
            )
        return public, state

    def describe(self) -> str:
        """Return absolute path and address for logs."""
        return f"{self.uri.removeprefix('file://')} for {self.base_url}"

    def __repr__(self) -> str:
        return f"LocalStore({str(self.path)!r}, base_url={self.base_url!r})"

    def _named(self) -> str:
        return f"LocalStore({str(self.path)!r})"

    def _permissions(self, public: Path) -> Permissions:
        """Return the permissions of public files. Create the public folder if it is missing."""
        from airflow_sitemaps.stores.local import permissions  # noqa: PLC0415

        gid = permissions.group_id(self.group, where=repr(self))
        mode = permissions.NEW_FOLDER if self.dir_mode is None else self.dir_mode
        permissions.make_folders(public, permissions.Permissions(dir_mode=mode, gid=gid))
        chosen = permissions.inherited(public, file_mode=self.file_mode, dir_mode=self.dir_mode, gid=gid)
        if not (chosen.file_mode or 0) & 0o044:
            log.warning(
                "files in %s, like the folder, are readable only by user id %d: a web server that runs as another "
                "user cannot serve them. Change the folder's mode, or set file_mode and dir_mode",
                public,
                os.getuid(),
            )
        return chosen

    @property
    def state_folder(self) -> Path:
        """``state_dir``. If it is not set, the sibling of the path as the user wrote it.

        If a deployment links ``current`` to another release, ``current-state`` stays the same.
        """
        if self.state_dir is not None:
            return Path(self.state_dir).expanduser()
        named = Path(self.path).expanduser().absolute()
        if ".." in named.parts or not named.name or named.parent.resolve() != named.parent:
            named = named.resolve()  # the link is further up, or stable like /home: its target is as good
        return named.with_name(named.name + "-state") if named.name else named


def _may_be_folder(path: object) -> bool:
    text = str(path) if isinstance(path, (str, os.PathLike)) else ""
    is_address = "://" in text or text.startswith(("az:", "file:", "gs:", "http:", "https:", "s3:"))
    with suppress(UnicodeError):  # a name that is not in UTF-8 is one all the same
        return b"\0" not in os.fsencode(text) and bool(text) and not is_address
    return False


def open_area(url: str, conn_id: str | None) -> ObjectStore:
    """Open an area for reading; see ``stores.open_area``."""
    from airflow_sitemaps.stores.local.objects import LocalObjects  # noqa: PLC0415
    from airflow_sitemaps.stores.local.permissions import explained  # noqa: PLC0415

    if not _may_be_folder(folder := url.removeprefix("file://")):
        raise ConfigurationError(
            f"{url!r}: give a folder, or the address of a store's folder, like 's3://bucket/folder'"
        )
    with explained("inspect", Path(folder)):
        root = Path(folder).expanduser().resolve()
    return LocalObjects(area="state", root=root, books=root / BOOKS)
