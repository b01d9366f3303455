"""What is public when a run plans: files that other programs changed, deleted or wrote, and those that it may take over.

Drift is the difference between the public files and the manifest. The plan finds it, and the run repairs it. Before a run
takes another program's sitemap over, both lists of URLs are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from msgspec import structs

from airflow_sitemaps.errors import OwnershipError, StoreContentError
from airflow_sitemaps.pipeline.concurrency import mapped
from airflow_sitemaps.pipeline.publish.commit_files import index_names
from airflow_sitemaps.pipeline.state.identity import check_stamp, is_body, is_of_another
from airflow_sitemaps.protocol.markup import STYLESHEET_NAME as STYLESHEET
from airflow_sitemaps.protocol.rules import safe_text
from airflow_sitemaps.shards import is_relative_path
from airflow_sitemaps.shards.guards import Refusal, permitted
from airflow_sitemaps.shards.guards.judgement import check_adoption
from airflow_sitemaps.shards.layout import GONE, shard_names
from airflow_sitemaps.shards.manifest import Manifest, PublicFile, SectionManifest, Shard, succeed
from airflow_sitemaps.shards.plan import Plan, Repair, SectionPlan

if TYPE_CHECKING:
    from airflow_sitemaps.pipeline.request import OpenSitemap
    from airflow_sitemaps.ports import ObjectInfo, Store
    from airflow_sitemaps.protocol.reader import ReadUrlset
    from airflow_sitemaps.sitemap import Sitemap


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One section's files that another program changed or deleted, by position of the shard.

    ``files`` has the etag of the object that now has the file's name, None if there is no object. ``bodiless`` are those
    whose private body is missing or damaged.
    """

    files: Mapping[int, str | None] = field(default_factory=dict)
    bodiless: frozenset[int] = frozenset()
    sentences: tuple[str, ...] = ()


def look(store: Store, manifest: Manifest | None = None, *, read: bool = False) -> dict[str, ObjectInfo]:
    """List all public objects by name; ``read`` computes the etags of the manifest's files again where recorded."""
    listing = {info.key: info for info in store.public.list()}
    if read and store.records_etags and manifest is not None:
        names = [file.name for file in manifest.public_files() if file.name in listing]
        for name, etag in zip(names, mapped(lambda name: _read_etag(store, name), names, "sitemap-drift"), strict=True):
            listing[name] = replace(listing[name], etag=etag)
    return listing


def _read_etag(store: Store, name: str) -> str:
    stored = store.public.get(name)
    return "" if stored is None else stored.info.etag


def find(
    store: Store,
    manifest: Manifest,
    state: SectionManifest,
    listing: Mapping[str, ObjectInfo],
    rebuilt: Collection[str] = (),
) -> Drift:
    """Find the drift of a section, and which of its files to rebuild have no sound private body.

    A file is as it was promoted if its etag is. Size and metadata prove nothing, because another program can copy them.
    A file whose promotion is not finished does not count as drift, unless its private body is missing or damaged, or
    another pipeline has its name.
    """
    files: dict[int, str | None] = {}
    bodiless: set[int] = set()
    sentences = []
    for position, shard in enumerate(state.shards):
        if shard.file is None:
            continue
        info = listing.get(shard.file.name)
        if (info and info.etag) != shard.file.etag:
            info = store.public.head(shard.file.name)  # a listing may be outdated, omit links, or have other etags
        if info is not None and info.etag == shard.file.etag:
            if shard.file.name in rebuilt and not is_sound(store, shard.file):
                bodiless.add(position)
            continue
        body = store.state.head(shard.file.body) if shard.file.etag is None else None
        if body is not None and body.byte_size == shard.file.byte_size and not (info and is_of_another(info, manifest)):
            continue  # the commit of this plan first finishes its promotion
        files[position] = None if info is None else info.etag
        what = "is gone" if info is None else f"was overwritten by another program (now {info.byte_size:,} bytes)"
        if not is_sound(store, shard.file):
            bodiless.add(position)
            what += "; its private body is missing or damaged too, so its rows are read again"
        sentences.append(f"{store.public.url(shard.file.name)} {what}")
    return Drift(files=files, bodiless=frozenset(bodiless), sentences=tuple(sentences))


