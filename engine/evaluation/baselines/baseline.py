"""What every baseline is: rows and a schema in, rows of the same columns out, and in words what it promises.

Nouns, how a schema is found, and columns as whole numbers and as floats, and back. Invariants: a column of
`Schema.kept` comes out as it went in, row by row, so every baseline is a partial synthesis, too, and its result
confidential until it is evaluated; a column comes back with its type, and only values that some row of it has, unless
the values were computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.errors import SpecError
from engine.params import ZeroPart, ZeroRule
from engine.schema import GRID_KINDS, Column
from engine.spec import ReleaseSpec

Codes = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
_WHOLE = 2.0**53


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Levels:
    codes: Codes  # shape (n_rows,): Of each row; a blank is a level of its own, the last one
    rows: Codes  # shape (n_levels,): A row that has each level

    @property
    def n(self) -> int:
        return len(self.rows)


def levels_of(column: pd.Series) -> Levels:
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
    """Return computed floats as a column of another's type, whole where all of that column's values are."""
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


# Baselines


FEW = 20
"""Numbers of at most so many values are categories, where nobody says what they are."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Schema:
    """What a baseline is given about the columns, beside the rows."""

    # Columns of numbers or times; all others are categories, whatever their values look like.
    numbers: frozenset[str] = frozenset()
    kept: tuple[str, ...] = ()  # Columns that stay as they are (partial synthesis)
    known: tuple[str, ...] = ()  # Quasi-identifiers: what an attacker is thought to know
    # Columns that swapped records exchange: where people live, as a rule.
    areas: tuple[str, ...] = ()
    alike: tuple[str, ...] = ()  # Columns in which records agree that are swapped
    # Combinations that nobody can have; None among the values of a part is a blank.
    zeros: tuple[ZeroRule, ...] = ()

    def changed(self, frame: pd.DataFrame) -> list[str]:
        names = [str(c) for c in frame.columns]
        named = (*self.kept, *self.known, *self.areas, *self.alike)
        require_columns(names, named, "the schema")
        changed = [c for c in names if c not in self.kept]
        if not changed:
            raise SpecError("the schema keeps every column: nothing is left to synthesise")
        return changed


