"""How exposed people are: how often a secret in the place of each column is guessed right, from all tables together.

Two readings of the incidence of people and cells. Density evolution (the local form of the fixed point of Tse and Hanly
1999, doi:10.1109/18.749008) bounds it: what a cell reveals of one person is limited by its noise and by what is not
known yet of the others in it. Where that is more than a bound allows, the best linear attack decides: the posterior
variance of the most exposed, by conjugate gradients. Both are deterministic: no secret is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.exposure.incidence import Cells, Incidence, Split
from engine.exposure.shared import SharedSecret, shared_secrets
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
KNOWN = 2.7
"""From this ratio on, 95 of 100 right, nobody asks how much more is known."""
ATTACKS = 4
"""Rounds of simulated attacks: of 32 trials the mean over 100 people, of .72, has a standard error of .004."""
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
        splits = (
            (by, split)
            for name, secrets in self._secrets.items()
            for shared in secrets
            for by, split in (*shared.proxies.items(), (name, shared.own))
        )
        self._split = {
            by for by, split in splits if split and (split.rest is not None or split.is_null)
        }

    def add(self, tree: Measurement) -> None:
        """Take in a further table."""
        self.people.add(tree, is_full=not self._split.isdisjoint(tree.columns))

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
        cells: list[Cells] = []
        alike: dict[object, list[tuple[ColumnSet, Cells]]] = {}
        for table, n in times.items():
            by, how = _through(table, column, shared)
            if by is None:
                continue
            for one in self.people.cells(table, by, how, times=n, noise_factor=noise_factor):
                # Sums of the same groups, from several tables, are known no better than exactly.
                of = table if how is not None and how.rest is not None else frozenset(table) - {by}
                alike.setdefault((of, one.is_shown), []).append((table, one))
                cells += [one] if one.is_shown else []
        merged = [
            replace(
                same[0][1],
                # That a side is hidden tells once what it does, however many tables say so.
                n_tables=len(same) if same[0][1].is_shown else 1,
                gain=sum(one.gain for _, one in same) / len(same),
            )
            for same in alike.values()
        ]
        n_people = self.people.n_people
        n_most = max(FEWEST, round(MOST_EXPOSED * n_people))
        snr, added = evolve(merged, n_people, before, n_most)
        most, n_top = _of_most(np.sort(snr)[::-1], n_most)
        order = np.argsort(-snr, kind="stable")
        is_plain = max(times.values(), default=1) == 1 and all(one.gain == 1 for one in merged)
        if most > most_right and is_plain and np.count_nonzero(snr > KNOWN) < n_most:
            snr = np.minimum(attack(merged, n_people, snr, before), snr)
            most, n_top = _of_most(snr[order], n_most)
        guessed = np.append(right(snr[order]), 0.5)  # chance, of nobody

        def top(share: float) -> float:
            return float(guessed[: max(FEWEST, round(share * n_people))][: max(n_people, 1)].mean())

        is_top = np.zeros(n_people, dtype=bool)
        is_top[order[:n_top]] = True
        by_table: dict[ColumnSet, float] = {}
        for same, each in zip(alike.values(), added, strict=True):
            for table, _ in same:
                share = float(each[is_top].mean()) / len(same) if n_people else 0.0
                by_table[table] = by_table.get(table, 0.0) + share
        return ColumnExposure(
            column=column,
            most=most,
            of_1=top(0.01),
            of_5=top(0.05),
            of_all=top(1.0),
            error=_sampling_error(guessed[:n_top], n_top / max(n_people, 1), self.people.share),
            snr=float(snr[is_top].mean()) if n_people else 0.0,
            figures=sum(_figures(one, is_top) for one in cells),
            by=by_table,
        )


def _of_most(snr: FloatArray, n_most: int) -> tuple[float, int]:
    """How often the secrets of the most exposed are guessed right, and how many these are.

    snr: Most exposed first.
    """
    guessed = np.append(right(snr), 0.5)[: max(len(snr), 1)]
    most, fewest = float(guessed[:n_most].mean()), float(guessed[:FEWEST].mean()) - ALLOWANCE
    if fewest > most:
        return fewest, min(FEWEST, len(snr))
    return most, min(n_most, len(snr))


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
    tables: Sequence[Cells], n_people: int, before: float = 0.0, n_most: int = 1
) -> tuple[FloatArray, FloatArray]:
    """What all tables reveal of each person, as a ratio of signal to noise.

    before: What is known of everybody already.
    n_most: It ends early where so many people's secrets are as good as known.

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
                one.n_tables,
                unknown,
                added,
            )
        snr = before + by.sum(axis=0)
        now = np.interp(snr, _SNR, _LEFT)
        moved = float(np.abs(now - unknown).max(initial=0.0))
        unknown = now
        if moved < SETTLED or np.count_nonzero(snr > KNOWN) >= n_most:
            break
    return snr, by


def attack(tables: Sequence[Cells], n_people: int, snr: FloatArray, before: float) -> FloatArray:
    """What the best linear attack learns of each person, as a ratio of signal to noise: on secrets that are drawn.

    snr: The bound of each, by which people who are about as exposed are taken together. The secrets of people who were
        not sampled are noise as far as they are unknown.
    """
    from engine.exposure.loops import TRIALS, least_squares

    unknown, prior = np.interp(snr, _SNR, _LEFT), np.full(n_people, 1.0 + before)
    first: list[Int64Array] = [np.zeros(1, dtype=np.int64)]
    person: list[Int64Array] = []
    weight: list[FloatArray] = []
    for one in tables:
        n_cells, square, known = len(one.noise), one.weight**2, one.gain**2
        size = np.bincount(one.cell, weights=square, minlength=n_cells)
        others = np.bincount(one.cell, weights=square * unknown[one.person], minlength=n_cells)
        noise = (one.noise + (1 - known) * size * one.larger) / one.n_tables
        is_large = (size > LARGE)[one.cell]
        around = (noise + known * others * one.larger)[one.cell] - known * square * unknown[
            one.person
        ]
        alone = one.share * known * square / around
        prior += np.bincount(one.person, weights=alone * is_large, minlength=n_people)
        noise += known * others * (one.larger - 1)
        edges = np.argsort(one.cell, kind="stable")
        edges = edges[~is_large[edges]]
        scale = one.gain * np.sqrt(one.share / noise[one.cell]) * one.weight
        if not len(edges):
            continue
        person.append(one.person[edges])
        weight.append(scale[edges])
        n_edges = np.bincount(one.cell[edges], minlength=n_cells)
        first.append(first[-1][-1] + np.cumsum(n_edges[n_edges > 0]))
    starts, people, weights = np.concatenate(first), np.concatenate(person), np.concatenate(weight)
    rng, learnt = np.random.default_rng(0), np.zeros(n_people)
    for _ in range(ATTACKS):
        secret = rng.choice([-1.0, 1.0], (n_people, TRIALS))
        noise = rng.normal(size=(len(starts) - 1, TRIALS))
        own = rng.normal(size=(n_people, TRIALS))
        guess = least_squares(starts, people, weights, prior, secret, noise, own)
        learnt += (guess * secret).mean(axis=1) / ATTACKS
    # The mean of guess times secret is what is no longer unknown of its variance.
    order = np.argsort(-snr, kind="stable")
    group = np.arange(n_people) // FEWEST
    mean = np.bincount(group, weights=learnt[order]) / np.bincount(group)
    mean = np.clip(mean, 0.0, 1 - 1e-3)
    out = np.zeros(n_people)
    out[order] = (mean / (1 - mean))[group]
    return out
