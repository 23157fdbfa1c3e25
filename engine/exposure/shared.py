"""Columns that reveal the same secret: near copies, recodes of each other, secrets hidden inside the values of several.

For each pair of columns the two-sided split of their values that agrees best in the rows, by alternating conditional
expectations (Breiman and Friedman 1985, doi:10.1080/01621459.1985.10478157), fitted on half of the rows and correlated
in the other half. Confidential: made from rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from engine.exposure.incidence import Incidence, Split
from engine.schema import KIND_NULL, KIND_OTHER, BoolArray, FloatArray, Int64Array

DIFFERING = 0.1
"""Columns count as one secret if their two-sided splits differ in at most so many rows: twice as many as in copies with
5 % of errors, which must be found in samples as well."""
AGREES = 1 - 2 * DIFFERING
"""The correlation of two even splits that differ in so many rows."""
SEVERAL = 0.5
"""From this second correlation on they share more than one secret, and who lacks one knows nothing of the rest: halfway
between copies (1) and columns with a single bit in common (0)."""
SMALLEST = 0.02
"""Share of rows on the smaller side of a split, at least: the correlation of rarer values is mostly chance."""
FEWEST, MOST = 60, 8_000
"""Rows with a value in both columns that it takes (with 30 in each half a correlation has a standard error of at most
.18), and that are looked at."""
TURNS, SOON, SETTLED = 60, 3, 1e-4
"""Turns of the iteration at most; after how many it ends where little is in common; change at which it ends."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedSecret:
    """What reveals the secret of a column."""

    own: Split | None  # How its own tables do; None: by the cells of all other columns
    proxies: dict[str, Split]  # How tables of other columns do


def shared_secrets(
    people: Incidence, columns: tuple[str, ...]
) -> dict[str, tuple[SharedSecret, ...]]:
    """What reveals the secrets of each column, by name: of its values, and who has none if other columns tell that."""
    of_values, nulls = _of_values(people, columns), _of_nulls(people, columns)
    return {name: (of_values[name], *([nulls[name]] if name in nulls else [])) for name in columns}


