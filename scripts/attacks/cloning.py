"""The cloning attack: columns that are constant inside a bucket, each a fresh look at one unknown member.

Observers. A bucket A = a holds 25 known persons, all with B = 0, and a victim whose B is the secret. If it is 0, the
buckets (a) and (a, B = 0) hold the same people and differ by label noise alone; if it is 1, by one person and two
draws of the entity-set noise as well. Every further column C that is constant inside the bucket shows the same two
sets of people again under fresh labels, so label noise averages away. A likelihood-ratio attacker is trained on
half of the buckets, with keys of their own, and scored on the other half.

Source: Gadotti, Houssiau, Rocher, Livshits and de Montjoye, "When the signal is in the noise", USENIX Security 2019,
arXiv:1804.06752.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from attacks.trials import Trial, trial_of_rows, trial_of_spec
from engine.schema import BoolArray, Column, ColumnSet, FloatArray, Int64Array
from engine.source import begin_charges
from engine.source.detection import make_spec
from engine.sticky_prf import gaussian_table

KNOWN = 25
"""Members of a bucket of whom the attacker knows all."""
SHRINK = 0.01
"""Share of the spread of all buckets in the covariance of each class: keeps it invertible."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """A share with its 95 % Wilson interval."""

    hits: int
    trials: int

    @property
    def share(self) -> float:
        return self.hits / self.trials

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's score interval, doi:10.1080/01621459.1927.10502953."""
        z, n = 1.959964, self.trials
        centre = (self.hits + z * z / 2) / (n + z * z)
        half = z / (n + z * z) * math.sqrt(self.hits * (n - self.hits) / n + z * z / 4)
        return centre - half, centre + half


@dataclass(frozen=True, kw_only=True, slots=True)
class CloneScore:
    clones: int  # Columns that are constant inside every bucket
    locked: Rate  # From the published tables
    unlocked: Rate  # From the measurements before the fit: the positive control
    theory: float  # What the control must reach; see `clone_theory`


@dataclass(frozen=True, kw_only=True, slots=True)
class _World:
    """Made-up rows: 26 persons in each bucket, the first of whom is the victim."""

    codes: dict[str, Int64Array]
    tables: tuple[ColumnSet, ...]
    clones: tuple[str, ...]
    secret: BoolArray
    shown: Int64Array  # shape (n_clones, n_buckets): the value of each clone in each bucket


def clone_accuracy(
    clones: int, *, releases: int = 16, buckets: int = 128, seed: int = 0
) -> CloneScore:
    """Run the attack on releases under keys of their own; the first half trains, the second is scored.

    Tables: A, B and every clone C, AB, AC, BC and ABC. Each bucket of a release has a victim of its own: so many trials
    at once. The attacker knows the 25 others in a bucket and nobody else.
    """
    seen: dict[str, list[FloatArray]] = {"locked": [], "unlocked": []}
    secrets = []
    for number in range(releases):
        world = _world(clones, buckets, np.random.default_rng([seed, number]))
        trial = trial_of_rows(world.codes, world.tables, 1 + number + 1_000_003 * (1 + seed))
        secrets.append(world.secret)
        seen["locked"].append(_features(world, partial(_published, trial)))
        seen["unlocked"].append(_features(world, partial(_measured, trial)))
    secret = np.concatenate(secrets)
    rates = {}
    for side, features in seen.items():
        x = np.concatenate(features)
        # With all figures, and with the difference that theory looks at: the better one counts.
        tried = [likelihood_ratio(part, secret) for part in (x, x[:, :1])]
        rates[side] = max(tried, key=lambda rate: rate.hits)
    return CloneScore(clones=clones, theory=clone_theory(clones + 1), **rates)


def _world(clones: int, buckets: int, rng: np.random.Generator) -> _World:
    """Rows of one release."""
    bucket = np.repeat(np.arange(buckets), KNOWN + 1)
    secret = rng.random(buckets) < 0.5
    b = np.zeros(len(bucket), dtype=np.int64)
    b[:: KNOWN + 1] = secret
    names = tuple(f"c{i:02d}" for i in range(clones))
    shown = rng.integers(0, 2, (clones, buckets))
    columns = {"a": bucket, "b": b, **{c: shown[i][bucket] for i, c in enumerate(names)}}
    tables: list[ColumnSet] = [("a",), ("b",), ("a", "b")]
    for c in names:
        tables += [(c,), ("a", c), ("b", c), ("a", "b", c)]
    return _World(codes=columns, tables=tuple(tables), clones=names, secret=secret, shown=shown)


