"""Rows near to targets: the tree, the search and the rules, against joint distributions that are known."""

from __future__ import annotations

from itertools import combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import SpecError
from engine.fit.joint import row_search as search_module
from engine.fit.joint import support_rows as support_module
from engine.fit.joint.chow_liu import mutual_information, spanning_tree, tree_rows
from engine.fit.joint.row_search import BARRED, Goal, Sweep, changes_apart, counted, search_rows
from engine.fit.joint.sampling import sampled
from engine.fit.joint.support_rows import nearer_rows, support_rows
from engine.fit.joint.target import Target
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


def test_mutual_information_by_hand():
    assert mutual_information(np.array([[2.0, 0.0], [0.0, 2.0]])) == pytest.approx(np.log(2))
    assert mutual_information(np.outer([1.0, 2.0, 3.0], [4.0, 5.0])) == pytest.approx(0, abs=1e-12)
    assert mutual_information(np.zeros((2, 3))) == 0


@given(st.integers(0, 10_000), st.integers(2, 5))
@settings(max_examples=40)
def test_the_tree_is_the_largest_of_all(seed, n):
    weights = np.random.default_rng(seed).random((n, n))
    weights = np.triu(weights, 1) + np.triu(weights, 1).T
    tree = spanning_tree(weights)
    assert [child for child, parent in tree if parent < 0] == [tree[0][0]]
    for place, (_, parent) in enumerate(tree[1:], 1):
        assert parent in {child for child, _ in tree[:place]}
    found = sum(weights[child, parent] for child, parent in tree if parent >= 0)
    edges = list(combinations(range(n), 2))
    best = max(
        sum(weights[i, j] for i, j in chosen)
        for chosen in combinations(edges, n - 1)
        if spans(chosen, n)
    )
    assert found == pytest.approx(best)


def spans(edges, n: int) -> bool:
    reached = {0}
    for _ in range(n):
        reached |= {b for a, b in edges if a in reached} | {a for a, b in edges if b in reached}
    return len(reached) == n


def test_tree_rows_meet_the_tables_of_the_tree_to_a_row_a_cell():
    """The exact joint distribution is a chain A - B - C: its pairs are its tree."""
    n = 1000
    ab, c_of_b = joint({"A": 3, "B": 4}), joint({"B": 4, "C": 2}, 1)
    c_of_b = c_of_b / c_of_b.sum(axis=1, keepdims=True)
    p = ab[:, :, np.newaxis] * c_of_b[np.newaxis]
    singles = [n * p.sum(axis=(1, 2)), n * p.sum(axis=(0, 2)), n * p.sum(axis=(0, 1))]
    pairs = {(0, 1): n * p.sum(axis=2), (1, 2): n * p.sum(axis=0), (0, 2): n * p.sum(axis=1)}
    rows = tree_rows(singles, pairs, (), n, np.random.default_rng(0))
    for (i, j), wanted in pairs.items():
        have = np.zeros(wanted.shape)
        np.add.at(have, (rows[:, i], rows[:, j]), 1)
        assert np.abs(have - wanted).max() < (3 if (i, j) != (0, 2) else 25)


def test_tree_rows_keep_rules_wherever_a_level_is_allowed():
    """The pair asks for A = B alone. Where that is barred B follows its own counts; where all is, the pair."""
    pair = np.diag([30.0, 40.0, 50.0])
    singles = [pair.sum(axis=1), pair.sum(axis=0)]
    bars = np.zeros((3, 3), bool)
    bars[0, 0] = bars[2] = True
    rows = tree_rows(singles, {(0, 1): pair}, [((0, 1), bars)], 1200, np.random.default_rng(0))
    a, b = rows.T
    np.testing.assert_allclose(np.bincount(a), [300, 400, 500], atol=1)
    np.testing.assert_allclose(np.bincount(b[a == 0], minlength=3), [0, 133, 167], atol=2)
    assert (b[a == 1] == 1).all()
    assert (b[a == 2] == 2).all()


