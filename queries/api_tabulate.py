"""A question answered: cells with intervals and statuses laid out in rows and columns, with totals; and its plan.

Every figure is `queries.uncertainty.tabulate`'s. Bands and groups are tabulated one by one: each has the figure that
anyone gets who asks for that range or those values. Totals come from their own, narrower tables.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from engine.errors import NotAnswerable, QueryRefused, TooLarge
from queries.api_groups import Group, grouped, inside, members_of
from queries.api_question import Question, check, sql_of
from queries.api_shares import ratios_of, shares_of
from queries.api_values import Variable, bands_of, bound_of, values_of
from queries.estimates import Measure, Tabulation
from queries.router import spec_entry
from queries.session import Release
from queries.uncertainty import tabulate

MAX_CELLS = 20_000
_MAX_BANDS = 60
_UNGROUPED = object()  # no label: values in no group stand for themselves
Keys = tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A question and its figures.

    Attributes
    ----------
    asked : Question
    cells : Tabulation
        All groups; a banded column's keys are the bands' labels.
    rows, cols : tuple of tuple
        Keys of the table's rows and columns; `((),)` where there are none.
    row_total, col_total, total : Tabulation or None
        Figures of whole rows, of whole columns, and of everything.
    """

    asked: Question
    cells: Tabulation
    rows: Keys
    cols: Keys
    row_total: Tabulation | None
    col_total: Tabulation | None
    total: Tabulation | None


def answer(release: Release, variables: Mapping[str, Variable], asked: Question) -> Answer:
    """Answer a question.

    Raises
    ------
    QueryRefused
        The question's parts do not go together, or its table would be too large.
    NotAnswerable
        No released table covers it.
    """
    check(asked, variables)
    _check_size(asked, variables)
    covers(release, asked)
    over = {"none": None, "total": (), "row": asked.rows, "column": asked.cols}[asked.percent]
    ask = _Asking(release=release, variables=variables, asked=asked)
    cells = ask.tabulated(asked.columns, over)
    n_rows = len(asked.rows)
    margins = _margins(ask, over) if asked.columns else (None, None, None)
    return Answer(
        asked=asked,
        cells=cells,
        rows=_heads(ask, asked.rows, (k[:n_rows] for k in cells.keys)),
        cols=_heads(ask, asked.cols, (k[n_rows:] for k in cells.keys)),
        row_total=margins[0],
        col_total=margins[1],
        total=margins[2],
    )


def shown(asked: Question, variables: Mapping[str, Variable]) -> dict[str, Variable]:
    """Return the variables as the answer shows them: own groups in the place of the values that they hold."""
    made = {c: grouped(variables[c], asked.groups.get(c, ())) for c in asked.columns}
    return {**variables, **made}


def covers(release: Release, asked: Question) -> Any:
    """Return how a question is routed; see `queries.session.Release.explain` for what it raises."""
    return release.explain(sql_of_columns(asked.reads, release.logical_name))


def sql_of_columns(columns: Sequence[str], logical_name: str) -> str:
    """Return SQL that reads some columns."""
    listed = ", ".join('"' + c.replace('"', '""') + '"' for c in columns) or "count(*)"
    return 'SELECT {} FROM "{}"'.format(listed, logical_name.replace('"', '""'))


def plan(release: Release, variables: Mapping[str, Variable], asked: Question) -> dict[str, Any]:
    """Say what would answer a question, how sure it would be, and what can be added to it; runs nothing."""
    check(asked, variables)
    held = frozenset(asked.reads)
    more = [_addable(name, held, release, variables) for name in variables if name not in held]
    said: dict[str, Any] = {
        "columns": sorted(held),
        "others": more,
        "sql": sql_of(asked, variables, release.logical_name),
        "link": asked.link(),
    }
    try:
        routing = covers(release, asked)
    except NotAnswerable as error:
        wanted = tuple(sorted(held))
        near = {"nearest": [list(t) for t in error.nearest], "spec": spec_entry(wanted)}
        return {**said, "is_answerable": False, "message": str(error), **near}
    card = routing.card
    said |= {"is_answerable": True, "table": list(routing.table or ())}
    said |= {"cells": n_cells(asked, variables), "most_cells": MAX_CELLS}
    if card is not None:
        said |= {"card": card.sentences(), "noise_sd": card.noise_sd, "rows": card.rows}
        said |= {"filled_share": card.suppressed_share, "mode": card.mode}
    return said


