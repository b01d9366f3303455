"""The local folder: two processes, full disks, symlinks, crashes, nothing stray in public."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sitemaps.errors import ConfigurationError, StoreError
from airflow_sitemaps.ports import Create, ObjectStore, Overwrite, PutMode, PutOutcomeError, Update
from airflow_sitemaps.stores import open_area
from airflow_sitemaps.stores.local import BOOKS, LocalStore, objects
from airflow_sitemaps.stores.local.files import ATTRIBUTE, SCRATCH, SCRATCH_AGE_S
from airflow_sitemaps.stores.local.objects import LocalObjects

if TYPE_CHECKING:
    from collections.abc import Iterator

BASE = "https://www.example.com/maps/"


@pytest.fixture
def config(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "maps", base_url=BASE)


def put(area: ObjectStore, key: str, body: bytes, mode: PutMode | None = None, write_id: str = "w") -> str:
    metadata = {"write-id": write_id}
    return area.put(key, body, mode=mode or Create(), metadata=metadata, content_type="application/gzip")


def files_below(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if not p.is_dir())


# ---------------------------------------------------------------- folders


def test_the_state_folder_is_the_sibling_and_may_be_elsewhere(config: LocalStore, tmp_path: Path) -> None:
    assert config.folders() == (tmp_path / "maps", tmp_path / "maps-state")
    elsewhere = LocalStore(tmp_path / "maps", base_url=BASE, state_dir=tmp_path / "private")
    assert elsewhere.folders()[1] == tmp_path / "private"
    assert not (tmp_path / "maps").exists()  # naming it makes nothing
    config.open()
    assert (tmp_path / "maps").is_dir()
    assert config.describe() == f"{tmp_path / 'maps'} for {BASE}"
    assert LocalStore("maps", base_url=BASE).describe().startswith("/")
    assert "maps" in repr(config)


@pytest.mark.parametrize("state", ["maps", "maps/state", ".", "link"])
def test_folders_within_each_other_are_refused(state: str, tmp_path: Path) -> None:
    (tmp_path / "maps" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "maps" / "inner")
    folders: Any = {"path": tmp_path / "maps", "base_url": BASE, "state_dir": tmp_path / state}
    with pytest.raises(ConfigurationError, match="contains the other"):
        LocalStore(**folders)


def test_a_link_that_is_made_later_is_followed(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "maps", base_url=BASE, state_dir=tmp_path / "link")
    (tmp_path / "link").symlink_to(tmp_path / "maps" / "inner")
    with pytest.raises(ConfigurationError, match="contains the other"):
        store.open()


def test_a_link_out_of_the_other_folder_is_accepted(tmp_path: Path) -> None:
    for folder in ("data", "real"):
        (tmp_path / folder).mkdir()
    (tmp_path / "data" / "public").symlink_to(tmp_path / "real")
    store = LocalStore(tmp_path / "data" / "public", base_url=BASE, state_dir=tmp_path / "data")
    store.open()
    assert store.folders() == (tmp_path / "real", tmp_path / "data")


def test_a_home_that_is_unknown_is_not_looked_up_when_the_store_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", unknown)
    LocalStore("~/maps", base_url=BASE, state_dir="~/private")


def test_a_link_that_loops_is_named(tmp_path: Path) -> None:
    (tmp_path / "maps").symlink_to(tmp_path / "maps")
    with pytest.raises(ConfigurationError, match=r"inspect .*maps"):
        LocalStore(tmp_path / "maps", base_url=BASE).open()


def test_settings_that_cannot_be_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="must be absolute"):
        LocalStore(tmp_path, base_url="www.example.com")
    with pytest.raises(ConfigurationError, match="plain file name"):
        LocalStore(tmp_path, base_url=BASE, index_name="x/sitemap.xml")
    for wrong in ("", None, "s3://bucket/public", "s3:/bucket", "file:///srv/www", "maps\0", "maps\ud800"):
        with pytest.raises(ConfigurationError, match=r"give the folder .* such as S3Store\('s3://…'\)"):
            LocalStore(wrong, base_url=BASE)  # type: ignore[arg-type]
    for wrong in ("", "s3://bucket/state", "gs:/bucket/state", "state\0", "\ud800", tmp_path / "\0"):
        with pytest.raises(ConfigurationError, match=r"state_dir=.* must be a folder of this machine"):
            LocalStore(tmp_path, base_url=BASE, state_dir=wrong)  # type: ignore[arg-type]
    LocalStore(tmp_path / "maps", base_url=BASE, state_dir=tmp_path / "maps/../state")
    for folder in ("s3", "az", "file", "a:b", "C:\\maps", "./s3:maps", os.fsdecode(b"caf\xe9")):
        LocalStore(folder, base_url=BASE, state_dir=f"state-{folder}")
        LocalStore(f"maps-{folder}", base_url=BASE, state_dir=folder)
        assert open_area(folder, None).url("") == str(Path(folder).absolute())


def test_a_relative_path_is_taken_from_where_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    put(LocalStore("maps", base_url=BASE).open().public, "k", b"x")
    assert (tmp_path / "maps" / "k").read_bytes() == b"x"


@pytest.mark.parametrize("address", ["maps", "~/maps", "{home}/link", "file://{home}/link"])
def test_an_area_is_opened_by_a_relative_path_and_through_a_link(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    put(LocalStore(tmp_path / "maps", base_url=BASE).open().public, "k", b"x")
    (tmp_path / "link").symlink_to(tmp_path / "maps")
    kept = open_area(address.format(home=tmp_path), None).get("k")
    assert kept is not None
    assert kept.body == b"x"


def test_only_what_was_put_lies_in_the_public_folder_and_others_may_read_it(config: LocalStore, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        public = config.open().public
        etag = put(public, "de/products-00001.xml.gz", b"one")
        put(public, "de/products-00001.xml.gz", b"two", Update(etag))
        with pytest.raises(PutOutcomeError):
            put(public, "de/products-00001.xml.gz", b"three")
    finally:
        os.umask(before)
    assert files_below(tmp_path / "maps") == ["de/products-00001.xml.gz"]
    assert stat.S_IMODE((tmp_path / "maps/de/products-00001.xml.gz").stat().st_mode) == 0o644
    assert not list((tmp_path / "maps-state" / BOOKS / "half").iterdir())


def test_the_books_are_no_objects(config: LocalStore) -> None:
    state = config.open().state
    put(state, "manifest.json", b"{}")
    assert [info.key for info in state.list()] == ["manifest.json"]
    for key in (f"{BOOKS}/locks/x", BOOKS, f"{SCRATCH}x", f"a/{SCRATCH}x"):
        with pytest.raises(ConfigurationError, match="is reserved by the local store"):
            state.get(key)


def test_deleting_removes_metadata_and_empty_folders(config: LocalStore, tmp_path: Path) -> None:
    public = config.open().public
    put(public, "a/b/c", b"x")
    put(public, "a/d", b"x")
    public.delete("a/b/c")
    assert not (tmp_path / "maps/a/b").exists()
    assert (tmp_path / "maps/a/d").exists()
    public.delete("a/d")
    assert list((tmp_path / "maps").iterdir()) == []
    assert list((tmp_path / "maps-state" / BOOKS / "metadata" / "public").iterdir()) == []


# ---------------------------------------------------------------- what others put there


def test_a_file_of_another_program_has_an_etag_and_no_metadata(config: LocalStore, tmp_path: Path) -> None:
    public = config.open().public
    etag = put(public, "ours", b"same")
    (tmp_path / "maps" / "theirs.xml").write_bytes(b"same")
    head = public.head("theirs.xml")
    assert head is not None
    assert (head.etag, dict(head.metadata), head.byte_size) == (etag, {}, 4)
    assert [info.key for info in public.list()] == ["ours", "theirs.xml"]
    put(public, "theirs.xml", b"new", Update(etag))


def test_a_file_changed_behind_our_back_is_no_longer_ours(config: LocalStore, tmp_path: Path) -> None:
    public = config.open().public
    etag = put(public, "k", b"ours")
    (tmp_path / "maps" / "k").write_bytes(b"theirs")
    head = public.head("k")
    assert head is not None
    assert head.etag != etag
    assert dict(head.metadata) == {}
    with pytest.raises(PutOutcomeError):
        put(public, "k", b"more", Update(etag))


def test_a_restored_copy_keeps_its_metadata(config: LocalStore, tmp_path: Path) -> None:
    """A backup that is copied back has other inodes; the content says whose it is."""
    etag = put(config.open().public, "k", b"ours", write_id="w1")
    for name in ("maps", "maps-state"):
        shutil.copytree(tmp_path / name, tmp_path / f"{name}.bak")
        shutil.rmtree(tmp_path / name)
        shutil.copytree(tmp_path / f"{name}.bak", tmp_path / name)
    head = config.open().public.head("k")
    assert head is not None
    assert (head.etag, dict(head.metadata)) == (etag, {"write-id": "w1"})


def test_a_damaged_sidecar_is_as_none(config: LocalStore, tmp_path: Path) -> None:
    public = config.open().public
    etag = put(public, "k", b"x")
    (sidecar,) = (tmp_path / "maps-state" / BOOKS / "metadata" / "public").rglob("*.json")
    with suppress(OSError):  # some file systems have no extended attributes
        os.removexattr(tmp_path / "maps" / "k", ATTRIBUTE)
    for text in ("", "{", "[]", json.dumps({"etag": etag, "metadata": {}, "stat": [1]})):
        sidecar.write_text(text)
        head = public.head("k")
        assert head is not None
        assert (head.etag, dict(head.metadata)) == (etag, {})


def test_metadata_of_a_lost_sidecar_is_read_from_the_file(config: LocalStore, tmp_path: Path) -> None:
    public = config.open().public
    etag = put(public, "k", b"x", write_id="mine")
    if not os.listxattr(tmp_path / "maps" / "k"):
        pytest.skip("this file system has no extended attributes")
    shutil.rmtree(tmp_path / "maps-state")
    public = config.open().public
    head, stored = public.head("k"), public.get("k")
    assert head is not None
    assert stored is not None
    assert (head.etag, head.metadata, stored.info.metadata) == (etag, {"write-id": "mine"}, {"write-id": "mine"})
    for attribute in (b"", b"[]", b'{"etag": 1}', b'{"etag": "%s", "metadata": [1]}' % etag.encode()):
        os.setxattr(tmp_path / "maps" / "k", ATTRIBUTE, attribute)
        head = public.head("k")
        assert head is not None
        assert head.metadata == {}


# ---------------------------------------------------------------- tricks with paths


def test_nothing_is_read_or_written_through_symlinks_that_lead_out(config: LocalStore, tmp_path: Path) -> None:
    public = config.open().public
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    (tmp_path / "maps" / "folder").symlink_to(outside)
    (tmp_path / "maps" / "file").symlink_to(outside / "secret")
    actions = [
        public.get,
        public.head,
        public.delete,
        lambda key: put(public, key, b"", Overwrite()),
    ]
    for key in ("folder/secret", "file", "folder/new"):
        for action in actions:
            with pytest.raises(ConfigurationError, match="by a symlink"):
                action(key)
    assert list(public.list()) == []
    assert files_below(outside) == ["secret"]
    assert (outside / "secret").read_bytes() == b"secret"


def test_names_that_a_file_system_cannot_hold_are_refused(config: LocalStore) -> None:
    public = config.open().public
    put(public, "a/b", b"")
    for key in ("x" * 300, "a", "a/b/c"):
        with pytest.raises(ConfigurationError, match=r"cannot hold this name|is a folder"):
            put(public, key, b"")
    assert [info.key for info in public.list()] == ["a/b"]


# ---------------------------------------------------------------- no room, no permission


def test_a_file_size_limit_leaves_nothing_half(config: LocalStore, tmp_path: Path) -> None:
    """In a child process, so that the limit applies to nothing else."""
    config.open()
    code = f"""