def _features(world: _World, table: Callable[[ColumnSet], FloatArray]) -> FloatArray:
    """What is seen of each bucket: its cells without clones, and their means over the clones; shape (n_buckets, 10).

    The difference of (a) and (a, 0), each a mean over all tables that show it; (a), (a, 0), (a, 1); the means over the
    clones of (a, c), (a, 0, c), (a, 1, c); the same three for the value of the clone that nobody in the bucket has.
    """
    n = len(world.secret)
    at = np.arange(n)
    ab = table(("a", "b"))[:n]
    sums = np.zeros((n, 6))
    for c, shown in zip(world.clones, world.shown, strict=True):
        ac, abc = table(("a", c))[:n], table(("a", "b", c))[:n]
        for side, value in enumerate((shown, 1 - shown)):
            sums[:, 3 * side] += ac[at, value]
            sums[:, 3 * side + 1] += abc[at, 0, value]
            sums[:, 3 * side + 2] += abc[at, 1, value]
    m = len(world.clones)
    own = np.column_stack([table(("a",))[:n], ab[:, 0], ab[:, 1]])
    both = (own[:, :2] + sums[:, :2]) / (m + 1)
    return np.column_stack([both[:, 0] - both[:, 1], own, sums / max(m, 1)])


def _published(trial: Trial, columns: ColumnSet) -> FloatArray:
    table = trial.tables[columns]
    codes = [trial.supports[c].grid[table.codes[:, j]] for j, c in enumerate(columns)]
    return _dense(trial, columns, codes, table.n)


def _measured(trial: Trial, columns: ColumnSet) -> FloatArray:
    """The noisy counts of released single cells before the fit as a dense array over codes; 0 where none is."""
    tree = trial.measurements[columns]
    cell = (tree.level == 0).all(axis=1) & (tree.depth == tree.depth.max(initial=0))
    return _dense(trial, columns, list(tree.index[cell].T), tree.n[cell])


def _dense(trial: Trial, columns: ColumnSet, codes: list[Int64Array], n: Int64Array) -> FloatArray:
    shape = [int(trial.truth[(c,)].codes.max()) + 1 for c in columns]
    out = np.zeros(shape)
    out[tuple(codes)] = n
    return out


def likelihood_ratio(features: FloatArray, secret: BoolArray) -> Rate:
    """Train a Gaussian likelihood ratio on the first half, score it on the second.

    Two are trained, with one covariance for both secrets and with one for each; the better on the half scored
    counts, which favours the attacker.
    """
    half = len(secret) // 2
    spread = np.maximum(features[:half].std(axis=0), 1e-9)
    scaled = features / spread
    train, test = (scaled[:half], secret[:half]), scaled[half:]
    guesses = [_log_ratio(train, test, common) > 0 for common in (True, False)]
    best = max(int((guess == secret[half:]).sum()) for guess in guesses)
    return Rate(hits=best, trials=len(secret) - half)


def _log_ratio(train: tuple[FloatArray, BoolArray], test: FloatArray, common: bool) -> FloatArray:
    x, secret = train
    classes = [x[~secret], x[secret]]
    pooled = _covariance(np.concatenate([c - c.mean(axis=0) for c in classes]))
    wide = np.diag(np.maximum(np.diag(pooled), 1e-6))
    out = np.zeros(len(test))
    for sign, own in zip((-1.0, 1.0), classes, strict=True):
        covariance = pooled if common else _covariance(own)
        covariance = (1 - SHRINK) * covariance + SHRINK * wide
        off = test - own.mean(axis=0)
        distance = (off @ np.linalg.inv(covariance) * off).sum(axis=1)
        out -= sign * (distance + np.linalg.slogdet(covariance)[1]) / 2
    return out


def _covariance(x: FloatArray) -> FloatArray:
    covariance: FloatArray = np.atleast_2d(np.cov(x.T))
    return covariance


def clone_theory(looks: int) -> float:
    """Accuracy of the best attacker on unlocked counts who sees both sets of people `looks` times.

    The difference of means is N(0, 2 / looks) where the secret is 0; where it is 1, 1 + the difference of two draws of
    the entity-set layer (whole numbers) + the same label noise. One look is .63; the limit is .89, the chance that
    the two draws hide the person being .22.
    """
    thresholds = gaussian_table(0)[1]
    edges = np.concatenate([[0.0], thresholds.astype(np.float64) / 2.0**64, [1.0]])
    one = np.diff(edges)
    difference = np.convolve(one, one[::-1])
    shift = np.arange(len(difference)) - (len(one) - 1) + 1
    sd = math.sqrt(2 / looks)
    x = np.linspace(-12, 14, 200_001)
    same = np.exp(-np.square(x / sd) / 2)
    other = sum(
        p * np.exp(-np.square((x - k) / sd) / 2) for p, k in zip(difference, shift, strict=True)
    )
    better = np.maximum(same, other) / (sd * math.sqrt(2 * math.pi))
    return float(better.sum() * (x[1] - x[0]) / 2)


