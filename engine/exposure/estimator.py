"""How exposed people are: how often a secret in the place of each column is guessed right, from all tables together.

Two readings of the incidence of people and cells. Density evolution (the local form of the fixed point of Tse and Hanly
1999, doi:10.1109/18.749008) bounds it: what a cell reveals of one person is limited by its noise and by what is not
known yet of the others in it. Where that is more than a bound allows, simulated attacks decide: secrets are drawn,
sides of cells suppressed and the others shown with noise as the mechanism does it, and least squares solved.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
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


AT_ONCE = 2
"""Secrets looked at side by side: each holds the cells of all its tables in memory."""
STEPS = 60
"""Iterations at most; what is within the bound settles in about ten."""
SETTLED = 2e-3
"""Change of anybody's variance at which it has settled."""
ATTACKED = 12, 3, 3, 6
"""Of how many people the attack is computed: of the most exposed, the rest of 1 %, of 5 %, and of all."""
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
        found = self._most_exposed(names, times, before or {}, 1, most_right)
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
            together in other vintages is not known.
        """
        return self._most_exposed([column], times, {column: before}, noise_factor, most_right)[0]

    def _most_exposed(
        self,
        columns: Collection[str],
        times: Mapping[ColumnSet, int],
        before: Mapping[str, float],
        noise_factor: int,
        most_right: float,
    ) -> list[ColumnExposure]:
        """Of each column's secrets the one that is revealed most."""
        keys: dict[str, list[object]] = {}
        # Secrets of columns that are null together are one: the same tables reveal them, with the same gains.
        secrets: dict[object, tuple[str, SharedSecret]] = {}
        for column in columns:
            for number, shared in enumerate(self._secrets[column]):
                gains = {column: 1.0} | {name: one.gain for name, one in shared.proxies.items()}
                is_alike = shared.own is not None and shared.own.rest is None
                known = before.get(column, 0.0)
                key = (frozenset(gains.items()), known) if is_alike else (column, number)
                keys.setdefault(column, []).append(key)
                secrets.setdefault(key, (column, shared))

        def of(secret: tuple[str, SharedSecret]) -> ColumnExposure:
            known = before.get(secret[0], 0.0)
            return self._of_secret(*secret, times, known, noise_factor, most_right)

        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = dict(zip(secrets, pool.map(of, secrets.values()), strict=True))
        return [
            replace(
                max((found[key] for key in keys[column]), key=lambda one: one.most), column=column
            )
            for column in columns
        ]

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
        names, shown_by, cells = [], [], []
        for table, n in times.items():
            through, how = _through(table, column, shared)
            if through is not None:
                found_in = [self.people.cells(table, through, how, n, noise_factor)]
                gain = 1.0 if how is None else how.gain
                found_in += self.people.sums(table, through, gain, n, noise_factor)
                names += [table] * len(found_in)
                shown_by += [through] * len(found_in)
                cells += found_in
        n_people = self.people.n_people
        n_most = max(FEWEST, round(MOST_EXPOSED * n_people))
        snr, unknown = evolve(cells, n_people, before)
        order = np.argsort(-snr, kind="stable")
        most, n_top = _of_most(right(snr[order]), n_most)
        is_again, share = max(times.values(), default=1) > 1, np.ones(n_people)
        if most > most_right and not is_again:
            found = _attacked(self.people, shown_by, cells, snr, before, order, n_most)
            share = found / np.maximum(snr, 1e-12)
            snr = found
            most, n_top = _of_most(right(snr[order]), n_most)
        guessed = np.append(right(snr[order]), 0.5)  # chance, of nobody

        def of_share(share: float) -> float:
            return float(guessed[: max(FEWEST, round(share * n_people))][: max(n_people, 1)].mean())

        is_top = np.zeros(n_people, dtype=bool)
        is_top[order[:n_top]] = True
        by = dict.fromkeys(names, 0.0)
        for table, one in zip(names, cells, strict=True):
            added = np.zeros(n_people)
            _reveal(one, unknown, added)
            by[table] += float((added * share)[is_top].mean()) if n_people else 0.0
        return ColumnExposure(
            column=column,
            most=most,
            of_1=of_share(0.01),
            of_5=of_share(0.05),
            of_all=of_share(1.0),
            error=_sampling_error(guessed[:n_top], n_top / max(n_people, 1), self.people.share),
            snr=ratio_of(max(float(guessed[: max(n_top, 1)].mean()), 0.5)),
            figures=sum(_figures(one, is_top) for one in cells),
            by=by,
        )


