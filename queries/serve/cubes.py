"""The released tables as data cubes, for the interfaces that statistical clients speak: PxWebApi and SDMX.

Takes a release; gives its tables with identifiers, dimensions with code lists, and measures (one description for both
interfaces), and the figures of chosen codes. A figure is the one of the table builder: both ask
`queries.intervals.CrossTable`, with the same limits on size; totals come from the table itself.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from engine.errors import NotAnswerable, SpecError, TooLarge
from engine.schema import column_set
from engine.store import unused_name
from queries.packs import (
    ColumnSpec,
    Dimension,
    Item,
    Pack,
    PackInfo,
    PackSpec,
    PackTable,
    Sources,
    chosen_slices,
    chosen_table,
    dimension_of,
    pack_of,
    translations,
)
from queries.release import Release
from queries.serve.tabulate import MAX_CELLS, MOST_PIECES
from queries.sql import near_names

MEASURE = "MEASURE"
"""The dimension of the measures in SDMX."""
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Measure:
    """What a table counts or sums up."""

    code: str
    kind: Literal["count", "sum", "mean"]
    of: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Cube:
    """A released table: its columns in the source's order, what it measures, and its titles without figures."""

    id: str
    columns: tuple[str, ...]
    measures: tuple[Measure, ...]
    shell: PackTable


class Cubes:
    """All tables of a release; described when first asked for, and then kept."""

    def __init__(self, release: Release) -> None:
        self._release = release
        self._lock = threading.Lock()

    @property
    def pack(self) -> Pack:
        """What all tables share: dimensions, languages, words; its tables are without figures."""
        return self._described[0]

    @property
    def cubes(self) -> Mapping[str, Cube]:
        """The tables by their identifiers, narrow ones first."""
        return self._described[1]

    def cube(self, name: str) -> Cube:
        """Return a table by its identifier."""
        if name not in self.cubes:
            near = ", ".join(near_names(name, tuple(self.cubes))) or "none"
            raise NotAnswerable(f"There is no table {name!r}. Nearest: {near}.")
        return self.cubes[name]

    def figures(
        self,
        release: Release,
        cube: Cube,
        chosen: Mapping[str, Sequence[int]],
        measures: Sequence[Measure],
        *,
        n_contents: int,
    ) -> list[PackTable]:
        """Return a table of each measure for chosen items of its dimensions; over the other columns it is added up.

        n_contents: Numbers shown for each combination of items, for the limit on cells.
        """
        dimensions = self.pack.dimensions
        size = math.prod([n_contents, *map(len, chosen.values())])
        if size > MAX_CELLS:
            raise TooLarge(
                f"The selection has {size:,} cells, the limit is {MAX_CELLS:,}; select fewer values"
            )
        slices = [len(chosen_slices(dimensions[c], p)) for c, p in chosen.items()]
        pieces = math.prod([len(measures), *slices])
        if pieces > MOST_PIECES:
            raise TooLarge(
                f"The selection combines {pieces:,} bands, totals and measures, the limit is {MOST_PIECES}; "
                "select fewer"
            )
        sources = Sources(release=release, spec=self._spec)
        return [
            chosen_table(
                sources,
                cube.columns,
                chosen,
                dimensions,
                cube.shell.titles,
                measure=m.kind,
                of=m.of,
            )
            for m in measures
        ]

    @cached_property
    def _spec(self) -> PackSpec:
        title = self._release.title or self._release.logical_name
        return PackSpec(
            pack=PackInfo(title=title, languages=["en", *translations()]),
            columns={c: ColumnSpec(parents=list(of)) for c, of in _levels(self._release).items()},
        )

    @property
    def _described(self) -> tuple[Pack, dict[str, Cube]]:
        with self._lock:  # once, also where several ask
            return self._description

    @cached_property
    def _description(self) -> tuple[Pack, dict[str, Cube]]:
        """All tables."""
        release = self._release
        sources = Sources(release=release, spec=self._spec)
        # Tables with survey weights give the others their weighted counts.
        tables = [table for table in release.tables if release.weight not in table]
        used = {c for table in tables for c in table}
        dimensions = {c: _dimension(c, sources) for c in release.columns if c in used}
        measures = [_measures(release, table, dimensions) for table in tables]
        axis = _axis(sources, dimensions, [m for given in measures for m in given])
        cubes: dict[str, Cube] = {}
        for table, given in zip(tables, measures, strict=True):
            columns = tuple(c for c in release.columns if c in table)
            name = "-".join(columns)
            if not _PLAIN.fullmatch(name) or name in cubes:
                name = unused_name(f"T{len(cubes) + 1:04d}", cubes)
            shell = _shell(name, [dimensions[c] for c in columns], axis, sources.words["by"])
            cubes[name] = Cube(id=name, columns=columns, measures=given, shell=shell)
        pack = pack_of(sources, {**dimensions, axis.name: axis}, [c.shell for c in cubes.values()])
        return pack, cubes


