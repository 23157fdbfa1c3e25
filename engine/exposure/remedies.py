"""The cheapest ways to bring a release under its bound: tables to drop, more noise, columns to coarsen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from engine.exposure.estimator import ColumnExposure, Estimator
from engine.params import ratio_of
from engine.relations import Relations
from engine.schema import ColumnSet

NOISE_FACTORS = (2, 4, 8)
"""Factors of the noise that are tried."""
STEP = 0.5
"""Share of the excess over the bound that is dropped before exposure is computed anew: other people's secrets are then
less known as well, so that half of the excess can be enough."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Remedies:
    """Ways to bring a release under its bound."""

    # Tables without which it holds; None: it does not hold without any.
    drop: tuple[ColumnSet, ...] | None
    # The smallest factor of the noise with which it holds; None: none of those tried.
    noise_factor: int | None
    # Columns that tables to drop have most often: coarser values of them help.
    columns: tuple[str, ...]

    def sentences(self, layer_sd: int, *, is_pinned: bool = False) -> list[str]:
        """The ways in words, cheapest first.

        is_pinned: Noise and encodings are those of an earlier build: only fewer tables help.
        """
        lines = []
        if self.drop:
            shown = "; ".join(", ".join(columns) for columns in self.drop[:5])
            more = f"; and {len(self.drop) - 5} more" if len(self.drop) > 5 else ""
            tables = "table" if len(self.drop) == 1 else "tables"
            lines.append(f"leave out {len(self.drop)} {tables}: {shown}{more}")
        if is_pinned:
            return lines
        if self.noise_factor is not None:
            lines.append(
                f"add more noise: layer_sd = {self.noise_factor * layer_sd} in [privacy] ({self.noise_factor} times "
                "the noise)"
            )
        if self.columns:
            lines.append(f"give coarser values, or fewer tables, of {', '.join(self.columns)}")
        return lines


def remedies(
    estimator: Estimator,
    found: Collection[ColumnExposure],
    bound: float,
    times: Mapping[ColumnSet, int],
    before: Mapping[str, float],
    published: Collection[ColumnSet],
    relations: Relations,
) -> Remedies:
    """Find the cheapest ways.

    found: Exposures of all columns.
    bound: How often a secret may be guessed right.
    times: How often each table was measured, those of this build included.
    published: Tables of this build that may be left out; what only they need goes with them.
    """
    over = [one for one in found if one.most > bound]
    dropped = _to_drop(estimator, over, bound, times, before, published, relations)
    often = Counter(
        name
        for one in over
        for table, _ in sorted(one.by.items(), key=lambda item: -item[1])[:3]
        for name in table
        if name != one.column
    )
    noise_factor = next(
        (
            by
            for by in NOISE_FACTORS
            if all(
                estimator.exposure(
                    one.column, times, before.get(one.column, 0.0), by, most_right=bound
                ).most
                <= bound
                for one in over
            )
        ),
        None,
    )
    return Remedies(
        drop=dropped,
        noise_factor=noise_factor,
        columns=tuple(name for name, _ in often.most_common(2)),
    )


def _to_drop(
    estimator: Estimator,
    over: Collection[ColumnExposure],
    bound: float,
    times: Mapping[ColumnSet, int],
    before: Mapping[str, float],
    published: Collection[ColumnSet],
    relations: Relations,
) -> tuple[ColumnSet, ...] | None:
    """Greedily: of each column over the bound, the tables that reveal most, and all published ones locked to them."""
    needs = {columns: frozenset(relations.needed([columns])) for columns in published}
    kept, left = dict(needs), dict(times)
    for first in over:
        known = before.get(first.column, 0.0)
        one = estimator.exposure(first.column, left, known)
        while one.most > bound:
            to_go = STEP * (one.snr - ratio_of(bound))
            for table in sorted(one.by, key=lambda table: (-one.by[table], table)):
                going = [columns for columns, need in kept.items() if table in need]
                if not going:
                    continue
                for columns in going:
                    del kept[columns]
                gone = frozenset().union(*(needs[c] for c in going)) - frozenset().union(
                    *kept.values()
                )
                for columns in gone & left.keys():
                    left[columns] -= 1
                    to_go -= one.by.get(columns, 0.0)
                if to_go <= 0:
                    break
            left = {columns: n for columns, n in left.items() if n > 0}
            again = estimator.exposure(first.column, left, known)
            if again.snr >= one.snr:
                return None
            one = again
    return tuple(sorted(needs.keys() - kept.keys()))
