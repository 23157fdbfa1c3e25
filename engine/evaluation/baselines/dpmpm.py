"""Joint synthesis: a Dirichlet process mixture of products of multinomials (DPMPM), structural zeros respected.

Dunson and Xing 2009 (doi:10.1198/jasa.2009.tm08439), with a truncated stick-breaking prior and Gibbs sampling as in Hu,
Reiter and Wang 2014 (doi:10.1007/978-3-319-11257-2_15). Structural zeros: Manrique-Vallier and Reiter 2014
(doi:10.1080/10618600.2013.844700): in each sweep, impossible rows that the model would draw are added to the data, so
that the model is of the rows before they were cut; synthetic rows are drawn until they are possible. Numbers of many
values are grouped by rank, and a group gives a number of one of its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.errors import DataError
from engine.evaluation.baselines.baseline import (
    Codes,
    Flags,
    Floats,
    Schema,
    assembled,
    fits,
    floats_of,
    levels_of,
    taken,
)
from engine.evaluation.baselines.cart import leaf_draws

_PRIOR_SHAPE = _PRIOR_RATE = 0.25
"""Of the gamma prior of the concentration, as in the papers."""
GROUPS = 100
"""Numbers of more values are put into so many groups of about equal size."""
PRIOR = 1.0
"""Weight of the prior of a column's levels in a class, in rows, spread over the levels."""
_TINY = 1e-30
_TRIES = 400
"""So often rows are drawn again that are impossible."""
_MOST_IMPOSSIBLE = 0.99
Rules = Sequence[Sequence[tuple[int, Flags]]]
"""Impossible combinations: for some columns, by position, which levels are meant."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Mixture:
    weights: Floats  # shape (n_classes,)
    chances: list[Floats]  # shape (n_classes, n_levels): One array a column
    classes: Codes  # shape (n_rows,)


def dpmpm(
    frame: pd.DataFrame,
    schema: Schema,
    rng: np.random.Generator,
    *,
    classes: int = 40,
    sweeps: int = 200,
) -> pd.DataFrame:
    """DPMPM synthesis.

    classes: At which the mixture is cut off. sweeps: Of the Gibbs sampler; the parameters of the last one are used.
    """
    changed = schema.changed(frame)
    names = [str(c) for c in frame.columns]
    codes = np.column_stack([_coded(frame[c], is_number=c in schema.numbers) for c in names])
    rules = _rules(frame, codes, schema)
    found = fitted(codes, rules, classes, sweeps, rng)
    if schema.kept:  # the others are drawn from the class that the row was in at the last sweep
        free = [i for i, c in enumerate(names) if c in changed]
        drawn = _redrawn(codes, found, free, rules, rng)
    else:
        drawn, _ = possible_rows(found, len(frame), rules, rng)
    return assembled(
        frame,
        {
            c: taken(frame[c], leaf_draws(codes[:, i], drawn[:, i], rng))
            for i, c in enumerate(names)
            if c in changed
        },
    )


def _coded(column: pd.Series, *, is_number: bool) -> Codes:
    """Levels of a column; a number's ranks in groups where it has many values."""
    levels = levels_of(column)
    if not is_number or levels.n <= GROUPS:
        return levels.codes
    blank = np.isnan(floats_of(column))
    ends = np.quantile(levels.codes[~blank], np.linspace(0, 1, GROUPS + 1)[1:-1])
    grouped = np.where(blank, GROUPS, np.searchsorted(np.unique(ends), levels.codes))
    return np.asarray(np.unique(grouped, return_inverse=True)[1], np.int64)


def fitted(
    codes: Codes, rules: Rules, n_classes: int, sweeps: int, rng: np.random.Generator
) -> Mixture:
    n = len(codes)
    sizes = (codes.max(axis=0) + 1).tolist()
    classes = rng.integers(n_classes, size=n)
    concentration = 1.0
    more, of_more = np.zeros((0, len(sizes)), np.int64), np.zeros(0, np.int64)
    mixture = Mixture(weights=np.ones(n_classes) / n_classes, chances=[], classes=classes)
    for _ in range(sweeps):
        rows, where = np.vstack([codes, more]), np.concatenate([classes, of_more])
        weights, concentration = _sticks(where, n_classes, concentration, rng)
        chances = [_levels(rows[:, j], where, n_classes, size, rng) for j, size in enumerate(sizes)]
        mixture = Mixture(weights=weights, chances=chances, classes=classes)
        classes = _classes(codes, mixture, rng)
        mixture = Mixture(weights=weights, chances=chances, classes=classes)
        if rules:
            _, (more, of_more) = possible_rows(mixture, n, rules, rng)
    return mixture