def _levels(release: Release) -> dict[str, list[str]]:
    """By column, those that are coarser levels of it and released beside it, finest first."""
    out: dict[str, list[str]] = {}
    for table in release.tables:
        if len(table) == 2:
            for coarse, fine in release.card(*table).told.items():
                out.setdefault(fine, []).append(coarse)
    for coarser in out.values():
        coarser.sort(key=lambda name: -len(release.values(name)))
    return out


def _dimension(column: str, sources: Sources) -> Dimension:
    """A column with its levels, if they are nested, else with bands."""
    try:
        return dimension_of(column, sources, is_banded=True)
    except SpecError:
        columns = {c: spec for c, spec in sources.spec.columns.items() if c != column}
        spec = sources.spec.model_copy(update={"columns": columns})
        return dimension_of(column, replace(sources, spec=spec), is_banded=True)


def _measures(
    release: Release, table: tuple[str, ...], dimensions: Mapping[str, Dimension]
) -> tuple[Measure, ...]:
    """The count, the weighted count, and sums and means that were measured."""
    out = [Measure(code="count", kind="count")]
    weight = release.weight
    if weight is not None and column_set((*table, weight)) in release.tables:
        out.append(Measure(code="weighted_count", kind="sum", of=weight))
    for of in release.card(*table).sums:
        key = dimensions[of].key
        out += [
            Measure(code=f"sum_{key}", kind="sum", of=of),
            Measure(code=f"mean_{key}", kind="mean", of=of),
        ]
    return tuple(out)


def _axis(
    sources: Sources, dimensions: Mapping[str, Dimension], measures: Sequence[Measure]
) -> Dimension:
    """The measures of all tables as one dimension."""
    words, languages = sources.words, range(len(sources.languages))
    unit = sources.release.unit
    units = [unit.words[c].many if c in unit.words else unit.many for c in sources.languages]
    items = []
    for m in {m.code: m for m in measures}.values():
        if m.of is None:
            labels = tuple(words["number of"][i].format(units[i]) for i in languages)
        elif m.of == sources.release.weight:
            labels = tuple(f"{words['weighted'][i]} {units[i]}" for i in languages)
        else:
            labels = tuple(f"{words[m.kind][i]} {dimensions[m.of].labels[i]}" for i in languages)
        items.append(Item(code=m.code, key=m.code, labels=labels, kind="value", value=m.code))
    name = unused_name(MEASURE, dimensions)
    return Dimension(name=name, key=name, labels=words["figure"], items=tuple(items))


def _shell(
    name: str, dimensions: Sequence[Dimension], axis: Dimension, by: Sequence[str]
) -> PackTable:
    """A table's titles and dimensions, without figures."""
    counted = axis.items[0].labels
    titles = tuple(
        f"{counted[i]} {word} {', '.join(d.labels[i] for d in dimensions)}"
        for i, word in enumerate(by)
    )
    none = np.empty(0)
    return PackTable(
        id=name,
        titles=titles,
        units=counted,
        dimensions=(*dimensions, axis),
        index=np.empty((0, len(dimensions) + 1), dtype=np.int32),
        value=none,
        low=none,
        high=none,
        status=none.astype(np.uint8),
    )
