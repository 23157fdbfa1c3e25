"""Attacks on releases. Each is also run where it must win, its positive control: else its failure proves nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from attacks.cloning import CloneScore, Rate, clone_accuracy, clone_theory
from attacks.trials import trial_of_rows, trial_of_spec
from fixtures.count_attacks import measured_figures, published_figures
from fixtures.measure import EXACT
from fixtures.pipeline import write_spec

from engine.evaluation.attacks.strong import Averaging
from engine.evaluation.attacks.strong import averaged as averaging
from engine.schema import KIND_NONNEGATIVE, Int64Array
from engine.spec import read_spec

# Averaging: one count out of many tables.


def random_columns(n_columns: int, n: int, seed: int) -> dict[str, np.ndarray]:
    """Independent columns of 2 to 10 values, as in the reference's exact-count attack."""
    rng = np.random.default_rng(seed)
    return {f"x{j:02d}": rng.integers(0, rng.integers(2, 11), n) for j in range(n_columns)}


def averaged(keys: int, tables, columns, *, n=1500, n_columns=8, **more):
    """The attack on published tables, and the same on the measurements."""
    published, unlocked = [], []
    for number in range(keys):
        trial = trial_of_rows(random_columns(n_columns, n, number), tables, 1 + number, **more)
        published += [published_figures(trial, (name,)) for name in columns]
        unlocked += [measured_figures(trial, name) for name in columns]
    return averaging(published), averaging(unlocked)


def sampling_error(share: float, n: int) -> float:
    return math.sqrt(share * (1 - share) / n)


def check_averaging(locked: Averaging, unlocked: Averaging, reach: float) -> None:
    """Nothing to gain from a release; much from the same counts unlocked."""
    assert unlocked.gain <= reach
    assert max(unlocked.exact.values()) >= unlocked.exact["alone"] + 0.05
    assert locked.gain >= 0.99
    few = 2 * sampling_error(0.36, locked.counts)
    assert max(locked.exact.values()) <= 0.36 + few
    assert locked.sd_alone * (1 + 2 / math.sqrt(2 * locked.counts)) >= 1.1


@pytest.mark.ci
@pytest.mark.parametrize("keys", [3, pytest.param(6, marks=pytest.mark.slow)])
def test_averaging_all_tables_gains_nothing(keys):
    """8 columns, all 92 tables of at most 3; every count of every column: about 50 counts a key."""
    names = [f"x{j:02d}" for j in range(8)]
    tables = [t for width in (1, 2, 3) for t in combinations(names, width)]
    check_averaging(*averaged(keys, tables, names), reach=0.8)


def dependent_columns(seed: int) -> dict[str, np.ndarray]:
    """Six columns of 2,000 people that all lean on one thing, with rare combinations."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=2000)
    steps = [z * (0.5 + 0.3 * j) + 1.2 * rng.normal(size=2000) for j in range(5)]
    columns = {f"x{j}": np.clip(np.round(s + 3), 0, 7).astype(int) for j, s in enumerate(steps)}
    return columns | {"x5": rng.geometric(0.3, 2000)}


def test_averaging_does_not_find_the_cells_of_two_columns_either():
    """Never upward: a cell of {A, B} is no nearer to the truth in the mean of the tables {A, B, C}."""
    names = [f"x{j}" for j in range(6)]
    tables = [t for width in (1, 2, 3) for t in combinations(names, width)]
    found = []
    for number in range(2):
        trial = trial_of_rows(dependent_columns(number), tables, 1 + number)
        found += [published_figures(trial, pair) for pair in combinations(names, 2)]
    locked = averaging(found)
    assert locked.counts > 1000
    assert locked.gain >= 0.99
    # The control: the same tables with noise of their own on each cell, as large as a measured cell's.
    rng = np.random.default_rng(1)
    apart = [
        replace(f, seen=f.truth + np.rint(rng.normal(0, 2**0.5, f.seen.shape)).astype(int))
        for f in found
    ]
    assert averaging(apart).gain <= 0.6


@pytest.mark.ci
def test_the_noise_that_stays_in_a_one_way_count():
    """Over 1,000 counts of 20 keys: sd at least 1.1, at most 36 % exact. With noise off both say so."""
    names = [f"x{j:02d}" for j in range(10)]
    found, _ = averaged(20, [(name,) for name in names], names, n_columns=10)
    assert found.counts > 1000
    assert found.sd_alone >= 1.1
    assert found.exact["alone"] <= 0.36
    none, _ = averaged(2, [(name,) for name in names], names, n_columns=10, draws=EXACT)
    assert (none.sd_alone, none.exact["alone"]) == (0.0, 1.0)


CODES = ["1000", "1790", "2010", "2310", "3100", "3101", "4444", "5550", "5559", "7123", "7129"]
"""Some have no others that begin alike: their prefixes of every length are the same people."""


def coded_trial(folder, kind: str, number: int):
    """The release of 1,500 people's codes, sexes and another column, and what is true."""
    rng = np.random.default_rng(3)
    share = 1 / np.arange(1, len(CODES) + 1)
    frame = pd.DataFrame({"code": rng.choice(CODES, 1500, p=share / share.sum())})
    frame["sex"], frame["more"] = rng.choice(["f", "m"], 1500), rng.integers(0, 5, 1500)
    frame.to_csv(folder / "people.csv", index=False)
    columns = {name: {"kind": kind if name == "code" else "category"} for name in frame}
    tables = [t for w in (1, 2, 3) for t in combinations(sorted(frame), w) if "code" in t]
    path = write_spec(
        folder, "people.csv", columns, tables, entities=(), release={"vintage": f"v{number}"}
    )
    return trial_of_spec(read_spec(path)), frame["code"].value_counts()


