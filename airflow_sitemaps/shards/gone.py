"""Gone URLs: those that were listed, and whose rows left the source under unchanged code. Pure.

A run may read some sections only. So the last word of each section about a URL, that it lists the URL or that the URL left
it, is kept until every other section has taken part in a run since. The URL is gone if all these words are *left*. A section
that lists a URL only while others take no part leaves no word behind: one of those may have listed it all the time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from airflow_sitemaps.protocol import CURRENT
from airflow_sitemaps.shards import Moment, Record, SectionName

MOST_GONE: Final = CURRENT.max_urls
"""Maximum number of gone URLs, of URLs that one run names as gone, and of URLs with a last word: one file's."""


class LastWords(Record, frozen=True, kw_only=True):
    """What sections said last about a URL: when it left each of them, None if it is listed.

    ``awaits`` names the sections that have not taken part in a run since.
    """

    said: Mapping[SectionName, Moment | None]
    awaits: tuple[SectionName, ...]


class GoneUrls(Record, frozen=True, kw_only=True):
    """The gone URLs of a generation, with the time at which each left the source, and the last words about other URLs.

    The sections ``unsure`` must take part in a run before a URL may be named gone again, because words were lost or too many.
    """

    urls: Mapping[str, Moment] = {}
    words: Mapping[str, LastWords] = {}
    unsure: tuple[SectionName, ...] = ()

    def awaits(self) -> tuple[SectionName, ...]:
        """Return the sections whose next run may change something."""
        return tuple(sorted({*self.unsure, *(name for word in self.words.values() for name in word.awaits)}))


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionMoves:
    """What a run says of one section: URLs that it lists newly, and URLs that left some range of it.

    ``listed`` may lack URLs of which nothing is known and that no section says have left, if every section takes part, or if
    ``is_whole`` is False: they are too many.
    """

    listed: Set[str] = frozenset()
    left: Collection[str] = ()
    is_whole: bool = True


def next_gone(
    before: GoneUrls, moves: Mapping[str, SectionMoves], everyone: Collection[str], now: datetime, window: timedelta
) -> GoneUrls:
    """Return the gone URLs after a run of the sections in ``moves``; ``everyone`` names all sections of the sitemap."""
    absent = frozenset(everyone) - moves.keys()
    words = {
        url: replace(word, awaits=tuple(name for name in word.awaits if name in absent))
        for url, word in before.words.items()
        if None in word.said.values() or {*word.awaits} <= {*everyone}
    }

    def say(url: str, section: str, left_at: datetime | None) -> None:
        word = words.get(url, LastWords(said={}, awaits=()))
        said = {**word.said, section: left_at}
        if left_at is not None and word.said.get(section, left_at) is None:
            said = {name: at and left_at for name, at in word.said.items() if name != section}
        words[url] = LastWords(said=said, awaits=tuple(sorted({*word.awaits, *absent})))

    listed = frozenset[str]().union(*(own.listed for own in moves.values()))
    for name, own in moves.items():
        for url in own.listed:
            say(url, name, None)
    for name, own in moves.items() if not before.unsure else ():
        for url in frozenset(own.left) - own.listed:
            say(url, name, now)
    urls = {url: at for url, at in before.urls.items() if url not in listed and at + window > now}
    for url in [url for url, word in words.items() if not word.awaits]:
        said = words.pop(url).said
        moments = [at for at in said.values() if at is not None]
        if moments and len(moments) == len(said) and max(moments) + window > now:
            urls.setdefault(url, max(moments))
    newest = sorted(urls.items(), key=lambda item: (-item[1].timestamp(), item[0]))[:MOST_GONE]
    unsure = {name for name in before.unsure if name in everyone} - moves.keys()
    if len(words) > MOST_GONE or not all(own.is_whole for own in moves.values()):
        words, unsure = {}, {*unsure, *absent}
    return GoneUrls(urls=dict(newest), words=dict(sorted(words.items())), unsure=tuple(sorted(unsure)))
