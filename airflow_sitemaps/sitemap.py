"""Declaration of a sitemap: its sections, its store and their settings. This module does no I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from airflow_sitemaps import setting_checks
from airflow_sitemaps.errors import ConfigurationError, TemplateError
from airflow_sitemaps.protocol import PROFILES, Limits
from airflow_sitemaps.protocol.loc import origin_of, scope_of, written_form
from airflow_sitemaps.protocol.markup import STYLESHEET_NAME as STYLESHEET
from airflow_sitemaps.protocol.rules import RULES, Rulebook, Verdict, rulebook_of
from airflow_sitemaps.shards import layout
from airflow_sitemaps.shards.guards import Guards
from airflow_sitemaps.shards.layout import ShardPolicy

if TYPE_CHECKING:
    from airflow_sitemaps.ports import SourceConfig, StoreConfig
    from airflow_sitemaps.shards import Member

SECTION_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
COLUMN: Final = re.compile(r"""[A-Za-z_]\w*|"(?:[^"]|"")+"|`[^`]+`""", re.ASCII)
REST: Final = "other"  # the last part of the name of the section of all other values of a Section.each
PATH: Final = re.compile(r"(?:[A-Za-z0-9_~-][A-Za-z0-9._~-]*/)*")

DEFAULT_WINDOW: Final = timedelta(days=3)
"""Age up to which feeds list an entry if the sitemap sets no ``recent``."""

NEWS_URLS: Final = 1_000
"""Maximum number of entries in one news sitemap (developers.google.com, news sitemaps)."""

SectionFailurePolicy = Literal["publish_others", "fail_all"]
IndexMode = Literal["one", "per_section"]
ChangeDetection = Literal["digest", "watermark", "full"]
"""How a run finds changes: by a digest of every range, by a lastmod watermark, or by reading every row."""

CHANGE_DETECTION: Final = ("digest", "watermark", "full")


@dataclass(frozen=True, slots=True)
class Split:
    """How a run makes sections of the rows of ``source`` (default: the section's own) by a column: see ``Section.each``."""

    column: str
    least: int
    source: Any = None


