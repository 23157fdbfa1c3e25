"""What one table says of one target to those who know some columns: CAP, DCAP, claims and DiSCO, counted.

Takes a `Paired`, a table of it, known columns and a target; gives an `Attribution`. Sources: as of
`engine.evaluation.risk.attribution`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.evaluation.data.paired import Coded, Codes, Numbers, Paired, n_codes
from engine.evaluation.risk.matching import Groups, KeySet, totals

Flags = NDArray[np.bool_]
THRESH_1WAY = (50, 0.90)
"""synthpop: a target's value is checked if more people than this are disclosed and it makes up more than this share."""
THRESH_2WAY = (4, 0.80)
"""synthpop: a disclosed cell of more people is checked where one key's value alone gives the target with this share."""
DENOM_LIM = 5
"""synthpop: cells of more disclosed people are rather what everybody knows of such people."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Attribution:
    """One target, attacked through one set of known columns."""

    is_main: bool  # Through the quasi-identifiers, or what a table has of them
    keys: str
    target: str
    table: str
    n: int  # People
    matched: float  # Share of people whose known columns the table shows
    baseline: float  # CAP of a guess by the target's own distribution
    cap_original: float  # CAP of the original itself
    cap: float  # Mean over the people matched; 0 where none is
    dcap: float  # Mean over all people; unmatched ones count 0
    disclosed: int  # People whose group of released records has one value only
    right: int  # Those for whom it is the right one
    # disco, dorig: `right` by people; the same of the original itself.
    disco: float
    dorig: float
    disco_small: float  # DiSCO without cells of more than 5 people
    largest_cell: int  # People in the largest cell that is disclosed rightly
    one_way: bool  # One value makes up nearly all that is disclosed
    two_way: int  # Pairs of a target's and a key's value that nearly go together anyway


def attributed(
    paired: Paired, table: Coded, keys: KeySet, name: str, group: Groups, is_main: bool
) -> Attribution:
    """Measure one target in one table.

    is_main: The known columns are the quasi-identifiers, or what a table has of them.
    """
    people = paired.original
    n_values = n_codes(paired, name)
    cell = _cells(group, people.codes[name], table.codes[name], n_values)
    in_group = totals(group.left, people.n, group.size)[group.left]
    in_cell = totals(cell.left, people.n, cell.size)[cell.left]
    shown = totals(group.right, table.n, group.size)[group.left]
    agreeing = totals(cell.right, table.n, cell.size)[cell.left]
    n, weight = people.total, people.n.astype(np.float64)
    share = np.divide(agreeing, shown, out=np.zeros(len(shown)), where=shown > 0)
    alone = _of_one_value(group.right, cell.right, table.n, group.size)[group.left]
    right = alone & (agreeing > 0)
    matched = float(weight[shown > 0].sum())
    sizes = np.where(right, in_cell, 0)
    checks = _checks(people, keys, people.codes[name], right, sizes)
    return Attribution(
        is_main=is_main,
        keys=", ".join(keys),
        target=name,
        table=", ".join(table.columns),
        n=n,
        matched=matched / n,
        baseline=float(((np.bincount(people.codes[name], weight) / n) ** 2).sum()),
        cap_original=float((weight * in_cell / in_group).sum()) / n,
        cap=float((weight * share).sum()) / max(matched, 1.0),
        dcap=float((weight * share).sum()) / n,
        disclosed=int(weight[alone].sum()),
        right=int(weight[right].sum()),
        disco=float(weight[right].sum()) / n,
        dorig=float(weight[in_cell == in_group].sum()) / n,
        disco_small=float(weight[right & (sizes <= DENOM_LIM)].sum()) / n,
        largest_cell=int(sizes.max(initial=0)),
        one_way=checks[0],
        two_way=checks[1],
    )


def _cells(group: Groups, left: Codes, right: Codes, n: int) -> Groups:
    """Groups of rows that agree in the keys and in the target."""
    key = np.concatenate([group.left * n + left, group.right * n + right])
    number, distinct = pd.factorize(key)
    whole = np.asarray(number, np.int64)
    cut = len(group.left)
    return Groups(left=whole[:cut], right=whole[cut:], size=len(distinct))


def _of_one_value(group: Numbers, cell: Numbers, n: Numbers, size: int) -> Flags:
    """Which groups have rows, all with one value of the target: shape (size,)."""
    there = n > 0
    first = np.full(size, -1, np.int64)
    first[group[there]] = cell[there]
    alone = first >= 0
    alone[group[there & (first[group] != cell)]] = False
    return alone


def _checks(
    people: Coded, keys: KeySet, target: Codes, right: Flags, sizes: Numbers
) -> tuple[bool, int]:
    """Checks, by synthpop, of what is disclosed rightly: one value of the target; pairs with one value of a key."""
    weight = people.n.astype(np.float64)
    by_value = np.bincount(target[right], weight[right])
    top = float(by_value.max(initial=0))
    one_way = bool(top > THRESH_1WAY[0] and top > THRESH_1WAY[1] * by_value.sum())
    large = right & (sizes > THRESH_2WAY[0])
    if not large.any():
        return one_way, 0
    n, pairs = int(target.max()) + 1, 0
    for name in keys:
        code = people.codes[name].astype(np.int64)
        together = np.unique(code[large] * n + target[large])
        of_pair = np.bincount(code * n + target, weight)
        of_key = np.bincount(code, weight)
        pairs += int((of_pair[together] > THRESH_2WAY[1] * of_key[together // n]).sum())
    return one_way, pairs
