"""How exposed people are: how often a secret in the place of each column is guessed right, from all tables together.

Two readings of the incidence of people and cells. Density evolution (the local form of the fixed point of Tse and Hanly
1999, doi:10.1109/18.749008) bounds it: what a cell reveals of one person is limited by its noise and by what is not
known yet of the others in it. Where that is more than a bound allows, simulated attacks decide: secrets are drawn,
sides of cells suppressed and the others shown with noise as the mechanism does it, and least squares solved.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.exposure.incidence import Cells, Incidence, Patterns, Split
from engine.exposure.shared import SharedSecret, shared_secrets
from engine.params import ratio_of
from engine.schema import BoolArray, ColumnSet, FloatArray, Int64Array, Measurement

MOST_EXPOSED = 0.005
"""Share of people who count as the most exposed. A compromise: of 1 % a group of 150 in 27,000 is about half, and its
exposure was hardly seen; with .1 % releases that reveal little were refused."""
FEWEST = 30
"""So many count at least: the mean of fewer says little of what an attack would find."""
ALLOWANCE = 0.05
"""The 30 most exposed alone may be exposed by so much more. What an attack finds of 30 people has a standard deviation
of .08, so a smaller difference could not be observed."""


STEPS = 60
"""Iterations at most; what is within the bound settles in about ten."""
SETTLED = 2e-3
"""Change of anybody's variance at which it has settled."""
ERROR = 0.009
"""Standard error of how often the most exposed are guessed right: so many attacks are simulated."""
LARGE = 500
"""What a sum over more people reveals of each is taken as known by itself: together they reveal next to nothing."""
_SNR = np.concatenate([[0.0], np.logspace(-4, 3, 400)])
_Z = np.linspace(-6, 6, 241)
_WEIGHT = np.exp(-_Z * _Z / 2) / np.exp(-_Z * _Z / 2).sum()
_LEFT = np.array([1 - float((_WEIGHT * np.tanh(s + math.sqrt(s) * _Z)).sum()) for s in _SNR])
_RIGHT = np.array([0.5 * (1 + math.erf(math.sqrt(s / 2))) for s in _SNR])


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnExposure:
    """What all tables reveal of one column, on the rows. Confidential until it is rounded."""

    column: str
    # How often an even secret in its place is guessed right by who knows all other columns: of the most exposed
    # people (or of the 30 most exposed, less their allowance), of 1 % and 5 %, and of all.
    most: float
    of_1: float
    of_5: float
    of_all: float
    error: float = 0.0  # Standard error of the first, where people were sampled
    snr: float  # Of the most exposed, as a ratio of signal to noise
    figures: float  # Noisy figures a person that reveal the secrets of the most exposed
    by: dict[ColumnSet, float]  # What each table adds to the ratio of the most exposed


