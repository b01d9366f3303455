"""robots.txt: our ``Sitemap:`` lines in a file that belongs to somebody else, and what such a file says (RFC 9309).

The standard library's ``urllib.robotparser`` takes the first rule that matches and knows no ``*`` or ``$``; RFC 9309
takes the longest and has both, and crawlers follow it. Hence a reader of our own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote_to_bytes, urlsplit

if TYPE_CHECKING:
    from collections.abc import Sequence

BEGIN: Final = "# BEGIN airflow-sitemaps"
END: Final = "# END airflow-sitemaps"
"""What stands between these two lines is ours; every other line is a stranger's."""

MAX_BYTE_SIZE: Final = 512_000
"""Bytes that a crawler must read at least (RFC 9309, 2.5: 500 KiB); what lies behind may be ignored."""

_PRODUCT: Final = re.compile(r"[A-Za-z_-]+")
_LINE_ENDS: Final = re.compile(r"\r\n|\r|\n")
_KEPT_LINES: Final = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
_ENCODED_MEANING: Final = re.compile("(%(?:2[Ff]|3[Ff]|2[Aa]|24|23))")


def lines(sitemaps: Sequence[str]) -> str:
    """The lines to put into a robots.txt by hand; one for each address, in the order given."""
    return "".join(f"Sitemap: {address}\n" for address in sitemaps)


def merge(existing: str, sitemaps: Sequence[str]) -> str:
    """``existing`` with exactly one block of ours in it; merging again changes nothing.

    A line of somebody else's is never touched, and an address that a stranger's line names already is not repeated.
    A block of ours is replaced where it stands; a new one goes to the end, so that no group of rules is cut in two.
    The file's own line ends are kept. An address holds no line end (ValueError).
    """
    for address in sitemaps:
        if _LINE_ENDS.search(address) or not address:
            raise ValueError(f"robots.txt: {address!r} is not an address to put into one line")
    end_of_line = "\r\n" if "\r\n" in existing else "\n"
    kept, position = _without_block(_KEPT_LINES.findall(existing))
    theirs = set(read("".join(kept)).sitemaps)
    wanted = [address for address in dict.fromkeys(sitemaps) if address not in theirs]
    if not wanted:
        return "".join(kept)
    block = [f"{line}{end_of_line}" for line in (BEGIN, *(f"Sitemap: {address}" for address in wanted), END)]
    before, after = kept[:position], kept[position:]
    if before and not before[-1].endswith(("\n", "\r")):
        before = [*before[:-1], before[-1] + end_of_line]
    return "".join([*before, *block, *after])


def _without_block(found: list[str]) -> tuple[list[str], int]:
    """The lines that are not ours, and where ours stood (the end where there were none)."""
    kept: list[str] = []
    position: int | None = None
    number = 0
    while number < len(found):
        if found[number].strip() == BEGIN:
            end = next((n for n in range(number, len(found)) if found[n].strip() == END), None)
            if end is not None and all(_is_ours(line) for line in found[number + 1 : end]):
                position = len(kept) if position is None else position
                number = end + 1
                continue
        kept.append(found[number])
        number += 1
    return kept, len(kept) if position is None else position


def _is_ours(line: str) -> bool:
    return not line.strip() or _field(line)[0] == "sitemap"


def _field(line: str) -> tuple[str, str]:
    """The name, in small letters, and the value of a line; ``("", "")`` where it has none."""
    name, colon, value = line.partition(":")
    return (name.strip(" \t").lower(), value.strip(" \t\r\n")) if colon else ("", "")


# ---------------------------------------------------------------- reading


@dataclass(frozen=True, slots=True)
class _Rule:
    """One ``allow`` or ``disallow``: ``parts`` are what stands between the ``*``; of those that match the longest wins."""

    parts: tuple[str, ...]
    anchored: bool
    allow: bool

    @property
    def length(self) -> int:
        """Octets of the pattern; a wildcard counts as one."""
        return sum(map(len, self.parts)) + len(self.parts) - 1 + self.anchored

    def matches(self, path: str) -> bool:
        """Whether the pattern matches, in linear time: a stranger's pattern must not be able to stall us."""
        first, *rest = self.parts
        if not path.startswith(first):
            return False
        if not rest:
            return not self.anchored or path == first
        position = len(first)
        for part in rest[:-1]:
            found = path.find(part, position)
            if found < 0:
                return False
            position = found + len(part)
        last = rest[-1]
        if self.anchored:
            return path.endswith(last) and len(path) - len(last) >= position
        return path.find(last, position) >= 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Robots:
    """What a robots.txt says: ``sitemaps`` in their order, whatever group they stand in, and rules by product."""

    sitemaps: tuple[str, ...] = ()
    groups: dict[str, tuple[_Rule, ...]] = field(default_factory=dict)

    def allows(self, address: str, user_agent: str = "*") -> bool:
        """Whether a crawler with this product token may fetch a URL (RFC 9309, 2.2). What is no URL is not disallowed."""
        try:
            parts = urlsplit(address)
        except ValueError:
            return True
        path = _normal((parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
        if path == "/robots.txt":
            return True
        rules = self.groups.get(_product(user_agent), self.groups.get("*", ()))
        best = max(((rule.length, rule.allow) for rule in rules if rule.matches(path)), default=(0, True))
        return best[1]


def read(text: str) -> Robots:
    """Read a robots.txt, its first 500 KiB; a line that means nothing is passed over, groups of one product are joined."""
    sitemaps: list[str] = []
    groups: dict[str, list[_Rule]] = {}
    agents: list[str] = []
    in_rules = False
    for line in _LINE_ENDS.split(text[:MAX_BYTE_SIZE].removeprefix("\ufeff")):
        name, value = _field(line.split("#", 1)[0])
        if name == "sitemap" and value:
            sitemaps.append(_sitemap(line))
        elif name == "user-agent":
            agents = [] if in_rules else agents
            in_rules = False
            agents.append(_product(value))
            groups.setdefault(agents[-1], [])
        elif name in ("allow", "disallow"):
            in_rules = True
            if value:
                for agent in agents:
                    groups[agent].append(_rule(value, allow=name == "allow"))
    return Robots(sitemaps=tuple(sitemaps), groups={agent: tuple(rules) for agent, rules in groups.items()})


def _product(value: str) -> str:
    """The product token of a user agent, in small letters; ``*`` for everybody."""
    token = _PRODUCT.match(value)
    return token[0].lower() if token else value.strip().lower()


def _sitemap(line: str) -> str:
    """The address of a Sitemap line; a ``#`` without white space before it belongs to the address."""
    value = line.partition(":")[2]
    return re.split(r"[ \t]#", value, maxsplit=1)[0].strip(" \t")


def _rule(value: str, *, allow: bool) -> _Rule:
    anchored = value.endswith("$")
    path = _normal(value[:-1] if anchored else value)
    return _Rule(parts=tuple(path.split("*")), anchored=anchored, allow=allow)


def _normal(path: str) -> str:
    """Percent-encoding made comparable: what need not be encoded is not, what must be is (RFC 9309, 2.2.2)."""
    return "".join(
        part.upper() if number % 2 else quote(unquote_to_bytes(part), safe="/?:@!$&'()*+,;=~-._")
        for number, part in enumerate(_ENCODED_MEANING.split(path))
    )