def repairs(
    store: Store, manifest: Manifest | None, plans: Mapping[str, SectionPlan], listing: Mapping[str, ObjectInfo]
) -> tuple[Repair, ...]:
    """Find the files, of planned and other sections, that can be put again without their source."""
    damaged: list[Repair] = []
    if manifest is None:
        return ()
    for name, state in manifest.sections.items():
        for position in plans[name].drifted if name in plans else find(store, manifest, state, listing).files:
            file = state.shards[position].file
            if file is None or file.etag is None or not is_sound(store, file):
                continue
            info = listing.get(file.name)
            etag = info.etag if info is not None else None
            damaged.append(Repair(section=name, name=file.name, base=state.changed_in, found_etag=etag))
    return tuple(damaged)


def headers_changed(store: Store, manifest: Manifest | None) -> bool:
    """Return whether the store keeps other headers with public files than those that are public have."""
    return manifest is not None and bool(store.headers) and manifest.headers not in ("", store.headers)


def put_again(file: PublicFile) -> PublicFile:
    """Return a file to be put again, in another variant, so that a repeated promotion does not take the old object for it."""
    if file.etag is None:
        return file
    pending = structs.replace(file, etag=None, replaces=file.etag)
    return structs.replace(succeed(file, pending), modified_at=file.modified_at)


def with_files(manifest: Manifest, change: Callable[[PublicFile], PublicFile]) -> Manifest:
    """Return a manifest with each public file changed."""

    def changed(shard: Shard) -> Shard:
        file = shard.file and change(shard.file)
        return shard if file is shard.file else structs.replace(shard, file=file)

    sections = {name: structs.replace(s, shards=tuple(map(changed, s.shards))) for name, s in manifest.sections.items()}
    extras, indexes = (tuple(map(change, files)) for files in (manifest.extras, manifest.indexes))
    return structs.replace(manifest, sections=sections, extras=extras, indexes=indexes)


def taken(path: str, section: str, listing: Mapping[str, ObjectInfo], manifest: Manifest | None) -> tuple[str, ...]:
    """Find names of a section's pattern that new files skip: of other programs, of adopted and of departed files."""
    pattern = shard_names(path, section)
    ours = set() if manifest is None else {file.name for file in manifest.files()}
    return tuple(name for name in listing if name not in ours and pattern.fullmatch(name))


def is_sound(store: Store, file: PublicFile) -> bool:
    """Return whether the private body of a file exists and has the file's content."""
    stored = store.state.get(file.body)
    return stored is not None and len(stored.body) == file.byte_size and is_body(file, stored.body)


EXAMINED_SHARDS: Final = 20
"""Maximum number of changed shards whose stamp a plan reads: who overwrites shards replaces the index too."""


def adopted_names(opened: OpenSitemap, manifest: Manifest | None, *, adopt: bool) -> tuple[str, ...]:
    """Return the names of public files that this run may take over; none if the address is free or this pipeline's.

    Raises OwnershipError if the index belongs to another program, and the run was not started with ``adopt``.
    """
    sitemap, store = opened.sitemap, opened.store
    if manifest is not None and not adopt:
        return ()
    extras = sitemap.extra_names
    names = dict.fromkeys((store.index_name, *index_names(sitemap), *sorted(extras)))
    infos = {name: store.public.head(name) for name in names}
    present = {name: info for name, info in infos.items() if info is not None}
    if manifest is not None:
        changed = {**dict(_changed(store, manifest, look(store))), **present}
        return tuple(name for name, info in changed.items() if is_of_another(info, manifest))
    if not adopt:
        _refuse(store, present, extras)
        return ()
    listed = [child for name in present if name not in extras for child in children(sitemap, store, name)]
    return tuple(dict.fromkeys((*present, *listed)))


