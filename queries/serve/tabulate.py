"""Answers to table builder queries: cross tables with intervals, statuses and totals; query plans; JSON.

Every figure comes from `queries.intervals.CrossTable`: a band or group has the same figure as a query for that range or
those values. Totals come from their own, narrower tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.errors import NotAnswerable, QueryRefused, TooLarge
from engine.schema import FloatArray, quoted
from engine.texts import spec_entry
from queries.intervals import CrossTable, Slice, Tabulation, adding_up
from queries.release import Release
from queries.serve.groups import ends_of, grouped_variable, inside, members_of
from queries.serve.question import Question, bands_in, check, sql_of
from queries.serve.values import MOST_PERIODS, Band, Value, Variable, bounds_of, values_of

MAX_CELLS = 20_000
MOST_PIECES = 60
"""Most combinations of bands, groups and totals: each is a tabulation."""
Keys = tuple[tuple[Any, ...], ...]


def answer(
    release: Release, variables: Mapping[str, Variable], question: Question
) -> tuple[Tabulation, CrossTable]:
    """Answer a query: all cells (keys of banded columns are the labels of the bands), and what gives their totals."""
    check(question, variables)
    _check_size(question, variables)
    route_of(release, question)
    table = _cross_table(release, variables, question)
    cells = table.figures(question.columns, _over(question))
    note = adding_up(cells) if question.columns else ""
    return replace(cells, words=f"{cells.words} {note}".strip()), table


def _over(question: Question) -> tuple[str, ...] | None:
    """Columns within whose values percentages are taken; None: there are none."""
    every = {"none": None, "total": (), "row": question.rows, "column": question.cols}
    return every[question.percent]


def displayed(question: Question, variables: Mapping[str, Variable]) -> dict[str, Variable]:
    """Return the variables, those of rows and columns with custom groups or bands in the place of their members."""
    out = dict(variables)
    for c in question.columns:
        if c in question.bands:
            labels = [label for label, _, _ in bands_in(question, variables[c])]
            bands = [Value(key=label, value=label, label=label, n=0) for label in labels]
            blank = [v for v in variables[c].values if v.value is None]
            out[c] = replace(variables[c], values=(*bands, *blank))
        elif c in question.groups:
            out[c] = grouped_variable(variables[c], question.groups[c])
    return out


def route_of(release: Release, question: Question) -> Any:
    """Return which table answers a query; see `queries.release.Release.explain` for what it raises."""
    columns = ", ".join(quoted(c) for c in question.reads) or "count(*)"
    return release.explain(f"SELECT {columns} FROM {quoted(release.logical_name)}")


def plan(release: Release, variables: Mapping[str, Variable], question: Question) -> dict[str, Any]:
    """Return which table would answer a query, with what accuracy, and which variables can be added; nothing is run."""
    check(question, variables)
    columns = frozenset(question.reads)
    others = [name for name in variables if name not in columns]
    out: dict[str, Any] = {
        "columns": sorted(columns),
        "others": [_addable(name, columns, release, variables) for name in others],
        "sql": sql_of(question, variables, release.logical_name),
        "link": question.link(),
    }
    try:
        routing = route_of(release, question)
    except NotAnswerable as error:
        near: dict[str, Any] = {"nearest": [list(t) for t in error.nearest]}
        near |= {"spec": spec_entry(tuple(sorted(columns)))}
        return {**out, "is_answerable": False, "message": str(error), **near}
    card = routing.card
    out |= {"is_answerable": True, "table": list(routing.table or ())}
    out |= {"cells": n_cells(question, variables), "most_cells": MAX_CELLS}
    if card is not None:
        out |= {"card": card.sentences(), "noise_sd": card.noise_sd, "rows": card.rows}
        out |= {"filled_share": card.suppressed_share, "mode": card.mode}
    return out


def n_cells(question: Question, variables: Mapping[str, Variable]) -> int:
    """Return the most cells that a query's table can have."""
    shown = displayed(question, variables)
    return math.prod(_n_positions(c, question, shown[c]) for c in question.columns)