import resource
from airflow_sitemaps.errors import StoreError
from airflow_sitemaps.ports import Create, Update
from airflow_sitemaps.stores.local import LocalStore
public = LocalStore({str(tmp_path / "maps")!r}, base_url={BASE!r}).open().public
etag = public.put("k", b"small", mode=Create(), metadata={{"write-id": "1"}}, content_type="x")
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
for key, mode in (("new", Create()), ("k", Update(etag))):
    try:
        public.put(key, b"x" * 200_000, mode=mode, metadata={{"write-id": "2"}}, content_type="x")
    except StoreError as e:
        print(e)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.count("no room for 200,000 bytes") == 2
    assert "This file was not changed" in done.stdout
    public = config.open().public
    head = public.head("k")
    assert head is not None
    assert (head.byte_size, dict(head.metadata)) == (5, {"write-id": "1"})
    assert files_below(tmp_path / "maps") == ["k"]
    assert not list((tmp_path / "maps-state" / BOOKS / "half").iterdir())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB; needs the right to mount."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=200", "tmpfs", str(folder)]
    if os.geteuid() != 0 or shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small file system can be mounted by root only")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_reported_and_the_old_file_stays(small_disk: Path) -> None:
    public = LocalStore(small_disk / "maps", base_url=BASE).open().public
    body = os.urandom(300_000)
    etag = put(public, "k", body)
    for key, mode in (("new", Create()), ("k", Update(etag))):
        with pytest.raises(StoreError, match="no room for 900,000 bytes") as caught:
            put(public, key, b"x" * 900_000, mode, "w2")
        assert caught.value.__cause__.errno == errno.ENOSPC  # type: ignore[union-attr]
    found = public.get("k")
    assert found is not None
    assert found.body == body
    assert found.info.metadata["write-id"] == "w"
    assert files_below(small_disk / "maps") == ["k"]


