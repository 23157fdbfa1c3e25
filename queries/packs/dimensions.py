"""Dimensions of a pack: released values, blanks, subtotals, nested areas and totals, with labels in every language.

Takes the sources of a pack; returns one `Dimension` per column. Invariant: codes, keys and labels are unique within a
dimension, and an item comes after the one it is part of.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from engine.errors import SpecError
from engine.schema import column_set, quoted
from engine.store import unused_name
from queries.packs.bands import bands_of
from queries.packs.model import Dimension, Item
from queries.packs.sources import Sources
from queries.packs.spec import ColumnSpec, Text
from queries.packs.texts import texts
from queries.sql import near_names

TOTAL, BLANK, EMPTY = "_T", "_X", "_E"
"""Codes of the total, of a blank of the source, and of an empty text, which CSV readers take for a missing value."""
NESTED_SHARE = 0.9
"""Least share of an area's rows in one larger area, for it to be part of that area."""
_KEY = re.compile(r"[A-Za-z0-9_@$-]+\Z")


@dataclass(frozen=True, kw_only=True)
class _Column:
    """One column with its released values in order (a blank comes last) and its section of the spec."""

    name: str
    spec: ColumnSpec
    sources: Sources
    values: list[Item]

    @cached_property
    def by_code(self) -> dict[str, int]:
        """Position of each value by its code."""
        return {item.code: place for place, item in enumerate(self.values)}

    def place(self, code: str, where: str) -> int:
        """Return the position of a value by its code."""
        if code not in self.by_code:
            raise self.unknown(code, where)
        return self.by_code[code]

    def unknown(self, code: str, where: str) -> SpecError:
        """Return the error for a value that is not in the release, with similar ones."""
        near = ", ".join(near_names(code, tuple(self.by_code))) or "none"
        return SpecError(f"columns.{self.name}.{where}: no released value {code!r}. Near: {near}")

    def group(self, code: str, label: Text, members: Sequence[int], default: str = "") -> Item:
        """Return a group of values, given by their positions."""
        labels = texts(label, self.sources.languages, default or code)
        return Item(code=code, key=code, labels=labels, kind="group", members=tuple(members))


def dimension_of(name: str, sources: Sources, *, is_banded: bool = False) -> Dimension:
    """Return the dimension of one column."""
    sources.check_columns([name])
    spec = sources.spec.columns.get(name, ColumnSpec())
    values = _values(name, spec, sources)
    column = _Column(name=name, spec=spec, sources=sources, values=values)
    unknown = sorted(set(spec.values) - set(column.by_code))
    if unknown:
        raise column.unknown(unknown[0], "values")
    groups = [*_declared(column), *_areas(column)]
    if is_banded and not groups:
        groups = _banded(column)
    total = Item(code=TOTAL, key=TOTAL, labels=sources.words["total"], kind="total")
    labels = texts(spec.label, sources.languages, sources.release.labels[name])
    items = _unique(_nested(total, groups, values))
    return Dimension(name=name, key=_key(name, 0, "D"), labels=labels, items=items)


def _values(name: str, spec: ColumnSpec, sources: Sources) -> list[Item]:
    """The released values in order; a blank comes last."""
    rows = sources.rows(
        f"SELECT CAST(value AS {sources.release.columns[name]}), value, label FROM catalog.codes "
        "WHERE column_name = ? ORDER BY value IS NULL, position",
        name,
    )
    universe, word = sources.release.described[name].universe, "blank"
    if universe is not None and universe.outside is None:
        word = "outside" if universe.complete else "outside or blank"
    out = []
    for typed, text, label in rows:
        if text is None:
            out.append(Item(code=BLANK, key=BLANK, labels=sources.words[word], kind="blank"))
            continue
        code = text or EMPTY
        given = spec.values.get(code, "")
        labels = texts(given, sources.languages, label or text)
        if not (given or text or label):
            labels = sources.words["empty"]
        out.append(Item(code=code, key=code, labels=labels, kind="value", value=typed))
    return out


def _declared(column: _Column) -> list[Item]:
    """Groups that the spec lists."""
    out = []
    for group in column.spec.groups:
        if group.range is not None:
            values = enumerate(column.values)
            members = [i for i, v in values if _inside(column.name, v, group.range)]
        else:
            members = [column.place(code, "groups") for code in group.values]
        if not members:
            raise SpecError(
                f"columns.{column.name}.groups: no released value lies in {group.code!r}"
            )
        item = column.group(group.code, group.label, members)
        out.append(replace(item, limits=group.range))
    return out


def _banded(column: _Column) -> list[Item]:
    """Bands as groups, without those that contain no released value."""
    out = []
    for band in bands_of(column.name, column.sources):
        members = [
            i for i, v in enumerate(column.values) if v.kind == "value" and band.contains(v.value)
        ]
        if members:
            item = column.group(band.code, band.code, members)
            out.append(replace(item, labels=band.labels, limits=band.limits))
    return out


def _inside(name: str, item: Item, limits: tuple[float, float]) -> bool:
    """Whether a value lies in a range."""
    if item.kind == "blank":
        return False
    if isinstance(item.value, str | bool) or not hasattr(item.value, "__float__"):
        raise SpecError(f"columns.{name}.groups: a range requires numbers; list the values instead")
    return limits[0] <= float(item.value) <= limits[1]