class Estimator:
    """Estimates exposure on people in the cells of tables; columns with the same secret are looked for once."""

    def __init__(self, people: Incidence, columns: Collection[str]) -> None:
        self.people = people
        self.columns = tuple(sorted(columns))
        self._secrets = shared_secrets(people, self.columns)

    def add(self, tree: Measurement) -> None:
        """Take in a further table."""
        self.people.add(tree)

    def revealed(self, tables: Iterable[ColumnSet]) -> list[str]:
        """Columns that any of some tables reveals."""
        known = list(tables)
        return [name for name in self.columns if any(self.revealed_by(t, [name]) for t in known)]

    def revealed_by(self, table: ColumnSet, columns: Iterable[str]) -> bool:
        """Whether a table reveals any of some columns."""
        return any(
            _through(table, name, shared)[0] is not None
            for name in columns
            for shared in self._secrets[name]
        )

    def exposures(
        self,
        times: Mapping[ColumnSet, int],
        before: Mapping[str, float] | None = None,
        columns: Collection[str] | None = None,
        most_right: float = 1.0,
    ) -> list[ColumnExposure]:
        """Of some columns, or all, most exposed first; parameters as of `exposure`."""
        names = self.columns if columns is None else columns
        found = [
            self.exposure(name, times, (before or {}).get(name, 0.0), most_right=most_right)
            for name in names
        ]
        return sorted(found, key=lambda one: (-one.most, one.column))

    def exposure(
        self,
        column: str,
        times: Mapping[ColumnSet, int],
        before: float = 0.0,
        noise_factor: int = 1,
        most_right: float = 1.0,
    ) -> ColumnExposure:
        """What tables reveal of one column: of the secret in it that they reveal most.

        times: How often each table was measured with noise of its own; others are left out.
        before: Ratio of signal to noise at which everybody's is known already.
        noise_factor: How many times the noise.
        most_right: Where the bound is above it, the attack decides; not of tables that were measured again, for who was
            together in other vintages is not known, nor of near copies, of which attacks on files found more.
        """
        found = [
            self._of_secret(column, shared, times, before, noise_factor, most_right)
            for shared in self._secrets[column]
        ]
        return max(found, key=lambda one: one.most)

    def _of_secret(
        self,
        column: str,
        shared: SharedSecret,
        times: Mapping[ColumnSet, int],
        before: float,
        noise_factor: int,
        most_right: float,
    ) -> ColumnExposure:
        """What tables reveal of one secret of a column."""
        names, by, cells = [], [], []
        for table, n in times.items():
            through, how = _through(table, column, shared)
            if through is not None:
                names.append(table)
                by.append(through)
                cells.append(self.people.cells(table, through, how, n, noise_factor))
        n_people = self.people.n_people
        n_most = max(FEWEST, round(MOST_EXPOSED * n_people))
        snr, added = evolve(cells, n_people, before)
        order = np.argsort(-snr, kind="stable")
        guessed = right(snr)
        most, n_top = _of_most(guessed[order], n_most)
        is_again = max(times.values(), default=1) > 1
        if most > most_right and not is_again:
            guessed = attack(self.people, by, cells, snr, before, n_most)
            # Of each of the most exposed the trials tell little: they share their mean in the bound's proportions.
            top = order[:n_most]
            found, bound = (ratio_of(float(each[top].mean())) for each in (guessed, right(snr)))
            guessed[top] = right(snr[top] * found / max(bound, 1e-12))
            most, n_top = _of_most(guessed[order], n_most)
        guessed = np.append(guessed[order], 0.5)  # chance, of nobody

        def of_share(share: float) -> float:
            return float(guessed[: max(FEWEST, round(share * n_people))][: max(n_people, 1)].mean())

        is_top = np.zeros(n_people, dtype=bool)
        is_top[order[:n_top]] = True
        return ColumnExposure(
            column=column,
            most=most,
            of_1=of_share(0.01),
            of_5=of_share(0.05),
            of_all=of_share(1.0),
            error=_sampling_error(guessed[:n_top], n_top / max(n_people, 1), self.people.share),
            snr=ratio_of(max(float(guessed[: max(n_top, 1)].mean()), 0.5)),
            figures=sum(_figures(one, is_top) for one in cells),
            by={
                table: float(each[is_top].mean()) if n_people else 0.0
                for table, each in zip(names, added, strict=True)
            },
        )


def _of_most(guessed: FloatArray, n_most: int) -> tuple[float, int]:
    """How often the secrets of the most exposed are guessed right, and how many these are; most exposed first."""
    n_people, guessed = len(guessed), guessed if len(guessed) else np.full(1, 0.5)
    most, fewest = float(guessed[:n_most].mean()), float(guessed[:FEWEST].mean()) - ALLOWANCE
    if fewest > most:
        return fewest, min(FEWEST, n_people)
    return most, min(n_most, n_people)


