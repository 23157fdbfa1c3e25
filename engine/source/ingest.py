"""Encodes the source: cells become integer codes in one table, in one pass that streams.

Takes the opened source and the columns of the spec; gives the table `rows` (BIGINT columns `c0, c1, ...` for data, `e0,
e1, ...` for entities), dictionaries of the ranked columns and tables `entity_0(id, value), ...`. All of it is
confidential and stays in the connection. Invariant: no cell is dropped or guessed at; whatever does not fit the spec is
a `DataError` that names column and rule, never a value or a number of rows. In mode dp nothing of the data ends a
build: what the public domains do not hold is moved, counted as `other` or left out, as declared, so that a row that
nobody expected changes the counts by what any row may.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

from engine.errors import DataError, InternalError, SpecError
from engine.params import MissingIds
from engine.progress import Progress, silent
from engine.schema import (
    DATE_KINDS,
    NULL_CODE,
    NUMBER_KINDS,
    OTHER_CODE,
    Column,
    Entity,
    Int64Array,
    Prefix,
    UInt64Array,
    columns_of,
    entity_columns,
    quoted,
)
from engine.source.encoding import (
    CODE_LIMIT,
    cell_class,
    cell_sql,
    code_sql,
    grid_code,
    id_sql,
    value_sql,
)
from engine.source.relation import Source, drop, fetch, rename, stored

if TYPE_CHECKING:
    from engine.source.spark.rows import SparkRows

_PLACE = "the source"
_NULL = f"CAST({NULL_CODE} AS BIGINT)"
_LISTED = {
    "integer": "BIGINT",
    "real": "DOUBLE",
    "decimal": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "time": "TIME",
    "text": "VARCHAR",
}
"""DuckDB's types of typed values."""
_NEARLY_ALL = 0.8
"""So many ids to a row, about, and it is looked at whether every row has one of its own."""
_SUM = "count({0}), sum(hash({0}))"
"""SQL that tells ids from others."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ingested:
    """The encoded source. Confidential."""

    con: duckdb.DuckDBPyConnection  # Holds `rows` and `entity_<j>`
    columns: tuple[Column, ...]  # Data columns, sorted by name
    sql_names: dict[str, str]  # Data column name -> its column in `rows`
    # Ranked column name -> its distinct values, ascending (text by code point); a code is a position in it.
    dictionaries: dict[str, tuple[Any, ...]] = field(repr=False)
    entity_names: tuple[Entity, ...]  # Kinds of entities, in the order of e0, e1, ..
    n_rows: int = field(repr=False)
    # Entity columns, by position, that name another entity in every row: `e<j>` holds the id itself, and
    # `entity_<j>` is a view of it. Numbers for so many ids would cost two joins as long as the source.
    own_ids: frozenset[int] = frozenset()
    # Mode dp: what the custodian is told in writing, by what it is about: rows of the source, rows left out, and
    # rows that do not hold what a column is declared to hold.
    unsettled: dict[str, int] = field(default_factory=dict, repr=False)
    # What holds the rows in the place of `con`, which then has the extremes of each column only.
    spark: SparkRows | None = field(default=None, repr=False)

    def ranks(self, name: str, released: Mapping[int, object]) -> Int64Array:
        """What becomes of the positions in a dictionary: codes of released values; null stands at the end.

        A value that is not released has the code of the longest prefix that it begins with, if there is one.
        """
        code_of = {value: code for code, value in released.items()}
        lengths = sorted(
            {len(one.text) for one in code_of if isinstance(one, Prefix)}, reverse=True
        )
        tree = next((column.tree for column in self.columns if column.name == name), {})

        def code(value: Any) -> int:
            if value in code_of:
                return code_of[value]
            above = reversed(tree.get(value, ())) if tree else (value[:n] for n in lengths)
            return next((code_of[one] for one in map(Prefix, above) if one in code_of), OTHER_CODE)

        codes = [code(value) for value in self.dictionaries[name]]
        return np.array([*codes, NULL_CODE], dtype=np.int64)

    def n_entities(self, number: int) -> int:
        """Number of distinct ids of one entity column, by its position in `entity_names`."""
        return int(fetch(self.con, f"SELECT count(*) FROM entity_{number}", _PLACE)[0][0])

    def entity_ids(
        self, number: int, *, chunk: int = 500_000, shown: str = "value"
    ) -> Iterator[list[Any] | Int64Array | UInt64Array]:
        """Distinct ids of one entity column, in the order of their dense numbers; of ids of their own, of the rows.

        shown: SQL of what is wanted of an id.

        Yields: int, float, bool, str, bytes, date or datetime; never None.
        """
        own = number in self.own_ids
        ids = f"SELECT rowid AS id, e{number} AS value FROM rows"
        of = f"({ids})" if own else f"entity_{number}"
        n = self.n_rows if own else self.n_entities(number)
        for first in range(0, n, chunk):
            found = self.con.execute(
                f"SELECT {shown} AS shown FROM {of} WHERE id >= {first} AND id < {first + chunk} ORDER BY id"
            )
            if found.description[0][1] in ("BIGINT", "UBIGINT"):
                yield np.asarray(found.fetchnumpy()["shown"])
            else:
                yield [value for (value,) in found.fetchall()]


@dataclass(frozen=True, kw_only=True, slots=True)
class Coded:
    """The columns that are coded, by their short names in `rows`."""

    columns: dict[str, Column]  # c0, c1, ..: data columns, sorted by name
    ids: dict[str, tuple[Column, ...]]  # e0, e1, ..: those that name each kind of entity

    @classmethod
    def of(cls, columns: Sequence[Column], entities: Sequence[Entity]) -> Coded:
        """Name them."""
        by_name, named = {column.name: column for column in columns}, entity_columns(entities)
        data = [by_name[name] for name in sorted(by_name) if name not in named]
        ids = [tuple(by_name[name] for name in columns_of(entity)) for entity in entities]
        return cls(
            columns={f"c{number}": column for number, column in enumerate(data)},
            ids={f"e{number}": of for number, of in enumerate(ids)},
        )

    @property
    def ranked(self) -> dict[str, Column]:
        return {short: column for short, column in self.columns.items() if column.is_ranked}

    @property
    def every(self) -> dict[str, tuple[Column, ...]]:
        return {short: (column,) for short, column in self.columns.items()} | self.ids

    @property
    def sql_names(self) -> dict[str, str]:
        return {column.name: short for short, column in self.columns.items()}


def ingest(
    con: duckdb.DuckDBPyConnection,
    source: Source,
    columns: tuple[Column, ...],
    entities: tuple[Entity, ...] = (),
    *,
    settle: MissingIds | None = None,
    report: Progress = silent,
) -> Ingested:
    """Encode the relation `source` into the table `rows`.

    settle: Mode dp: what becomes of rows that name no entity; what the domains do not hold is settled as declared,
        too, and nothing is refused for it.
    """
    check_columns(source, columns, entity_columns(entities))
    coded = Coded.of(columns, entities)
    own = {
        short: sums
        for short, of in coded.ids.items()
        if settle != "own" and (sums := _own_ids(con, source, of))
    }
    listed = [short for short in coded.ids if short not in own]
    n_steps = len(coded.ranked) + len(listed) + 2
    dictionaries: dict[str, tuple[Any, ...]] = {}
    for short, column in coded.ranked.items():
        report("reading", len(dictionaries) + 1, n_steps)
        if settle is not None and column.domain is not None:
            given = given_values(column), [list(column.domain)]
            # A cast that fails takes time for each value of the type, to say which is nearest.
            values = make_list(con, short, *given, source.place, also=_values(source, column))
        else:
            values = make_list(con, short, _values(source, column), place=source.place)
        dictionaries[column.name] = values
    for done, short in enumerate(listed, start=len(dictionaries) + 1):
        report("reading", done, n_steps)
        _list_ids(con, source, short, coded.ids[short])
    report("reading", n_steps - 1, n_steps)
    sizes = {short: len(dictionaries[column.name]) for short, column in coded.ranked.items()}
    _store(con, coded_sql(source, coded.every, listed, sizes), coded, source.place)
    for short in coded.ranked:
        fetch(con, f"DROP TYPE list_{short}", _PLACE)
    if not settle:
        check_rows(con, source, coded, lambda sql: fetch(con, sql, source.place))
        check_domains(con, coded, dictionaries)
    _check_own(con, source, own)
    unsettled = _settle(con, source.place, coded, settle) if settle else {}
    for short in own:
        ids = f"SELECT {short} AS id, {short} AS value FROM rows"
        fetch(con, f"CREATE VIEW entity_{short[1:]} AS {ids}", _PLACE)
    drop(con, "source", BELOW)
    return Ingested(
        con=con,
        columns=tuple(coded.columns.values()),
        sql_names=coded.sql_names,
        dictionaries=dictionaries,
        entity_names=entities,
        n_rows=int(fetch(con, "SELECT count(*) FROM rows", _PLACE)[0][0]),
        own_ids=frozenset(int(short[1:]) for short in own),
        unsettled=unsettled,
    )


def _values(source: Source, column: Column) -> str:
    """SQL of the distinct values of a column."""
    # Cells first, which cost least to compare: what each stands for is asked once.
    distinct = f"SELECT DISTINCT {quoted(column.name)} FROM source"
    value = value_sql(column, source.types[column.name], "cell")
    return f"SELECT DISTINCT {value} AS value FROM (SELECT {_cells(source, [column], ['cell'])} FROM ({distinct}))"


def given_values(column: Column) -> str:
    """SQL of values that are given as a parameter."""
    return f"SELECT unnest(CAST(? AS {_LISTED[column.value_type]}[])) AS value"


def make_list(
    con: duckdb.DuckDBPyConnection,
    short: str,
    select: str,
    given: Sequence[Any] = (),
    place: str = _PLACE,
    *,
    also: str = "",
) -> tuple[Any, ...]:
    """Make the type `list_<short>` of what a statement selects: a cell that is cast to it has its place, or none.

    A join with a table of the values would do, but many joins in a statement take for ever to plan.

    also: Selects further values of the type, behind the others.

    Returns: The values, ascending.
    """
    table = f"CREATE TEMP TABLE listed AS SELECT * FROM ({select}) WHERE value IS NOT NULL"
    fetch(con, table, place, given)
    texts = (
        "SELECT CAST(value AS VARCHAR) AS text, row_number() OVER (ORDER BY value) AS n FROM listed"
    )
    if also:
        texts += f" UNION ALL SELECT DISTINCT text, NULL FROM (SELECT CAST(value AS VARCHAR) AS text FROM ({also})) "
        texts += (
            "WHERE text IS NOT NULL AND text NOT IN (SELECT CAST(value AS VARCHAR) FROM listed)"
        )
    every = f"SELECT text FROM ({texts}) ORDER BY n NULLS LAST, text"
    fetch(con, f"CREATE TYPE list_{short} AS ENUM ({every})", place)
    values = tuple(v for (v,) in fetch(con, "SELECT value FROM listed ORDER BY value", place))
    fetch(con, "DROP TABLE listed", place)
    return values


def _settle(
    con: duckdb.DuckDBPyConnection, place: str, coded: Coded, missing_ids: MissingIds
) -> dict[str, int]:
    """Bring all codes into the declared domains and leave out the rows that are to be left out; say how many."""
    counts = unsettled_counts(coded, missing_ids)
    found = fetch(con, f"SELECT {', '.join(counts.values())} FROM rows", _PLACE)[0]
    for short in coded.ids if missing_ids == "own" else ():
        _own_entities(con, short)
    if any(found[1:]):
        fetch(con, "ALTER TABLE rows RENAME TO unsettled", _PLACE)
        codes, there = settled_codes(coded)
        select = f"SELECT * FROM (SELECT {', '.join(codes)} FROM unsettled) WHERE {there}"
        _store(con, select, coded, place)
        fetch(con, "DROP TABLE unsettled", _PLACE)
    return dict(zip(counts, map(int, found), strict=True))


def _own_entities(con: duckdb.DuckDBPyConnection, short: str) -> None:
    """Make an entity of its own of each row that names none; ids become texts that no such row's is equal to."""
    ids = f"entity_{short[1:]}"
    for statement in (
        f"ALTER TABLE {ids} ALTER value TYPE VARCHAR USING concat('id ', value)",
        f"CREATE TABLE nameless AS SELECT rowid AS r, row_number() OVER (ORDER BY rowid) - 1 + "
        f"(SELECT count(*) FROM {ids}) AS id FROM rows WHERE {short} IS NULL",
        f"UPDATE rows SET {short} = nameless.id FROM nameless WHERE rows.rowid = r",
        f"INSERT INTO {ids} SELECT id, concat('row ', id) FROM nameless",
        "DROP TABLE nameless",
    ):
        fetch(con, statement, _PLACE)


