"""URLs that more than one file lists, found with twelve bytes of memory per URL."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_BUCKETS = 256


class Duplicates:
    """64-bit hashes of all URLs, with the numbers of their files. They are sorted in buckets when they are compared.

    Among ten million different URLs, two have the same hash with a probability of about 3 in a million.
    """

    def __init__(self) -> None:
        self._hashes = [array("Q") for _ in range(_BUCKETS)]
        self._files = [array("L") for _ in range(_BUCKETS)]

    def add(self, file: int, locs: Iterable[str]) -> None:
        """Add the different URLs of one file. ``file`` is its number."""
        for loc in set(locs):
            value = hash_of(loc)
            bucket = value >> 56
            self._hashes[bucket].append(value)
            self._files[bucket].append(file)

    def found(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield each hash that several files share, with their numbers in order."""
        for hashes, files in zip(self._hashes, self._files, strict=True):
            order = sorted(range(len(hashes)), key=hashes.__getitem__)
            start = 0
            for position in range(1, len(order) + 1):
                if position < len(order) and hashes[order[position]] == hashes[order[start]]:
                    continue
                if position - start > 1:
                    yield hashes[order[start]], tuple(sorted(files[n] for n in order[start:position]))
                start = position

    def known(self, locs: Iterable[str]) -> set[str]:
        """Return those of the URLs that any file lists."""
        wanted = {hash_of(loc): loc for loc in locs}
        if not wanted:
            return set()
        return {wanted[value] for hashes in self._hashes for value in wanted.keys() & set(hashes)}


def hash_of(loc: str) -> int:
    """Return the 64-bit hash of a URL."""
    import xxhash  # noqa: PLC0415

    return xxhash.xxh3_64_intdigest(loc.encode("utf-8", "surrogatepass"))