def n_cells(asked: Question, variables: Mapping[str, Variable]) -> int:
    """Return the most cells that a question's table can have."""
    return math.prod(_n_positions(c, asked, variables[c]) for c in asked.columns)


def _n_positions(column: str, asked: Question, about: Variable) -> int:
    if column in asked.bands:
        return len(bands_of(about, asked.bands[column])) + 1
    if column in asked.groups:
        return len(grouped(about, asked.groups[column]).values)
    return len(asked.only.get(column, about.values))


def _check_size(asked: Question, variables: Mapping[str, Variable]) -> None:
    """Refuse a table that nobody can read and that takes long."""
    size = n_cells(asked, variables)
    bands = math.prod(
        len(asked.groups[c]) + 1 if c in asked.groups else _n_positions(c, asked, variables[c])
        for c in asked.columns
        if c in asked.groups or c in asked.bands
    )
    most = max(asked.columns, default="", key=lambda c: _n_positions(c, asked, variables[c]))
    hint = f"put {most} in bands" if most and variables[most].widths else "filter, or drop one"
    if size > MAX_CELLS:
        raise TooLarge(
            f"The table would be too large: {size:,} cells, at most {MAX_CELLS:,}; {hint}"
        )
    if bands > _MAX_BANDS:
        raise TooLarge(
            f"The table would be too large: {bands} combinations of bands and groups, at most "
            f"{_MAX_BANDS}; take wider ones"
        )


def _addable(
    name: str, held: frozenset[str], release: Release, variables: Mapping[str, Variable]
) -> dict[str, Any]:
    """Whether a variable can be added to those held, and why not."""
    tables = [frozenset(t) for t in release.tables]

    def is_covered(columns: frozenset[str]) -> bool:
        return any(columns <= table for table in tables)

    said = {"name": name, "is_addable": is_covered(held | {name}), "reason": "", "spec": ""}
    if said["is_addable"]:
        return said
    if not held or not is_covered(frozenset({name})):
        return {**said, "reason": "in no released table", "spec": spec_entry((name,))}
    without = [c for c in variables if c in held and is_covered(held - {c} | {name})]
    alone = [c for c in variables if c in held and not is_covered(frozenset({c, name}))]
    why = (
        f"not released with {_listed(alone, variables)}"
        if alone
        else "not released with all of these"
    )
    if not set(without) <= set(alone):
        why += f"; possible without {_listed(without, variables)}"
    return {**said, "reason": why, "spec": spec_entry(tuple(sorted(held | {name})))}