def check_columns(source: Source, columns: Sequence[Column], entities: Sequence[str]) -> None:
    """Every column is there and of a type that can be read."""
    wanted = dict.fromkeys([*(column.name for column in columns), *entities])
    missing = [name for name in wanted if name not in source.types]
    if missing:
        there = ", ".join(source.columns)
        raise SpecError(
            [f"columns.{name}: not in the source, which has: {there}" for name in missing]
        )
    undeclared = [name for name in entities if name not in {column.name for column in columns}]
    if undeclared:
        raise SpecError(
            [f"columns.{name}: the entity column is not declared" for name in undeclared]
        )
    problems = [f"column {n!r}: {source.unreadable[n]}" for n in wanted if n in source.unreadable]
    problems += [
        f"column {column.name!r}: is of type {source.types[column.name].partition('(')[0]}, which cannot be read"
        for column in columns
        if cell_class(source.types[column.name])
        in ("other", "" if column.name in entities else "blob")
    ]
    problems += [
        f"column {column.name!r}: holds both whole and other numbers as Python objects; "
        "convert it to one type, or declare it a number"
        for column in columns
        if column.name in source.mixed_numbers and column.value_type not in NUMBER_KINDS
    ]
    if problems:
        raise DataError("\n".join(problems))


def _list_ids(
    con: duckdb.DuckDBPyConnection, source: Source, short: str, columns: tuple[Column, ...]
) -> None:
    """Make `entity_<j>(id, value)`: the distinct ids, numbered from 0."""
    names = ", ".join(quoted(column.name) for column in columns)
    cells = [f"cell{j}" for j in range(len(columns))]
    fetch(
        con,
        f"CREATE TABLE entity_{short[1:]} AS SELECT row_number() OVER () - 1 AS id, value "
        f"FROM (SELECT DISTINCT {id_sql(columns, source.types, cells)} AS value "
        f"FROM (SELECT {_cells(source, columns, cells)} FROM (SELECT DISTINCT {names} FROM source))) "
        "WHERE value IS NOT NULL",
        source.place,
    )


