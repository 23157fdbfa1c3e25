"""Sights: released tables as an attacker reads them, cell by cell, beside what is true.

Takes a `Paired` and the cards of its tables; gives `Sight`s, and for each the shown and true count of every cell and
the cell that each person is in. Several releases of the same people can be looked at together: a column set then has
one sight a release. CONFIDENTIAL: true counts are inside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.evaluation.data.paired import Coded, Numbers, Paired, Reading, n_codes, pair_alike
from engine.evaluation.data.reading import Subject
from engine.evaluation.data.sampling import positions, rows_of
from engine.evaluation.risk.records import row_ids
from engine.schema import ColumnSet

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
UNRELEASED = 4.0
"""Variance taken for the count of a cell that was not released: it holds 0 to about 5 people."""
MOST_VALUES = 100
"""Values of a column that attackers want, at most."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Sight:
    """One released table."""

    columns: ColumnSet
    table: Coded  # `measured`: rows that are released cells; None: all are (tables of other tools)
    # Standard deviation of the noise of a released cell as the release states it, in rows; NaN: it states
    # none.
    noise_sd: float
    is_suppressed: bool = False  # The release says that it shows no group of fewer than three
    # Code of what stands for the rare values of a column: no value of the data.
    others: Mapping[str, int] = field(default_factory=dict)

    def variance(self, n: Floats) -> Floats:
        """Return the variance of the error of released cells of so many people.

        Where the release states none, that of drawn rows is taken: the count itself.
        """
        if np.isnan(self.noise_sd):
            return np.asarray(np.maximum(n, 1.0), np.float64)
        return np.full(np.shape(n), max(self.noise_sd, 1e-3) ** 2)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Attacked:
    """What is attacked."""

    # Data and control as codes; its tables are those of the first release, one a column set.
    paired: Paired
    sights: tuple[Sight, ...]  # All tables of all releases that are attacked together


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Cells:
    """Cells of a sight that it shows, or that people are in."""

    # shown, truth: shape (n_cells,): Published and true number of rows; 0 where there are none.
    shown: Floats
    truth: Floats
    is_released: Bools  # shape (n_cells,)
    variance: Floats  # shape (n_cells,): Of the error of a released cell
    of: tuple[Numbers, ...]  # For each group of people the cell that each is in


def sights_of(
    paired: Paired,
    cards: Mapping[ColumnSet, Mapping[str, object]],
    placeholders: Mapping[str, str] | None = None,
) -> tuple[Sight, ...]:
    """Return the tables of a release as sights, with the noise that their cards state."""
    others = {
        c: int(at[0])
        for c, other in (placeholders or {}).items()
        if c in paired.values and len(at := np.flatnonzero(paired.values[c] == other))
    }
    return tuple(
        replace(
            _sight(columns, table, cards.get(columns)),
            others={c: others[c] for c in columns if c in others},
        )
        for columns, table in paired.tables.items()
        if columns
    )


def held(
    group: Sequence[Subject],
    original: pd.DataFrame,
    reading: Reading,
    *,
    control: pd.DataFrame | None = None,
) -> Attacked:
    """Return what an attacker holds who has some subjects: a column set of several is looked at several times."""
    sides = pair_alike(original, [one.tables for one in group], reading, control=control)
    tables = {c: t for side in reversed(sides) for c, t in side.tables.items()}
    order = sorted(tables, key=lambda columns: (len(columns), columns))
    sights: list[Sight] = []
    for side, one in zip(sides, group, strict=True):
        own = sights_of(side, one.cards, one.placeholders)
        sights += [sight for sight in own if not _is_known(sight, sights)]
    paired = replace(sides[0], tables={columns: tables[columns] for columns in order})
    return Attacked(paired=paired, sights=tuple(sights))