def _n_positions(column: str, question: Question, shown: Variable) -> int:
    is_filtered = column in question.only and not {column} & {*question.bands, *question.groups}
    return len(question.only[column] if is_filtered else shown.values)


def _check_size(question: Question, variables: Mapping[str, Variable]) -> None:
    """Refuse a table that is too large to read or compute."""
    shown = displayed(question, variables)
    n = {c: _n_positions(c, question, shown[c]) for c in question.columns}
    size = math.prod(n.values())
    bands = math.prod(
        len(question.groups[c]) + 1 if c in question.groups else n[c]
        for c in question.columns
        if c in question.groups or c in question.bands
    )
    most = max(n, default="", key=n.__getitem__)
    hint = (
        f"put {most} in bands"
        if most and variables[most].widths
        else "add a filter or remove a variable"
    )
    if size > MAX_CELLS:
        raise TooLarge(
            f"The table would be too large: {size:,} cells, the limit is {MAX_CELLS:,}; {hint}"
        )
    has_periods = any(isinstance(width, str) for width in question.bands.values())
    allowed = MOST_PERIODS + 1 if has_periods else MOST_PIECES  # one more for the blank
    if bands > allowed:
        raise TooLarge(
            f"The table would be too large: {bands} combinations of bands and groups, the limit is "
            f"{allowed}; use wider ones"
        )


def _addable(
    name: str, columns: frozenset[str], release: Release, variables: Mapping[str, Variable]
) -> dict[str, Any]:
    """Whether a variable can be added to some columns, and if not, why, and with which others it is released."""
    release.check_cancelled()
    tables = [frozenset(t) for t in release.tables]

    def is_covered(names: frozenset[str]) -> bool:
        return any(names <= table for table in tables)

    out = {"name": name, "is_addable": is_covered(columns | {name}), "reason": "", "spec": ""}
    if out["is_addable"]:
        return out
    if not columns or not is_covered(frozenset({name})):
        return {**out, "reason": "in no released table", "spec": spec_entry((name,))}
    without = [c for c in variables if c in columns and is_covered(columns - {c} | {name})]
    alone = [c for c in variables if c in columns and not is_covered(frozenset({c, name}))]
    why = (
        f"not released with {_listed(alone, variables)}"
        if alone
        else "not released with all of these"
    )
    if not set(without) <= set(alone):
        why += f"; possible without {_listed(without, variables)}"
    near = [c for c in variables if alone and c != name and is_covered(frozenset({c, name}))]
    entry = spec_entry(tuple(sorted(columns | {name})))
    return {**out, "reason": why, "available_with": near, "spec": entry}


def _listed(names: Sequence[str], variables: Mapping[str, Variable]) -> str:
    return " or ".join(variables[c].label for c in names)


def _cross_table(
    release: Release, variables: Mapping[str, Variable], question: Question
) -> CrossTable:
    """The query as a `queries.intervals.CrossTable`."""
    where: dict[str, Any] = {c: values_of(variables[c], keys) for c, keys in question.only.items()}
    where |= {c: bounds_of(variables[c], ends) for c, ends in question.between.items()}
    slices: dict[str, list[Slice]] = {}
    for c in question.columns:
        if question.groups.get(c):
            slices[c] = list(_group_slices(variables[c], question, where.get(c)))
        elif c in question.bands:
            slices[c] = list(
                _band_slices(variables[c], bands_in(question, variables[c]), where.get(c))
            )
    if not all(slices.values()):
        raise QueryRefused("The filters leave no band or group; widen them")
    return CrossTable(
        release=release,
        columns=question.columns,
        slices=slices,
        where=where,
        measure=question.measure,
        of=None if question.is_counted else question.of,
        quantile=question.quantile,
    )


