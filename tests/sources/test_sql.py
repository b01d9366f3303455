"""``SqlSource`` as a user meets it: what it refuses, what it finds, what it says when it finds nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_sitemaps import ChangeLog
from airflow_sitemaps.errors import ConnectionNotFoundError, SourceConfigurationError, SourceError, TemplateError
from airflow_sitemaps.shards.ranges import KeyRange
from airflow_sitemaps.sources.dialects import postgresql_readers
from airflow_sitemaps.sources.queries import one_statement
from airflow_sitemaps.sources.sql import SqlSource
from airflow_sitemaps.sources.user_texts import NamePart, name_parts
from tests.support.databases import NAMES
from tests.support.source_sessions import create, live, session

GOOD = {"table": "t", "loc": "url"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"loc": "url"}, "one of table= and query="),
        ({"table": "t", "query": "SELECT 1", "loc": "url"}, "one of table= and query="),
        ({"table": "", "loc": "url"}, "table=''"),
        ({**GOOD, "where": " "}, "where=' '"),
        ({**GOOD, "key": ()}, "key"),
        ({**GOOD, "key": ("a", "a")}, "several different"),
        ({"table": "t", "loc": "https://x.test/{a}/{b}"}, "give key="),
        ({**GOOD, "timezone": "Berlin"}, "Europe/Berlin"),
        ({**GOOD, "parameters": {"sitemap_1": 1}}, "'sitemap_1'"),
        ({**GOOD, "parameters": {"a b": 1}}, "'a b'"),
        ({**GOOD, "reader": "fast"}, "'cursor'"),
        *(
            ({**GOOD, **wrong}, "only query=, where= and parameters= are templates")
            for wrong in (
                {"table": "{{ params.table }}"},
                {"session": ["SET app.tenant = '{{ params.tenant }}'"]},
                {"materialize": "{{ params.schema }}"},
                {"key": ("id", "{{ params.key }}")},
                {"lastmod": "{% if true %}updated_at{% endif %}"},
            )
        ),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_at_once(arguments: dict, words: str) -> None:
    with pytest.raises(SourceConfigurationError, match="SqlSource\\('db'") as caught:
        SqlSource("db", **arguments)
    assert words in str(caught.value)


def test_a_url_instead_of_a_connection_is_refused_without_its_password() -> None:
    with pytest.raises(SourceConfigurationError, match="the first argument is a URL; give the id") as refused:
        SqlSource("postgresql://shop:s3cret@db/shop", table="p", key="id", loc="{url}")
    assert "s3cret" not in str(refused.value)


def test_a_template_instead_of_a_connection_is_refused_at_once() -> None:
    with pytest.raises(SourceConfigurationError, match="only query=, where= and parameters= are templates"):
        SqlSource("{{ params.conn }}", table="p", loc="url")


def test_the_key_is_the_loc_by_default() -> None:
    assert SqlSource("db", table="t", loc="url").key_columns == ("url",)
    assert SqlSource("db", table="t", loc="https://x.test/{slug}").key_columns == ("slug",)
    assert SqlSource("db", table="t", loc="https://x.test/{slug}", key="id").key_columns == ("id",)
    assert SqlSource("db", table="t", loc="url", key=["a", "b"]).key_columns == ("a", "b")


def test_names_of_tables() -> None:
    plain, quoted = partial(NamePart, is_quoted=False), partial(NamePart, is_quoted=True)
    assert name_parts("products") == (plain("products"),)
    assert name_parts("mart.products") == (plain("mart"), plain("products"))
    assert name_parts('"a.b"."c""d"') == (quoted("a.b"), quoted('c"d'))
    assert name_parts("`shop-1.mart.products`") == (quoted("shop-1"), quoted("mart"), quoted("products"))
    assert name_parts("`shop-1`.mart") == (quoted("shop-1"), plain("mart"))
    for bad in ("", "a.", ".a", 'a"b', '"a"b', "a..b"):
        with pytest.raises(SourceConfigurationError, match=r"give a name like"):
            name_parts(bad)


def test_a_query_in_a_file_beside_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside = SqlSource("db", query="queries/rows.sql", loc="url")
    assert beside.query_text() == "SELECT url FROM {{ params.table }}\n"
    (tmp_path / "else.sql").write_text("SELECT 2")
    monkeypatch.chdir(tmp_path)
    assert SqlSource("db", query="else.sql", loc="url").query_text() == "SELECT 2"
    dags = tmp_path / "dags"
    dags.mkdir()
    (dags / "third.sql").write_text("SELECT 3")
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(dags))
    assert SqlSource("db", query="third.sql", loc="url").query_text() == "SELECT 3"
    with pytest.raises(SourceConfigurationError, match=r"missing\.sql") as caught:
        SqlSource("db", query="missing.sql", loc="url").query_text()
    for folder in (Path(__file__).parent, tmp_path, dags):
        assert str(folder / "missing.sql") in str(caught.value)
    with pytest.raises(SourceConfigurationError, match=r"there is no such file"):  # no file can have this name
        SqlSource("db", query=f"{'x' * 300}.sql", loc="url").query_text()


def test_a_query_in_a_file_is_in_utf_8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the mark that editors on Windows put before it, or without."""
    monkeypatch.chdir(tmp_path)
    source = SqlSource("db", query="rows.sql", loc="url")
    Path("rows.sql").write_text("SELECT 'ü'", encoding="utf-8-sig")
    assert source.query_text() == "SELECT 'ü'"
    Path("rows.sql").write_text("SELECT 'ü'", encoding="latin-1")
    with pytest.raises(SourceConfigurationError, match=r"query='rows.sql'\): .*rows.sql cannot be read as UTF-8: "):
        source.query_text()