Synthesize = Callable[[pd.DataFrame, Schema, np.random.Generator], Any]
"""Gives rows of the same columns, in their order and of their types; or the path of a file of them."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Baseline:
    """A way to make microdata safe."""

    name: str  # For people; short
    promise: str  # What it promises, and what not, in words
    synthesize: Synthesize
    origin: str = "ours"  # Whose code it is
    kind: Literal["baseline", "outside", "file"] = "baseline"  # "outside": a command of others
    path: Path | None = None  # Of a table that is there already


def require_columns(there: Sequence[str], wanted: Iterable[str], who: str) -> None:
    if missing := [c for c in dict.fromkeys(wanted) if c not in there]:
        raise SpecError(
            f"{who}: names {', '.join(missing)}, which the data lacks; it has {', '.join(there)}"
        )


def assembled(frame: pd.DataFrame, columns: Mapping[str, pd.Series]) -> pd.DataFrame:
    """Return a frame with some columns replaced, in their order; the others stay as they are."""
    return pd.DataFrame(
        {str(c): columns.get(str(c), frame[c].reset_index(drop=True)) for c in frame.columns}
    )


def sequentially(
    frame: pd.DataFrame,
    schema: Schema,
    predictor: Callable[[pd.Series, pd.Series, bool], Any],
    drawn: Callable[[pd.Series, list[Any], bool], pd.Series],
) -> pd.DataFrame:
    """Draw each column given those before it in the frame; kept ones come first.

    predictor: A column and its synthetic one, and whether it is of numbers, as later columns are modelled on them.
    drawn: A synthetic column, from the data's, the predictors before it, and whether it is of numbers.
    """
    changed = schema.changed(frame)
    out = {c: frame[c].reset_index(drop=True) for c in schema.kept}
    before = [predictor(frame[c], out[c], c in schema.numbers) for c in schema.kept]
    for name in changed:
        is_number = name in schema.numbers
        out[name] = drawn(frame[name], before, is_number)
        before.append(predictor(frame[name], out[name], is_number))
    return assembled(frame, out)


def schema_of(
    frame: pd.DataFrame,
    spec: ReleaseSpec | None = None,
    *,
    known: Sequence[str] = (),
    areas: Sequence[str] = (),
) -> Schema:
    """Return the schema of rows: as their spec declares it, else by what the columns look like.

    spec: Says which columns are numbers, what is impossible (universes, and `zeros` of section `[dp]`), what
        is swapped. Without it columns of numbers of more than `FEW` values are numbers, and times are.
    known, areas: As in `Schema`; without areas those of the spec's swapping.
    """
    swap = None if spec is None else spec.privacy.swap
    alike = () if areas or swap is None else (*swap.within, *swap.similar)
    declared = {} if spec is None else {c.name: c for c in spec.columns}
    numbers = frozenset(str(c) for c in frame.columns if _is_number(frame[c], declared.get(str(c))))
    return Schema(
        numbers=numbers,
        known=tuple(known),
        areas=tuple(areas) or (() if swap is None else swap.columns),
        alike=alike,
        zeros=() if spec is None else _zeros(frame, spec),
    )


def _is_number(column: pd.Series, declared: Column | None) -> bool:
    if pd.api.types.is_datetime64_any_dtype(column):
        return True
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return False
    return column.nunique() > FEW if declared is None else declared.kind in GRID_KINDS


def _zeros(frame: pd.DataFrame, spec: ReleaseSpec) -> tuple[ZeroRule, ...]:
    """What the spec declares impossible: of declared combinations, and of universes."""
    there = {str(c) for c in frame.columns}
    rules = [rule for rule in spec.zeros if set(rule.columns) <= there]
    for column in spec.columns:
        if column.universe is not None and {column.name, column.universe.column} <= there:
            rules += _of_universe(frame, column)
    return tuple(rules)


def _of_universe(frame: pd.DataFrame, column: Column) -> list[ZeroRule]:
    """Outside of its universe a column has no value; inside it has one, if the universe is complete."""
    universe = column.universe
    if universe is None:
        return []
    decides, dependent = frame[universe.column], frame[column.name]
    inside = decides.notna()
    if universe.values is not None:
        inside &= decides.isin(universe.values)
    if universe.low is not None:
        inside &= floats_of(decides) >= float(universe.low)
    if universe.high is not None:
        inside &= floats_of(decides) <= float(universe.high)
    without = [None, universe.outside] if universe.outside is not None else [None]
    values = _values(dependent)
    sides = {False: [v for v in values if v not in without], True: without}
    rules = []
    for is_inside, wrong in sides.items():
        if is_inside and (not universe.complete or universe.outside is not None):
            continue
        where = _values(decides[inside if is_inside else ~inside])
        if where and wrong:
            parts = (
                ZeroPart(column=universe.column, values=tuple(where)),
                ZeroPart(column=column.name, values=tuple(wrong)),
            )
            rules.append(ZeroRule(parts=parts))
    return rules


def fits(column: pd.Series, part: ZeroPart) -> Flags:
    """Whether each value of a column is what a part of a rule means; a blank only where None is among its values."""
    if part.values is not None:
        blank = column.isna().to_numpy(np.bool_) & (None in part.values)
        return blank | column.isin([v for v in part.values if v is not None]).to_numpy(np.bool_)
    x = floats_of(column)
    fit = ~np.isnan(x)
    if part.low is not None:
        fit &= x >= float(part.low)
    if part.high is not None:
        fit &= x <= float(part.high)
    return fit


def impossible(frame: pd.DataFrame, zeros: Sequence[ZeroRule]) -> Flags:
    found = np.zeros(len(frame), np.bool_)
    for rule in zeros:
        found |= np.logical_and.reduce([fits(frame[p.column], p) for p in rule.parts])
    return found


def _values(column: pd.Series) -> list[object]:
    return [None if pd.isna(v) else v for v in column.unique()]