def depths_of(trial, truth) -> list[tuple[int, Int64Array]]:
    """Of every code its true number, and the noisy counts of all depths that show the same people."""
    tree, values = trial.measurements["code",], trial.supports["code"].values
    low = tree.index[:, 0] << tree.level[:, 0].astype(np.int64)
    high = low + (1 << tree.level[:, 0].astype(np.int64)) - 1
    found = []
    for text, n in truth.items():
        at = next((c for c, v in values.items() if v == text), None) if values else int(text)
        others = values or {int(one): one for one in truth.index}
        around = (low <= at) & (at <= high) & (tree.kind[:, 0] == KIND_NONNEGATIVE)
        held = [sum(lo <= o <= hi for o in others) for lo, hi in zip(low, high, strict=True)]
        found.append((int(n), tree.n[around & (np.array(held) == 1)]))
    return found


@pytest.mark.ci
def test_averaging_the_lengths_of_a_prefix_gains_nothing(tmp_path):
    """Depths that show the same people: few of texts, as one prefix gives way to the other, many of numbers."""
    deepest, published, spread = {}, [], {}
    for kind in ("text", "integer"):
        means, n_depths = [], []
        for number in range(12):
            trial, truth = coded_trial(tmp_path, kind, number)
            of_each = depths_of(trial, truth)
            means += [counts.mean() - n for n, counts in of_each]
            n_depths += [len(counts) for _, counts in of_each]
            if kind == "text":
                published += [published_figures(trial, ("code",))]
        deepest[kind], spread[kind] = max(n_depths), float(np.std(means))
    assert deepest["text"] <= 2 < deepest["integer"]
    assert spread["text"] >= 1.1  # the half of the noise that the people name stays: 1
    found = averaging(published)
    assert found.counts > 100
    assert found.gain >= 0.99
    assert found.sd_alone >= 1.1


# Cloning: columns constant inside a bucket (A3).


def test_theory_of_cloning():
    """The published figures of the noise model, two layers of sd 1: .63, .73, .83, .90 for 1, 4, 16, 64 looks."""
    for looks, accuracy in ((1, 0.63), (4, 0.73), (16, 0.83), (64, 0.90)):
        assert clone_theory(looks) == pytest.approx(accuracy, abs=0.015)


@cache
def clone_score(clones: int, seeds: tuple[int, ...] = (0,), **more) -> CloneScore:
    """The attack on several sets of people, its trials added up."""
    found = [clone_accuracy(clones, seed=seed, **more) for seed in seeds]
    locked, unlocked = (
        Rate(hits=sum(r.hits for r in rates), trials=sum(r.trials for r in rates))
        for rates in ([f.locked for f in found], [f.unlocked for f in found])
    )
    return replace(found[0], locked=locked, unlocked=unlocked)


def check_cloning(clones: int, **more) -> None:
    found = clone_score(clones, **more)
    told = f"{found.locked.share:.3f} {found.locked.interval}, unlocked {found.unlocked.share:.3f}"
    # The control: theory's attacker looks at one difference only, so that ours may do better.
    assert found.unlocked.interval[1] >= found.theory, told
    assert found.unlocked.share <= 0.89 + 3 * sampling_error(0.89, found.unlocked.trials), told
    assert found.locked.share <= 0.65, told  # the figure asked for


@pytest.mark.ci
def test_cloning_gains_nothing():
    check_cloning(8, releases=8, buckets=256)


@pytest.mark.ci
def test_cloning_wins_where_tables_are_not_locked():
    """The control in one picture: unlocked counts tell more with every column, and far more than is allowed."""
    few, many = (clone_score(n, releases=8, buckets=256).unlocked for n in (0, 8))
    assert many.interval[0] > 0.75
    assert many.interval[0] > few.interval[1] + 0.05