# Relabelled copies: a column A names groups of 26 people, the first of whom is a victim whose B is the secret; the
# attacker knows the 25 others, all with B = 0. Every copy of A calls each group by another name, and the tables
# (copy, B) show the same sets of people again.

How = Literal["declared", "found", "apart"]
NAMES = 1_024
"""Names that a copy may give to a group: the synthetic ones are among them too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Copies:
    """Made-up rows, and what every copy calls each group."""

    frame: pd.DataFrame
    secret: BoolArray
    names: dict[str, Int64Array]


def copy_accuracy(
    copies: int, *, how: How, releases: int = 16, groups: int = 128, seed: int = 0
) -> Rate:
    """Run the attack, with so many relabelled copies of A beside A; releases and groups as in `clone_accuracy`.

    "declared": the spec says that A determines them and they determine A; "found": the engine finds them; "apart": the
    control, all are measured as if they were other columns.
    """
    seen, secrets = [], []
    for number in range(releases):
        world = _copies_of(copies, groups, np.random.default_rng([seed, number]))
        trial = _trial(world, how, 1 + number + 1_000 * seed)
        seen.append(_of_copies(world, trial))
        secrets.append(world.secret)
    x, secret = np.concatenate(seen), np.concatenate(secrets)
    # With all figures, and with the two that theory looks at: the better one counts.
    tried = [likelihood_ratio(part, secret) for part in (x, x[:, :2])]
    return max(tried, key=lambda rate: rate.hits)


def _copies_of(copies: int, groups: int, rng: np.random.Generator) -> _Copies:
    """Rows of one release."""
    secret = rng.random(groups) < 0.5
    group = np.repeat(np.arange(groups), KNOWN + 1)
    b = np.zeros(len(group), dtype=np.int64)
    b[:: KNOWN + 1] = secret
    names = {"a": np.arange(groups)}
    names |= {f"c{i:02d}": rng.permutation(NAMES)[:groups] for i in range(copies)}
    columns = {"b": b, **{name: of[group] for name, of in names.items()}}
    return _Copies(frame=pd.DataFrame(columns), secret=secret, names=names)


def _trial(world: _Copies, how: How, number: int) -> Trial:
    """What is published of it."""
    with tempfile.TemporaryDirectory() as folder:
        key, path = Path(folder) / "key", Path(folder) / "people.parquet"
        key.write_bytes(number.to_bytes(32, "little"))
        key.chmod(0o600)
        begin_charges(key)
        world.frame.to_parquet(path)
        columns = [Column(name=c, kind="integer", value_type="integer") for c in world.frame]
        if how == "declared":
            others = set(world.names)
            columns = [
                replace(c, determines=tuple(sorted(others - {c.name}))) if c.name in others else c
                for c in columns
            ]
        tables = [table for c in world.names for table in ([c], ["b", c])]
        spec = make_spec(path, tables=[["b"], *tables], key=key, columns=columns, entities=[])
        return trial_of_spec(spec, apart=how == "apart")


def _of_copies(world: _Copies, trial: Trial) -> FloatArray:
    """What is seen of each group: its two cells with B, and its size, by A and on average over all columns."""
    seen = [
        np.column_stack(
            [*(_counts(trial, name, called, b) for b in (0, 1)), _sizes(trial, name, called)]
        )
        for name, called in world.names.items()
    ]
    means = np.mean(seen, axis=0)
    return np.column_stack([means[:, :2], seen[0], means])


def _counts(trial: Trial, name: str, called: Int64Array, b: int) -> FloatArray:
    """Rows of each group that have this B, by one column's table."""
    columns: ColumnSet = tuple(sorted(("b", name)))
    table = trial.tables[columns]
    codes = {c: trial.supports[c].grid[table.codes[:, j]] for j, c in enumerate(columns)}
    out = np.zeros(NAMES)
    out[codes[name][codes["b"] == b]] = table.n[codes["b"] == b]
    return out[called]


def _sizes(trial: Trial, name: str, called: Int64Array) -> FloatArray:
    """Rows of each group, by one column's own table."""
    table = trial.tables[name,]
    out = np.zeros(NAMES)
    out[trial.supports[name].grid[table.codes[:, 0]]] = table.n
    return out[called]
