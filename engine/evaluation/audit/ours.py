"""Our own generators, as fast trials: mode sticky, mode dp, and plain iterative proportional fitting.

A release holds tables; what it says about all columns together is the table that has them all, or else what iterative
proportional fitting makes of its tables, which any reader could do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from engine.errors import SpecError
from engine.evaluation.audit.domain import Cells, Domain
from engine.evaluation.audit.safe import Axes, margin_of
from engine.keys import MasterKey
from engine.params import DPParams, PrivacyParams
from engine.release.trials import TrialRows, TrialTable, joint_trial, sticky_trial
from engine.schema import ColumnSet, FloatArray, column_set

MOST_CELLS = 2_000_000
"""Tables are put together over a domain of at most so many combinations."""
CYCLES, ENOUGH = 60, 1e-9
SURE_ABOVE = 9
"""Counts so far above the mean threshold pass it whatever is drawn."""


class StickyGenerator:
    """A release of mode sticky, each with a fresh key.

    tables: Tables of the release. What counts as safe is not its business.
    """

    def __init__(self, domain: Domain, tables: Sequence[ColumnSet], privacy: PrivacyParams) -> None:
        self._domain = domain
        self._tables = tuple(column_set(table) for table in tables)
        self._privacy = replace(privacy, max_rows=None, swap=None)

    @property
    def words(self) -> str:
        """What it is."""
        return (
            f"mode sticky ({self._privacy.profile}), {_listed(self._tables)}; a fresh key for each"
        )

    @property
    def least(self) -> int:
        """Smallest count that no threshold touches."""
        return self._privacy.threshold_mean + SURE_ABOVE

    def draw(self, data: Cells, rng: np.random.Generator) -> Cells:
        """Release the rows; the key is drawn from the generator, so that an audit can be repeated."""
        found = sticky_trial(
            _rows(self._domain, data), self._tables, self._privacy, MasterKey(rng.bytes(32))
        )
        return together(self._domain, found)


class JointGenerator:
    """A release of mode dp; its noise is fresh, and outside any ledger."""

    def __init__(self, domain: Domain, params: DPParams) -> None:
        self._domain = domain
        self._params = replace(params, columns=domain.names)

    @property
    def words(self) -> str:
        """What it is."""
        spent = (
            "exact counts" if self._params.epsilon is None else f"epsilon {self._params.epsilon:g}"
        )
        return f"mode dp ({spent}), {_listed(self._params.margins)}"

    def draw(self, data: Cells, rng: np.random.Generator) -> Cells:
        """Measure, fit and draw rows."""
        # The key draws rows of what was measured; the noise is OpenDP's, and fresh.
        table = joint_trial(_rows(self._domain, data), self._params, MasterKey(rng.bytes(32)))
        return Cells(codes=table.codes, n=table.n)


class RakedGenerator:
    """Plain iterative proportional fitting: exact margins, the table of maximal entropy, rows drawn from it."""

    def __init__(self, domain: Domain, margins: Sequence[ColumnSet]) -> None:
        self._domain = domain
        self._margins = tuple(column_set(margin) for margin in margins)

    @property
    def words(self) -> str:
        """What it is."""
        return f"iterative proportional fitting, {_listed(self._margins)}"

    def draw(self, data: Cells, rng: np.random.Generator) -> Cells:
        """Fit, and draw as many rows as the data has."""
        sizes = self._domain.sizes
        wanted = {
            axes: margin_of(data, axes, sizes).astype(np.float64)
            for axes in (_axes(self._domain, margin) for margin in self._margins)
        }
        table = raked(wanted, sizes)
        n = rng.multinomial(int(data.n.sum()), table.ravel() / table.sum())
        held = np.flatnonzero(n)
        return Cells(codes=np.column_stack(np.unravel_index(held, sizes)), n=n[held])


def together(domain: Domain, tables: Mapping[ColumnSet, TrialTable]) -> Cells:
    """Return what tables say about all columns together."""
    whole = tables.get(domain.names)
    if whole is not None:
        return Cells(codes=whole.codes, n=whole.n)
    if domain.n_cells > MOST_CELLS:
        raise SpecError(
            f"audit: tables are put together over at most {MOST_CELLS:,} combinations, and these columns have "
            f"{domain.n_cells:,}: audit fewer columns (--columns), or a release with a wide table"
        )
    wanted = {}
    for columns, table in tables.items():
        axes = _axes(domain, columns)
        shape = tuple(domain.sizes[axis] for axis in axes)
        n = np.zeros(shape)
        n[tuple(table.codes.T)] = table.n
        wanted[axes] = n
    fitted = raked(wanted, domain.sizes)
    held = np.flatnonzero(fitted.ravel())
    return Cells(
        codes=np.column_stack(np.unravel_index(held, domain.sizes)), n=fitted.ravel()[held]
    )


def raked(wanted: Mapping[Axes, FloatArray], sizes: Sequence[int]) -> FloatArray:
    """Iterative proportional fitting of an even table to margins, which noise may keep from agreeing.

    Source: Deming and Stephan 1940, doi:10.1214/aoms/1177731829.
    """
    # Combinations that some margin rules out stay empty: only the others are looked at.
    open_ = np.ones(tuple(sizes), dtype=bool)
    for axes, n in wanted.items():
        open_ &= (n > 0).reshape([sizes[a] if a in axes else 1 for a in range(len(sizes))])
    at = np.flatnonzero(open_)
    codes = np.unravel_index(at, tuple(sizes))
    aims = [
        (np.ravel_multi_index([codes[axis] for axis in axes], n.shape), n.ravel().astype(float))
        for axes, n in wanted.items()
    ]
    shares = np.ones(len(at))
    for _ in range(CYCLES):
        worst = 0.0
        for place, aim in aims:
            held = np.bincount(place, shares, len(aim))
            shares *= np.divide(aim, held, out=np.zeros_like(held), where=held > 0)[place]
            worst = max(worst, float(np.abs(aim - held).max() / max(aim.sum(), 1.0)))
        if worst < ENOUGH:
            break
    table = np.zeros(tuple(sizes))
    table.ravel()[at] = shares
    return table


def _rows(domain: Domain, data: Cells) -> TrialRows:
    """Rows for a trial: levels are called by their numbers, in their order."""
    return TrialRows(
        columns=domain.names,
        values=tuple(tuple(f"{level:04d}" for level in range(size)) for size in domain.sizes),
        codes=data.rows(),
    )


def _axes(domain: Domain, columns: ColumnSet) -> Axes:
    """Places of columns in a domain."""
    return tuple(domain.names.index(name) for name in columns)


def _listed(tables: Sequence[ColumnSet]) -> str:
    """Tables for people."""
    told = ["(" + ", ".join(table) + ")" for table in tables[:6]]
    return ", ".join(told) + (f" and {len(tables) - 6} more" if len(tables) > 6 else "")
