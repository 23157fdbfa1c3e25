"""Views of the logical table over a released one, on which statements run, each on a connection of its own.

A view has every column of the logical table, so that `*` and COLUMNS(...) mean the same as in the plan; columns that
the released table lacks raise an error when read, or are filled with a constant to verify that nothing depends on them.
It takes as long to create as a short statement, so connections are kept for later ones over the same table where that
is known to leave nothing behind.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol

import duckdb
from numpy.typing import NDArray

from engine.schema import ColumnSet, Int64Array, literal, quoted
from engine.store import ATTACHED, table_name, unused_name

Filling = Literal["quick", "guard", "blank", "other"]
"""Contents of the columns that a table lacks: an error, an error that names the column, NULL, or some value."""
LACKING = "is not in the table that answers: "
"""Text in DuckDB's error before the name of a column that was read and that the table lacks; see `refusals`.

A view with the names takes twice as long to create and to plan, so statements first run on one without.
"""

Connect = Callable[[], duckdb.DuckDBPyConnection]
GiveBack = Callable[[duckdb.DuckDBPyConnection], None]
_MOST_KEPT, _MOST_OF_VARIANTS = 32, 8
"""Connections that are kept, one per table; those with its variants, which take memory."""
_CHANCE = random.SystemRandom()


_GIVEN, _VARIANTS, _VARIANT = "tablepack_given", "tablepack_variants", "tablepack_variant"
"""Names of the variants of a table on the connection that reads them; the last is a variable: which one is read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Variants:
    """Other rows of a released table, each distinct row once with its number: what the table might have been.

    values: By column of the table, the values of all rows: shape (n_rows,).
    expressions: SQL for the value of each column; `{}` stands for what `values` hold.
    variant: shape (n_rows,): The variant that each row belongs to, ascending from 0.
    n: shape (n_rows,).
    """

    values: Mapping[str, NDArray[Any]]
    expressions: Mapping[str, str]
    variant: Int64Array
    n: Int64Array


class VariantSource(Protocol):
    """Variants of a table, which are made when they are first read."""

    @property
    def n_variants(self) -> int:
        """How many there are."""

    def variants(self) -> Variants:
        """Make them."""


