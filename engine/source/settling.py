"""Mode dp: what becomes of cells that the spec's public domains do not hold. Nothing about them ends a build.

Takes columns of the spec; gives SQL over their codes, row by row, which DuckDB and Spark both run. A number beyond its
bounds is moved to the nearer end, or counts as `other`, or its row is left out, as declared; a value that no list
holds, what cannot be read and an undeclared null count as `other`, or their rows are left out. Rows that name no entity
are left out, or each is an entity of its own, as declared. So a row that nobody expected changes the counts by what any
row may, and how many there are is for the custodian's eyes only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from engine.params import MissingIds
from engine.schema import NULL_CODE, Column
from engine.source.encoding import grid_code

_NULL = f"CAST({NULL_CODE} AS BIGINT)"


def settled_sql(column: Column, short: str) -> str:
    """The code of a row's value inside the column's domain; NULL: the row is left out."""
    none = _code_of_other(column)
    null = _NULL if column.nullable else none
    if column.is_ranked:  # NULL: not in the list
        return f"CASE WHEN {short} IS NULL THEN {none} WHEN {short} = {_NULL} THEN {null} ELSE {short} END"
    # NULL: it cannot be read, so it is as good as missing.
    inside, low, high = short, *_ends(column)
    if low is not None:
        beyond = f"greatest({low}, least({high}, {short}))" if _is_clamped(column) else none
        inside = f"CASE WHEN {short} BETWEEN {low} AND {high} THEN {short} ELSE {beyond} END"
    return f"CASE WHEN coalesce({short}, {_NULL}) = {_NULL} THEN {null} ELSE {inside} END"


def unsettled_sql(column: Column, short: str) -> str:
    """Condition: what the row holds is not what the column is declared to hold."""
    low, high = _ends(column)
    wrong = [f"{short} IS NULL"]
    if not column.nullable:
        wrong.append(f"{short} = {_NULL}")
    if low is not None:
        wrong.append(f"({short} <> {_NULL} AND {short} NOT BETWEEN {low} AND {high})")
    return f"({' OR '.join(wrong)})"


def settled_codes(columns: Mapping[str, Column], ids: Iterable[str]) -> tuple[list[str], str]:
    """What is selected of rows, and which of the rows selected count: those that name an entity and are left in.

    columns: By short name.
    """
    codes = [f"{settled_sql(column, short)} AS {short}" for short, column in columns.items()]
    there = " AND ".join(f"{short} IS NOT NULL" for short in (*columns, *ids))
    return [*codes, *ids], there


def unsettled_counts(
    columns: Mapping[str, Column], ids: Mapping[str, tuple[Column, ...]], missing_ids: MissingIds
) -> dict[str, str]:
    """SQL of what the custodian is told, by what it is about: all rows, those left out, those not as declared."""
    nameless = [f"{short} IS NULL" for short in ids]
    kept = [f"({settled_sql(column, short)}) IS NULL" for short, column in columns.items()]
    out = [*(nameless if missing_ids == "drop" else []), *kept]
    names = [
        f"column {column.name}" for column in (*(of[0] for of in ids.values()), *columns.values())
    ]
    wrong = [*nameless, *(unsettled_sql(column, short) for short, column in columns.items())]
    asked = {"left out": " OR ".join(out) or "false"} | dict(zip(names, wrong, strict=True))
    return {"rows": "count(*)"} | {
        of: f"count(*) FILTER (WHERE {one})" for of, one in asked.items()
    }


def _ends(column: Column) -> tuple[int | None, int | None]:
    """Smallest and largest code of a grid column; None where there are no bounds."""
    if column.is_ranked or column.kind == "boolean" or column.bounds is None:
        return None, None
    low, high = (grid_code(column, value) for value in column.bounds)
    return low, high


def _is_clamped(column: Column) -> bool:
    """Whether numbers beyond the bounds are moved to the nearer end."""
    return column.outside == "clamp" or (column.outside is None and column.other is None)


def _code_of_other(column: Column) -> str:
    """The code of `other`, or NULL."""
    if column.other is None:
        return "CAST(NULL AS BIGINT)"
    if column.is_ranked:
        return f"CAST({sorted(column.domain or ()).index(column.other)} AS BIGINT)"
    return f"CAST({grid_code(column, column.other)} AS BIGINT)"