def _group_slices(variable: Variable, question: Question, limits: Any) -> Iterator[Slice]:
    """The groups of a column that pass the filter, then each ungrouped value."""
    grouped: set[Any] = set()
    for name, members in question.groups[variable.name]:
        values = members_of(variable, members)
        grouped |= set(values)
        range_ = ends_of(variable, members[0]) if limits is None and len(members) == 1 else None
        if range_ is not None:
            yield Slice(key=name, limits=range_)
        elif left := inside(values, limits):
            yield Slice(key=name, limits=left)
    if rest := inside((v.value for v in variable.values if v.value not in grouped), limits):
        yield Slice(limits=rest, is_each=True)


def _band_slices(variable: Variable, bands: list[Band], limits: Any) -> Iterator[Slice]:
    """The bands of a column that pass the filter, then the blank."""
    for label, low, high in bands:
        if isinstance(limits, tuple):
            low, high = max(low, limits[0]), min(high, limits[1])
        if isinstance(limits, list):
            if left := inside(limits, (low, high)):
                yield Slice(key=label, limits=left)
        elif low <= high:
            yield Slice(key=label, limits=(low, high))
    has_blank = len(variable.known) < len(variable.values)
    if has_blank and (limits is None or (isinstance(limits, list) and None in limits)):
        yield Slice(limits=[None])


def _heads(variables: Sequence[Variable], keys: Iterator[tuple[Any, ...]]) -> Keys:
    """Return the keys of one side, in the order of the columns' values."""
    orders = [{v.value: i for i, v in enumerate(variable.values)} for variable in variables]
    by_place = {tuple(o[k] for o, k in zip(orders, key, strict=True)): key for key in keys}
    return tuple(by_place[place] for place in sorted(by_place))


def as_json(
    cells: Tabulation,
    table: CrossTable,
    question: Question,
    variables: Mapping[str, Variable],
) -> dict[str, Any]:
    """Return an answer with its totals as plain values: matrices by row, NaN as null."""
    shown = displayed(question, variables)
    labels = {c: {v.value: v.label for v in shown[c].values} for c in question.columns}
    n_rows = len(question.rows)
    rows = _heads([shown[c] for c in question.rows], (k[:n_rows] for k in cells.keys))
    cols = _heads([shown[c] for c in question.cols], (k[n_rows:] for k in cells.keys))
    is_plain, has_both = question.percent == "none", bool(question.rows and question.cols)

    def head(columns: Sequence[str]) -> list[dict[str, str]]:
        return [{"name": c, "label": variables[c].label} for c in columns]

    def total(columns: Sequence[str], keys: Keys, *, is_there: bool) -> dict[str, list[Any]] | None:
        found = table.figures(columns, None if is_plain else ()) if is_there else None
        return _figures(found, keys)

    return {
        "measure": cells.measure,
        "of": None if question.is_counted else question.of,
        "quantile": question.quantile if question.measure == "quantile" else None,
        "percent": question.percent,
        "rows": head(question.rows),
        "cols": head(question.cols),
        "row_heads": [
            [labels[c][v] for c, v in zip(question.rows, key, strict=True)] for key in rows
        ],
        "col_heads": [
            [labels[c][v] for c, v in zip(question.cols, key, strict=True)] for key in cols
        ],
        "cells": _figures(cells, tuple((*r, *c) for r in rows for c in cols)),
        "row_total": total(question.rows, rows, is_there=has_both and question.percent != "row"),
        "col_total": total(question.cols, cols, is_there=has_both and question.percent != "column"),
        "total": total((), ((),), is_there=is_plain and bool(question.columns)),
        "table": list(cells.table),
        "words": cells.words,
    }


def _figures(table: Tabulation | None, keys: Keys) -> dict[str, list[Any]] | None:
    """Figures in the order of some keys."""
    if table is None:
        return None
    place = {key: i for i, key in enumerate(table.keys)}
    order = [place[key] for key in keys]

    def plain(array: FloatArray) -> list[float | None]:
        values = array[order].tolist()
        return [round(v, 6) if math.isfinite(v) else None for v in values]

    return {
        "value": plain(table.value),
        "low": plain(table.low),
        "high": plain(table.high),
        "status": [table.status[i] for i in order],
    }
