"""Siblings: sources that are equal but for one equality, such as ``locale = 'de'``. One survey digests the rows of all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.shards.ranges import Key, KeyRange, Survey, cut, total
from airflow_sitemaps.sources.columns import NUMBERS, Kind
from airflow_sitemaps.sources.queries import CHANGING, Relation, boundaries, free_names, relation_of, survey
from airflow_sitemaps.sources.user_texts import loc_columns

if TYPE_CHECKING:
    import sqlalchemy as sa

    from airflow_sitemaps.sources.queries.context import QueryContext
    from airflow_sitemaps.sources.source_settings import SourceSettings

EQUALITY: Final = re.compile(
    r"""\s*(?P<column>[A-Za-z_]\w*|"(?:[^"]|"")+"|`[^`]+`)\s*=\s*(?P<value>'(?:[^'\\]|'')*'|-?\d+|:(?P<name>[A-Za-z_]\w*))"""
    r"\s*(?:\bAND\b(?P<rest>.*))?",
    re.IGNORECASE | re.DOTALL | re.ASCII,
)
PART: Final = "sitemap_part"
"""The parameter of the value in the condition that ``part_of`` writes."""
PARTS: Final = "sitemap_parts"
"""The parameter of the values that have sections of their own, in the condition of all other rows."""
OTHERS: Final = re.compile(
    rf"\((?P<column>.+?) NOT IN :{PARTS} OR (?P=column) IS NULL\)(?: AND (?P<rest>.*))?", re.DOTALL
)
LOOSER: Final = re.compile(r"(?<![^\W\d])(?:or|xor)\b|\|\||\?|--|/\*|#", re.IGNORECASE)
"""What binds looser than AND, even after a number (``1OR``), or hides the text after it."""
NEARLY_ALL: Final = 0.95
"""From this share of a table's rows on, a shared survey digests the other rows too."""
DIFFERING: Final = ("where", "parameters", "loc", "key")
"""Settings that siblings may write differently: the equality, its value, and the fixed text of a template."""


@dataclass(frozen=True, slots=True)
class Equality:
    """A condition of the form ``column = value AND rest``. ``name`` is that of the value's parameter, or None.

    The condition of the rows of all other values (see ``part_of``) counts as one with the parameter ``PARTS``.
    """

    column: str
    value: str
    name: str | None
    rest: str

    def value_in(self, source: SourceSettings) -> object:
        """Return the value as an object, in the condition of a source; the first one, if it names those that it lacks."""
        if self.name is not None:
            given = (source.parameters or {}).get(self.name)
            return given[0] if self.name == PARTS and given else given
        return self.value[1:-1].replace("''", "'") if self.value.startswith("'") else int(self.value)


def equality_of(where: str | None) -> Equality | None:
    """Return a condition's parts, or None if it does not begin with an equality to which all the rest is added by AND."""
    match = EQUALITY.fullmatch(where or "") or OTHERS.fullmatch(where or "")
    if match is None or CHANGING.fullmatch(match["column"]) or LOOSER.search(match["rest"] or ""):
        return None
    value, name = (match["value"], match["name"]) if match.re is EQUALITY else ("", PARTS)
    return Equality(match["column"], value, name, (match["rest"] or "").strip())


def part_of(column: str, value: object, others: Sequence[object], where: str | None) -> tuple[str, dict[str, object]]:
    """Return the condition and the parameters of the rows of a value of a column, or of none of some others if it is None."""
    name = PARTS if value is None else PART
    part = f"({column} NOT IN :{name} OR {column} IS NULL)" if value is None else f"{column} = :{name}"
    return part if where is None else f"{part} AND (\n{where}\n)", {name: list(others) if value is None else value}


def sibling_key(settings: SourceSettings) -> str | None:
    """Return a text that siblings have in common, or None if a source has none.

    Stored rows and an earlier state of the table belong to one source. A change log stands for a survey of its own. The
    rows of a group are joined within a source's own condition.
    """
    equality = equality_of(settings.where)
    if equality is None or settings.materialize or settings.state or settings.change_log or settings.group:
        return None
    values = dict(settings.parameters or {})
    kind = type(equality.value_in(settings))
    values.pop(equality.name or "", None)
    elsewhere = equality.name is not None and f":{equality.name}" in f"{settings.query_text()} {equality.rest}"
    if kind not in (str, int, bool) or elsewhere:
        return None
    same = [getattr(settings, each.name) for each in fields(settings) if each.init and each.name not in DIFFERING]
    own = [settings.query_text(), list(settings.key_columns), list(loc_columns(settings.loc))]
    # MariaDB compares a list of texts and numbers as numbers, other than each alone.
    is_part = equality.name in (PART, PARTS)  # the rows of all others are those that no section of the family has
    return repr([*same, *own, kind, equality.column, equality.rest, sorted(values.items()), is_part])


def relation_of_source(settings: SourceSettings) -> Relation:
    """Return the rows that a source reads."""
    return relation_of(settings.table, settings.query_text(), settings.where, settings.parameters or {})


def are_numbers_in_text(context: QueryContext, connection: sa.Connection, source: SourceSettings) -> bool:
    """Return whether a sibling compares another column than one of numbers with a number.

    MariaDB then compares texts as numbers, but groups them by their collation.
    """
    equality = equality_of(source.where)
    if equality is None or isinstance(equality.value_in(source), str):
        return False
    name = equality.column.strip('"`')
    columns = context.dialect.describe(connection, relation_of_source(source), [name, name.lower(), name.upper()])
    kinds = {column.kind for column in columns.values() if column.name.lower() == name.lower()}
    return not kinds <= {*NUMBERS, Kind.BOOLEAN}


