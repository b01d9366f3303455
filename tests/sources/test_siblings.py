"""One survey for sources that differ by one equality: the same digests as each alone, on every database."""

from __future__ import annotations

import logging
import re
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_sitemaps import LocalStore, Section, ShardPolicy, Sitemap, SqlSource
from airflow_sitemaps.errors import PartlyPublishedError, SourceConfigurationError, SourceError, TemplateError
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.pipeline.plan import surveys as shared_surveys
from airflow_sitemaps.shards.ranges import KeyRange, cut
from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.queries import siblings, survey
from airflow_sitemaps.sources.session import SqlSession
from airflow_sitemaps.sources.session_factory import session_of
from tests.sources.test_compiled import NAMES as COMPILED
from tests.sources.test_compiled import Recorder, context_of, parse
from tests.support.databases import NAMES
from tests.support.environment import BASE
from tests.support.source_sessions import KEYS, TYPES, connected, create, live, rows_of, session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOCALES = ("de", "fr", "it", "x-'y:z", None)
MANY = ("de", "fr", "it", "x-'y:z", "none such")


def filled(name: str, key_name: str, number: int = 150) -> str:
    """A table with a locale, some NULL, and a NULL key in ``it``."""
    base, key = live(name), KEYS[key_name]
    if lacking := {kind for _column, kind in key.columns} - base.types.keys():
        pytest.skip(f"this {name} has no {', '.join(lacking)}: it is built without ICU")
    table = "siblings_" + "".join(c if c.isalnum() else "_" for c in key_name)
    create(base, table, TYPES | {"locale": "text"} | dict(key.columns))
    rows = [each | {"locale": LOCALES[place % len(LOCALES)]} for place, each in enumerate(rows_of(number))]
    if name != "clickhouse":  # where no column may be NULL in this table
        rows += [rows[2] | dict.fromkeys(key.names)]
    base.insert(table, rows)
    return table


def sources(table: str, key: tuple[str, ...], **settings: Any) -> list[SqlSource]:
    return [
        SqlSource(
            "test", table=table, key=key, loc=f"/{place}/{{slug}}", lastmod="lm", changefreq="cf",
            where="locale = :which AND slug <> :least", parameters={"which": which, "least": "none"}, **settings,
        )
        for place, which in enumerate(MANY)
    ]  # fmt: skip


QUICK = [name for name in NAMES if name != "sqlite"]


@pytest.mark.parametrize("key_name", ["integer", "text", "text of any case", "composite", "not unique"])
@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("urgent", [False, True])
def test_each_sibling_has_the_survey_that_it_takes_alone(name: str, key_name: str, urgent: bool) -> None:
    table, key = filled(name, key_name), KEYS[key_name].names
    configs = sources(table, key)
    assert len({each.sibling_key for each in configs}) == 1
    alone, ranges = [], []
    for place, config in enumerate(configs):
        arguments = {"where": config.where, "parameters": config.parameters, "loc": config.loc}
        with session(live(name), table=table, key=key, lastmod="lm", changefreq="cf", **arguments) as source:
            ranges.append(cut(KeyRange(None, None), source.boundaries(KeyRange(None, None), 7 + place)))
            alone.append(source.survey(ranges[-1], urgent=urgent))
    with session(live(name), table=table, key=key, lastmod="lm", changefreq="cf", **arguments) as source:
        shared = [each.survey for each in source.survey_siblings(configs, ranges, urgent=urgent)]
    assert shared == alone
    assert [sum(digest.rows for digest in each.digests) > 0 for each in alone] == [True] * 4 + [False]
    assert [each.null_keys for each in alone] == [0, 0, int(name != "clickhouse"), 0, 0]