def _cells(source: Source, columns: Sequence[Column], names: Sequence[str]) -> str:
    """SQL of the cells of columns, under other names."""
    return ", ".join(
        f"{cell_sql(column, source.types[column.name])} AS {name}"
        for column, name in zip(columns, names, strict=True)
    )


def _own_ids(
    con: duckdb.DuckDBPyConnection, source: Source, columns: tuple[Column, ...]
) -> tuple[Any, ...] | None:
    """Number and sum of the hashes of all ids, where every row has one of its own; a null among them is found later."""
    cells = [cell_sql(column, source.types[column.name]) for column in columns]
    ids = f"SELECT {id_sql(columns, source.types, cells)} AS value FROM source"
    about = f"approx_count_distinct(value) >= {_NEARLY_ALL} * count(value)"
    found = fetch(con, f"SELECT {about}, {_SUM.format('value')} FROM ({ids})", source.place)[0]
    if not found[0]:
        return None
    twice = f"SELECT 1 FROM ({ids}) WHERE value IS NOT NULL GROUP BY value HAVING count(*) > 1"
    if fetch(con, f"SELECT EXISTS ({twice})", source.place)[0][0]:
        return None
    return found[1:]


def _check_own(
    con: duckdb.DuckDBPyConnection, source: Source, own: Mapping[str, tuple[Any, ...]]
) -> None:
    """Ids that no row shared when they were looked at are so still: the rows were read after that."""
    for short, looked_at in own.items():
        if fetch(con, f"SELECT {_SUM.format(short)} FROM rows", _PLACE)[0] != looked_at:
            raise DataError(f"{source.place}: changed while it was read; build again")