def _listed(names: Sequence[str], variables: Mapping[str, Variable]) -> str:
    return " or ".join(variables[c].label for c in names)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Asking:
    """What every tabulation of one question shares."""

    release: Release
    variables: Mapping[str, Variable]
    asked: Question

    def tabulated(self, columns: Sequence[str], over: Sequence[str] | None) -> Tabulation:
        """Tabulate some columns; `over`: shares of the totals of these columns."""
        banded = [c for c in columns if c in self.asked.bands or self.asked.groups.get(c)]
        if over is not None and banded:
            shares = shares_of(self._counts(columns), self._counts(over))
            return ratios_of(shares) if self.asked.measure == "ratio" else shares
        pieces = [self._piece(columns, over, picked) for picked in self._bands(banded)]
        return pieces[0] if not banded else _joined(pieces)

    def _counts(self, columns: Sequence[str]) -> Tabulation:
        """Tabulate the rows of some columns' groups, whatever is measured."""
        asked = self.asked.model_copy(update={"measure": "count", "percent": "none"})
        return replace(self, asked=asked).tabulated(columns, None)

    def _piece(
        self, columns: Sequence[str], over: Sequence[str] | None, picked: Mapping[str, Any]
    ) -> Tabulation:
        """Tabulate with every banded or grouped column held to one band, one group, or the values in none."""
        where = {**self._where(), **{c: kept for c, (_, kept) in picked.items()}}
        picked = {c: band for c, band in picked.items() if band[0] is not _UNGROUPED}
        measure: Measure = (
            "share" if over is not None and self.asked.measure == "count" else self.asked.measure
        )
        got = tabulate(
            self.release,
            [c for c in columns if c not in picked],
            where=where,
            measure=measure,
            of=None if self.asked.is_counted else self.asked.of,
            over=tuple(over or ()),
            quantile=self.asked.quantile,
        )
        if not picked:
            return got
        keys = []
        for key in got.keys:
            rest = iter(key)
            keys.append(tuple(picked[c][0] if c in picked else next(rest) for c in columns))
        return replace(got, columns=tuple(columns), keys=tuple(keys))

    def _where(self) -> dict[str, Any]:
        """What is kept, in the words of `tabulate`."""
        kept: dict[str, Any] = {
            c: values_of(self.variables[c], keys) for c, keys in self.asked.only.items()
        }
        for c, (low, high) in self.asked.between.items():
            about = self.variables[c]
            kept[c] = (bound_of(about, low, is_high=False), bound_of(about, high, is_high=True))
        return kept

    def positions(self, column: str) -> dict[Any, int]:
        """Order of a column's keys."""
        about = self.variables[column]
        if column in self.asked.bands:
            width = self.asked.bands[column]
            labels = [label for _, label, _, _ in bands_of(about, width)]
            return {v: i for i, v in enumerate([*labels, None])}
        about = grouped(about, self.asked.groups.get(column, ()))
        return {v.value: i for i, v in enumerate(about.values)}

    def _bands(self, banded: Sequence[str]) -> Iterator[dict[str, tuple[Any, Any]]]:
        """Every combination of bands: key and what is kept, by column."""
        where = self._where()
        for combination in itertools.product(*(list(self._cut(c, where.get(c))) for c in banded)):
            yield dict(zip(banded, combination, strict=True))

    def _cut(self, column: str, kept: Any) -> Iterator[tuple[Any, Any]]:
        """The bands or groups of a column that a filter on it leaves: label and what is kept."""
        about = self.variables[column]
        if column in self.asked.groups:
            yield from _grouped_within(about, self.asked.groups[column], kept)
            return
        for _, label, low, high in bands_of(about, self.asked.bands[column]):
            if isinstance(kept, tuple):
                low, high = max(low, kept[0]), min(high, kept[1])
            if isinstance(kept, list):
                inside = [v for v in kept if v is not None and low <= v <= high]
                if inside:
                    yield label, inside
            elif low <= high:
                yield label, (low, high)
        has_blank = len(about.known) < len(about.values)
        if has_blank and (kept is None or (isinstance(kept, list) and None in kept)):
            yield None, [None]


def _grouped_within(
    about: Variable, groups: Sequence[Group], kept: Any
) -> Iterator[tuple[Any, Any]]:
    """The groups of a column that a filter leaves, then the values in none: label and what is kept."""
    held: set[Any] = set()
    for name, members in groups:
        values = members_of(about, members)
        held |= set(values)
        if left := inside(values, kept):
            yield name, left
    if rest := inside((v.value for v in about.values if v.value not in held), kept):
        yield _UNGROUPED, rest


def _joined(pieces: Sequence[Tabulation]) -> Tabulation:
    """Return the tabulations of all bands as one."""
    if not pieces:
        raise QueryRefused("No band or group is left by the filters: widen them")
    words = max((p.words for p in pieces), key=len)
    return replace(
        pieces[0],
        keys=tuple(k for p in pieces for k in p.keys),
        value=np.concatenate([p.value for p in pieces]),
        low=np.concatenate([p.low for p in pieces]),
        high=np.concatenate([p.high for p in pieces]),
        status=tuple(s for p in pieces for s in p.status),
        words=words,
    )


def _margins(
    ask: _Asking, over: Sequence[str] | None
) -> tuple[Tabulation | None, Tabulation | None, Tabulation | None]:
    """Figures of whole rows, whole columns and everything, where they say something."""
    asked = ask.asked
    whole = None if over is None else ()
    both = bool(asked.rows and asked.cols)
    rows = ask.tabulated(asked.rows, whole) if both and asked.percent != "row" else None
    cols = ask.tabulated(asked.cols, whole) if both and asked.percent != "column" else None
    total = ask.tabulated((), None) if over is None else None
    return rows, cols, total


def _heads(ask: _Asking, columns: Sequence[str], keys: Iterator[tuple[Any, ...]]) -> Keys:
    """Return the keys of one side, in the order of the columns' values."""
    places = [ask.positions(c) for c in columns]
    return tuple(
        sorted(set(keys), key=lambda key: [p[k] for p, k in zip(places, key, strict=True)])
    )
