"""The answer to a statement: rows, and which table they came from with how much noise.

A `Result` keeps its own read-only connection and so outlives the handle that created it. It fetches in the form
asked for first; another form runs the statement again.
"""

from __future__ import annotations

import csv
import datetime
import decimal
import importlib
import io
import json
import os
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

import duckdb

from engine.errors import MissingPackage
from engine.outputs import write_output
from engine.schema import ColumnSet
from engine.store import bound_sentences, bounds_rows, range_words, swap_sentences, words_of
from engine.texts import html_table, text_table
from engine.units import ENTITIES, ROWS, Unit
from queries.sql.advice import FEW, LOOK_UP
from queries.sql.budget import Budget, watched
from queries.sql.refusals import Vocabulary, refusal
from queries.sql.unreleased import Marks

if TYPE_CHECKING:
    import pandas


Form = Literal["fetchall", "df", "to_arrow_table", "pl"]
"""Names under which DuckDB hands over a result."""
WORTH_SAYING = 0.01
"""Filled share from which an answer speaks of it."""
N_SHOWN = 20
"""Rows shown in a notebook or at the prompt."""


class Statement:
    """A statement on its own connection: started once, then fetched; run again for a second form.

    budget: Time of its first run, with what was done before; each further run has as much as that began with.
    """

    def __init__(
        self,
        con: duckdb.DuckDBPyConnection,
        text: str,
        known: Vocabulary,
        *,
        budget: Budget,
        memory_mb: int,
        give_back: Callable[[duckdb.DuckDBPyConnection], None] | None = None,
    ) -> None:
        self._con, self._text, self._known = con, text, known
        self._budget, self._memory_mb = budget, memory_mb
        self._give_back = give_back
        self._is_fresh = False

    def _again(self) -> None:
        """Begin one more run."""
        self._budget = self._budget.again()

    def start(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Run it; return names and types of its columns."""
        try:
            with watched(self._con, self._budget, self._memory_mb):
                self._con.execute(self._text)
        except duckdb.Error as error:
            raise refusal(error, self._known) from None
        self._is_fresh = True
        description = self._con.description or []
        return tuple(d[0] for d in description), tuple(str(d[1]) for d in description)

    def close(self) -> None:
        """Give its connection up, once all of it was fetched."""
        if self._give_back is not None:
            self._give_back(self._con)
            self._give_back = None

    def fetch(self, form: Form) -> Any:
        """Return the whole result in one form."""
        source: Any = self._con
        try:
            if form in ("fetchall", "df"):
                if not self._is_fresh:
                    self._again()
                    self.start()
                self._is_fresh = False
            else:
                self._again()
                if self._is_fresh:  # the open result stands in the way of another
                    self._con.execute("SELECT 1").fetchall()
                    self._is_fresh = False
                source = self._con.sql(self._text)
            with watched(self._con, self._budget, self._memory_mb):
                return getattr(source, form)()
        except duckdb.Error as error:
            raise refusal(error, self._known) from None

    def head(self, n: int) -> list[tuple[Any, ...]]:
        """Return the first rows of a run of its own, which is given up after them."""
        try:
            if not self._is_fresh:
                self._again()
                self.start()
            self._is_fresh = False
            with watched(self._con, self._budget, self._memory_mb):
                return self._con.fetchmany(n)
        except duckdb.Error as error:
            raise refusal(error, self._known) from None


class Result:
    """What a statement returned.

    Attributes
    ----------
    columns : tuple of str
        Names of the result's columns.
    types : tuple of str
        Their SQL types.
    table : ColumnSet or None
        The released table that answered; None where the statement did not read the logical table.
    noise_sd : float or None
        Standard deviation of the noise of that table's finest counts, in rows; see its card.
    filled_share : float or None
        Noisy share of that table's rows that were filled in without looking at the data.
    dp : dict
        What a card says of mode dp; empty in sticky mode.
    wide : dict
        What a card says of a table that is modelled; empty: it is measured, or of mode dp.
    swap : dict
        What a card says of records that exchanged values; empty: no count of the table changes by it.
    max_rows : int or None
        Rows of one entity that count; None: no bound is declared.
    range_sd : float or None
        Standard deviation of the noise of counts that this bound holds for, as ranges of values are.
    unit, entity : Unit
        What the table's rows are called, and whom the release protects.
    """

    def __init__(
        self,
        *,
        columns: tuple[str, ...],
        types: tuple[str, ...],
        table: ColumnSet | None,
        noise_sd: float | None,
        filled_share: float | None,
        dp: Mapping[str, Any] | None = None,
        wide: Mapping[str, Any] | None = None,
        swap: Mapping[str, Any] | None = None,
        max_rows: int | None = None,
        range_sd: float | None = None,
        unit: Unit = ROWS,
        entity: Unit = ENTITIES,
        warnings: tuple[str, ...] = (),
        may_look_up: bool = False,
        statement: Statement,
    ) -> None:
        self.columns = columns
        self.types = types
        self.table = table
        self.noise_sd = noise_sd
        self.filled_share = filled_share
        self.dp: dict[str, Any] = dict(dp or {})
        self.wide: dict[str, Any] = dict(wide or {})
        self.swap: dict[str, Any] = dict(swap or {})
        self.max_rows, self.range_sd = max_rows, range_sd
        self.unit, self.entity = unit, entity
        self._mark: Callable[[list[tuple[Any, ...]]], Marks] = lambda _: Marks()
        self._warnings = warnings
        self._may_look_up = may_look_up
        self._statement = statement
        self._first: list[tuple[Any, ...]] = []
        self._is_whole = False

    @cached_property
    def rows(self) -> list[tuple[Any, ...]]:
        """The rows as tuples of Python values.

        Raises
        ------
        TooLarge
            They take more memory than the release was opened with; `head` gives the first ones.
        """
        if self._is_whole:
            return self._first
        rows: list[tuple[Any, ...]] = self._statement.fetch("fetchall")
        return rows

    def marked_by(self, mark: Callable[[list[tuple[Any, ...]]], Marks]) -> Self:
        """Say what finds out, once it is asked for, which figures of some first rows are not released."""
        self._mark = mark
        return self

    @cached_property
    def marks(self) -> Marks:
        """Which figures are not released, as far as that is known; reckoned when first asked for."""
        return self._mark(self.rows)

    def marks_of_first(self, n: int) -> Marks:
        """Return which figures of the first rows are not released, without the others in memory; see `head`."""
        return self._mark(self.head(n))

    def shown(self, n: int | None = None) -> list[tuple[Any, ...]]:
        """Return all rows, or the first ones, as people see them: with [c] for a figure that is not released."""
        return self.marks.marked(self.rows[:n])

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns, as of a data frame."""
        return len(self), len(self.columns)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Why the answer means less than it seems.

        Where a condition chose the synthetic rows, they are counted: a few are a look-up.
        """
        if not self._may_look_up:
            return self._warnings
        is_few = len(self.head(FEW + 1)) <= FEW
        return (*self._warnings, LOOK_UP) if is_few else self._warnings

    def head(self, n: int) -> list[tuple[Any, ...]]:
        """Return the first rows, without holding the others in memory; fewer than before are those of then."""
        if "rows" in self.__dict__:
            return self.rows[:n]
        if len(self._first) < n and not self._is_whole:
            self._first = self._statement.head(n)
            self._is_whole = len(self._first) < n
        return self._first[:n]

    def close(self) -> None:
        """Say that only what was fetched is asked for from now on: a later statement may have the connection then."""
        if self._is_whole or "rows" in self.__dict__:
            self._statement.close()

    def df(self) -> pandas.DataFrame:
        """Return a pandas DataFrame."""
        frame: pandas.DataFrame = self._statement.fetch("df")
        return frame

    def arrow(self) -> Any:
        """Return a pyarrow Table.

        Raises
        ------
        MissingPackage
            pyarrow is not installed.
        """
        return self._fetch_with("to_arrow_table", "pyarrow", extra="arrow")

    def pl(self) -> Any:
        """Return a polars DataFrame.

        Raises
        ------
        MissingPackage
            polars or pyarrow is not installed.
        """
        return self._fetch_with("pl", "polars", "pyarrow", extra="polars")

    def _fetch_with(self, form: Form, *packages: str, extra: str) -> Any:
        for package in packages:
            try:
                importlib.import_module(package)
            except ImportError:
                raise MissingPackage(
                    f".{'arrow' if form == 'to_arrow_table' else form}() needs {package}: "
                    f"pip install 'tablepack[{extra}]'"
                ) from None
        return self._statement.fetch(form)

    def to_csv(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        null: str = "",
        force: bool = False,
    ) -> str:
        """Return the rows as CSV with a header; write them to a file too, where a path is given.

        A file that is there is replaced with `force` only, and never one that is needed (a key, a release).
        """
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([[null if v is None else _plain(v) for v in row] for row in self.rows])
        return _written(out.getvalue(), path, force=force)

    def to_json(self, path: str | os.PathLike[str] | None = None, *, force: bool = False) -> str:
        """Return the rows as JSON with the table that answered and its noise; see `to_csv`.

        Columns and rows are lists, so that equal names stay apart; dates are ISO text, decimals text.
        """
        answer = {
            "columns": list(self.columns),
            "types": list(self.types),
            "rows": [[_finite(v) for v in row] for row in self.rows],
            "table": list(self.table) if self.table is not None else None,
            "noise_sd": self.noise_sd,
            "filled_share": self.filled_share,
            "warnings": list(self.warnings),
        }
        text = json.dumps(answer, default=_plain, ensure_ascii=False, allow_nan=False)
        return _written(text + "\n", path, force=force)

    @property
    def source(self) -> str:
        """Which table answered, in words."""
        if self.table is None:
            return "Not read from the logical table."
        if self.dp:
            return " ".join([f"Answered from table {', '.join(self.table)};", *self._dp_source()])
        bounded = bound_sentences(self.max_rows, words_of(self.unit, self.entity))
        lost = "".join(f" {sentence}" for sentence in (*bounded, *swap_sentences(self.swap)))
        if self.wide:
            return (
                f"Answered from table {', '.join(self.table)}, which is MODELLED from locked tables of two and three "
                f"columns: how far the model is off is not known.{lost}"
            )
        filled = ""
        if self.filled_share is not None and self.filled_share >= WORTH_SAYING:
            filled = (
                f" About {self.filled_share:.0%} of its {self.unit.many} lie in groups too small to show and were "
                "filled in: figures in fine detail, and averages over such values, are rough."
            )
        return (
            f"Answered from table {', '.join(self.table)}; "
            f"each of its measured counts carries noise of sd {self.noise_sd:.2f} {self.unit.many}"
            f"{range_words(self.noise_sd, self.range_sd)}.{filled}{lost}"
        )

    def _dp_source(self) -> list[str]:
        """How sure an answer of a release in mode dp is, in words."""
        if not self.dp["covered"]:
            sentences = [
                "MODELLED from narrower margins, so nobody measured these combinations; the margins' counts carry "
                f"noise of sd {self.noise_sd:.2f} {self.unit.many} at most."
            ]
        elif self.dp["epsilon"] is None:
            sentences = ["its counts were measured without noise."]
        else:
            sentences = [
                f"each of its measured counts carries noise of sd {self.noise_sd:.2f} "
                f"{self.unit.many} at most."
            ]
        if bounds_rows(self.dp):
            sentences += bound_sentences(
                self.dp["max_rows"], words_of(self.unit, self.entity), is_said=True
            )
        if self.dp["epsilon"] is None:
            sentences.append("NOTHING IS GUARANTEED.")
        if not self.dp["converged"]:
            sentences.append("The fit did NOT converge.")
        bare = [name for name in self.table or () if name in self.dp["uniform"]]
        if bare:
            sentences.append(
                f"Of {', '.join(bare)} nothing was measured: evenly frequent by assumption."
            )
        return sentences

    def __repr__(self) -> str:
        return text_table(self.columns, self.shown(N_SHOWN), self._footer())

    def _repr_html_(self) -> str:
        return html_table(self.columns, self.shown(N_SHOWN), below=self._footer())

    def _footer(self) -> list[str]:
        """Return the lines under the rows: how many more there are, the source, warnings."""
        hidden = len(self.rows) - N_SHOWN
        more = [f"... and {hidden:,} more rows"] if hidden > 0 else []
        notes = self.marks.notes(self.entity, is_marked=True)
        return [*more, *notes, self.source, *(f"Warning: {text}" for text in self.warnings)]


def _finite(value: Any) -> Any:
    """Return a value that JSON can hold: NaN and infinities as text, wherever they stand; keys as text."""
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    if isinstance(value, dict):
        return {str(_plain(k)): _finite(v) for k, v in value.items()}
    return str(value) if isinstance(value, float) and value - value != 0 else value


def _plain(value: Any) -> Any:
    """Return a value as text where it is not text or a number."""
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str | int | float) else str(value)


def _written(text: str, path: str | os.PathLike[str] | None, *, force: bool) -> str:
    if path is not None:
        write_output(path, text, force=force)
    return text
