"""``loc``: one URL, read as people and content systems write it, and written in the form of RFC 3986.

docs/decisions/url-policy.md lists what is repaired, what is refused, and why. This module handles one URL at a time;
``columnar.loc`` recognises the clean rows of a column and sends only the others here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from html.entities import html5
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

import idna

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.protocol.rules import Rulebook, Verdict

if TYPE_CHECKING:
    from airflow_sitemaps.protocol import RowContext

MAX_LOC_CHARACTERS: Final = 2_047
"""A ``loc`` has fewer than 2,048 characters (sitemaps.org/protocol.html, "loc")."""

LONGEST_CLEAN: Final = MAX_LOC_CHARACTERS
"""Number of characters of the longest URL that is clean in every form. A rule about shorter URLs lowers it."""

CLEAN: Final = re.compile(
    r"https?://(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.){1,5}[a-z]{2,24}/"
    r"(?:[A-Za-z0-9._~!$&'()*+,=:@/?-]|%(?![Ee][Ff]%[Bb][Ff]%[Bb][Dd])[0-9A-Fa-f]{2})*"
)
"""A URL that breaks no rule of URLs, except by its length. Of the characters that XML escapes, it contains only ``&`` and ``'``."""

UNRESERVED: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
"""Characters that never need encoding (RFC 3986, 2.3)."""

PLAIN: Final = UNRESERVED + "!$&'()*+,;=:@/?"
"""Characters that a path, query or fragment may hold unencoded (RFC 3986, 3.3 to 3.5)."""

WHITE: Final = " \t\r\n\u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff\u180e\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069"
"""Characters that are removed at both ends: white space, and the invisible characters that are copied along with a URL."""

_LONGEST_HOST: Final = 1_000
"""Number of characters above which a host is not parsed. In ASCII form it has at most 253 (RFC 1035)."""

_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}
_ENTITY: Final = re.compile(r"&(?:#([0-9]{1,7})|#[xX]([0-9A-Fa-f]{1,6})|([A-Za-z][A-Za-z0-9]{1,31}));")
_LONGEST_ENTITY: Final = 34
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_REPLACEMENT: Final = re.compile("\ufffd|%[Ee][Ff]%[Bb][Ff]%[Bb][Dd]")
_FORBIDDEN: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_AUTHORITY: Final = re.compile(r"//([^/?#]*)")
_TO_ENCODE: Final = re.compile(f"%(?![0-9A-Fa-f]{{2}})|[^{re.escape(PLAIN)}%]+")
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_DIGITS: Final = re.compile(r"[0-9]*")


@dataclass(frozen=True, slots=True)
class Reading:
    """The normal form of a URL, or None if it cannot be repaired; and the rules that it breaks, the reason for None last."""

    loc: str | None
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scope:
    """The URLs that a file may list: its folder, in normal form, and the origins (scheme, host, port) that it may name."""

    origin: str
    folder: str
    origins: frozenset[str]


def is_clean(raw: str) -> bool:
    """Return whether a URL certainly is in normal form and breaks no rule. If not, only ``normalise`` can decide."""
    return CLEAN.fullmatch(raw) is not None and len(raw) <= LONGEST_CLEAN


class _RefusedError(Exception):
    """Ends ``normalise`` early. Its text is the name of the broken rule."""


def normalise(raw: str, *, origin: str, keep_entities: bool = False) -> Reading:
    """Return the normal form of one URL. The normal form of a normal form is the same.

    Percent-encoded characters are not encoded again. Dot segments, double slashes and fragments are kept. ``origin``
    (``https://host``) completes a root-relative URL.
    """
    faults: list[str] = []
    try:
        return Reading(_normalise(raw, origin, keep_entities, faults), tuple(dict.fromkeys(faults)))
    except _RefusedError as refused:
        return Reading(None, (*dict.fromkeys(faults), str(refused)))


