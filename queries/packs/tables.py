"""One table of a pack: its query to the release, its figures, its title and units.

Takes the sources, a table of the spec and the pack's dimensions; returns a `PackTable`. Every figure comes from
`queries.intervals.CrossTable`; tables with too many combinations to list show only those that were measured, with the
same intervals. Invariants: a combination without a released figure has status "not released" and no value, whatever the
reason; its interval shows how large it can be, where that is known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from engine.errors import QueryRefused, SpecError
from engine.schema import column_set
from queries.intervals import (
    EACH,
    TOTAL,
    CrossTable,
    Slice,
    Tabulation,
    adding_up,
    measured_counts,
)
from queries.packs.model import (
    FIGURES,
    Dimension,
    PackTable,
    Texts,
    are_whole,
    decimals_of,
    sorted_figures,
)
from queries.packs.sources import Sources
from queries.packs.spec import TableSpec
from queries.packs.texts import texts
from queries.sql import near_names, nearest

BLANK = Slice(key=None, limits=[None])
"""Rows whose value is blank."""
_ONLY_MEASURED = (
    "There are too many combinations to list: only those that were measured are shown, and nothing is known about "
    "the others."
)


def table_of(
    sources: Sources, entry: TableSpec, name: str, dimensions: Mapping[str, Dimension]
) -> PackTable:
    """Return one table."""
    mine = tuple(dimensions[c] for c in entry.names)
    has_blanks = not sources.spec.tables  # bands of a default table leave nobody out
    slices = {d.name: _slices(d, entry, name, has_blanks=has_blanks) for d in mine}
    n_cells = math.prod(_n_codes(d, slices[d.name]) for d in mine)
    is_listed = n_cells > sources.spec.pack.max_cells
    if is_listed:
        _check_plain(sources, entry, name, n_cells)
    try:
        if is_listed:
            rows = _measured_rows(sources, mine)
        else:
            rows = _all_rows(sources, entry, mine, slices, dimensions)
    except QueryRefused as error:
        raise SpecError(f"tables, {name}: {error}") from None
    of = None if entry.of is None else _label_of(sources, entry.of)
    if _word_of(sources, entry) == "weighted":
        of = _units(sources, entry, None)
    ends = [rows[name] for name in FIGURES]
    is_whole = not entry.percent and are_whole(*ends)
    decimals = decimals_of(*ends, is_whole=is_whole, is_percent=bool(entry.percent))
    # more digits than one beyond the decimals would only be noise
    rows |= {name: np.round(rows[name], decimals + 1) for name in FIGURES}
    n_stub = len(entry.rows) if entry.rows else len(mine)
    return PackTable(
        id=name,
        titles=_titles(sources, entry, mine, dimensions, of),
        units=_units(sources, entry, of),
        dimensions=mine,
        stub=tuple(range(n_stub)),
        heading=tuple(range(n_stub, len(mine))),
        measure=entry.measure,
        is_whole=is_whole,
        decimals=decimals,
        is_listed=is_listed,
        footnotes=tuple(texts(note, sources.languages) for note in entry.footnotes),
        **rows,
    )


def chosen_table(
    sources: Sources,
    columns: Sequence[str],
    chosen: Mapping[str, Sequence[int]],
    dimensions: Mapping[str, Dimension],
    titles: Texts,
    *,
    measure: Literal["count", "sum", "mean"] = "count",
    of: str | None = None,
) -> PackTable:
    """Return one measure of a released table for chosen codes.

    columns: The columns of the released table; over those without chosen codes it is added up.
    chosen: By column, positions among the items of its dimension.
    """
    mine = tuple(dimensions[c] for c in columns if c in chosen)
    entry = TableSpec(columns=list(columns), measure=measure, of=of)
    query = CrossTable(
        release=sources.release,
        columns=columns,
        slices={d.name: chosen_slices(d, chosen[d.name]) for d in mine},
        where={},
        measure=measure,
        of=of,
    )
    figures, index = _answered(query, mine)
    figures = replace(figures, words=f"{figures.words} {adding_up(figures)}".strip())
    rows = sorted_figures(figures, index)
    ends = [rows[name] for name in FIGURES]
    is_whole = are_whole(*ends)
    label = None if of is None else _label_of(sources, of)
    return PackTable(
        id=".".join(columns),
        titles=titles,
        units=_units(sources, entry, label),
        dimensions=mine,
        stub=tuple(range(len(mine))),
        measure=measure,
        is_whole=is_whole,
        decimals=decimals_of(*ends, is_whole=is_whole),
        **rows,
    )


def chosen_slices(dimension: Dimension, places: Sequence[int]) -> list[Slice]:
    """Return what a cross table shows for items of a dimension: the values at once, all others one by one."""
    items = dimension.items
    values = [items[p].value for p in places if items[p].kind in ("value", "blank")]
    wholes = [TOTAL for p in places if items[p].kind == "total"]
    each = [Slice(limits=values, is_each=True)] if values else []
    return wholes + [_group(dimension, p) for p in places if items[p].kind == "group"] + each


def _slices(dimension: Dimension, entry: TableSpec, table: str, *, has_blanks: bool) -> list[Slice]:
    """What a table shows of a dimension: total, groups, values; the key of a group is its position."""
    name, places = dimension.name, dimension.places("group")
    if name in (*entry.subtotals, *entry.only_groups) and not places:
        raise SpecError(
            f"tables, {table}: {name} has no groups; declare columns.{name}.groups or .parents"
        )
    groups = [_group(dimension, p) for p in places]
    total = [TOTAL] if name in entry.totals else []
    if name in entry.only_groups:
        blank = [BLANK] if has_blanks and dimension.places("blank") else []
        return total + groups + blank
    return total + (groups if name in entry.subtotals else []) + [EACH]


def _group(dimension: Dimension, place: int) -> Slice:
    """The values in a group."""
    item = dimension.items[place]
    limits = item.limits or [dimension.items[m].value for m in item.members]
    return Slice(key=(place,), limits=limits)


def _n_codes(dimension: Dimension, slices: Sequence[Slice]) -> int:
    n_values = len(dimension.places("value", "blank"))
    return sum(n_values if s.is_each else 1 for s in slices)


def _all_rows(
    sources: Sources,
    entry: TableSpec,
    mine: Sequence[Dimension],
    slices: Mapping[str, Sequence[Slice]],
    dimensions: Mapping[str, Dimension],
) -> dict[str, Any]:
    """The figures of all combinations of the codes shown."""
    query = CrossTable(
        release=sources.release,
        columns=entry.names,
        slices=slices,
        where={c: _typed(c, values, dimensions) for c, values in entry.where.items()},
        measure=entry.measure,
        of=entry.of,
        quantile=entry.quantile,
    )
    over = {"": None, "total": (), "row": entry.rows, "column": entry.cols}[entry.percent]
    figures, index = _answered(query, mine, over)
    if entry.totals or entry.subtotals or entry.percent:
        note = adding_up(figures)
        figures = replace(figures, words=f"{figures.words} {note}".strip())
    return sorted_figures(figures, index, 100 if entry.percent else 1)


def _answered(
    query: CrossTable, mine: Sequence[Dimension], over: Sequence[str] | None = None
) -> tuple[Tabulation, npt.NDArray[np.int32]]:
    """The figures of a query, and the positions of their codes."""
    figures = query.figures([d.name for d in mine], over)
    index = np.empty((len(figures), len(mine)), dtype=np.int32)
    for j, d in enumerate(mine):
        place = {TOTAL.key: 0, **d.place_of_value} | {(p,): p for p in d.places("group")}
        index[:, j] = [place[key[j]] for key in figures.keys]
    return figures, index


def _check_plain(sources: Sources, entry: TableSpec, name: str, n_cells: int) -> None:
    """Refuse a table with too many combinations, unless it shows plain counts of a released table."""
    is_plain = not (entry.totals or entry.subtotals or entry.only_groups or entry.where)
    if not is_plain or entry.percent or entry.measure != "count":
        raise SpecError(
            f"tables, {name}: has {n_cells:,} combinations, but pack.max_cells is {sources.spec.pack.max_cells:,}: "
            "show fewer values (only_groups), or raise pack.max_cells"
        )
    columns, tables = column_set(tuple(entry.names)), sources.release.tables
    if columns not in tables:
        near = "; ".join(", ".join(t) for t in nearest(columns, tables))
        raise SpecError(
            f"tables, {name}: no released table of {', '.join(columns)}. Nearest: {near}"
        )


def _measured_rows(sources: Sources, mine: Sequence[Dimension]) -> dict[str, Any]:
    """The measured combinations of a released table; each figure as `tabulate` returns it."""
    columns = column_set(tuple(d.name for d in mine))
    figures, codes = measured_counts(sources.release, columns)
    figures = replace(figures, words=f"{figures.words} {_ONLY_MEASURED}")
    index = np.empty(codes.shape, dtype=np.int32)
    for j, d in enumerate(mine):
        at = columns.index(d.name)
        place = [d.place_of_value[v] for v, *_ in sources.release.values(d.name)]
        index[:, j] = np.array(place, dtype=np.int32)[codes[:, at]]
    return sorted_figures(figures, index)


def _typed(column: str, given: list[Any], dimensions: Mapping[str, Dimension]) -> list[Any]:
    """The values of a filter, in the release's types."""
    items = [item for item in dimensions[column].items if item.kind == "value"]
    by_text = {item.code: item.value for item in items}
    by_text |= {item.value: item.value for item in items if isinstance(item.value, str)}
    out = []
    for value in given:
        is_bool = isinstance(value, bool)  # true is not 1
        same = [i.value for i in items if i.value == value and isinstance(i.value, bool) == is_bool]
        if not same and str(value) not in by_text:
            near = ", ".join(near_names(str(value), tuple(by_text))) or "none"
            raise SpecError(
                f"pack spec, where: {column} has no released value {value!r}. Near: {near}"
            )
        out.append(same[0] if same else by_text[str(value)])
    return out


