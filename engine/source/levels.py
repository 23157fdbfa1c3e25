"""Levels of hierarchical codes as columns of the source: the first characters of each code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

import duckdb

from engine.errors import SpecError
from engine.schema import Column, quoted
from engine.source.encoding import cell_sql, value_sql
from engine.source.relation import Source, fetch

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
    is_view = fetch(
        con,
        "SELECT 1 FROM duckdb_views() WHERE view_name = 'source' AND temporary",
        source.place,
    )
    fetch(con, f"ALTER {'VIEW' if is_view else 'TABLE'} source RENAME TO {BELOW}", source.place)
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