def test_pairs_are_met_where_a_tree_does_not_meet_them():
    p, n = joint(SIZES), 4000
    wanted = pairs_of(p, COLUMNS, n)
    singles = [n * p.sum(axis=tuple(i for i in range(4) if i != k)) for k in range(4)]
    pairs = {(COLUMNS.index(t.columns[0]), COLUMNS.index(t.columns[1])): t.n for t in wanted}
    tree = tree_rows(singles, pairs, (), n, np.random.default_rng(0))
    rows = support(wanted, SIZES, n)
    assert farthest(tree, wanted, COLUMNS) > 0.1
    assert farthest(rows, wanted, COLUMNS) < 0.012
    independent = np.random.default_rng(0).choice(p.size, n, p=p.ravel())
    drawn = np.stack(np.unravel_index(independent, p.shape), axis=1)
    assert farthest(rows, wanted, COLUMNS) < farthest(drawn, wanted, COLUMNS) / 2


def test_wider_targets_are_met_too():
    p, n = joint(SIZES, 2), 4000
    wide = targets_of(p, COLUMNS, [("A", "B", "D"), ("B", "C", "D")], n)
    rows = support(wide, SIZES, n)
    without = support(pairs_of(p, COLUMNS, n), SIZES, n)
    assert farthest(rows, wide, COLUMNS) < 0.03
    assert farthest(without, wide, COLUMNS) > 2 * farthest(rows, wide, COLUMNS)


def test_parity_that_no_pair_shows_is_found_from_a_wide_target():
    """C says whether A and B are alike: all pairs are independent, so the tree tells nothing."""
    cells = np.zeros((2, 2, 2))
    for a, b in product(range(2), repeat=2):
        cells[a, b, int(a == b)] = 250
    rows = support([Target(columns=("A", "B", "C"), n=cells)], {"A": 2, "B": 2, "C": 2}, 1000)
    assert ((rows[:, 0] == rows[:, 1]) == (rows[:, 2] == 1)).mean() > 0.97


def zero(columns: str, cells: np.ndarray) -> StructuralZero:
    return StructuralZero(columns=tuple(columns), cells=cells, why="a rule")


@given(st.integers(0, 10_000), st.integers(1, 60))
@settings(max_examples=60)
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


def test_rules_on_shared_columns_add_up():
    first, second = np.zeros((3, 4), bool), np.zeros((3, 4), bool)
    first[0, 0] = second[2, 3] = True
    rows = support(
        pairs_of(joint(SIZES), COLUMNS, 900),
        SIZES,
        900,
        [zero("AB", first), zero("AB", second), zero("ZA", np.ones((2, 3), bool))],
    )
    assert not (first | second)[rows[:, 0], rows[:, 1]].any()


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


def test_a_row_that_is_stuck_becomes_one_that_is_possible(monkeypatch):
    """Without sweeps, rows of the tree that broke a rule are replaced; where all did, by one of many others."""
    never = np.ones((3, 3, 3), bool)
    never[2, 2, 2] = False
    chance = np.random.default_rng(3).random(27).reshape(3, 3, 3)
    sizes = {"A": 3, "B": 3, "C": 3}
    wanted = pairs_of(chance / chance.sum(), ("A", "B", "C"), 300)
    monkeypatch.setattr(support_module, "SWEEPS", ())
    for n_rows in (1, 2, 300):
        rows = support(wanted, sizes, n_rows, [zero("ABC", never)])
        assert (rows == 2).all()
        assert len(rows) == n_rows


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


def test_columns_in_no_target_are_even_and_totals_do_not_matter():
    wanted = [Target(columns=("B",), n=np.array([3.0, 1.0]))]
    rows = support(wanted, {"A": 4, "B": 2}, 400)
    np.testing.assert_allclose(np.bincount(rows[:, 0]), 100, atol=3)
    np.testing.assert_allclose(np.bincount(rows[:, 1]), [300, 100], atol=3)
    even = support([Target(columns=("B",), n=np.zeros(2))], {"B": 2}, 10)
    assert np.bincount(even[:, 0]).tolist() == [5, 5]


def test_columns_of_a_target_may_come_in_any_order():
    p = joint({"A": 3, "B": 4})
    turned = [Target(columns=("B", "A"), n=500 * p.T)]
    rows = support(turned, {"A": 3, "B": 4}, 500)
    assert apart(rows, Target(columns=("A", "B"), n=500 * p), ("A", "B")) < 0.02
    never = np.zeros((4, 3), bool)
    never[3, 0] = True
    rows = support(turned, {"A": 3, "B": 4}, 500, [zero("BA", never)])
    assert not ((rows[:, 1] == 3) & (rows[:, 0] == 0)).any()


