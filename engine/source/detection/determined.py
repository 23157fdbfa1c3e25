"""Finds columns that determine each other: rows that agree in the one agree in the other, but for a few people.

Takes a table on a confidential connection and an SQL expression for each column; gives pairs of names. How many people
speak against it is compared to a noisy threshold, and so is how many are in values that several share: a column of
nearly unique values would determine everything. Values that few people hold decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import duckdb
import numpy as np

from engine.progress import Progress, silent
from engine.schema import Int64Array
from engine.source.detection.profile import people_sql
from engine.source.detection.thresholds import LARGEST, Thresholds
from engine.source.entities import ROWS_WITH_TOKENS, EntityColumn
from engine.source.ingest import Ingested
from engine.source.relation import fetch

FIRST = 4_000
"""Rows in which nearly all pairs of columns are ruled out."""
SAMPLE = 5 * FIRST
"""Rows in which most of the others are, such as two rare flags."""
LOOKED_AT = 5 * SAMPLE
"""Rows that they are taken from, no entity twice."""
MOST_COLUMNS = 200
"""With more columns pairs are not looked at: their number grows with the square."""
REPORTED = 200
"""Progress is reported after so many pairs."""
Pair = tuple[str, str]
"""A column, and one that it may determine."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Where to look."""

    con: duckdb.DuckDBPyConnection
    name: str  # Of a table or view
    columns: Mapping[str, str]  # SQL expression of each column's cells by its name
    entities: tuple[str, ...] = ()  # SQL expressions of the entity columns; empty: each row is one
    # Where the rows are not on the connection: gives for column sets the names of relations that hold their
    # distinct combinations (with entities), and in `n` how many rows each has.
    cells: Callable[[Sequence[tuple[str, ...]]], list[str]] | None = None
    # Then gives the name of a relation with so many rows.
    sample: Callable[[int], str] | None = None

    def of(self, *names: str) -> str:
        """The relation in which some columns are counted."""
        return self.name if self.cells is None else self.cells([names])[0]

    def row(self, sql: str) -> tuple[Any, ...]:
        """The first row of a statement."""
        return fetch(self.con, sql, "the source")[0]

    @property
    def rows(self) -> str:
        """SQL that counts rows of such a relation."""
        return "count(*)" if self.cells is None else "coalesce(CAST(sum(n) AS BIGINT), 0)"


def encoded_table(
    ingested: Ingested, entities: Sequence[EntityColumn], columns: Mapping[str, str]
) -> Table:
    """The encoded rows with tokens, wherever they are."""
    by = tuple(f"e{entity.number}" for entity in entities if entity.tokens is not None)
    spark = ingested.spark
    if spark is None:
        return Table(con=ingested.con, name=ROWS_WITH_TOKENS, columns=columns, entities=by)
    known: dict[frozenset[str], str] = {}

    def cells(sets: Sequence[tuple[str, ...]]) -> list[str]:
        missing = list(dict.fromkeys(one for one in map(frozenset, sets) if one not in known))
        codes = [tuple(sorted(ingested.sql_names[name] for name in one)) for one in missing]
        known.update(zip(missing, spark.relations(codes, by), strict=True))
        return [known[frozenset(one)] for one in sets]

    def sample(n: int) -> str:
        named = [*(ingested.sql_names[name] for name in columns), *by]
        return spark.sample(named, n)

    return Table(
        con=ingested.con,
        name=ROWS_WITH_TOKENS,
        columns=columns,
        entities=by,
        cells=cells,
        sample=sample,
    )


def determined(table: Table, thresholds: Thresholds, report: Progress = silent) -> list[Pair]:
    """All pairs of columns of which the first determines the second."""
    return [
        pair
        for one, look in _looked_at(table, thresholds, report)
        for pair in (one, one[::-1])
        if look.may_tell(*pair) and look.tells(*pair)
    ]


