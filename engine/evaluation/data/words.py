"""What measures say in words: what codes are called, and why a figure could not be computed.

Takes a `Paired`; gives texts. Invariant: no text names a value of the data but the labels, which stay inside
breakdowns and are as CONFIDENTIAL as those.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from engine.evaluation.data.paired import Grouping, Numbers, Paired, covering, n_codes

BLANK = "blank"
_MOST_NAMED = 12
_MANY, _MANY_OF_ALL = 30, 0.01
"""Rows, and share of all rows, from which on a value is one that many have."""


def labels(paired: Paired, column: str, *, binned: Collection[str] = ()) -> list[str]:
    """Return what each code of a column is called, the blank last; each group, where the column is binned.

    binned: Columns that are shown in the study's groups, where it has any: "low to high" of the values in a
        group.
    """
    values = paired.values[column]
    if column in binned and column in paired.groupings:
        return _group_labels(values, paired.groupings[column])
    return [*_texts(values), BLANK]


def _texts(values: NDArray[np.generic]) -> list[str]:
    """Values as texts."""
    if np.issubdtype(values.dtype, np.floating):
        return [f"{float(v):.15g}" for v in values.tolist()]
    if np.issubdtype(values.dtype, np.datetime64):
        if len(values) and (values.astype("datetime64[D]") == np.datetime64(0, "D")).all():
            return [str(v)[11:19] for v in values]  # times of day
        return [str(v).replace("T00:00:00.000000", "") for v in values]
    return [str(v) for v in values]


def _group_labels(values: NDArray[np.generic], grouping: Grouping) -> list[str]:
    """Groups by the least and the largest value in each; the last is the blank's."""
    group, texts = grouping.group[:-1], _texts(values)
    names = [""] * grouping.n_groups
    for i in range(grouping.n_groups - 1):
        inside = np.flatnonzero(group == i)
        if len(inside):
            low, high = texts[inside[0]], texts[inside[-1]]
            names[i] = low if low == high else f"{low} to {high}"
    names[-1] = BLANK
    return names


def combination_labels(
    paired: Paired, columns: Sequence[str], keys: Numbers, *, binned: Collection[str] = ()
) -> list[str]:
    """Return what combinations of codes, as `key_of` numbers them, are called; "everybody" where there is no column."""
    parts: list[list[str]] = []
    for column in reversed(columns):
        names = labels(paired, column, binned=binned)
        keys, code = np.divmod(keys, len(names))
        parts.append([names[i] for i in code.tolist()])
    if not parts:
        return ["everybody"] * len(keys)
    return [" · ".join(cell) for cell in zip(*reversed(parts), strict=True)]


def lacking(paired: Paired, columns: Collection[str]) -> str | None:
    """Return why some columns cannot be compared together, or None where they can.

    They need one table with rows that has all of them, and an original with rows.
    """
    if not paired.original.total:
        return "the original has no rows"
    unknown = [c for c in columns if c not in paired.values]
    if unknown:
        return f"no table has {listed(unknown)}"
    table = covering(paired, columns)
    if table is None:
        return f"no table has {listed(list(columns))} together"
    return None if table.total else f"the table of {listed(list(table.columns))} has no rows"


def unshown(paired: Paired) -> list[str]:
    """Return columns of which many in the original have one value, or a blank, that no table shows.

    A release leaves out what few have; what many have it lacks only where its build read the data otherwise.
    """
    found = []
    for name, code in paired.original.codes.items():
        n = np.bincount(code, paired.original.n, minlength=n_codes(paired, name))
        for columns, table in paired.tables.items():
            if name in columns:
                n[table.codes[name]] = 0
        if n.max(initial=0) >= max(_MANY, _MANY_OF_ALL * paired.original.total):
            found.append(name)
    return found


def nothing_to_compare(paired: Paired) -> str | None:
    """Return why nothing at all can be compared, or None."""
    if not paired.original.total:
        return "the original has no rows"
    if not any(table.total for table in paired.tables.values()):
        return "no synthetic table has rows and columns of the original"
    return None


def listed(names: Sequence[str], *, most: int = _MOST_NAMED) -> str:
    """Return names as a list in words; of many only the first ones and how many there are."""
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def finite(
    figures: Mapping[str, float], why: str | Mapping[str, str]
) -> tuple[dict[str, float], dict[str, str]]:
    """Split figures into those that are numbers, and why the others are not.

    figures: NaN or infinite: not computed.
    """
    values = {name: float(v) for name, v in figures.items() if isfinite(v)}
    absent = [name for name in figures if name not in values]
    if isinstance(why, str):
        return values, dict.fromkeys(absent, why)
    return values, {name: why.get(name, "there was nothing to compute it from") for name in absent}


def as_numbers(values: NDArray[np.generic]) -> NDArray[np.float64]:
    """Return values as numbers: times in days, texts by their place in the column's order."""
    if values.dtype == object:
        return np.arange(len(values), dtype=np.float64)
    if np.issubdtype(values.dtype, np.datetime64):
        whole: Numbers = values.astype("datetime64[us]").astype(np.int64)
        return whole / 86_400e6
    return values.astype(np.float64)


def matching(values: NDArray[np.generic], wanted: Collection[float | str]) -> NDArray[np.bool_]:
    """Return which codes of a column, the blank among them, are one of the wanted values.

    Numbers may be wanted as texts and texts as numbers: studies are typed by hand. The blank never is wanted.
    """
    if np.issubdtype(values.dtype, np.number):
        asked = [number for number in map(_number, wanted) if number is not None]
        is_wanted = np.isin(values.astype(np.float64), np.array(asked, dtype=np.float64))
    else:
        texts = {w if isinstance(w, str) else f"{w:.15g}" for w in wanted}
        is_wanted = np.array([text in texts for text in _texts(values)], dtype=np.bool_)
    return np.append(is_wanted, False)


def _number(text: float | str) -> float | None:
    """A text as a number; None where it is none."""
    try:
        return float(text)
    except ValueError:
        return None
