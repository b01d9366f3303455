"""robots.txt: a block of ``Sitemap:`` lines in a file that other programs write too, and a reader (RFC 9309).

``urllib.robotparser`` of the standard library takes the first rule that matches, and has no ``*`` and ``$``. RFC 9309
takes the longest rule and has both, and crawlers follow it.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, AnyStr, Final
from urllib.parse import quote, unquote_to_bytes, urlsplit

from airflow_sitemaps.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

BEGIN: Final = "# BEGIN airflow-sitemaps"
END: Final = "# END airflow-sitemaps"
"""Lines around a sitemap's block, each followed by the address of its index. No other line is ever changed."""

MAX_BYTE_SIZE: Final = 512_000
"""Size that a crawler must read at least, in bytes (RFC 9309, 2.5: 500 KiB). The rest may be ignored."""

_PRODUCT: Final = re.compile(r"[A-Za-z_-]+")
_LINE_ENDS: Final = re.compile(r"\r\n|\r|\n")
_KEPT_LINES: Final = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
_ENCODED_MEANING: Final = re.compile("(%(?:2[Ff]|3[Ff]|2[Aa]|24|23))")


def lines(sitemaps: Sequence[str]) -> str:
    """Return the lines for a robots.txt, one for each address, in the given order."""
    return "".join(f"Sitemap: {address}\n" for address in sitemaps)


def merge(existing: AnyStr, sitemaps: Sequence[str], *, name: str = "") -> AnyStr:
    """Insert the block of one sitemap into a robots.txt. A second merge changes nothing.

    The merge works on bytes, so that every other line keeps its encoding and its line end. Only a last line without a line
    end gets one. An existing block is replaced; a new one is added at the end, so that no group of rules is divided. An
    address that a line outside the block names already is not repeated.

    Args:
        existing: Content of the file. Text is taken as UTF-8.
        sitemaps: Absolute addresses to name, in this order. None removes the block.
        name: Address of the index, which distinguishes this block from those of other sitemaps. A block without a name, as
            older versions wrote it, is replaced if it names one of the addresses.

    Returns:
        The new content, of the same type as ``existing``.

    Raises:
        ValueError: An address or the name is empty, or contains a line end.
        ConfigurationError: The file is UTF-16 or UTF-32, which no crawler reads.
    """
    if isinstance(existing, str):
        return _merge(existing.encode("utf-8", "surrogatepass"), sitemaps, name).decode("utf-8", "surrogatepass")
    return _merge(existing, sitemaps, name)


def _merge(existing: bytes, sitemaps: Sequence[str], name: str) -> bytes:
    for address in (*sitemaps, name or "-"):
        if _LINE_ENDS.search(address) or not address.strip():
            raise ValueError(f"robots.txt: {address!r} must not be empty or contain a line break")
    if existing.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ConfigurationError(
            "robots.txt is UTF-16 or UTF-32, which crawlers cannot read (RFC 9309 requires UTF-8): save it as UTF-8 first"
        )
    kept, position = _without_block(_KEPT_LINES.findall(existing), name, set(sitemaps))
    theirs = set(read(b"".join(kept).decode("utf-8", "replace")).sitemaps)
    wanted = [address for address in dict.fromkeys(sitemaps) if address not in theirs]
    if not wanted:
        return b"".join(kept)
    end_of_line = b"\r\n" if b"\r\n" in existing else b"\n"
    texts = (_marker(BEGIN, name), *(f"Sitemap: {address}" for address in wanted), _marker(END, name))
    block = [text.encode() + end_of_line for text in texts]
    before, after = kept[:position], kept[position:]
    if before and not before[-1].endswith((b"\n", b"\r")):
        before = [*before[:-1], before[-1] + end_of_line]
    return b"".join([*before, *block, *after])


def _marker(marker: str, name: str) -> str:
    return f"{marker} {name}" if name else marker


def _without_block(lines: list[bytes], name: str, sitemaps: set[str]) -> tuple[list[bytes], int]:
    """Return the lines outside this sitemap's block, and the position of the block (the end if there was none)."""
    kept: list[bytes] = []
    position: int | None = None
    number = 0
    while number < len(lines):
        end = _end_of_block(lines, number, name, sitemaps)
        if end is None:
            kept.append(lines[number])
            number += 1
        else:
            position = len(kept) if position is None else position
            number = end
    return kept, len(kept) if position is None else position


