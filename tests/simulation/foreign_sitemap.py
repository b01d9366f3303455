"""A sitemap that another program left at the public address before the first run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.ports import Create
from tests.simulation.warehouse import BASE

if TYPE_CHECKING:
    from random import Random

NAMESPACE: Final = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
CHILDREN: Final = ("old-1.xml", "pages-00001.xml.gz", "archive/old-2.xml")
"""Files of its index. One has a name that this package would give to its first shard."""


def leave(store: Any, random: Random) -> None:
    """Put the index and the files of another program.

    Args:
        store: The store of the history.
        random: Decides by the seed.
    """
    names = random.sample(CHILDREN, random.randint(1, len(CHILDREN)))
    entries = "".join(f"<sitemap><loc>{BASE}{name}</loc></sitemap>" for name in names)
    _put(store, "sitemap.xml", f"<sitemapindex {NAMESPACE}>{entries}</sitemapindex>")
    for name in names:
        _put(store, name, f"<urlset {NAMESPACE}><url><loc>{BASE}legacy/{name}</loc></url></urlset>")


def _put(store: Any, name: str, xml: str) -> None:
    body = f'<?xml version="1.0" encoding="UTF-8"?>{xml}'.encode()
    store.public.put(name, body, mode=Create(), metadata={}, content_type="application/xml")
