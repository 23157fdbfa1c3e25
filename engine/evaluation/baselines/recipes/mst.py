"""MST by Private-PGM: one-way counts with noise, a tree of pairs chosen in private, their counts with noise, a model.

McKenna, Miklau and Sheldon, "Winning the NIST contest", arXiv:2108.04978, algorithm 1, with the estimation of the
package `mbi` (McKenna, Sheldon and Miklau 2019, arXiv:1901.09136). Usage: python mst.py IN OUT SEED [EPSILON].
The values of a column are taken from the data and count as public; numbers of many values are put into groups of as
many values each. Noise is of floats: a baseline for comparisons, not for releases.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

DELTA = 1e-9
GROUPS = 50
ITERATIONS = 2_000
Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


def main(source: str, target: str, seed: int, epsilon: float) -> None:
    frame = pd.read_csv(source, keep_default_na=False, na_values=[""], dtype=str).apply(_typed)
    rng = np.random.default_rng(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 (mbi draws from it)
    values = [_values(frame[c]) for c in frame]
    codes = np.column_stack([_coded(frame[c], v) for c, v in zip(frame, values, strict=True)])
    sizes = [min(len(v), GROUPS) if _is_wide(v) else len(v) for v in values]
    rows = synthesised(codes, sizes, epsilon, rng)
    out = {c: _decoded(rows[:, j], values[j], rng) for j, c in enumerate(frame)}
    pd.DataFrame(out).to_csv(target, index=False)


def synthesised(
    codes: Codes, sizes: Sequence[int], epsilon: float, rng: np.random.Generator
) -> Codes:
    third = _rho(epsilon, DELTA) / 3
    sd = (1 / (2 * third)) ** 0.5
    n, width = codes.shape
    own = sd * width**0.5
    counts = [
        np.bincount(codes[:, j], minlength=s) + rng.normal(0, own, s) for j, s in enumerate(sizes)
    ]
    # Values whose count is lost in the noise are one, as in the paper.
    maps = [_compressed(c, 3 * own) for c in counts]
    small = np.column_stack([m[codes[:, j]] for j, m in enumerate(maps)])
    ones = [np.bincount(m, c).astype(np.float64) for m, c in zip(maps, counts, strict=True)]
    spread = [own * np.bincount(m) ** 0.5 for m in maps]
    pairs = _tree(small, ones, third, rng)
    wide = sd * max(len(pairs), 1) ** 0.5
    rows = _modelled(small, ones, spread, pairs, wide, n, rng)
    return np.column_stack([_expanded(rows[:, j], m, rng) for j, m in enumerate(maps)])


def _rho(epsilon: float, delta: float) -> float:
    """The zero-concentrated budget that gives (epsilon, delta) (Bun and Steinke 2016, proposition 1.3)."""
    rest = np.log(1 / delta)
    return float(((rest + epsilon) ** 0.5 - rest**0.5) ** 2)


def _tree(
    codes: Codes, ones: Sequence[Floats], rho: float, rng: np.random.Generator
) -> list[tuple[int, int]]:
    """Pairs of columns that make a tree, each chosen by the exponential mechanism: those far from independent."""
    width = codes.shape[1]
    shares = [np.maximum(c, 0) / max(np.maximum(c, 0).sum(), 1) for c in ones]
    worth = {}
    for a, b in itertools.combinations(range(width), 2):
        true = np.bincount(
            codes[:, a] * len(ones[b]) + codes[:, b], minlength=len(ones[a]) * len(ones[b])
        )
        worth[a, b] = float(
            np.abs(true - len(codes) * np.outer(shares[a], shares[b]).ravel()).sum()
        )
    part = list(range(width))
    chosen: list[tuple[int, int]] = []
    budget = (8 * rho / max(width - 1, 1)) ** 0.5
    while len(chosen) < width - 1:
        open_pairs = [p for p in worth if part[p[0]] != part[p[1]]]
        # One row moves the distance by 2 at most.
        score = np.array([worth[p] for p in open_pairs]) * budget / 4
        at = int(
            rng.choice(
                len(open_pairs), p=np.exp(score - score.max()) / np.exp(score - score.max()).sum()
            )
        )
        a, b = open_pairs[at]
        chosen.append((a, b))
        part = [part[a] if p == part[b] else p for p in part]
    return chosen


def _modelled(
    codes: Codes,
    ones: Sequence[Floats],
    spread: Sequence[Floats],
    pairs: list[tuple[int, int]],
    sd: float,
    n: int,
    rng: np.random.Generator,
) -> Codes:
    import jax

    jax.config.update("jax_enable_x64", True)
    from mbi import Domain, LinearMeasurement
    from mbi.estimation import MirrorDescent

    names = [str(j) for j in range(codes.shape[1])]
    domain = Domain(names, [len(c) for c in ones])
    found = [
        LinearMeasurement(c, (name,), stddev=float(np.mean(s)))
        for c, name, s in zip(ones, names, spread, strict=True)
    ]
    for a, b in pairs:
        shape = (len(ones[a]), len(ones[b]))
        true = np.bincount(codes[:, a] * shape[1] + codes[:, b], minlength=shape[0] * shape[1])
        noisy = true + rng.normal(0, sd, len(true))
        found.append(LinearMeasurement(noisy, (names[a], names[b]), stddev=sd))
    model = MirrorDescent().estimate(domain, found, iters=ITERATIONS)
    data = model.synthetic_data(rows=n).to_dict()
    return np.column_stack([np.asarray(data[name], np.int64) for name in names])


def _compressed(counts: Floats, least: float) -> Codes:
    """A code for each value, those of small counts together in the last."""
    small = counts < least
    codes = np.cumsum(~small) - 1
    return np.asarray(np.where(small, (~small).sum(), codes), np.int64)


def _expanded(codes: Codes, mapped: Codes, rng: np.random.Generator) -> Codes:
    """One of the values of each code, all alike."""
    order = np.argsort(mapped, kind="stable")
    size = np.bincount(mapped)
    start = np.cumsum(size) - size
    return np.asarray(order[start[codes] + rng.integers(size[codes])], np.int64)


def _typed(texts: pd.Series) -> pd.Series:
    """Numbers where all texts are such; codes keep their zeros: 01 is a text."""
    numbers = pd.to_numeric(texts, errors="coerce")
    is_code = texts.str.match(r"[-+]?0\d").any()
    return texts if is_code or (numbers.isna() & texts.notna()).any() else numbers


def _values(column: pd.Series) -> list[object]:
    """Distinct values in their order, a blank last."""
    there = sorted(column.dropna().unique())
    return [*there, None] if column.isna().any() else there


def _is_wide(values: list[object]) -> bool:
    return len(values) > GROUPS and not any(isinstance(v, str) for v in values)


def _groups(values: list[object]) -> Codes:
    at = np.arange(len(values))
    return at * GROUPS // len(values) if _is_wide(values) else at


def _coded(column: pd.Series, values: list[object]) -> Codes:
    blank = len(values) - 1
    places = {v: i for i, v in enumerate(values) if v is not None}
    return np.asarray(
        _groups(values)[column.map(places).fillna(blank).to_numpy(np.int64)], np.int64
    )


def _decoded(codes: Codes, values: list[object], rng: np.random.Generator) -> pd.Series:
    """One of the values of each group, all alike."""
    return pd.Series([values[i] for i in _expanded(codes, _groups(values), rng)], dtype=object)


if __name__ == "__main__":
    main(
        sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]) if len(sys.argv) > 4 else 1.0
    )
