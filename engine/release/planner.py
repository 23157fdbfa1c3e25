"""Plan: what a release would hold and cost, before anything is built.

Shows only what the sticky measurement would release anyway: numbers of released buckets and noisy shares. Times are
estimates from the number of released buckets.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from engine.exposure import Exposure, Tally
from engine.measure import StickyDraws, measure_one_way, measure_wider
from engine.params import NOISE_LAYERS
from engine.progress import Progress, silent
from engine.release.exposing import exposure_of, past_of, refusal
from engine.release.fitter import needed_tables
from engine.schema import ColumnSet, Measurement
from engine.source import open_rows, pinned_vintages
from engine.spec import ReleaseSpec

SECONDS_A_TABLE, SECONDS_A_BUCKET = 0.02, 2.5e-5
"""Rough cost of fitting and storing a table on one core."""
MOSTLY_FILLED = 0.8
"""A table with a larger suppressed share gets a warning."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedTable:
    """One table of a plan.

    Attributes
    ----------
    cells : int
        Combinations that would be released as such.
    suppressed_share : float
        Noisy share of the rows outside of them, to be filled in.
    noise_sd : float
        Standard deviation of the noise on such a cell, in rows.
    seconds : float
        Estimated time to fit and store it.
    is_published : bool
        False: only needed by wider tables.
    """

    columns: ColumnSet
    cells: int
    suppressed_share: float
    noise_sd: float
    seconds: float
    is_published: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What a build would make.

    Attributes
    ----------
    rows : int
        Noisy total.
    exposure : Exposure
        What the release would give away, with all that was built of the same people before.
    refused : tuple of str
        Why a build would be refused, and the ways out, a sentence each; empty: it would not.
    """

    tables: tuple[PlannedTable, ...]
    rows: int
    warnings: tuple[str, ...]
    exposure: Exposure
    refused: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Estimated time to fit and store all tables, on one core."""
        return sum(table.seconds for table in self.tables)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "rows": self.rows,
            "seconds": round(self.seconds, 1),
            "warnings": list(self.warnings),
            "exposure": self.exposure.as_dict(),
            "refused": list(self.refused),
            "tables": [
                {
                    "columns": list(t.columns),
                    "cells": t.cells,
                    "suppressed_share": round(t.suppressed_share, 4),
                    "noise_sd": round(t.noise_sd, 3),
                    "seconds": round(t.seconds, 3),
                    "published": t.is_published,
                }
                for t in self.tables
            ],
        }

    def _repr_html_(self) -> str:
        """The plan as an HTML table, for notebooks."""
        rows = "".join(
            f"<tr><td>{html.escape(', '.join(t.columns))}</td><td>{t.cells:,}</td>"
            f"<td>{t.suppressed_share:.1%}</td><td>{t.noise_sd:.2f}</td></tr>"
            for t in self.tables
            if t.is_published
        )
        return (
            "<table><thead><tr><th>table</th><th>cells</th><th>suppressed share</th><th>noise sd</th></tr>"
            f"</thead><tbody>{rows}</tbody></table>"
        )


def plan(spec: ReleaseSpec, *, frame: Any = None, progress: Progress | None = None) -> Plan:
    """Measure what a build would measure, and keep the sizes only.

    Parameters
    ----------
    frame : object, optional
        The pandas or Arrow table where the spec's source is a frame.
    """
    report = progress or silent
    wider = needed_tables(spec.tables)
    published = frozenset(spec.tables)
    unit = spec.privacy.layer_sd * NOISE_LAYERS**0.5
    tally, tables = Tally(spec.privacy.threshold_mean), []
    with open_rows(spec, frame, report) as opened:
        draws = StickyDraws(opened.key, opened.draws, spec.privacy)
        measured = measure_one_way(opened.ingested, opened.entities, opened.columns, draws)
        of_all = measured.one_way[""]
        total = max(int(of_all.n[0]), 1)
        narrow = [tree for name, tree in measured.one_way.items() if name]
        for done, tree in enumerate(chain(narrow, measure_wider(measured, wider, draws))):
            tally.add(tree)
            tables.append(_planned(tree, total, unit, published))
            report("planning", done + 1, len(narrow) + len(wider))
        past = past_of(spec, opened, tally)
    exposure = exposure_of(spec, opened.columns, tally, of_all, past)
    return Plan(
        tables=tuple(tables),
        rows=total,
        warnings=(*_warnings(tables), *_exposed(exposure)),
        exposure=exposure,
        refused=tuple(
            refusal(
                exposure,
                tally,
                spec.tables,
                is_pinned=spec.vintage in pinned_vintages(spec.key_path),
            )
        )
        if exposure.is_refused
        else (),
    )


def _planned(
    tree: Measurement, total: int, unit: float, published: frozenset[ColumnSet]
) -> PlannedTable:
    """Sizes of one table from its measurement."""
    single = (tree.level == 0).all(axis=1)
    single[tree.parent[tree.parent >= 0]] = False
    released = int(np.maximum(tree.n[single], 0).sum())
    return PlannedTable(
        columns=tree.columns,
        cells=int(single.sum()),
        suppressed_share=min(max(1 - released / total, 0.0), 1.0),
        noise_sd=unit * int(tree.scale[-1]),
        seconds=SECONDS_A_TABLE + SECONDS_A_BUCKET * tree.n_nodes,
        is_published=tree.columns in published,
    )


def _warnings(tables: list[PlannedTable]) -> list[str]:
    """What a custodian should look at before building."""
    filled = [t for t in tables if t.is_published and t.suppressed_share > MOSTLY_FILLED]
    out = [
        f"{', '.join(t.columns)}: about {t.suppressed_share:.0%} of the rows lie in groups too small to show; "
        "coarser columns or fewer of them would show more"
        for t in filled[:5]
    ]
    if len(filled) > 5:
        out.append(f"... and {len(filled) - 5} more tables like these")
    return out


def _exposed(exposure: Exposure) -> list[str]:
    """A warning where small groups are told much of, though not too much."""
    most = max(exposure.together.values(), default=0.0)
    if most <= exposure.bounds.warn_at or exposure.is_refused:
        return []
    return [
        f"the tables tell {most:.2f} noisy figures a person of the most exposed group (warning above "
        f"{exposure.bounds.warn_at:g}, refused above {exposure.bounds.refuse_at:g}): fewer or coarser tables tell less"
    ]
