"""SQL answers with noise intervals: beside each aggregate its low and high end and its status.

Takes an open release and a statement; gives the plain answer, wider by three columns a figure that is understood, and
a warning for each that is not. The statement runs as it is; its keys, conditions and arguments are evaluated once more
on the distinct synthetic rows, so that every figure is a weighted sum of rows whose noise is known.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import duckdb
import numpy as np

from engine.errors import StoreError
from engine.schema import BoolArray, FloatArray
from queries.intervals.estimates import holds
from queries.intervals.statement.composed import composed_marks
from queries.intervals.statement.groupings import Rows
from queries.intervals.statement.reckoned import Reckoned, reckon
from queries.intervals.statement.spreads import reckons, spreads
from queries.intervals.statement.tree import NoFigures, NotAlone, Unknown
from queries.sql import (
    Form,
    Marks,
    Result,
    Session,
    Statement,
    has_stored_figures,
    plan_of,
    selected,
)

_PLAIN = "No noise interval is known for "
_BY_NAME = "it reads a stored table by its name; of the logical table it is known."
_OUTSIDE = "it does not lie in the interval that was reckoned for it."


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

    def close(self) -> None:
        """There is no connection to give up."""


def annotated(release: Session, text: str, tables: Mapping[str, Any] | None = None) -> Result:
    """Answer a statement, with `<name>_low`, `<name>_high` and `<name>_status` after each figure that is understood.

    Understood are count, count_if, sum, avg, median, quantile_cont, quantile_disc, with FILTER, arithmetic over them,
    and shares such as 100 * count(*) / sum(count(*)) OVER (), in a SELECT ... FROM the logical table [WHERE]
    [GROUP BY]; a name given to a column of the same SELECT stands for it. All other figures have the spread that they
    have over the replays of the table, where these can tell (`queries.intervals.replays`).
    """
    plain, more, reasons = ends_of(release, text, tables)
    return beside(plain, more, tuple(_PLAIN + why for why in reasons))


Ends = list[tuple[str, str, list[Any]]]
"""Columns more of one figure: ending of the name ("": in its own place), type and values of each."""


def ends_of(
    release: Session, text: str, tables: Mapping[str, Any] | None = None
) -> tuple[Result, dict[int, Ends], list[str]]:
    """Answer a statement; the ends of its figures by place, and why others have none; see `annotated`."""
    plain = Session.sql(release, text, tables=tables)
    if plain.table is None:
        return plain, {}, ["this answer: it does not read the logical table."]
    try:
        if tables:
            raise Unknown("it reads tables of one's own")
        reckoned = reckon(
            release, text, plain.columns, plain.types, plain.table, plain.rows, is_strict=True
        )
    except NoFigures as why:
        return plain, {}, [f"this answer: {why}."]
    except (Unknown, duckdb.Error, StoreError) as error:
        if not reckons(release, text, tables):
            return plain, {}, [f"this answer: {_why(error)}."]
        return plain, *_from_replays(release, text, plain, tables, _why(error))
    more, reasons = _beside_figures(plain, reckoned)
    reasons += [reckoned.unread[at] for at in sorted(reckoned.differs)]
    missing = {at: why for at, why in reckoned.unread.items() if at not in reckoned.differs}
    if missing:
        of_replays, why_not = _from_replays(
            release, text, plain, None, missing, {*reckoned.estimates, *reckoned.differs}
        )
        more, reasons = more | of_replays, [*why_not, *reasons]
    return plain, more, reasons


def kept_ends(ends: Ends | None, word: str) -> list[Any] | None:
    """The values of one of a figure's columns more."""
    return next((values for name, _, values in ends or () if name == word), None)


def _from_replays(
    release: Session,
    text: str,
    plain: Result,
    tables: Mapping[str, Any] | None,
    unread: Mapping[int, str] | str,
    closed: Collection[int] = (),
) -> tuple[dict[int, Ends], list[str]]:
    """Three columns more for each figure of which replays of the table tell, and the reasons for those without.

    `unread` says why no closed form covers a figure, by place, or why the statement was not understood at all; `closed`
    are the places of the other figures.
    """
    wanted = None if isinstance(unread, str) else [*unread]
    try:
        found, why = spreads(release, text, plain, tables, wanted, closed)
    except (Unknown, duckdb.Error, StoreError) as error:
        nor = f"; nor do replays of the table tell: {_why(error)}."
        if isinstance(unread, str):
            return {}, [f"this answer: {unread}{nor}"]
        return {}, [reason.removesuffix(".") + nor for reason in unread.values()]
    reasons = []
    for at, of_replays in why.items():
        reason = f"{plain.columns[at]}: {unread}" if isinstance(unread, str) else unread[at]
        reasons.append(
            f"{reason.removesuffix('.')}; nor do replays of the table tell: {of_replays}."
        )
    more: dict[int, Ends] = {}
    for at, one in found.items():
        more[at] = _columns_of(one.low, one.high, [*one.status], is_whole=one.is_whole)
        if any(low is None for low in more[at][0][2]):
            reasons.append(
                f"{plain.columns[at]}, some of its rows: they are not released, or in too few replays."
            )
    return more, reasons


