"""Which groups a declared universe rules out: structural zeros.

Takes the sentences about universes that a release carries, and the groups of a question; gives the groups that are
impossible by declaration. Only what the catalogue states counts: a zero in the data is never structural.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from engine.schema import BoolArray, Int64Array
from queries.buckets import Letters, TableBuckets
from queries.regions import Region
from queries.session import Release

_NOTE = re.compile(
    r"Universe of (?P<of>.+?), declared: (?P<how>.+)\. Outside it every row is (?P<outside>.+?)"
    r"(?P<complete>, inside it none is)?; combinations against this are left out\.",
    re.DOTALL,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Declared:
    """A universe as the catalogue states it.

    Attributes
    ----------
    of, by : str
        The column it is about, and the one that decides.
    low, high : str or None
        Ends of the deciding column, as text.
    listed : str or None
        Its values inside, as the catalogue lists them; with no end and no list: all but blanks.
    outside : str or None
        What the column holds outside; None: a blank.
    complete : bool
        Inside, it never holds that.
    """

    of: str
    by: str
    low: str | None = None
    high: str | None = None
    listed: str | None = None
    outside: str | None = None
    complete: bool = False


def declared_universes(release: Release) -> tuple[Declared, ...]:
    """Read the universes from the release's notes."""
    found = []
    for note in release.notes:
        said = _NOTE.fullmatch(note)
        if said and said["of"] in release.columns:
            how = _condition(said["how"], tuple(release.columns))
            if how is not None:
                outside = None if said["outside"] == "null" else said["outside"]
                complete = said["complete"] is not None
                found.append(replace(how, of=said["of"], outside=outside, complete=complete))
    return tuple(found)


def _condition(text: str, columns: tuple[str, ...]) -> Declared | None:
    """The deciding column and its limits; None where the words are not understood."""
    for by in sorted((c for c in columns if text.startswith(f"{c} ")), key=len, reverse=True):
        out = Declared(of="", by=by)
        for part in text.split(f" and {by} "):
            rest = part.removeprefix(f"{by} ")
            if rest.startswith("from "):
                out = replace(out, low=rest.removeprefix("from "))
            elif rest.startswith("up to "):
                out = replace(out, high=rest.removeprefix("up to "))
            elif rest.startswith("in "):
                out = replace(out, listed=rest.removeprefix("in "))
            elif rest != "not null":
                return None
        return out
    return None


def _inside(column: Letters, of: Declared) -> BoolArray:
    """Which letters of the deciding column lie inside."""
    known = np.array([v is not None for v in column.values], dtype=bool)
    if of.listed is not None:
        named = named_in(of.listed, [str(v) for v in column.values if v is not None])
        return np.array([v is not None and str(v) in named for v in column.values], dtype=bool)
    numbers = column.numbers() if column.is_number else None
    for end, sign in ((of.low, 1.0), (of.high, -1.0)):
        if end is not None and numbers is not None:
            known &= sign * np.nan_to_num(numbers) >= sign * float(end)
        elif end is not None:
            ordered = [
                v is not None and (str(v) >= end if sign > 0 else str(v) <= end)
                for v in column.values
            ]
            known &= np.array(ordered, dtype=bool)
    return known


def named_in(listed: str, values: Collection[str]) -> frozenset[str]:
    """Return which values a list joined by ", " names.

    Values may hold commas: the longest that fits is taken, and what no value fits is skipped to the next comma.
    """
    by_length = sorted(values, key=len, reverse=True)
    named = set()
    while listed:
        found = next((v for v in by_length if f"{listed}, ".startswith(f"{v}, ")), None)
        if found is None:
            listed = listed.partition(", ")[2]
        else:
            named.add(found)
            listed = listed[len(found) + 2 :]
    return frozenset(named)


def ruled_out(release: Release, table: TableBuckets, region: Region) -> BoolArray:
    """Which groups are impossible by a declared universe.

    Parameters
    ----------
    release : Release
    table : TableBuckets
    region : Region
    """
    places = region.places()
    out = np.zeros(region.n_groups, dtype=bool)
    at = {name: j for j, name in enumerate(table.columns)}
    for universe in declared_universes(release):
        if universe.of not in at or universe.by not in at:
            continue
        j, i = at[universe.of], at[universe.by]
        inside = _inside(table.letters[i], universe)
        blank = np.array(
            [(v is None) if universe.outside is None else str(v) == universe.outside
             for v in table.letters[j].values],
            dtype=bool,
        )  # fmt: skip
        may_in, may_out = _may(region, places, i, inside)
        may_blank, may_hold = _may(region, places, j, blank)
        held = (may_out & may_blank) | (may_in & may_hold)
        if not universe.complete:
            held |= may_in & may_blank
        out |= ~held
    if not region.is_free:  # what was released is possible, however the words were read
        row = region.group[(region.group >= 0) & table.row_measured]
        out[row] = False
    return out


def _may(
    region: Region,
    places: Int64Array,
    j: int,
    marked: BoolArray,
) -> tuple[BoolArray, BoolArray]:
    """Whether each group can hold a marked letter of column j, and whether one that is not marked."""
    if j in region.by:
        own = marked[places[:, region.by.index(j)]]
        return own, ~own
    allowed = region.allowed[j]
    shape = len(places)
    return (
        np.full(shape, bool((allowed & marked).any())),
        np.full(shape, bool((allowed & ~marked).any())),
    )
