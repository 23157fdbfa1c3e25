"""Rows near to targets: the tree, the search and the rules, against joint distributions that are known."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import SpecError
from engine.fit.joint.ipf import sampled
from engine.fit.joint.margins import Target
from engine.fit.joint.search import nearer_rows, support_rows
from engine.levels import StructuralZero

SIZES = {"A": 3, "B": 4, "C": 2, "D": 5}
COLUMNS = tuple(SIZES)


def joint(sizes: dict[str, int], seed: int = 0, power: float = 3.0) -> np.ndarray:
    """A full table with strong dependencies, of sum 1."""
    p = np.random.default_rng(seed).random(tuple(sizes.values())) ** power
    return p / p.sum()


def targets_of(p: np.ndarray, columns: tuple[str, ...], sets, n: float) -> list[Target]:
    found = []
    for held in sets:
        out = tuple(i for i, name in enumerate(columns) if name not in held)
        found.append(Target(columns=tuple(held), n=n * p.sum(axis=out)))
    return found


def pairs_of(p: np.ndarray, columns: tuple[str, ...], n: float) -> list[Target]:
    return targets_of(p, columns, combinations(columns, 2), n)


def apart(rows: np.ndarray, target: Target, columns: tuple[str, ...]) -> float:
    """Sum of absolute differences as a share of the rows."""
    axes = tuple(columns.index(name) for name in target.columns)
    have = np.zeros(target.n.shape)
    np.add.at(have, tuple(rows[:, axis] for axis in axes), 1)
    return float(np.abs(have - target.n * (len(rows) / target.n.sum())).sum() / len(rows))


def farthest(rows: np.ndarray, targets: list[Target], columns: tuple[str, ...]) -> float:
    return max(apart(rows, target, columns) for target in targets)


def support(targets, sizes, n_rows, zeros=(), seed=0):
    return support_rows(
        targets,
        tuple(sizes),
        sizes,
        zeros=zeros,
        n_rows=n_rows,
        rng=np.random.default_rng(seed),
    )


def test_pairs_are_met_that_no_tree_of_them_meets():
    p, n = joint(SIZES), 4000
    wanted = pairs_of(p, COLUMNS, n)
    rows = support(wanted, SIZES, n)
    assert farthest(rows, wanted, COLUMNS) < 0.012
    independent = np.random.default_rng(0).choice(p.size, n, p=p.ravel())
    drawn = np.stack(np.unravel_index(independent, p.shape), axis=1)
    assert farthest(rows, wanted, COLUMNS) < farthest(drawn, wanted, COLUMNS) / 2


def zero(columns: str, cells: np.ndarray) -> StructuralZero:
    return StructuralZero(columns=tuple(columns), cells=cells, why="a rule")


@given(st.integers(0, 10_000), st.integers(1, 60))
@settings(max_examples=20)
def test_impossible_combinations_never_appear(seed, n_rows):
    """Not even where the targets, made without the rules, ask for them."""
    rng = np.random.default_rng(seed)
    wide = rng.random((3, 2, 5)) < 0.3
    wide[0] = False
    two = rng.random((4, 2)) < 0.4
    two[1] = False
    one = np.array([False, True, False, False, True])
    rules = [zero("ACD", wide), zero("BC", two), zero("D", one)]
    rows = support(pairs_of(joint(SIZES, seed), COLUMNS, 500), SIZES, n_rows, rules, seed)
    a, b, c, d = rows.T
    assert not wide[a, c, d].any()
    assert not two[b, c].any()
    assert not one[d].any()
    assert len(rows) == n_rows


def test_a_target_of_zero_gets_no_row_where_targets_agree():
    p = joint(SIZES, 4)
    p[:, 0, :, :2] = p[2, :, 1] = 0
    wanted = pairs_of(p / p.sum(), COLUMNS, 3000)
    rows = support(wanted, SIZES, 3000)
    nowhere = sum(
        int((t.n[rows[:, i], rows[:, j]] == 0).sum())
        for t in wanted
        for i, j in [[COLUMNS.index(name) for name in t.columns]]
    )
    assert nowhere <= 3000 * 0.002


def test_targets_that_the_rules_contradict_get_possible_rows():
    """Every row has the first level of one column, and the second of the other; only like levels are possible."""
    ns = {"a": np.array([100.0, 0.0]), "b": np.array([0.0, 100.0])}
    rows = support_rows(
        [Target(columns=(name,), n=n) for name, n in ns.items()],
        ("a", "b"),
        {"a": 2, "b": 2},
        zeros=[StructuralZero(columns=("a", "b"), cells=~np.eye(2, dtype=bool), why="")],
        n_rows=100,
        rng=np.random.default_rng(1),
    )
    assert len(rows) == 100
    assert (rows[:, 0] == rows[:, 1]).all()


@pytest.mark.ci
def test_nothing_possible_is_an_error():
    with pytest.raises(SpecError, match="structural zeros"):
        support(pairs_of(joint(SIZES), COLUMNS, 50), SIZES, 50, [zero("AC", np.ones((3, 2), bool))])


@pytest.mark.parametrize(
    "sizes",
    [{"A": 1}, {"A": 6}, {"A": 1, "B": 1}, {"A": 5, "B": 3}, {"A": 1, "B": 3, "C": 1}],
    ids=str,
)
@pytest.mark.parametrize("n_rows", [0, 1, 700])
def test_few_columns_and_levels(sizes, n_rows):
    columns = tuple(sizes)
    p = joint(sizes)
    wanted = targets_of(p, columns, [columns[:1], columns[-2:]], 700)
    rows = support(wanted, sizes, n_rows)
    assert rows.shape == (n_rows, len(sizes))
    assert rows.dtype == np.int32
    assert (rows < np.array(list(sizes.values()))).all()
    if n_rows == 700:
        assert farthest(rows, wanted, columns) < 0.02


@pytest.mark.ci
def test_same_generator_same_rows():
    wanted = pairs_of(joint(SIZES), COLUMNS, 300)
    np.testing.assert_array_equal(support(wanted, SIZES, 300), support(wanted, SIZES, 300))
    assert (support(wanted, SIZES, 300) != support(wanted, SIZES, 300, seed=1)).any()


def drawn_and_nearer(p, targets, n_rows, zeros=(), seed=0, sizes=SIZES):
    """Rows drawn from a full table, in the order of its cells, and the same brought nearer to targets."""
    rng = np.random.default_rng(seed)
    counts = sampled(p, n_rows, "rounded", rng)
    cells = np.argwhere(counts).astype(np.int32)
    rows = np.repeat(cells, counts[counts > 0], axis=0)
    return rows, nearer_rows(rows, targets, COLUMNS, sizes, zeros=zeros, rng=rng)


def test_drawn_rows_come_near_to_all_margins_and_not_only_to_those_of_the_first_columns():
    sizes = SIZES | {"A": 300}
    p = joint(sizes, power=1.0)
    targets = pairs_of(p, COLUMNS, 700)
    rows, near = drawn_and_nearer(p, targets, 700, seed=4, sizes=sizes)
    last = [target for target in targets if target.columns == ("C", "D")]
    assert farthest(rows, last, COLUMNS) > 0.05
    assert farthest(near, last, COLUMNS) < farthest(rows, last, COLUMNS) / 2
    assert farthest(near, targets, COLUMNS) < farthest(rows, targets, COLUMNS)


def test_no_row_is_changed_to_what_is_impossible():
    p = joint(SIZES, power=1.0)
    cells = np.zeros((3, 4), dtype=bool)
    cells[1, 2:] = True
    zero = StructuralZero(columns=("A", "B"), cells=cells, why="a rule")
    # Targets that want rows there.
    targets = pairs_of(p, COLUMNS, 300)
    p = p * ~cells[:, :, None, None]
    _, near = drawn_and_nearer(p, targets, 300, zeros=(zero,))
    assert not cells[near[:, 0], near[:, 1]].any()