class LogicalViews:
    """The views of one session; lives as long as its release is open.

    connect: Gives a new locked-down connection; refuses if the session is closed.
    """

    def __init__(self, columns: Mapping[str, str], logical_name: str, connect: Connect) -> None:
        self._columns, self._logical_name, self._connect = columns, logical_name, connect
        self._lock = threading.Lock()
        # _kept, _of_variants: Least recently used first.
        self._kept: dict[ColumnSet, duckdb.DuckDBPyConnection] = {}
        self._of_variants: dict[tuple[ColumnSet, int], duckdb.DuckDBPyConnection] = {}

    def lent(self, table: ColumnSet) -> tuple[duckdb.DuckDBPyConnection, GiveBack]:
        """Return a connection that sees the logical table over a released one, and a function that takes it back.

        A connection is given back only after a statement was answered completely. Statements allowed for untrusted
        users create no table, type, setting or variable, and the random seed is reset: no state is left behind.
        """
        with self._lock:
            kept = self._kept.pop(table, None)
        if kept is None:
            kept = self._connect()
            self.use(kept, table)
        return kept, partial(self._take_back, table)

    def _take_back(self, table: ColumnSet, con: duckdb.DuckDBPyConnection) -> None:
        """Keep a connection for later statements over a table."""
        con.execute(f"SELECT setseed({_CHANCE.uniform(-1, 1)!r})").fetchall()
        with self._lock:
            self._kept[table] = con
            if len(self._kept) > _MOST_KEPT:
                self._kept.pop(next(iter(self._kept))).close()

    def use(
        self,
        con: duckdb.DuckDBPyConnection,
        table: ColumnSet | None,
        filling: Filling = "quick",
    ) -> None:
        """Give a new connection the logical table over a released one, or over none."""
        source = f"{ATTACHED}.main.{quoted(table_name(table))}" if table else "range(1) AS one(i)"
        con.execute(f"USE {ATTACHED}; {self._view_sql(table, filling, source)}")

    @property
    def variant_column(self) -> str:
        """Name of the column that tells variants apart, for statements over all of them at once."""
        return unused_name("variant", self._columns)

    @contextmanager
    def lent_variants(
        self, table: ColumnSet, n_variants: int, *, is_kept: bool
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """Provide a connection for statements on the variants of a released table.

        is_kept: It may have the variants already, and the next statement gets it with them, unless this one fails.
        """
        key = table, n_variants
        with self._lock:
            con = self._of_variants.pop(key, None) if is_kept else None
        con = con or self._connect()
        is_sound = False
        try:
            yield con
            is_sound = is_kept
        finally:
            with self._lock:
                if is_sound:
                    self._of_variants[key] = con
                over = [*self._of_variants][:-_MOST_OF_VARIANTS]
                unused = [self._of_variants.pop(key) for key in over]
            for one in unused if is_sound else (*unused, con):
                one.close()

    def put_variants(
        self,
        con: duckdb.DuckDBPyConnection,
        table: ColumnSet,
        source: VariantSource,
        *,
        is_one_statement: bool = False,
    ) -> None:
        """Give a connection the logical table over variants of a released one, unless it has them.

        One view serves all: a variable (`use_variant`) selects the one that it reads; or it has the rows of all, with
        one column more (`variant_column`).
        """
        number, count = quoted(self.variant_column), quoted(unused_name("n", self._columns))
        held = f"SELECT count(*) FROM duckdb_tables() WHERE table_name = '{_VARIANTS}'"
        if not con.execute(held).fetchall()[0][0]:
            given = source.variants()
            arrays = {f"c{j}": given.values[c] for j, c in enumerate(table)}
            con.register(_GIVEN, arrays | {"v": given.variant, "n": given.n})
            listed = ", ".join(
                f"{given.expressions[c].format(f'c{j}')} AS {quoted(c)}"
                for j, c in enumerate(table)
            )
            try:
                con.execute(
                    f"CREATE TEMP TABLE {_VARIANTS} AS SELECT {listed}, v AS {number}, n AS {count} "
                    f"FROM {_GIVEN}; USE {ATTACHED}"
                )
            finally:
                con.unregister(_GIVEN)
        own = ", ".join(quoted(c) for c in table)
        each = f"SELECT *, unnest(range({count})) FROM {_VARIANTS}"
        more: tuple[str, ...] = ()
        if is_one_statement:
            rows, more = f"(SELECT {own}, {number} FROM ({each}))", (number,)
        else:
            self.use_variant(con, 0)
            one = f"{each} WHERE {number} = getvariable('{_VARIANT}')"
            rows = f"(SELECT {own} FROM ({one}))"
        con.execute(self._view_sql(table, "quick", rows, more))

    def close(self) -> None:
        """Close connections that are kept for variants."""
        with self._lock:
            for con in self._of_variants.values():
                con.close()
            self._of_variants.clear()

    def use_variant(self, con: duckdb.DuckDBPyConnection, number: int) -> None:
        """Select the variant that the connection's logical table reads."""
        con.execute(f"SET VARIABLE {_VARIANT} = {number}")

    def _view_sql(
        self, table: ColumnSet | None, filling: Filling, source: str, more: tuple[str, ...] = ()
    ) -> str:
        """Return the statement that creates the logical table over rows that have the columns of a table.

        more: Columns of these rows beside those of the logical table.

        The error of a missing column depends on a row, so that it is raised when read, not when planned.
        """
        poison = quoted(unused_name("missing", self._columns))
        columns = [
            quoted(c)
            if c in (table or ())
            else f"CAST({_fill(c, type_, filling, poison)} AS {type_}) AS {quoted(c)}"
            for c, type_ in self._columns.items()
        ]
        columns += more
        row = f"CAST({quoted(table[0])} AS VARCHAR)" if table else "CAST(i AS VARCHAR)"
        text = f"concat({literal(LACKING)}, left({row}, 0))"
        if filling == "quick":
            text = f"CAST(error({text}) AS VARCHAR)"
        return (
            f"CREATE OR REPLACE TEMP VIEW {quoted(self._logical_name)} AS SELECT {', '.join(columns) or 'NULL'} FROM "
            f"(SELECT *, {text} AS {poison} FROM {source})"
        )


def _fill(column: str, type_: str, filling: Filling, poison: str) -> str:
    """Return SQL for the contents of a column that the table lacks."""
    if filling == "quick":
        return poison
    if filling == "guard":
        return f"error({poison} || {literal(column)})"
    if filling == "blank":
        return "NULL"
    return "TIMESTAMP '1970-01-01'" if type_ in ("DATE", "TIMESTAMP", "TIME") else "1"
