"""A public folder that a web server serves: permissions, foreign files, deployments, odd file systems."""

from __future__ import annotations

import errno
import grp
import os
import resource
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_sitemaps import Section, Sitemap
from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.ports import Create, ObjectStore, PutMode, PutOutcomeError, Update
from airflow_sitemaps.stores.local import BOOKS, LocalStore, objects, permissions
from airflow_sitemaps.testing import MemorySourceConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

BASE = "https://www.example.com/maps/"
OTHER_USER = 65534


def put(area: ObjectStore, key: str, body: bytes = b"x", mode: PutMode | None = None) -> str:
    return area.put(key, body, mode=mode or Create(), metadata={"write-id": "w"}, content_type="application/gzip")


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def daemon_umask() -> Iterator[None]:
    """The umask of Airflow's daemons."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


# ---------------------------------------------------------------- permissions


@pytest.mark.usefixtures("daemon_umask")
def test_a_new_public_folder_is_readable_under_airflows_umask(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "site" / "maps", base_url=BASE).open()
    etag = put(store.public, "de/products-00001.xml.gz")
    put(store.public, "de/products-00001.xml.gz", b"y", Update(etag))
    put(store.state, "manifest.json.gz")
    assert mode_of(tmp_path / "site" / "maps" / "de" / "products-00001.xml.gz") == 0o644
    assert {mode_of(tmp_path / "site" / name) for name in (".", "maps", "maps/de")} == {0o755}
    assert mode_of(tmp_path / "site" / "maps-state" / "manifest.json.gz") == 0o600


@pytest.mark.usefixtures("daemon_umask")
@pytest.mark.parametrize(
    ("folder", "file", "subfolder"),
    [(0o750, 0o640, 0o750), (0o775, 0o664, 0o775), (0o777, 0o664, 0o775), (0o711, 0o644, 0o711), (0o700, 0o600, 0o700)],
)
def test_permissions_are_inherited_from_the_public_folder(
    folder: int, file: int, subfolder: int, tmp_path: Path
) -> None:
    (tmp_path / "maps").mkdir()
    (tmp_path / "maps").chmod(folder)
    put(LocalStore(tmp_path / "maps", base_url=BASE).open().public, "de/k.xml")
    assert mode_of(tmp_path / "maps") == folder
    assert mode_of(tmp_path / "maps" / "de") == subfolder
    assert mode_of(tmp_path / "maps" / "de" / "k.xml") == file


@pytest.mark.usefixtures("daemon_umask")
def test_modes_can_be_set(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "maps", base_url=BASE, file_mode=0o640, dir_mode=0o710).open()
    put(store.public, "de/k.xml")
    assert [mode_of(tmp_path / "maps" / name) for name in (".", "de", "de/k.xml")] == [0o710, 0o710, 0o640]


def test_a_rewrite_keeps_permissions_that_were_added_by_hand(tmp_path: Path) -> None:
    (tmp_path / "maps").mkdir(mode=0o750)
    public = LocalStore(tmp_path / "maps", base_url=BASE).open().public
    etag = put(public, "k.xml")
    (tmp_path / "maps" / "k.xml").chmod(0o644)
    put(public, "k.xml", b"y", Update(etag))
    assert mode_of(tmp_path / "maps" / "k.xml") == 0o644


def test_a_folder_that_only_its_owner_may_enter_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "maps").mkdir(mode=0o700)
    LocalStore(tmp_path / "maps", base_url=BASE).open()
    assert "a web server that runs as another user cannot serve them" in caplog.text


@pytest.mark.usefixtures("daemon_umask")
def test_a_setgid_folder_passes_on_its_group(tmp_path: Path) -> None:
    group = _other_group(tmp_path)
    (tmp_path / "maps").mkdir()
    os.chown(tmp_path / "maps", -1, group)
    (tmp_path / "maps").chmod(0o2750)
    public = LocalStore(tmp_path / "maps", base_url=BASE).open().public
    etag = put(public, "de/at/k.xml")
    put(public, "de/at/k.xml", b"y", Update(etag))
    paths = [tmp_path / "maps" / name for name in ("de", "de/at", "de/at/k.xml")]
    assert [path.stat().st_gid for path in paths] == [group] * 3
    assert [mode_of(path) for path in paths] == [0o2750, 0o2750, 0o640]


@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOTSUP, errno.ENOSYS])
def test_a_file_system_without_modes_is_used_unless_a_mode_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(permissions.os, "fchmod", refuse)
    monkeypatch.setattr(permissions.Path, "chmod", refuse)
    put(LocalStore(tmp_path / "maps", base_url=BASE).open().public, "k.xml")
    put(LocalStore(tmp_path / "maps", base_url=BASE).open().public, "de/k.xml")
    assert (tmp_path / "maps" / "k.xml").read_bytes() == b"x"
    with pytest.raises(ConfigurationError, match=r"other\.xml: file_mode=0o640 cannot be set .* Leave file_mode= out"):
        put(LocalStore(tmp_path / "maps", base_url=BASE, file_mode=0o640).open().public, "other.xml")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter; pytest's own is closed to others."""
    with tempfile.TemporaryDirectory(prefix="stores-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


NOT_A_MEMBER = """
import os, sys
from airflow_sitemaps.ports import Create
from airflow_sitemaps.stores.local import files, objects, permissions
from airflow_sitemaps.stores.local import LocalStore
sys.executable = sys.argv[3]
os.umask(0o077)
os.setgroups([])
os.setgid(int(sys.argv[2]))
os.setuid(int(sys.argv[2]))
public = LocalStore(sys.argv[1], base_url="https://www.example.com/").open().public
public.put("de/at/k.xml", b"x", mode=Create(), metadata={}, content_type="x")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_setgid_folder_of_a_group_that_the_process_is_not_in(open_folder: Path) -> None:
    """The usual set-up: the folder is Airflow's own, its group the web server's. chmod then clears setgid bits."""
    home = open_folder / "home"
    (home / "maps").mkdir(parents=True)
    os.chown(home, OTHER_USER, OTHER_USER)
    os.chown(home / "maps", OTHER_USER, 33)
    (home / "maps").chmod(0o2750)
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if python is None:
        pytest.skip("there is no Python here that every user can start")
    command = [sys.executable, "-c", NOT_A_MEMBER, str(home / "maps"), str(OTHER_USER), python]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    paths = [home / "maps" / name for name in ("de", "de/at", "de/at/k.xml")]
    assert [(path.stat().st_gid, mode_of(path)) for path in paths] == [(33, 0o2750), (33, 0o2750), (33, 0o640)]


def test_the_group_can_be_set(tmp_path: Path) -> None:
    group = _other_group(tmp_path)
    store = LocalStore(tmp_path / "maps", base_url=BASE, group=grp.getgrgid(group).gr_name).open()
    put(store.public, "de/k.xml")
    assert {(tmp_path / "maps" / name).stat().st_gid for name in (".", "de", "de/k.xml")} == {group}
    put(LocalStore(tmp_path / "more", base_url=BASE, group=group).open().public, "k.xml")
    assert (tmp_path / "more" / "k.xml").stat().st_gid == group


def test_a_group_that_this_user_is_not_in_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(permissions.os, "chown", refuse)
    refused = r"group=33 cannot be set .* Add user id \d+ to that group, or leave group= out"
    with pytest.raises(ConfigurationError, match=refused):
        LocalStore(tmp_path / "maps", base_url=BASE, group=33).open()
    assert not (tmp_path / "maps").exists()
    (tmp_path / "maps").mkdir()
    with pytest.raises(ConfigurationError, match=refused):
        put(LocalStore(tmp_path / "maps", base_url=BASE, group=33).open().public, "k.xml")
    assert not list((tmp_path / "maps").iterdir())


def test_permissions_that_cannot_work_are_refused_when_the_store_is_made(tmp_path: Path) -> None:
    for settings, message in [
        ({"file_mode": 644}, "write it in octal"),
        ({"file_mode": "0644"}, "write it in octal"),
        ({"file_mode": True}, "write it in octal"),
        ({"file_mode": 0o444}, "must include 0o600"),
        ({"file_mode": 0o666}, "must not let all users write"),
        ({"dir_mode": 0o644}, "must include 0o700"),
        ({"group": ""}, "name or id of a group"),
        ({"group": -1}, "name or id of a group"),
    ]:
        with pytest.raises(ConfigurationError, match=message):
            LocalStore(tmp_path / "maps", base_url=BASE, **settings)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="no group 'no-such-group'"):
        LocalStore(tmp_path / "maps", base_url=BASE, group="no-such-group").open()


def _other_group(folder: Path) -> int:
    """A group that this process may give files to and that is not its own."""
    candidates = [33, *os.getgroups()] if os.geteuid() == 0 else os.getgroups()
    for group in candidates:
        if group != os.getegid() and any(entry.gr_gid == group for entry in grp.getgrall()):
            return group
    pytest.skip("this user is in one group only")


# ---------------------------------------------------------------- foreign files


def test_foreign_files_are_neither_listed_nor_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    public = LocalStore(tmp_path / "maps", base_url=BASE).open().public
    put(public, "de/products-00001.xml.gz")
    maps = tmp_path / "maps"
    for name in ("photo..jpg", "back\\slash.xml", "line\nfeed.xml", "two..dots.xml", ".htpasswd", "image.png"):
        (maps / name).write_bytes(b"theirs")
    (maps / ".htpasswd").chmod(0)
    (maps / "foreign.xml").write_bytes(b"<urlset/>")
    (maps / "foreign.xml").chmod(0)
    (maps / "closed").mkdir(mode=0)
    with (maps / "video.mp4").open("wb") as video, (maps / "video.xml").open("wb") as large:
        video.truncate(2 << 30)  # sparse: it takes no room
        large.truncate(2 << 30)
    for name in (b"latin-\xe9.xml", b"latin-\xe9.png"):
        (maps / os.fsdecode(name)).write_bytes(b"theirs")
    os.mkfifo(maps / "fifo.xml")
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(maps)
        server.bind("socket.xml")

    def read(path: Path) -> int:
        raise AssertionError(f"{path} is read")

    monkeypatch.setattr(objects.files, "open_regular", read)
    assert [info.key for info in public.list()] == ["de/products-00001.xml.gz", "foreign.xml", "video.xml"]


def test_what_is_no_regular_file_is_no_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    public = LocalStore(tmp_path / "maps", base_url=BASE).open().public
    os.mkfifo(tmp_path / "maps" / "fifo.xml")
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(tmp_path / "maps")
        server.bind("socket.xml")
    for key in ("fifo.xml", "socket.xml"):
        assert public.get(key) is None
        assert public.head(key) is None
        with pytest.raises(ConfigurationError, match="no regular file"):
            put(public, key)


def test_a_large_foreign_file_is_hashed_in_little_memory(tmp_path: Path) -> None:
    public = LocalStore(tmp_path / "maps", base_url=BASE).open().public
    with (tmp_path / "maps" / "large.xml").open("wb") as large:
        large.truncate(256 << 20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    head = public.head("large.xml")
    assert head is not None
    assert head.byte_size == 256 << 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


def test_our_file_that_another_user_replaced_and_closed_is_listed_as_changed(tmp_path: Path) -> None:
    public = LocalStore(tmp_path / "maps", base_url=BASE).open().public
    etag = put(public, "k.xml")
    (tmp_path / "maps" / "k.xml").unlink()
    (tmp_path / "maps" / "k.xml").write_bytes(b"theirs")
    (tmp_path / "maps" / "k.xml").chmod(0)
    (info,) = public.list()
    assert info.etag != etag


# ---------------------------------------------------------------- deployments


def deployed(folder: Path, release: str) -> Path:
    """Point ``current`` to a release, as deployment tools do."""
    (folder / "releases" / release).mkdir(parents=True)
    (folder / "next").symlink_to(folder / "releases" / release)
    (folder / "next").replace(folder / "current")
    return folder / "current"


def test_the_state_outlives_a_deployment(tmp_path: Path) -> None:
    path = deployed(tmp_path, "1")
    put(LocalStore(path, base_url=BASE).open().state, "manifest.json.gz", b"state")
    deployed(tmp_path, "2")
    state = LocalStore(path, base_url=BASE).open().state
    kept = state.get("manifest.json.gz")
    assert kept is not None
    assert kept.body == b"state"
    assert state.url("") == str(tmp_path / "current-state")


def test_a_link_to_a_shared_folder_within_a_release_keeps_its_state_there(tmp_path: Path) -> None:
    for release in ("1", "2"):
        (tmp_path / "shared").mkdir(exist_ok=True)
        current = deployed(tmp_path, release)
        (current / "maps").symlink_to(tmp_path / "shared")
        assert LocalStore(current / "maps", base_url=BASE).folders() == (tmp_path / "shared", tmp_path / "shared-state")


def test_a_section_in_a_linked_folder_is_unchanged_if_nothing_changes(tmp_path: Path) -> None:
    (tmp_path / "maps" / "real").mkdir(parents=True)
    (tmp_path / "maps" / "shop").symlink_to("real")
    rows = [{"id": 1, "loc": f"{BASE}shop/1"}]
    section = Section("shop", MemorySourceConfig(rows), path="shop/")
    sitemap = Sitemap(LocalStore(tmp_path / "maps", base_url=BASE), [section])
    assert [build(sitemap).result for _ in range(2)] == ["published", "unchanged"]


# ---------------------------------------------------------------- odd file systems


@contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, name: str, code: int) -> Iterator[list[object]]:
    """A system call that answers an error, as on file systems that do not offer it."""
    calls: list[object] = []

    def fail(*arguments: object, **_: object) -> None:
        calls.append(arguments)
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(name, fail)
        yield calls


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK])
def test_names_are_given_once_where_there_are_no_hard_links(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path / "maps", base_url=BASE).open()
    with failing(monkeypatch, "os.link", code) as calls:
        etag = put(store.public, "k.xml", b"one")
        with pytest.raises(PutOutcomeError) as refused:
            put(store.public, "k.xml", b"two")
        put(store.public, "empty.xml", b"")
        put(store.public, "k.xml", b"three", Update(etag))
    assert refused.value.definite
    assert len(calls) == 2
    assert (tmp_path / "maps" / "k.xml").read_bytes() == b"three"
    head = store.public.head("empty.xml")
    assert head is not None
    assert head.byte_size == 0
    assert [info.key for info in store.public.list()] == ["empty.xml", "k.xml"]
    assert not list((tmp_path / "maps-state" / BOOKS / "claims").iterdir())


def test_a_foreign_file_that_appears_meanwhile_is_not_replaced_without_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = LocalStore(tmp_path / "maps", base_url=BASE).open().public

    def appear(*_: object, **__: object) -> None:
        (tmp_path / "maps" / "k.xml").write_bytes(b"theirs")
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr("os.link", appear)
    with pytest.raises(PutOutcomeError) as refused:
        put(public, "k.xml", b"ours")
    assert refused.value.definite
    assert (tmp_path / "maps" / "k.xml").read_bytes() == b"theirs"


def test_a_crash_between_claim_and_content_leaves_no_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = LocalStore(tmp_path / "maps", base_url=BASE).open().state
    put(state, "another.json")
    code = f"""
import errno, os
from airflow_sitemaps.ports import Create
from airflow_sitemaps.stores.local import files
from airflow_sitemaps.stores.local import LocalStore
def no_link(*_, **__):
    raise OSError(errno.ENOSYS, "no links")
os.link = no_link
state = LocalStore({str(tmp_path / "maps")!r}, base_url={BASE!r}).open().state
state.root.joinpath("another.json").exists() or os._exit(1)
files.Path.replace = lambda *_: os._exit(9)
from airflow_sitemaps.stores.local.files import Sidecars
Sidecars.write = lambda *_: None
state.put("manifest.json.gz", b"content", mode=Create(), metadata={{}}, content_type="x")
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    leftover = tmp_path / "maps-state" / "manifest.json.gz"
    assert leftover.stat().st_size == 0
    assert state.get("manifest.json.gz") is None
    assert state.head("manifest.json.gz") is None
    assert [info.key for info in state.list()] == ["another.json"]
    put(state, "manifest.json.gz", b"content")
    assert leftover.read_bytes() == b"content"


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_needs_the_promise_of_a_single_writer(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with failing(monkeypatch, "fcntl.flock", code):
        with pytest.raises(ConfigurationError, match="has no file locks"):
            put(LocalStore(tmp_path / "maps", base_url=BASE).open().public, "k.xml")
        put(LocalStore(tmp_path / "maps", base_url=BASE, single_writer=True).open().public, "k.xml")
    assert (tmp_path / "maps" / "k.xml").exists()


def test_every_folder_that_is_made_is_made_to_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    real = permissions.sync_folder

    def record(folder: Path) -> None:
        synced.append(folder)
        real(folder)

    monkeypatch.setattr(permissions, "sync_folder", record)
    store = LocalStore(tmp_path / "srv" / "www" / "maps", base_url=BASE).open()
    put(store.public, "de/at/k.xml")
    folders = [tmp_path, *(tmp_path / "srv" / name for name in (".", "www", "www/maps", "www/maps/de"))]
    assert set(folders) <= set(synced)


def test_a_file_system_that_cannot_sync_folders_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fsync

    def refuse_folders(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        real(handle)

    monkeypatch.setattr(os, "fsync", refuse_folders)
    put(LocalStore(tmp_path / "maps", base_url=BASE).open().public, "de/k.xml")
    assert (tmp_path / "maps" / "de" / "k.xml").exists()


def test_scratch_files_are_written_in_the_targets_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that they take its group and file system."""
    public = LocalStore(tmp_path / "maps", base_url=BASE).open().public
    scratches = []
    real = objects.files.give_name

    def record(scratch: Path, path: Path, *, create: bool, claim: Path) -> None:
        scratches.append(scratch)
        real(scratch, path, create=create, claim=claim)

    monkeypatch.setattr(objects.files, "give_name", record)
    put(public, "de/k.xml")
    assert [scratch.parent for scratch in scratches] == [tmp_path / "maps" / "de"]
    assert [path.name for path in (tmp_path / "maps" / "de").iterdir()] == ["k.xml"]
    assert not list((tmp_path / "maps-state" / BOOKS / "half").iterdir())