def test_same_generator_same_rows():
    wanted = pairs_of(joint(SIZES), COLUMNS, 300)
    np.testing.assert_array_equal(support(wanted, SIZES, 300), support(wanted, SIZES, 300))
    assert (support(wanted, SIZES, 300) != support(wanted, SIZES, 300, seed=1)).any()


def goal(axes, n, barred=None, weight=1.0) -> Goal:
    cells = np.zeros(n.shape, bool) if barred is None else barred
    return Goal(axes=axes, n=n, weight=np.full(n.shape, weight), barred=cells)


def error_of(rows: np.ndarray, goals: list[Goal]) -> float:
    """The search's criterion, counted anew."""
    total = 0.0
    for one in goals:
        have = np.zeros(one.n.shape)
        np.add.at(have, tuple(rows[:, axis] for axis in one.axes), 1)
        total += float((one.weight * (have - one.n) ** 2 + BARRED * one.barred * have).sum())
    return total


@pytest.mark.parametrize("barred", [False, True])
def test_without_chance_a_row_takes_the_value_that_all_errors_say(barred):
    """One row a batch, no heat: every step must be the best of all values, counted anew."""
    rng = np.random.default_rng(5)
    sizes = (3, 1, 4, 2)
    rows = np.stack([rng.integers(0, s, 9) for s in sizes], axis=1).astype(np.int32)
    bars = rng.random((3, 4)) < 0.2 if barred else None
    goals = [
        goal((0, 2), rng.random((3, 4)) * 4, bars),
        goal((3,), rng.random(2) * 9, weight=2.5),
        goal((0, 2, 3), rng.random((3, 4, 2)) * 3, weight=0.5),
    ]
    found = search_rows(rows, goals, sizes, [Sweep(heat=0, share=1.0)], np.random.default_rng(8))
    twin, slow = np.random.default_rng(8), rows.copy()
    for (row,) in np.array_split(twin.permutation(9), 9):
        for column in twin.permutation(np.array([0, 2, 3])).tolist():
            errors = []
            for value in range(sizes[column]):
                slow[row, column], before = value, slow[row, column]
                errors.append(error_of(slow, goals))
                slow[row, column] = before
            slow[row, column] = int(np.argmin(errors))
            twin.random(1)  # which changes are made: all
    np.testing.assert_array_equal(found, slow)
    assert error_of(found, goals) < error_of(rows, goals)


APART = Sweep(heat=0, share=1.0, is_apart=True)


@given(st.integers(0, 10_000), st.integers(0, 90))
@settings(max_examples=60, deadline=None)
def test_changes_that_are_apart_never_raise_the_error(seed, n_rows):
    """All rows are one batch and want the same: together they overshoot, changes apart do not."""
    rng = np.random.default_rng(seed)
    sizes = (3, 7, 2)
    rows = np.stack([rng.integers(0, s, n_rows) for s in sizes], axis=1).astype(np.int32)
    rows = np.tile(rows, (7, 1))
    goals = [
        goal((1,), rng.random(7) * n_rows * 2),
        goal((0, 1), rng.random((3, 7)) * n_rows / 3, weight=0.5),
        goal((0, 2), rng.random((3, 2)) * n_rows),
    ]
    errors = [error_of(rows, goals)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_module, "BATCHES", 1)
        patch.setattr(search_module, "MOST_AT_ONCE", 10_000)
        for i in range(4):
            rows = search_rows(rows, goals, sizes, [APART], np.random.default_rng(i))
            errors.append(error_of(rows, goals))
    assert all(later <= before + 1e-3 for before, later in pairwise(errors))


def test_rows_whose_margin_is_right_to_the_unit_keep_it_while_another_comes_near():
    """As a systematic draw leaves them: the first column is right, the second is not."""
    rng = np.random.default_rng(3)
    n = rng.integers(50, 150, 90)
    rows = np.stack([np.repeat(np.arange(90), n), rng.integers(0, 2, n.sum())], axis=1)
    goals = [
        goal((0,), n + rng.uniform(-0.5, 0.5, 90)),
        goal((1,), np.array([0.47, 0.53]) * n.sum()),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            search_module, "BATCHES", 20
        )  # of some 450 rows, of which a share would overshoot
        found = search_rows(rows.astype(np.int32), goals, (90, 2), [APART] * 40, rng)
    assert np.abs(counted(found, goals[0]) - n).max() <= 1
    assert np.abs(counted(found, goals[1]) - goals[1].n).max() < 1
    assert np.abs(counted(rows, goals[1]) - goals[1].n).min() > 100  # in which a fault would show


