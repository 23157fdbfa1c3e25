"""Original and synthetic tables side by side, as whole numbers that every measure counts with.

Takes the original as a frame, synthetic tables as frames of distinct rows with their number, and a study; gives a
`Paired`, and from it aligned counts of any columns. Sees both sides: its results are CONFIDENTIAL.
Invariant: a value has the same code in the original and in every table; a blank has the code after the last value.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field

from engine.errors import InternalError, SpecError
from engine.evaluation.score import Section
from engine.schema import ColumnSet, column_set

Codes = NDArray[np.int32]
Numbers = NDArray[np.int64]
DENSE = 1 << 21
"""Tables of at most so many possible cells are counted in an array of all of them."""
_LARGEST_KEY = 1 << 62


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
    # Rows that were measured as such, where the release says so.
    measured: NDArray[np.bool_] | None = None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Coded:
    """A table as codes."""

    columns: ColumnSet
    codes: Mapping[str, Codes]  # One array of shape (n_rows,) a column
    n: Numbers  # shape (n_rows,)
    measured: NDArray[np.bool_] | None = None  # shape (n_rows,)

    @property
    def total(self) -> int:
        """Number of rows, repeated ones counted."""
        return int(self.n.sum())


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Grouping:
    """Groups of a column's codes."""

    group: Numbers  # shape (n_values + 1,): Group of each code; -1: none, left out
    n_groups: int


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Paired:
    """An original and synthetic tables of it. Confidential."""

    original: Coded
    tables: Mapping[ColumnSet, Coded]  # By width, then name
    # Values of each column in their order, without the blank.
    values: Mapping[str, NDArray[np.generic]]
    groupings: Mapping[str, Grouping]  # Of the columns that the study bins
    # People of the same population whom the tables were not made from.
    control: Coded | None = None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Counts:
    """Two tables counted over the same columns."""

    keys: Numbers  # Combinations of values that either has; for one column its codes, or groups
    # left, right: Their counts.
    left: Numbers
    right: Numbers


def distinct(frame: pd.DataFrame) -> Distinct:
    """Return a frame of rows as a table; repeated rows stay apart."""
    return Distinct(frame=frame, n=np.ones(len(frame), np.int64))


def pair(
    original: pd.DataFrame,
    tables: Mapping[ColumnSet, Distinct],
    reading: Reading,
    *,
    control: pd.DataFrame | None = None,
) -> Paired:
    """Lay synthetic tables beside the original.

    control: People of the same population whom the tables were not made from.
    """
    return pair_alike(original, [tables], reading, control=control)[0]


def pair_alike(
    original: pd.DataFrame,
    several: Sequence[Mapping[ColumnSet, Distinct]],
    reading: Reading,
    *,
    control: pd.DataFrame | None = None,
) -> list[Paired]:
    """Lay the tables of several releases beside one original, all with the same codes; arguments as of `pair`."""
    names = list(original.columns)
    if strange := {c for tables in several for columns in tables for c in columns} - set(names):
        raise InternalError(f"the original lacks {', '.join(sorted(strange))}")
    listed = [(columns, t) for tables in several for columns, t in tables.items()]
    columns_of = {c: [t.frame[c] for columns, t in listed if c in columns] for c in names}
    known = {c: [] if control is None or c not in control else [control[c]] for c in names}
    values = {
        c: _values([original[c], *known[c], *columns_of[c]], reading.order.get(c, []))
        for c in names
        if columns_of[c]
    }
    index = {c: pd.Index(v) for c, v in values.items()}
    coded = _coded(distinct(original[list(values)]), index)
    groupings = {
        c: _grouping(c, b, values[c], coded.codes[c])
        for c, b in reading.bins.items()
        if c in values
    }
    strangers = None if control is None else _control(control, index)
    return [
        Paired(
            original=coded,
            tables={
                columns: _coded(tables[columns], index)
                for columns in sorted(tables, key=lambda columns: (len(columns), columns))
            },
            values=values,
            groupings=groupings,
            control=strangers,
        )
        for tables in several
    ]


def _control(control: pd.DataFrame, index: Mapping[str, pd.Index]) -> Coded:
    """People of the same population, as codes; columns that they lack are left out."""
    return _coded(distinct(control[[c for c in index if c in control]]), index)


def _plain(column: pd.Series) -> pd.Series:
    """A column as numbers (truth values too), times, or texts; categoricals of texts stay such."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        is_text = pd.api.types.infer_dtype(column.cat.categories) in ("string", "empty")
        return column if is_text else _plain(column.astype("object").infer_objects())
    if pd.api.types.is_datetime64_any_dtype(column):
        return column.astype("datetime64[us]")
    if pd.api.types.is_bool_dtype(column) or pd.api.types.is_numeric_dtype(column):
        return column.astype("float64")
    if pd.api.types.infer_dtype(column, skipna=True) == "boolean":
        return column.map({True: 1.0, False: 0.0}).astype("float64")
    return column.astype("object")


def _floats(column: pd.Series) -> NDArray[np.float64] | None:
    """A column as `_plain` has it, where that takes no look at its values; a release has thousands of such."""
    dtype = column.dtype
    is_number = isinstance(dtype, np.dtype) and dtype.kind in "biuf"
    return column.to_numpy(np.float64) if is_number else None


def _used(column: pd.Series) -> tuple[NDArray[np.generic], NDArray[np.int64]]:
    """Categories of a categorical that are used, and each row's place among them, -1 where it is blank."""
    codes = column.cat.codes.to_numpy(np.int64)
    is_used = np.bincount(codes + 1, minlength=len(column.cat.categories) + 1)[1:] > 0
    place = np.append(np.cumsum(is_used) - 1, -1)
    return column.cat.categories.to_numpy(object)[is_used], place[codes]


