"""SQL answers with noise intervals: beside each aggregate its low and high end and its status.

Takes an open release and a statement; gives the plain answer, wider by three columns a figure that is understood, and
a warning for each that is not. The statement runs as it is; its keys, conditions and arguments are evaluated once more
on the distinct synthetic rows, so that every figure is a weighted sum of rows whose noise is known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np

from engine.errors import StoreError
from engine.schema import BoolArray, ColumnSet, FloatArray
from queries.intervals.estimates import Estimates, statuses
from queries.intervals.model import noise_model
from queries.intervals.statement.rows import Evaluated, evaluated
from queries.intervals.statement.terms import estimate_of
from queries.intervals.statement.tree import ParsedStatement, Unknown, parse_statement
from queries.intervals.universes import ruled_out
from queries.sql import Form, Result, Session, Statement

_PLAIN = "No noise interval is known for "
_OF_GROUPS = (
    "some figures: in mode dp values are measured in groups, or modelled from narrower tables, and what a part of "
    "a group holds is not known."
)
_TYPES = ("DOUBLE", "DOUBLE", "VARCHAR")


class _WidenedRows(Statement):
    """Rows that were put together here, handed over in the forms of a statement."""

    def __init__(self, rows: list[tuple[Any, ...]], columns: tuple[str, ...]) -> None:
        self._rows, self._columns = rows, columns

    def start(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Nothing is left to run."""
        return self._columns, ()

    def fetch(self, form: Form) -> Any:
        """Return all rows in one form."""
        if form == "fetchall":
            return self._rows
        import pandas

        frame = pandas.DataFrame(self._rows, columns=_apart(self._columns))
        if form == "df":
            return frame
        if form == "pl":
            import polars

            return polars.from_pandas(frame)
        import pyarrow

        return pyarrow.Table.from_pandas(frame, preserve_index=False)

    def head(self, n: int) -> list[tuple[Any, ...]]:
        """Return the first rows."""
        return self._rows[:n]


def annotated(release: Session, text: str) -> Result:
    """Answer a statement, with `<name>_low`, `<name>_high` and `<name>_status` after each figure that is understood.

    Understood are count, count_if, sum, avg, median, quantile_cont, quantile_disc, with FILTER, arithmetic over them,
    and shares such as 100 * count(*) / sum(count(*)) OVER (), in a SELECT ... FROM the logical table [WHERE]
    [GROUP BY]; a name given to a column of the same SELECT stands for it.

    Raises
    ------
    QueryRefused, NotAnswerable
        As `Session.sql`.
    """
    plain = release.sql(text)
    if plain.table is None:
        return _warned(plain, "this answer: it does not read the logical table.")
    try:
        with release.cursor() as con:
            question = parse_statement(con, text, release.logical_name, tuple(release.columns))
            model = noise_model(release, plain.table)
            rows = evaluated(con, release, model.table, question)
        estimates: dict[int, Estimates] = {}
        reasons = []
        for at, term in question.figures:
            if term == "":  # a constant is what it is
                continue
            if isinstance(term, str):
                reasons.append(f"{plain.columns[at]}: {term}.")
            else:
                estimates[at] = estimate_of(release, model, rows, term)
        if model.tree is None and any(
            np.isnan(estimate.sd).any() for estimate in estimates.values()
        ):
            reasons.append(_OF_GROUPS)
        ruled = np.zeros(rows.region.n_groups, dtype=bool)
        if not rows.region.is_free:
            ruled = ruled_out(release, model.table, rows.region)
        return _widened(plain, question, rows, estimates, ruled, reasons)
    except Unknown as why:
        return _warned(plain, f"this answer: {why}.")
    except (duckdb.Error, StoreError) as error:
        return _warned(plain, f"this answer: {str(error).splitlines()[0]}.")


def _warned(plain: Result, reason: str) -> Result:
    """The plain answer with the reason why it has no intervals."""
    return _like(plain, plain.rows, plain.columns, plain.types, (_PLAIN + reason,))


def _widened(
    plain: Result,
    question: ParsedStatement,
    rows: Evaluated,
    estimates: dict[int, Estimates],
    ruled: BoolArray,
    reasons: Sequence[str],
) -> Result:
    """The plain answer with three columns more a figure."""
    counted = {at for at, estimate in estimates.items() if estimate.is_count}
    key_places = [at for at, _ in question.keys]
    number = {key: i for i, key in enumerate(rows.keys)}
    place = [number.get(tuple(row[at] for at in key_places), -1) for row in plain.rows]
    if -1 in place:
        raise Unknown("its groups could not be told apart")
    columns: list[str] = []
    taken = {name.casefold() for name in plain.columns}
    types: list[str] = []
    listed: list[list[Any]] = []
    for at, name in enumerate(plain.columns):
        columns.append(name)
        types.append(plain.types[at])
        listed.append([row[at] for row in plain.rows])
        if at in estimates:
            estimate = estimates[at]
            status = statuses(estimate, ruled)
            is_zero = ruled & (at in counted)
            low, high = np.where(is_zero, 0.0, estimate.low), np.where(is_zero, 0.0, estimate.high)
            columns += _free([f"{name}_{word}" for word in ("low", "high", "status")], taken)
            end = int if at in counted else float
            types += ("BIGINT", "BIGINT", "VARCHAR") if at in counted else _TYPES
            listed += [_plain(low, place, end), _plain(high, place, end)]
            listed.append([status[i] for i in place])
    widened = list(zip(*listed, strict=True))
    return _like(
        plain, widened, tuple(columns), tuple(types), tuple(_PLAIN + why for why in reasons)
    )


def _apart(names: Sequence[str]) -> list[str]:
    """Names for a frame: what stands there twice gets a number, as DuckDB's own frames have it."""
    out: list[str] = []
    for name in names:
        tries = (name, *(f"{name}_{i}" for i in range(1, len(names) + 1)))
        out.append(next(t for t in tries if t not in out and (t == name or t not in names)))
    return out


def _free(names: Sequence[str], taken: set[str]) -> list[str]:
    """Names that no column has, and take them; each gets a _ more as long as it is taken."""
    out = []
    for name in names:
        while name.casefold() in taken:
            name += "_"
        taken.add(name.casefold())
        out.append(name)
    return out


def _plain(ends: FloatArray, place: Sequence[int], kind: type) -> list[Any]:
    """Ends of intervals as Python numbers of a kind; None where there is none."""
    values = ends.tolist()
    return [kind(values[i]) if math.isfinite(values[i]) else None for i in place]


def _like(
    plain: Result,
    rows: list[tuple[Any, ...]],
    columns: tuple[str, ...],
    types: tuple[str, ...],
    warnings: tuple[str, ...],
) -> Result:
    """A result from the same table."""
    table: ColumnSet | None = plain.table
    return Result(
        columns=columns,
        types=types,
        table=table,
        noise_sd=plain.noise_sd,
        filled_share=plain.filled_share,
        dp=plain.dp,
        warnings=(*plain.warnings, *warnings),
        statement=_WidenedRows(rows, columns),
    )
