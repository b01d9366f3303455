"""Compare the URLs of another program's sitemap with the URLs of the generation that replaces it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from airflow_sitemaps.errors import StoreContentError
from airflow_sitemaps.pipeline.state.ownership import is_of_another
from airflow_sitemaps.protocol.markup import STYLESHEET_NAME as STYLESHEET
from airflow_sitemaps.protocol.rules import safe_text
from airflow_sitemaps.shards.guards import permitted
from airflow_sitemaps.shards.guards.judgement import check_adoption
from airflow_sitemaps.shards.schema import is_relative_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from airflow_sitemaps.ports import Store
    from airflow_sitemaps.protocol.reader import ReadUrlset
    from airflow_sitemaps.shards.guards import Refusal
    from airflow_sitemaps.shards.manifest import Manifest
    from airflow_sitemaps.shards.plan import Plan
    from airflow_sitemaps.sitemap import Sitemap

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
        if name == STYLESHEET:
            continue
        document = read_public(store, name)
        fault = "not a readable file of a sitemap" if document is None else _fault(document)
        if fault:
            unread.append(f"{store.public.url(name)}: {fault}")
        if document is None:
            continue
        locs = {entry.loc for entry in document.entries}
        if document.kind != "sitemapindex":
            theirs |= locs
            continue
        missing = sorted(loc for loc in locs if not set(names) & set(child_names(sitemap, loc)))
        unread += [f"{safe_text(loc[:SHOWN])}: no sitemap of this address with a sitemap's name" for loc in missing]
    ours = frozenset(loc for key in bodies for loc in _staged(store, key))
    return ForeignContent(theirs=frozenset(theirs), ours=ours, unread=tuple(unread))


def judge_adoption(sitemap: Sitemap, store: Store, plan: Plan, manifest: Manifest) -> tuple[Refusal, ...]:
    """Return the guards' refusals of a publication that replaces another sitemap. URLs of omitted sections are lost."""
    guards = sitemap.guards
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
    """Return the public names that a child of a foreign index may have, below the sitemap's or a section's address.

    A run takes those that are sitemaps over, and later sweeps them, after the grace. An index can name any public file,
    so only names that look like a sitemap are returned.
    """
    folders = {(sitemap.store.base_url, ""), *((sitemap.base_url_of(s), s.path) for s in sitemap.sections)}
    names = [path + loc.removeprefix(base) for base, path in sorted(folders) if loc.startswith(base)]
    return [name for name in dict.fromkeys(names) if _is_child(name)]


def _is_child(name: str) -> bool:
    looks = name.endswith(CHILD_SUFFIXES) and name.rpartition("/")[2] != "robots.txt"
    return (
        looks
        and ".." not in name
        and is_relative_path(name)
        and len(name.encode("utf-8", "surrogatepass")) <= MAX_NAME_BYTES
    )


def _fault(document: ReadUrlset) -> str:
    """Return why a file may list more URLs than were read, or ""."""
    return "" if document.whole else "; ".join(problem.message for problem in document.problems)


def _staged(store: Store, body: str) -> Iterator[str]:
    from airflow_sitemaps.protocol.reader import read  # noqa: PLC0415

    content = store.state.get(body)
    if content is None:
        raise StoreContentError(f"{store.state.url(body)} is missing; run adopt again")
    yield from (entry.loc for entry in read(content.body).entries)
