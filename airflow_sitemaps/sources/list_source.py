"""``ListSource``: pages without a table, as a list in the DAG file or in a CSV or YAML file beside it."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.ports import SourceConfig
from airflow_sitemaps.sources.user_texts import callers_folder, file_text, is_absent_or_text, is_zone

if TYPE_CHECKING:
    from airflow_sitemaps.sources.memory_source import ListSession

FIELDS: Final = ("lastmod", "changefreq", "priority")
MAX_ENTRIES: Final = 50_000
"""The largest number of entries. Put a longer list into a table: Airflow reads the list whenever it parses the DAG."""
SUFFIXES: Final = (".csv", ".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Entry:
    """One page of a list.

    Attributes:
        loc: Its URL, absolute or beginning with ``/``. It is the key of the list, compared by code points.
        lastmod: The time of its last change, in ISO 8601. Default: None.
        changefreq: How often it changes, as one of the protocol's words. Default: None.
        priority: Its priority from 0.0 to 1.0, as text. Default: None.
    """

    loc: str
    lastmod: str | None = None
    changefreq: str | None = None
    priority: str | None = None


@dataclass(frozen=True, slots=True)
class ListSource(SourceConfig):
    """Pages that no table holds, such as ``/``, ``/about`` and ``/contact``.

    Attributes:
        pages: URLs, or mappings with ``loc`` and optionally ``lastmod``, ``changefreq``, ``priority``. Give this or
            ``file``. Default: empty.
        file: A CSV file with a header line, or a YAML file with a list. A relative path is searched for beside the file
            that makes the source, in the working directory, and in the DAG folder. Default: None.
        timezone: The IANA name of the time zone of times that have none. Default: ``UTC``.
        entries: The pages as checked entries. Derived; not an argument.

    Raises:
        SourceConfigurationError: The list is empty, too long or names a URL twice, the file cannot be read, or an entry
            has no URL or an unknown field. The message says which entry.
    """

    pages: Sequence[str | Mapping[str, Any]] = ()
    file: str | None = field(default=None, kw_only=True)
    timezone: str = field(default="UTC", kw_only=True)
    entries: tuple[Entry, ...] = field(default=(), init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the arguments, and read the file if there is one."""
        if (
            bool(self.pages) == (self.file is not None)
            or isinstance(self.pages, str)
            or not isinstance(self.pages, (Iterable, type(None)))
            or not is_absent_or_text(self.file)
        ):
            raise SourceConfigurationError(
                "ListSource: give either a list of pages, like ListSource(['/', '/about']), or file='pages.csv'"
            )
        if not is_zone(self.timezone):
            raise SourceConfigurationError(
                f"ListSource(timezone={self.timezone!r}): give an IANA name, like 'Europe/Berlin'"
            )
        where = "ListSource" if self.file is None else f"ListSource(file={self.file!r})"
        pages = list(self.pages) if self.file is None else _read(self.file, where)
        object.__setattr__(self, "entries", _checked(pages, where))

    @property
    def is_dated(self) -> bool:
        """Whether an entry has a date, or may have one without a change of the DAG: its file is edited elsewhere."""
        return self.file is not None or any(entry.lastmod for entry in self.entries)

    @contextmanager
    def open(self, *, section: str) -> Iterator[ListSession]:
        """Yield the list, sorted by URL."""
        from airflow_sitemaps.sources.memory_source import ListSession, MemorySourceConfig  # noqa: PLC0415 - pyarrow is heavy

        rows = [asdict(entry) for entry in self.entries]
        columns = MemorySourceConfig(
            rows, key="loc", lastmod="lastmod", changefreq="changefreq", priority="priority", timezone=self.timezone
        )
        yield ListSession(columns, section)

    def identity(self) -> Mapping[str, object]:
        """Return what the rendered shards depend on besides the rows."""
        return {"source": "list", "timezone": self.timezone}

    def describe(self) -> str:
        """Return the file, or the number of pages, for logs."""
        return f"list: {self.file or f'{len(self.entries):,} pages'}"


