"""What an audit sees of data: columns of few levels, and the number of rows in each combination of them.

Takes a frame; gives codes. A level is one value, no value, or, of numbers with many values, a group of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.errors import DataError, SpecError
from engine.schema import ColumnSet, Int64Array, column_set

MOST_VALUES = 40
"""Numbers with more values are audited in groups; other columns with more are refused."""
GROUPS = 20
MOST_COLUMNS = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditColumn:
    """One column."""

    name: str
    # What rows made for the audit hold, one a level; None stands for no value and comes last.
    values: tuple[Any, ...]
    # Numbers in groups: where each group begins, the first from minus infinity. None: each value is a
    # level.
    starts: tuple[float, ...] | None = None

    def codes(self, column: pd.Series[Any]) -> Int64Array:
        """Levels of a column's rows; -1: a value that none has, -2: no value where none is without one."""
        is_null = column.isna().to_numpy()
        has_null = self.values[-1] is None
        out = np.full(len(column), len(self.values) - 1 if has_null else -2, dtype=np.int64)
        held = column[~is_null]
        if self.starts is not None:
            numbers = pd.to_numeric(held, errors="coerce").to_numpy(dtype=np.float64)
            found = np.searchsorted(np.array(self.starts[1:]), numbers, side="right")
            found[np.isnan(numbers)] = -1
        else:
            known = self.values[:-1] if has_null else self.values
            if known and all(isinstance(v, int | float) and not isinstance(v, bool) for v in known):
                held = pd.to_numeric(held, errors="coerce")
            else:
                held, known = held.astype(str), tuple(str(v) for v in known)
            found = pd.Index(known).get_indexer(held.to_numpy())
        out[~is_null] = found
        return out


@dataclass(frozen=True, kw_only=True, slots=True)
class Domain:
    """All combinations that rows may have."""

    columns: tuple[AuditColumn, ...]  # Sorted by name

    @property
    def names(self) -> ColumnSet:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Levels of each column."""
        return tuple(len(column.values) for column in self.columns)

    @property
    def n_cells(self) -> int:
        """Combinations."""
        return prod(self.sizes)

    def coded(self, frame: pd.DataFrame, place: str) -> Int64Array:
        """Codes of a frame's rows, shape (n_rows, n_columns)."""
        missing = [name for name in self.names if name not in frame.columns]
        if missing:
            raise DataError(f"{place}: has no column {', '.join(missing)}")
        columns = []
        for column in self.columns:
            codes = column.codes(frame[column.name])
            if (codes == -2).any():
                raise DataError(
                    f"{place}: column {column.name!r} is blank in rows; the data's is in none"
                )
            if (codes < 0).any():
                raise DataError(
                    f"{place}: column {column.name!r} holds values that the data it was given does not have"
                )
            columns.append(codes)
        return np.column_stack(columns)

    def frame(self, codes: Int64Array) -> pd.DataFrame:
        """Rows of codes as a frame."""
        return pd.DataFrame(
            {
                column.name: _typed(pd.array(column.values, dtype=object)[codes[:, place]])
                for place, column in enumerate(self.columns)
            }
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Cells:
    """Combinations with their number of rows, or their share of all."""

    codes: Int64Array  # shape (n_cells, n_columns): Distinct, unless rows stand for themselves
    n: NDArray[Any]  # shape (n_cells,)

    def rows(self, rng: np.random.Generator | None = None) -> Int64Array:
        """A row of codes for each row; shuffled where a generator is given."""
        rows = np.repeat(self.codes, self.n.astype(np.int64), axis=0)
        return rows if rng is None else rows[rng.permutation(len(rows))]


def cells_of(codes: Int64Array, sizes: Sequence[int]) -> Cells:
    """Count rows of codes by combination."""
    label, n = np.unique(np.ravel_multi_index(tuple(codes.T), tuple(sizes)), return_counts=True)
    return Cells(codes=np.column_stack(np.unravel_index(label, tuple(sizes))), n=n.astype(np.int64))


def domain_of(frame: pd.DataFrame, columns: Sequence[str]) -> Domain:
    """Return the domain of some columns of a frame."""
    names = column_set(tuple(dict.fromkeys(columns)))
    if not 1 <= len(names) <= MOST_COLUMNS:
        raise SpecError(f"audit: wants 1 to {MOST_COLUMNS} columns, not {len(names)}")
    if missing := [name for name in names if name not in frame.columns]:
        raise DataError(f"the data has no column {', '.join(missing)}")
    return Domain(columns=tuple(_column(name, frame[name]) for name in names))


def _column(name: str, column: pd.Series[Any]) -> AuditColumn:
    """Levels of one column."""
    held = column.dropna()
    if held.empty:
        raise DataError(f"column {name!r} has no value: leave it out")
    none = (None,) if len(held) < len(column) else ()
    is_number = pd.api.types.is_numeric_dtype(held) and not pd.api.types.is_bool_dtype(held)
    if is_number and held.nunique() > MOST_VALUES:
        return _grouped(name, np.sort(held.to_numpy(dtype=np.float64)), none)
    if is_number:
        numbers = sorted({float(v) for v in held})
        return AuditColumn(name=name, values=(*map(_plain, numbers), *none))
    values = sorted({str(v) for v in held})
    if len(values) > MOST_VALUES:
        raise SpecError(
            f"column {name!r} has more than {MOST_VALUES} values: leave it out, or group it beforehand"
        )
    return AuditColumn(name=name, values=(*values, *none))


def _grouped(name: str, ordered: NDArray[np.float64], none: tuple[None, ...]) -> AuditColumn:
    """A column of many numbers, in groups; each is stood for by its median row."""
    at = [len(ordered) * group // GROUPS for group in range(GROUPS)]
    starts = np.unique(ordered[at])
    group = np.searchsorted(starts[1:], ordered, side="right")
    values = [
        _plain(float((inside := ordered[group == place])[len(inside) // 2]))
        for place in range(len(starts))
    ]
    return AuditColumn(name=name, values=(*values, *none), starts=tuple(map(float, starts)))


def _plain(number: float) -> int | float:
    """A whole number as such."""
    return int(number) if number.is_integer() else number


def _typed(column: Any) -> Any:
    """A column of whole numbers, numbers or texts, as such."""
    series = pd.Series(column)
    return series.infer_objects() if not series.isna().any() else series.convert_dtypes()
