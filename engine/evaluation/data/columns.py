"""Columns of a release as evaluations need them: what a value is, on which grid, and what stands for rare ones.

Takes an open release; gives `ReleasedColumn`s, and the SQL that puts a value of the original where a build puts it.
All of it is public: it stands in the release's own catalogue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, cast

import duckdb

from engine.errors import DamagedRelease
from engine.schema import Column, ColumnKind, Resolution, ValueType, Writing
from engine.source import code_sql
from engine.spec import writing_problems
from engine.store import GeneratorCard


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleasedColumn:
    """A column of a release."""

    sql_type: str  # Of its values
    # Its name, kind, resolution and placeholder; as `writing` and `nulls` how it was read from the source, but for
    # spellings of null that are values of the release. A release that does not say it has how it writes a blank.
    column: Column
    is_told: bool = False  # The release says how it was read


def columns_in(con: duckdb.DuckDBPyConnection) -> dict[str, ReleasedColumn]:
    """Read them from the catalogue of an open release, in the source's order."""
    listed = con.execute(
        "SELECT name, sql_type, kind, value_type, placeholder, resolution_base, resolution_exponent "
        "FROM catalog.columns ORDER BY position"
    ).fetchall()
    told = _told(con)
    nulls = _nulls(con, {name: of.spellings for name, of in told.items()})
    return {
        name: ReleasedColumn(
            sql_type=sql_type,
            column=Column(
                name=name,
                kind=cast(ColumnKind, kind),
                value_type=cast(ValueType, value_type),
                placeholder=placeholder,
                resolution=None if base is None else Resolution(base=base, exponent=exponent),
                nulls=nulls[name],
                writing=told[name].writing if name in told else Writing(),
            ),
            is_told=name in told,
        )
        for name, sql_type, kind, value_type, placeholder, base, exponent in listed
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class _Told:
    """How a column was read from the source."""

    writing: Writing
    spellings: tuple[str, ...]


def _told(con: duckdb.DuckDBPyConnection) -> dict[str, _Told]:
    """How columns were read from the source, as the cards say it; those of earlier versions do not."""
    found: dict[str, _Told] = {}
    for columns, card in con.execute(
        "SELECT columns, card FROM catalog.tables ORDER BY width"
    ).fetchall():
        if not found.keys() >= set(columns):
            written = GeneratorCard.from_json(card).written
            found |= {name: _told_of(written[name]) for name in columns if name in written}
    return found


def _told_of(told: Mapping[str, Any]) -> _Told:
    """One column of a card, which may be anybody's."""
    keys = [key.name for key in fields(Writing)]
    writing = Writing(**{key: told[key] for key in keys if key in told})
    if writing_problems(writing, "card"):
        raise DamagedRelease("a card of the release was not written by tablepack")
    return _Told(writing=writing, spellings=tuple(told.get("nulls", ("",))))


def _nulls(
    con: duckdb.DuckDBPyConnection, told: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """How columns spell a blank, as the release says or, of earlier versions, writes it; never as one of its values.

    Typed files (Parquet) have blanks of their own: there the spelling may be a value, which the release then shows.
    """
    writes = con.execute("SELECT name, null_spelling FROM catalog.columns").fetchall()
    nulls = {name: told.get(name, tuple(dict.fromkeys((blank, "")))) for name, blank in writes}
    listed = [(name, text) for name, of in nulls.items() for text in of]
    if not listed:
        return nulls
    values = con.execute(
        "SELECT s.name, s.text FROM (SELECT unnest(?) AS name, unnest(?) AS text) AS s "
        "JOIN catalog.codes AS v ON v.column_name = s.name AND v.kind <> 'null' AND (v.value = s.text OR "
        "TRY_CAST(v.value AS DOUBLE) = TRY_CAST(s.text AS DOUBLE))",
        [[name for name, _ in listed], [text for _, text in listed]],
    ).fetchall()
    shown = set(values)
    return {
        name: tuple(text for text in of if (name, text) not in shown) for name, of in nulls.items()
    }


def on_grid_sql(column: Column, value: str) -> str:
    """SQL that puts a number or time on a column's grid, as a build does; unchanged where there is no grid."""
    if column.kind == "timestamp":
        code = code_sql(column, "TIMESTAMP", value)
        return f"coalesce(make_timestamp(({code}) * 1000000), {value})"
    if column.kind not in ("real", "decimal") or column.resolution is None:
        return value
    step = column.resolution
    code, scale = code_sql(column, "DOUBLE", value), step.base ** abs(step.exponent)
    factor = f"CAST({float(scale)!r} AS DOUBLE)"
    # A quotient of two whole numbers that floats hold is rounded correctly, as a release's value is.
    number = f"CAST(({code}) AS DOUBLE) {'/' if step.exponent < 0 else '*'} {factor}"
    return f"coalesce({number}, {value})"
