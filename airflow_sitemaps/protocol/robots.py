"""robots.txt: a block of ``Sitemap:`` lines in a file that other programs write too, and a reader (RFC 9309).

``urllib.robotparser`` of the standard library takes the first rule that matches, and has no ``*`` and ``$``. RFC 9309
takes the longest rule and has both, and crawlers follow it: Protego reads the rules that way.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_left
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from airflow_sitemaps.errors import ConfigurationError

if TYPE_CHECKING:
    from protego import Protego

BEGIN: Final = "# BEGIN airflow-sitemaps"
END: Final = "# END airflow-sitemaps"
"""Lines around a sitemap's block, each followed by the address of its index. No other line is ever changed."""

MAX_BYTE_SIZE: Final = 512_000
"""Size that a crawler must read at least, in bytes (RFC 9309, 2.5: 500 KiB). The rest may be ignored."""

_LINE_ENDS: Final = re.compile(r"\r\n|\r|\n")
_AGENT: Final = re.compile(r"(?i)((?:\A|(?<=[\r\n]))[ \t]*user[- ]?agent[ \t]*:[ \t]*)(\*(?![^\s#])|[\w-]*)[^\r\n]*")
_DISALLOW: Final = r"diss?all?ow|disallaw|diasllow"  # Protego's spellings
_DISALLOWS: Final = re.compile(rf"(?i)[ \t\f\v]*(?:{_DISALLOW})[ \t:]")
_NO_RULE: Final = re.compile(rf"(?i)(?:\A|(?<=[\r\n]))(?![ \t\f\v]*(?:user[- ]?agent|allow|{_DISALLOW})[ \t:])[^\r\n]+")
_BLOCK: Final = re.compile(
    rb"""(?x) (?:\A|(?<=[\r\n]))
    [ \t\f\v]*\#[ ]BEGIN[ ]airflow-sitemaps (?P<name>(?:[^\r\n]*\S)?) [ \t\f\v]*(?:\r?\n|\r(?!\n))
    (?:[ \t\f\v]*(?:(?i:sitemap)[ \t]*:[^\r\n]*)?(?:\r?\n|\r(?!\n)))*
    [ \t\f\v]*\#[ ]END[ ]airflow-sitemaps (?P=name) [ \t\f\v]*(?:\r?\n|\r(?!\n)|\Z)"""
)
"""A sitemap's block with its line ends. One that contains other lines than Sitemap lines was edited, and is not changed."""


def lines(sitemaps: Sequence[str]) -> list[str]:
    """Return the lines for a robots.txt, one for each address, in the given order."""
    return [f"Sitemap: {address}" for address in sitemaps]


def merge(existing: bytes, sitemaps: Sequence[str], *, name: str = "") -> bytes:
    """Insert the block of one sitemap into a robots.txt. A second merge changes nothing.

    The merge works on bytes, so that every other line keeps its encoding and its line end. Only a last line without a line
    end gets one. An existing block is replaced; a new one is added at the end, so that no group of rules is divided. An
    address that a line outside all blocks names already is not repeated.

    Without ``sitemaps`` the block is removed. ``name``, the address of the index, distinguishes it from other sitemaps'
    blocks. It raises ValueError for an empty address or one with a line end, and ConfigurationError for UTF-16 and UTF-32.
    """
    for address in (*sitemaps, name or "-"):
        if _LINE_ENDS.search(address) or not address.strip():
            raise ValueError(f"robots.txt: {address!r} must not be empty or contain a line break")
    if existing.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ConfigurationError(
            "robots.txt is UTF-16 or UTF-32, which crawlers cannot read (RFC 9309 requires UTF-8): save it as UTF-8 first"
        )
    own = [block for block in _BLOCK.finditer(existing) if block["name"].strip() == name.encode()]
    position = own[0].start() if own else len(existing)
    kept = _BLOCK.sub(lambda block: b"" if block["name"].strip() == name.encode() else block[0], existing)
    free = _BLOCK.sub(b"", kept)  # another sitemap's block may lose the address again
    theirs = set(_sitemaps(_start(free.decode("utf-8", "replace"))))
    wanted = [address for address in dict.fromkeys(sitemaps) if address not in theirs]
    if not wanted:
        return kept
    end_of_line = b"\r\n" if b"\r\n" in existing else b"\n"
    block = (f"{BEGIN} {name}".rstrip(), *lines(wanted), f"{END} {name}".rstrip())
    before = kept[:position]
    if before and not before.endswith((b"\n", b"\r")):
        before += end_of_line
    return before + b"".join(line.encode() + end_of_line for line in block) + kept[position:]


def _field(line: str) -> tuple[str, str]:
    """Return the name, in lower case, and the value of a line; ``("", "")`` if it has none."""
    name, colon, value = line.partition(":")
    return (name.strip(" \t").lower(), value.strip(" \t\r\n")) if colon else ("", "")


# ---------------------------------------------------------------- reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Robots:
    """The content of a robots.txt: the addresses of its Sitemap lines, in any group, and its rules. None allows everything."""

    sitemaps: tuple[str, ...] = ()
    rules: Protego | None = None

    def allows(self, address: str, user_agent: str = "*") -> bool:
        """Return whether a crawler with this product token may fetch a URL (RFC 9309, 2.2). A text that is not a URL is allowed."""
        try:
            is_file, agent = urlsplit(address).path == "/robots.txt", user_agent.partition("/")[0] + ";"
            return is_file or self.rules is None or bool(self.rules.can_fetch(address, agent))
        except ValueError:
            return True


def read(text: str) -> Robots:
    """Parse the first 500 KiB of a robots.txt. Unknown lines are skipped, and groups of one product are joined."""
    from protego import Protego  # noqa: PLC0415 - only verification needs the rules

    start = _start(text)
    # Protego lets any other line end the User-agent lines of a group, and finds a token within others: ";" ends each.
    rules = _AGENT.sub(lambda line: line[1] + (line[2] if line[2] == "*" else f"{line[2]};"), _NO_RULE.sub("", start))
    return Robots(sitemaps=_sitemaps(start), rules=Protego.parse(rules))


def disallowing_line(text: str, address: str, user_agent: str) -> str:
    """Return the number and text of the line of a robots.txt without which a crawler may fetch a URL; "" if it may."""
    if read(text).allows(address, user_agent):
        return ""
    all_lines = _LINE_ENDS.split(_start(text))
    numbers = [number for number, line in enumerate(all_lines) if _DISALLOWS.match(line)]

    def is_allowed(without: Container[int]) -> bool:
        kept = ("Disallow:" if number in without else line for number, line in enumerate(all_lines))
        return read("\n".join(kept)).allows(address, user_agent)

    # Only the first line that disallows together with those before it can be the one: a search in a few steps.
    first = bisect_left(numbers, True, key=lambda last: not is_allowed({n for n in numbers if n > last}))
    for number in numbers[first : first + 1]:
        if is_allowed({number}):
            return f"line {number + 1}, {all_lines[number].strip()!r}"
    return "several lines"


def _start(text: str) -> str:
    return text[:MAX_BYTE_SIZE].removeprefix("\ufeff")


def _sitemaps(text: str) -> tuple[str, ...]:
    """Return the addresses of the Sitemap lines. A ``#`` without white space before it is part of an address."""
    fields = map(_field, _LINE_ENDS.split(text))
    addresses = [
        re.split(r"(?:^|[ \t])#", value, maxsplit=1)[0].strip(" \t") for name, value in fields if name == "sitemap"
    ]
    return tuple(filter(None, addresses))