def copies(table: Table, thresholds: Thresholds, report: Progress = silent) -> list[Pair]:
    """Pairs of columns that determine each other; none of columns that others show to be copies of the same."""
    group = {name: name for name in table.columns}
    found = []
    for (one, other), look in _looked_at(table, thresholds, report):
        both = ((one, other), (other, one))
        if (
            group[one] != group[other]
            and look.may_be_copies(one, other)
            and all(look.may_tell(*pair) for pair in both)
            and all(look.tells(*pair) for pair in both)
        ):
            joined = {group[one], group[other]}
            group = {name: one if of in joined else of for name, of in group.items()}
            found.append((one, other))
    return found


def _looked_at(
    table: Table, thresholds: Thresholds, report: Progress
) -> Iterator[tuple[Pair, _Look]]:
    """Pairs of columns in turn, each once, and what looks at them; none where there are too many."""
    if not 1 < len(table.columns) <= MOST_COLUMNS:
        return
    look = _Look(table, thresholds)
    pairs = list(combinations(table.columns, 2))
    for done, pair in enumerate(pairs):
        if done % REPORTED == 0:
            report("pairs", done, len(pairs))
        yield pair, look


def _sampled(table: Table) -> dict[str, Int64Array]:
    """Numbered cells of some rows. Which ones decides nothing: what they rule out, all rows would rule out."""
    chosen = ", ".join(f"{sql} AS c{j}" for j, sql in enumerate(table.columns.values()))
    of = table.name if table.sample is None else table.sample(LOOKED_AT)
    rows = f"(SELECT * FROM {of} LIMIT {LOOKED_AT})"
    for entity in table.entities:  # no entity of any kind twice
        rows = f"(SELECT * FROM {rows} QUALIFY row_number() OVER (PARTITION BY {entity}) = 1)"
    found = table.con.execute(f"SELECT {chosen} FROM {rows} LIMIT {SAMPLE}").fetchnumpy()
    return {name: _numbered(found[f"c{j}"]) for j, name in enumerate(table.columns)}


def _numbered(cells: Any) -> Int64Array:
    """A number for each different cell; null is one of them."""
    cells = np.ma.asarray(cells)
    is_null = np.ma.getmaskarray(cells)
    values, known = np.unique(np.ma.getdata(cells)[~is_null], return_inverse=True)
    codes = np.full(len(cells), len(values), dtype=np.int64)
    codes[~is_null] = known
    return codes


def _is_ruled_out(finer: Int64Array, coarser: Int64Array) -> bool:
    """Whether more people speak against it already than any threshold allows.

    No entity is in the sample twice; and a person who is not where most are speaks against it in all rows, too.
    """
    return any(
        len(finer) >= LARGEST and _spoken_against(finer[:n], coarser[:n]) >= LARGEST
        for n in (FIRST, SAMPLE)
    )


