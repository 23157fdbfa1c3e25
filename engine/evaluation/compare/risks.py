"""Figures that every release of a comparison is weighed by: what an analyst loses, what attackers get; and their words.

`engine.evaluation.compare.weighing` computes them. Invariant: of every figure lower is better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.evaluation.findings import Figure

LOSS = Figure(
    name="misplaced",
    title="rows misplaced",
    words=(
        "Mean over the tables of the spec of the share of rows that would have to move for the released table to be "
        "the true one; a table that is not released is put together from the widest released ones as if their columns "
        "were independent. Lower is better."
    ),
    better="lower",
    high=1.0,
    perfect=0.0,
)
RISKS = (
    Figure(
        name="attribute",
        title="attribute gain",
        words=(
            "Share of columns guessed right of people of the data, less that of the control; the attacker knows all "
            "other columns. Lower is better."
        ),
        better="lower",
        low=-1.0,
        high=1.0,
        perfect=0.0,
    ),
    Figure(
        name="attribute_unusual",
        title="attribute gain, unusual",
        words="The attribute gain of the twentieth of people whose values are the rarest. Lower is better.",
        better="lower",
        low=-1.0,
        high=1.0,
        perfect=0.0,
    ),
    Figure(
        name="reconstruction",
        title="small group gain",
        words=(
            "Share of one column of small groups that is solved right from all tables, less that without the tables "
            "that split the group. Lower is better."
        ),
        better="lower",
        low=-1.0,
        high=1.0,
        perfect=0.0,
    ),
    Figure(
        name="membership",
        title="membership AUC",
        words=(
            "How often a person of the data is ranked above a stranger by who knows the population only (area under "
            "the curve): 0.5 is a coin. It needs control rows. Lower is better."
        ),
        better="lower",
        high=1.0,
        perfect=0.5,
    ),
)
"""What attackers get, first the ones that are looked at first."""


def beside(figures: Sequence[Figure], apart: Callable[[Figure], float | None]) -> str:
    """Return what one release costs and gains beside another, in words.

    apart: How much a figure of the one lies above that of the other; None: one of them lacks it.
    """
    lost = apart(LOSS)
    cost = "" if lost is None else f"{LOSS.title} {lost:+.3f}; "
    gained = [(f, round(by, 3)) for f in figures if f != LOSS and (by := apart(f)) is not None]
    less = [f"{f.title} {by:+.3f}" for f, by in gained if by < 0]
    more = [f"{f.title} {by:+.3f}" for f, by in gained if by > 0]
    parts = [f"lower: {', '.join(less)}"] if less else []
    parts += [f"higher: {', '.join(more)}"] if more else []
    return cost + ("; ".join(parts) or "no risk changed")
