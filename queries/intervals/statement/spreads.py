"""Figures of any statement with the spread that they have over the replicates of the table that answers.

Takes a statement with its plain answer; runs the same text on each copy (`queries.intervals.copies`) and matches
the rows by what they show beside figures. Gives low and high ends and a status for every number that differs; raises
`Unknown` where copies say nothing: what no copy can hold (extremes, values that are not released), rows that are
looked up or drawn, modelled tables.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from engine.errors import QueryRefused, StoreError, TimedOut, TooLarge
from engine.schema import ColumnSet, FloatArray
from queries.intervals.copies.replicates import N_REPLICATES, Replicates, replicates
from queries.intervals.copies.spread import (
    ENOUGH,
    MEASURED,
    TABLE_MEASURED,
    Spread,
    measured_share,
    spread_of,
    unfit,
)
from queries.intervals.model import noise_model
from queries.intervals.statement.groupings import Rows, comparable
from queries.intervals.statement.limits import refused
from queries.intervals.statement.nodes import text_of_select
from queries.intervals.statement.tree import Unknown, parsed_select
from queries.sql import Result, Session

MOST_S = 10.0
"""Seconds that all copies of a statement may take."""
MOST_ROWS = 50_000
"""Distinct rows of a table whose copies are drawn: 20 MB of counts."""
MOST_ASTRAY = 0.02
"""Share of a copy that may lie outside the margins that it is locked to."""
_MOST_KEPT, _MOST_ANSWERED = 16, 20_000
"""Statements whose answers on copies are kept for the next time, and the most rows of one."""
_N_SURE = 2 + N_REPLICATES + 1
"""The answer, the same once more, its copies, measured rows alone; what follows is by tails."""
_NUMBER = re.compile(r"(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|DOUBLE|FLOAT|DECIMAL\(.*\))\Z")
_WHOLE = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?\Z")
_RECKONS = ("AGGREGATE", "GROUP_BY", "WINDOW")


def spreads(
    release: Session,
    text: str,
    plain: Result,
    tables: Mapping[str, Any] | None,
    wanted: Collection[int] | None,
    closed: Collection[int] = (),
) -> tuple[dict[int, Spread], dict[int, str]]:
    """Return ends and statuses of figures by place, and for others the reason why there are none.

    wanted: Places that are known to be figures; None: the statement could not be read, so that the answer
        must tell.
    closed: Places of other figures, which a closed form covers: no row is known by these.
    """
    if plain.table is None:
        raise Unknown("it does not read the logical table")
    shape = refused(release, text, plain, wanted, tables or ())
    copies = sound_copies(release, plain.table)
    whole = _whole(release, text)
    answers = _answers(release, whole, plain.table, copies, tables)
    try:
        figures, keys = _columns(plain, answers, wanted, closed)
    except Unknown:
        if whole == text:
            raise
        # Of rows that only their place tells apart, such as the three largest, copies may show others.
        answers = _answers(release, text, plain.table, copies, tables)
        figures, keys = _columns(plain, answers, wanted, closed)
    rows = {comparable([row[at] for at in keys]): i for i, row in enumerate(plain.rows)}
    found: dict[int, Spread] = {}
    reasons = {at: why for at, why in shape.hidden.items() if at in figures}
    for at in figures:
        if at in shape.hidden:
            continue
        if not _NUMBER.match(plain.types[at]):
            reasons[at] = "its values are no numbers"
            continue
        values = _matched([plain.rows, *answers], at, keys, rows)
        values, of_tails = values[:, :_N_SURE], values[:, _N_SURE:]
        why = unfit(values)
        if why:
            reasons[at] = why
        else:
            ends = spread_of(
                values,
                of_tails,
                copies.tails.n_ends,
                is_whole=bool(_WHOLE.match(plain.types[at])),
                is_stepped=shape.is_stepped,
            )
            is_count = at in shape.counted
            found[at] = replace(ends, low=np.maximum(ends.low, 0.0)) if is_count else ends
    return found, reasons


def _whole(release: Session, text: str) -> str:
    """A statement without the LIMIT of its order: which rows come first is not the same in every copy."""
    with release.cursor() as con:
        node = parsed_select(con, text)
        kinds = [one["type"] for one in node.get("modifiers", [])]
        if "ORDER_MODIFIER" not in kinds or "LIMIT_MODIFIER" not in kinds:
            return text
        node["modifiers"] = [one for one in node["modifiers"] if one["type"] != "LIMIT_MODIFIER"]
        return text_of_select(con, node)


def sound_copies(release: Session, columns: ColumnSet) -> Replicates:
    """Return the copies of a table, where these are as far from it as it may be from the data."""
    if release.is_overseen:
        raise Unknown(
            "copies of a table are not drawn for strangers: nothing bounds what they take"
        )
    table = noise_model(release, columns).table
    if len(table.rows) > MOST_ROWS:
        raise Unknown(f"its table has more than {MOST_ROWS:,} distinct rows, too many to copy")
    for name in columns:
        if (name,) not in release.tables:
            continue
        share = measured_share(noise_model(release, (name,)).table)
        if share < MEASURED:
            raise Unknown(
                f"{1 - share:.0%} of {name} was filled in or is not released by value, and nothing tells how far the "
                f"fill is off (at most {1 - MEASURED:.0%} may be)"
            )
    share = measured_share(table)
    if share < (TABLE_MEASURED if len(columns) > 1 else MEASURED):
        raise Unknown(
            f"{1 - share:.0%} of its table was filled in, and nothing tells how far the fill is off (at most "
            f"{1 - TABLE_MEASURED:.0%} may be)"
        )
    try:
        copies = replicates(release, columns, _clock(release))
    except TimedOut:
        release.check_cancelled()
        raise Unknown(
            f"to draw copies of its table takes more than {min(MOST_S, release.timeout_s):g} seconds"
        ) from None
    if copies is None:
        raise Unknown("its table is modelled or of mode dp, and how far it is off is not stated")
    if copies.astray > MOST_ASTRAY:
        raise Unknown("copies of its table do not keep its totals")
    return copies


def _clock(release: Session) -> Callable[[], None]:
    """What raises TimedOut where nobody waits any more, or copies have been drawn for too long."""
    until = time.monotonic() + min(MOST_S, release.timeout_s)

    def check_cancelled() -> None:
        release.check_cancelled()
        if time.monotonic() > until:
            raise TimedOut("The copies of a table took too long")

    return check_cancelled


def _answers(
    release: Session,
    text: str,
    columns: ColumnSet,
    copies: Replicates,
    tables: Mapping[str, Any] | None,
) -> list[list[tuple[Any, ...]]]:
    """Rows of a statement on the released counts once more, on every copy, on measured rows alone, and by tails.

    Short ones are kept for the next time, as the copies are.
    """
    kept: dict[tuple[str, ColumnSet], list[list[tuple[Any, ...]]]] = (
        {} if tables else release.models.setdefault(("answers",), {})
    )
    if (text, columns) in kept:
        return kept[text, columns]
    table = noise_model(release, columns).table
    measured = np.where(table.row_measured, table.n, 0)
    tails = copies.tails
    counts = np.column_stack([table.n, copies.counts, measured])
    counts = np.pad(counts, ((0, len(tails.rows.source)), (0, 0)))
    counts = np.hstack([counts, tails.counts])
    try:
        answers = release.on_replicates(
            text, columns, counts, tails.rows, tables=tables, seconds=MOST_S
        )
    except (TimedOut, TooLarge):
        release.check_cancelled()  # it is another matter where nobody waits any more
        raise Unknown(
            f"on copies of the table it takes more than {min(MOST_S, release.timeout_s):g} seconds"
        ) from None
    except QueryRefused as error:
        raise Unknown(f"on a copy of the table it fails ({str(error).splitlines()[0]})") from None
    if sum(map(len, answers)) <= _MOST_ANSWERED:
        kept[text, columns] = answers
    for oldest in list(kept)[:-_MOST_KEPT]:
        kept.pop(oldest, None)
    return answers


def _columns(
    plain: Result,
    answers: Sequence[Rows],
    wanted: Collection[int] | None,
    closed: Collection[int],
) -> tuple[list[int], list[int]]:
    """Places of the figures, and of the columns that tell which row is which in every copy."""
    every = [at for at in range(len(plain.columns)) if at not in closed]
    if len(plain.rows) <= 1 and all(len(rows) <= 1 for rows in answers):
        figures = [
            at
            for at in every
            if (_NUMBER.match(plain.types[at]) if wanted is None else at in wanted)
        ]
        return figures, [at for at in every if at not in figures]
    keys = [at for at in every if at not in (wanted or ()) and _is_steady(at, answers)]
    if not _are_apart(answers[0], keys):
        raise Unknown("its rows could not be told apart in copies of the table")
    is_number = [bool(_NUMBER.match(type_)) for type_ in plain.types]
    for at in sorted(keys, key=lambda at: (not is_number[at], -at)):
        fewer = [key for key in keys if key != at]
        if _are_apart(answers[0], fewer):
            keys = fewer
    return [at for at in every if at not in keys and (wanted is None or at in wanted)], keys


def _is_steady(at: int, answers: Sequence[Rows]) -> bool:
    """Whether a column shows the same values in the copies, as keys do and noisy figures do not."""
    known = {comparable([row[at]]) for row in answers[0]}
    shown = [comparable([row[at]]) in known for answer in answers for row in answer]
    return not shown or float(np.mean(shown)) >= ENOUGH


def _are_apart(rows: Rows, keys: Sequence[int]) -> bool:
    """Whether no two rows have the same keys."""
    return len({comparable([row[at] for at in keys]) for row in rows}) == len(rows)


def _matched(
    answers: Sequence[Rows], at: int, keys: Sequence[int], places: Mapping[tuple[Any, ...], int]
) -> FloatArray:
    """Figures of one column by row of the answer and copy; NaN where a copy has no such row, or none in it."""
    out = np.full((len(places), len(answers)), np.nan)
    for i, answer in enumerate(answers):
        for row in answer:
            place = places.get(comparable([row[key] for key in keys]))
            if place is not None:
                out[place, i] = np.nan if row[at] is None else float(row[at])
    return out


def reckons(release: Session, text: str, tables: Mapping[str, Any] | None) -> bool:
    """Whether a statement reckons anything from its rows, by DuckDB's own plan."""
    try:
        plan = Session.sql(release, f"EXPLAIN (FORMAT json) {text}", tables=tables).rows
    except (QueryRefused, StoreError):
        return True
    return any(word in str(plan) for word in _RECKONS)
