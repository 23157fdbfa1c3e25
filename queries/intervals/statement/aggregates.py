"""SQL answers with noise intervals: beside each figure its low and high end and its status; marks of plain answers.

Takes an open release and a statement; gives the plain answer, wider by three columns a figure, and a warning for each
of which nothing is known. The statement runs as it is, once more on every variant of the table that answers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import duckdb
import numpy as np

from engine.errors import StoreError
from engine.schema import FloatArray
from queries.intervals.replays import placements, table_of
from queries.intervals.spread import ends_of_counts, ends_of_figures, most_hidden, statuses, unfit
from queries.intervals.statement.answers import (
    MOST_ROWS,
    Asked,
    Rows,
    asked_of,
    drawn_replays,
    is_conditional,
    matched,
    rows_of_groups,
)
from queries.intervals.statement.limits import summed_columns
from queries.intervals.statement.nodes import NoFigures, Unknown
from queries.intervals.statement.texts import with_hidden_texts
from queries.intervals.tabulation import clipped
from queries.sql import (
    NOT_RELEASED,
    GivenRows,
    Marks,
    Result,
    Session,
    has_stored_figures,
    plan_of,
    selected,
)

_PLAIN = "No noise interval is known for "
_BY_NAME = "it reads a stored table by its name; of the logical table it is known."
RELEASED = "released"
"""Status of a figure that rests on released ones; how sure it is, is not asked."""
STRUCTURAL = "structural zero"
NOT_KNOWN = "not known"
"""Status of a figure that may be one of imputed rows."""
_WHOLE = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?\Z")


def annotated(
    release: Session,
    text: str,
    tables: Mapping[str, Any] | None = None,
    shown: Collection[str] = ("low", "high", "status"),
) -> Result:
    """Answer a statement, with `<name>_low`, `<name>_high` and `<name>_status` after each figure; `shown`: which.

    Figures have the spread that they have over replays of the table; see README.md for those of which replays cannot
    tell.
    """
    plain, more, reasons = ends_of(release, text, tables)
    warnings = tuple(_PLAIN + why for why in reasons)
    if plain.table and more:
        warnings += tuple(
            clipped(table_of(release, plain.table).card, summed_columns(release, text))
        )
    if "low" not in shown:  # whether a figure is released is known of more of them
        marks = marks_of(release, text, plain, lambda: plain.rows, tables)
        rest = {at: of for at, of in marks.statuses.items() if at not in more}
        more |= {at: [("status", "VARCHAR", list(of))] for at, of in rest.items()}
        warnings = tuple(f"No status is known for {why}" for why in marks.unknown)
    return beside(plain, more, warnings, shown=shown)


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
        return plain, *_ends(release, text, plain, tables)
    except (Unknown, duckdb.Error, StoreError) as error:
        return plain, {}, [f"this answer: {_why(error)}."]


def _ends(
    release: Session, text: str, plain: Result, tables: Mapping[str, Any] | None
) -> tuple[dict[int, Ends], list[str]]:
    """Three columns more for each figure of which replays of the table tell, and the reasons for those without."""
    asked = asked_of(release, text, plain, tables)
    shape, table = asked.shape, table_of(release, asked.table)
    _check_few(plain.rows)
    drawn = with_hidden_texts(release, shape.select, drawn_replays(release, asked.table), tables)
    found = matched(asked, plain.rows, drawn)
    more: dict[int, Ends] = {}
    reasons = []
    too_few = np.zeros(len(plain.rows), dtype=bool)
    if drawn.least_rows and not {*found} <= shape.counted:
        sizes = rows_of_groups(asked, plain.rows)
        too_few = ~(sizes >= drawn.least_rows)
    for at, figures in found.items():
        is_whole, is_count = bool(_WHOLE.match(plain.types[at])), at in shape.counted
        is_amount = is_count or at in shape.amounts
        known = figures.known(is_amount=is_amount)
        ruled = figures.ruled() & is_amount
        why = shape.hidden.get(at)
        why = why or (None if asked.is_number(at) else "its values are no numbers")
        if not is_count or known.any():
            why = why or unfit(figures)
        if why:
            reasons.append(f"{plain.columns[at]}: {why}.")
            continue
        low, high = ends_of_figures(figures, is_whole=is_whole, is_count=is_count)
        if is_count:
            low, high = ends_of_counts(figures.value, low, high, known, most_hidden(table))
        else:
            is_some = drawn.least_rows > 0 and is_conditional(shape, at)
            sure = known & ~too_few & (not is_some)
            low, high = (np.where(sure, end, np.nan) for end in (low, high))
        low, high = (np.where(ruled, 0.0, end) for end in (low, high))
        far = figures.may_be_far_off()
        status = statuses(figures.value, low, high, known, ruled, far=far, is_amount=is_amount)
        more[at] = _columns_of(low, high, [*status], is_whole=is_whole)
        if np.isnan(low).any():
            reasons.append(
                f"{plain.columns[at]}, some of its rows: they are not released, in too few replays, or modelled of too "
                "few rows or too many columns."
            )
    return more, reasons


def _check_few(rows: Rows) -> None:
    """Refuse answers of very many rows."""
    if len(rows) > MOST_ROWS:
        raise Unknown(f"it has more than {MOST_ROWS:,} rows")


def kept_ends(ends: Ends | None, word: str) -> list[Any] | None:
    """The values of one of a figure's columns more."""
    return next((values for name, _, values in ends or () if name == word), None)