def _normalise(raw: str, origin: str, keep_entities: bool, faults: list[str]) -> str:
    text = raw
    if "&" in text and ";" in text:
        text = resolve_entities(raw)
        if text != raw:
            faults.append("loc-entity")
            text = raw if keep_entities else text
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    stripped = text.strip(WHITE)
    if not stripped:
        raise _RefusedError("loc-missing")
    if _FORBIDDEN.search(stripped):
        raise _RefusedError("loc-characters")
    if _REPLACEMENT.search(stripped):
        faults.append("loc-replacement-character")
    scheme = _SCHEME.match(stripped)
    if scheme is not None:
        result, encoded = _absolute(scheme[1].lower(), stripped[scheme.end() :])
    elif stripped.startswith("/") and not stripped.startswith("//"):
        faults.append("loc-relative")
        tail = _encode(stripped)
        result, encoded = origin + tail, tail != stripped
    else:
        raise _RefusedError("loc-relative")
    if encoded or len(stripped) != len(text):
        faults.append("loc-encoding")
    if len(result) > MAX_LOC_CHARACTERS:
        raise _RefusedError("loc-too-long")
    return result


def resolve_entities(text: str) -> str:
    """Resolve HTML entities, also those that resolve to parts of entities (``&amp;amp;``).

    Only entities that end in a semicolon and have a known name or number are resolved, so ``?a=1&copy=2`` does not change.
    The result contains no entity. The time grows linearly with the text: for each semicolon, only the few resolved
    characters before it are searched.
    """
    if not _ENTITY.search(text):
        return text
    first, *rest = text.split(";")
    resolved = list(first)
    for part in rest:
        _close_entity(resolved)
        resolved.extend(part)
    return "".join(resolved)


def _close_entity(resolved: list[str]) -> None:
    """Append a semicolon. If it completes an entity, replace the entity. The result may complete another one in turn."""
    pending = ";"
    while pending:
        if pending[0] != ";":
            resolved.append(pending[0])
            pending = pending[1:]
            continue
        tail = "".join(resolved[-_LONGEST_ENTITY:])
        start = tail.rfind("&")
        match = _ENTITY.fullmatch(tail[start:] + ";") if start >= 0 else None
        value = None if match is None else _resolve(match)
        if value is None:
            resolved.append(";")
            pending = pending[1:]
        else:
            del resolved[start - len(tail) :]
            pending = value + pending[1:]


def _resolve(match: re.Match[str]) -> str | None:
    """Return the text of an entity, or None if there is no such entity."""
    decimal, hexadecimal, name = match.groups()
    if name is not None:
        return html5.get(name + ";")
    point = int(decimal) if decimal is not None else int(hexadecimal, 16)
    return chr(point) if point <= 0x10FFFF else None


def _encode(text: str) -> str:
    """Return path, query and fragment, with all characters percent-encoded that RFC 3986 does not allow there."""
    path_and_query, mark, fragment = text.partition("#")
    parts = (_TO_ENCODE.sub(lambda match: quote(match[0], safe=""), part) for part in (path_and_query, fragment))
    return mark.join(parts)


def _absolute(scheme: str, rest: str) -> tuple[str, bool]:
    """Return an absolute URL from its lower-case scheme and the text after the colon, and whether anything was encoded."""
    if scheme not in _DEFAULT_PORTS:
        raise _RefusedError("loc-scheme")
    authority = _AUTHORITY.match(rest)
    if authority is None:
        raise _RefusedError("loc-host")
    host, port = _split_authority(authority[1])
    if len(host) > _LONGEST_HOST:
        raise _RefusedError("loc-host")
    ascii_host = normal_host(host)
    tail = rest[authority.end() :]
    encoded = _encode(tail)
    slash = "" if encoded.startswith("/") else "/"
    at = "" if port in ("", _DEFAULT_PORTS[scheme]) else ":" + port
    return f"{scheme}://{ascii_host}{at}{slash}{encoded}", encoded != tail or ascii_host != host.lower()


def _split_authority(authority: str) -> tuple[str, str]:
    """Return host and port (digits without leading zeros, or empty). Credentials are refused: a sitemap is public."""
    if "@" in authority:
        raise _RefusedError("loc-host")
    if authority.startswith("["):
        host, bracket, port = authority.partition("]")
        host += bracket
        if port and not port.startswith(":"):
            raise _RefusedError("loc-host")
        port = port[1:]
    else:
        host, _, port = authority.partition(":")
    if not port:
        return host, ""
    if not _DIGITS.fullmatch(port) or len(port) > 10 or not 1 <= int(port) <= 65_535:
        raise _RefusedError("loc-port")
    return host, str(int(port))


