"""Which rows of two tables agree: groups of equal keys, and the keys that the released tables let an attacker use.

Takes a `Paired`; gives group numbers for the rows of both sides. Invariant: rows of either side have the same
number if and only if they agree in all columns; a blank agrees with a blank.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from engine.evaluation.data.paired import Coded, Numbers, Paired, covering
from engine.evaluation.risk.attacker import Attacker
from engine.evaluation.risk.records import row_ids

KeySet = tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Groups:
    """Groups of equal keys among the rows of two tables."""

    # left, right: Group of each row, 0 to `size` - 1.
    left: Numbers
    right: Numbers
    size: int


def groups(paired: Paired, left: Coded, right: Coded, columns: Collection[str]) -> Groups:
    """Group the rows of two tables by their values in some columns, however many combinations there are."""
    ids = row_ids(paired, [left, right], columns)
    return Groups(left=ids[0], right=ids[1], size=int(max(i.max(initial=-1) for i in ids)) + 1)


def totals(group: Numbers, n: Numbers, size: int) -> Numbers:
    """Return the number of rows of each group, shape (size,); repeated rows count as often as they are there."""
    # Sums of whole numbers far below 2 ** 53 are exact as floats.
    return np.bincount(group, n.astype(np.float64), minlength=size).astype(np.int64)


def shown_of(paired: Paired, columns: Collection[str]) -> KeySet:
    """Return those of some columns that a table shows and that the people attacked have, in their order."""
    own = paired.original.codes
    return tuple(c for c in dict.fromkeys(columns) if c in paired.values and c in own)


def targets_of(paired: Paired, attacker: Attacker, keys: Collection[str]) -> KeySet:
    """Return the columns that the attacker wants to know: those declared, or all, without the known ones."""
    wanted = attacker.targets or tuple(paired.values)
    return tuple(c for c in shown_of(paired, wanted) if c not in set(keys))


def usable(paired: Paired, keys: KeySet, target: str | None = None) -> list[KeySet]:
    """Return the known columns that an attacker can use together: all, or else the largest sets that a table has.

    target: A column that the table must have, too.
    """
    wanted = () if target is None else (target,)
    if keys and covering(paired, (*keys, *wanted)) is not None:
        return [keys]
    sets = {
        tuple(k for k in keys if k in columns)
        for columns in paired.tables
        if set(wanted) <= set(columns)
    }
    most = max(map(len, sets), default=0)
    return sorted(s for s in sets if len(s) == most) if most else []


def key_sets(attacker: Attacker) -> list[KeySet]:
    """Return the quasi-identifiers, and the further sets of known columns, each once."""
    every = [attacker.quasi_identifiers, *attacker.keys]
    return list(dict.fromkeys(tuple(dict.fromkeys(keys)) for keys in every))


def unseen(keys: Sequence[str], shown: Collection[str]) -> list[str]:
    """Return a note about known columns that no table shows, or nothing."""
    lacking = [k for k in keys if k not in shown]
    if not lacking:
        return []
    return [f"no table shows {', '.join(lacking)}: attacked without, as SDNIST does"]