def _refuse(store: Store, present: Mapping[str, ObjectInfo], extras: Collection[str]) -> None:
    """Refuse to publish over objects of another pipeline, and over an index of an unknown program."""
    for name, info in present.items():
        check_stamp(store.public.url(name), info, None)
    for name in present:
        if name not in extras:
            raise OwnershipError(
                f"{store.public.url(name)} exists, but no manifest of this sitemap names it: another program wrote it. "
                "Nothing was changed. To compare and replace it, run `airflow-sitemaps adopt`; or give "
                "this sitemap another address."
            )


def check_stamps(store: Store, manifest: Manifest, listing: Mapping[str, ObjectInfo]) -> None:
    """Refuse to plan if another pipeline stamped an index, an extra file, or one of the first changed shards.

    The promotion checks each file that it replaces.
    """
    for name, info in _changed(store, manifest, listing):
        check_stamp(store.public.url(name), info, manifest)


def _changed(store: Store, manifest: Manifest, listing: Mapping[str, ObjectInfo]) -> Iterator[tuple[str, ObjectInfo]]:
    """Yield the indexes, extra files and a few shards whose object is not the promoted one."""

    def differs(file: PublicFile) -> bool:
        return file.name in listing and listing[file.name].etag != file.etag

    shards = (file for section in manifest.sections.values() for file in section.files())
    others = (*manifest.indexes, *manifest.extras)
    for file in (*islice(filter(differs, shards), EXAMINED_SHARDS), *filter(differs, others)):
        info = store.public.head(file.name)
        if info is not None:
            yield file.name, info


MAX_FILE_BYTES: Final = 64 << 20
"""Maximum size of a foreign file that is read, in bytes: a sitemap has at most 50 MiB (sitemaps.org)."""

MAX_NAME_BYTES: Final = 800
"""Maximum length of a child's name, in bytes, so that with its prefix it is a valid key in any store."""

SHOWN: Final = 240
"""Maximum number of characters of a foreign address that is shown."""

CHILD_SUFFIXES: Final = (".xml", ".xml.gz", ".txt", ".txt.gz", ".rss", ".atom")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignContent:
    """The URLs of both sitemaps, as far as they can be counted, and why files of the other are unread."""

    theirs: frozenset[str]
    ours: frozenset[str]
    unread: tuple[str, ...]


def foreign_content(sitemap: Sitemap, store: Store, names: Sequence[str], bodies: Iterable[str]) -> ForeignContent:
    """Read another sitemap's files and this one's bodies. Children of an index count only if among ``names``."""
    theirs: set[str] = set()
    unread: list[str] = []
    for name in names:
        info = store.public.head(name) if name == GONE else None
        if name == STYLESHEET or (info is not None and is_of_another(info, None)):  # gone URLs are not to be listed
            continue
        document = read_public(store, name)
        if document is None:
            unread.append(f"{store.public.url(name)}: not a readable file of a sitemap")
            continue
        if not document.whole and document.problems:  # it may list more URLs than were read
            unread.append(f"{store.public.url(name)}: {'; '.join(problem.message for problem in document.problems)}")
        locs = {entry.loc for entry in document.entries}
        if document.kind != "sitemapindex":
            theirs |= locs
            continue
        missing = sorted(loc for loc in locs if not set(names) & set(child_names(sitemap, loc)))
        unread += [
            f"{safe_text(loc[:SHOWN])}: no such file in this store, or its name is not a sitemap's" for loc in missing
        ]
    ours = frozenset(loc for key in bodies for loc in _staged(store, key))
    return ForeignContent(theirs=frozenset(theirs), ours=ours, unread=tuple(unread))