@dataclass(frozen=True, slots=True)
class Section:
    """One source within a sitemap, such as products or articles.

    Attributes:
        name: Name of the section and part of its file names: up to 64 lower-case letters, digits, ``_`` and ``-``.
        source: Source of its rows, such as a ``SqlSource``.
        path: Folder of its files below the sitemap's folder, ending in ``/``. Default: the sitemap's folder.
        base_url: Address at which that folder is served. Default: the sitemap's address and ``path``.
        shards: Sizes of its files. Default: the sitemap's setting.
        guards: Limits of a run without a confirmation. Default: the sitemap's setting.
        rules: Verdicts by rule; they override the sitemap's. Default: the sitemap's setting.
        change_detection: How a run finds changes. Default: the sitemap's setting.
        limits: Limits of its files: ``current`` or ``original``. Default: the sitemap's setting.
        kind: ``pages`` (default), or ``news`` for articles of the last two days, at most 1,000 per file.
        format: ``xml`` (default), or ``text`` for one URL per line.
        ledger: Whether to record when each URL was listed first and changed last. Default: False; True if the source
            names the columns that make the page.
        split: Set by ``each``.
        member: Set by a run, in the sections that it makes by a ``split``.

    Raises:
        ConfigurationError: A name, path or setting is invalid.
    """

    name: str
    source: SourceConfig
    path: str = field(default="", kw_only=True)
    base_url: str | None = field(default=None, kw_only=True)
    shards: ShardPolicy | None = field(default=None, kw_only=True)
    guards: Guards | None = field(default=None, kw_only=True)
    rules: Mapping[str, str] | None = field(default=None, kw_only=True)
    change_detection: ChangeDetection | None = field(default=None, kw_only=True)
    limits: Literal["current", "original"] | None = field(default=None, kw_only=True)
    kind: Literal["pages", "news"] = field(default="pages", kw_only=True)
    format: Literal["xml", "text"] = field(default="xml", kw_only=True)
    ledger: bool = field(default=False, kw_only=True)
    split: Split | None = field(default=None, kw_only=True, repr=False)
    member: Member | None = field(default=None, kw_only=True, repr=False)

    @classmethod
    def each(cls, column: str, source: SourceConfig, *, name: str, least: int = 1_000, **settings: Any) -> Section:
        """Return sections that runs make of the values of a column, such as ``products-de`` of the value ``de``.

        A value gets a section when a run of the whole family finds ``least`` rows with it. Other rows are in the section
        ``products-other``: those of smaller values, NULL, and values that give no name of their own. A section stays, whatever
        its rows, until it is published without a URL, which needs a permit. The next run removes it.

        Args:
            column: A column of texts, whole numbers or booleans, written as in ``where=``.
            source: ``SqlSource`` of all rows, without ``group``, ``materialize`` and ``change_log``.
            name: The beginning of the sections' names.
            least: Fewest rows for which a value gets a section. Default: 1,000.
            settings: The other arguments of ``Section``, for each of the sections.

        Raises:
            ConfigurationError: An argument is invalid.
        """
        where = f"Section.each({column!r}, name={name!r})"
        if not isinstance(column, str) or not COLUMN.fullmatch(column):
            raise ConfigurationError(f"{where}: give a column's name, in the database's quotes if where= needs them")
        if not hasattr(source, "part"):
            raise ConfigurationError(f"{where}: source= is a {type(source).__name__}; give a SqlSource")
        if given := [
            each for each in ("group", "materialize", "change_log") if getattr(source, each, None) is not None
        ]:
            raise ConfigurationError(f"{where} cannot be used with {given[0]}=. Write its sections in a loop")
        if not isinstance(name, str) or not SECTION_NAME.fullmatch(f"{name}-{REST}"):
            raise ConfigurationError(f"{where}: '{name}-{REST}' is the name of a section too: {SECTION_NAME.pattern}")
        setting_checks.whole_number(where, "least", least, 1)
        return cls(name, source, split=Split(column, least), **settings)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not SECTION_NAME.fullmatch(self.name):
            raise ConfigurationError(f"Section({self.name!r}): a section's name matches {SECTION_NAME.pattern}")
        where = f"Section({self.name!r})"
        # A class is no source, and a path has open() as well.
        if isinstance(self.source, type) or not (hasattr(self.source, "open") and hasattr(self.source, "identity")):
            raise ConfigurationError(
                f"{where}: source= is a {type(self.source).__name__}; give a source, like SqlSource(…) or ListSource([…])"
            )
        if self.path != "":
            valid = "a relative folder that ends in '/', like 'de/'"
            setting_checks.text(where, "path", self.path, PATH, valid)
        if self.base_url is not None:
            folder = layout.checked_base_url(self.base_url, where=where)
            scope_of(folder, (), f"{where}: ")
            object.__setattr__(self, "base_url", folder)
        setting_checks.one_of(where, "kind", self.kind, ("pages", "news"))
        setting_checks.one_of(where, "format", self.format, ("xml", "text"))
        setting_checks.flag(where, "ledger", self.ledger)
        if self.kind == "news" and self.format == "text":
            raise ConfigurationError(
                f"{where}: kind='news' needs format='xml': a text sitemap holds no publication dates (Google, news sitemaps)"
            )
        if (self.observed and self.kind == "news") or (self.page_columns and self.format == "text"):
            other = "kind='news'" if self.kind == "news" else "format='text'"
            reason = "articles expire by the date of a column" if self.kind == "news" else "a text sitemap has no dates"
            raise ConfigurationError(
                f"{where}: {self.page_argument} cannot be used with {other}: {reason}. Omit one of the two"
            )
        if self.page_columns:
            object.__setattr__(self, "ledger", True)
        setting_checks.one_of(where, "limits", self.limits, (None, *PROFILES))
        setting_checks.one_of(where, "change_detection", self.change_detection, (None, *CHANGE_DETECTION))
        for name, kind in (("shards", ShardPolicy), ("guards", Guards), ("rules", Mapping)):
            if getattr(self, name) is not None:
                setting_checks.instance(where, name, getattr(self, name), kind)
        rulebook_of(self.rules)

    @property
    def family(self) -> str:
        """The name of the ``Section.each`` of which a run makes it, or its own."""
        return self.name if self.member is None else self.member.family

    def has_name(self, name: str | None) -> bool:
        """Return whether it has a name, or may make a section with it by ``each``."""
        return name == self.name or (self.split is not None and str(name).startswith(f"{self.family}-"))

    @property
    def observed(self) -> Sequence[str]:
        """The columns whose changes date its entries; empty if their dates are those of a column."""
        # A user's own source may lack the attribute.
        return cast("Sequence[str]", getattr(self.source, "observed", ()))

    @property
    def page_columns(self) -> Sequence[str]:
        """The columns that make its pages, with which its dates are compared if they are not observed."""
        return cast("Sequence[str]", getattr(self.source, "page_columns", self.observed))

    @property
    def page_argument(self) -> str:
        """The argument of the source that names these columns."""
        return "lastmod=Observed(…)" if self.observed else "page=[…]"


