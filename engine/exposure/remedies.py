"""The cheapest ways to bring a release under its bound: tables to drop, a higher threshold, columns to coarsen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from engine.exposure.reckoning import Figures, all_worst
from engine.exposure.statement import Pairs
from engine.exposure.tally import Tally
from engine.relations import Relations
from engine.schema import ColumnSet

THRESHOLDS = (6, 8, 10, 12, 15, 20, 25, 30, 40, 50)
"""Mean thresholds that are tried, in entities."""
MOST_DROPPED = 1000
"""Tables that are dropped at most before giving up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Remedies:
    """Ways to bring a release under its bound."""

    # Tables without which it holds; None: it does not hold without any.
    drop: tuple[ColumnSet, ...] | None
    # The smallest mean threshold with which it holds; None: none of those tried.
    threshold: int | None
    # Columns that split the exposed groups most: coarser values of them help.
    columns: tuple[str, ...]

    def sentences(self, *, is_pinned: bool = False) -> list[str]:
        """The ways in words, cheapest first.

        is_pinned: Thresholds and encodings are those of an earlier build: only fewer tables help.
        """
        lines = []
        if self.drop:
            shown = "; ".join(", ".join(columns) for columns in self.drop[:5])
            more = f"; and {len(self.drop) - 5} more" if len(self.drop) > 5 else ""
            tables = "table" if len(self.drop) == 1 else "tables"
            lines.append(f"leave out {len(self.drop)} {tables}: {shown}{more}")
        if is_pinned:
            return lines
        if self.threshold is not None:
            lines.append(
                f"cap small cells: threshold_mean = {self.threshold} in [privacy] (fewer small groups are shown)"
            )
        if self.columns:
            lines.append(f"give coarser values, or fewer tables, of {', '.join(self.columns)}")
        return lines


def remedies(
    tally: Tally,
    bound: float,
    before: Pairs,
    published: Collection[ColumnSet],
    relations: Relations,
) -> Remedies:
    """Find the cheapest ways.

    published: Tables that may be left out; what only they need goes with them.
    """
    return Remedies(
        drop=_to_drop(tally, bound, before, published, relations),
        threshold=next(
            (t for t in THRESHOLDS if t > tally.floor and _holds(tally.raised(t), bound, before)),
            None,
        ),
        columns=_splitting(Figures(tally), bound, before),
    )


def _to_drop(
    tally: Tally,
    bound: float,
    before: Pairs,
    published: Collection[ColumnSet],
    relations: Relations,
) -> tuple[ColumnSet, ...] | None:
    """Greedily: of what is worst, the table that tells most, and so all published ones that are locked to it."""
    figures = Figures(tally)
    kept = {columns: frozenset(relations.needed([columns])) for columns in published}
    counted = {m.columns for m in tally.tables if len(m.columns) > 1}
    dropped: list[ColumnSet] = []
    worst = {group: figures.worst(group) for group in figures.groups}
    while len(dropped) < MOST_DROPPED:
        over = [
            (one.exposure + before.get((group, one.told), 0.0), one)
            for group, found in worst.items()
            for one in found
        ]
        most, one = max(over, key=lambda item: item[0], default=(0.0, None))
        if one is None or most <= bound:
            return tuple(dropped)
        table = figures.largest(one.group, one.node, one.told)
        going = sorted((t for t, needs in kept.items() if table in needs), key=len, reverse=True)
        if not going:
            return None
        for columns in going:
            del kept[columns]
        dropped += going
        gone = counted - frozenset().union(*kept.values())
        counted -= gone
        for columns in gone:
            figures.leave_out(columns)
        for group in worst:
            if any(set(group) < set(columns) for columns in gone):
                worst[group] = figures.worst(group)
    return None


def _holds(tally: Tally, bound: float, before: Pairs) -> bool:
    """Whether no group is over the bound."""
    return all(
        one.exposure + before.get((one.group, one.told), 0.0) <= bound
        for one in all_worst(Figures(tally))
    )


def _splitting(figures: Figures, bound: float, before: Pairs) -> tuple[str, ...]:
    """The two columns that split what is over the bound most often."""
    often: Counter[str] = Counter()
    for one in all_worst(figures):
        if one.exposure + before.get((one.group, one.told), 0.0) > bound:
            table = figures.largest(one.group, one.node, one.told)
            often.update(name for name in table if name not in one.group)
    return tuple(name for name, _ in often.most_common(2))
