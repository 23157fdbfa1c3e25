"""CONFIDENTIAL. Original and synthetic tables side by side, as whole numbers that every measure and attack counts with.

Invariant: a value has the same code in the original and in every table; a blank has the code after the last value.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations
from math import comb, prod

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field

from engine.errors import InternalError, SpecError
from engine.evaluation.findings import Section
from engine.schema import ColumnSet, column_set

Codes = NDArray[np.int32]
Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
DENSE = 1 << 21
"""Tables of at most so many possible cells are counted in an array of all of them."""
LARGEST_KEY = 1 << 62
MOST_LISTED = 500_000
"""Of more sets of columns, some are drawn without listing all."""
BLANK = "blank"
MANY_ROWS, MANY_OF_ALL = 30, 0.01
"""Rows, and share of all rows, from which on a value is one that many have."""


class Binning(Section):
    """How the values of a column are grouped: by ranks of the original, or by edges."""

    ranks: int | None = None  # Number of groups of equal share of the original; ties stay together
    apart: tuple[float, ...] = ()  # Values that are no part of the ranking and a group each
    # Groups (edges[i], edges[i + 1]]; what is above the last edge is in the last group, what is not above
    # the first belongs to none and is left out.
    edges: tuple[float, ...] = ()


class Reading(Section):
    """How the original, and synthetic tables of it, are read."""

    nulls: tuple[str, ...] = ()  # How text files spell blanks; an empty field always is one
    texts: tuple[str, ...] = ()  # Columns that are texts though they look like numbers
    bins: dict[str, Binning] = Field(default_factory=dict)
    # Texts of a column in their order; other texts are ordered by code point.
    order: dict[str, list[str]] = Field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Distinct:
    """Distinct rows of a table and how often each is there."""

    frame: pd.DataFrame  # One column a column of the table
    n: Numbers
    measured: Flags | None = None  # Rows that were measured as such, where the release says so


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Coded:
    """A table as codes."""

    columns: ColumnSet
    codes: Mapping[str, Codes]  # One array of shape (n_rows,) a column
    n: Numbers  # shape (n_rows,)
    measured: Flags | None = None  # shape (n_rows,)

    @property
    def total(self) -> int:
        return int(self.n.sum())

    def rows(self, at: NDArray[np.integer]) -> Coded:
        measured = None if self.measured is None else self.measured[at]
        codes = {name: code[at] for name, code in self.codes.items()}
        return Coded(columns=self.columns, codes=codes, n=self.n[at], measured=measured)

    def only(self, columns: ColumnSet) -> Coded:
        """Some columns; rows that now are equal stay apart."""
        return Coded(columns=columns, codes={c: self.codes[c] for c in columns}, n=self.n)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Grouping:
    group: Numbers  # shape (n_values + 1,): Group of each code; -1: none, left out
    n_groups: int


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Aligned:
    original: Coded
    tables: Mapping[ColumnSet, Coded]  # By width, then name
    values: Mapping[str, NDArray[np.generic]]  # Of each column in their order, without the blank
    groupings: Mapping[str, Grouping]  # Of the columns that the study bins
    control: Coded | None = None  # Non-members: people whom the tables were not made from
    # For `covering`, which is asked thousands of times: tables by size, and for each column those with it, as bits.
    ranked: list[Coded] = field(default_factory=list, init=False, repr=False)
    having: dict[str, int] = field(default_factory=dict, init=False, repr=False)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Counts:
    """Two tables counted over the same columns."""

    keys: Numbers  # Combinations of values that either has; for one column its codes, or groups
    left: Numbers
    right: Numbers


def distinct(frame: pd.DataFrame) -> Distinct:
    """A frame of rows as a table; repeated rows stay apart."""
    return Distinct(frame=frame, n=np.ones(len(frame), np.int64))


def align(
    original: pd.DataFrame,
    tables: Mapping[ColumnSet, Distinct],
    reading: Reading,
    *,
    control: pd.DataFrame | None = None,
) -> Aligned:
    """Lay synthetic tables beside the original, and non-members (`control`) if there are any."""
    return align_several(original, [tables], reading, control=control)[0]


def align_several(
    original: pd.DataFrame,
    several: Sequence[Mapping[ColumnSet, Distinct]],
    reading: Reading,
    *,
    control: pd.DataFrame | None = None,
) -> list[Aligned]:
    """Lay the tables of several releases beside one original, all with the same codes."""
    names = list(original.columns)
    if strange := {c for tables in several for columns in tables for c in columns} - set(names):
        raise InternalError(f"the original lacks {', '.join(sorted(strange))}")
    every = [(columns, t) for tables in several for columns, t in tables.items()]
    of_tables = {c: [t.frame[c] for columns, t in every if c in columns] for c in names}
    sides = [original] if control is None else [original, control]
    values = {
        c: _values(
            [_plain(v) for v in (*(side[c] for side in sides if c in side), *of_tables[c])],
            reading.order.get(c, []),
        )
        for c in names
        if of_tables[c]
    }
    index = {c: pd.Index(v) for c, v in values.items()}

    def rows(frame: pd.DataFrame) -> Coded:
        known = frame[[c for c in index if c in frame]]
        return _coded(known, index, np.ones(len(frame), np.int64))

    coded = rows(original)
    groupings = {
        c: _grouping(c, b, values[c], coded.codes[c])
        for c, b in reading.bins.items()
        if c in values
    }
    non_members = None if control is None else rows(control)
    return [
        Aligned(
            original=coded,
            tables={
                columns: _coded(
                    tables[columns].frame, index, tables[columns].n, tables[columns].measured
                )
                for columns in sorted(tables, key=lambda columns: (len(columns), columns))
            },
            values=values,
            groupings=groupings,
            control=non_members,
        )
        for tables in several
    ]


def _plain(column: pd.Series) -> pd.Series:
    """A column as numbers (truth values too), times, or categories of texts."""
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
        return column.astype("float64")
    if isinstance(dtype, pd.CategoricalDtype):
        is_text = pd.api.types.infer_dtype(column.cat.categories) in ("string", "empty")
        return column if is_text else _plain(column.astype("object").infer_objects())
    if pd.api.types.is_datetime64_any_dtype(column):
        return column.astype("datetime64[us]")
    if pd.api.types.is_bool_dtype(column) or pd.api.types.is_numeric_dtype(column):
        return column.astype("float64")
    if pd.api.types.infer_dtype(column, skipna=True) == "boolean":
        return column.map({True: 1.0, False: 0.0}).astype("float64")
    codes, texts = pd.factorize(column.astype("object"))
    return pd.Series(pd.Categorical.from_codes(codes, pd.Index(texts, dtype=object)))


def _values(columns: Sequence[pd.Series], order: Sequence[str]) -> NDArray[np.generic]:
    """All values of plain columns in their order."""
    listed = []
    for column in columns:
        if isinstance(column.dtype, pd.CategoricalDtype):
            is_used = np.bincount(column.cat.codes + 1, minlength=len(column.cat.categories) + 1)
            listed.append(column.cat.categories.to_numpy(object)[is_used[1:] > 0])
        else:
            listed.append(column.to_numpy()[column.notna().to_numpy()])
    filled = [values for values in listed if len(values)] or listed[:1]
    if all(values.dtype.kind == filled[0].dtype.kind != "O" for values in filled):
        return np.unique(np.concatenate([np.unique(values) for values in filled]))
    unique = pd.unique(np.concatenate([values.astype(object) for values in filled]))
    place = {text: i for i, text in enumerate(order)}
    ordered = sorted(unique, key=lambda v: (place.get(v, len(place)), str(v)))
    return np.array(ordered, dtype=object)


def _coded(
    frame: pd.DataFrame, index: Mapping[str, pd.Index], n: Numbers, measured: Flags | None = None
) -> Coded:
    """The columns of a frame as places in an index of values, blanks after the last."""
    codes = {}
    for name in frame.columns:
        plain = _plain(frame[name])
        if isinstance(plain.dtype, pd.CategoricalDtype):
            place = index[name].get_indexer(pd.Index(plain.cat.categories, dtype=object))
            place = np.append(place, -1)[plain.cat.codes.to_numpy(np.int64)]
        else:
            place = index[name].get_indexer(pd.Index(plain))
        codes[name] = np.where(place < 0, len(index[name]), place).astype(np.int32)
    return Coded(columns=column_set(list(codes)), codes=codes, n=n, measured=measured)


def _grouping(
    name: str, binning: Binning, values: NDArray[np.generic], original: Codes
) -> Grouping:
    """Groups of a column of numbers; blanks are one of their own, the last."""
    if values.dtype == object and (original < len(values)).any():
        raise SpecError(f"the study bins {name}, which holds texts: numbers and times are binned")
    if values.dtype == object:  # the original is all blank: what others have is counted one by one
        return Grouping(group=np.arange(len(values) + 1), n_groups=len(values) + 1)
    numbers = values.astype(np.float64)
    if binning.edges:
        edges = np.array(binning.edges)
        group = np.minimum(np.searchsorted(edges, numbers, side="left") - 1, len(edges) - 2)
        return Grouping(group=np.append(group, len(edges) - 1), n_groups=len(edges))
    whole = np.trunc(numbers)  # ranks are of whole numbers: a fraction is cut
    shown = whole[original[original < len(values)]]
    ranked = pd.Series(shown[~np.isin(shown, binning.apart)])
    n_ranks = binning.ranks or 1
    rank = np.minimum((n_ranks * ranked.rank(pct=True)).astype(np.int64), n_ranks - 1)
    highest = np.asarray(ranked.groupby(np.asarray(rank)).max())
    group = np.minimum(np.searchsorted(highest, whole, side="left"), len(highest) - 1)
    for i, value in enumerate(binning.apart):
        group[whole == value] = len(highest) + i
    n_groups = len(highest) + len(binning.apart) + 1
    return Grouping(group=np.append(group, n_groups - 1), n_groups=n_groups)


# Counting


def covering(aligned: Aligned, columns: Collection[str]) -> Coded | None:
    """The smallest table that has all of some columns: fewest columns, then fewest rows."""
    if not aligned.ranked:
        by_size = sorted(
            aligned.tables.values(), key=lambda t: (len(t.columns), len(t.n), t.columns)
        )
        aligned.ranked.extend(by_size)
        for i, table in enumerate(by_size):
            for name in table.columns:
                aligned.having[name] = aligned.having.get(name, 0) | 1 << i
    fitting = (1 << len(aligned.ranked)) - 1
    for name in columns:
        fitting &= aligned.having.get(name, 0)
    return aligned.ranked[(fitting & -fitting).bit_length() - 1] if fitting else None


def n_codes(aligned: Aligned, column: str, *, binned: Collection[str] = ()) -> int:
    """How many codes, or groups, a column has, the blank among them."""
    if column in binned and column in aligned.groupings:
        return aligned.groupings[column].n_groups
    return len(aligned.values[column]) + 1


def key_of(
    aligned: Aligned, table: Coded, columns: Collection[str], *, binned: Collection[str] = ()
) -> Numbers:
    """One number for each row's combination of codes, or groups; -1 where a value is in no group."""
    if prod(n_codes(aligned, c, binned=binned) for c in columns) > LARGEST_KEY:
        raise InternalError("too many combinations of values to number them")
    key = np.zeros(len(table.n), np.int64)
    outside = np.zeros(len(table.n), np.bool_)
    for name in columns:
        code = table.codes[name].astype(np.int64)
        if name in binned and name in aligned.groupings:
            code = aligned.groupings[name].group[code]
            outside |= code < 0
        key = key * n_codes(aligned, name, binned=binned) + code
    key[outside] = -1
    return key