@lru_cache(maxsize=1_024)
def normal_host(host: str) -> str:
    """Return a host in ASCII form: lower case, punycode (UTS 46), with IPv4 and IPv6 addresses checked."""
    try:
        if host.startswith("["):
            if not host.endswith("]") or "%" in host:
                raise _RefusedError("loc-host")
            return f"[{IPv6Address(host[1:-1])}]"
        name = unquote(host, errors="strict") if "%" in host else host
        name = name.lower() if name.isascii() else idna.encode(name, uts46=True).decode("ascii")
        labels = name.removesuffix(".").split(".")
        if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
            raise _RefusedError("loc-host")
        if _DIGITS.fullmatch(labels[-1]):
            IPv4Address(name)
    except (AddressValueError, UnicodeError) as error:
        raise _RefusedError("loc-host") from error
    return name


# ---------------------------------------------------------------- scope


@lru_cache(maxsize=256)
def scope_of(base_url: str, cross_submit: tuple[str, ...], where: str = "") -> Scope:
    """Return the scope of a folder and of further hosts or origins, or raise ConfigurationError if one is neither."""
    base = normalise(base_url, origin="")
    if base.loc is None or "loc-relative" in base.faults:
        raise ConfigurationError(f"{where}base_url {base_url!r}: give an absolute http(s) address that ends in '/'")
    if base.faults:
        raise ConfigurationError(
            f"{where}base_url {base_url!r} is not in the form that a sitemap lists; write it as {base.loc!r}"
        )
    origins: set[str] = {origin_of(base.loc)}
    for given in cross_submit:
        candidates = (given,) if "://" in given else (f"http://{given}", f"https://{given}")
        for candidate in candidates:
            reading = normalise(candidate, origin="")
            if reading.loc is None:
                raise ConfigurationError(
                    f"cross_submit {given!r}: give a host ('www.example.com') or an origin ('https://example.com:8443')"
                )
            origins.add(origin_of(reading.loc))
    return Scope(origin=origin_of(base.loc), folder=base.loc, origins=frozenset(origins))


def origin_of(loc: str) -> str:
    """Return scheme, host and port of a URL in normal form, such as ``https://example.com:8443``."""
    return loc[: loc.index("/", loc.index("://") + 3)]


def scope_fault(loc: str, scope: Scope) -> str | None:
    """Return ``scope-host`` or ``scope-path`` if a URL in normal form is outside the scope, else None."""
    origin = origin_of(loc)
    if origin not in scope.origins:
        return "scope-host"
    return "scope-path" if origin == scope.origin and not loc.startswith(scope.folder) else None


def written_form(url: str, base_url: str) -> str | None:
    """Return a URL of the user's settings as files list it, or None. The origin of ``base_url`` completes ``/path``."""
    return normalise(url, origin=scope_of(base_url, ()).origin).loc


# ---------------------------------------------------------------- verdicts


def read_loc(raw: str | None, context: RowContext) -> Reading:
    """Normalise one URL, and name every rule that it breaks, including the scope rules."""
    if raw is None:
        return Reading(None, ("loc-missing",))
    scope = scope_of(context.base_url, context.cross_submit)
    keep_entities = context.rulebook["loc-entity"] is Verdict.KEEP
    reading = normalise(raw, origin=scope.origin, keep_entities=keep_entities)
    if reading.loc is None:
        return reading
    fault = scope_fault(reading.loc, scope)
    faults = reading.faults if fault is None else (*reading.faults, fault)
    if context.template.startswith("/") and context.rulebook["loc-relative"] is Verdict.REPAIR:  # it is to be completed
        faults = tuple(rule for rule in faults if rule != "loc-relative")
    return Reading(reading.loc, faults)


def settle(reading: Reading, rulebook: Rulebook) -> tuple[str | None, tuple[tuple[str, Verdict], ...]]:
    """Return the URL to write, or None if the row is dropped; and each broken rule to count, with its verdict.

    A URL that cannot be repaired is dropped, unless its rule is set to ``fail``. For a dropped row, only the rule that
    dropped it is counted.
    """
    if reading.loc is None:
        rule = reading.faults[-1]
        return None, ((rule, Verdict.FAIL if rulebook[rule] is Verdict.FAIL else Verdict.DROP_ROW),)
    verdicts = tuple((rule, rulebook[rule]) for rule in reading.faults)
    for rule, verdict in verdicts:
        if verdict in (Verdict.DROP_ROW, Verdict.FAIL):
            return None, ((rule, verdict),)
    return reading.loc, verdicts