def _through(
    table: ColumnSet, column: str, shared: SharedSecret
) -> tuple[str | None, Split | None]:
    """The column of a table that reveals a secret of another, and how; None: none does."""
    if column in table:
        return column, shared.own
    like = [name for name in table if name in shared.proxies]
    by = max(like, key=lambda name: (shared.proxies[name].gain, name), default=None)
    return by, None if by is None else shared.proxies[by]


def _sampling_error(guessed: FloatArray, share: float, sampled: float) -> float:
    """Standard error of the mean of the largest values of a sample, by their share of it (expected shortfall).

    guessed: These values, descending; sampled: the share of people that was sampled.
    """
    if sampled >= 1 or not len(guessed):
        return 0.0
    variance = guessed.var() + (1 - share) * (guessed.mean() - guessed[-1]) ** 2
    return math.sqrt(variance * (1 - sampled) / len(guessed))


def _figures(cells: Cells, among: BoolArray) -> float:
    """Noisy figures a person, of some people, about those who share a cell with each: two a cell."""
    at = among[cells.person]
    people = np.bincount(cells.cell, minlength=len(cells.larger)) * cells.larger
    return float((2 * cells.share[at] / people[cells.cell[at]]).sum() / max(among.sum(), 1))


def right(snr: FloatArray) -> FloatArray:
    """How often an even secret is guessed right at a ratio of signal to noise."""
    return np.asarray(np.interp(snr, _SNR, _RIGHT), np.float64)