def _areas(column: _Column) -> list[Item]:
    """Larger areas, from a column of the release or a mapping; lowest level first."""
    out: list[Item] = []
    for level in column.spec.levels:
        known: dict[str, str] = {}
        if isinstance(level, str):
            areas = _by_column(column, level)
            rows = column.sources.rows(
                "SELECT value, label FROM catalog.codes WHERE column_name = ?", level
            )
            known = {code: label for code, label in rows if code is not None and label}
        else:
            below = {item.code: item.members for item in out}
            areas = {
                area: [
                    place
                    for code in codes
                    for place in below.get(code) or (column.place(code, "parents"),)
                ]
                for area, codes in level.items()
            }
        _check_nested(column, areas, out)
        for area, members in areas.items():
            label = column.spec.parent_labels.get(area, "")
            out.append(column.group(area or EMPTY, label, members, known.get(area, "")))
    return out


def _check_nested(column: _Column, areas: dict[str, list[int]], below: Sequence[Item]) -> None:
    """Refuse areas that are empty or overlap: their figures would count people twice."""
    area_of: dict[int, str] = {}
    for area, members in areas.items():
        where = f"columns.{column.name}.parents: {area!r}"
        if not members:
            raise SpecError(f"{where} is empty; list what it contains")
        for place in members:
            if area_of.setdefault(place, area) != area:
                raise SpecError(
                    f"{where} and {area_of[place]!r} both contain {column.values[place].code!r}; areas of one level "
                    "must not overlap"
                )
        for lower in below:
            inside = set(lower.members) & set(members)
            if inside and len(inside) < len(set(lower.members)):
                raise SpecError(
                    f"{where} contains only part of {lower.code!r}; an area must lie entirely in one area of the "
                    "next level"
                )


def _by_column(column: _Column, parent: str) -> dict[str, list[int]]:
    """Values by the value of another column that contains them, from the table of both columns."""
    name, sources = column.name, column.sources
    sources.check_columns([parent])
    columns = column_set((name, parent))
    if columns not in sources.release.tables:
        raise SpecError(
            f"columns.{name}.parents: no released table has {name} and {parent}; give a mapping instead"
        )
    data = quoted(sources.release.logical_name)
    rows = sources.release.sql(
        f"SELECT CAST({quoted(name)} AS VARCHAR), CAST({quoted(parent)} AS VARCHAR), count(*) FROM {data} "
        "GROUP BY ALL ORDER BY ALL"
    ).rows
    counts: dict[str, dict[str, int]] = {}
    for child, area, n_rows in rows:
        if child is not None and area is not None:
            counts.setdefault(child, {})[area] = int(n_rows)
    out: dict[str, list[int]] = {}
    for place, item in enumerate(column.values):
        areas = counts.get("" if item.value == "" else item.code)
        if item.kind == "blank" or not areas:
            continue
        area = max(areas, key=lambda a: (areas[a], a))
        if areas[area] < NESTED_SHARE * sum(areas.values()):
            raise SpecError(
                f"columns.{name}.parents: {item.code!r} lies in several values of {parent}; give a mapping instead"
            )
        out.setdefault(area, []).append(place)
    return dict(sorted(out.items()))


def _nested(total: Item, groups: list[Item], values: list[Item]) -> list[Item]:
    """All items, each after the smallest group that contains it; `members` become positions among all items."""
    members_of = [frozenset(g.members) for g in groups]

    def parent_of(members: frozenset[int], self_place: int) -> int:
        around = [
            g
            for g in range(len(groups))
            if g != self_place
            and members <= members_of[g]
            and (self_place < 0 or len(members) < len(members_of[g]))
        ]
        return min(around, key=lambda g: len(members_of[g]), default=-1)

    children: dict[int, list[tuple[bool, int]]] = {}
    for g in range(len(groups)):
        children.setdefault(parent_of(members_of[g], g), []).append((True, g))
    for v in range(len(values)):
        children.setdefault(parent_of(frozenset([v]), -1), []).append((False, v))
    for below in children.values():  # in the order of the values they contain
        below.sort(key=lambda c: (min(groups[c[1]].members) if c[0] else c[1], not c[0]))
    out, place_of_value = [total], {}
    pending = [(kind, place, -1) for kind, place in reversed(children.get(-1, []))]
    while pending:
        is_group, place, parent = pending.pop()
        item = replace((groups if is_group else values)[place], parent=parent)
        out.append(item)
        here = len(out) - 1
        if is_group:
            inside = reversed(children.get(place, []))
            pending += [(kind, child, here) for kind, child in inside]
        else:
            place_of_value[place] = here
    return [replace(item, members=tuple(place_of_value[m] for m in item.members)) for item in out]


def _unique(items: list[Item]) -> tuple[Item, ...]:
    """Items with unique codes, keys and labels; of two equal ones, that of a group changes, not that of a value."""
    out = list(items)
    codes: set[str] = set()
    keys: set[str] = set()
    labels: list[set[str]] = [set() for _ in items[0].labels]
    last = {"total": 0, "blank": 1, "value": 2, "group": 3}
    for place in sorted(range(len(items)), key=lambda i: last[items[i].kind]):
        item = items[place]
        code = item.code if item.code not in codes else unused_name(item.code + "_", codes)
        key = _key(code, place, "C")
        while key in keys:
            key += "_"
        own = []
        for text, taken in zip(item.labels, labels, strict=True):
            label = text if text not in taken else f"{text} [{code}]"
            while label in taken:
                label += "_"
            taken.add(label)
            own.append(label)
        codes.add(code)
        keys.add(key)
        out[place] = replace(item, code=code, key=key, labels=tuple(own))
    return tuple(out)


def _key(text: str, place: int, letter: str) -> str:
    """An SDMX identifier: the text itself where it is valid, else derived from it or from its position."""
    if letter == "C":
        return text if _KEY.match(text) else f"C{place:05d}"
    key = re.sub(r"[^A-Za-z0-9_-]", "_", text)
    return key if key[:1].isalpha() else f"D_{key}"