@pytest.mark.parametrize("name", [name for name in ("mariadb", "duckdb", "postgresql") if name in NAMES])
def test_values_that_the_database_takes_for_equal_are_refused(name: str) -> None:
    base = live(name)
    of_any_case = {"mariadb": "VARCHAR(9) COLLATE utf8mb4_general_ci", "duckdb": "VARCHAR COLLATE NOCASE"}
    if name == "postgresql" and "text_ci" not in base.types:
        pytest.skip("this postgresql is built without ICU")
    kind = base.types["text_ci"] if name == "postgresql" else of_any_case[name]
    create(base, "siblings_any_case", {"id": "integer", "slug": "text", "locale": f"={kind}"})
    base.insert(
        "siblings_any_case", [{"id": n, "slug": f"p{n}", "locale": ("de", "DE", "fr")[n % 3]} for n in range(9)]
    )
    everything = [[KeyRange(None, None)]] * 2

    def both(first: str, second: str) -> list[int]:
        configs = [
            SqlSource("test", table="siblings_any_case", key="id", loc="slug", where=f"locale = '{each}'")
            for each in (first, second)
        ]
        with session(base, table="siblings_any_case", key="id", loc="slug", where=configs[0].where) as source:
            return [each.survey.digests[0].rows for each in source.survey_siblings(configs, everything)]

    assert both("De", "fr") == [6, 3]
    with pytest.raises(SourceError, match="takes the values 'de' and 'DE' of locale for equal"):
        both("de", "DE")


@pytest.mark.parametrize("name", [name for name in ("mariadb", "duckdb", "sqlite") if name in NAMES])
def test_texts_that_are_compared_with_a_number_are_surveyed_alone(name: str) -> None:
    """MariaDB takes ``1`` and ``01`` for the number 1, but groups them as two texts."""
    base = live(name)
    create(base, "siblings_numbers", {"id": "integer", "slug": "text", "site": "text", "shop": "integer"})
    base.insert("siblings_numbers", [{"id": n, "slug": f"p{n}", "site": ("1", "01")[n % 2], "shop": 1} for n in (1, 2)])
    for column, shared in (("site", False), ("shop", name != "sqlite")):
        configs = [
            SqlSource("test", table="siblings_numbers", key="id", loc="slug", where=f"{column} = {number}")
            for number in (1, 2)
        ]
        with session(base, table="siblings_numbers", key="id", loc="slug", where=configs[0].where) as source:
            surveys = source.survey_siblings(configs, [[KeyRange(None, None)]] * 2)
        assert (surveys is not None) == shared


@pytest.mark.parametrize(
    "where",
    [
        "locale = 'de' OR live", "locale = 'de' AND live OR new", "locale <> 'de'", "live AND locale = 'de'", "locale = other",
        "current_date = 'de'", "locale = 'de' AND a || b", "locale = 'de' -- AND live", "locale = 'd\\'e'", "", None,
        "locale = 'de' AND live # x", "locale = 'de' AND x = 1OR y = 2", "locale = 'de' AND live ? x : y",
        "_table_suffix = 'de'",
    ],
)  # fmt: skip
def test_a_condition_of_another_form_has_no_siblings(where: str | None) -> None:
    assert siblings.equality_of(where) is None


@pytest.mark.parametrize(
    ("where", "column", "value", "rest"),
    [
        ("locale = 'de'", "locale", "'de'", ""),
        ('"Odd ""name" = 7', '"Odd ""name"', "7", ""),
        ("`locale`= :which\nand live AND x IN :y", "`locale`", ":which", "live AND x IN :y"),
    ],
)
def test_an_equality_may_come_before_other_conditions(where: str, column: str, value: str, rest: str) -> None:
    found = siblings.equality_of(where)
    assert found is not None
    assert (found.column, found.value, found.rest) == (column, value, rest)