def _is_known(sight: Sight, sights: Sequence[Sight]) -> bool:
    """Whether a sight says what another one says already: asked again, sticky noise is the same."""
    return any(
        other.columns == sight.columns
        and np.array_equal(other.table.n, sight.table.n)
        and all(np.array_equal(other.table.codes[c], sight.table.codes[c]) for c in sight.columns)
        for other in sights
    )


def _sight(columns: ColumnSet, table: Coded, card: Mapping[str, object] | None) -> Sight:
    """One table; its card states the noise, but for a modelled one."""
    if card is None or card.get("wide"):
        return Sight(columns=columns, table=table, noise_sd=float("nan"))
    return Sight(
        columns=columns,
        table=table,
        noise_sd=float(str(card["noise_sd"])),
        is_suppressed=card.get("mode") == "sticky",
    )


def cells(paired: Paired, sight: Sight, *people: Coded) -> Cells:
    """Count a sight, and place people in its cells."""
    table = sight.table
    ids = row_ids(paired, [table, paired.original, *people], sight.columns)
    size = max(int(one.max(initial=-1)) for one in ids) + 1
    shown = summed(ids[0], table.n, size)
    truth = summed(ids[1], paired.original.n, size)
    is_released = np.ones(size, np.bool_)
    if table.measured is not None:
        is_released[:] = False
        is_released[ids[0][table.measured]] = True
    return Cells(
        shown=shown,
        truth=truth,
        is_released=is_released,
        variance=_variance(sight, shown, truth, is_released),
        of=tuple(ids[2:]),
    )


def _variance(sight: Sight, shown: Floats, truth: Floats, is_released: Bools) -> Floats:
    """Variance of errors: as stated, or larger where who knows all counts sees that they are further off."""
    stated = sight.variance(truth)
    off = (np.square(shown - truth) / stated)[is_released]
    seen = float(off.mean()) if len(off) else 1.0
    if np.isnan(sight.noise_sd):
        return stated * max(seen, 1e-6)
    return stated * max(seen, 1.0)


def summed(ids: NDArray[np.integer], n: NDArray[np.generic], size: int) -> Floats:
    """Return sums of n by id, shape (size,)."""
    return np.asarray(np.bincount(ids, n.astype(np.float64), minlength=size), np.float64)


def drawn(people: Coded, most: int, rng: np.random.Generator) -> Coded:
    """Return at most so many of some people, drawn without replacement."""
    return rows_of(people, positions(len(people.n), most, rng))


def shares(paired: Paired, sights: Sequence[Sight]) -> dict[str, Floats]:
    """Return the published share of each code of each column, from the narrowest sight that has it; none is zero."""
    out: dict[str, Floats] = {}
    for sight in sorted(sights, key=lambda one: len(one.columns)):
        for name in sight.columns:
            if name not in out and sight.table.total:
                n = np.bincount(
                    sight.table.codes[name], sight.table.n, minlength=n_codes(paired, name)
                )
                out[name] = (n + 0.5) / (n + 0.5).sum()
    return out


def secrets_of(paired: Paired, wanted: Sequence[str]) -> list[str]:
    """Return the columns that attackers want: those wanted, else all of 2 to `MOST_VALUES` values, as the data show."""
    names = [c for c in wanted if c in paired.values] if wanted else list(paired.values)
    kinds = {c: len(np.unique(paired.original.codes[c])) for c in names}
    return [c for c in names if 2 <= kinds[c] <= (MOST_VALUES if not wanted else kinds[c])]


def unusual(people: Coded, share: Mapping[str, Floats], part: float) -> Bools:
    """Return who is unusual: the given part of people, whose values are the rarest by the published one-way shares."""
    rarity = np.zeros(len(people.n))
    for name, known in share.items():
        if name in people.codes:
            rarity -= np.log(known[people.codes[name]])
    chosen = np.zeros(len(rarity), np.bool_)
    chosen[np.argsort(-rarity, kind="stable")[: max(round(part * len(rarity)), 1)]] = True
    return chosen