def test_rendering_leaves_the_identity_as_it_was() -> None:
    source = SqlSource(
        "db", query="queries/rows.sql", loc="url", where="day <= '{{ ds }}'", parameters={"a": "{{ ds }}", "b": 2}
    )
    rendered = source.rendered(lambda text: text.replace("{{ ds }}", "2024-05-01").replace("{{ params.table }}", "t"))
    assert rendered.query_text() == "SELECT url FROM t\n"
    assert rendered.where == "day <= '2024-05-01'"
    assert rendered.parameters == {"a": "2024-05-01", "b": 2}
    assert rendered.identity() == source.identity()
    assert json.loads(json.dumps(source.identity()))["query"] == "SELECT url FROM {{ params.table }}\n"
    assert rendered.describe() == source.describe() == "db: queries/rows.sql"
    again = rendered.rendered(lambda text: text)
    assert again.identity() == source.identity()


def test_identity_tells_mappings_apart() -> None:
    one = SqlSource("db", **GOOD)
    others = [
        SqlSource("db", **GOOD, lastmod="a"), SqlSource("db", **GOOD, where="x"), SqlSource("db", **GOOD, key="k"),
        SqlSource("db", **GOOD, timezone="Europe/Berlin"), SqlSource("db", table="u", loc="url"),
    ]  # fmt: skip
    identities = [json.dumps(source.identity(), sort_keys=True) for source in (one, *others)]
    assert len(set(identities)) == len(identities)