def counts(
    aligned: Aligned,
    left: Coded,
    right: Coded,
    columns: Collection[str],
    *,
    binned: Collection[str] = (),
) -> Counts:
    """Count two tables over the same columns; those in `binned` by the study's groups, where it has any."""
    keys = [key_of(aligned, table, columns, binned=binned) for table in (left, right)]
    size = prod(n_codes(aligned, c, binned=binned) for c in columns)
    weights = [t.n[key >= 0].astype(np.float64) for t, key in zip((left, right), keys, strict=True)]
    keys = [key[key >= 0] for key in keys]
    if size <= DENSE:
        every, where = np.arange(size), keys
    else:
        every, places = np.unique(np.concatenate(keys), return_inverse=True)
        where = np.split(places, [len(keys[0])])
    # Sums of whole numbers far below 2 ** 53 are exact as floats.
    first, second = (
        np.bincount(w, n, minlength=len(every)).astype(np.int64)
        for w, n in zip(where, weights, strict=True)
    )
    occurs = (first > 0) | (second > 0)
    return Counts(keys=every[occurs], left=first[occurs], right=second[occurs])


def places(values: Numbers, wanted: NDArray[np.integer]) -> Numbers:
    """Places in ordered values; that after the last for what is not among them."""
    at = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
    return np.where(values[at] == wanted, at, len(values)).astype(np.int64)