def _sticks(
    where: Codes, n_classes: int, concentration: float, rng: np.random.Generator
) -> tuple[Floats, float]:
    """Weights of the classes by breaking a stick, and the concentration, both drawn given the classes of the rows."""
    counts = np.bincount(where, minlength=n_classes).astype(np.float64)
    behind = counts.sum() - np.cumsum(counts)
    broken = rng.beta(1 + counts, concentration + behind)
    broken[-1] = 1.0
    left = np.log1p(-np.minimum(broken[:-1], 1 - 1e-12))
    weights = broken * np.exp(np.concatenate([[0.0], np.cumsum(left)]))
    shape, rate = _PRIOR_SHAPE + n_classes - 1, _PRIOR_RATE - float(left.sum())
    return weights, max(float(rng.gamma(shape, 1 / rate)), 1e-6)


def _levels(
    column: Codes, where: Codes, n_classes: int, size: int, rng: np.random.Generator
) -> Floats:
    """Chances of a column's levels in each class, drawn given the classes of the rows."""
    counts = np.bincount(where * size + column, minlength=n_classes * size)
    drawn = rng.standard_gamma(counts.reshape(n_classes, size) + PRIOR / size) + _TINY
    return np.asarray(drawn / drawn.sum(axis=1, keepdims=True), np.float64)


def _classes(codes: Codes, mixture: Mixture, rng: np.random.Generator) -> Codes:
    likely = np.tile(np.log(mixture.weights + _TINY).astype(np.float32), (len(codes), 1))
    for j, chances in enumerate(mixture.chances):
        likely += np.log(chances).T.astype(np.float32)[codes[:, j]]
    likely -= likely.max(axis=1, keepdims=True)
    summed = np.exp(likely, out=likely).cumsum(axis=1)
    at = rng.random(len(codes), np.float32) * summed[:, -1]
    return np.asarray(np.minimum((summed < at[:, None]).sum(axis=1), likely.shape[1] - 1), np.int64)


def _drawn(chances: Floats, classes: Codes, rng: np.random.Generator) -> Codes:
    """Levels of one column for rows of some classes."""
    n_classes, size = chances.shape
    line = np.minimum(chances.cumsum(axis=1), 1.0) + np.arange(n_classes)[:, None]
    ends = np.append(line.ravel(), np.inf)
    wanted = classes + rng.random(len(classes))
    at = np.searchsorted(ends, wanted, side="right")  # the first end above
    return np.asarray(np.clip(at - classes * size, 0, size - 1), np.int64)


def possible_rows(
    mixture: Mixture, n: int, rules: Rules, rng: np.random.Generator
) -> tuple[Codes, tuple[Codes, Codes]]:
    """Draw rows until n are possible."""
    kept: list[Codes] = []
    cut: list[Codes] = []
    cut_classes: list[Codes] = []
    have = drawn = 0
    while have < n:
        classes = rng.choice(
            len(mixture.weights), size=n, p=mixture.weights / mixture.weights.sum()
        )
        rows = np.column_stack([_drawn(c, classes, rng) for c in mixture.chances])
        wrong = _broken(rows, rules)
        last = len(rows) if (~wrong).sum() < n - have else np.flatnonzero(~wrong)[n - have - 1] + 1
        kept.append(rows[:last][~wrong[:last]])
        cut.append(rows[:last][wrong[:last]])
        cut_classes.append(classes[:last][wrong[:last]])
        have, drawn = have + len(kept[-1]), drawn + int(last)
        if have < (1 - _MOST_IMPOSSIBLE) * drawn:
            raise DataError("dpmpm: more than 99 % of what the model draws is declared impossible")
    return np.vstack(kept), (np.vstack(cut), np.concatenate(cut_classes))


def _redrawn(
    codes: Codes, mixture: Mixture, free: Sequence[int], rules: Rules, rng: np.random.Generator
) -> Codes:
    """The rows with some columns drawn from their class, again where a row is impossible."""
    rows, todo = codes.copy(), np.arange(len(codes))
    for _ in range(_TRIES):
        for j in free:
            rows[todo, j] = _drawn(mixture.chances[j], mixture.classes[todo], rng)
        todo = todo[_broken(rows[todo], rules)]
        if not len(todo):
            return rows
    raise DataError(
        f"dpmpm: for {len(todo):,} rows the model draws what is declared impossible with what they keep"
    )


def _broken(rows: Codes, rules: Rules) -> Flags:
    found = np.zeros(len(rows), np.bool_)
    for rule in rules:
        found |= np.logical_and.reduce([meant[rows[:, j]] for j, meant in rule])
    return found


def _rules(frame: pd.DataFrame, codes: Codes, schema: Schema) -> list[list[tuple[int, Flags]]]:
    """The schema's zeros in levels: a group of numbers is meant where all of its values are."""
    names = [str(c) for c in frame.columns]
    rules = []
    for rule in schema.zeros:
        parts: list[tuple[int, NDArray[np.bool_]]] = []
        for part in rule.parts:
            j = names.index(part.column)
            meant = np.bincount(codes[:, j], fits(frame[part.column], part))
            parts.append((j, meant == np.bincount(codes[:, j])))
        rules.append(parts)
    if n_wrong := int(_broken(codes, rules).sum()):
        raise DataError(
            f"dpmpm: {'some rows' if n_wrong > 1 else 'a row'} of the data is what the spec declares impossible"
        )
    return rules