def _distinct_values(column: pd.Series) -> pd.Series:
    """Distinct values of a plain column, without the blank."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return pd.Series(_used(column)[0])
    return pd.Series(pd.unique(column.dropna()))


def _values(columns: list[pd.Series], order: list[str]) -> NDArray[np.generic]:
    """All values of a column in their order."""
    floats = [_floats(c) for c in columns]
    if all(f is not None for f in floats):
        found = np.concatenate([pd.unique(f) for f in floats if f is not None])
        return np.sort(pd.unique(found[~np.isnan(found)]))
    plain = [_plain(c) for c in columns]
    used = [v for c in plain if len(v := _distinct_values(c))]
    filled = pd.concat(used) if used else plain[0].dropna()
    unique = pd.unique(filled)
    if pd.api.types.is_numeric_dtype(filled) or pd.api.types.is_datetime64_any_dtype(filled):
        return np.sort(np.asarray(unique))
    place = {text: i for i, text in enumerate(order)}
    ordered = sorted(unique, key=lambda v: (place.get(v, len(place)), str(v)))
    return np.array(ordered, dtype=object)


def _coded(table: Distinct, index: Mapping[str, pd.Index]) -> Coded:
    """A table as codes."""
    codes = {}
    for name in table.frame.columns:
        if (floats := _floats(table.frame[name])) is not None:
            codes[name] = _at(index[name].get_indexer(pd.Index(floats)), len(index[name]))
            continue
        plain = _plain(table.frame[name])
        if isinstance(plain.dtype, pd.CategoricalDtype):
            used, place = _used(plain)
            code = np.append(index[name].get_indexer(pd.Index(used, dtype=object)), -1)[place]
        else:
            code = index[name].get_indexer(pd.Index(plain))
        codes[name] = _at(code, len(index[name]))
    return Coded(columns=column_set(list(codes)), codes=codes, n=table.n, measured=table.measured)


def _at(place: NDArray[np.intp], blank: int) -> Codes:
    """Places in a list as codes; what is not there is blank."""
    return np.where(place < 0, blank, place).astype(np.int32)


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


def covering(paired: Paired, columns: Collection[str]) -> Coded | None:
    """Return the smallest table that has all of some columns: fewest columns, then fewest rows."""
    wanted = set(columns)
    fitting = [t for c, t in paired.tables.items() if wanted <= set(c)]
    return min(fitting, key=lambda t: (len(t.columns), len(t.n), t.columns), default=None)


def counts(
    paired: Paired,
    left: Coded,
    right: Coded,
    columns: Collection[str],
    *,
    binned: Collection[str] = (),
) -> Counts:
    """Count two tables over the same columns.

    binned: Those of them that are counted in the study's groups, where it has any.
    """
    sides = [key_of(paired, table, columns, binned=binned) for table in (left, right)]
    size = prod(n_codes(paired, c, binned=binned) for c in columns)
    weights = [
        table.n[key >= 0].astype(np.float64)
        for table, key in zip((left, right), sides, strict=True)
    ]
    sides = [key[key >= 0] for key in sides]
    if size <= DENSE:
        keys, where = np.arange(size), sides
    else:
        keys, places = np.unique(np.concatenate(sides), return_inverse=True)
        where = [places[: len(sides[0])], places[len(sides[0]) :]]
    # Sums of whole numbers far below 2 ** 53 are exact as floats.
    first, second = (
        np.bincount(w, n, minlength=len(keys)).astype(np.int64)
        for w, n in zip(where, weights, strict=True)
    )
    occurs = (first > 0) | (second > 0)
    return Counts(keys=keys[occurs], left=first[occurs], right=second[occurs])


def n_codes(paired: Paired, column: str, *, binned: Collection[str] = ()) -> int:
    """Return how many codes, or groups, a column has, the blank among them."""
    if column in binned and column in paired.groupings:
        return paired.groupings[column].n_groups
    return len(paired.values[column]) + 1


def key_of(
    paired: Paired, table: Coded, columns: Collection[str], *, binned: Collection[str] = ()
) -> Numbers:
    """Return one number for each row's combination of codes, or groups; -1 where a value is in no group."""
    if prod(n_codes(paired, c, binned=binned) for c in columns) > _LARGEST_KEY:
        raise InternalError("too many combinations of values to number them")
    key = np.zeros(len(table.n), np.int64)
    outside = np.zeros(len(table.n), np.bool_)
    for name in columns:
        code = table.codes[name].astype(np.int64)
        if name in binned and name in paired.groupings:
            code = paired.groupings[name].group[code]
            outside |= code < 0
        key = key * n_codes(paired, name, binned=binned) + code
    key[outside] = -1
    return key