def marks_of(
    release: Session,
    text: str,
    plain: Result,
    shown: Callable[[], Rows],
    tables: Mapping[str, Any] | None = None,
) -> Marks:
    """Return which figures of a statement's plain answer are not released: those that imputed rows alone show."""
    try:
        if plain.table is None:
            with release.cursor() as con:
                is_by_name = has_stored_figures(plan_of(con, selected(text, con)[0]))
            return Marks(unknown=(_BY_NAME,)) if is_by_name else Marks()
        return _marks(asked_of(release, text, plain, tables), shown())
    except NoFigures:
        return Marks()
    except (Unknown, duckdb.Error, StoreError) as error:
        return Marks(unknown=(f"{_why(error)}.",))


def _marks(asked: Asked, rows: Rows) -> Marks:
    """Statuses of the figures in some rows of a plain answer."""
    _check_few(rows)
    shape, release = asked.shape, asked.release
    found = matched(asked, rows, placements(release, asked.table))
    of_each = {}
    for at, figures in found.items():
        is_amount = at in shape.amounts
        known, ruled = figures.known(is_amount=is_amount), figures.ruled() & is_amount
        otherwise = NOT_KNOWN if at in shape.hidden else RELEASED
        of_each[at] = [
            STRUCTURAL if is_ruled else otherwise if one else NOT_RELEASED
            for one, is_ruled in zip(known.tolist(), ruled.tolist(), strict=True)
        ]
    unknown = tuple(f"{asked.columns[at]}: {why}." for at, why in shape.hidden.items())
    return Marks(statuses=of_each, unknown=unknown)


def _why(error: Exception) -> str:
    """Why nothing is known: what DuckDB says of our own statements tells nobody anything."""
    return "it is not understood" if isinstance(error, duckdb.Error) else str(error)


def _columns_of(low: FloatArray, high: FloatArray, status: list[str], *, is_whole: bool) -> Ends:
    """Three columns more: ends as Python numbers, None where there is none, and statuses."""
    kind, type_ = (int, "BIGINT") if is_whole else (float, "DOUBLE")
    lows, highs = (
        [kind(end) if math.isfinite(end) else None for end in ends.tolist()] for ends in (low, high)
    )
    return [("low", type_, lows), ("high", type_, highs), ("status", "VARCHAR", status)]


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
    wider = plain.beside(GivenRows(rows, tuple(columns), tuple(types)), warnings)
    plain.close()
    return wider.marked_by(
        lambda rows: Marks(statuses={at: of[: len(rows())] for at, of in marked.items()})
    )


def _free(names: Sequence[str], taken: set[str]) -> list[str]:
    """Names that no column has, and take them; each gets a _ more as long as it is taken."""
    out = []
    for name in names:
        while name.casefold() in taken:
            name += "_"
        taken.add(name.casefold())
        out.append(name)
    return out