def test_making_one_imports_nothing_heavy() -> None:
    code = (
        "import sys; from airflow_sitemaps.sources.sql import SqlSource; "
        "SqlSource('db', table='t', loc='https://x.test/{slug}', timezone='Europe/Berlin'); "
        "print([m for m in ('airflow', 'sqlalchemy', 'pyarrow', 'duckdb', 'boto3', 'lxml') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ---------------------------------------------------------------- wrong columns and tables


def test_a_missing_column_is_named_with_its_neighbours() -> None:
    base = live("sqlite")
    create(base, "shoes", {"id": "integer", "slug": "text", "updated_at": "text"})
    with (
        pytest.raises(
            SourceConfigurationError, match=r"lastmod='updated_On': there is no such column.*'updated_at'"
        ) as caught,
        session(base, section="shoes", table="shoes", key="id", loc="slug", lastmod="updated_On"),
    ):
        pass
    assert "section 'shoes' (test: shoes)" in str(caught.value)


@pytest.mark.parametrize("name", ["sqlite", "postgresql", "duckdb", "mariadb"])
def test_a_missing_table_is_named_with_its_neighbours(name: str) -> None:
    base = live(name)
    create(base, "products_of_mine", {"id": "integer"})
    with (
        pytest.raises(SourceConfigurationError, match="products_of_mine"),
        session(base, table="product_of_mine", key="id", loc="id"),
    ):
        pass


def test_names_are_found_in_any_case() -> None:
    base = live("sqlite")
    create(base, "cases", {"ID": "integer", "Slug": "text"})
    base.insert("cases", [{"ID": 1, "Slug": "a"}])
    with session(base, table="cases", key="id", loc="https://x.test/{slug}") as source:
        assert [row["loc"] for batch in source.read([KeyRange(None, None)]) for row in batch.to_pylist()] == [
            "https://x.test/a"
        ]


@pytest.mark.parametrize("name", ["sqlite", "postgresql", "duckdb", "mariadb"])
def test_a_query_that_is_no_sql(name: str) -> None:
    with (
        pytest.raises(SourceConfigurationError, match="refuses to read it"),
        session(live(name), query="SELEKT 1", key="id", loc="id"),
    ):
        pass


@pytest.mark.parametrize("name", ["postgresql", "mariadb"])
def test_two_columns_of_one_name_are_said_to_need_names_of_their_own(name: str) -> None:
    """By hand, the query runs."""
    base = live(name)
    create(base, "twice", {"id": "integer", "slug": "text"})
    query = "SELECT a.*, b.* FROM twice a JOIN twice b ON b.id = a.id"
    assert base.rows(query) == []
    with (
        pytest.raises(SourceConfigurationError, match="each column needs a name of its own"),
        session(base, query=query, key="id", loc="slug"),
    ):
        pass


CONDITIONS = {
    "a column that is not there": {"where": "actve = 1"},
    "the word WHERE": {"where": "WHERE id > 0"},
    "a semicolon": {"where": "id > 0;"},
    "a list in brackets": {"where": "id IN (:ids)", "parameters": {"ids": [1, 2]}},
    "a placeholder of the driver": {"where": "id = ?", "parameters": {"id": 1}},
}


@pytest.mark.parametrize("condition", CONDITIONS.values(), ids=CONDITIONS)
def test_a_condition_that_the_database_refuses_is_named_not_the_table(condition: dict[str, Any]) -> None:
    base = live("sqlite")
    create(base, "conditions", {"id": "integer", "slug": "text"})
    with (
        pytest.raises(
            SourceConfigurationError, match=r"refuses where= or a value of parameters=: .* The table is there\. Correct"
        ) as caught,
        session(base, table="conditions", key="id", loc="slug", **condition),
    ):
        pass
    assert "Did you mean" not in str(caught.value)


def test_a_condition_is_named_though_the_table_is_written_in_another_case() -> None:
    base = live("sqlite")
    create(base, "conditions", {"id": "integer", "slug": "text"})
    with (
        pytest.raises(SourceConfigurationError, match=r"refuses where= or a value of parameters=: .*actve"),
        session(base, table="Conditions", key="id", loc="slug", where="actve = 1"),
    ):
        pass


def test_a_broken_view_is_not_blamed_on_its_condition() -> None:
    base = live("sqlite")
    create(base, "bases", {"id": "integer", "slug": "text"})
    base.run("CREATE VIEW broken AS SELECT * FROM bases", "DROP TABLE bases")
    try:
        with (
            pytest.raises(
                SourceConfigurationError, match=r"refuses to read it: .*bases.* A table or view of this name is there$"
            ),
            session(base, table="broken", key="id", loc="slug", where="id > 0"),
        ):
            pass
    finally:
        base.run("DROP VIEW broken")  # while it is there, SQLite renames no table of this database


QUERIES = {
    "a semicolon": "SELECT * FROM semicolons;",
    "more of them": "SELECT * FROM semicolons ; ;\n",
    "a comment after it": "SELECT * FROM semicolons; -- it's all; really",
    "comments around it": "SELECT * FROM semicolons -- one; two\n; /* three; */ ; -- four",
    "a comment at the end": "SELECT * FROM semicolons -- ;",
    "a semicolon in a text": "SELECT * FROM semicolons WHERE slug <> ';--' AND slug <> 'it''s; ';",
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
@pytest.mark.parametrize("name", ["sqlite", "postgresql", "duckdb", "mariadb"])
def test_a_query_may_end_in_a_semicolon(name: str, query: str) -> None:
    base = live(name)
    create(base, "semicolons", {"id": "integer", "slug": "text"})
    base.insert("semicolons", [{"id": number, "slug": f"p/{number}"} for number in range(3)])
    change_log = ChangeLog(table="semicolons", position="id", newest="SELECT MAX(id) FROM semicolons; -- now")
    with session(base, query=query, key="id", loc="slug", change_log=change_log) as source:
        assert source.survey([KeyRange(None, None)]).digests[0].rows == 3
        assert len([row for batch in source.read([KeyRange(None, None)]) for row in batch.to_pylist()]) == 3
        assert source.changes((), None).ranges is None


@pytest.mark.parametrize("is_view", [True, False])
def test_columns_that_depend_on_a_primary_key_need_no_group_by_in_mariadb(is_view: bool) -> None:
    """MariaDB allows them, but with ONLY_FULL_GROUP_BY it refuses them, also in a view, where MySQL does not."""
    base = live("mariadb")
    query = "SELECT p.id, p.slug, COUNT(*) AS reviews FROM pages p JOIN reviews r ON r.page = p.id GROUP BY p.id"
    base.run(
        "DROP VIEW IF EXISTS reviewed",
        "CREATE OR REPLACE TABLE pages (id BIGINT PRIMARY KEY, slug VARCHAR(20))",
        "CREATE OR REPLACE TABLE reviews (page BIGINT)",
        "INSERT INTO pages VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "INSERT INTO reviews VALUES (1), (1), (2)",
        f"CREATE VIEW reviewed AS {query}",
    )
    place = {"table": "reviewed"} if is_view else {"query": query}
    with session(base, key="id", loc="slug", **place) as source:
        assert source.survey([KeyRange(None, None)]).digests[0].rows == 2
        assert [loc for batch in source.read([KeyRange(None, None)]) for loc in batch["loc"].to_pylist()] == ["a", "b"]


@pytest.mark.parametrize("query", ["SET x = 1; SELECT * FROM cases", "SELECT ';'; SELECT 'it\\'s; ' FROM cases;"])
@pytest.mark.parametrize("name", ["sqlite", "postgresql", "duckdb", "mariadb"])
def test_a_query_of_several_statements_is_refused(name: str, query: str) -> None:
    with (
        pytest.raises(SourceConfigurationError, match="query=: it holds several statements, separated by a semicolon"),
        session(live(name), query=query, key="id", loc="id"),
    ):
        pass


def test_a_semicolon_in_a_text_with_an_escaped_quote_ends_nothing() -> None:
    assert one_statement(r"SELECT 'it\'s; ok' AS a FROM t; -- x", "query=") == r"SELECT 'it\'s; ok' AS a FROM t"
    for query in ("SELECT a FROM t; # all of them", "SELECT a # a; b\nFROM t"):
        assert one_statement(query, "query=") == query.partition("; # all")[0]
    for banner in ("#" * 60, "-" * 60, "/* */ " * 30):  # a pattern that may split it in many ways takes hours
        with pytest.raises(SourceConfigurationError, match="several statements"):
            one_statement(f"SELECT 1;\n{banner}\nSELECT 2", "query=")
    assert one_statement("SELECT $$; ' $$ FROM t;", "query=") == "SELECT $$; ' $$ FROM t"


INVISIBLE = {
    "mariadb": "CREATE TABLE left_out (id BIGINT, slug VARCHAR(20), changed_at DATETIME INVISIBLE)",
    "clickhouse": "CREATE TABLE left_out (id Int64, slug String, changed_at DateTime ALIAS toDateTime(id)) ENGINE = Memory",
}


@pytest.mark.parametrize("name", [name for name in INVISIBLE if name in NAMES])
def test_a_column_that_the_table_leaves_out_is_named_with_the_query_to_write(name: str) -> None:
    base = live(name)
    base.run("DROP TABLE IF EXISTS left_out", INVISIBLE[name])
    given = {"key": "id", "loc": "slug"}
    with (
        pytest.raises(
            SourceConfigurationError, match=r"lastmod='changed_at': SELECT \* leaves .*query='SELECT …, changed_at FROM"
        ),
        session(base, table="left_out", **given, lastmod="changed_at"),
    ):
        pass
    with (
        pytest.raises(SourceConfigurationError, match="lastmod='changed_by': there is no such column"),
        session(base, table="left_out", **given, lastmod="changed_by"),
    ):
        pass
    query = "SELECT id, slug, changed_at FROM left_out"
    with session(base, query=query, **given, lastmod="changed_at") as source:
        assert source.survey([KeyRange(None, None)]).digests[0].rows == 0


def test_a_missing_grant_is_named() -> None:
    base = live("postgresql")
    create(base, "h", {"id": "integer", "slug": "text"})
    base.run("DROP ROLE IF EXISTS stranger", "CREATE ROLE stranger")
    for source in ({"table": "h"}, {"query": "SELECT * FROM h"}):
        with (
            pytest.raises(
                SourceConfigurationError, match=r"permission denied for table h.*: GRANT SELECT ON"
            ) as caught,
            session(base, **source, key="id", loc="slug", session=("SET ROLE stranger",)),
        ):
            pass
        assert "Did you mean" not in str(caught.value)


def test_a_missing_grant_of_mariadb_is_named_with_the_user() -> None:
    base = live("mariadb")
    create(base, "h", {"id": "integer", "slug": "text"})
    base.run(
        "DROP USER IF EXISTS stranger@localhost",
        "CREATE USER stranger@localhost",
        "GRANT INSERT ON h TO stranger@localhost",
    )
    stranger = replace(base, url=base.url.replace("root@", "stranger@"))
    with (
        pytest.raises(
            SourceConfigurationError, match=r"role 'stranger' lacks a permission: GRANT SELECT ON h TO stranger"
        ),
        session(stranger, table="h", key="id", loc="slug"),
    ):
        pass


@pytest.mark.parametrize("reader", ["auto", "cursor"])
def test_lists_and_structs_of_duckdb_are_json(reader: str) -> None:
    base = live("duckdb")
    images = "[{'loc': 'https://x.test/a, b.jpg'}, {'loc': 'https://x.test/é''.jpg'}]"
    base.run(
        "CREATE OR REPLACE TABLE nested (id INTEGER, slug VARCHAR, images STRUCT(loc VARCHAR)[])",
        f"INSERT INTO nested VALUES (1, 'a', {images}), (2, 'b', NULL)",
    )
    with session(base, table="nested", key="id", loc="slug", images="images", reader=reader) as source:
        given = [row["images"] for batch in source.read([KeyRange(None, None)]) for row in batch.to_pylist()]
    assert [each and json.loads(each) for each in given] == [
        [{"loc": "https://x.test/a, b.jpg"}, {"loc": "https://x.test/é'.jpg"}],
        None,
    ]


def test_times_without_a_zone_are_read_in_the_sections() -> None:
    for name in ("postgresql", "duckdb"):
        base = live(name)
        create(base, "naive", {"id": "integer", "lm": "timestamp"})
        # The second does not exist in Berlin, the third is there twice.
        base.run(
            "INSERT INTO naive VALUES (1, '2024-07-01 12:00:00'), (2, '2024-03-31 02:30:00'), (3, '2024-10-27 02:30:00')"
        )
        with session(base, table="naive", key="id", loc="id", lastmod="lm", timezone="Europe/Berlin") as source:
            found = [v for batch in source.read([KeyRange(None, None)]) for v in batch["lastmod"].to_pylist()]
        assert [v.isoformat() for v in found] == [
            "2024-07-01T10:00:00+00:00", "2024-03-31T01:30:00+00:00", "2024-10-27T00:30:00+00:00",
        ]  # fmt: skip


# ---------------------------------------------------------------- Airflow's connections


def test_a_connection_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_WAREHOUSE", "sqlite:///x")
    with (
        pytest.raises(SourceConfigurationError, match=r"'warehose' is not defined.*'warehouse'"),
        SqlSource("warehose", **GOOD).open(section="s"),
    ):
        pass


@pytest.mark.parametrize("name", ["sqlite", "postgresql", "duckdb", "mariadb"])
def test_a_connection_that_names_its_engine(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    base = live(name)
    create(base, "joined", {"id": "integer", "slug": "text"})
    base.insert("joined", [{"id": 1, "slug": "a"}, {"id": 2, "slug": "b"}])
    connection = {"conn_type": "generic", "extra": {"sqlalchemy_url": base.url}}
    monkeypatch.setenv("AIRFLOW_CONN_LIVE", json.dumps(connection))
    with SqlSource("live", table="joined", key="id", loc="slug").open(section="s") as source:
        assert source.survey([KeyRange(None, None)]).digests[0].rows == 2
        assert [loc for batch in source.read([KeyRange(None, None)]) for loc in batch["loc"].to_pylist()] == ["a", "b"]
        assert source.now().utcoffset() == timedelta(0)


def test_a_connection_of_airflows_own_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    base = live("postgresql")
    create(base, "hooked", {"id": "integer", "slug": "text"})
    base.insert("hooked", [{"id": 1, "slug": "a"}])
    folder = base.url.partition("host=")[2]
    monkeypatch.setenv("AIRFLOW_CONN_HOOKED", json.dumps({
        "conn_type": "postgres", "login": "postgres", "schema": "postgres", "host": folder,
    }))  # fmt: skip
    source = SqlSource("hooked", table="hooked", key="id", loc="slug")
    with source.open(section="s") as opened:
        with postgresql_readers.opened(opened.context, opened.engine):
            pass
        assert [loc for batch in opened.read([KeyRange(None, None)]) for loc in batch["loc"].to_pylist()] == ["a"]


def test_no_secret_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "postgresql+psycopg://me:hunter2secret@127.0.0.1:1/db?connect_timeout=1"
    monkeypatch.setenv("AIRFLOW_CONN_CLOSED", json.dumps({"conn_type": "generic", "extra": {"sqlalchemy_url": url}}))
    monkeypatch.setenv("AIRFLOW_CONN_ODD", json.dumps({"conn_type": "generic", "password": "hunter2secret"}))
    wrong = url.replace("postgresql+psycopg", "nonsense")
    monkeypatch.setenv("AIRFLOW_CONN_WRONG", json.dumps({"conn_type": "generic", "extra": {"sqlalchemy_url": wrong}}))
    for conn_id, kind in (
        ("closed", SourceError),
        ("odd", SourceConfigurationError),
        ("wrong", SourceConfigurationError),
    ):
        source = SqlSource(conn_id, **GOOD)
        with pytest.raises(kind, match=conn_id) as caught, source.open(section="s"):
            pass
        assert "hunter2" not in str(caught.value)
        assert "hunter2" not in source.describe() + json.dumps(source.identity())


def test_a_plain_process_needs_no_metadata_database(tmp_path: Path) -> None:
    base = live("sqlite")
    create(base, "plain", {"id": "integer", "slug": "text"})
    base.insert("plain", [{"id": 1, "slug": "a"}])
    code = (
        "from airflow_sitemaps.sources.sql import SqlSource\n"
        "from airflow_sitemaps.shards.ranges import KeyRange\n"
        "with SqlSource('plain', table='plain', key='id', loc='slug').open(section='s') as source:\n"
        "    print('rows', source.survey([KeyRange(None, None)]).digests[0].rows)\n"
    )
    connection = json.dumps({"conn_type": "generic", "extra": {"sqlalchemy_url": base.url}})
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")
    } | {"AIRFLOW_HOME": str(tmp_path), "AIRFLOW_CONN_PLAIN": connection}  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-2_000:]
    assert "rows 1" in done.stdout
    assert not list(tmp_path.glob("*.db"))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"query": "SELECT * FROM pages WHERE day <= '{{ ds }}'"}, "query=: the template '{{ ds }}'"),
        ({"table": "pages", "where": "{% if x %} a {% endif %}"}, "where=: the template '{% if x %}'"),
        (
            {"table": "pages", "where": "day <= :a", "parameters": {"a": "{{ run_after }}"}},
            r"parameters\['a'\]: the template",
        ),
    ],
)
def test_a_template_that_is_not_rendered_never_reaches_the_database(arguments: dict[str, Any], named: str) -> None:
    """SQLite and MySQL compare it as text, so that a condition on a date selects every row, or none."""
    source = SqlSource("db", loc="url", **arguments)
    with pytest.raises(TemplateError, match=named), source.open(section="pages"):
        pass
    with (
        pytest.raises(ConnectionNotFoundError),
        source.rendered(lambda text: text.replace("{{ ds }}", "{{ a value of the user's }}")).open(section="pages"),
    ):
        pass


def test_a_set_of_values_has_one_fingerprint_in_every_process() -> None:
    """The order of a set of texts differs between processes."""
    code = (
        "from airflow_sitemaps import SqlSource; "
        "s = SqlSource('w', table='t', loc='url', where='shop IN :shops', parameters={'shops': set('abcdefgh')}); "
        "print(s.identity())"
    )
    identities = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(identities) == 1


@pytest.mark.parametrize("name", ["sqlite", "duckdb"])
def test_a_query_that_selects_a_column_twice_is_refused(name: str) -> None:
    base = live(name)
    create(base, "twice", {"id": "integer", "slug": "text"})
    base.insert("twice", [{"id": 1, "slug": "own"}])
    query = "SELECT src.*, 'other' AS {} FROM twice src WHERE id > :least"
    for word in ("slug", "SLUG"):
        with (
            pytest.raises(SourceConfigurationError, match="loc='slug': the query selects this column twice"),
            session(base, query=query.format(word), parameters={"least": 0}, key="id", loc="slug"),
        ):
            pass
    with session(base, query=query.format("slug_1"), parameters={"least": 0}, key="id", loc="slug") as source:
        assert source.survey([KeyRange(None, None)]).digests[0].rows == 1
