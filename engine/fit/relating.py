"""Which columns determine each other, read off released buckets.

Takes the measurements of two columns and of both together; gives what the one's released values say of the other, or
why it cannot be used. Sees measurements only: a relation is public.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from engine.cell_keys import run_starts
from engine.ranges import stored_codes
from engine.relations import Relation, Relations
from engine.schema import OTHER_CODE, BoolArray, Int64Array, Measurement, is_leaf

ENOUGH = 0.95
"""Share of the rows in released values that are implied: with fewer a relation is not used."""
TOLERATED, SURE = 30, 8.0
"""A relation is contradicted by more than so many people, and so many standard deviations of their noise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unused:
    """Why a relation is not used."""

    finer: str
    coarser: str
    why: str  # The rest of a sentence
    is_contradicted: bool = False  # The released counts say that there is none


def relation_of(
    both: Measurement, finer: Measurement, coarser: Measurement, total: int, noise_sd: float
) -> Relation | Unused:
    """Read off what each released value of one column says of another."""
    names = finer.columns[0], coarser.columns[0]
    place = [both.columns.index(name) for name in names]
    single = _singles(both)
    of, to = (_codes(both, j)[single] for j in place)
    n = both.n[single]
    order = np.lexsort((to, -n, of))
    of, to, n = of[order], to[order], n[order]
    first = run_starts(of)
    implied, answer, sure = of[first], to[first], n[first]
    off = n.sum() - sure.sum()
    values = _codes(coarser, 0)[_singles(coarser)]
    unused = partial(Unused, finer=names[0], coarser=names[1])
    scale = int(both.scale[-1])
    if off > max(TOLERATED * scale, SURE * noise_sd * max(len(n) - len(first), 1) ** 0.5):
        why = f"about {int(off):,} rows contradict it"
        is_folded = bool(np.isin(OTHER_CODE, implied))
        if is_folded:
            why = "it has values too rare to be shown, which stand for several"
        return unused(why=why, is_contradicted=not is_folded)
    if sure.sum() < ENOUGH * total:
        return unused(why="too many of its values are only released as ranges, or not at all")
    if len(values) < 2 or not np.isin(values, answer).all():
        return unused(
            why=f"some values of {names[1]} follow from no released value of the other column"
        )
    return Relation(
        finer=names[0],
        coarser=names[1],
        of=implied,
        to=answer,
        is_copy=len(np.unique(answer)) == len(answer),
    )


def _singles(tree: Measurement) -> BoolArray:
    """Released buckets of single values."""
    singles: BoolArray = (tree.level == 0).all(axis=1) & is_leaf(tree)
    return singles


def _codes(tree: Measurement, j: int) -> Int64Array:
    """Smallest code of each bucket in one column."""
    return stored_codes(tree.kind[:, j], tree.level[:, j], tree.index[:, j])


def related(found: Iterable[Relation], precedence: Sequence[str]) -> Relations:
    """Put relations together: which column stands for its copies, and what follows from what.

    precedence: All columns; of columns that are copies of each other the first stands for all.

    Relations have no cycles but for copies: each released value of the coarser column is implied by some
    of the finer, so that one that is no copy has fewer values.
    """
    found = list(found)
    stands = _stands_for(found, precedence)
    known: dict[tuple[str, str], Relation] = {}
    for one in found:
        if not one.is_copy and (one.coarser, one.finer) in known:
            continue  # never a cycle, though thresholds may have made it seem one
        for relation in (one, inverse(one)) if one.is_copy else (one,):
            known.setdefault((relation.finer, relation.coarser), replace(relation, is_copy=False))
    _close(known, stands)
    out = []
    for (finer, coarser), one in sorted(known.items()):
        if stands[finer] == finer and stands[coarser] == finer:
            out.append(replace(one, is_copy=True))
        elif stands[finer] == finer and stands[coarser] != finer:
            out.append(one)
    return Relations(relations=tuple(out))


def inverse(copy: Relation) -> Relation:
    """The same relation from the other side."""
    order = np.argsort(copy.to)
    return replace(
        copy, finer=copy.coarser, coarser=copy.finer, of=copy.to[order], to=copy.of[order]
    )


def composed(first: Relation, second: Relation) -> Relation:
    """What the first relation's finer column says of the second's coarser one."""
    at = np.minimum(np.searchsorted(second.of, first.to), len(second.of) - 1)
    hit = second.of[at] == first.to
    return Relation(
        finer=first.finer, coarser=second.coarser, of=first.of[hit], to=second.to[at[hit]]
    )


def _stands_for(found: Sequence[Relation], precedence: Sequence[str]) -> dict[str, str]:
    """The column that stands for each."""
    rank = {name: place for place, name in enumerate(precedence)}
    stands = {name: name for name in precedence}
    for one in found:
        if one.is_copy:
            pair = stands[one.finer], stands[one.coarser]
            first = min(pair, key=rank.__getitem__)
            stands = {name: first if of in pair else of for name, of in stands.items()}
    return stands


def _close(known: dict[tuple[str, str], Relation], stands: dict[str, str]) -> None:
    """Add what follows: if A determines B and B determines C, A determines C."""
    names = sorted({name for pair in known for name in pair})
    for middle in names:
        for first in names:
            for last in names:
                is_open = first != last and (first, last) not in known
                are_copies = stands[first] == stands[last]
                if (
                    is_open
                    and (are_copies or (last, first) not in known)
                    and (first, middle) in known
                    and (middle, last) in known
                ):
                    one = composed(known[first, middle], known[middle, last])
                    if len(one.of):
                        known[first, last] = one
