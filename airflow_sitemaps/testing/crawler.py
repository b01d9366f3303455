"""A crawler over a store: what the public area says at this moment, read as strangers read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_sitemaps.protocol.validation.reader import ReadEntry, read

if TYPE_CHECKING:
    from airflow_sitemaps.ports import Store


class BrokenSitemapError(AssertionError):
    """A crawler met a file that is missing, damaged, or listed twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crawl:
    """What was read. ``files``: public name → its entries in order; ``lastmods``: public name → the index's lastmod."""

    files: dict[str, tuple[ReadEntry, ...]]
    lastmods: dict[str, str | None]

    def entries(self) -> dict[str, list[tuple[str | None, str | None, str | None, str]]]:
        """Return loc → (lastmod, changefreq, priority, extensions) of each time it is listed."""
        listed: dict[str, list[tuple[str | None, str | None, str | None, str]]] = {}
        for entries in self.files.values():
            for e in entries:
                facts = (e.lastmod, e.changefreq, e.priority, repr(sorted(e.extensions.items())))
                listed.setdefault(e.loc, []).append(facts)
        return listed

    def locs(self) -> set[str]:
        """Every URL listed."""
        return {entry.loc for entries in self.files.values() for entry in entries}


def crawl(store: Store, index: str | None = None, *, folders: dict[str, str] | None = None) -> Crawl:
    """Read the index and every file that it lists.

    ``folders``: base URL → public folder, for sections that are served at addresses of their own.

    Raises:
        BrokenSitemapError: a listed file is missing or damaged, or is listed twice, or lists nothing.
    """
    name = index or store.index_name
    files: dict[str, tuple[ReadEntry, ...]] = {}
    lastmods: dict[str, str | None] = {}
    for child in _entries(store, name, "sitemapindex"):
        path = _path(store, child.loc, folders or {})
        if path in files:
            raise BrokenSitemapError(f"{name} lists {path} twice")
        files[path] = _entries(store, path, "")
        lastmods[path] = child.lastmod
    return Crawl(files=files, lastmods=lastmods)


def _path(store: Store, loc: str, folders: dict[str, str]) -> str:
    for base, folder in folders.items():
        if loc.startswith(base):
            return folder + loc[len(base) :]
    if not loc.startswith(store.base_url):
        raise BrokenSitemapError(f"the index lists {loc}, which is not below {store.base_url}")
    return loc[len(store.base_url) :]


def _entries(store: Store, name: str, kind: str) -> tuple[ReadEntry, ...]:
    stored = store.public.get(name)
    if stored is None:
        raise BrokenSitemapError(f"{name} is listed and not there")
    urlset = read(stored.body)
    if urlset.problems or (kind and urlset.kind != kind) or urlset.kind == "unknown":
        raise BrokenSitemapError(f"{name} is damaged: {urlset.kind}, {urlset.problems}")
    if not urlset.entries:
        raise BrokenSitemapError(f"{name} lists nothing")
    return urlset.entries
