"""Dimensions of a pack: released values, blanks, subtotals, areas that nest, totals; with labels in every language.

Takes a connection on the release and a pack spec; gives one `Dimension` a column. Invariant: codes, keys and labels are
unique inside a dimension, and an item stands after the one it is part of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import duckdb

from engine.errors import SpecError
from engine.schema import column_set, quoted
from engine.store_catalog import count_names, table_name, unused_name
from queries.packs.model import Dimension, Item, Texts
from queries.packs.pack_spec import ColumnSpec, PackSpec
from queries.packs.words import texts
from queries.refusals import near_names
from queries.session import Release

TOTAL, BLANK, EMPTY = "_T", "_X", "_E"
"""Codes of the total, of a blank of the source, and of a text without letters: CSV readers take that for nothing."""
NESTED_SHARE = 0.9
"""Least share of an area's rows that lie in one larger area, for it to be part of that."""
_KEY = re.compile(r"[A-Za-z0-9_@$-]+\Z")


def dimension_of(
    name: str,
    release: Release,
    con: duckdb.DuckDBPyConnection,
    spec: PackSpec,
    words: dict[str, Texts],
) -> Dimension:
    """Return the dimension of one column.

    Parameters
    ----------
    name : str
    release : Release
    con : duckdb.DuckDBPyConnection
        With the release in use.
    spec : PackSpec
    words : dict of str to Texts

    Raises
    ------
    SpecError
        The release has no such column or value, or areas do not nest.
    """
    check_columns([name], release)
    languages, told = spec.pack.languages, spec.columns.get(name, ColumnSpec())
    label = con.execute("SELECT label FROM catalog.columns WHERE name = ?", [name]).fetchall()[0][0]
    values = _values(name, release, con, told, languages, words)
    by_code = {item.code: i for i, item in enumerate(values)}
    unknown = sorted(set(told.values) - set(by_code))
    if unknown:
        raise _unknown(name, unknown[0], by_code, "values")
    groups = [
        *_declared(name, told, values, by_code, languages),
        *_areas(name, told, values, by_code, release, con, languages),
    ]
    total = Item(code=TOTAL, key=TOTAL, labels=words["total"], kind="total")
    items = _unique(_nested(total, groups, values))
    labels = texts(told.label, languages, label or name)
    return Dimension(name=name, key=_key(name, 0, "D"), labels=labels, items=items)


def check_columns(names: Iterable[str], release: Release) -> None:
    """Refuse names that are no columns of a release, with near ones."""
    problems = []
    for name in dict.fromkeys(names):
        if name not in release.columns:
            near = ", ".join(near_names(name, tuple(release.columns))) or "none"
            problems.append(f"pack spec: the release has no column {name!r}. Near: {near}")
    if problems:
        raise SpecError(problems)


def _values(
    name: str,
    release: Release,
    con: duckdb.DuckDBPyConnection,
    told: ColumnSpec,
    languages: Sequence[str],
    words: dict[str, Texts],
) -> list[Item]:
    """The released values in order; a blank comes last."""
    rows = con.execute(
        f"SELECT CAST(value AS {release.columns[name]}), value, label FROM catalog.codes "
        "WHERE column_name = ? ORDER BY value IS NULL, position",
        [name],
    ).fetchall()
    out = []
    for typed, text, label in rows:
        if text is None:
            out.append(Item(code=BLANK, key=BLANK, labels=words["blank"], kind="blank"))
            continue
        code = text or EMPTY
        own = words["empty"] if not text and not label else tuple(label or text for _ in languages)
        given = told.values.get(code, "")
        labels = texts(given, languages, label or text) if given else own
        out.append(Item(code=code, key=code, labels=labels, kind="value", value=typed))
    return out


def _declared(
    name: str,
    told: ColumnSpec,
    values: list[Item],
    by_code: dict[str, int],
    languages: Sequence[str],
) -> list[Item]:
    """Groups that the spec lists."""
    out = []
    for group in told.groups:
        limits = None
        if group.range is not None:
            limits = group.range
            members = [i for i, v in enumerate(values) if _inside(name, v, group.range)]
        else:
            members = [_place(name, code, by_code, "groups") for code in group.values]
        if not members:
            raise SpecError(f"columns.{name}.groups: no released value lies in {group.code!r}")
        labels = texts(group.label, languages, group.code)
        out.append(
            Item(
                code=group.code,
                key=group.code,
                labels=labels,
                kind="group",
                members=tuple(members),
                limits=limits,
            )
        )
    return out


def _inside(name: str, item: Item, limits: tuple[float, float]) -> bool:
    """Whether a value lies in a range."""
    if item.kind == "blank":
        return False
    if isinstance(item.value, str | bool) or not hasattr(item.value, "__float__"):
        raise SpecError(f"columns.{name}.groups: a range needs numbers; name the values instead")
    return limits[0] <= float(item.value) <= limits[1]