@dataclass(frozen=True, slots=True)
class Sitemap:
    """A sitemap: its sections, the store it is published to, and the defaults of its sections.

    Attributes:
        store: Destination of the files, such as an ``S3Store``.
        sections: The sections, in the order in which the index lists them.
        shards: Sizes of files. Default: up to 50,000 URLs each.
        guards: Limits of a run without a confirmation. Default: ``Guards()``.
        rules: Verdicts by rule; they override the default verdicts. Default: none.
        change_detection: How a run finds changes: ``digest`` (default), ``watermark`` or ``full``.
        limits: Limits of a file and of an index: ``current`` (default) or ``original``.
        recent: Age up to which entries are also listed in a small file of their own. Default: no such file.
        gone: How long the URLs of rows that left the source are listed in a file of their own, dated with their removal.
            Every section then has a ledger. Default: no such file.
        feeds: Feeds of recent entries: ``atom``, ``rss``, ``mrss``. Default: none.
        index: ``one`` index for all sections (default), or one ``per_section``.
        stylesheet: Whether to write a stylesheet with which browsers show the index as a table. Default: False.
        cross_submit: Addresses of other hosts whose URLs may be listed, as their robots.txt proves. Default: none.
        retired: Names of sections that were removed on purpose. Default: none.
        compression: ``fast`` (default) or ``small``.
        on_section_failure: Treatment of the other sections when a guard refuses a section or its source fails:
            ``publish_others`` (default) publishes them and then fails the run; ``fail_all`` publishes nothing.
        watermark_lag: How far before the last run ``change_detection="watermark"`` looks for newer lastmods. Set it to
            the duration of the longest transaction that writes rows. Default: 15 minutes.
        table_versions: How long a table that has not changed is not surveyed, where the database keeps an exact version
            of it and ``change_detection`` is ``digest``. None: every run surveys. Default: 1 day.
        must_list: URLs that the sitemap must always list, such as the home page, absolute or beginning with ``/``. A run
            that omits one is refused. Default: none.
        owner: Name that distinguishes this pipeline from another one that publishes to the same address. Default: "".
        history: Number of generations kept, the current one included, at least 1. Default: 20.
        grace: How long a file that the index no longer lists stays readable. Default: 2 days.
        freshness: Maximum age of the newest published data. The pages in Airflow's UI report a failure beyond it.
            Default: derived from the DAG's schedule, and reported as a warning.

    Raises:
        ConfigurationError: A setting is invalid, or file names could collide.
    """

    store: StoreConfig
    sections: Sequence[Section]
    shards: ShardPolicy = field(default=ShardPolicy(), kw_only=True)
    guards: Guards = field(default=Guards(), kw_only=True)
    rules: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    change_detection: ChangeDetection = field(default="digest", kw_only=True)
    limits: Literal["current", "original"] = field(default="current", kw_only=True)
    recent: timedelta | None = field(default=None, kw_only=True)
    gone: timedelta | None = field(default=None, kw_only=True)
    feeds: Sequence[Literal["atom", "rss", "mrss"]] = field(default=(), kw_only=True)
    index: IndexMode = field(default="one", kw_only=True)
    stylesheet: bool = field(default=False, kw_only=True)
    cross_submit: Sequence[str] = field(default=(), kw_only=True)
    retired: Sequence[str] = field(default=(), kw_only=True)
    compression: Literal["fast", "small"] = field(default="fast", kw_only=True)
    on_section_failure: SectionFailurePolicy = field(default="publish_others", kw_only=True)
    watermark_lag: timedelta = field(default=timedelta(minutes=15), kw_only=True)
    table_versions: timedelta | None = field(default=timedelta(days=1), kw_only=True)
    must_list: Sequence[str] = field(default=(), kw_only=True)
    owner: str = field(default="", kw_only=True)
    history: int = field(default=20, kw_only=True)
    grace: timedelta = field(default=timedelta(days=2), kw_only=True)
    freshness: timedelta | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self._check_settings()
        if self.gone is not None:
            with_ledger = tuple(s if s.ledger else replace(s, ledger=True) for s in self.sections)
            object.__setattr__(self, "sections", with_ledger)
        names = [section.name for section in self.sections]
        if not names:
            raise ConfigurationError("Sitemap(sections=[]): give at least one Section")
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigurationError(f"Sitemap: duplicate section names: {', '.join(repeated)}; names are unique")
        if both := sorted({s.name for s in self.sections if s.split is None or s.member} & {*self.retired}):
            raise ConfigurationError(
                f"Sitemap: {', '.join(both)} in both sections and retired; list each name in only one of them"
            )
        origins = {o for s in self.sections for o in scope_of(self.base_url_of(s), tuple(self.cross_submit)).origins}
        keeps = [s.name for s in self.sections if self.rulebook(s)["scope-host"] is Verdict.KEEP]
        if not keeps and (wrong := [url for url in self.must_urls if origin_of(url) not in origins]):
            raise ConfigurationError(
                f"Sitemap: must_list={wrong!r}: no section may list that scheme and host. Correct it, or name the host in cross_submit="
            )
        sources = [s.source for s in self.sections if s.format == "xml"]
        dated = (getattr(s, "lastmod", "") is not None and getattr(s, "is_dated", True) for s in sources)
        if (self.recent is not None or self.feeds) and not any(dated):
            raise ConfigurationError(
                "Sitemap: recent= and feeds= list pages by their dates, and no section with format='xml' has any: give one of their "
                "sources lastmod=, or omit both"
            )
        for section in self.sections:
            self._check_detection(section)
            self._check_page(section)
            self._check_waits(section)
        problem = layout.collision(
            self.store.index_name,
            self.index,
            sections={section.name: (section.path, section.format) for section in self.sections},
            extras=self.extra_names,
            has_recent=self.recent is not None or self.gone is not None,
        )
        if problem:
            raise ConfigurationError(f"Sitemap: {problem}")

    def _check_detection(self, section: Section) -> None:
        how = self.change_detection_of(section)
        where = f"Section({section.name!r}): change_detection={how!r}"
        if how != "digest" and self.change_log_interval_of(section) is not None:
            raise ConfigurationError(
                f"{where} cannot be used with change_log=, which names the ranges to digest. Omit one of the two"
            )
        if how == "watermark" and getattr(section.source, "lastmod", "") is None:
            raise ConfigurationError(f"{where} needs a column of dates: give its source lastmod=, or use 'digest'")

    def _check_page(self, section: Section) -> None:
        if not section.page_columns:
            return
        where = f"Section({section.name!r}): {section.page_argument} cannot be used with"
        if self.change_detection_of(section) == "watermark":
            raise ConfigurationError(
                f"{where} change_detection='watermark', which finds changes by a column of dates. Give 'digest' or 'full'"
            )
        if self.rulebook(section)["loc-duplicate"] is Verdict.KEEP:
            raise ConfigurationError(
                f"{where} rules={{'loc-duplicate': 'keep'}}: rows of one URL could give it two dates. Give 'drop_row' or 'fail'"
            )

    def _check_waits(self, section: Section) -> None:
        if self.shards_of(section).rewrite_after is None:
            return
        rules = ("changefreq", "priority", *(rule for rule in RULES if rule.startswith("lastmod-")))
        verdicts = {rule: self.rulebook(section)[rule] for rule in rules}
        others = ["kind='news'"] * (section.kind == "news") + ["observed dates"] * bool(section.observed)
        others += [
            f"the rule {r!r} set to {v.value!r}" for r, v in verdicts.items() if v in (Verdict.DROP_ROW, Verdict.FAIL)
        ]
        if others:
            raise ConfigurationError(
                f"Section({section.name!r}): ShardPolicy(rewrite_after=…) cannot be used with {others[0]}: only changes of lastmod, "
                "changefreq and priority wait, and here they list a URL, remove one or depend on the run. Omit one of the two"
            )

    def _check_settings(self) -> None:
        where = "Sitemap"
        if isinstance(self.store, type) or not (hasattr(self.store, "open") and hasattr(self.store, "base_url")):
            raise ConfigurationError(f"{where}: store={self.store!r}; give a store, like S3Store('s3://…', base_url=…)")
        setting_checks.instances(where, "sections", self.sections, Section, "Section('name', source)")
        setting_checks.instance(where, "rules", self.rules, Mapping)
        setting_checks.instance(where, "shards", self.shards, ShardPolicy)
        setting_checks.instance(where, "guards", self.guards, Guards)
        setting_checks.one_of(where, "index", self.index, ("one", "per_section"))
        setting_checks.one_of(where, "on_section_failure", self.on_section_failure, ("publish_others", "fail_all"))
        setting_checks.one_of(where, "compression", self.compression, ("fast", "small"))
        setting_checks.one_of(where, "change_detection", self.change_detection, CHANGE_DETECTION)
        setting_checks.one_of(where, "limits", self.limits, tuple(PROFILES))
        for name in ("feeds", "cross_submit", "retired", "must_list"):
            setting_checks.texts(where, name, getattr(self, name))
        for feed in self.feeds:
            setting_checks.one_of(where, "feeds", feed, tuple(layout.FEED_NAMES))
        if len(set(self.feeds)) < len(self.feeds):
            raise ConfigurationError(f"{where}: feeds={self.feeds!r}; give each feed once")
        setting_checks.flag(where, "stylesheet", self.stylesheet)
        setting_checks.instance(where, "owner", self.owner, str)
        setting_checks.whole_number(where, "history", self.history, 1)
        setting_checks.duration(where, "grace", self.grace)
        setting_checks.duration(where, "watermark_lag", self.watermark_lag)
        for url in self.must_list:
            if written_form(url, self.store.base_url) is None:
                raise ConfigurationError(f"{where}: must_list={url!r}; give an absolute URL, or a path from '/'")
        for name in ("recent", "gone", "table_versions", "freshness"):
            if getattr(self, name) is not None:
                setting_checks.duration(where, name, getattr(self, name), positive=True)

    def __str__(self) -> str:
        # Airflow stores this text of a mapped operator's argument in its database: keep it short and stable.
        return f"Sitemap {self.index_url} of {', '.join(section.name for section in self.sections)}"

    def has_section(self, name: str | None) -> bool:
        """Return whether a section has a name, or may have it as one of a ``Section.each``."""
        return any(section.has_name(name) for section in self.sections)

    def timezone_of(self, name: str) -> str:
        """Return the time zone of a section's dates, by the section's name; UTC if this sitemap has no such section."""
        sections = sorted(self.sections, key=lambda section: section.name != name)  # its own name goes first
        return next((section.source.timezone for section in sections if section.has_name(name)), "UTC")

    def rulebook(self, section: Section) -> Rulebook:
        """Return the verdicts of a section: the defaults, overridden by the sitemap's and then by its own."""
        return rulebook_of({**self.rules, **(section.rules or {})})

    def limits_of(self, section: Section) -> Limits:
        """Return the limit profile of a section."""
        return PROFILES[section.limits or self.limits]

    @property
    def index_limits(self) -> Limits:
        """Limit profile of the index: the strictest of its sections' profiles."""
        return min((self.limits_of(section) for section in self.sections), key=lambda limits: limits.max_sitemaps)

    def shards_of(self, section: Section) -> ShardPolicy:
        """Return the shard policy of a section."""
        return section.shards or self.shards

    def file_urls_of(self, section: Section) -> int:
        """Return the maximum number of entries per file: at most 1,000 in a news sitemap (developers.google.com)."""
        most = self.shards_of(section).max_urls
        return min(most, NEWS_URLS) if section.kind == "news" else most

    def guards_of(self, section: Section) -> Guards:
        """Return the guards of a section."""
        return section.guards or self.guards

    def change_detection_of(self, section: Section) -> ChangeDetection:
        """Return how a run finds the changes of a section."""
        return section.change_detection or self.change_detection

    def change_log_interval_of(self, section: Section) -> timedelta | None:
        """Return how long the change log of a section replaces a survey of every range; None if it has none."""
        # A user's own source may lack the attribute.
        return cast("timedelta | None", getattr(section.source, "change_log_interval", None))

    def base_url_of(self, section: Section) -> str:
        """Return the address of the folder that serves a section's files, ending in ``/``."""
        return section.base_url or self.store.base_url + section.path

    @property
    def recent_window(self) -> timedelta:
        """Age up to which an entry counts as recent, for ``recent`` and for feeds."""
        return self.recent or DEFAULT_WINDOW

    @property
    def must_urls(self) -> tuple[str, ...]:
        """The URLs of ``must_list`` as files list them, such as ``https://www.example.com/`` for the host alone."""
        return tuple(filter(None, (written_form(url, self.store.base_url) for url in self.must_list)))

    @property
    def extra_names(self) -> frozenset[str]:
        """Names of the files that this sitemap may have in addition to its shards."""
        names = {layout.FEED_NAMES[style] for style in self.feeds}
        names |= {layout.RECENT} if self.recent is not None else set()
        names |= {layout.GONE} if self.gone is not None else set()
        return frozenset(names | ({STYLESHEET} if self.stylesheet else set()))

    @property
    def index_url(self) -> str:
        """Public address of the index."""
        return self.store.base_url + self.store.index_name

    def rendered(self, render: Callable[[str], str]) -> Sitemap:
        """Return a copy with the template fields of its sources rendered.

        With ``on_section_failure="publish_others"`` a section whose template is wrong fails when its source is opened.

        Raises:
            TemplateError: A template is wrong, and no section is published without the others.
        """
        is_strict = self.on_section_failure == "fail_all" or len(self.sections) == 1
        return replace(self, sections=tuple(_rendered(section, render, is_strict) for section in self.sections))

    @property
    def asset(self) -> Any:
        """Airflow asset whose event the publisher emits; schedule other DAGs on it."""
        return import_module("airflow_sitemaps.assets").asset_of(self.store, self.freshness)

    @property
    def sections_asset(self) -> Any:
        """Airflow asset whose events have a partition for each section that changed, by its name.

        The publisher emits them if the asset is among its ``outlets``. Partitions need Airflow 3.3 or newer.
        """
        return import_module("airflow_sitemaps.assets").sections_asset_of(self.asset)


def _rendered(section: Section, render: Callable[[str], str], is_strict: bool) -> Section:
    """Render the template fields of a section's source. If one is wrong, ``is_strict`` raises TemplateError at once."""
    try:
        return replace(section, source=section.source.rendered(render))
    except TemplateError as error:
        named = error.within(f"section {section.name!r}")
        if is_strict:
            raise named from error.__cause__
        return replace(section, source=_Unrendered(section.source, named))


class _Unrendered:
    """A source whose template is wrong. It says so when it is opened."""

    def __init__(self, source: Any, error: TemplateError) -> None:
        self.sibling_key = None
        self._source = source
        self._error = error

    def open(self, *, section: str) -> Any:
        raise self._error

    def part(self, *_: Any) -> _Unrendered:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)