def _attacked(
    people: Incidence,
    by: Sequence[str],
    cells: Sequence[Cells],
    snr: FloatArray,
    before: float,
    order: Int64Array,
    n_most: int,
) -> FloatArray:
    """What the simulated attack makes of a bound: of some people, evenly through the order, their neighbours alike."""
    n_people = people.n_people
    ends = [n_most, *(round(share * n_people) for share in (0.01, 0.05, 1.0))]
    ends = [0, *np.minimum(np.maximum.accumulate(ends), n_people)]
    parts = [order[start:end] for start, end in pairwise(ends)]
    some = [
        part[np.linspace(0, len(part) - 1, min(n, len(part))).round().astype(np.int64)]
        for part, n in zip(parts, ATTACKED, strict=True)
    ]
    found = attack(people, by, cells, snr, before, np.concatenate(some))
    out = snr.copy()
    for part, who, each in zip(
        parts, some, np.split(found, np.cumsum([len(who) for who in some])[:-1]), strict=True
    ):
        if len(part):
            was = ratio_of(float(right(snr[who]).mean()))
            out[part] *= ratio_of(float(right(each).mean())) / max(was, 1e-12)
    return out


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
    """Noisy figures a person, of some people, about those who share a cell with each."""
    at = among[cells.person]
    people = np.bincount(cells.cell, minlength=len(cells.larger)) * cells.larger
    shown = cells.n_figures * cells.share[at] / people[cells.cell[at]]
    return float(shown.sum() / max(among.sum(), 1))


def right(snr: FloatArray) -> FloatArray:
    """How often an even secret is guessed right at a ratio of signal to noise."""
    return np.asarray(np.interp(snr, _SNR, _RIGHT), np.float64)


def evolve(
    tables: Sequence[Cells], n_people: int, before: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """What all tables reveal of each person, as a ratio of signal to noise; of same groups, too, each adds to it.

    before: What is known of everybody already.

    Returns: ratio, shape (n_people,); what of each secret was taken as not known for that, as a variance.
    """
    unknown = np.full(n_people, float(np.interp(before, _SNR, _LEFT)))
    for _ in range(STEPS):
        snr = np.full(n_people, before)
        for one in tables:
            _reveal(one, unknown, snr)
        was, unknown = unknown, np.interp(snr, _SNR, _LEFT)
        if float(np.abs(unknown - was).max(initial=0.0)) < SETTLED:
            break
    return snr, was


def _reveal(cells: Cells, unknown: FloatArray, out: FloatArray) -> None:
    """Add what one table reveals of each person, as a ratio of signal to noise."""
    from engine.exposure.loops import reveal

    edges = cells.person, cells.cell, cells.weight, cells.share
    reveal(*edges, cells.noise, cells.larger, cells.gain, unknown, out)


def attack(
    people: Incidence,
    by: Sequence[str],
    tables: Sequence[Cells],
    snr: FloatArray,
    before: float,
    who: Int64Array,
) -> FloatArray:
    """What least squares reveal of the secrets of some people, as a ratio of signal to noise.

    Which sides of small cells are hidden is drawn, anew for each of them. What is then shown is linear in secrets and
    noise, and so is the guess: how often it is right needs no draws.

    by: Which column of each table shows the secret; errors of near copies are unknown as the secrets are.
    snr: The bound of each person: as much is known of people who were not sampled.
    """
    from engine.exposure.loops import by_cell, solve

    n_people, rng = people.n_people, np.random.default_rng(0)
    unknown, prior = np.interp(snr, _SNR, _LEFT), np.full(n_people, 1.0 + before)
    copies = sorted({name for name, one in zip(by, tables, strict=True) if one.gain < 1})
    parts: list[tuple[Any, ...]] = []
    for name, one in zip(by, tables, strict=True):
        noise = np.where(one.size > 0, 4.0 * one.sd**2, one.noise)
        errors = n_people * (1 + copies.index(name)) if one.gain < 1 else 0
        held, n_each, person, weight, else_ = by_cell(
            *(one.person, one.cell, one.weight, noise, one.larger, one.gain),
            *(errors, unknown, prior),
        )
        parts.append((person, weight, n_each, one.size[held], noise[held], else_))
    person, weight, n_each, size, noise, missing = map(np.concatenate, zip(*parts, strict=True))
    first = np.concatenate([[0], np.cumsum(n_each)])
    prior = np.append(prior, np.ones(n_people * len(copies)))
    small, told = np.flatnonzero(size), people.patterns(max(one.sd for one in tables))
    precision = np.empty((len(noise), len(who)), np.float32)
    for k in range(len(who)):
        shown = noise.copy()
        shown[small] = _shown(noise[small], size[small], told, rng)
        precision[:, k] = 1 / (shown + missing)
    left = solve(first, person, weight, precision, prior, who)[who, np.arange(len(who))]
    return 1 / np.clip(left, 1e-9, 1.0) - 1


def _shown(
    noise: FloatArray, size: Int64Array, told: Patterns, rng: np.random.Generator
) -> FloatArray:
    """Variance of the noise in what small cells show: in both sides, or that tells as much as that a side is hidden.

    noise: shape (n_cells,), its variance in both sides; size: people.

    Returns: the variances; inf: nothing is told.
    """
    plus = rng.binomial(size, 0.5)
    shown = sum(
        (rng.random(len(size)) < told.passes[many]).astype(np.int64) for many in (plus, size - plus)
    )
    # Each count has twice the noise of both; with what it tells that a side is hidden, one observation of the sum.
    news = 1 / told.spread[size, shown] + shown / (2 * noise) - 1 / size
    with np.errstate(divide="ignore"):
        return np.asarray(1 / np.maximum(news, 0.0), np.float64)