def marks_of(release: Session, text: str, plain: Result, rows: Rows) -> Marks:
    """Return which figures of a statement's plain answer are not released."""
    try:
        if plain.table is None:
            with release.cursor() as con:
                is_by_name = has_stored_figures(plan_of(con, selected(text, con)[0]))
            return Marks(unknown=(_BY_NAME,)) if is_by_name else Marks()
        found = reckon(
            release, text, plain.columns, plain.types, plain.table, rows, is_strict=False
        )
    except NoFigures:
        return Marks()
    except NotAlone as error:
        alone = error
    except (Unknown, duckdb.Error, StoreError) as error:
        return Marks(unknown=(f"{_why(error)}.",))
    else:
        return found.marks()
    try:  # it is made of others
        return composed_marks(release, text, plain.table or (), rows)
    except (NotAlone, duckdb.Error, StoreError):
        return Marks(unknown=(f"{alone}.",))
    except Unknown as error:
        return Marks(unknown=(f"{error}.",))


def _why(error: Exception) -> str:
    """Why a statement is not understood: what DuckDB says of our own statements tells nobody anything."""
    return "it is not understood" if isinstance(error, duckdb.Error) else str(error)


def _beside_figures(plain: Result, reckoned: Reckoned) -> tuple[dict[int, Ends], list[str]]:
    """Three columns more a figure that was reckoned, and why there are not more."""
    more: dict[int, Ends] = {}
    reasons = [*reckoned.reasons]
    for at, estimate in reckoned.estimates.items():
        is_zero = reckoned.ruled & estimate.is_count
        low, high = np.where(is_zero, 0.0, estimate.low), np.where(is_zero, 0.0, estimate.high)
        value = [None if row[at] is None else float(row[at]) for row in plain.rows]
        lows, highs = (ends[reckoned.group].astype(np.float64) for ends in (low, high))
        held = holds(np.array(value, dtype=np.float64), lows, highs)
        held &= ~_no_figure(value, estimate.known[reckoned.group] & np.isfinite(lows + highs))
        if not held.all():
            reasons.append(f"{plain.columns[at]}, {int((~held).sum())} of its rows: {_OUTSIDE}")
        lows, highs = (np.where(held, ends, np.nan) for ends in (lows, highs))
        statuses = [  # some have no interval after all
            status if ok or status in ("not released", "structural zero") else "unreliable"
            for status, ok in zip(reckoned.statuses(at), held.tolist(), strict=True)
        ]
        more[at] = _columns_of(lows, highs, statuses, is_whole=estimate.is_count)
    return more, reasons


def _no_figure(value: Sequence[float | None], known: BoolArray) -> BoolArray:
    """Where no number is shown though one was reckoned: TRY_CAST leaves it out, or a sum of no rows is in it."""
    missing: BoolArray = np.array([v is None or math.isnan(v) for v in value], dtype=bool)
    return known & missing


def _columns_of(low: FloatArray, high: FloatArray, status: list[str], *, is_whole: bool) -> Ends:
    """Three columns more: ends as Python numbers, None where there is none, and statuses."""
    kind, type_ = (int, "BIGINT") if is_whole else (float, "DOUBLE")
    lows, highs = (
        [kind(end) if math.isfinite(end) else None for end in ends.tolist()] for ends in (low, high)
    )
    return [("low", type_, lows), ("high", type_, highs), ("status", "VARCHAR", status)]


def with_statuses(plain: Result) -> Result:
    """Return an answer with `<name>_status` after each figure whose status is known, from its own marks."""
    marks = plain.marks
    more = {at: [("status", "VARCHAR", list(of))] for at, of in marks.statuses.items()}
    return beside(plain, more, tuple(f"No status is known for {why}" for why in marks.unknown))


def beside(
    plain: Result,
    more: Mapping[int, Ends],
    warnings: tuple[str, ...],
    shown: Collection[str] = ("low", "high", "status"),
) -> Result:
    """The plain answer with columns more after some of its own, and the marks of these figures; `shown`: which."""
    columns: list[str] = []
    types: list[str] = []
    listed: list[list[Any]] = []
    taken = {name.casefold() for name in plain.columns}
    marked = {}
    for at, name in enumerate(plain.columns):
        given = more.get(at, [])
        added = [one for one in given if one[0] in shown]
        own = next(((type_, values) for word, type_, values in given if not word), None)
        statuses = kept_ends(given, "status")
        if statuses is not None:
            marked[len(columns)] = statuses
        columns += [name, *_free([f"{name}_{word}" for word, *_ in added], taken)]
        type_, values = own or (plain.types[at], [row[at] for row in plain.rows])
        types += [type_, *(type_ for _, type_, _ in added)]
        listed += [values, *(values for *_, values in added)]
    rows = list(zip(*listed, strict=True))
    same = (
        "table",
        "noise_sd",
        "filled_share",
        "wide",
        "swap",
        "max_rows",
        "range_sd",
        "dp",
        "unit",
        "entity",
    )
    wider = Result(
        columns=tuple(columns),
        types=tuple(types),
        warnings=(*plain.warnings, *warnings),
        statement=_WidenedRows(rows, tuple(columns)),
        **{name: getattr(plain, name) for name in same},
    )
    plain.close()
    return wider.marked_by(
        lambda rows: Marks(statuses={at: of[: len(rows)] for at, of in marked.items()})
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