def totals(ids: NDArray[np.integer], n: NDArray[np.generic], size: int = 0) -> Numbers:
    return np.bincount(ids, n.astype(np.float64), minlength=size).astype(np.int64)


def joint_ids(codes: Iterable[tuple[Numbers, int]], n_rows: int) -> tuple[Numbers, int]:
    """Number rows by the values of several columns, from 0 without gaps in their order; and how many numbers.

    codes: For each column its codes, and a number that is larger than any.
    """
    ids, size = np.zeros(n_rows, np.int64), 1
    for code, n in codes:
        if size > LARGEST_KEY // n:
            ids, size = dense(ids, size)
        ids, size = ids * n + code, size * n
    return dense(ids, size)


def row_ids(
    aligned: Aligned, tables: Sequence[Coded], columns: Collection[str]
) -> tuple[list[Numbers], int]:
    """Number the rows of several tables by their values in some columns, as `joint_ids` does.

    Rows of any of the tables have the same number if and only if they are equal in all of the columns.
    """
    ends = np.cumsum([len(table.n) for table in tables])
    codes = (
        (np.concatenate([table.codes[name] for table in tables]), n_codes(aligned, name))
        for name in columns
    )
    ids, size = joint_ids(codes, int(ends[-1]))
    return np.split(ids, ends[:-1]), size


