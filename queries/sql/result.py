"""The answer to a statement: rows, the table they came from, and its noise.

A `Result` keeps its own read-only connection and so outlives the handle that created it. Rows are fetched in the form
requested first; another form runs the statement again.
"""

from __future__ import annotations

import csv
import datetime
import decimal
import importlib
import io
import json
import os
import warnings
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

import duckdb

from engine.errors import MissingPackage
from engine.guarantee import Guarantee, bound_sentences
from engine.outputs import write_output
from engine.schema import quoted
from engine.store import GeneratorCard, range_words, swap_sentences, words_of
from engine.texts import html_table, text_table
from engine.units import Unit
from queries.sql.advice import FEW, LOOK_UP
from queries.sql.budget import Budget, watched
from queries.sql.refusals import Vocabulary, refusal
from queries.sql.unreleased import Marks, marked

if TYPE_CHECKING:
    import pandas


Form = Literal["fetchall", "df", "to_arrow_table", "pl"]
"""DuckDB's names for the forms of a result."""
MENTIONED_FROM = 0.01
"""Imputed share above which an answer mentions it."""
Mark = Callable[[Callable[[], list[tuple[Any, ...]]]], Marks]
"""Determines which figures are not released, of rows that are fetched if there are any figures."""
Unreleased = Literal["missing", "imputed"]
"""What stands for figures that are not released, in forms for programs."""
N_SHOWN = 20
"""Rows shown in a notebook or an interactive session."""


class Statement:
    """A statement on its own connection: started once, then fetched; run again for another form.

    budget: Time budget of planning and the first run; each further run has a new one of the same size.
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
        self.columns: tuple[str, ...] = ()
        self.types: tuple[str, ...] = ()

    def _again(self) -> None:
        """Begin another run."""
        self._budget = self._budget.again()

    def start(self) -> None:
        """Run the statement; then names and types of the result's columns are known."""
        try:
            with watched(self._con, self._budget, self._memory_mb):
                self._con.execute(self._text)
        except duckdb.Error as error:
            raise refusal(error, self._known, self._text) from None
        self._is_fresh = True
        description = self._con.description or []
        self.columns = tuple(d[0] for d in description)
        self.types = tuple(str(d[1]) for d in description)

    def close(self) -> None:
        """Give the connection back after everything was fetched."""
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
                if self._is_fresh:  # the open result must be closed first
                    self._con.execute("SELECT 1").fetchall()
                    self._is_fresh = False
                source = self._con.sql(self._text)
            with watched(self._con, self._budget, self._memory_mb):
                return getattr(source, form)()
        except duckdb.Error as error:
            raise refusal(error, self._known, self._text) from None

    def head(self, n: int) -> list[tuple[Any, ...]]:
        """Return the first rows of a separate run, which is then abandoned."""
        try:
            if not self._is_fresh:
                self._again()
                self.start()
            self._is_fresh = False
            with watched(self._con, self._budget, self._memory_mb):
                return self._con.fetchmany(n)
        except duckdb.Error as error:
            raise refusal(error, self._known, self._text) from None


class GivenRows(Statement):
    """Rows that were put together here, handed over in the forms of a statement."""

    def __init__(
        self, rows: list[tuple[Any, ...]], columns: tuple[str, ...], types: tuple[str, ...]
    ) -> None:
        self.rows, self.columns, self.types = rows, columns, types

    def fetch(self, form: Form) -> Any:
        """Return all rows in one form."""
        if form == "fetchall":
            return self.rows
        values = list(zip(*self.rows, strict=True)) if self.rows else [()] * len(self.columns)
        types = ["VARCHAR" if type_ == '"NULL"' else type_ for type_ in self.types]
        listed = ", ".join(
            f"unnest(CAST(? AS {type_}[])) AS {quoted(name)}"
            for name, type_ in zip(self.columns, types, strict=True)
        )
        with duckdb.connect() as con:
            return getattr(con.sql(f"SELECT {listed}", params=[list(of) for of in values]), form)()

    def head(self, n: int) -> list[tuple[Any, ...]]:
        """Return the first rows."""
        return self.rows[:n]

    def close(self) -> None:
        """There is no connection to give up."""