def _store(con: duckdb.DuckDBPyConnection, select: str, coded: Coded, place: str) -> None:
    """Make `rows` of what a statement selects."""
    nullable = {short for short, column in coded.columns.items() if column.nullable}
    how = stored(con, select, place, nullable, may_misfit=True)
    fetch(con, f"CREATE OR REPLACE TABLE rows ({how.ddl})", place)
    fetch(con, f"INSERT INTO rows ({how.names}) SELECT {how.values} FROM ({select})", place)


def coded_sql(
    source: Source,
    chosen: Mapping[str, tuple[Column, ...]],
    listed: Collection[str],
    sizes: Mapping[str, int],
) -> str:
    """The SELECT that gives the codes of columns, NULL where a cell does not fit, and the ids of entities.

    listed: Of the entities those whose ids have numbers. sizes: How many values the list of each ranked column has.
    """
    # Cells by short names: what is made of one names it a dozen times, and planning that costs more than small sources.
    cells, inner, outer, joins = [], [], [], ""
    for short, columns in chosen.items():
        names = [f"{short}_cell{j}" for j in range(len(columns))]
        cells.append(_cells(source, columns, names))
        value = id_sql(columns, source.types, names)
        if short.startswith("e"):
            inner.append(f"{value} AS {short}_value")
            outer.append(
                f"{f'entity_{short[1:]}.id' if short in listed else f'{short}_value'} AS {short}"
            )
            if short in listed:
                joins += (
                    f" LEFT JOIN entity_{short[1:]} ON entity_{short[1:]}.value = {short}_value"
                )
            continue
        if columns[0].is_ranked:
            place = f"enum_code(TRY_CAST(CAST({value} AS VARCHAR) AS list_{short}))"
            code = f"CASE WHEN {place} < {sizes[short]} THEN {place} END"
        else:
            code = code_sql(columns[0], source.types[columns[0].name], *names)
        inner += [f"{names[0]} IS NULL AS {short}_null", f"{code} AS {short}_code"]
        code = f"CASE WHEN {short}_null THEN {_NULL} ELSE {short}_code END"
        outer.append(f"CAST({code} AS BIGINT) AS {short}")
    rows = f"SELECT {', '.join(inner)} FROM (SELECT {', '.join(cells)} FROM source)"
    return f"SELECT {', '.join(outer)} FROM ({rows}){joins}"