def test_a_disk_without_free_inodes_is_reported(small_disk: Path) -> None:
    public = LocalStore(small_disk / "maps", base_url=BASE).open().public

    def fill() -> None:
        for number in range(200):
            put(public, f"k{number}", b"x")

    with pytest.raises(StoreError, match=r"no room .* Free space or inodes \(df -i\) on the file system of"):
        fill()
    names = files_below(small_disk / "maps")
    assert [info.key for info in public.list()] == names
    assert all(public.head(name).metadata == {"write-id": "w"} for name in names)  # type: ignore[union-attr]


def test_halves_lie_on_the_public_folders_file_system(small_disk: Path, tmp_path: Path) -> None:
    """Otherwise giving a file its name would be a copy, seen half done."""
    store = LocalStore(small_disk / "maps", base_url=BASE, state_dir=tmp_path / "state").open()
    etag = put(store.public, "k", b"one")
    put(store.public, "k", b"two", Update(etag))
    assert files_below(small_disk) == ["maps/k"]


@pytest.mark.parametrize("part", ["inodes", "half", "metadata"])
def test_a_full_disk_of_the_state_folder_is_named(
    part: str, small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = LocalStore(tmp_path / "maps", base_url=BASE, state_dir=small_disk / "state").open().public
    put(public, "k", b"x")

    def fill() -> None:
        with (small_disk / "large").open("wb", buffering=0) as file, suppress(OSError):
            while file.write(b"x" * 4096):
                pass

    def fill_inodes() -> None:
        with suppress(OSError):
            for number in range(200):
                (small_disk / str(number)).touch()

    if part == "metadata":
        real = objects.files.version
        monkeypatch.setattr(objects.files, "version", lambda status: fill() or real(status))
    else:
        fill() if part == "half" else fill_inodes()
    with pytest.raises(StoreError, match=rf"write .* no room .* system of {small_disk}/state/{BOOKS}/"):
        put(public, "l", b"x")


def test_a_lock_of_another_user_is_named(config: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    public = config.open().public
    real, locks = os.open, tmp_path / "maps-state" / BOOKS / "locks"

    def refuse(path: Any, *arguments: Any) -> int:
        if locks in Path(path).parents:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path, *arguments)

    monkeypatch.setattr(objects.os, "open", refuse)
    with pytest.raises(ConfigurationError, match=f"Give this user access to {locks} and to all files below it"):
        put(public, "k", b"x")


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (errno.EACCES, "Give this user access"),
        (errno.EPERM, "Give this user access"),
        (errno.EROFS, "Mount it writable"),
    ],
)
def test_a_folder_that_may_not_be_written_is_reported(
    code: int, advice: str, config: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = config.open().public

    def refuse(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(objects.os, "fsync", refuse)
    with pytest.raises(ConfigurationError, match=f"not permitted .*{advice}"):
        put(public, "k", b"x")
    assert public.get("k") is None


def test_a_folder_that_may_not_be_made_is_named_and_not_its_parent(
    config: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parent may be ``/srv``: nothing else in it is of concern."""

    def refuse(folder: Path, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(ConfigurationError) as refused:
        config.open()
    advice = f"Make {config.path} as another user, and give it to this one"
    assert str(refused.value).endswith(f"for user id {os.getuid()}. {advice}")


def test_a_failing_disk_is_a_store_error(config: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    public = config.open().public
    put(public, "k", b"x")

    def fail(*_: object, **__: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(objects.os, "open", fail)
    with pytest.raises(StoreError, match="Input/output error"):
        public.get("k")


@pytest.mark.parametrize(
    ("area", "code", "error"),
    [
        ("state", errno.EACCES, ConfigurationError),
        ("state", errno.EIO, StoreError),
        ("public", errno.ESTALE, StoreError),
        ("public", errno.EACCES, None),
    ],
)
def test_a_folder_that_cannot_be_listed_is_not_taken_for_an_empty_one(
    area: str, code: int, error: type[Exception] | None, config: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects_of_area = getattr(config.open(), area)
    put(objects_of_area, "folder/k.xml", b"x")
    real = os.scandir

    def fail(path: Any) -> Any:
        if Path(path).name == "folder":
            raise OSError(code, os.strerror(code), str(path))
        return real(path)

    monkeypatch.setattr(objects.os, "scandir", fail)
    with pytest.raises(error, match=f"list .*{os.strerror(code)}") if error else nullcontext():
        assert not list(objects_of_area.list())


def test_a_name_that_may_not_last_is_in_doubt(config: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    public = config.open().public
    put(public, "another", b"x")  # makes the folders
    real, calls = os.fsync, []

    def fail_on_folders(handle: int) -> None:
        calls.append(handle)
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(handle)

    monkeypatch.setattr(objects.os, "fsync", fail_on_folders)
    with pytest.raises(PutOutcomeError) as caught:
        put(public, "k", b"x", write_id="mine")
    assert not caught.value.definite
    assert len(calls) >= 3  # the file, its sidecar, its folder
    head = public.head("k")
    assert head is not None
    assert head.metadata["write-id"] == "mine"


# ---------------------------------------------------------------- crashes and other processes


def test_a_crash_before_the_name_is_given_leaves_the_old_file_with_its_metadata(
    config: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = config.open().public
    etag = put(public, "k", b"old", write_id="old")

    class Died(BaseException):
        pass

    def die(*_: object, **__: object) -> None:
        raise Died

    monkeypatch.setattr(objects.files, "give_name", die)
    with suppress(Died):
        put(public, "k", b"new", Update(etag), "new")
    monkeypatch.undo()
    found = public.get("k")
    assert found is not None
    assert (found.body, found.info.etag, dict(found.info.metadata)) == (b"old", etag, {"write-id": "old"})
    put(public, "k", b"new", Update(etag), "new")


def test_scratch_files_of_a_crash_are_swept_after_a_day(config: LocalStore, tmp_path: Path) -> None:
    put(config.open().public, "de/k", b"x")
    ledger = tmp_path / "maps-state" / BOOKS / "half"
    leftover = tmp_path / "maps" / "de" / f"{SCRATCH}1"
    outside = tmp_path / f"{SCRATCH}not-ours"
    entries = [ledger / "1", ledger / "2", ledger.parent / "metadata" / "public" / "hash-1-2-etag.half"]
    for file in (leftover, outside, *entries):
        file.write_bytes(b"x")
    entries[0].write_text(str(leftover))
    entries[1].write_text(str(outside))
    public = config.open().public
    assert all(file.exists() for file in (leftover, *entries))
    assert [info.key for info in public.list()] == ["de/k"]
    old = time.time() - SCRATCH_AGE_S - 60
    for file in entries:
        os.utime(file, (old, old))
    config.open()
    assert not any(file.exists() for file in (leftover, *entries))
    assert outside.exists()


WRITER = """
import sys, os
from airflow_sitemaps.ports import Create, PutOutcomeError, Update
from airflow_sitemaps.stores.local import LocalStore
folder, name, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
state = LocalStore(folder, base_url="https://www.example.com/").open().state
print("ready", flush=True)
sys.stdin.readline()
won = 0
while won < rounds:
    there = state.get("counter")
    try:
        if there is None:
            state.put("counter", b"1", mode=Create(), metadata={"write-id": name}, content_type="x")
        else:
            assert there.info.metadata["write-id"], there
            body = b"%d" % (int(there.body) + 1)
            state.put("counter", body, mode=Update(there.info.etag), metadata={"write-id": name}, content_type="x")
        won += 1
    except PutOutcomeError as e:
        assert e.definite
print(won, flush=True)
"""


def writers(folder: Path, number: int, rounds: int) -> list[subprocess.Popen[str]]:
    command = [sys.executable, "-c", WRITER, str(folder)]
    started = [
        subprocess.Popen([*command, str(n), str(rounds)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for n in range(number)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    return started


def test_two_processes_count_together_without_losing_a_step(config: LocalStore, tmp_path: Path) -> None:
    """Each adds one by a conditional update, again and again: the sum shows a lost update."""
    both = writers(tmp_path / "maps", 2, 60)
    answers = [process.communicate(timeout=60)[0] for process in _go_together(both)]
    assert answers == ["60\n", "60\n"]
    found = config.open().state.get("counter")
    assert found is not None
    assert found.body == b"120"


def _go_together(processes: list[subprocess.Popen[str]]) -> list[subprocess.Popen[str]]:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return processes


def _wait_until_counting(state: ObjectStore) -> None:
    before, deadline = state.head("counter"), time.monotonic() + 30
    while state.head("counter") == before:
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_a_killed_writer_leaves_a_whole_object_and_no_lock(config: LocalStore, tmp_path: Path) -> None:
    state = config.open().state
    for turn in range(5):
        (writer,) = writers(tmp_path / "maps", 1, 1_000_000)
        _go_together([writer])
        _wait_until_counting(state)
        time.sleep(0.013 * turn)
        writer.send_signal(signal.SIGKILL)
        writer.communicate(timeout=10)
        found = state.get("counter")
        assert found is not None
        assert found.info.metadata == {"write-id": "0"}
        assert put(state, "counter", b"%d" % (int(found.body) + 1), Update(found.info.etag), "0")
    assert [info.key for info in state.list()] == ["counter"]


def test_a_folder_removed_by_a_delete_is_made_again(config: LocalStore) -> None:
    """Deleting the last file of a folder races with putting another into it."""
    area = config.open().public
    assert isinstance(area, LocalObjects)
    code = "\n".join(
        [
            "import sys",
            "from airflow_sitemaps.ports import Overwrite",
            "from airflow_sitemaps.stores.local import LocalStore",
            "area = LocalStore(sys.argv[1], base_url='https://www.example.com/').open().public",
            "for n in range(100):",
            "    area.put('folder/theirs', b'x', mode=Overwrite(), metadata={}, content_type='x')",
            "    area.delete('folder/theirs')",
        ]
    )
    other = subprocess.Popen([sys.executable, "-c", code, str(area.root)])
    while other.poll() is None:
        put(area, "folder/ours", b"x", Overwrite())
        area.delete("folder/ours")
    assert other.returncode == 0
    assert list(area.list()) == []


# ---------------------------------------------------------------- damage that keeps size and time


def damage(path: Path) -> None:
    """Change a byte in place, and set the time of the change back, as ``rsync --inplace --times`` does."""
    status, body = path.stat(), path.read_bytes()
    with path.open("r+b") as file:
        file.write(bytes([body[0] ^ 1]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_mtime_ns == status.st_mtime_ns


def test_a_change_that_keeps_size_and_time_is_seen(config: LocalStore, tmp_path: Path) -> None:
    area = config.open().public
    etag = put(area, "a.xml.gz", b"whole")
    damage(tmp_path / "maps" / "a.xml.gz")
    (listed,) = area.list()
    head = area.head("a.xml.gz")
    assert head is not None
    assert etag not in (listed.etag, head.etag)
    assert not head.metadata


def rotten(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a disk change a byte without any trace in the file's status."""
    status = path.stat()
    damage(path)
    real = objects.files.version
    monkeypatch.setattr(objects.files, "version", lambda s: real(status) if s.st_ino == status.st_ino else real(s))


def test_a_byte_that_a_disk_changed_is_seen_within_a_day_and_by_every_read(
    config: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    area = config.open().public
    etag = put(area, "a.xml.gz", b"whole")
    rotten(tmp_path / "maps" / "a.xml.gz", monkeypatch)
    assert [info.etag for info in area.list()] == [etag]
    (sidecar,) = (tmp_path / "maps-state" / BOOKS / "metadata" / "public").rglob("*.json")
    os.utime(sidecar, (time.time() - 90_000, time.time() - 90_000))
    assert etag not in [info.etag for info in area.list()]


def test_a_read_that_finds_other_bytes_forgets_the_recorded_etag(
    config: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    area = config.open().public
    etag = put(area, "a.xml.gz", b"whole")
    rotten(tmp_path / "maps" / "a.xml.gz", monkeypatch)
    found = area.get("a.xml.gz")
    assert found is not None
    head = area.head("a.xml.gz")
    assert head is not None
    assert head.etag == found.info.etag != etag


def test_a_file_is_not_read_again_for_a_new_mode_or_a_day(
    config: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    area = config.open().public
    etag = put(area, "a.xml.gz", b"whole")
    reads: list[int] = []
    real = objects.files.content_etag
    monkeypatch.setattr(objects.files, "content_etag", lambda handle: reads.append(handle) or real(handle))
    assert area.head("a.xml.gz")
    assert not reads
    (tmp_path / "maps" / "a.xml.gz").chmod(0o600)
    for _ in range(3):
        head = area.head("a.xml.gz")
        assert head is not None
        assert (head.etag, head.metadata) == (etag, {"write-id": "w"})
    assert len(reads) == 1
    (sidecar,) = (tmp_path / "maps-state" / BOOKS / "metadata" / "public").rglob("*.json")
    os.utime(sidecar, (time.time() - 90_000, time.time() - 90_000))
    for _ in range(3):
        assert area.head("a.xml.gz")
    assert len(reads) == 2


@pytest.mark.parametrize("kind", ["folder", "fifo", "link"])
@pytest.mark.parametrize("mode", [Create(), Overwrite(), Update("0" * 32)])
def test_what_is_no_file_is_named_with_the_next_step(
    config: LocalStore, tmp_path: Path, kind: str, mode: PutMode
) -> None:
    area, path = config.open().public, tmp_path / "maps" / "sitemap.xml"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to(tmp_path / "elsewhere.xml")
    with pytest.raises(ConfigurationError, match=r"sitemap\.xml .*(?i:remove).*then run again"):
        put(area, "sitemap.xml", b"index", mode)