def _end_of_block(lines: list[bytes], start: int, name: str, sitemaps: set[str]) -> int | None:
    """Return the line after the block of this sitemap that begins at ``start``, or None if no block begins there.

    A block that contains other lines than Sitemap lines was edited, and is not changed.
    """
    begin = lines[start].strip()
    if begin != _marker(BEGIN, name).encode() and begin != BEGIN.encode():
        return None
    end = begin.replace(BEGIN.encode(), END.encode(), 1)
    addresses: set[str] = set()
    for number in range(start + 1, len(lines)):
        line = lines[number].strip()
        if line == end:
            is_ours = begin != BEGIN.encode() or not name or bool(addresses & sitemaps)
            return number + 1 if is_ours else None
        if line and _field(line.decode("utf-8", "replace"))[0] != "sitemap":
            return None
        addresses.add(_sitemap(line.decode("utf-8", "replace")))
    return None


def _field(line: str) -> tuple[str, str]:
    """Return the name, in lower case, and the value of a line; ``("", "")`` if it has none."""
    name, colon, value = line.partition(":")
    return (name.strip(" \t").lower(), value.strip(" \t\r\n")) if colon else ("", "")


# ---------------------------------------------------------------- reading


@dataclass(frozen=True, slots=True)
class _Rule:
    """One ``allow`` or ``disallow``. The longest rule that matches a path applies.

    Attributes:
        parts: Texts between the ``*`` of the pattern.
        anchored: Whether the pattern ends in ``$``.
        allow: Whether it is an ``allow``.
    """

    parts: tuple[str, ...]
    anchored: bool
    allow: bool

    @property
    def length(self) -> int:
        """Length of the pattern in octets. A wildcard counts as one."""
        return sum(map(len, self.parts)) + len(self.parts) - 1 + self.anchored

    def matches(self, path: str) -> bool:
        """Return whether the pattern matches. The time is linear, because the pattern may be hostile."""
        first, *rest = self.parts
        if not path.startswith(first):
            return False
        if not rest:
            return not self.anchored or path == first
        position = len(first)
        for part in rest[:-1]:
            start = path.find(part, position)
            if start < 0:
                return False
            position = start + len(part)
        last = rest[-1]
        if self.anchored:
            return path.endswith(last) and len(path) - len(last) >= position
        return path.find(last, position) >= 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Robots:
    """The content of a robots.txt.

    Attributes:
        sitemaps: Addresses of its Sitemap lines in their order, in any group.
        groups: Rules by product token, in lower case.
    """

    sitemaps: tuple[str, ...] = ()
    groups: dict[str, tuple[_Rule, ...]] = field(default_factory=dict)

    def allows(self, address: str, user_agent: str = "*") -> bool:
        """Return whether a crawler with this product token may fetch a URL (RFC 9309, 2.2). A text that is not a URL is allowed."""
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
    """Parse the first 500 KiB of a robots.txt. Unknown lines are skipped, and groups of one product are joined."""
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
    """Return the product token of a user agent, in lower case; ``*`` for all."""
    token = _PRODUCT.match(value)
    return token[0].lower() if token else value.strip().lower()


def _sitemap(line: str) -> str:
    """Return the address of a Sitemap line. A ``#`` without white space before it is part of the address."""
    value = line.partition(":")[2]
    return re.split(r"[ \t]#", value, maxsplit=1)[0].strip(" \t")


def _rule(value: str, *, allow: bool) -> _Rule:
    anchored = value.endswith("$")
    path = _normal(value[:-1] if anchored else value)
    return _Rule(parts=tuple(path.split("*")), anchored=anchored, allow=allow)


def _normal(path: str) -> str:
    """Normalise percent-encoding for comparison: encode only what must be encoded (RFC 9309, 2.2.2)."""
    return "".join(
        part.upper() if number % 2 else quote(unquote_to_bytes(part), safe="/?:@!$&'()*+,;=~-._")
        for number, part in enumerate(_ENCODED_MEANING.split(path))
    )