@pytest.mark.parametrize(
    "change",
    [
        {"table": "other"}, {"lastmod": "other"}, {"key": "other"}, {"loc": "/{other}"}, {"where": "locale = 'it' AND live"},
        {"where": "region = 'it'"}, {"session": ["SET x = 1"]}, {"timezone": "Europe/Berlin"}, {"as_of": "plan"},
        {"where": "locale = :it", "parameters": {"it": None}}, {"where": None}, {"conn_id": "other"},
        {"where": "locale = 7"}, {"where": "locale = :it", "parameters": {"it": 7}},
        {"materialize": "work", "table": None, "query": "SELECT 1"},
    ],
    ids=str,
)  # fmt: skip
def test_siblings_differ_by_nothing_else(change: dict[str, Any]) -> None:
    settings = {
        "conn_id": "x",
        "table": "t",
        "key": "id",
        "loc": "/de/{slug}",
        "lastmod": "at",
        "where": "locale = 'de'",
    }
    other = settings | {"loc": "/it/{slug}", "where": "locale = 'it'"}
    first = SqlSource(**settings).sibling_key
    assert first is not None
    assert SqlSource(**other).sibling_key == first
    assert SqlSource(**other | change).sibling_key != first


@pytest.mark.parametrize(
    "settings",
    [
        {"table": "t", "where": "locale = :l AND base <> :l", "parameters": {"l": "de"}},
        {"query": "SELECT * FROM t WHERE base = :l", "where": "locale = :l", "parameters": {"l": "de"}},
        {"table": "t", "where": "locale = :l", "parameters": {"l": ["de"]}},
        {"query": "SELECT * FROM t", "where": "locale = 'de'", "materialize": "work"},
        {"table": "t", "where": "locale = 'de'", "as_of": "plan"},
        {"table": "t", "where": "locale = 'de'", "group": "page", "language": "locale"},
    ],
    ids=str,
)
def test_some_sources_have_no_siblings(settings: dict[str, Any]) -> None:
    assert SqlSource("x", key="id", loc="slug", **settings).sibling_key is None


@pytest.mark.parametrize("name", COMPILED)
def test_the_statements_are_valid_and_as_many_as_those_of_one_source(name: str) -> None:
    context, recorder, alone = context_of(name, (Column(name="shop", kind=Kind.INTEGER),)), Recorder(), Recorder()
    if context.dialect.hashes_here:
        pytest.skip("it hashes in this process, so sections survey alone")
    configs = [
        SqlSource("x", table="shop.products", key="shop", loc="slug", where=f"locale = '{each}'") for each in MANY[:3]
    ]
    ranges = [cut(KeyRange(None, None), [(1_000 * n + own,) for n in range(1, 10)]) for own in range(3)]
    siblings.take(context, recorder, configs, ranges, lambda *_: None)
    survey.take(context, alone, cut(KeyRange(None, None), [(n,) for n in range(27)]))
    statements = [sql for sql, _ in recorder.asked if "pg_stats" not in sql]
    assert [sql.count("GROUP BY") for sql in statements] == [1] * len(statements)
    assert len(statements) == len(alone.asked)
    for sql, _values in recorder.asked:
        parse(name, sql)