def _label_of(sources: Sources, column: str) -> Texts:
    """The label of the column that is summed or averaged."""
    given = sources.spec.columns[column].label if column in sources.spec.columns else ""
    return texts(given, sources.languages, sources.release.labels[column])


def _word_of(sources: Sources, entry: TableSpec) -> str:
    """What a table shows: its measure, or weighted counts."""
    is_weighted = entry.measure == "sum" and entry.of == sources.release.weight
    return "weighted" if is_weighted else entry.measure


def _units(sources: Sources, entry: TableSpec, of: Texts | None) -> Texts:
    """The unit of the figures: per cent, what a row is, or the column of a sum or mean."""
    if entry.percent:
        return sources.words["percent"]
    if of is not None and not entry.unit:
        return of
    given = entry.unit or sources.spec.pack.unit
    known = {code: words.many for code, words in sources.release.unit.words.items()}
    return texts(given or known, sources.languages, sources.release.unit.many)


def _titles(
    sources: Sources,
    entry: TableSpec,
    mine: Sequence[Dimension],
    dimensions: Mapping[str, Dimension],
    of: Texts | None,
) -> Texts:
    """The title given, or one made of the measure, the labels of the columns, and the filters."""
    if entry.title:
        return texts(entry.title, sources.languages)
    out, words = [], sources.words
    for i in range(len(sources.languages)):
        by = f" {words['by'][i]} "
        first, *rest = [d.labels[i] for d in mine]
        title = by.join([first, *rest]) if len(rest) < 2 else f"{first}{by}{', '.join(rest)}"
        if of is not None:
            title = f"{words[_word_of(sources, entry)][i]} {of[i]}{by}{', '.join([first, *rest])}"
        for column in entry.where:
            values = _typed(column, entry.where[column], dimensions)
            labels = [it.labels[i] for it in dimensions[column].items if it.value in values]
            title += f"; {dimensions[column].labels[i]}: {', '.join(labels)}"
        out.append(title)
    return tuple(out)
