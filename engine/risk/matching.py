"""Which rows of two tables agree: groups of equal keys, and the keys that the released tables let an attacker use.

Takes a `Comparison`; gives group numbers for the rows of both sides. Invariant: rows of either side have the same
number if and only if they agree in all columns; a blank agrees with a blank.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from engine.study_risks import Risks
from engine.utility.comparison import Coded, Comparison, Numbers, covering, n_codes

KeySet = tuple[str, ...]
_LARGEST = 1 << 62


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Groups:
    """Groups of equal keys among the rows of two tables.

    Attributes
    ----------
    left, right : ndarray of int64
        Group of each row, 0 to `size` - 1.
    size : int
    """

    left: Numbers
    right: Numbers
    size: int


def groups(comparison: Comparison, left: Coded, right: Coded, columns: Collection[str]) -> Groups:
    """Group the rows of two tables by their values in some columns, however many combinations there are.

    Parameters
    ----------
    comparison : Comparison
    left, right : Coded
        Both have the columns.
    columns : collection of str

    Notes
    -----
    O(rows x columns); keys are numbered anew whenever they would no longer fit 62 bits.
    """
    key = np.zeros(len(left.n) + len(right.n), np.int64)
    size = 1
    for name in columns:
        n = n_codes(comparison, name)
        if size * n > _LARGEST:
            key, size = _numbered(key)
        key = key * n + np.concatenate([left.codes[name], right.codes[name]])
        size *= n
    key, size = _numbered(key)
    return Groups(left=key[: len(left.n)], right=key[len(left.n) :], size=size)


def _numbered(key: Numbers) -> tuple[Numbers, int]:
    """Keys numbered from 0, in the order of their first row."""
    number, distinct = pd.factorize(key)
    return np.asarray(number, np.int64), len(distinct)


def totals(group: Numbers, n: Numbers, size: int) -> Numbers:
    """Return the number of rows of each group, shape (size,); repeated rows count as often as they are there."""
    # Sums of whole numbers far below 2 ** 53 are exact as floats.
    return np.bincount(group, n.astype(np.float64), minlength=size).astype(np.int64)


def shown_of(comparison: Comparison, columns: Collection[str]) -> KeySet:
    """Return those of some columns that a table shows and that the people attacked have, in their order."""
    own = comparison.original.codes
    return tuple(c for c in dict.fromkeys(columns) if c in comparison.values and c in own)


def targets_of(comparison: Comparison, told: Risks, keys: Collection[str]) -> KeySet:
    """Return the columns that the attacker wants to know: those declared, or all, without the known ones."""
    wanted = told.targets or tuple(comparison.values)
    return tuple(c for c in shown_of(comparison, wanted) if c not in set(keys))


def usable(comparison: Comparison, keys: KeySet, target: str | None = None) -> list[KeySet]:
    """Return the known columns that an attacker can use together: all, or else the largest sets that a table has.

    Parameters
    ----------
    comparison : Comparison
    keys : tuple of str
    target : str, optional
        A column that the table must have, too.

    Returns
    -------
    list of tuple of str
        Empty where no table has any of them with the target.
    """
    wanted = () if target is None else (target,)
    if keys and covering(comparison, (*keys, *wanted)) is not None:
        return [keys]
    sets = {
        tuple(k for k in keys if k in columns)
        for columns in comparison.tables
        if set(wanted) <= set(columns)
    }
    most = max(map(len, sets), default=0)
    return sorted(s for s in sets if len(s) == most) if most else []


def key_sets(told: Risks) -> list[KeySet]:
    """Return the quasi-identifiers, and the further sets of known columns, each once."""
    every = [told.quasi_identifiers, *told.keys]
    return list(dict.fromkeys(tuple(dict.fromkeys(keys)) for keys in every))


def unseen(keys: Sequence[str], shown: Collection[str]) -> list[str]:
    """Return a note about known columns that no table shows, or nothing."""
    lacking = [k for k in keys if k not in shown]
    if not lacking:
        return []
    return [f"no table shows {', '.join(lacking)}: attacked without, as SDNIST does"]
