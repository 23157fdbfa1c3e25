"""Many syntheses of one coded table by the engine's own parts: true margins are counted once, the rest is real.

The rest: `engine.measure.dp.accounting.shares` (what each margin gets), `engine.measure.dp.noise.noised` (OpenDP,
fresh entropy), `engine.fit.joint.synthesis.synthesise` (targets, fit, sample). Left out are counting in DuckDB,
ledger, wall and file.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from dp_tables import Coded, mean_s_pmse, replicated_uniques
from numpy.typing import NDArray

from engine.fit.joint import synthesise
from engine.levels import Levels, Margin
from engine.measure.dp import levels_of, shares
from engine.measure.dp.noise import noised
from engine.params import DPParams
from engine.schema import Column, ColumnSet, column_set

MARGIN_WAY = 2


@dataclass(frozen=True, kw_only=True)
class Synthetic:
    """One synthesis.

    Attributes
    ----------
    cells : ndarray of int64, shape (n_cells, n_columns)
        Distinct rows in the columns of the coded table.
    n : ndarray of int64
    converged : bool
        Every fit came to rest.
    cycles : int
    seconds : float
    """

    cells: NDArray[np.int64]
    n: NDArray[np.int64]
    converged: bool
    cycles: int
    seconds: float


def levels_for(table: Coded) -> dict[str, Levels]:
    """Public levels of a coded table's columns."""
    return {
        name: levels_of(
            Column(
                name=name,
                kind="category",
                value_type="integer",
                domain=tuple(range(size)),
                public=True,
                nullable=False,
            )
        )
        for name, size in zip(table.columns, table.sizes, strict=True)
    }


def params_for(table: Coded, **parameters: object) -> DPParams:
    """Parameters over all columns of a table: all two-way margins, or all columns for catall, unless they are given."""
    way = len(table.columns) if parameters.get("method") == "catall" else MARGIN_WAY
    margins = tuple(column_set(m) for m in combinations(sorted(table.columns), way))
    by_cells = parameters.get("post", "wls") == "wls" and parameters.get("epsilon") is not None
    plain = {"columns": column_set(table.columns), "margins": margins}
    plain["allocation"] = (
        "cells" if by_cells else "equal"
    )  # as a spec has it by default, with Laplace noise
    return DPParams(**plain, **parameters)


class Loop:
    """A coded table whose true margins are counted once."""

    def __init__(self, table: Coded) -> None:
        self.table = table
        self.levels = levels_for(table)
        self._counted: dict[ColumnSet, NDArray[np.int64]] = {}

    def counted(self, columns: ColumnSet) -> NDArray[np.int64]:
        """True counts of one margin."""
        if columns not in self._counted:
            self._counted[columns] = np.asarray(self.table.margin(columns), np.int64)
        return self._counted[columns]

    def measured(self, params: DPParams) -> tuple[Margin, tuple[Margin, ...]]:
        """The total and the margins, with fresh noise."""
        noise = params.noise if params.is_protected else None
        sizes = dict(zip(self.table.columns, self.table.sizes, strict=True))
        found = []
        for share in shares(params, sizes):
            counts = np.asarray(
                self.counted(share.columns) if share.columns else len(self.table.codes), np.int64
            )
            found.append(
                Margin(
                    columns=share.columns,
                    n=noised(counts, noise, share.scale),
                    variance=share.variance,
                )
            )
        totals = [m for m in found if not m.columns]
        exact = Margin(columns=(), n=np.array(len(self.table.codes), np.int64), variance=0.0)
        return (totals or [exact])[0], tuple(m for m in found if m.columns)

    def synthesis(self, params: DPParams, rng: np.random.Generator) -> Synthetic:
        """Measure, fit and sample once."""
        total, margins = self.measured(params)
        start = time.perf_counter()
        made = synthesise(
            margins,
            total,
            params=params,
            levels=self.levels,
            zeros=(),
            rng=rng,
            progress=lambda *_: None,
        )
        order = [made.columns.index(c) for c in self.table.columns]
        return Synthetic(
            cells=np.asarray(made.cells, np.int64)[:, order],
            n=made.n,
            converged=all(r.at_rest for r in made.reports),
            cycles=max((r.cycles for r in made.reports), default=0),
            seconds=time.perf_counter() - start,
        )

    def scores(
        self, params: DPParams, repeats: int, seed: int, ways: Sequence[int] = (2, 3)
    ) -> Iterator[dict[str, float]]:
        """Figures of several syntheses: mean S_pMSE of each width, ru, rows, seconds, whether the fit converged."""
        for repeat in range(repeats):
            made = self.synthesis(params, np.random.default_rng([seed, repeat]))
            yield {
                **{f"s_pmse_{w}": mean_s_pmse(self.table, made.cells, made.n, w) for w in ways},
                "ru": replicated_uniques(self.table, made.cells, made.n),
                "rows": float(made.n.sum()),
                "converged": float(made.converged),
                "cycles": float(made.cycles),
                "seconds": made.seconds,
            }


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Mean and its standard error."""
    found = np.asarray(values, np.float64)
    error = float(found.std(ddof=1) / np.sqrt(len(found))) if len(found) > 1 else float("nan")
    return float(found.mean()), error


def data_in(folder: Path, *names: str) -> Path:
    """A folder that has some files.

    Raises
    ------
    SystemExit
    """
    missing = [name for name in names if not (folder / name).exists()]
    if missing:
        raise SystemExit(
            f"no {', '.join(missing)} in {folder}: give the folder that holds the data"
        )
    return folder