def check_rows(con: duckdb.DuckDBPyConnection, source: Source, coded: Coded, look: Flags) -> None:
    """Find the columns with cells that did not fit, and say what is wrong with each."""
    chosen = coded.every
    filled = fetch(
        con,
        f"SELECT {', '.join(f'count({short}) = count(*)' for short in chosen)} FROM rows",
        _PLACE,
    )[0]
    bad = [short for short, is_full in zip(chosen, filled, strict=True) if not is_full]
    problems = [
        sentence
        for short in bad
        for column in chosen[short]
        for sentence in why_unfit(look, source, column, is_entity=short.startswith("e"))
    ]
    if problems:
        raise DataError("\n".join(dict.fromkeys(problems)))
    if bad:
        raise InternalError("cells that fit what the spec declares have no code")


def check_domains(
    con: duckdb.DuckDBPyConnection, coded: Coded, dictionaries: Mapping[str, tuple[Any, ...]]
) -> None:
    """Refuse values, and nulls, outside what the spec declares."""
    problems, asked = [], {}
    for short, column in coded.columns.items():
        place = f"column {column.name!r}: holds a"
        if not column.nullable:
            asked[f'{place} null, declared "nullable = false"'] = f"{short} = {_NULL}"
        values = dictionaries.get(column.name, ())
        if column.domain is not None and not set(values) <= set(column.domain):
            problems.append(f'{place} value outside its declared "domain"')
        if column.bounds is not None:
            low, high = (grid_code(column, value) for value in column.bounds)
            beyond = f"{short} <> {_NULL} AND {short} NOT BETWEEN {low} AND {high}"
            asked[f'{place} value outside its declared "domain" (min, max)'] = beyond
    if asked:
        flags = ", ".join(f"coalesce(bool_or({one}), false)" for one in asked.values())
        found = fetch(con, f"SELECT {flags} FROM rows", _PLACE)[0]
        problems += [problem for problem, is_so in zip(asked, found, strict=True) if is_so]
    if problems:
        raise DataError("\n".join(problems))