def take(
    context: QueryContext,
    connection: sa.Connection,
    siblings: Sequence[SourceSettings],
    ranges: Sequence[Sequence[KeyRange]],
    admit: Callable[[Sequence[KeyRange], QueryContext], None],
    *,
    urgent: bool = False,
) -> list[Survey]:
    """Return the survey that each of some siblings would take of its ranges, by one statement for all.

    ``admit`` is called with the ranges and the context of the statement before it runs, and raises an error to refuse it.
    Raises SourceError if the key's type refuses a boundary, or one row may belong to two of the sources.
    """
    whole, values, places = _together(context, connection, siblings)
    ranks = _ranks(
        context, connection, [key for own in ranges for within in own for key in (within.lower, within.upper)]
    )
    pieces = cut(KeyRange(None, None), list({rank: key for key, rank in ranks.items()}.values()))
    admit(pieces, whole)
    by_value = survey.by_value(whole, connection, pieces, values, urgent=urgent)
    nulls = survey.null_keys_by_value(whole, connection, values)
    surveys = []
    for source, own, place in zip(siblings, ranges, places, strict=True):
        digests, absent = by_value[place], nulls[place]
        alone = replace(context, relation=relation_of_source(source))
        null_keys, samples = survey.null_keys(alone, connection) if absent else (0, ())
        sums = [
            total(digests[_place(ranks, within.lower, 0) : _place(ranks, within.upper, len(pieces))]) for within in own
        ]
        surveys.append(Survey(digests=tuple(sums), null_keys=null_keys, null_key_samples=samples))
    return surveys


def values(
    context: QueryContext, connection: sa.Connection, column: str, least: int, most: int
) -> list[tuple[str | int | bool, int]]:
    """Return up to ``most`` values of a column that at least ``least`` rows have, with their rows, the largest first.

    Raises SourceConfigurationError if the column holds something else than texts, whole numbers and booleans.
    """
    statement = context.relation.binds().statement(
        f"SELECT src.{column} AS part, COUNT(*) AS part_rows FROM {context.from_item} WHERE src.{column} IS NOT NULL"
        f" GROUP BY src.{column} HAVING COUNT(*) >= {least} ORDER BY COUNT(*) DESC"
    )
    result = []
    for value, rows in connection.execute(*statement).fetchmany(most):
        whole = int(value) if isinstance(value, Decimal) and value == value.to_integral_value() else value
        if not isinstance(whole, (str, int)):
            raise SourceConfigurationError(
                f"{context.name}: Section.each({column!r}): the column holds a {type(value).__name__}; give a column of texts, whole "
                "numbers or booleans, or a query= that casts it"
            )
        result.append((whole, int(rows)))
    return result


def _together(
    context: QueryContext, connection: sa.Connection, siblings: Sequence[SourceSettings]
) -> tuple[QueryContext, survey.Values, list[int]]:
    """Return a context of the rows of all siblings, the values that distinguish them, and the position of each one's.

    If the values are those of nearly all rows, the context's relation has all rows: a comparison of each row with a list of
    values costs more than to digest the few others.
    """
    equalities = [equality for each in siblings if (equality := equality_of(each.where)) is not None]
    first = equalities[0]
    parameters = {name: value for name, value in (siblings[0].parameters or {}).items() if name != first.name}
    given = [each.value_in(source) for each, source in zip(equalities, siblings, strict=True)]
    texts = {value: each.value for value, each in zip(given, equalities, strict=True) if each.name is None}
    lacked = next((s.parameters[PARTS] for s in siblings if s.parameters and PARTS in s.parameters), None)
    bound = [value for value in dict.fromkeys(lacked or given) if value not in texts]
    for name, value in zip(free_names("sibling", len(bound), parameters), bound, strict=True):
        parameters[name] = value
        texts[value] = f":{name}"
    conditions = [first.rest] if first.rest else []
    share = 1.0 if lacked else context.dialect.share(connection, siblings[0].table, first.column, list(texts))
    if share < NEARLY_ALL:
        conditions.insert(0, f"{first.column} IN ({', '.join(texts.values())})")
    where = " AND ".join(conditions) or None
    relation = relation_of(siblings[0].table, siblings[0].query_text(), where, parameters)
    values = survey.Values(first.column, tuple(texts.values()))
    places = [
        len(texts) if equality.name == PARTS else list(texts).index(value)
        for equality, value in zip(equalities, given, strict=True)
    ]
    return replace(context, relation=relation), values, places


def _ranks(context: QueryContext, connection: sa.Connection, given: Iterable[Key | None]) -> dict[Key, int]:
    """Return the boundaries in the database's order, with the position of each. Equal ones share a position."""
    keys = list(dict.fromkeys(key for key in given if key is not None))
    if all(column.kind is Kind.INTEGER for column in context.key):
        return {key: place for place, key in enumerate(sorted(keys))}
    ranks = boundaries.rank_unsorted(context, connection, keys) if keys else []
    return dict(sorted(zip(keys, ranks, strict=True), key=lambda pair: pair[1]))


def _place(ranks: dict[Key, int], edge: Key | None, end: int) -> int:
    """Return the number of pieces before an edge of a range. ``end`` is that of an open edge."""
    return end if edge is None else ranks[edge] + 1