def dense(ids: Numbers, size: int) -> tuple[Numbers, int]:
    """Numbers from 0 without gaps in the place of others below a size, in their order, and how many there are."""
    if size <= 16 * len(ids):  # counting is faster than sorting
        is_there = np.zeros(size, np.bool_)
        is_there[ids] = True
        place = np.cumsum(is_there) - 1
        return place[ids], max(int(place[-1]) + 1, 1)
    found, inverse = np.unique(ids, return_inverse=True)
    return inverse.astype(np.int64).reshape(-1), max(len(found), 1)


# Samples


def generator(seed: int, name: str) -> np.random.Generator:
    """The generator of one measure or attack: its draws depend on the seed and its name alone."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def positions(n_rows: int, most: int, rng: np.random.Generator) -> Numbers:
    """Positions of at most so many rows, drawn without replacement, in order."""
    if n_rows <= most:
        return np.arange(n_rows)
    return np.sort(rng.choice(n_rows, most, replace=False))


def drawn(people: Coded, most: int, rng: np.random.Generator) -> Coded:
    """At most so many of some people, drawn without replacement."""
    return people.rows(positions(len(people.n), most, rng))


def published_as_is(aligned: Aligned, rows: Coded) -> dict[ColumnSet, Coded]:
    """The tables of a release as they would be if made from some rows without any protection."""
    return {columns: rows.only(columns) for columns in aligned.tables}


def sampled(aligned: Aligned, share: float, rng: np.random.Generator) -> Aligned:
    """The same with a sample of the original in the place of the synthetic tables: the scale of every score."""
    n_rows = len(aligned.original.n)
    taken = rng.permutation(n_rows)[: max(round(share * n_rows), 1)]
    rows = aligned.original.rows(np.sort(taken))
    return replace(aligned, tables=published_as_is(aligned, rows))


def halves(aligned: Aligned, rng: np.random.Generator) -> tuple[Coded, Coded]:
    """Split the original at random into two halves."""
    order = rng.permutation(len(aligned.original.n))
    middle = len(order) // 2
    first, second = np.sort(order[:middle]), np.sort(order[middle:])
    return aligned.original.rows(first), aligned.original.rows(second)


def column_sets(
    aligned: Aligned,
    columns: Collection[str],
    width: int,
    most: int,
    rng: np.random.Generator,
    *,
    beside: Collection[str] = (),
) -> tuple[list[ColumnSet], int]:
    """Sets of some columns that a table shows, and how many there are; some are drawn where there are more."""
    free = [[c for c in t if c in columns] for t in aligned.tables if set(beside) <= set(t)]
    n_shown = np.array([comb(len(c), width) for c in free], dtype=np.float64)
    if n_shown.sum() <= MOST_LISTED:
        listed = sorted(set(chain.from_iterable(combinations(c, width) for c in free)))
        if len(listed) <= most:
            return listed, len(listed)
        places = np.sort(rng.choice(len(listed), most, replace=False))
        return [listed[i] for i in places], len(listed)
    chosen: set[ColumnSet] = set()
    for at in rng.choice(len(free), 2 * most, p=n_shown / n_shown.sum()).tolist():
        picked = rng.choice(len(free[at]), width, replace=False).tolist()
        if len(chosen) < most:
            chosen.add(column_set([free[at][i] for i in picked]))
    return sorted(chosen), int(n_shown.sum())


# Values in words and as numbers


def texts_of(values: NDArray[np.generic]) -> list[str]:
    if np.issubdtype(values.dtype, np.floating):
        return [f"{float(v):.15g}" for v in values.tolist()]
    if np.issubdtype(values.dtype, np.datetime64):
        if len(values) and (values.astype("datetime64[D]") == np.datetime64(0, "D")).all():
            return [str(v)[11:19] for v in values]  # times of day
        return [str(v).replace("T00:00:00.000000", "") for v in values]
    return [str(v) for v in values]


def labels(aligned: Aligned, column: str, *, binned: Collection[str] = ()) -> list[str]:
    """What each code of a column is called, the blank last; each group ("low to high"), where it is binned."""
    texts = texts_of(aligned.values[column])
    if column not in binned or column not in aligned.groupings:
        return [*texts, BLANK]
    grouping = aligned.groupings[column]
    names = [""] * grouping.n_groups
    for i in range(grouping.n_groups - 1):
        inside = np.flatnonzero(grouping.group[:-1] == i)
        if len(inside):
            low, high = texts[inside[0]], texts[inside[-1]]
            names[i] = low if low == high else f"{low} to {high}"
    names[-1] = BLANK
    return names


def combination_labels(aligned: Aligned, columns: Sequence[str], keys: Numbers) -> list[str]:
    """What combinations of codes, as `key_of` numbers them, are called; "everybody" where there is no column."""
    if not columns:
        return ["everybody"] * len(keys)
    names = [labels(aligned, column) for column in columns]
    codes = np.unravel_index(keys, [len(of_column) for of_column in names])
    parts = [[names[i][at] for at in code.tolist()] for i, code in enumerate(codes)]
    return [" · ".join(cell) for cell in zip(*parts, strict=True)]


def as_numbers(values: NDArray[np.generic]) -> Floats:
    """Values as numbers: times in days, texts by their place in the column's order."""
    if values.dtype == object:
        return np.arange(len(values), dtype=np.float64)
    if np.issubdtype(values.dtype, np.datetime64):
        whole: Numbers = values.astype("datetime64[us]").astype(np.int64)
        return whole / 86_400e6
    return values.astype(np.float64)


