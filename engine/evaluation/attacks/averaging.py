"""Averaging: a count of one column from all tables that show it, against its own table alone.

Sources: yoid2000/syndiffix-paper-tests `exact_count.py`; Asghar and Kaafar, PETS 2020, arXiv:1902.06414. SynDiffix's
own figure: 56 % of the counts exact after averaging thousands of tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from engine.evaluation.attacks.assumptions import Assumptions
from engine.evaluation.attacks.sights import Attacked, Floats, Sight, summed
from engine.evaluation.data.paired import Numbers, n_codes
from engine.evaluation.score import WHOLE, Risk, wilson

NAME = "averages"
WORDS = (
    "The attacker estimates each count of one column from all tables, and releases, that show it: by means, weights, "
    "medians, and taking tables that say the same for one."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """What all tables say of the counts of one."""

    # shape (n_counts,): Of the released cells of the narrowest table (a column's released values, say).
    truth: Numbers
    # shape (n_tables,): Number of columns of each table, rising; the first is the narrowest table itself.
    width: Numbers
    seen: Numbers  # shape (n_tables, n_counts): Each count, summed out of each table


@dataclass(frozen=True, kw_only=True, slots=True)
class Averaging:
    """How near an attacker comes to the counts of a table, from it alone and from all tables that show them."""

    counts: int  # Number of counts attacked
    # rmse_alone, sd_alone, exact_alone: Error of the narrowest table alone: root mean square, standard
    # deviation, share right to the unit.
    rmse_alone: float
    sd_alone: float
    exact_alone: float
    # Root mean square error of each estimate from all tables: "mean"; "weighted" by inverse mean square
    # error of each width, which the attacker is told; "median"; "apart", the mean of those that differ;
    # "trained", the best weights by width, learnt from half of the counts and scored on the other half.
    rmse: dict[str, float]
    exact: dict[str, float]  # Share right to the unit once rounded
    # Smallest of the errors over that of the narrowest table alone (for "trained": of the same half of the
    # counts): 1 or more where averaging gains nothing.
    gain: float


def averaging(attacked: Attacked, assumptions: Assumptions, rng: np.random.Generator) -> Risk:
    """Estimate every released count of one column from all tables.

    Returns: `rate`: counts right to the unit by the best estimate; `control`: from the column's own table
    alone.
    """
    del assumptions, rng
    found = [one for name in attacked.paired.values if (one := figures_of(attacked, name))]
    if not any(len(one.seen) > 1 and len(one.truth) for one in found):
        return Risk(
            attack=NAME,
            words=WORDS,
            why_not={WHOLE: "no count of one column is shown by two tables"},
        )
    result = averaged(found)
    # Weights that are trained are scored on half of the counts: their share is no share of all.
    best = min((how for how in result.rmse if how != "trained"), key=lambda how: result.rmse[how])
    ratio = 1.0 if result.rmse_alone == 0 else result.gain
    differing = [int((one.seen[1:] != one.seen[0]).any(axis=1).sum()) for one in found]
    shown = sum(len(one.seen) - 1 for one in found)
    rate, alone = (
        wilson(round(share * result.counts), result.counts)
        for share in (result.exact[best], result.exact_alone)
    )
    values = {
        "ratio": ratio,
        "exact": result.exact[best],
        "exact_alone": result.exact_alone,
        "differ": sum(differing) / max(shown, 1),
        "counts": float(result.counts),
    }
    ways = [(how, rmse, result.exact[how]) for how, rmse in result.rmse.items()]
    return Risk(
        attack=NAME,
        words=WORDS,
        rate=rate,
        control=alone,
        values=values,
        breakdown=pd.DataFrame(
            [("own table alone", result.rmse_alone, result.exact_alone), *ways],
            columns=["estimate", "rmse", "exact"],
        ),
        control_note="control: the same counts from the column's own table alone",
        notes=(
            f"{result.counts:,} released counts of {len(found)} columns, {shown:,} further sights of a column",
        ),
        verdict=_verdict(values, result, best),
        rate_names=(
            "counts right to the unit, all tables",
            "by guessing",
            "from the own table alone",
        ),
    )


def _verdict(values: dict[str, float], result: Averaging, best: str) -> str:
    """What it comes to, in words."""
    told = (
        f"From all tables a count of one column is off by {min(result.rmse[best], result.rmse_alone):.2f} rows, from "
        f"its own table by {result.rmse_alone:.2f}; {values['exact']:.0%} and {values['exact_alone']:.0%} of the "
        "counts are right to the unit. "
    )
    if not values["differ"]:
        return told + "All tables show the same counts: there is nothing to average."
    return (
        told + f"Of the tables that show a column again {values['differ']:.0%} show other counts."
    )


def figures_of(attacked: Attacked, name: str) -> Figures | None:
    """Return the counts of a column's released values in every sight that shows them; None: it has no own table."""
    holders = sorted(
        (sight for sight in attacked.sights if name in sight.columns and sight.table.total),
        key=lambda sight: (len(sight.columns), sight.columns),
    )
    if not holders or len(holders[0].columns) > 1:
        return None
    size = n_codes(attacked.paired, name)
    own = holders[0].table
    released = own.codes[name] if own.measured is None else own.codes[name][own.measured]
    codes = np.unique(released)
    original = attacked.paired.original
    truth = summed(original.codes[name], original.n, size)[codes]
    return Figures(
        truth=truth.astype(np.int64),
        width=np.array([len(sight.columns) for sight in holders]),
        seen=np.array([_counts(sight, name, size)[codes] for sight in holders], np.int64),
    )