def _areas(
    name: str,
    told: ColumnSpec,
    values: list[Item],
    by_code: dict[str, int],
    release: Release,
    con: duckdb.DuckDBPyConnection,
    languages: Sequence[str],
) -> list[Item]:
    """Groups that areas lie in: of a column of the release, or of a mapping; lowest level first."""
    out: list[Item] = []
    for level in told.levels:
        held: dict[str, list[int]] = {}
        known: dict[str, str] = {}
        if isinstance(level, str):
            held = _by_column(name, level, values, release, con)
            known = {
                code: label
                for code, label in con.execute(
                    "SELECT value, label FROM catalog.codes WHERE column_name = ?", [level]
                ).fetchall()
                if code is not None and label
            }
        else:
            below = {item.code: item.members for item in out}
            for parent, codes in level.items():
                held[parent] = [
                    p
                    for code in codes
                    for p in below.get(code) or (_place(name, code, by_code, "parents"),)
                ]
        _check_nested(name, held, out, values)
        for parent, members in held.items():
            own = told.parent_labels.get(parent, "")
            code = parent or EMPTY
            labels = texts(own, languages, known.get(parent) or code)
            out.append(
                Item(code=code, key=code, labels=labels, kind="group", members=tuple(members))
            )
    return out


def _check_nested(
    name: str, held: dict[str, list[int]], below: Sequence[Item], values: Sequence[Item]
) -> None:
    """Refuse areas that hold nothing, or that cut each other: their figures would count people twice."""
    seen: dict[int, str] = {}
    for parent, members in held.items():
        where = f"columns.{name}.parents: {parent!r}"
        if not members:
            raise SpecError(f"{where} holds nothing; name what lies in it")
        for place in members:
            if seen.setdefault(place, parent) != parent:
                raise SpecError(
                    f"{where} and {seen[place]!r} both hold {values[place].code!r}; areas of one level have no "
                    "value in common"
                )
        for area in below:
            inside = set(area.members) & set(members)
            if inside and len(inside) < len(set(area.members)):
                raise SpecError(
                    f"{where} holds a part of {area.code!r} only; an area lies whole in one of the next level"
                )


def _by_column(
    name: str,
    parent: str,
    values: list[Item],
    release: Release,
    con: duckdb.DuckDBPyConnection,
) -> dict[str, list[int]]:
    """Values by the value of another column that they lie in, read off the table of both."""
    check_columns([parent], release)
    columns = column_set((name, parent))
    if columns not in release.tables:
        raise SpecError(
            f"columns.{name}.parents: no released table holds {name} and {parent}; give a mapping instead"
        )
    ((physical,),) = con.execute(
        "SELECT physical FROM catalog.tables WHERE name = ?", [table_name(columns)]
    ).fetchall()
    n = quoted(count_names(columns)[0])
    rows = con.execute(
        f"SELECT CAST({quoted(name)} AS VARCHAR), CAST({quoted(parent)} AS VARCHAR), sum({n}) "
        f"FROM tables.{physical} GROUP BY ALL HAVING sum({n}) > 0 ORDER BY ALL"
    ).fetchall()
    counts: dict[str, dict[str, int]] = {}
    for child, area, rows_there in rows:
        if child is not None and area is not None:
            counts.setdefault(child, {})[area] = int(rows_there)
    out: dict[str, list[int]] = {}
    for place, item in enumerate(values):
        found = counts.get("" if item.value == "" else item.code)
        if item.kind == "blank" or not found:
            continue
        area = max(found, key=lambda a: (found[a], a))
        if found[area] < NESTED_SHARE * sum(found.values()):
            raise SpecError(
                f"columns.{name}.parents: {item.code!r} lies in several values of {parent}; give a mapping instead"
            )
        out.setdefault(area, []).append(place)
    return dict(sorted(out.items()))


def _nested(total: Item, groups: list[Item], values: list[Item]) -> list[Item]:
    """All items, each after the smallest group that holds it; `members` become places among all."""
    held = [frozenset(g.members) for g in groups]

    def parent_of(members: frozenset[int], self_place: int) -> int:
        around = [
            g
            for g in range(len(groups))
            if g != self_place
            and members <= held[g]
            and (self_place < 0 or len(members) < len(held[g]))
        ]
        return min(around, key=lambda g: len(held[g]), default=-1)

    children: dict[int, list[tuple[bool, int]]] = {}
    for g in range(len(groups)):
        children.setdefault(parent_of(held[g], g), []).append((True, g))
    for v in range(len(values)):
        children.setdefault(parent_of(frozenset([v]), -1), []).append((False, v))
    for below in children.values():  # in the order of the values they hold
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
    """Items with codes, keys and labels that differ; of two that are the same, a group's changes, not a value's."""
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
        said = []
        for text, taken in zip(item.labels, labels, strict=True):
            label = text if text not in taken else f"{text} [{code}]"
            while label in taken:
                label += "_"
            taken.add(label)
            said.append(label)
        codes.add(code)
        keys.add(key)
        out[place] = replace(item, code=code, key=key, labels=tuple(said))
    return tuple(out)


def _key(text: str, place: int, letter: str) -> str:
    """An SDMX identifier: the text itself where it is one, else made from it or from its place."""
    if letter == "C":
        return text if _KEY.match(text) else f"C{place:05d}"
    made = re.sub(r"[^A-Za-z0-9_-]", "_", text)
    return made if made[:1].isalpha() else f"D_{made}"


def _place(name: str, code: str, by_code: dict[str, int], where: str) -> int:
    if code not in by_code:
        raise _unknown(name, code, by_code, where)
    return by_code[code]


def _unknown(name: str, code: str, by_code: dict[str, Any], where: str) -> SpecError:
    """The refusal of a value that the release lacks, with near ones."""
    near = ", ".join(near_names(code, tuple(by_code))) or "none"
    return SpecError(f"columns.{name}.{where}: no released value {code!r}. Near: {near}")