def matching(values: NDArray[np.generic], wanted: Collection[float | str]) -> Flags:
    """Which codes of a column are one of the wanted values, numbers or texts: studies are typed by hand. Never the
    blank, which is the last code."""
    if np.issubdtype(values.dtype, np.number):
        asked = pd.to_numeric(pd.Series(list(wanted), dtype=object), errors="coerce").dropna()
        is_wanted = np.isin(values.astype(np.float64), asked.to_numpy(np.float64))
    else:
        texts = {w if isinstance(w, str) else f"{w:.15g}" for w in wanted}
        is_wanted = np.array([text in texts for text in texts_of(values)], dtype=np.bool_)
    return np.append(is_wanted, False)


def chosen_rows(
    aligned: Aligned, table: Coded, where: Mapping[str, Collection[float | str]]
) -> Flags:
    chosen = np.ones(len(table.n), np.bool_)
    for name, allowed in where.items():
        chosen &= matching(aligned.values[name], allowed)[table.codes[name]]
    return chosen


def listed(names: Sequence[str], *, most: int = 12) -> str:
    """Names as a list in words; of many only the first ones and how many there are."""
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def compared(aligned: Aligned, columns: Collection[str]) -> Coded | str:
    """The smallest table with some columns, to compare with the original; or why there is none that has rows."""
    if not aligned.original.total:
        return "the original has no rows"
    if unknown := [c for c in columns if c not in aligned.values]:
        return f"no table has {listed(unknown)}"
    table = covering(aligned, columns)
    if table is None:
        return f"no table has {listed(list(columns))} together"
    return table if table.total else f"the table of {listed(list(table.columns))} has no rows"


def nothing_to_compare(aligned: Aligned) -> str | None:
    """Why nothing at all can be compared, or None."""
    if not aligned.original.total:
        return "the original has no rows"
    if not any(table.total for table in aligned.tables.values()):
        return "no synthetic table has rows and columns of the original"
    return None


def unshown(aligned: Aligned) -> list[str]:
    """Columns of which many in the original have one value, or a blank, that no table shows.

    A release leaves out what few have; what many have it lacks only where its build read the data otherwise.
    """
    found = []
    for name, code in aligned.original.codes.items():
        n = np.bincount(code, aligned.original.n, minlength=n_codes(aligned, name))
        for columns, table in aligned.tables.items():
            if name in columns:
                n[table.codes[name]] = 0
        if n.max(initial=0) >= max(MANY_ROWS, MANY_OF_ALL * aligned.original.total):
            found.append(name)
    return found
