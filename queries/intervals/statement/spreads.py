"""Figures of any statement with the spread that they have over replays of the table that answers.

Takes a statement with its plain answer; runs the same text on the imagined and the replayed rows of each replay
(`queries.intervals.replays`) and matches the rows by what they show beside figures. Gives low and high ends and a
status for every number that differs; raises `Unknown` where replays say nothing: what no replay can hold (extremes,
values that are not released), rows that are looked up or drawn, modelled tables.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.errors import QueryRefused, StoreError, TimedOut, TooLarge
from engine.schema import ColumnSet, FloatArray
from queries.intervals.model import noise_model
from queries.intervals.spread import ENOUGH, Figures, Spread, spread_of, unfit
from queries.intervals.statement.groupings import Rows, comparable
from queries.intervals.statement.limits import refused
from queries.intervals.statement.nodes import text_of_select
from queries.intervals.statement.tree import Unknown, parsed_select
from queries.sql import Result, Session

if TYPE_CHECKING:
    from queries.intervals.replays import Replays

MOST_S = 10.0
"""Seconds that drawing replays, and running a statement on them, may take."""
MOST_ROWS = 50_000
"""Distinct rows of a table that is replayed."""
_MOST_KEPT, _MOST_ANSWERED = 16, 20_000
"""Statements whose answers on replays are kept for the next time, and the most rows of one."""
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
    drawn = sound_replays(release, plain.table)
    whole = _whole(release, text)
    answers = _answers(release, whole, plain.table, drawn, tables)
    try:
        figures, keys = _columns(plain, answers, wanted, closed)
    except Unknown:
        if whole == text:
            raise
        # Of rows that only their place tells apart, such as the three largest, replays may show others.
        answers = _answers(release, text, plain.table, drawn, tables)
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
        is_count = at in shape.counted
        values = _matched([plain.rows, *answers], at, keys, rows)
        if is_count:  # no row is none of them
            values[:, 2:] = np.nan_to_num(values[:, 2:])
        ends = np.cumsum([2, len(drawn.imagined), len(drawn.replayed)])
        of_column = Figures(
            value=values[:, 0],
            again=values[:, 1],
            imagined=values[:, ends[0] : ends[1]],
            replayed=values[:, ends[1] : ends[2]],
            doubled=values[:, ends[2] :],
            doublings=drawn.doublings,
        )
        why = unfit(of_column)
        if why:
            reasons[at] = why
            continue
        spread = spread_of(of_column, is_whole=bool(_WHOLE.match(plain.types[at])))
        found[at] = replace(spread, low=np.maximum(spread.low, 0.0)) if is_count else spread
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


def sound_replays(release: Session, columns: ColumnSet) -> Replays:
    """Return the replays of a table, where there are any."""
    from queries.intervals.replays import replays  # brings the fit, which is slow to import

    if release.is_overseen:
        raise Unknown(
            "replays of a table are not drawn for untrusted users: nothing bounds their cost"
        )
    model = noise_model(release, columns)
    if model.table.card["mode"] == "dp":
        from queries.intervals.dp_mechanism import unreplayed

        why = unreplayed(release, columns)
        if why:
            raise Unknown(why)
    elif model.tree is None:
        raise Unknown("its table is modelled, and how far it is off is not stated")
    if len(model.table.rows) > MOST_ROWS:
        raise Unknown(f"its table has more than {MOST_ROWS:,} distinct rows, too many to replay")
    try:
        return replays(release, columns, _clock(release))
    except TimedOut:
        release.check_cancelled()
        raise Unknown(
            f"to replay its table takes more than {min(MOST_S, release.timeout_s):g} seconds"
        ) from None


def _clock(release: Session) -> Callable[[], None]:
    """What raises TimedOut where nobody waits any more, or replays have been drawn for too long."""
    until = time.monotonic() + min(MOST_S, release.timeout_s)

    def check_cancelled() -> None:
        release.check_cancelled()
        if time.monotonic() > until:
            raise TimedOut("The replays of a table took too long")

    return check_cancelled


def _answers(
    release: Session,
    text: str,
    columns: ColumnSet,
    drawn: Replays,
    tables: Mapping[str, Any] | None,
) -> list[list[tuple[Any, ...]]]:
    """Rows of a statement on the released rows once more, and on all replays.

    Short ones are kept for the next time, as the replays are.
    """
    kept: dict[tuple[str, ColumnSet], list[list[tuple[Any, ...]]]] = (
        {} if tables else release.models.setdefault(("answers",), {})
    )
    if (text, columns) in kept:
        return kept[text, columns]
    variants = drawn.variants((drawn.released,), drawn.imagined, drawn.replayed, drawn.doubled)
    try:
        answers = release.on_variants(text, columns, variants, tables=tables, seconds=MOST_S)
    except (TimedOut, TooLarge):
        release.check_cancelled()  # it is another matter where nobody waits any more
        raise Unknown(
            f"on replays of the table it takes more than {min(MOST_S, release.timeout_s):g} seconds"
        ) from None
    except QueryRefused as error:
        raise Unknown(f"on a replay of the table it fails ({str(error).splitlines()[0]})") from None
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
    """Places of the figures, and of the columns that tell which row is which in every replay."""
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
        raise Unknown("its rows could not be told apart in replays of the table")
    is_number = [bool(_NUMBER.match(type_)) for type_ in plain.types]
    for at in sorted(keys, key=lambda at: (not is_number[at], -at)):
        fewer = [key for key in keys if key != at]
        if _are_apart(answers[0], fewer):
            keys = fewer
    return [at for at in every if at not in keys and (wanted is None or at in wanted)], keys


def _is_steady(at: int, answers: Sequence[Rows]) -> bool:
    """Whether a column shows the same values in the replays, as keys do and noisy figures do not."""
    known = {comparable([row[at]]) for row in answers[0]}
    shown = [comparable([row[at]]) in known for answer in answers for row in answer]
    return not shown or float(np.mean(shown)) >= ENOUGH


def _are_apart(rows: Rows, keys: Sequence[int]) -> bool:
    """Whether no two rows have the same keys."""
    return len({comparable([row[at] for at in keys]) for row in rows}) == len(rows)


def _matched(
    answers: Sequence[Rows], at: int, keys: Sequence[int], places: Mapping[tuple[Any, ...], int]
) -> FloatArray:
    """Figures of one column by row of the answer and variant; NaN where it has no such row, or none in it."""
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