def evolve(
    tables: Sequence[Cells], n_people: int, before: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """What all tables reveal of each person, as a ratio of signal to noise; of same groups, too, each adds to it.

    before: What is known of everybody already.

    Returns: ratio, shape (n_people,); what each table adds to it, shape (n_tables, n_people).
    """
    from engine.exposure.loops import reveal

    unknown = np.full(n_people, float(np.interp(before, _SNR, _LEFT)))
    by = np.zeros((len(tables), n_people))
    snr = np.full(n_people, before)
    for _ in range(STEPS):
        by[:] = 0.0
        for one, added in zip(tables, by, strict=True):
            reveal(
                one.person,
                one.cell,
                one.weight,
                one.share,
                one.noise,
                one.larger,
                one.gain,
                unknown,
                added,
            )
        snr = before + by.sum(axis=0)
        now = np.interp(snr, _SNR, _LEFT)
        moved = float(np.abs(now - unknown).max(initial=0.0))
        unknown = now
        if moved < SETTLED:
            break
    return snr, by


def attack(
    people: Incidence,
    by: Sequence[str],
    tables: Sequence[Cells],
    snr: FloatArray,
    before: float,
    n_most: int,
) -> FloatArray:
    """How often each secret is guessed right by least squares, where secrets, hidden sides and noise are drawn.

    by: Which column of each table shows the secret, with errors of its own.
    snr: The bound of each person: as much is known of people who were not sampled.
    n_most: How many are the most exposed.
    """
    from engine.exposure.loops import TRIALS, add_up, least_squares

    n_people, rng = people.n_people, np.random.default_rng(0)
    unknown, prior = np.interp(snr, _SNR, _LEFT), np.full(n_people, 1.0 + before)
    names, column = np.unique(by, return_inverse=True)
    gains = np.ones(len(names))
    gains[column] = [one.gain for one in tables]
    parts: list[tuple[Any, ...]] = []
    for number, one in zip(column, tables, strict=True):
        n_cells, square, known = len(one.noise), one.weight**2, one.gain**2
        sampled, others = (
            np.bincount(one.cell, weights=w, minlength=n_cells)
            for w in (square, square * unknown[one.person])
        )
        noise = np.where(one.size > 0, 4.0 * one.sd**2, one.noise)
        errors, missing = (1 - known) * sampled * one.larger, known * others * (one.larger - 1)
        all_else = (noise + errors + missing + known * others)[one.cell]
        alone = known * square / (all_else - known * square * unknown[one.person])
        is_large = (sampled > LARGE)[one.cell]
        prior += np.bincount(one.person, weights=alone * is_large, minlength=n_people)
        edges = np.argsort(one.cell, kind="stable")
        edges = edges[(~is_large & np.isfinite(noise)[one.cell])[edges]]
        n_each = np.bincount(one.cell[edges], minlength=n_cells)
        held = np.flatnonzero(n_each)
        parts.append(
            (
                one.person[edges].astype(np.int32),
                one.weight[edges].astype(np.float32),
                n_each[held],
                np.full(len(held), number),
                *(each[held, None] for each in (one.size, sampled, noise, errors, missing)),
            )
        )
    person, weight, n_each, of, size, sampled, noise, errors, missing = (
        np.concatenate(part) for part in zip(*parts, strict=True)
    )
    system = np.concatenate([[0], np.cumsum(n_each)]), person, weight
    gain, small = gains[of, None], np.flatnonzero(size)
    told = people.patterns(max(one.sd for one in tables))
    hits, beforehand = np.zeros(n_people), (prior - 1)[:, None]
    rounds = math.ceil(0.25 / ERROR**2 / n_most / TRIALS)
    for _ in range(rounds):
        secret = rng.choice([-1.0, 1.0], (n_people, TRIALS))
        is_same = rng.random((len(names), n_people, TRIALS)) < (1 + gains[:, None, None]) / 2
        sums = add_up(*system, of, np.where(is_same, secret, -secret))
        shown = sums + np.sqrt(noise) * rng.normal(size=sums.shape)
        of_noise = noise + np.zeros(sums.shape)
        shown[small], of_noise[small] = _shown(
            sums[small], size[small], sampled[small], noise[small], told, rng
        )
        shown = (shown + np.sqrt(missing) * rng.normal(size=sums.shape)) / gain
        precision = gain**2 / (of_noise + errors + missing)
        of_prior = beforehand * secret + np.sqrt(beforehand) * rng.normal(size=secret.shape)
        guess = least_squares(*system, precision, shown, prior, of_prior)
        hits += np.where(guess == 0, 0.5, guess * secret > 0).mean(axis=1) / rounds
    return hits


def _shown(
    sums: FloatArray,
    size: Int64Array,
    sampled: FloatArray | Int64Array,
    noise: FloatArray,
    told: Patterns,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """What is shown of small cells: both sides with noise, or what it tells of their sum that a side is hidden.

    sums: shape (n_cells, n_trials), of the secrets of those who were sampled; the others: shape (n_cells, 1).
    noise: Variance of that in both sides.

    Returns: an observation of the sum, and the variance of its noise; inf: nothing is told.
    """
    n = np.broadcast_to(size, sums.shape)
    left = np.maximum(n - np.rint(sampled).astype(np.int64), 0)  # people of several rows weigh more
    others = 2 * rng.binomial(left, 0.5) - left
    plus = np.clip(np.rint((n + sums + others) / 2).astype(np.int64), 0, n)
    here, there = (rng.random(n.shape) < told.passes[many] for many in (plus, n - plus))
    both, one, direction = here & there, here != there, np.where(here, 1.0, -1.0)
    drawn = np.sqrt(noise) * rng.normal(size=n.shape)
    # One count, of twice the noise, and that the other side is hidden are together one observation of the sum.
    before, count = 1 / told.spread[n, one.astype(np.int64)], one / (2 * noise)
    of_count = direction * (sums + others) + np.sqrt(2) * drawn
    precision = np.maximum(before + count, 1 / n)
    mean = direction * (before * np.where(one, told.mean[n], 0.0) + count * of_count) / precision
    news = precision - 1 / n
    with np.errstate(divide="ignore", invalid="ignore"):
        observed = np.where(news > 0, mean * precision / news - others, 0.0)
        return np.where(both, sums + drawn, observed), np.where(both, noise, 1 / news)
