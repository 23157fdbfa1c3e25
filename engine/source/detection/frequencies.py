"""Recognises tables of frequencies: each combination of values once, beside how many units it stands for.

Takes the relation `source` and its detected columns; gives the column of counts, or nothing. Whoever took such a table
for microdata would protect its lines, not the people counted in them. The answer is only said, never written.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from engine.schema import Column, quoted
from engine.source.detection.names import reads_like_an_identifier, words_of
from engine.source.relation import fetch

_COUNTS = frozenset(
    (
        "n count counts cnt freq frequency frequencies anzahl haufigkeit haeufigkeit personen persons people pop "
        "population cases falle faelle nombre effectif effectifs recuento frecuencia conteggio frequenza aantal antal "
        "antall lukumaara liczba pocet total obs observations"
    ).split()
)
"""Names of columns of counts say so, in one of ten languages."""
_DENSE = 0.2
"""Such a share of all combinations of values occurs at least: microdata of few columns repeat some instead."""
_REPEATED = 0.02
"""Such a share of the lines may repeat a combination, by mistake."""
_LEAST_MEAN = 2


def count_column_of(
    con: duckdb.DuckDBPyConnection, columns: Sequence[Column], place: str
) -> str | None:
    """The column that says for how many units each row of `source` stands; None: each row is one."""
    for column in columns:
        if column.value_type == "integer" and not _COUNTS.isdisjoint(words_of(column.name)):
            others = [
                c.name
                for c in columns
                if c.name != column.name and c.value_type not in ("real", "decimal")
            ]
            if others and _is_of_counts(con, column.name, others, place):
                return column.name
    return None


def _is_of_counts(
    con: duckdb.DuckDBPyConnection, name: str, others: Sequence[str], place: str
) -> bool:
    """Whether a column holds the counts of the combinations of all others."""
    if any(reads_like_an_identifier(other) != "none" for other in others):
        return False
    count, listed = f"TRY_CAST({quoted(name)} AS DOUBLE)", ", ".join(map(quoted, others))
    distinct = ", ".join(
        f"count(DISTINCT {quoted(c)}) + bool_or({quoted(c)} IS NULL)::INT" for c in others
    )
    n, total, is_whole, *values = fetch(
        con,
        f"SELECT count(*), sum({count}), bool_and(coalesce({count} = trunc({count}) AND {count} >= 0, false)), "
        f"{distinct} FROM source",
        place,
    )[0]
    # A column that tells all lines apart beside others is a name of what they are about.
    if not is_whole or total < _LEAST_MEAN * n or (len(others) > 1 and max(values) >= n):
        return False
    combinations = 1
    for number in values:
        combinations *= number
    if n < _DENSE * combinations:
        return False
    found = fetch(con, f"SELECT count(*) FROM (SELECT DISTINCT {listed} FROM source)", place)[0][0]
    return bool(n - found <= _REPEATED * n)