def _spoken_against(finer: Int64Array, coarser: Int64Array) -> int:
    """How many are not where most of their value of the finer column are."""
    width, height = int(coarser.max(initial=0)) + 1, int(finer.max(initial=0)) + 1
    pairs = finer * width + coarser
    if width * height <= len(finer):
        most = np.bincount(pairs, minlength=width * height).reshape(height, width).max(axis=1)
        return len(finer) - int(most.sum())
    cells, n = np.unique(pairs, return_counts=True)
    starts = np.flatnonzero(np.diff(cells // width, prepend=-1))
    return len(finer) - int(np.maximum.reduceat(n, starts).sum())


class _Look:
    """Looks at pairs of columns of a table; what is known of one column is counted once."""

    def __init__(self, table: Table, thresholds: Thresholds) -> None:
        self._table, self._thresholds = table, thresholds
        self._sampled = _sampled(table)
        if table.cells is not None:  # all in one look at the rows
            table.cells([(name,) for name in table.columns])
        self._shared: dict[str, tuple[int, int, int]] = {}
        self._sizes: dict[str, Int64Array] = {}

    def may_tell(self, finer: str, coarser: str) -> bool:
        """Whether a look at single columns and a sample leaves it open."""
        if _is_ruled_out(self._sampled[finer], self._sampled[coarser]):
            return False
        _, inside, everybody = self._of(finer)
        # Most people are in values that several share, as far as a noisy threshold tells.
        by_most = inside - everybody // 2 >= self._thresholds.of("determines", finer, "shared")
        return by_most and self._of(coarser)[0] > 1

    def may_be_copies(self, one: str, other: str) -> bool:
        """Whether both have values of nearly the same sizes: a row that speaks against it changes two by one each."""
        if self._table.entities:
            return True  # one of them may have many rows
        sizes = [self._sizes_of(name) for name in (one, other)]
        longest = max(map(len, sizes))
        first, second = (np.pad(n, (0, longest - len(n))) for n in sizes)
        return int(np.abs(first - second).sum()) <= 2 * LARGEST

    def _sizes_of(self, name: str) -> Int64Array:
        """Rows of each value, most first."""
        if name not in self._sizes:
            sql, table = self._table.columns[name], self._table
            of = table.of(name)
            counted = f"SELECT {table.rows} AS held FROM {of} GROUP BY {sql} ORDER BY held DESC"
            found = table.con.execute(counted).fetchnumpy()["held"]
            self._sizes[name] = np.asarray(found, dtype=np.int64)
        return self._sizes[name]

    def _of(self, name: str) -> tuple[int, int, int]:
        """How many values several people share, how many people are in these, and in all."""
        table, least = self._table, self._thresholds.of("values", name)
        if name not in self._shared and not table.entities:
            n = self._sizes_of(name)
            shared = n[n >= least]
            self._shared[name] = len(shared), int(shared.sum()), int(n.sum())
        if name not in self._shared:
            people, cells = _cells(table, {"v": name})
            row = table.row(
                f"WITH cells AS MATERIALIZED ({cells}), "
                f"shared AS (SELECT v AS common FROM cells GROUP BY v HAVING {people} >= {least}) "
                f"SELECT (SELECT count(*) FROM shared), (SELECT {people} FROM cells JOIN shared "
                f"ON v IS NOT DISTINCT FROM common), (SELECT {people} FROM cells)"
            )
            self._shared[name] = int(row[0]), int(row[1]), int(row[2])
        return self._shared[name]

    def tells(self, finer: str, coarser: str) -> bool:
        """Whether fewer people than a threshold speak against it, and every shared value of the coarser is told."""
        table, thresholds = self._table, self._thresholds
        people, cells = _cells(table, {"f": finer, "c": coarser})
        usual = (
            f"SELECT f, c AS usual FROM (SELECT f, c, {people} AS people FROM cells GROUP BY f, c) "
            "QUALIFY row_number() OVER (PARTITION BY f ORDER BY people DESC, c) = 1"
        )
        row = table.row(
            f"WITH cells AS MATERIALIZED ({cells}), usual AS ({usual}), "
            f"shared AS (SELECT c FROM cells GROUP BY c HAVING {people} >= {thresholds.of('values', coarser)}) "
            f"SELECT (SELECT {people} FROM cells JOIN usual ON cells.f IS NOT DISTINCT FROM usual.f "
            "WHERE c IS DISTINCT FROM usual), "
            "(SELECT count(*) FROM shared WHERE NOT EXISTS "
            "(SELECT 1 FROM usual WHERE usual.usual IS NOT DISTINCT FROM shared.c))"
        )
        return int(row[0]) < thresholds.of("determines", finer, coarser) and not row[1]


def _cells(table: Table, columns: Mapping[str, str]) -> tuple[str, str]:
    """SQL that counts people in some columns under names of our own, and that which gives these columns."""
    names = [f"who{number}" for number in range(len(table.entities))]
    held = [f"{table.columns[column]} AS {name}" for name, column in columns.items()]
    held += [f"{sql} AS {name}" for sql, name in zip(table.entities, names, strict=True)]
    of = table.of(*dict.fromkeys(columns.values()))
    if names:
        return people_sql(names), f"SELECT {', '.join(held)} FROM {of}"
    # Counted at once: to keep the cells of 100 million rows would cost more than all tables of a release.
    counted = f"SELECT {', '.join(held)}, {table.rows} AS held FROM {of} GROUP BY ALL"
    return "coalesce(CAST(sum(held) AS BIGINT), 0)", counted