class Result:
    """The answer to a statement.

    Attributes
    ----------
    columns : tuple of str
        Names of the result's columns.
    types : tuple of str
        Their SQL types.
    table : ColumnSet or None
        The released table that answered; None if the statement did not read the logical table.
    noise_sd : float or None
        Standard deviation of the noise of that table's finest counts, in rows; see its card.
    filled_share : float or None
        Noisy share of that table's rows that were imputed without reference to the data.
    wide : dict
        Entries of the card about a modelled wide table; empty otherwise.
    card : GeneratorCard or None
        That table's card.
    unit, entity : Unit
        Names of the table's rows and of the protected entity.
    """

    def __init__(
        self,
        statement: Statement,
        *,
        card: GeneratorCard | None,
        unit: Unit,
        entity: Unit,
        max_rows: int | None = None,
        warnings: tuple[str, ...] = (),
        may_look_up: bool = False,
    ) -> None:
        self.columns, self.types = statement.columns, statement.types
        self.card, self.unit, self.entity, self.max_rows = card, unit, entity, max_rows
        self.table = None if card is None else card.columns
        self.noise_sd = None if card is None else card.noise_sd
        self.filled_share = None if card is None else card.suppressed_share
        self.wide = {} if card is None else card.wide
        self._mark: Mark = lambda _: Marks()
        self._warnings = warnings
        self._may_look_up = may_look_up
        self._statement = statement
        self._first: list[tuple[Any, ...]] = []
        self._is_whole = False

    def beside(self, rows: GivenRows, warnings: tuple[str, ...] = ()) -> Result:
        """Return other rows of the same origin, with more warnings."""
        return Result(
            rows,
            card=self.card,
            unit=self.unit,
            entity=self.entity,
            max_rows=self.max_rows,
            warnings=(*self.warnings, *warnings),
        )

    @cached_property
    def rows(self) -> list[tuple[Any, ...]]:
        """The rows as tuples of Python values.

        Raises
        ------
        TooLarge
            They need more memory than the release was opened with; use `head` for the first ones.
        TimedOut
            Fetching them takes longer than the release's `timeout_s`.
        """
        if self._is_whole:
            return self._first
        rows: list[tuple[Any, ...]] = self._statement.fetch("fetchall")
        return rows

    def marked_by(self, mark: Mark) -> Self:
        """Set the function that determines, when needed, which figures of some first rows are not released."""
        self._mark = mark
        return self

    @cached_property
    def marks(self) -> Marks:
        """Which figures are not released, as far as known; computed at first use."""
        return self._mark(lambda: self.rows)

    def marks_of_first(self, n: int) -> Marks:
        """Return which figures of the first `n` rows are not released, without holding the others in memory."""
        return self._mark(lambda: self.head(n))

    def shown(self, n: int | None = None) -> list[tuple[Any, ...]]:
        """Return all rows, or the first `n`, for display: with [c] for figures that are not released."""
        return self.marks.marked(self.rows[:n])

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns, as of a data frame."""
        return len(self), len(self.columns)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Why the answer may be misleading.

        If a condition selects synthetic rows, they are counted: few rows amount to a look-up of individual rows.
        """
        if not self._may_look_up:
            return self._warnings
        is_few = len(self.head(FEW + 1)) <= FEW
        return (*self._warnings, LOOK_UP) if is_few else self._warnings

    def head(self, n: int) -> list[tuple[Any, ...]]:
        """Return the first `n` rows, without holding the others in memory."""
        if "rows" in self.__dict__:
            return self.rows[:n]
        if len(self._first) < n and not self._is_whole:
            self._first = self._statement.head(n)
            self._is_whole = len(self._first) < n
        return self._first[:n]

    def close(self) -> None:
        """Release the connection if all rows were fetched; call when nothing more will be requested."""
        if self._is_whole or "rows" in self.__dict__:
            self._statement.close()

    def df(self, *, unreleased: Unreleased = "missing") -> pandas.DataFrame:
        """Return the rows as a pandas DataFrame.

        Parameters
        ----------
        unreleased : "missing" or "imputed"
            What stands for figures that are not released: nothing (NA), or the imputed numbers, and a column
            `<name>_status` beside each figure whose status is known.
        """
        self._warn_of_unknown()
        frame: pandas.DataFrame = self._given(unreleased).fetch("df")
        return frame

    def arrow(self, *, unreleased: Unreleased = "missing") -> Any:
        """Return the rows as a pyarrow Table; `unreleased` as for `df`.

        Raises
        ------
        MissingPackage
            pyarrow is not installed.
        """
        return self._fetch_with("to_arrow_table", "pyarrow", extra="arrow", unreleased=unreleased)

    def pl(self, *, unreleased: Unreleased = "missing") -> Any:
        """Return the rows as a polars DataFrame; `unreleased` as for `df`.

        Raises
        ------
        MissingPackage
            polars or pyarrow is not installed.
        """
        return self._fetch_with("pl", "polars", "pyarrow", extra="polars", unreleased=unreleased)

    def _given(self, unreleased: Unreleased) -> Statement:
        """The rows as programs get them."""
        statuses = self.marks.statuses
        if unreleased == "missing":
            if not self.marks.n_unreleased:
                return self._statement
            rows = marked(self.rows, self.marks.places(), None)
            return GivenRows(rows, self.columns, self.types)
        columns, types = list(self.columns), list(self.types)
        listed = [list(of) for of in zip(*self.rows, strict=True)] or [[] for _ in columns]
        for at in sorted(statuses, reverse=True):
            name = f"{self.columns[at]}_status"
            if name not in self.columns:
                columns.insert(at + 1, name)
                types.insert(at + 1, "VARCHAR")
                listed.insert(at + 1, list(statuses[at]))
        if len(columns) == len(self.columns):
            return self._statement
        return GivenRows(list(zip(*listed, strict=True)), tuple(columns), tuple(types))

    def _as_rows(self, unreleased: Unreleased) -> GivenRows:
        """The same, as rows."""
        given = self._given(unreleased)
        return (
            given
            if isinstance(given, GivenRows)
            else GivenRows(self.rows, self.columns, self.types)
        )

    def _fetch_with(self, form: Form, *packages: str, extra: str, unreleased: Unreleased) -> Any:
        for package in packages:
            try:
                importlib.import_module(package)
            except ImportError:
                raise MissingPackage(
                    f".{'arrow' if form == 'to_arrow_table' else form}() requires {package}: "
                    f"pip install 'tablepack[{extra}]'"
                ) from None
        self._warn_of_unknown()
        return self._given(unreleased).fetch(form)

    def _warn_of_unknown(self) -> None:
        """Warn the caller of a frame method: a frame has no place for notes."""
        for why in self.marks.unknown:
            warnings.warn(
                f"It is not known which figures are released, so imputed ones may be among them: {why}",
                stacklevel=3,
            )

    def to_csv(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        null: str = "",
        unreleased: Unreleased = "missing",
        force: bool = False,
    ) -> str:
        """Return the rows as CSV with a header, and write them to a file if a path is given.

        Parameters
        ----------
        path : path-like or None
            The file to write; None: none.
        null : str
            Text for NULL.
        unreleased : "missing" or "imputed"
            As for `df`.
        force : bool
            Replace an existing file, unless it is a key, a release or another file that tablepack needs.

        Returns
        -------
        str
            The CSV text.
        """
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        given = self._as_rows(unreleased)
        writer.writerow(given.columns)
        writer.writerows([[null if v is None else _plain(v) for v in row] for row in given.rows])
        return _written(out.getvalue(), path, force=force)

    def to_json(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        unreleased: Unreleased = "missing",
        force: bool = False,
    ) -> str:
        """Return the rows as JSON with the table that answered and its noise; parameters as `to_csv`.

        Columns and rows are lists, so that duplicate names are kept; dates are ISO 8601 text, decimals text.
        """
        given = self._as_rows(unreleased)
        answer = {
            "columns": list(given.columns),
            "types": list(given.types),
            "rows": [[_finite(v) for v in row] for row in given.rows],
            "table": list(self.table) if self.table is not None else None,
            "noise_sd": self.noise_sd,
            "filled_share": self.filled_share,
            "warnings": [*self.warnings, *self.marks.notes(self.entity, instead=unreleased)],
        }
        text = json.dumps(answer, default=_plain, ensure_ascii=False, allow_nan=False)
        return _written(text + "\n", path, force=force)

    @property
    def source(self) -> str:
        """Which table answered, with its noise, in words."""
        card = self.card
        if card is None:
            return "Not read from the logical table."
        named, many = ", ".join(card.columns), self.unit.many
        if card.dp:
            return " ".join([f"Answered from table {named};", *self._dp_source(card)])
        bounded = bound_sentences(self.max_rows, words_of(self.unit, self.entity))
        limits = "".join(f" {sentence}" for sentence in (*bounded, *swap_sentences(card.swap)))
        if card.wide:
            modelled = "MODELLED from locked tables of two and three columns"
            return f"Answered from table {named}, which is {modelled}.{limits}"
        imputed = ""
        if card.suppressed_share >= MENTIONED_FROM:
            imputed = (
                f" About {100 * card.suppressed_share:.0f} % of its {many} fall in suppressed groups and were imputed: "
                "detailed figures, and averages over such values, are rough."
            )
        return (
            f"Answered from table {named}; each measured count includes noise of sd {card.noise_sd:.2f} {many}"
            f"{range_words(card.noise_sd, card.noise_sd_total)}.{imputed}{limits}"
        )

    def _dp_source(self, card: GeneratorCard) -> list[str]:
        """The accuracy of an answer in mode dp, in words."""
        dp, many = card.dp, self.unit.many
        if not dp["covered"]:
            sentences = [
                "MODELLED from narrower margins, so these combinations were not measured; the margins' counts carry "
                f"noise of sd {card.noise_sd:.2f} {many} at most."
            ]
        elif dp["epsilon"] is None:
            sentences = ["its counts were measured without noise."]
        else:
            sentences = [
                f"each measured count includes noise of sd {card.noise_sd:.2f} {many} at most."
            ]
        held = Guarantee.of(dp)
        if held.bounds_rows:
            words = words_of(self.unit, self.entity)
            sentences += bound_sentences(dp["max_rows"], words, is_said=True)
        if not held.is_protected:
            sentences.append(held.promise())
        if not dp["converged"]:
            sentences.append("The fit did NOT converge.")
        bare = [name for name in card.columns if name in dp["uniform"]]
        if bare:
            sentences.append(
                f"Nothing was measured for {', '.join(bare)}; values are assumed to be equally frequent."
            )
        return sentences

    def __repr__(self) -> str:
        return text_table(self.columns, self.shown(N_SHOWN), self._footer())

    def _repr_html_(self) -> str:
        return html_table(self.columns, self.shown(N_SHOWN), below=self._footer())

    def _footer(self) -> list[str]:
        """Return the lines under the rows: number of further rows, source, warnings."""
        hidden = len(self.rows) - N_SHOWN
        more = [f"... and {hidden:,} more {'row' if hidden == 1 else 'rows'}"] if hidden > 0 else []
        notes = self.marks.notes(self.entity)
        return [*more, *notes, self.source, *(f"Warning: {text}" for text in self.warnings)]


def _finite(value: Any) -> Any:
    """Return a value that JSON can represent: NaN and infinities as text, also when nested; keys as text."""
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    if isinstance(value, dict):
        return {str(_plain(k)): _finite(v) for k, v in value.items()}
    return str(value) if isinstance(value, float) and value - value != 0 else value


def _plain(value: Any) -> Any:
    """Return a value as text unless it is text or a number."""
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