def _of_nulls(people: Incidence, columns: tuple[str, ...]) -> dict[str, SharedSecret]:
    """Of columns with nulls, whose place or values in other columns are nearly the same rows."""
    leaves = {name: people.leaf(name) for name in columns}
    out = {}
    for name in columns:
        is_null, proxies = people.is_kind(name, KIND_NULL), {}
        if len(is_null) < FEWEST or not SMALLEST <= is_null.mean() <= 1 - SMALLEST:
            continue
        for other in columns:
            rows = np.flatnonzero(leaves[other])
            rows = rows[:: max(len(rows) // MOST, 1)]
            fit, check = rows[::2], rows[1::2]
            n, of_null = (
                np.bincount(leaves[other][fit], weights=weights, minlength=leaves[other].max() + 1)
                for weights in (None, is_null[fit])
            )
            side = (of_null > n / 2)[leaves[other]]
            gain = _correlation(is_null[check].astype(np.float64), side[check].astype(np.float64))
            if other != name and gain >= AGREES:
                proxies[other] = Split(rest=None, gain=gain)
        if proxies:
            own = Split(rest=None, gain=1.0)
            out[name] = SharedSecret(own=own, proxies=proxies)
    return out


def _of_values(people: Incidence, columns: tuple[str, ...]) -> dict[str, SharedSecret]:
    """What reveals the values of each column, by name; rows of nulls and rare values are not looked at."""
    leaves = {
        name: np.where(people.is_kind(name, KIND_NULL, KIND_OTHER), 0, people.leaf(name))
        for name in columns
    }
    out = {name: SharedSecret(own=None, proxies={}) for name in columns}
    strongest = dict.fromkeys(columns, 0.0)
    for one, other in combinations(columns, 2):
        found = _common(leaves[one], leaves[other])
        if found is None:
            continue
        gain, is_alone, sides = found
        for target, proxy, own, split in ((one, other, *sides), (other, one, *sides[::-1])):
            rest = _rest(leaves[proxy], split) if is_alone else None
            out[target].proxies[proxy] = Split(rest=rest, gain=gain)
            if gain > strongest[target]:
                strongest[target] = gain
                mine = _rest(leaves[target], own) if is_alone else None
                out[target] = SharedSecret(
                    own=None if mine is None else Split(rest=mine, gain=1.0),
                    proxies=out[target].proxies,
                )
    return out


def _common(
    one: Int64Array, other: Int64Array
) -> tuple[float, bool, tuple[BoolArray, BoolArray]] | None:
    """Correlation of the splits of two columns, whether it is all that they share, and the side of each row in both."""
    rows = np.flatnonzero((one > 0) & (other > 0))
    if len(rows) < FEWEST:
        return None
    rows = rows[:: max(len(rows) // MOST, 1)]
    fit, check = (one[rows[::2]], other[rows[::2]]), (one[rows[1::2]], other[rows[1::2]])
    sizes = int(one.max()) + 1, int(other.max()) + 1
    first = _scores(*fit, sizes, ())
    signs = [score > 0 for score in first]
    bits = [sign[values] for sign, values in zip(signs, check, strict=True)]
    if min(min(bit.mean(), 1 - bit.mean()) for bit in bits) < SMALLEST:
        return None
    gain = _correlation(bits[0].astype(np.float64), bits[1].astype(np.float64))
    if gain < AGREES:
        return None
    second = _scores(*fit, sizes, first)
    scores = [score[values] for score, values in zip(second, check, strict=True)]
    return gain, _correlation(*scores) <= SEVERAL, (signs[0][one], signs[1][other])


def _correlation(one: FloatArray, other: FloatArray) -> float:
    """Correlation of two scores of the same rows; 0 where one is constant."""
    sd = float(one.std() * other.std())
    return float(((one - one.mean()) * (other - other.mean())).mean()) / sd if sd else 0.0


def _scores(
    one: Int64Array, other: Int64Array, sizes: tuple[int, int], without: tuple[FloatArray, ...]
) -> tuple[FloatArray, FloatArray]:
    """Scores of the values of two columns that correlate most, uncorrelated with others."""
    n = [
        np.bincount(values, minlength=size).astype(np.float64)
        for values, size in zip((one, other), sizes, strict=True)
    ]
    score = np.random.default_rng(len(without)).normal(size=sizes[1])
    score, _ = _standard(score, n[1], without[1] if without else None)
    mine, sd = np.zeros(sizes[0]), 0.0
    for turn in range(TURNS):
        before = sd
        mine = np.bincount(one, weights=score[other], minlength=sizes[0]) / np.maximum(n[0], 1)
        mine, _ = _standard(mine, n[0], without[0] if without else None)
        score = np.bincount(other, weights=mine[one], minlength=sizes[1]) / np.maximum(n[1], 1)
        score, sd = _standard(score, n[1], without[1] if without else None)
        if turn >= SOON and (sd < SEVERAL or abs(sd - before) < SETTLED):
            break
    return mine, score


def _standard(
    score: FloatArray, n: FloatArray, without: FloatArray | None
) -> tuple[FloatArray, float]:
    """The same score with mean 0 and variance 1 over the rows, and none of another; and what its sd was."""
    score = score - (score * n).sum() / n.sum()
    if without is not None:
        score = score - without * (score * without * n).sum() / n.sum()
    sd = float(np.sqrt((score**2 * n).sum() / n.sum()))
    return score / max(sd, 1e-12), sd


def _rest(leaves: Int64Array, side: BoolArray) -> Int64Array | None:
    """Which pair of values each row's is of, the k-th most frequent of one side with that of the other; -1: none."""
    n = np.bincount(leaves)
    n[0] = 0
    on = np.zeros(len(n), dtype=bool)
    on[leaves[side]] = True
    rank = np.full(len(n), -1)
    most = len(n)
    for values in (np.flatnonzero(on & (n > 0)), np.flatnonzero(~on & (n > 0))):
        rank[values[np.argsort(-n[values], kind="stable")]] = np.arange(len(values))
        most = min(most, len(values))
    if most < 2:
        return None
    rank[rank >= most] = -1
    return rank[leaves]
