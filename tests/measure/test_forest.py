from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from fixtures.measure import (
    EXACT,
    NO_BOUND,
    ONE_ROW,
    STICKY,
    Noiseless,
    boundaries,
    cells_of,
    grown,
    nodes_of,
    sticky,
    tokens_of,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracles.forest_oracle import grow_slowly

from engine.mechanism import EntitySets, RowBounds, grow
from engine.schema import KIND_NEGATIVE, KIND_NONNEGATIVE, NULL_CODE, OTHER_CODE

HUGE = 2**63 - 2
COLUMNS = ("A", "B", "C", "D")
TOKENS = (tokens_of(40, 1), tokens_of(7, 2))

codes = st.one_of(
    st.integers(-3, 12),
    st.sampled_from([NULL_CODE, OTHER_CODE, HUGE, -HUGE, 2**40, -(2**32), 63, 64]),
)


@st.composite
def inputs(draw):
    """(rows, columns, tops, tokens, additive): every row one entity, several rows an entity, or two kinds."""
    n_columns = draw(st.integers(1, 4))
    tops = draw(st.tuples(*[st.sampled_from([0, 1, 3, 4, 7, 63])] * n_columns))
    # few distinct cells, so that nodes fill up past the threshold
    support = draw(st.lists(st.tuples(*[codes] * n_columns), min_size=1, max_size=6))
    chosen = draw(st.lists(st.integers(0, len(support) - 1), max_size=36))
    kind = draw(st.sampled_from(["rows", "many", "rows and many", "many and many"]))
    own = draw(st.integers(1, 9))
    rows = []
    for number, which in enumerate(chosen):
        many = draw(st.integers(0, own)) % 7
        entities = {"rows": (number,), "many": (many,), "rows and many": (number, many)}
        rows.append((support[which], entities.get(kind, (number % 13, many))))
    two = kind in ("rows and many", "many and many")
    tokens = TOKENS if two else (TOKENS[1],) if kind == "many" else (TOKENS[0],)
    additive = {"rows": (True,), "many": (False,), "rows and many": (True, False)}
    return rows, COLUMNS[:n_columns], tops, tokens, additive.get(kind, (False, False))


DRAWS = [
    EXACT,
    Noiseless(threshold=3),
    STICKY,
]


BOUNDS = [
    NO_BOUND,
    RowBounds(most=1, of_values={}),
    RowBounds(most=2, of_values={}),
    RowBounds(most=16, of_values={"A": 1, "C": 4}),
    RowBounds(most=4, of_values={"B": 2}),
]


def check(rows, columns, tops, tokens, additive, draws):
    for bounds in [*BOUNDS, *([ONE_ROW] if all(additive) else [])]:
        found = grown(rows, columns, tops, tokens, additive, draws, bounds)
        check_one(found, grow_slowly(rows, tops, tokens, draws, columns, bounds), tops)


def check_one(found, expected, tops):
    assert nodes_of(found) == expected
    assert len(nodes_of(found)) == found.n_nodes
    for array, dtype in (
        (found.depth, np.uint8), (found.kind, np.uint8), (found.level, np.uint8),
        (found.index, np.int64), (found.parent, np.int64), (found.n, np.int64), (found.scale, np.int64),
    ):  # fmt: skip
        assert array.dtype == dtype
    assert found.kind.shape == found.level.shape == found.index.shape == (found.n_nodes, len(tops))
    assert len(found.scale) == max(tops) + 1
    assert np.all(np.diff(found.depth.astype(int)) >= 0)
    inner = found.depth > 0
    assert np.all(found.depth[found.parent[inner]] == found.depth[inner] - 1)
    assert np.all(np.diff(found.parent[inner]) >= 0)
    return found


@pytest.mark.ci
@pytest.mark.parametrize("draws", DRAWS, ids=["all", "hard", "sticky"])
@given(drawn=inputs())
@settings(max_examples=6)
@example(drawn=([], ("A",), (3,), (TOKENS[0],), (True,)))
@example(drawn=([], ("A", "B"), (0, 63), (TOKENS[1],), (False,)))
@example(drawn=([((5,), (0,))], ("A",), (63,), (TOKENS[0],), (True,)))
@example(drawn=([((5, -5, NULL_CODE), (0,))], ("A", "B", "C"), (2, 0, 5), (TOKENS[0],), (True,)))
@example(
    drawn=(
        [((NULL_CODE, NULL_CODE), (i,)) for i in range(9)],
        ("A", "B"),
        (2, 4),
        TOKENS[:1],
        (True,),
    )
)
@example(
    drawn=([((OTHER_CODE, 3), (0,)) for _ in range(12)], ("A", "B"), (2, 4), TOKENS[1:], (False,))
)
@example(drawn=([((HUGE,), (i,)) for i in range(9)], ("A",), (63,), TOKENS[:1], (True,)))
@example(
    drawn=([((-HUGE, HUGE), (i,)) for i in range(9)], ("A", "B"), (63, 63), TOKENS[:1], (True,))
)
@example(
    drawn=(
        [((-1 - i % 2, i % 3), (i,)) for i in range(30)],
        ("A", "B"),
        (1, 2),
        TOKENS[:1],
        (True,),
    )
)
def test_the_forest_is_its_slow_twin(draws, drawn):
    check(*drawn, draws)


@given(drawn=inputs(), seed=st.integers(0, 99))
@settings(max_examples=20)
def test_the_order_of_rows_never_matters(drawn, seed):
    rows, *rest = drawn
    order = np.random.default_rng(seed).permutation(len(rows))
    one = grown(rows, *rest, STICKY)
    other = grown([rows[i] for i in order], *rest, STICKY)
    assert list(nodes_of(one).items()) == list(nodes_of(other).items())


def test_by_hand():
    """Ages 1 1 1 4 4 -2 null null at top 3, hard threshold 2."""
    ages = [1, 1, 1, 4, 4, -2, NULL_CODE, NULL_CODE]
    rows = [((age,), (i,)) for i, age in enumerate(ages)]
    found = nodes_of(
        grown(rows, ("AGE",), (3,), (TOKENS[0],), (True,), Noiseless(threshold=2), ONE_ROW)
    )
    null, whole = ((0, 0, 0),), ((2, 3, 0),)
    left, right = ((2, 2, 0),), ((2, 2, 1),)
    assert found == {
        (0, null): (2, None, 1), (1, null): (2, null, 1), (2, null): (2, null, 1), (3, null): (2, null, 1),
        (0, whole): (5, None, 1),
        (1, left): (3, whole, 1), (1, right): (2, whole, 1),
        (2, ((2, 1, 0),)): (3, left, 1), (2, ((2, 1, 2),)): (2, right, 1),
        (3, ((2, 0, 1),)): (3, ((2, 1, 0),), 1), (3, ((2, 0, 4),)): (2, ((2, 1, 2),), 1),
    }  # fmt: skip


def test_same_people_same_set_noise_in_every_table():
    """A bucket of one column, split by a constant one: another label, the same people."""

    @dataclass(frozen=True)
    class OnlySets(Noiseless):
        def set_noise(self, sets, log2_scale):
            return STICKY.set_noise(sets, log2_scale)

    rows = [((i % 3,), (i,)) for i in range(39)]
    wide = [((i % 3, 7), (i,)) for i in range(39)]
    one = nodes_of(grown(rows, ("A",), (2,), TOKENS[:1], (True,), OnlySets()))
    two = nodes_of(grown(wide, ("A", "B"), (2, 0), TOKENS[:1], (True,), OnlySets()))
    for value in range(3):
        assert one[2, ((2, 0, value),)][0] == two[2, ((2, 0, value), (2, 0, 7))][0]
    labels = nodes_of(grown(wide, ("A", "B"), (2, 0), TOKENS[:1], (True,), STICKY))
    plain = nodes_of(grown(rows, ("A",), (2,), TOKENS[:1], (True,), STICKY))
    assert any(labels[2, ((2, 0, v), (2, 0, 7))][0] != plain[2, ((2, 0, v),)][0] for v in range(3))


def test_a_node_passes_only_below_passing_ones():
    """With a threshold that forgets the root, nothing below is shown."""

    @dataclass(frozen=True)
    class OnlySmall(Noiseless):
        def passes(self, sets: EntitySets):
            return sets.size <= 4

    rows = [((i % 2,), (i,)) for i in range(8)]
    assert grown(rows, ("A",), (1,), TOKENS[:1], (True,), OnlySmall()).n_nodes == 0
    assert grown(rows[:4], ("A",), (1,), TOKENS[:1], (True,), OnlySmall()).n_nodes == 3


def test_nothing_is_shown_below_a_node_that_fails_beside_one_that_passes():
    """0 to 1 hold five rows and fail; 2 to 3 hold four and pass, and so do all four values."""

    @dataclass(frozen=True)
    class NotFive(Noiseless):
        def passes(self, sets: EntitySets):
            return sets.size != 5

    values = (0, 0, 0, 1, 1, 2, 2, 3, 3)
    rows = [((value,), (i,)) for i, value in enumerate(values)]
    found = nodes_of(grown(rows, ("A",), (2,), TOKENS[:1], (True,), NotFive()))
    assert {(depth, label) for depth, label in found} == {
        (0, ((2, 2, 0),)), (1, ((2, 1, 1),)), (2, ((2, 0, 2),)), (2, ((2, 0, 3),)),
    }  # fmt: skip


# --- entities, not rows --------------------------------------------------------------------------------------


def visits(per_entity: dict[int, int], code: int = 3):
    return [((code,), (e,)) for e, n in per_entity.items() for _ in range(n)]


@pytest.mark.parametrize("size", [1, 2])
def test_one_or_two_entities_are_never_shown(size):
    """Beside 20 others, so that everything above their value passes."""
    rows = [((0,), (i,)) for i in range(20)] + [((3,), (20 + i,)) for i in range(size)]
    cells = cells_of(rows, ("A",), TOKENS[:1], (True,))
    for number in range(80):
        found = grow(cells, (2,), sticky(number), ONE_ROW)
        assert found.n_nodes
        assert not (found.index[found.level[:, 0] < 2, 0] > 0).any()


def test_three_entities_are_shown_as_often_as_theory_says():
    """40 values of 3 entities each under 60 keys, end to end through the forest."""
    tokens = (tokens_of(120, 9),)
    rows = [((i // 3 * 1024,), (i,)) for i in range(120)]
    cells = cells_of(rows, ("A",), tokens, (True,))
    shown = sum(
        int((grow(cells, (0,), sticky(number), ONE_ROW).level == 0).sum()) for number in range(60)
    )
    p, n = 0.5 * math.erfc(2 / math.sqrt(2)), 40 * 60
    assert abs(shown - n * p) < 4 * math.sqrt(n * p * (1 - p))


def test_two_kinds_of_entity_must_both_pass():
    rows = [((1,), (i, 0)) for i in range(30)] + [((2,), (30 + i, 1 + i % 5)) for i in range(10)]
    tokens, additive = TOKENS, (True, False)
    hard = Noiseless(threshold=3)
    both = nodes_of(grown(rows, ("A",), (0,), tokens, additive, hard))
    assert list(both) == [(0, ((2, 0, 2),))]  # 30 people of one household are not shown
    alone = grown([(c, e[:1]) for c, e in rows], ("A",), (0,), tokens[:1], (True,), hard)
    assert alone.n_nodes == 2
    for number in range(40):
        found = grown(rows, ("A",), (0,), tokens, additive, sticky(number))
        assert 1 not in found.index


def test_the_noise_is_that_of_all_kinds_together():
    """Who is named first does not matter; one person less of a household that stays draws anew."""
    rows = [((1,), (i, i // 6)) for i in range(40)]
    bounds = RowBounds(most=4, of_values={})
    found = grown(rows, ("A",), (0,), TOKENS, (True, False), STICKY, bounds)
    swapped = [(c, e[::-1]) for c, e in rows]
    other = grown(swapped, ("A",), (0,), TOKENS[::-1], (False, True), STICKY, bounds)
    assert found.scale.tolist() == other.scale.tolist() == [4]
    assert found.n.tolist() == other.n.tolist()
    moved = 0
    for number in range(30):
        draws = sticky(number)
        whole = grown(rows, ("A",), (0,), TOKENS, (True, False), draws, bounds)
        less = grown(rows[1:], ("A",), (0,), TOKENS, (True, False), draws, bounds)
        moved += whole.n_nodes and less.n_nodes and whole.n[0] - less.n[0] != 1
    assert moved > 12  # keyed by the households alone it would be 0


def test_the_count_is_the_smallest_of_the_bounded_ones():
    rows = [((1,), (i, i // 10)) for i in range(40)] + [((1,), (0, 4)), ((1,), (0, 5))]
    bounds = RowBounds(most=2, of_values={})
    # people: one has 3 rows, of which 2 count: 41; households 11 10 10 10 1 1 -> 2 2 2 2 1 1
    found = grown(rows, ("A",), (0,), TOKENS, (False, False), EXACT, bounds)
    people = grown([(c, e[:1]) for c, e in rows], ("A",), (0,), TOKENS[:1], (False,), EXACT, bounds)
    homes = grown([(c, e[1:]) for c, e in rows], ("A",), (0,), TOKENS[1:], (False,), EXACT, bounds)
    assert (people.n[0], homes.n[0], found.n[0]) == (41, 10, 10)
    assert found.scale.tolist() == [2]


# --- the bound on the rows of one entity ---------------------------------------------------------------------


def test_rows_beyond_the_bound_are_left_out_in_every_bucket():
    """6 people with 100, 30, 3, 3, 3, 1 rows of value 3; one of them has 5 of value 4."""
    rows = visits({0: 100, 1: 30, 2: 3, 3: 3, 4: 3, 5: 1}) + visits({0: 5}, 4)
    bounds = RowBounds(most=16, of_values={"A": 2})
    found = grown(rows, ("A",), (3,), TOKENS[1:], (False,), EXACT, bounds)
    assert found.scale.tolist() == [16, 8, 4, 2]
    of_value = {(depth, label[0][2]): n for (depth, label), (n, _, _) in nodes_of(found).items()}
    assert of_value[0, 0] == 16 + 16 + 3 + 3 + 3 + 1
    assert of_value[1, 0] == 8 + 8 + 3 + 3 + 3 + 1
    assert of_value[1, 1] == 5
    assert of_value[3, 3] == 2 + 2 + 2 + 2 + 2 + 1
    assert of_value[3, 4] == 2


# --- boundaries ----------------------------------------------------------------------------------------------


def test_boundaries_do_not_depend_on_the_data():
    """Whatever is released has an absolute place: size 2**level, offset a multiple of it, level top - depth."""
    rng = np.random.default_rng(8)
    rows = [((int(v),), (i,)) for i, v in enumerate(rng.integers(-900, 90_000, size=40))]
    for shift in (0, 1, 517):
        moved = [((c[0] + shift,), e) for c, e in rows]
        for depth, ((kind, level, _),) in boundaries(
            grown(moved, ("A",), (63,), TOKENS[:1], (True,), EXACT)
        ):
            assert level == 63 - depth
            assert kind in (KIND_NEGATIVE, KIND_NONNEGATIVE)