@pytest.mark.skipif("postgresql" not in NAMES, reason="needs PostgreSQL")
@pytest.mark.parametrize(("others", "is_one"), [(4, True), (40, False), (200, True)])
def test_values_of_nearly_all_rows_need_no_list(others: int, is_one: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL's statistics say that the sections have nearly all rows, and that there are few other values."""
    base = live("postgresql")
    create(base, "siblings_share", {"id": "integer", "slug": "text", "Site": "text"})
    sites = [("de", "it's")[n % 2] for n in range(1_000)] + ["other" if is_one else f"o{n}" for n in range(others)]
    base.insert("siblings_share", [{"id": n, "slug": f"p{n}", "Site": site} for n, site in enumerate(sites)])
    configs = [
        SqlSource("test", table="siblings_share", key="id", loc="slug", where=f"\"Site\" = '{site}' AND id > 3")
        for site in ("de", "it''s", "none")
    ]
    conditions: list[str | None] = []
    by_value = survey.by_value

    def noted(context: Any, *args: Any, **kwargs: Any) -> Any:
        conditions.append(context.relation.where)
        return by_value(context, *args, **kwargs)

    monkeypatch.setattr(survey, "by_value", noted)
    ranges = [cut(KeyRange(None, None), [(20 + place,)]) for place in range(3)]
    alone = []
    for config, own in zip(configs, ranges, strict=True):
        with session(base, table="siblings_share", key="id", loc="slug", where=config.where) as source:
            alone.append(source.survey(own))
    for analyzed in (False, True):
        if analyzed:
            base.run("ANALYZE siblings_share")
        with session(base, table="siblings_share", key="id", loc="slug", where=configs[0].where) as source:
            surveys = source.survey_siblings(configs, ranges)
        assert surveys is not None
        assert [each.survey for each in surveys] == alone
    listed = "\"Site\" IN ('de', 'it''s', 'none') AND id > 3"
    assert conditions == [listed, "id > 3" if others == 4 else listed]


# ---------------------------------------------------------------- in a run


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """What shared surveys log. Airflow removes the handlers of the root logger when it is imported."""
    logger = logging.getLogger(shared_surveys.__name__)
    logger.addHandler(caplog.handler)
    with caplog.at_level(logging.INFO, logger=logger.name):
        yield caplog
    logger.removeHandler(caplog.handler)


class Shop:
    """A sitemap with a section for each locale of one table."""

    def __init__(self, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.base = connected(name, "siblings", monkeypatch)
        self.sqls: list[str] = []
        create(self.base, "shop_pages", {"id": "integer", "slug": "text", "locale": "text", "weight": "integer"})
        self.base.insert("shop_pages", [self.row(n) for n in range(300)])
        self.settings: dict[str, Any] = {}
        self.more_parts: dict[str, str] = {}
        self.folder = folder
        monkeypatch.setattr("airflow_sitemaps.sources.session.SqlSession.transaction", self.noted())

    def noted(self) -> Any:
        original, steps = SqlSession.transaction, self.sqls

        def transaction(session: SqlSession, doing: str, **how: Any) -> Any:
            steps.append(doing)
            return original(session, doing, **how)

        return transaction

    def row(self, n: int) -> dict[str, Any]:
        return {"id": n, "slug": f"p{n}", "locale": ("de", "fr", "it", "es")[n % 4], "weight": n}

    def build(self, key: str = "id", only: tuple[str, ...] = (), **more: Any) -> Any:
        parts = {name: f"locale = '{name}'" for name in ("de", "fr", "it")} | self.more_parts
        # What is in no other section, a NULL locale included.
        parts["rest"] = "locale NOT IN ('de', 'fr', 'it') OR locale IS NULL"
        sections = [
            Section(name, SqlSource("siblings", table="shop_pages", key=key, loc=f"/{name}/{{slug}}", where=where))
            for name, where in parts.items()
        ]
        policy = ShardPolicy(max_urls=25, fill=0.8)
        self.sqls.clear()
        sitemap = Sitemap(LocalStore(str(self.folder), base_url=BASE), sections, shards=policy, **self.settings, **more)
        return build(sitemap, sections=only)

    def surveys(self) -> list[str]:
        return [each for each in self.sqls if "survey" in each]


@pytest.mark.parametrize("name", [name for name in ("postgresql", "duckdb", "mariadb") if name in NAMES])
def test_an_incremental_run_surveys_the_locales_together(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: pytest.LogCaptureFixture
) -> None:
    shop = Shop(name, tmp_path, monkeypatch)
    assert shop.build().result == "published"
    assert shop.build().result == "unchanged"
    assert shop.surveys() == ["the survey of 3 sections", "the survey"]
    assert "section de: one survey with 2 sections of its table, in 12 ranges: fr, it" in said.text
    shop.base.run(
        "UPDATE shop_pages SET slug = 'new' WHERE id = 1", "UPDATE shop_pages SET locale = 'it' WHERE id = 4",
        "DELETE FROM shop_pages WHERE id = 2", "UPDATE shop_pages SET locale = NULL WHERE id = 5",
        "INSERT INTO shop_pages VALUES (900, 'p900', 'es', 0)",
    )  # fmt: skip
    report = shop.build()
    assert {each: (s.urls, s.shards.created + s.shards.rewritten) for each, s in report.sections.items()} == {
        "de": (74, 1), "fr": (74, 1), "it": (75, 1), "rest": (77, 2),
    }  # fmt: skip
    assert shop.surveys()[0] == "the survey of 3 sections"


def test_a_sibling_with_boundaries_of_another_key_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other sections have the key of an earlier code until a run that plans them."""
    shop = Shop("duckdb", tmp_path, monkeypatch)
    shop.build(key="slug")
    shop.build(only=("de", "it"))
    report = shop.build()
    assert {each: s.shards.created > 0 for each, s in report.sections.items()} == {
        "de": False, "fr": True, "it": False, "rest": True,
    }  # fmt: skip
    assert shop.surveys()[0] == "the survey of 2 sections"
    assert shop.build().result == "unchanged"


def test_sections_of_one_value_share_its_digests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop("duckdb", tmp_path, monkeypatch)
    shop.more_parts = {"amp": "locale = 'de'"}
    shop.build()
    shop.base.run("UPDATE shop_pages SET slug = 'new' WHERE id = 0")
    report = shop.build()
    assert {each: s.shards.rewritten for each, s in report.sections.items()} == {
        "de": 1, "fr": 0, "it": 0, "amp": 1, "rest": 0,
    }  # fmt: skip
    assert shop.surveys()[0] == "the survey of 4 sections"


def test_the_estimate_of_a_survey_that_fails_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    table = filled("duckdb", "integer")
    monkeypatch.setattr("airflow_sitemaps.sources.session.ScanMeter._estimate", lambda *_: 1_000)

    def fail(_context: Any, _connection: Any, configs: Any, ranges: Any, admit: Any, **_: Any) -> Any:
        admit(ranges[0], _context)
        raise SourceError("no memory")

    monkeypatch.setattr("airflow_sitemaps.sources.queries.siblings.take", fail)
    configs = sources(table, KEYS["integer"].names)[:2]
    arguments = {"where": configs[0].where, "parameters": configs[0].parameters, "loc": configs[0].loc}
    with session(live("duckdb"), table=table, key=KEYS["integer"].names, **arguments) as source:
        source.survey([KeyRange(None, None)])
        with pytest.raises(SourceError):
            source.survey_siblings(configs, [[KeyRange(None, None)]] * 2)
        assert source.scan_estimate() == 1_000


def test_a_sibling_whose_value_the_database_refuses_is_a_fault_of_the_settings() -> None:
    base = live("postgresql")
    base.run("CREATE TYPE siblings_locale AS ENUM ('de', 'fr')")
    create(base, "siblings_enum", {"id": "integer", "slug": "text", "locale": "=siblings_locale"})
    first, other = (
        SqlSource("test", table="siblings_enum", key="id", loc="slug", where=f"locale = '{each}'")
        for each in ("de", "xx")
    )
    with (
        session(base, table="siblings_enum", key="id", loc="slug", where=first.where) as source,
        pytest.raises(SourceConfigurationError, match=r"section 'other'.*invalid input value"),
    ):
        source.sibling(other, section="other")


def test_a_sibling_that_a_shared_survey_has_read_is_not_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    base = live("postgresql")
    create(base, "siblings_checked", {"id": "integer", "slug": "text", "locale": "text"})
    configs = [
        SqlSource("test", table="siblings_checked", key="id", loc="slug", where=f"locale = '{each}'")
        for each in ("de", "fr", "it")
    ]
    checked = []
    monkeypatch.setattr("airflow_sitemaps.sources.session.columns_of", lambda *args: checked.append(args[3]))
    with session(base, table="siblings_checked", key="id", loc="slug", where=configs[0].where) as source:
        source.survey_siblings(configs[:2], [[KeyRange(None, None)]] * 2)
        second = source.sibling(configs[1], section="fr")
        assert second is not None
        assert second.sibling(configs[2], section="it") is not None
    assert len(checked) == 1
    assert "section 'it'" in checked[0]


@pytest.fixture
def connections() -> Iterator[list[set[str]]]:
    """The sections that each connection to a database has served."""
    served: list[set[str]] = []

    def connect(_connection: Any, record: Any) -> None:
        record.info["served"] = set()
        served.append(record.info["served"])

    def note(connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if (label := re.match(r"/\*.* section=(\w+) \*/ \w", statement)) is not None:
            connection.info["served"].add(label[1])

    sa.event.listen(sa.pool.Pool, "connect", connect)
    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    yield served
    sa.event.remove(sa.pool.Pool, "connect", connect)
    sa.event.remove(sa.Engine, "before_cursor_execute", note)


@pytest.mark.parametrize("name", [name for name in ("postgresql", "duckdb", "mariadb") if name in NAMES])
def test_siblings_that_follow_each_other_share_a_connection(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connections: list[set[str]]
) -> None:
    shop = Shop(name, tmp_path, monkeypatch)
    shop.build()
    connections.clear()
    assert shop.build().result == "unchanged"
    assert connections == [{"de", "fr", "it"}, {"rest"}]


def test_a_section_that_fails_leaves_its_connection_to_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connections: list[set[str]]
) -> None:
    shop = Shop("duckdb", tmp_path, monkeypatch)
    shop.build()
    take, failures = shared_surveys.SharedSurveys.take, [SourceError("the connection is lost")]

    def fail_once(shared: shared_surveys.SharedSurveys, context: Any, version: Any) -> Any:
        if context.section.name == "fr" and failures:
            raise failures.pop()
        return take(shared, context, version)

    monkeypatch.setattr(shared_surveys.SharedSurveys, "take", fail_once)
    connections.clear()
    assert shop.build().result == "unchanged"
    assert connections == [{"de", "fr"}, {"it"}, {"rest"}, {"fr"}]


@pytest.mark.parametrize(
    ("most", "expected"),
    [(16, ["the survey of 2 sections", "the survey", "the survey"]), (15, ["the survey"] * 4)],
)
def test_a_large_family_shares_several_surveys(
    most: int, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the three sections has four shards: two of them together have 2 x 8 sums."""
    shop = Shop("duckdb", tmp_path, monkeypatch)
    shop.build()
    monkeypatch.setattr(shared_surveys, "MOST_SUMS", most)
    assert shop.build().result == "unchanged"
    assert shop.surveys() == expected


def test_a_survey_that_fails_is_taken_by_each_section_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: pytest.LogCaptureFixture
) -> None:
    shop = Shop("duckdb", tmp_path, monkeypatch)
    shop.build()

    def fail(*_: Any, **__: Any) -> Any:
        raise sa.exc.OperationalError("SELECT", {}, Exception("no memory"))

    monkeypatch.setattr("airflow_sitemaps.sources.queries.siblings.take", fail)
    assert shop.build().result == "unchanged"
    assert shop.surveys() == ["the survey of 3 sections", *["the survey"] * 4]
    assert "section de: one survey with 2 sections of its table failed, so each of them surveys alone" in said.text


def test_a_survey_older_than_a_version_of_the_table_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change between the shared survey and a section's turn: the section would record the version after the change."""
    shop = Shop("postgresql", tmp_path, monkeypatch)
    now = {"version": "1"}
    monkeypatch.setattr(
        "airflow_sitemaps.sources.dialects.postgresql.PostgreSQL.table_version", lambda *_: now["version"]
    )
    shop.settings = {"table_versions": timedelta(days=1)}
    shop.build()
    shop.base.run("UPDATE shop_pages SET slug = 'new0' WHERE id = 0")
    now["version"] = "2"
    take = siblings.take

    def change_after(*arguments: Any, **named: Any) -> Any:
        surveys = take(*arguments, **named)
        shop.base.run("UPDATE shop_pages SET slug = 'new1' WHERE id = 1")
        now["version"] = "3"
        return surveys

    monkeypatch.setattr("airflow_sitemaps.sources.queries.siblings.take", change_after)
    report = shop.build()
    assert {each: s.shards.rewritten for each, s in report.sections.items()} == {"de": 1, "fr": 1, "it": 0, "rest": 0}
    monkeypatch.setattr("airflow_sitemaps.sources.queries.siblings.take", take)
    assert shop.build().result == "unchanged"


def test_a_sibling_whose_template_is_wrong_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base, source = family_of("duckdb", "text", ["de", "fr", "it"] * 9, monkeypatch)
    store = LocalStore(tmp_path / "site", base_url=BASE, state_dir=tmp_path / "state")

    def render(text: str) -> str:
        if "{{" in text:
            raise TemplateError("there is no such word")
        return text

    def sitemap(**values: str) -> Sitemap:
        parts = ((name, values.get(name, name)) for name in ("de", "fr", "it"))
        sections = [Section(n, replace(source, where="part = :v", parameters={"v": value})) for n, value in parts]
        return Sitemap(store, sections).rendered(render)

    build(sitemap())
    base.insert("families", [{"id": 99, "slug": "p99", "part": "fr"}])
    with pytest.raises(PartlyPublishedError, match="there is no such word") as caught:
        build(sitemap(it="{{ word }}"))
    assert caught.value.report.sections["fr"].urls == 10


# ------------------------------------------------------------ Section.each


@contextmanager
def disposed(engine: sa.Engine) -> Iterator[sa.Engine]:
    try:
        yield engine
    finally:
        engine.dispose()


def family_of(name: str, kind: str, values: list[Any], monkeypatch: pytest.MonkeyPatch) -> tuple[Any, SqlSource]:
    base = connected(name, "siblings", monkeypatch)
    if kind not in base.types and not kind.startswith("="):
        pytest.skip(f"this {name} has no {kind}")
    create(base, "families", {"id": "integer", "slug": "text", "part": kind})
    base.insert("families", [{"id": n, "slug": f"p{n}", "part": value} for n, value in enumerate(values)])
    return base, SqlSource("siblings", table="families", key="id", loc=f"{BASE}{{slug}}")


def test_a_condition_whose_end_may_be_hidden_shares_no_survey() -> None:
    whole = SqlSource("test", table="t", key="id", loc="slug", where="slug <> 'a' OR live -- all but one")
    assert {whole.part("locale", "de").sibling_key, whole.part("locale", None, ["de"]).sibling_key} == {None}


@pytest.mark.parametrize("key_name", ["integer", "text", "not unique"])
@pytest.mark.parametrize("name", QUICK)
def test_the_rows_of_all_other_values_share_the_survey(name: str, key_name: str) -> None:
    table, key = filled(name, key_name), KEYS[key_name].names
    whole = SqlSource("test", table=table, key=key, loc="/{slug}", lastmod="lm")
    values = ("de", "x-'y:z", "none such")
    configs = [*(whole.part("locale", value) for value in values[:2]), whole.part("locale", None, values)]
    assert len({each.sibling_key for each in configs}) == 1
    assert configs[0].sibling_key != replace(whole, where="locale = 'de'").sibling_key
    alone, ranges = [], []
    for place, config in enumerate(configs):
        with disposed(live(name).engine()) as engine, session_of(config, "test", engine) as source:
            ranges.append(cut(KeyRange(None, None), source.boundaries(KeyRange(None, None), 7 + place)))
            alone.append(source.survey(ranges[-1]))
    with disposed(live(name).engine()) as engine, session_of(config, "test", engine) as source:
        shared = [each.survey for each in source.survey_siblings(configs, ranges)]
    assert shared == alone
    assert sum(digest.rows for digest in alone[-1].digests) > 80
    assert alone[-1].null_keys == int(name != "clickhouse")


@pytest.mark.parametrize("name", NAMES)
def test_each_value_of_a_column_has_a_section(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    values = ["de", "x-'y:z%", "fr"] * 9 + [""] * 3 + ["it"]
    base, source = family_of(name, "text", values + [None] * (name != "clickhouse"), monkeypatch)
    sitemap = Sitemap(
        LocalStore(tmp_path / "site", base_url=BASE, state_dir=tmp_path / "state"),
        [Section.each("part", source, name="f", least=5)],
    )
    report = build(sitemap)
    sizes = {section: part.urls for section, part in report.sections.items()}
    assert sizes == {"f-de": 9, "f-fr": 9, "f-x-y-z": 9, "f-other": len(values) + (name != "clickhouse") - 27}
    base.insert("families", [{"id": 1_000 + n, "slug": f"p{1_000 + n}", "part": "it"} for n in range(4)])
    report = build(sitemap)
    assert report.sections["f-it"].urls == 5
    assert report.sections["f-de"].rows_read == 0
    with caplog.at_level(logging.INFO):
        assert build(sitemap).result == "unchanged"
    shared = [text for text in caplog.messages if "one survey with 4 sections of its table" in text]
    assert len(shared) == (name != "sqlite"), "the rows of all other values too"


@pytest.mark.parametrize("second", ["a", "z"])
def test_two_families_of_a_column_may_have_sections_of_different_values(
    second: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of all other values are not the same ones then."""
    _, source = family_of("duckdb", "text", ["de", "fr"] * 20 + ["it"] * 9 + ["sv"], monkeypatch)
    more = Section.each("part", replace(source, loc=f"{BASE}more/{{slug}}"), name=second, least=10)
    families = sorted([Section.each("part", source, name="f", least=5), more], key=lambda section: section.name)
    sitemap = Sitemap(LocalStore(tmp_path / "site", base_url=BASE, state_dir=tmp_path / "state"), families)
    for rows_read in ({"f-other": 1, f"{second}-other": 10}, {"f-other": 0, f"{second}-other": 0}):
        report = build(sitemap)
        assert {name: report.sections[name].rows_read for name in rows_read} == rows_read


@pytest.mark.parametrize(
    ("name", "kind", "values"),
    [
        ("postgresql", "=boolean", ["true", "false"]),
        ("postgresql", "=char(5)", ["de", "fr"]),
        ("postgresql", "=numeric(9)", [7, 8]),
        ("postgresql", "integer", [7, 8]),
        ("postgresql", "=bigint", [7, 8]),
        ("postgresql", "text_ci", ["de", "DE", "fr"]),
        ("mariadb", "=varchar(9) collate utf8mb4_general_ci", ["de", "DE", "de ", "fr"]),
        ("mariadb", "=enum('de', 'fr')", ["de", "fr"]),
        ("duckdb", "=enum('de', 'fr')", ["de", "fr"]),
        ("sqlite", "integer", [7, 8]),
    ],
)
def test_a_column_of_any_kind_that_has_names(
    name: str, kind: str, values: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name not in NAMES:
        pytest.skip(f"no {name}")
    _, source = family_of(name, kind, values * 6, monkeypatch)
    sitemap = Sitemap(
        LocalStore(tmp_path / "site", base_url=BASE, state_dir=tmp_path / "state"),
        [Section.each("part", source, name="f", least=5)],
    )
    report = build(sitemap)
    assert sum(part.urls for part in report.sections.values()) == len(values) * 6
    assert len(report.sections) == 3
    assert build(sitemap).result == "unchanged"


def test_a_column_whose_values_give_no_names_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, source = family_of("sqlite", "=REAL", [1.5, 2.5] * 9, monkeypatch)
    sitemap = Sitemap(
        LocalStore(tmp_path / "site", base_url=BASE, state_dir=tmp_path / "state"),
        [Section.each("part", source, name="f", least=5)],
    )
    with pytest.raises(SourceConfigurationError, match=r"Section.each\('part'\): the column holds a float"):
        build(sitemap)


@pytest.mark.parametrize("name", COMPILED)
def test_the_values_of_a_column_are_counted_by_one_statement(name: str) -> None:
    context, recorder = context_of(name, (Column(name="id", kind=Kind.INTEGER),)), Recorder()
    recorder.fetchmany = lambda most: []  # type: ignore[attr-defined]
    monkey = recorder.execute
    recorder.execute = lambda *arguments: (monkey(*arguments), recorder)[1]  # type: ignore[method-assign]
    assert siblings.values(context, recorder, "locale", 5, 9) == []  # type: ignore[arg-type]
    ((sql, _),) = recorder.asked
    parse(name, sql)