CODE, ABOVE = "tablepack_code", "tablepack_above"
"""Columns of the lists of codes: named so that no column of the source hides behind one."""
BELOW = "source_without_levels"
"""What the relation `source` is called that levels were added to."""


def with_levels(source: Source, columns: Sequence[Column]) -> Source:
    """What is known of a source that has the levels of its hierarchies, each beside its codes."""
    levels = _levels(columns, source.types)
    taken = {name.casefold() for name in source.columns}
    problems = [
        f"columns.{base}.hierarchy: its level {name} is another column of the source; rename that"
        for name, (base, _) in levels.items()
        if name.casefold() in taken
    ]
    if problems:
        raise SpecError(problems)
    below = {c: [name for name, (base, _) in levels.items() if base == c] for c in source.columns}
    return replace(
        source,
        columns=tuple(chain.from_iterable((c, *below[c]) for c in source.columns)),
        types={**source.types, **dict.fromkeys(levels, "VARCHAR")},
    )


def level_columns(
    con: duckdb.DuckDBPyConnection, columns: Sequence[Column], types: Mapping[str, str]
) -> list[str]:
    """SQL of the levels beside the columns of a relation; lists of codes are put into tables of the connection."""
    by_name, added = {column.name: column for column in columns}, []
    for number, (name, (base, level)) in enumerate(_levels(columns, types).items()):
        column, type_ = by_name[base], types[base]
        text = value_sql(column, type_, cell_sql(column, type_))
        if column.tree:
            above = {
                code: path[level - 1] for code, path in column.tree.items() if len(path) >= level
            }
            if column.other is not None:  # codes that are no value count as it, at every level
                inner = column.tree.keys() - {*(column.domain or ())}
                above |= dict.fromkeys(inner, by_name[name].other)
            con.execute(
                f"CREATE OR REPLACE TEMP TABLE level_{number} AS SELECT unnest(?::VARCHAR[]) AS {CODE}, "
                f"unnest(?::VARCHAR[]) AS {ABOVE}",
                [[*above], [*above.values()]],
            )
            found = f"(SELECT any_value({ABOVE}) FROM level_{number} WHERE {CODE} = {text})"
            added.append(f"coalesce({found}, {text}) AS {quoted(name)}")
        else:
            added.append(f"left({text}, {level}) AS {quoted(name)}")
    return added


def add_levels(con: duckdb.DuckDBPyConnection, source: Source, columns: Sequence[Column]) -> Source:
    """Put a view over the relation `source` that has the levels of its hierarchies, too."""
    found = with_levels(source, columns)
    added = level_columns(con, columns, source.types)
    if not added:
        return source
    rename(con, "source", BELOW)
    fetch(
        con,
        f"CREATE OR REPLACE TEMP VIEW source AS SELECT *, {', '.join(added)} FROM {BELOW}",
        source.place,
    )
    return found