def _checked(pages: Sequence[object], where: str) -> tuple[Entry, ...]:
    if not pages:
        raise SourceConfigurationError(f"{where}: the list is empty; give at least one page")
    if len(pages) > MAX_ENTRIES:
        raise SourceConfigurationError(
            f"{where}: {len(pages):,} entries; the limit is {MAX_ENTRIES:,}. Put a longer list into a table, and read it "
            "with SqlSource"
        )
    entries = tuple(_entry(page, f"{where}, entry {number}") for number, page in enumerate(pages, start=1))
    twice = [loc for loc, count in Counter(entry.loc for entry in entries).items() if count > 1]
    if twice:
        raise SourceConfigurationError(f"{where}: listed more than once: {', '.join(twice[:5])}")
    return entries


def _entry(page: object, where: str) -> Entry:
    values = {"loc": page} if isinstance(page, str) else page
    if not isinstance(values, Mapping):
        raise SourceConfigurationError(f"{where}: {page!r} is neither a URL nor a mapping with 'loc'")
    if unknown := sorted(str(name) for name in set(values) - {"loc", *FIELDS}):
        raise SourceConfigurationError(
            f"{where}: unknown field {', '.join(unknown)}; the fields are loc, {', '.join(FIELDS)}"
        )
    loc = values.get("loc")
    if not isinstance(loc, str) or not loc.startswith(("/", "http://", "https://")) or loc != loc.strip():
        raise SourceConfigurationError(
            f"{where}: loc={loc!r}: give a URL that begins with '/', 'https://' or 'http://'"
        )
    try:
        return Entry(_whole(loc), **{name: _text(values.get(name)) for name in FIELDS})
    except UnicodeError as error:
        raise SourceConfigurationError(f"{where}: a text holds half of a surrogate pair: {error}") from None


def _text(value: object) -> str | None:
    """Return a value as text, or None if it is missing. CSV writes a missing value as an empty text."""
    if value is None or value == "":
        return None
    return value.isoformat() if isinstance(value, date) else _whole(str(value))


def _whole(text: str) -> str:
    """Join surrogate pairs, which YAML keeps apart where JSON's escapes write a character beyond the first 65,536."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16")


def _read(file: str, where: str) -> list[object]:
    if not file.endswith(SUFFIXES):
        raise SourceConfigurationError(f"{where}: the name ends in none of {', '.join(SUFFIXES)}")
    text = file_text(file, callers_folder(), where)
    return _of_csv(text, where) if file.endswith(".csv") else _of_yaml(text, where)


def _of_csv(text: str, where: str) -> list[object]:
    reader = csv.DictReader(io.StringIO(text), strict=True)
    try:
        rows = list(reader)
    except csv.Error as error:
        raise SourceConfigurationError(f"{where}: this is not CSV: {error}") from None
    if twice := [name for name, count in Counter(reader.fieldnames).items() if count > 1]:
        raise SourceConfigurationError(
            f"{where}: the header line names {twice[0]!r} more than once; name each column once"
        )
    for number, row in enumerate(rows, start=1):
        if None in row:
            raise SourceConfigurationError(
                f"{where}, entry {number}: it has more fields than the header line; quote values that contain a comma"
            )
    return list(rows)


def _of_yaml(text: str, where: str) -> list[object]:
    import yaml  # noqa: PLC0415

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        def compose_mapping_node(self, anchor: Any) -> Any:
            node = super().compose_mapping_node(anchor)
            names = Counter(key.value for key, _ in node.value if key.tag == "tag:yaml.org,2002:str")
            if twice := [name for name, count in names.items() if count > 1]:  # PyYAML keeps the last value
                raise yaml.MarkedYAMLError(f"{twice[0]!r} is named twice; name it once", node.start_mark)
            return node

    try:
        pages = yaml.load(text, Loader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # a ValueError is of a date, such as 2026-02-30
        raise SourceConfigurationError(f"{where}: this is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(pages, list):
        raise SourceConfigurationError(f"{where}: give a list of URLs, or of mappings with 'loc'")
    return pages
