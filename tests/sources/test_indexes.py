"""What the databases' indexes say of a key: it only chooses between equal statements, but must not be wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.source_sessions import SQL_BACKENDS, live, session

if TYPE_CHECKING:
    from collections.abc import Sequence

DATABASES = sorted({name.partition("-")[0] for name in SQL_BACKENDS})
CREATED: set[str] = set()


def facts(database: str, table: str, key: str | Sequence[str]) -> tuple[bool, bool]:
    """Whether the key is unique and indexed, as an opened source knows it."""
    base = live(database)
    if database not in CREATED:
        CREATED.add(database)
        q = base.quote
        whole, text = base.types["integer"], "VARCHAR(50)"
        base.run(
            f"CREATE TABLE {q('ix_all')} (a {whole} NOT NULL PRIMARY KEY, b {whole} NOT NULL, c {whole} NOT NULL, url {text})",
            f"CREATE UNIQUE INDEX ix_all_bc ON {q('ix_all')} (b, c)",
            f"CREATE INDEX ix_all_c ON {q('ix_all')} (c)",
            f"CREATE VIEW ix_view AS SELECT a, b, c, url FROM {q('ix_all')}",
        )
        if database == "sqlite":
            base.run(
                "CREATE TABLE ix_part (a INTEGER, url TEXT)",
                "CREATE UNIQUE INDEX ix_part_a ON ix_part (a) WHERE url > ''",
            )
        if database == "postgresql":
            base.run(
                "CREATE SCHEMA ix_else",
                'CREATE TABLE ix_else."Of some.name" (a integer, b integer, c integer, url text, UNIQUE (c) DEFERRABLE)',
                'CREATE UNIQUE INDEX ON ix_else."Of some.name" (a) WHERE b > 0',
                'CREATE UNIQUE INDEX ON ix_else."Of some.name" ((a + 1))',
                'CREATE UNIQUE INDEX ON ix_else."Of some.name" (b) INCLUDE (a)',
            )
    with session(base, table=table, key=key, loc="url") as opened:
        return opened.context.unique, opened.context.indexed


@pytest.mark.parametrize("database", DATABASES)
@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("a", (True, True)),
        ("b", (False, True)),
        ("c", (False, True)),
        (("b", "c"), (True, True)),
        (("c", "b"), (True, False)),
        (("a", "c"), (True, False)),
        ("url", (False, False)),
    ],
    ids=str,
)
def test_of_a_table(database: str, key: str | tuple[str, ...], expected: tuple[bool, bool]) -> None:
    unique, indexed = facts(database, "ix_all", key)
    if database == "duckdb":  # where only the primary key is read, and no index serves ranges
        expected = ("a" in key, False)
    assert (unique, indexed) == expected


@pytest.mark.parametrize("database", DATABASES)
def test_of_a_view_nothing_is_known(database: str) -> None:
    assert facts(database, "ix_view", "a") == (False, False)


def test_of_a_partial_index_of_sqlite_nothing_is_known() -> None:
    assert facts("sqlite", "ix_part", "a") == (False, False)


def test_a_key_of_a_table_with_children_is_not_unique() -> None:
    facts("postgresql", "ix_all", "a")
    base = live("postgresql")
    base.run("CREATE TABLE ix_child () INHERITS (ix_all)")
    try:
        assert facts("postgresql", "ix_all", "a") == (False, True)
    finally:
        base.run("DROP TABLE ix_child")


@pytest.mark.parametrize(
    ("key", "expected"),
    [("a", (False, False)), ("c", (False, True)), ("b", (True, True)), (("b", "a"), (True, False))],
    ids=str,
)
def test_partial_deferred_computed_and_including(key: str | tuple[str, ...], expected: tuple[bool, bool]) -> None:
    facts("postgresql", "ix_all", "a")
    assert facts("postgresql", 'ix_else."Of some.name"', key) == expected
