"""Parser of published files: urlset, sitemapindex, text, RSS or Atom, from bytes that may be hostile.

Nothing is fetched, no entity is expanded, a DOCTYPE is refused, and libxml2's own limits bound depth and text size
(``huge_tree`` stays off). A part that cannot be read is a finding; what was read before it is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import Any, Final, Literal

from airflow_sitemaps.errors import InvalidSitemapError
from airflow_sitemaps.protocol import CURRENT, Limits, gzip, lastmod
from airflow_sitemaps.protocol.extensions import ELEMENT_KINDS, child_faults, local_name, read_extension
from airflow_sitemaps.protocol.feeds import ATOM_NAMESPACE
from airflow_sitemaps.protocol.markup import NAMESPACE
from airflow_sitemaps.protocol.rules import Finding, Findings

Kind = Literal["urlset", "sitemapindex", "text", "rss", "atom", "unknown"]

GZIP_MAGIC: Final = b"\x1f\x8b"
BOM: Final = b"\xef\xbb\xbf"
READ_FACTOR: Final = 2
"""A file is read up to this multiple of its byte limit, so that one that is slightly too large is still checked."""

MAX_BARREN_PIECES: Final = 4
"""Number of 1 MiB blocks without the end of an entry after which reading stops. No entry is as large."""

_PIECE_BYTE_SIZE: Final = 1 << 20
_CORE: Final = {f"{{{NAMESPACE}}}{name}": n for n, name in enumerate(("loc", "lastmod", "changefreq", "priority"))}
_OTHERS: Final = len(_CORE)
_ENTRY_TAGS: Final[dict[str, tuple[Kind, str]]] = {
    f"{{{NAMESPACE}}}urlset": ("urlset", f"{{{NAMESPACE}}}url"),
    f"{{{NAMESPACE}}}sitemapindex": ("sitemapindex", f"{{{NAMESPACE}}}sitemap"),
    f"{{{ATOM_NAMESPACE}}}feed": ("atom", f"{{{ATOM_NAMESPACE}}}entry"),
    "rss": ("rss", "item"),
}
_SPACE: Final = re.compile(r"\s*")
_HTML: Final = re.compile(r"<(?:!doctype\s+html|html)\b", re.IGNORECASE)
_DECLARED: Final = re.compile(r"""encoding\s*=\s*["']([^"']*)""")
_ENTITY: Final = re.compile(rb"&([A-Za-z][A-Za-z0-9]{0,30});")
_OWN_ENTITIES: Final = frozenset({b"amp", b"lt", b"gt", b"apos", b"quot"})
_INSTANCE: Final = "{http://www.w3.org/2001/XMLSchema-instance}"
"""Namespace whose attributes (``schemaLocation``) every element may have."""
_NOTHING: Final[Mapping[str, list[dict[str, Any]]]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadEntry:
    """One ``<url>``, ``<sitemap>``, line, item or entry of a file, without white space around values.

    ``loc`` is empty if there is none. ``extensions`` holds records in the form of the JSON columns, by kind.
    """

    loc: str
    line: int
    lastmod: str | None = None
    changefreq: str | None = None
    priority: str | None = None
    extensions: Mapping[str, list[dict[str, Any]]] = field(default_factory=lambda: _NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadUrlset:
    """A parsed file. ``problems`` are the file's; ``validate`` finds those of its entries."""

    kind: Kind
    entries: tuple[ReadEntry, ...]
    byte_size: int
    problems: tuple[Finding, ...]
    whole: bool = True


def unpack(body: bytes, findings: Findings, limits: Limits = CURRENT) -> bytes:
    """Return the uncompressed content of a file; ``b""`` for a damaged or too large one, which is recorded.

    A file that was compressed twice is decompressed twice and recorded.
    """
    for time in range(2):
        if not body.startswith(GZIP_MAGIC):
            break
        try:
            body = gzip.decompress(body, max_byte_size=limits.max_byte_size * READ_FACTOR, limit=limits.max_byte_size)
        except InvalidSitemapError as error:
            findings.note("gzip", str(error))
            return b""
        if time == 0 and body.startswith(GZIP_MAGIC):
            message = "inside the gzip file is another gzip file: clients that unzip once read nothing"
            findings.note("gzip-twice", message)
    return body


def read(body: bytes, *, limits: Limits = CURRENT) -> ReadUrlset:
    """Parse a file of any kind, compressed or not. It raises no error for any content; see ``problems``."""
    findings = Findings()
    content = unpack(body, findings, limits)
    kind, entries = _read_content(content, findings) if content or not findings else ("unknown", [])
    return ReadUrlset(
        kind=kind, entries=tuple(entries), byte_size=len(content), problems=findings.listed(), whole=findings.whole
    )


def _read_content(content: bytes, findings: Findings) -> tuple[Kind, list[ReadEntry]]:
    if content.startswith(BOM):
        findings.note("bom", "the file begins with a byte-order mark, which the protocol does not know")
        content = content[len(BOM) :]
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        findings.note("encoding", f"byte {error.start:,} is not UTF-8 ({error.reason})")
        return "unknown", []
    if not text.lstrip().startswith("<"):
        return _read_text(text, findings)
    root = _end_of_prolog(text)
    if _HTML.match(text, root):
        message = "the file is an HTML page, not a sitemap: the server may answer with an error or login page"
        findings.note("root", message)
        return "unknown", []
    if text.startswith("<!DOCTYPE", root):
        findings.note(
            "doctype",
            "the file has a DOCTYPE. No sitemap needs one, and its entities can be used for an attack on the reader: "
            "the file was not read. Remove the DOCTYPE",
        )
        return "unknown", []
    _check_declaration(text, findings)
    return _read_xml(content.lstrip(), findings)


def _read_text(text: str, findings: Findings) -> tuple[Kind, list[ReadEntry]]:
    entries: list[ReadEntry] = []
    for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        stripped = line.strip()
        if stripped:
            entries.append(ReadEntry(loc=stripped, line=number))
        elif line:
            findings.note("structure", f"line {number}: white space only")
    if entries and not any(entry.loc.lower().startswith(("http://", "https://")) for entry in entries):
        findings.note("root", f"neither XML nor a list of URLs: it begins with {entries[0].loc[:60]!r}")
        return "unknown", []
    return "text", entries


def _end_of_prolog(text: str) -> int:
    """Return where a DOCTYPE or the root element begins. No pattern, because its time could grow without limit."""
    position = 0
    while True:
        white = _SPACE.match(text, position)
        position = white.end() if white else position
        end = "?>" if text.startswith("<?", position) else "-->" if text.startswith("<!--", position) else ""
        closed_at = text.find(end, position + 2) if end else -1
        if closed_at < 0:
            return position
        position = closed_at + len(end)


def _check_declaration(text: str, findings: Findings) -> None:
    declaration = text.lstrip()[:200].split("?>")[0] if text.lstrip().startswith("<?xml") else ""
    if declaration and text[0] != "<":
        findings.note("xml", "white space before the XML declaration")
    encoding = _DECLARED.search(declaration.lower())
    if encoding is not None and encoding[1] not in ("", "utf-8", "utf8", "us-ascii"):
        findings.note("encoding", f"the XML declaration says {encoding[1]!r}, the protocol wants UTF-8")


def _read_xml(content: bytes, findings: Findings) -> tuple[Kind, list[ReadEntry]]:
    from lxml import etree  # noqa: PLC0415

    parser = etree.XMLPullParser(
        events=("end",), tag=[tag for _, tag in _ENTRY_TAGS.values()], encoding="utf-8", resolve_entities=False,
        no_network=True, load_dtd=False, huge_tree=False, remove_comments=True, remove_pis=True,
    )  # fmt: skip
    walk = _Walk(findings)
    try:
        for start in range(0, len(content), _PIECE_BYTE_SIZE):
            parser.feed(content[start : start + _PIECE_BYTE_SIZE])
            if not walk.take(parser.read_events()):
                return walk.kind, walk.entries
        walk.finish(parser.close())
    except etree.XMLSyntaxError as error:
        walk.take(parser.read_events())
        findings.whole = False
        findings.note("xml", f"not well-formed XML: {_reason(content, error.msg)}")
    return walk.kind, walk.entries


def _reason(content: bytes, message: str) -> str:
    """Return the parser's message. There is none for an undefined entity."""
    if message != "no element found":
        return message
    unknown = next((match for match in _ENTITY.finditer(content) if match[1] not in _OWN_ENTITIES), None)
    if unknown is None:
        return message
    line = content.count(b"\n", 0, unknown.start()) + 1
    name = unknown[0].decode()
    return f"line {line}: XML has no entity {name}; write the character itself, or its number (&#160; for &nbsp;)"


def _note(findings: Findings, check: str, element: Any, what: str) -> None:
    findings.note(check, f"line {element.sourceline}: {what}")


class _Walk:
    """Reads entries when they end, and removes them, so a large file is never in memory as a tree."""

    def __init__(self, findings: Findings) -> None:
        self.kind: Kind = "unknown"
        self.entries: list[ReadEntry] = []
        self._tag = ""
        self._findings = findings
        self._parent: Any = None
        self._barren = 0

    def take(self, events: Iterable[tuple[str, Any]]) -> bool:
        """Read the entries that ended. Return False if so many bytes had no entry that reading must stop."""
        self._barren += 1
        for _, entry in events:
            if self._parent is None:
                root = entry.getroottree().getroot()
                self.kind, self._tag = _ENTRY_TAGS.get(str(root.tag), ("unknown", ""))
                if entry.tag == self._tag:
                    self._parent = entry.getparent() if self.kind == "rss" else root
            if entry.tag != self._tag or entry.getparent() is not self._parent:
                self._findings.whole = False
                continue
            self._barren = 0
            self.entries.append(_READERS[self.kind](entry, self._findings))
            if self.kind in ("urlset", "sitemapindex"):
                _check_text(entry.tail, entry, self._findings)
            entry.clear(keep_tail=False)
            self._drop_before(entry)
        if self._barren <= MAX_BARREN_PIECES:
            return True
        self._findings.note("structure", f"{self._barren:,} MiB without the end of an entry: reading stopped")
        self._findings.whole = False
        return False

    def finish(self, root: Any) -> None:
        """Check the root element, and the content after the last entry."""
        expected = _ENTRY_TAGS.get(str(root.tag))
        if expected is None:
            self._findings.note(*_wrong_root(root))
            return
        self.kind, tag = expected
        if self.kind not in ("urlset", "sitemapindex"):
            return
        _check_attributes(root, self._findings)
        _check_text(root.text, root, self._findings)
        for child in root:
            self._check_place(child, tag)

    def _drop_before(self, entry: Any) -> None:
        while (before := entry.getprevious()) is not None:
            if self.kind in ("urlset", "sitemapindex"):
                self._check_place(before, entry.tag)
            self._parent.remove(before)

    def _check_place(self, element: Any, tag: str) -> None:
        if element.tag != tag:
            _note(self._findings, "structure", element, f"<{local_name(element)}> does not belong here")
            self._findings.whole = False
        _check_text(element.tail, element, self._findings)


def _check_text(text: str | None, element: Any, findings: Findings) -> None:
    """Record text between elements. ``element`` contains or precedes it."""
    if text and text.strip():
        _note(findings, "structure", element, f"text between elements: {text.strip()[:60]!r}")


def _check_attributes(element: Any, findings: Findings) -> None:
    """Record attributes that the schema does not have, all of one element as one fault."""
    unknown = [name for name in element.attrib if not name.startswith(_INSTANCE)]
    if unknown:
        more = f" and {len(unknown) - 1:,} more" if len(unknown) > 1 else ""
        what = f"<{local_name(element)}> has an attribute {unknown[0][:60]!r}{more}"
        _note(findings, "structure", element, what)


def _wrong_root(root: Any) -> tuple[str, str]:
    name, tag = local_name(root), str(root.tag)
    namespace = tag[1:].partition("}")[0] if tag.startswith("{") else ""
    if name in {root_tag.rpartition("}")[2] for root_tag in _ENTRY_TAGS}:
        return "namespace", f"<{name}> is of the namespace {namespace!r}, not {NAMESPACE!r}"
    return "root", f"<{name}> is neither urlset nor sitemapindex, nor a feed"


def _read_url(entry: Any, findings: Findings) -> ReadEntry:
    values: list[str | None] = [None] * _OTHERS
    extensions: dict[str, list[dict[str, Any]]] = {}
    latest, line = -1, entry.sourceline
    if entry.attrib:
        _check_attributes(entry, findings)
    _check_text(entry.text, entry, findings)
    for child in entry:
        place = _CORE.get(child.tag, _OTHERS)
        if place != _OTHERS and values[place] is not None:
            _note(findings, "structure", child, f"a second <{local_name(child)}>")
        elif place < latest:
            _note(findings, "element-order", child, f"<{local_name(child)}> is out of the schema's order")
        latest = max(latest, place)
        if child.tail is not None:
            _check_text(child.tail, child, findings)
        if place != _OTHERS:
            if child.attrib:
                _check_attributes(child, findings)
            values[place] = (child.text or "").strip()
            if len(child):
                _note(findings, "structure", child, f"<{local_name(child)}> holds elements")
        elif child.tag in ELEMENT_KINDS:
            extensions.setdefault(ELEMENT_KINDS[child.tag], []).append(read_extension(child))
            for check, what in child_faults(child):
                _note(findings, check, child, f"{what} in <{local_name(child)}>")
        else:
            check = "structure" if str(child.tag).startswith(f"{{{NAMESPACE}}}") else "extension-unknown"
            _note(findings, check, child, f"<{local_name(child)}> is not known")
    if not values[0]:
        findings.note("loc", f"line {line}: no <loc>")
    loc, changed, changefreq, priority = values
    return ReadEntry(
        loc=loc or "", line=line, lastmod=changed, changefreq=changefreq, priority=priority,
        extensions=extensions or _NOTHING,
    )  # fmt: skip


def _read_sitemap(entry: Any, findings: Findings) -> ReadEntry:
    read = _read_url(entry, findings)
    for name in ("changefreq", "priority"):
        if getattr(read, name) is not None:
            findings.note("structure", f"line {read.line}: <{name}> does not belong in <sitemap>")
    return replace(read, changefreq=None, priority=None)


def _read_item(item: Any, findings: Findings) -> ReadEntry:
    loc, written = (item.findtext("link") or "").strip(), (item.findtext("pubDate") or "").strip()
    if not loc:
        _note(findings, "loc", item, "an <item> without <link>")
    try:
        date = parsedate_to_datetime(written) if written else None
        moment = lastmod.render(date if date.tzinfo else date.replace(tzinfo=lastmod.UTC)) if date else None
    except (ValueError, TypeError, OverflowError):
        _note(findings, "lastmod-format", item, f"pubDate {written[:60]!r} is not RFC 822")
        moment = None
    return ReadEntry(loc=loc, line=item.sourceline, lastmod=moment)


def _read_atom_entry(entry: Any, findings: Findings) -> ReadEntry:
    links = [
        link for link in entry.iterchildren(f"{{{ATOM_NAMESPACE}}}link") if link.get("rel", "alternate") == "alternate"
    ]
    loc = (links[0].get("href") or "").strip() if links else ""
    if not loc:
        _note(findings, "loc", entry, "an <entry> without a link")
    updated = (entry.findtext(f"{{{ATOM_NAMESPACE}}}updated") or "").strip()
    if not updated:
        _note(findings, "structure", entry, "an <entry> without <updated>")
    return ReadEntry(loc=loc, line=entry.sourceline, lastmod=updated or None)


_READERS: Final = {"urlset": _read_url, "sitemapindex": _read_sitemap, "rss": _read_item, "atom": _read_atom_entry}