def test_changes_of_one_batch_that_are_apart_share_no_value():
    rng = np.random.default_rng(2)
    none = np.zeros(40, dtype=bool)
    for _ in range(50):
        now, best = rng.integers(0, 9, (2, 40))
        moved = np.flatnonzero(now != best)
        chosen = changes_apart(moved, now, best, none)
        values = [*now[chosen], *best[chosen]]
        assert len({*values}) == len(values) > 0
    two = np.array([0, 1])
    assert changes_apart(two, np.array([0, 1]), np.array([1, 0]), none).tolist() == [
        0
    ]  # they change places
    barred = np.array([True, True])  # which are changed in any case
    assert changes_apart(two, np.array([0, 0]), np.array([1, 1]), barred).tolist() == [0, 1]


def test_rows_stay_as_they_are_where_another_value_is_as_good():
    rows = np.array([[0], [1], [2], [3], [3], [2]], np.int32)
    goals = [goal((0,), np.full(4, 1.5))]
    found = search_rows(rows, goals, (4,), [APART] * 5, np.random.default_rng(0))
    assert (found == rows).all()


def test_an_impossible_row_leaves_also_where_changes_are_apart():
    rows = np.array([[0, 0]] * 5 + [[2, 2]] * 40, np.int32)
    never = np.zeros((3, 3), bool)
    never[2, 2] = True
    goals = [goal((0, 1), np.full((3, 3), 5.0), never)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_module, "BATCHES", 1)  # of which one alone might change else
        found = search_rows(rows, goals, (3, 3), [APART], np.random.default_rng(0))
    assert not never[tuple(found.T)].any()


def test_counts_of_a_goal():
    rows = np.array([[0, 1], [0, 1], [2, 0]], np.int32)
    have = counted(rows, goal((0, 1), np.zeros((3, 2))))
    assert have.tolist() == [[0, 2], [0, 0], [1, 0]]


def test_only_rows_that_are_impossible_change_where_no_share_of_changes_is_made():
    rows = np.array([[0, 0], [1, 1], [2, 2], [0, 0]], np.int32)
    never = np.zeros((3, 3), bool)
    never[2, 2] = True
    found = search_rows(
        rows,
        [goal((0, 1), np.full((3, 3), 4 / 9), never)],
        (3, 3),
        [Sweep(heat=0, share=0.0)],
        np.random.default_rng(0),
    )
    np.testing.assert_array_equal(found[[0, 1, 3]], rows[[0, 1, 3]])
    assert not never[tuple(found.T)].any()


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


def test_a_column_that_the_draw_meets_stays_right_while_others_come_near():
    """Many rows of few values a batch: a share of all changes would overshoot."""
    sizes = SIZES | {"A": 60}
    p = joint(sizes, power=0.3)
    targets = pairs_of(p, COLUMNS, 40_000)
    rows, near = drawn_and_nearer(p, targets, 40_000, seed=4, sizes=sizes)
    whole = 40_000 * p.sum(axis=(1, 2, 3))
    off = np.bincount(near[:, 0], minlength=60) - whole
    assert np.abs(np.bincount(rows[:, 0], minlength=60) - whole).max() <= 1
    assert np.abs(off).max() <= 1.5


def test_rows_that_meet_the_margins_stay_as_they_are():
    whole = np.arange(3 * 4 * 2 * 5).reshape(3, 4, 2, 5) % 4
    targets = pairs_of(whole / whole.sum(), COLUMNS, int(whole.sum()))
    rows, near = drawn_and_nearer(whole, targets, int(whole.sum()))
    assert (rows == near).all()


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


@given(st.integers(0, 10_000), st.integers(0, 60))
@settings(max_examples=30, deadline=None)
def test_as_many_rows_of_levels_that_there_are_come_out(seed, n_rows):
    p = joint(SIZES, seed)
    targets = pairs_of(p, COLUMNS, max(n_rows, 1))
    rows, near = drawn_and_nearer(p, targets, n_rows, seed=seed)
    assert near.shape == rows.shape
    assert near.dtype == np.int32
    assert ((near >= 0) & (near < [*SIZES.values()])).all()
    again = drawn_and_nearer(p, targets, n_rows, seed=seed)[1]
    assert (near == again).all()