def judge_adoption(opened: OpenSitemap, plan: Plan, manifest: Manifest) -> tuple[Refusal, ...]:
    """Return the guards' refusals of a publication that replaces another sitemap. URLs of omitted sections are lost."""
    sitemap, store, guards = opened.sitemap, opened.store, opened.sitemap.guards
    if not plan.adopted or guards.max_shrink >= 1:
        return ()
    names = list(plan.adopted)
    if plan.base_generation:  # the plan names no children: they stay, as files of another pipeline
        names += [child for name in plan.adopted for child in children(sitemap, store, name)]
    bodies = [file.body for section in manifest.sections.values() for file in section.files()]
    content = foreign_content(sitemap, store, list(dict.fromkeys(names)), bodies)
    gone = len(content.theirs - content.ours)
    losses = check_adoption(guards, theirs=len(content.theirs), only_theirs=gone, unread=content.unread)
    return permitted(losses, plan.allow)[0]


def read_public(store: Store, name: str) -> ReadUrlset | None:
    """Return the parsed public file, or None if there is none, it is too large, or it is no file of a sitemap."""
    from airflow_sitemaps.protocol.reader import read  # noqa: PLC0415 - lxml is loaded where it is needed

    info = store.public.head(name)
    content = store.public.get(name) if info is not None and info.byte_size <= MAX_FILE_BYTES else None
    document = read(content.body) if content is not None else None
    return None if document is None or document.kind == "unknown" else document


def children(sitemap: Sitemap, store: Store, index: str) -> Iterator[str]:
    """Yield the names of the files in the public area that an index lists and a run may take over.

    An index can name any public file, such as ``ads.txt``, so the content decides: only files of a sitemap are
    returned, and files that a pipeline stamped, which may be damaged shards.
    """
    document = read_public(store, index)
    if document is None or document.kind != "sitemapindex":
        return
    for name in dict.fromkeys(name for entry in document.entries for name in child_names(sitemap, entry.loc)):
        info = store.public.head(name)
        if info is not None and (is_of_another(info, None) or is_sitemap(sitemap, read_public(store, name))):
            yield name


def is_sitemap(sitemap: Sitemap, document: ReadUrlset | None) -> bool:
    """Return whether a parsed file is one of a sitemap. A text is one if each line is a URL of the site."""
    if document is None or document.kind != "text":
        return document is not None
    bases = (sitemap.store.base_url, *map(sitemap.base_url_of, sitemap.sections))
    hosts = {urlsplit(base).netloc for base in bases}
    locs = [entry.loc.partition("://") for entry in document.entries]
    return bool(locs) and all(
        scheme in ("http", "https") and rest.partition("/")[0] in hosts and len(rest.split()) == 1
        for scheme, _, rest in locs
    )


def child_names(sitemap: Sitemap, loc: str) -> list[str]:
    """Return the names like a sitemap's that a child of a foreign index may have, below the sitemap's or a section's address."""
    folders = {(sitemap.store.base_url, ""), *((sitemap.base_url_of(s), s.path) for s in sitemap.sections)}
    rests = [(path, loc.removeprefix(base)) for base, path in sorted(folders) if loc.startswith(base)]
    names = [path + name for path, rest in rests for name in (rest, unquote(rest))]
    return [name for name in dict.fromkeys(names) if _is_child(name)]


def _is_child(name: str) -> bool:
    looks = name.endswith(CHILD_SUFFIXES) and name.rpartition("/")[2] != "robots.txt"
    return (
        looks
        and ".." not in name
        and is_relative_path(name)
        and len(name.encode("utf-8", "surrogatepass")) <= MAX_NAME_BYTES
    )


def _staged(store: Store, body: str) -> Iterator[str]:
    from airflow_sitemaps.protocol.reader import read  # noqa: PLC0415

    content = store.state.get(body)
    if content is None:
        raise StoreContentError(f"{store.state.url(body)} is missing; run adopt again")
    yield from (entry.loc for entry in read(content.body).entries)
