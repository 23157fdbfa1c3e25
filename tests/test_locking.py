from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from fit_fixture import Fits, gaussian, margin, margins
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import locking, places
from engine.candidates import Candidates, Margin
from engine.locking import prior_weights, spread, sub_tables
from engine.places import UNRELEASED_CAP, Places, place_candidates
from engine.ranges import code_bounds
from engine.schema import KIND_NEGATIVE, KIND_NULL, NULL_CODE
from engine.tree import FittedTree

NAMES = ("A", "B", "C", "D")
EVERY_SET = [cs for k in (1, 2, 3, 4) for cs in combinations(NAMES, k)]


def random_data(seed: int, n: int) -> dict[str, np.ndarray]:
    """Four columns of 4, 7, 3 and 5 values: two independent, one that follows from A, one with nulls."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 4, n)
    b = np.minimum(a + rng.integers(0, 6, n) ** 2 // 4, 8) - 2
    d = np.where(rng.random(n) < 0.3, NULL_CODE, rng.integers(0, 5, n) * 3)
    return {"A": a, "B": b, "C": a // 2 * 5, "D": d}


def noisy(seed: int, n: int = 150, **settings) -> Fits:
    options = {"threshold": 4, "noise": gaussian(seed), "floor": 3, "layer_sd": 1} | settings
    return Fits(random_data(seed, n), **options)


DATA = st.integers(1, 60).flatmap(
    lambda n: st.fixed_dictionaries(
        {
            "A": st.lists(st.integers(-3, 4), min_size=n, max_size=n),
            "B": st.lists(st.integers(0, 9), min_size=n, max_size=n),
            "C": st.lists(st.sampled_from([NULL_CODE, 0, 1, 17]), min_size=n, max_size=n),
            "D": st.lists(st.integers(0, 1), min_size=n, max_size=n),
        }
    )
)


@given(DATA)
@settings(max_examples=40, deadline=None)
def test_noise_off_and_nothing_suppressed_returns_the_data(data):
    fits = Fits(data)
    for columns in EVERY_SET:
        assert fits.counts(*columns) == fits.truth(*columns), columns
        assert fits.table(*columns).measured.all()
        assert fits.table(*columns).gap == 0


def test_noise_off_returns_large_data_too():
    fits = Fits(random_data(5, 5000))
    for columns in EVERY_SET:
        assert fits.counts(*columns) == fits.truth(*columns), columns


@given(st.integers(0, 10**6), st.integers(5, 200))
@settings(max_examples=40, deadline=None)
def test_margins_of_noisy_suppressed_tables(seed, n):
    fits = noisy(seed, n)
    for columns in EVERY_SET:
        table = fits.table(*columns)
        if any(not len(fits.alphabets[c]) for c in columns):
            assert table.n_rows == 0
            continue
        assert table.n_rows == n
        assert (table.n > 0).all()
        if len(columns) == 1:
            continue
        have = margins(fits.counts(*columns), len(columns))
        gaps = []
        for sub, got in zip(sub_tables(columns), have, strict=True):
            wanted = fits.counts(*sub)
            gaps += [abs(got.get(c, 0) - wanted.get(c, 0)) for c in got.keys() | wanted.keys()]
        assert table.gap == max(gaps)
        if len(columns) == 2:
            assert table.gap == 0
        cells = [tuple(c) for c in table.letters.tolist()]
        assert cells == sorted(set(cells))


def test_gap_of_three_columns_is_mostly_one_at_most():
    gaps = [noisy(seed, 400).table("A", "B", "D").gap for seed in range(20)]
    assert np.mean(np.array(gaps) <= 1) >= 0.8
    assert max(gaps) <= 3


def test_other_tables_and_their_order_change_nothing():
    alone = noisy(3).table("B", "D")
    crowd = noisy(3)
    for columns in reversed(EVERY_SET):
        crowd.table(*columns)
    again = crowd.table("B", "D")
    assert (alone.letters == again.letters).all()
    assert (alone.n == again.n).all()


def test_functionally_dependent_column_stays_so_where_cells_are_released():
    rng = np.random.default_rng(1)
    a = rng.integers(0, 6, 600)
    fits = Fits({"A": a, "C": a // 2}, threshold=4, noise=gaussian(1), floor=3, layer_sd=1)
    wrong = sum(n for (x, y), n in fits.counts("A", "C").items() if y != x // 2)
    assert wrong <= 12  # noise of twelve 1-way counts has to go somewhere
    assert fits.table("A", "C").gap == 0


def test_one_cell():
    fits = Fits({"A": np.full(9, 3), "B": np.full(9, -1), "C": np.full(9, NULL_CODE)}, threshold=5)
    table = fits.table("A", "B", "C")
    assert fits.counts("A", "B", "C") == {(3, -1, None): 9}
    assert table.groups.n.tolist() == [9]
    assert table.measured.tolist() == [True]


def test_all_null_column_changes_nothing_of_the_others():
    data = random_data(2, 120)
    fits = Fits({"A": data["A"], "B": data["B"], "Z": np.full(120, NULL_CODE)})
    assert {c[:2]: n for c, n in fits.counts("A", "B", "Z").items()} == fits.counts("A", "B")


def test_nothing_released_gives_empty_tables():
    fits = Fits({"A": np.arange(4), "B": np.arange(4), "C": np.arange(4)}, threshold=5)
    for columns in (("A",), ("A", "B"), ("A", "B", "C")):
        table = fits.table(*columns)
        assert len(table.n) == 0
        assert table.letters.shape == (0, len(columns))
        assert len(table.groups.n) == 0
        assert table.gap == 0


def test_column_without_released_values_empties_its_tables_and_the_gap_says_so():
    a = np.repeat([0, 1], 20)
    b = np.where(np.arange(40) % 2, 1, -1) * (1 << np.arange(40) % 20)  # nothing of B ...
    fits = Fits({"A": a, "B": b}, threshold=25)  # ... passes, not even a sign
    assert fits.table("A").n_rows == 40
    assert fits.table("B").n_rows == 0
    assert fits.table("A", "B").n_rows == 0
    assert fits.table("A", "B").gap == max(fits.table("A").n)


def test_columns_known_as_released_and_wider_table_wholly_suppressed():
    # Every value of both columns passes, no combination does: the product of the 1-ways.
    a, b = np.divmod(np.arange(16), 4)
    fits = Fits({"A": a, "B": b}, threshold=4)
    tree = fits.measurement(("A", "B"))
    assert not (tree.level == 0).all(axis=1).any()
    table = fits.table("A", "B")
    assert table.n_rows == 16
    assert not table.measured.any()
    assert margins(fits.counts("A", "B"), 2) == [{(v,): 4 for v in range(4)}] * 2


@given(st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_pairs_ruled_out_below_stay_ruled_out_but_for_leftovers(seed):
    fits = noisy(seed, 200)
    wide = fits.counts("A", "B", "D")
    ruled_out = 0
    for kept, sub in (((0, 1), ("A", "B")), ((0, 2), ("A", "D")), ((1, 2), ("B", "D"))):
        narrow = fits.counts(*sub)
        ruled_out += sum(n for c, n in margin(wide, kept).items() if c not in narrow)
    assert ruled_out <= fits.table("A", "B", "D").gap * 20
    if fits.table("A", "B", "D").gap == 0:
        assert ruled_out == 0


@pytest.mark.parametrize("seed", range(6))
def test_sampled_support_locks_too(seed, monkeypatch):
    monkeypatch.setattr(locking, "PAIR_LIMIT", 0)
    fits = noisy(seed, 400)
    for columns in combinations(NAMES, 2):
        table = fits.table(*columns)
        assert table.n_rows == 400
        assert table.gap == 0
    fits = Fits(random_data(seed, 400))
    for columns in combinations(NAMES, 2):
        assert fits.counts(*columns) == fits.truth(*columns)


def test_sampled_support_of_long_alphabets(monkeypatch):
    monkeypatch.setattr(locking, "PAIR_LIMIT", 1000)
    rng = np.random.default_rng(0)
    x = rng.integers(0, 500, 3000)
    y = np.abs(x + rng.integers(-60, 60, 3000))
    fits = Fits({"X": x, "Y": y}, threshold=5, noise=gaussian(4), floor=3, layer_sd=1)
    table = fits.table("X", "Y")
    assert len(fits.alphabets["X"]) * len(fits.alphabets["Y"]) > 100_000
    assert table.n_rows == 3000
    assert table.gap == 0
    # Rows stay near the diagonal, where the boxes say they are.
    far = sum(n for (a, b), n in fits.counts("X", "Y").items() if abs(a - b) > 130)
    assert far < 0.05 * 3000


@given(st.integers(0, 10**6), st.integers(5, 150))
@settings(max_examples=25, deadline=None)
def test_cell_groups_add_up_and_hold_their_cells(seed, n):
    fits = noisy(seed, n)
    for columns in (("B",), ("A", "D"), ("A", "B", "D")):
        table = fits.table(*columns)
        tree = fits.measurement(columns)
        groups = table.groups
        assert groups.n.sum() == table.n_rows
        assert groups.n[groups.measured].sum() == table.n[table.measured].sum()
        assert (groups.n > 0).all()
        single = (groups.low == groups.high).all(axis=1)
        assert single[groups.measured].all()
        assert groups.noise_sd == pytest.approx(np.full(len(groups.n), 2**0.5))
        released = {
            tuple(map(tuple, np.column_stack([k, c]).tolist()))
            for k, c in zip(
                tree.kind, code_bounds(tree.kind, tree.level, tree.index)[0], strict=True
            )
        }
        for g in np.flatnonzero(groups.measured):
            assert (
                tuple(zip(groups.kind[g].tolist(), groups.low[g].tolist(), strict=True)) in released
            )


def test_cell_groups_by_hand():
    # 0 and 1 pass with 6 rows, 6..7 as a range with 3; of 4..7 that leaves 2 rows, in 4..5.
    fits = Fits({"A": np.repeat([0, 1, 4, 6, 7], [6, 6, 2, 1, 2])}, threshold=3, floor=3)
    groups = fits.table("A").groups
    assert groups.n.tolist() == [2, 3, 6, 6]
    assert groups.measured.tolist() == [False, False, True, True]
    assert groups.low[:, 0].tolist() == [4, 6, 0, 1]
    assert groups.high[:, 0].tolist() == [7, 7, 0, 1]
    assert groups.noise_sd.tolist() == [0, 0, 0, 0]


def test_rows_outside_every_released_bucket_have_a_group_of_their_own():
    # Each value passes in A and in B, the pair of nulls does not, and no top bucket holds it.
    a = np.array([0] * 12 + [NULL_CODE] * 6)
    b = np.array([0] * 8 + [NULL_CODE] * 4 + [0] * 4 + [NULL_CODE] * 2)
    fits = Fits({"A": a, "B": b}, threshold=3)
    groups = fits.table("A", "B").groups
    outside = (groups.low > groups.high).all(axis=1)
    assert groups.n[outside].tolist() == [2]
    assert (groups.kind[outside] == KIND_NEGATIVE).all()
    assert fits.counts("A", "B") == fits.truth("A", "B")


@given(DATA, st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_places_equal_brute_force(data, threshold):
    fits = Fits(data, threshold=threshold)
    columns = ("A", "B", "C")
    alphabets = tuple(fits.alphabets[c] for c in columns if fits.table(c) is not None)
    tree = fits.measurement(columns)
    sizes = [len(a) for a in alphabets]
    letters = np.indices(sizes).reshape(3, -1).T.astype(np.int32)
    places = place_candidates(tree, alphabets, letters)
    low, high = code_bounds(tree.kind, tree.level, tree.index)
    for row, letter in enumerate(letters):
        kind = [a.kind[i] for a, i in zip(alphabets, letter, strict=True)]
        code = [a.code[i] for a, i in zip(alphabets, letter, strict=True)]
        holds = (tree.kind == kind).all(axis=1) & ((low <= code) & (code <= high)).all(axis=1)
        deepest = np.flatnonzero(holds)[-1] + 1 if holds.any() else 0
        assert places.node[row] == deepest
        single = bool(deepest) and bool((tree.level[deepest - 1] == 0).all())
        assert places.released[row] == single


def test_prior_weights_by_hand():
    fits = Fits({"A": [0, 0, 1, 1, 1], "B": [0, 1, 0, 1, 1], "C": [2, 2, 2, 3, 3]})
    fits.table("A", "B", "C")
    alphabets = tuple(fits.alphabets[c] for c in "ABC")
    pair = Candidates(
        letters=np.array([[1, 0]], dtype=np.int32),
        margins=(
            Margin(of=np.array([1]), n=alphabets[0].n),
            Margin(of=np.array([0]), n=alphabets[1].n),
        ),
    )
    assert prior_weights(pair, alphabets[:2]).tolist() == [3 * 2]
    triple = Candidates(
        letters=np.array([[1, 1, 1]], dtype=np.int32),
        margins=tuple(Margin(of=np.array([0]), n=np.array([n])) for n in (2, 5, 7)),
    )
    assert prior_weights(triple, alphabets).tolist() == [2 * 5 * 7 / (3 * 3 * 2)]


def places_of(node, released):
    return Places(node=np.array(node), released=np.array(released))


def unsure(mass, remainder):
    return FittedTree(mass=mass, remainder=remainder, variance=np.ones(len(mass)))


def test_spread_by_hand():
    fitted = unsure(np.array([20.0, 10.0, 10.0]), np.array([0.0, 0.0, 6.0]))
    places = places_of([1, 2, 2], [True, False, False])
    x = spread(fitted, places, np.array([1.0, 1.0, 2.0]))
    assert x == pytest.approx([10, 2, 4], abs=0.1)


def test_spread_caps_cells_that_were_not_released():
    fitted = unsure(np.array([10.0, 10.0]), np.array([0.0, 10.0]))
    places = places_of([1, 1, 1], [False] * 3)
    x = spread(fitted, places, np.array([98.0, 1.0, 1.0]))
    assert x == pytest.approx([UNRELEASED_CAP, 2.75, 2.75], abs=0.1)
    # More than the box can hold: it keeps its mass.
    heavy = unsure(np.array([30.0, 30.0]), np.array([0.0, 30.0]))
    full = spread(heavy, places, np.array([1.0, 1.0, 1.0]))
    assert full.sum() == pytest.approx(30, abs=0.1)


def test_spread_without_candidates():
    fitted = unsure(np.array([5.0]), np.array([5.0]))
    assert (
        spread(fitted, places_of(np.zeros(0, int), np.zeros(0, bool)), np.zeros(0)).tolist() == []
    )


def test_null_is_one_letter():
    fits = noisy(8)
    fits.table("D")
    assert np.count_nonzero(fits.alphabets["D"].kind == KIND_NULL) == 1


def test_a_released_cell_is_as_near_as_its_margins_let_it():
    off = []
    for seed in range(25):
        fits = noisy(seed, 800)
        have, truth = fits.counts("A", "B"), fits.truth("A", "B")
        table = fits.table("A", "B")
        listed = list(have)
        off += [have[listed[i]] - truth.get(listed[i], 0) for i in np.flatnonzero(table.measured)]
    assert abs(np.mean(off)) < 0.25
    assert np.std(off) < 2.2


def test_places_are_found_where_combinations_are_too_many_for_one_number(monkeypatch):
    fits, columns = Fits(random_data(3, 400)), ("A", "B", "C")
    table, tree = fits.table(*columns), fits.measurement(columns)
    alphabets = tuple(fits.alphabets[name] for name in columns)
    plain = place_candidates(tree, alphabets, table.letters)
    monkeypatch.setattr(places, "KEY_LIMIT", 4)
    numbered = place_candidates(tree, alphabets, table.letters)
    assert (plain.node > 0).any()
    np.testing.assert_array_equal(plain.node, numbered.node)
    np.testing.assert_array_equal(plain.released, numbered.released)
