"""Columns as whole numbers and as floats, and back: what baselines count and fit with.

Invariant: what comes back has the type of the column that it came from, and only values that some row of it has,
unless the values were computed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Codes = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
_WHOLE = 2.0**53


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Levels:
    """A column of categories as codes."""

    codes: Codes  # shape (n_rows,): Of each row; a blank is a level of its own, the last one
    rows: Codes  # shape (n_levels,): A row that has each level

    @property
    def n(self) -> int:
        """Number of levels."""
        return len(self.rows)


def levels_of(column: pd.Series) -> Levels:
    """Return a column as codes, its values in their order."""
    codes, _ = pd.factorize(column, sort=True, use_na_sentinel=True)
    # Categories that no row has are no levels, and a blank is the last.
    filled = np.where(codes < 0, codes.max(initial=-1) + 1, codes)
    _, rows, dense = np.unique(filled, return_index=True, return_inverse=True)
    return Levels(codes=dense.astype(np.int64), rows=rows.astype(np.int64))


def taken(column: pd.Series, rows: Codes) -> pd.Series:
    """Return the values of some rows, of the same type, as a column with a fresh index."""
    return column.take(rows).reset_index(drop=True)


def floats_of(column: pd.Series) -> Floats:
    """Return numbers, or times in microseconds since 1970, as floats; a blank is NaN."""
    if pd.api.types.is_datetime64_any_dtype(column):
        times = column.to_numpy("datetime64[us]")
        return np.where(np.isnat(times), np.nan, times.astype(np.int64).astype(np.float64))
    return column.to_numpy(np.float64, na_value=np.nan)


def column_of(values: Floats, like: pd.Series) -> pd.Series:
    """Return computed floats as a column of another's type, whole where all of that column's values are.

    values: NaN is a blank; only where the other column can hold one.
    """
    there = floats_of(like)
    there = there[~np.isnan(there)]
    if len(there) and (np.abs(there) < _WHOLE).all() and (there == np.round(there)).all():
        values = np.round(values)
    if pd.api.types.is_datetime64_any_dtype(like):
        times = np.where(np.isnan(values), 0, values).astype(np.int64).astype("datetime64[us]")
        moments = pd.Series(times, name=like.name).mask(np.isnan(values))
        zone = getattr(like.dtype, "tz", None)
        if zone is not None:
            return moments.dt.tz_localize("UTC").dt.tz_convert(zone).astype(like.dtype)
        return moments.astype(like.dtype)
    found = pd.Series(values, name=like.name)
    if pd.api.types.is_extension_array_dtype(like.dtype):
        return found.convert_dtypes(convert_integer=False).astype(like.dtype)
    return found.astype(like.dtype)
