"""Whom an attack is about: people of the data, and strangers whom the tables were not made from.

Takes a `Paired`; gives one about strangers, on which the same attack is run for its control, and one about people
of the data that is like it in size. What an attack gains on strangers, it gains from any table of that population,
whether one is in it or not (Francis and Wagner, arXiv:2403.06595).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from engine.evaluation.data.paired import Coded, Paired
from engine.evaluation.data.sampling import halves, positions, published_as_is, rows_of
from engine.evaluation.score import HitRate

DECLARED = "the control rows that were given, which the release is not made from"
HALVES = (
    "one half of the original, attacked with tables made from the other half without any protection, as no control "
    "rows were given"
)
NO_STRANGER = "no control: a stranger has no row of their own in the synthetic table; the excess is above a blind draw"
"""The note where row i was made from person i."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Alike:
    """An attack, to be run twice under like conditions: as many people, tables of as many records."""

    members: Paired  # Some people of the data against the tables, or part of their records
    strangers: Paired  # People outside against tables that were not made from them
    who: str  # Who the strangers are, in words


def alike(paired: Paired, rng: np.random.Generator) -> Alike:
    """Return people of the data, and strangers, to run the same attack on.

    How many people are unique, or met by chance, depends on how many there are, and on the size of the table: rates of
    groups of other sizes cannot be subtracted.

    paired: With `control`: as many of its people as of the original, against the release. Without: one half
        of the original against that share of the release's records which makes as many; strangers are the
        other half, against tables of the first half as they are.
    """
    if paired.control is not None:
        groups = paired.original, paired.control
        n = min(len(group.n) for group in groups)
        drawn = [rows_of(group, positions(len(group.n), n, rng)) for group in groups]
        members, strangers = (replace(paired, original=d, control=None) for d in drawn)
        return Alike(members=members, strangers=strangers, who=DECLARED)
    taken, others = halves(paired, rng)
    exact = published_as_is(paired, taken)
    size = len(taken.n)
    released = {c: _thinned(t, size / max(t.total, 1), rng) for c, t in paired.tables.items()}
    plain = {c: _thinned(t, paired.tables[c].total / max(size, 1), rng) for c, t in exact.items()}
    return Alike(
        members=replace(paired, original=taken, tables=released),
        strangers=replace(paired, original=others, tables=plain),
        who=HALVES,
    )


def _thinned(table: Coded, share: float, rng: np.random.Generator) -> Coded:
    """Some of a table's records, each kept with a chance; all, where that is 1 or more."""
    if share >= 1:
        return table
    n = rng.binomial(table.n, share)
    drawn = rows_of(table, np.flatnonzero(n > 0))
    return replace(drawn, n=n[n > 0])


def excess(members: HitRate, strangers: HitRate) -> float:
    """How much oftener an attack is right about people of the data; 0 where chance may explain that it is.

    Chance may explain it where the 95 % intervals overlap.
    """
    apart = members.value - strangers.value
    return 0.0 if apart > 0 and members.low <= strangers.high else apart


def against(members: HitRate, strangers: HitRate) -> str:
    """Tell what `excess` was taken from."""
    return (
        f"above strangers: {members.value:.2%} of {members.n} less {strangers.value:.2%} of {strangers.n}, as many "
        "people and records on both sides; an excess that chance may explain counts as none"
    )


def widest(paired: Paired, wanted: Collection[str] = ()) -> Coded | None:
    """Return the table with most of the wanted columns, then most columns (all count where none is named)."""
    chosen = set(wanted)
    return max(
        paired.tables.values(),
        key=lambda t: (len(chosen & set(t.columns)), len(t.columns), len(t.n)),
        default=None,
    )