def _counts(sight: Sight, name: str, size: int) -> Floats:
    """Counts of a column by code, as a sight shows them."""
    return summed(sight.table.codes[name], sight.table.n, size)


def averaged(figures: Iterable[Figures]) -> Averaging:
    """Estimate every count from all tables that show it; pooled over columns, tables and releases.

    figures: All of narrowest tables of the same width.
    """
    found = [one for one in figures if len(one.truth)]
    truth = np.concatenate([f.truth for f in found]).astype(np.float64)
    alone = np.concatenate([f.seen[0] for f in found]) - truth
    spread = _spread_of_widths(found)
    weight = [1 / spread[f.width] for f in found]
    estimates = {
        "mean": np.concatenate([f.seen.mean(axis=0) for f in found]),
        "weighted": np.concatenate(
            [w @ f.seen / w.sum() for w, f in zip(weight, found, strict=True)]
        ),
        "median": np.concatenate([np.median(f.seen, axis=0) for f in found]),
        "apart": np.concatenate([np.unique(f.seen, axis=0).mean(axis=0) for f in found]),
    }
    rmse = {how: _rms(estimate - truth) for how, estimate in estimates.items()}
    exact = {how: _exact(estimate - truth) for how, estimate in estimates.items()}
    trained, rmse["trained"], exact["trained"] = _trained(_means_by_width(found), truth)
    of_alone = _rms(alone)
    return Averaging(
        counts=len(truth),
        rmse_alone=of_alone,
        sd_alone=float(np.std(alone)),
        exact_alone=_exact(alone),
        rmse=rmse,
        exact=exact,
        gain=min(trained, *(rmse[how] / max(of_alone, 1e-9) for how in estimates)),
    )


def _means_by_width(found: Sequence[Figures]) -> Floats:
    """Mean over the tables of each width, one row a width; where a column has none of a width, its own table's."""
    widths = np.unique(np.concatenate([f.width for f in found]))
    rows = []
    for width in widths:
        means = [
            f.seen[f.width == width].mean(axis=0) if (f.width == width).any() else f.seen[0] * 1.0
            for f in found
        ]
        rows.append(np.concatenate(means))
    return np.asarray(rows, np.float64)


def _spread_of_widths(found: Sequence[Figures]) -> Floats:
    """Mean square error of the counts read from tables of each width, by width."""
    widest = max(int(f.width.max()) for f in found)
    squares, n = np.zeros(widest + 1), np.zeros(widest + 1)
    for f in found:
        np.add.at(squares, f.width, np.square(f.seen - f.truth).sum(axis=1))
        np.add.at(n, f.width, len(f.truth))
    return np.asarray(np.maximum(squares / np.maximum(n, 1), 1e-9), np.float64)


def _trained(by_width: Floats, truth: Floats) -> tuple[float, float, float]:
    """Weights learnt from half of the counts: error over that of the narrowest table, error and exact share."""
    learnt = np.arange(len(truth)) % 2 == 0
    alone = by_width[0]
    more = (by_width[1:] - alone).T
    weights = np.linalg.lstsq(more[learnt], (truth - alone)[learnt], rcond=None)[0]
    off = (alone + more @ weights - truth)[~learnt]
    return _rms(off) / max(_rms((alone - truth)[~learnt]), 1e-9), _rms(off), _exact(off)


def _rms(off: Floats) -> float:
    return float(np.sqrt(np.mean(np.square(off)))) if len(off) else float("nan")


def _exact(off: Floats) -> float:
    return float(np.mean(np.abs(off) < 0.5)) if len(off) else float("nan")