def _levels(columns: Sequence[Column], types: Mapping[str, str]) -> dict[str, tuple[str, int]]:
    """Of each level the column whose level it is, where the source has that, and which."""
    return {
        column.name: column.level_of
        for column in columns
        if column.level_of is not None and column.level_of[0] in types
    }


_KIND_WORDS = {
    "integer": "whole numbers",
    "real": "numbers",
    "decimal": "decimal numbers",
    "boolean": "true, false, 1 or 0",
    "date": "dates (YYYY-MM-DD)",
    "timestamp": "timestamps (YYYY-MM-DD HH:MM:SS)",
    "time": "times of day (HH:MM:SS, HH:MM or HH:MM AM)",
    "text": "text",
}


Flags = Callable[[str], list[tuple[Any, ...]]]
"""Gives one row of what a SELECT of aggregated flags over the relation `source` finds."""
N_FLAGS = 4
"""Flags that are asked for at a time."""


def why_unfit(look: Flags, source: Source, column: Column, *, is_entity: bool) -> list[str]:
    """Say what is wrong with the cells of a column of the relation `source`.

    Returns: One sentence a fault; none holds a value of the data or a number of rows.
    """
    sql_type = source.types[column.name]
    cell, cell_type = cell_sql(column, sql_type), cell_class(sql_type)
    is_list = column.is_ranked or is_entity
    code = (value_sql if is_list else code_sql)(column, sql_type, cell)
    wanted = column.value_type if is_list else column.kind
    is_infinite = f"lower(trim(CAST({cell} AS VARCHAR), ' +-')) IN ('inf', 'infinity')"
    big = _is_too_large(cell_type, wanted, cell)
    has_null, has_infinite, has_big, has_other = look(
        f"SELECT bool_or({cell} IS NULL), bool_or({cell} IS NOT NULL AND {code} IS NULL AND {is_infinite}), "
        f"bool_or({cell} IS NOT NULL AND {code} IS NULL AND NOT {is_infinite} AND {big}), "
        f"bool_or({cell} IS NOT NULL AND {code} IS NULL AND NOT {is_infinite} AND NOT {big}) "
        "FROM source"
    )[0]
    problems = []
    place = f"column {column.name!r}"
    if is_entity and has_null:
        problems.append(f"{place}: an entity id is null; every row must name its entity")
    if has_infinite:
        problems.append(
            f"{place}: holds infinite values; write them as null or leave these rows out"
        )
    if has_big and wanted == "integer" and cell_type == "float":
        problems.append(
            f"{place}: holds whole numbers beyond 2**53 (or infinite ones) as floating-point numbers, "
            "which cannot tell them apart; read them as integers or as text"
        )
    elif has_big:
        problems.append(
            f"{place}: holds numbers beyond 63 bits of its resolution; use a coarser one, or text"
        )
    if has_other:
        words, way, form = _KIND_WORDS[wanted], "", column.writing.date_format
        if cell_type == "text" and wanted in (*DATE_KINDS, *NUMBER_KINDS):
            keys = (
                'date_format, such as "%d.%m.%Y"'
                if wanted in DATE_KINDS
                else 'decimal, such as ","'
            )
            way = f"; written in another way, they want {keys}, in [source] or in the column's section"
            if wanted in DATE_KINDS and form:
                years = f" in the years {column.writing.century}"
                years = years if column.writing.has_short_years else ""
                words = f'{wanted}s written as date_format = "{form}" has it{years}'
        other = '"real" if they have fractions' if wanted == "integer" else '"category"'
        problems.append(
            f"{place}: holds values that are not {words}, as declared or detected "
            f'({"type" if is_list else "kind"} = "{wanted}"); declare another kind, such as {other} or '
            f'"text", or add the spelling of null to "nulls"{way}'
        )
    return problems


