"""Whom an attack is about: people of the data, and strangers whom the tables were not made from.

Takes a `Comparison`; gives one about strangers, on which the same attack is run for its control. What it gains there,
it gains from any table of that population, whether one is in it or not (Francis and Wagner, arXiv:2403.06595).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from engine.utility.comparison import Coded, Comparison
from engine.utility.sampling import halves, published_as_is

DECLARED = "the control rows that were given, which the release is not made from"
HALVES = (
    "one half of the original, attacked with tables made from the other half without any protection, as no control "
    "rows were given"
)


def strangers(comparison: Comparison, rng: np.random.Generator) -> tuple[Comparison, str]:
    """Return a comparison whose original are people that its tables were not made from, and who they are, in words.

    Parameters
    ----------
    comparison : Comparison
        With `control`: its people against the release. Without: one half of the original against the other half.
    rng : numpy Generator
        Splits the original.
    """
    if comparison.control is not None:
        return replace(comparison, original=comparison.control, control=None), DECLARED
    taken, others = halves(comparison, rng)
    tables = published_as_is(comparison, taken)
    return replace(comparison, original=others, tables=tables), HALVES


def widest(comparison: Comparison, wanted: Collection[str] = ()) -> Coded | None:
    """Return the table with most of the wanted columns, then most columns (all count where none is named)."""
    chosen = set(wanted)
    return max(
        comparison.tables.values(),
        key=lambda t: (len(chosen & set(t.columns)), len(t.columns), len(t.n)),
        default=None,
    )