def _is_too_large(cell_type: str, wanted: str, cell: str) -> str:
    """Condition: a cell that has no code is a number all the same."""
    if wanted not in NUMBER_KINDS or cell_type not in (
        "text",
        "float",
        "integer",
        "decimal",
    ):
        return "false"
    if cell_type == "integer":
        return "true"
    # A text such as "1e400" overflows to infinity: it is a number too large, not one that is
    # infinite.
    number = f"TRY_CAST({cell} AS DOUBLE)"
    least = (
        {"text": CODE_LIMIT, "decimal": CODE_LIMIT, "float": 2**53}[cell_type]
        if wanted == "integer"
        else 0
    )
    return f"coalesce(NOT isnan({number}) AND abs({number}) >= {least}::DOUBLE, false)"


def settled_sql(column: Column, short: str) -> str:
    """The code of a row's value inside the column's domain; NULL: the row is left out."""
    none = _code_of_other(column)
    null = _NULL if column.nullable else none
    if column.is_ranked:  # NULL: not in the list
        return f"CASE WHEN {short} IS NULL THEN {none} WHEN {short} = {_NULL} THEN {null} ELSE {short} END"
    # NULL: it cannot be read, so it is as good as missing.
    inside, low, high = short, *_ends_of_domain(column)
    if low is not None:
        is_clamped = column.outside == "clamp" or (column.outside is None and column.other is None)
        beyond = f"greatest({low}, least({high}, {short}))" if is_clamped else none
        inside = f"CASE WHEN {short} BETWEEN {low} AND {high} THEN {short} ELSE {beyond} END"
    return f"CASE WHEN coalesce({short}, {_NULL}) = {_NULL} THEN {null} ELSE {inside} END"


def unsettled_sql(column: Column, short: str) -> str:
    """Condition: what the row holds is not what the column is declared to hold."""
    low, high = _ends_of_domain(column)
    wrong = [f"{short} IS NULL"]
    if not column.nullable:
        wrong.append(f"{short} = {_NULL}")
    if low is not None:
        wrong.append(f"({short} <> {_NULL} AND {short} NOT BETWEEN {low} AND {high})")
    return f"({' OR '.join(wrong)})"


def settled_codes(coded: Coded) -> tuple[list[str], str]:
    """What is selected of rows, and which of these count: those that name an entity and are left in."""
    codes = [f"{settled_sql(column, short)} AS {short}" for short, column in coded.columns.items()]
    there = " AND ".join(f"{short} IS NOT NULL" for short in coded.every)
    return [*codes, *coded.ids], there


def unsettled_counts(coded: Coded, missing_ids: MissingIds) -> dict[str, str]:
    """SQL of what the custodian is told, by what it is about: all rows, those left out, those not as declared."""
    nameless = [f"{short} IS NULL" for short in coded.ids]
    kept = [f"({settled_sql(column, short)}) IS NULL" for short, column in coded.columns.items()]
    out = [*(nameless if missing_ids == "drop" else []), *kept]
    names = [of[0].name for of in (coded.ids | coded.every).values()]
    wrong = [*nameless, *(unsettled_sql(column, short) for short, column in coded.columns.items())]
    asked = {f"column {name}": one for name, one in zip(names, wrong, strict=True)}
    asked = {"left out": " OR ".join(out) or "false"} | asked
    return {"rows": "count(*)"} | {
        of: f"count(*) FILTER (WHERE {one})" for of, one in asked.items()
    }


def _ends_of_domain(column: Column) -> tuple[int | None, int | None]:
    """Smallest and largest code of a grid column; None where there are no bounds."""
    if column.is_ranked or column.kind == "boolean" or column.bounds is None:
        return None, None
    low, high = (grid_code(column, value) for value in column.bounds)
    return low, high


def _code_of_other(column: Column) -> str:
    """The code of `other`, or NULL."""
    if column.other is None:
        return "CAST(NULL AS BIGINT)"
    if column.is_ranked:
        return f"CAST({sorted(column.domain or ()).index(column.other)} AS BIGINT)"
    return f"CAST({grid_code(column, column.other)} AS BIGINT)"
