"""Measured sums: by plain counting without noise, their noise, and what is disclosed to whom."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from fixtures.measure import (
    EXACT,
    KEY,
    NO_BOUND,
    ONE_ROW,
    STANDARD,
    VINTAGE,
    Noiseless,
    cells_of,
    column,
    grown,
    key_number,
    measured,
    tokens_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.mechanism import RowBounds, StickyDraws, grow, measure_columns
from engine.mechanism.sums import sums_of
from engine.ranges import code_bounds
from engine.schema import KIND_NULL, KIND_OTHER, NULL_CODE

INCOMES = np.exp(np.random.default_rng(4).normal(9, 1, 3_000)).astype(int)
PEOPLE = {"g": np.repeat(list("abc"), 1_000), "x": INCOMES}


def by_hand(rows, tree, j, most):
    """{values of the other columns: (low, high, sum above the middle)}, person by person."""
    boxes: dict[tuple, list[int]] = {}
    for node in range(tree.n_nodes):
        others = [i for i in range(len(tree.columns)) if i != j]
        up = tree.parent[node]
        is_first = up < 0 or any(tree.level[up, i] for i in others)
        if any(tree.level[node, i] for i in others) or not is_first:
            continue
        if tree.kind[node, j] in (KIND_NULL, KIND_OTHER):
            continue
        low, high = code_bounds(*(getattr(tree, f)[node] for f in ("kind", "level", "index")))
        values = tuple(
            NULL_CODE if tree.kind[node, i] == KIND_NULL else int(low[i]) for i in others
        )
        boxes.setdefault(values, []).extend([int(low[j]), int(high[j])])
    out = {}
    for values, ends in boxes.items():
        low, high = min(ends), max(ends)
        middle, of_entity = (low + high) // 2, {}
        for codes, (entity,) in rows:
            if codes[:j] + codes[j + 1 :] == values and codes[j] != NULL_CODE:
                value = min(max(codes[j], low), high) - middle
                of_entity.setdefault(entity, []).append(value)
        total = sum(
            int(sum(of) / len(of) * min(len(of), most) // 1) if len(of) > most else sum(of)
            for of in of_entity.values()
        )
        if low < high:
            out[values] = (low, high, total)
    return out


def by_measuring(cells, tree, name, draws):
    """The same of measured sums."""
    sums = sums_of(cells, tree, name, draws)
    j = tree.columns.index(name)
    out = {}
    for at, node in enumerate(sums.node):
        low, _ = code_bounds(tree.kind[node], tree.level[node], tree.index[node])
        codes = np.where(tree.kind[node] == KIND_NULL, NULL_CODE, low)
        values = tuple(int(c) for i, c in enumerate(codes) if i != j)
        out[values] = (int(sums.low[at]), int(sums.high[at]), int(sums.n[at]))
    return out


NUMBERS = st.one_of(st.integers(-40, 40), st.just(NULL_CODE))
GROUPS = st.one_of(st.integers(0, 2), st.just(NULL_CODE))


@given(
    st.lists(st.tuples(GROUPS, NUMBERS, GROUPS, st.integers(0, 9)), min_size=1, max_size=60),
    st.sampled_from([1, 2, 4]),
    st.integers(1, 4),
)
@settings(max_examples=60, deadline=None)
def test_without_noise_sums_are_those_of_people_clipped_to_what_their_group_shows(
    people, most, threshold
):
    rows = [((a, x, b), (e,)) for a, x, b, e in people]
    cells = cells_of(rows, "axb", [tokens_of(10)], [False])
    bounds = RowBounds(most=most, of_values={})
    tree = grow(cells, (2, 6, 2), Noiseless(threshold=threshold), bounds)
    assert by_measuring(cells, tree, "x", EXACT) == by_hand(rows, tree, 1, most)


@given(st.lists(st.tuples(GROUPS, NUMBERS), min_size=1, max_size=60))
@settings(max_examples=30, deadline=None)
def test_people_of_one_row_each_are_summed_as_such(people):
    rows = [(codes, (e,)) for e, codes in enumerate(people)]
    cells = cells_of(rows, "gx", [tokens_of(len(rows))], [True])
    tree = grow(cells, (2, 6), Noiseless(threshold=2), ONE_ROW)
    assert by_measuring(cells, tree, "x", EXACT) == by_hand(rows, tree, 1, 1)


def sums_by_key(n_keys, draws=StickyDraws):
    """Errors of three groups' sums over keys, in units of the noise; and the errors of their counts."""
    rows = [
        ((g, int(x)), (e,))
        for e, (g, x) in enumerate(zip([0, 1, 2] * 40, [0, 63, 31, 8] * 30, strict=True))
    ]
    cells = cells_of(rows, "gx", [tokens_of(len(rows))], [True])
    exact = grow(cells, (2, 6), EXACT, ONE_ROW)
    truth = sums_of(cells, exact, "x", EXACT)
    of_sums, of_counts = [], []
    for number in range(n_keys):
        own = draws(key_number(number), VINTAGE, STANDARD)
        found = sums_of(cells, exact, "x", own)
        of_sums.append((found.n - truth.n) / truth.scale)
        counted = grow(cells, (2, 6), own, ONE_ROW)
        of_counts.append((counted.n - exact.n)[truth.node])
    return np.array(of_sums), np.array(of_counts)


def test_the_noise_is_that_of_a_count_times_the_bound_and_independent_of_it():
    sums, counts = sums_by_key(400)
    assert abs(sums.mean()) < 5 * (2 / sums.size) ** 0.5
    assert abs((sums**2).mean() - 2) < 5 * 2 * (2 / sums.size) ** 0.5
    assert abs(np.corrcoef(sums.ravel(), counts.ravel())[0, 1]) < 5 / sums.size**0.5


class _Half(StickyDraws):
    """Planted: half the noise in sums."""

    def set_noise(self, sets, log2_scale):
        return super().set_noise(sets, log2_scale) // (1 if self._summed is None else 2)

    def label_noise(self, *bucket):
        return super().label_noise(*bucket) // (1 if self._summed is None else 2)


def test_planted_half_the_noise_is_seen():
    sums, _ = sums_by_key(400, _Half)
    assert (sums**2).mean() < 2 - 5 * 2 * (2 / sums.size) ** 0.5


def test_sums_stay_the_same_and_differ_by_column():
    twice = {**PEOPLE, "y": INCOMES}
    one, again = (measured(twice, [("g", "x"), ("g", "y")]) for _ in range(2))
    x, y = (one.wider["g", name].sums[0] for name in "xy")
    assert x.n.tolist() == again.wider["g", "x"].sums[0].n.tolist()
    assert (x.low.tolist(), x.high.tolist()) == (y.low.tolist(), y.high.tolist())
    assert (x.n != y.n).all()


def test_who_has_no_value_changes_no_sum():
    """Neither the sum nor its noise: the set that keys it is of those with a value."""
    rows = [((0, x), (e,)) for e, x in enumerate([3, 9, 17, 30, 31] * 4)]
    more = [*rows, *(((0, NULL_CODE), (e,)) for e in range(20, 40))]
    draws, found = StickyDraws(KEY, VINTAGE, STANDARD), []
    for people in (rows, more):
        cells = cells_of(people, "gx", [tokens_of(40)], [True])
        tree = grow(cells, (0, 5), draws, ONE_ROW)
        found.append(by_measuring(cells, tree, "x", draws))
    assert found[0] == found[1]


@pytest.mark.parametrize("is_additive", [True, False])
def test_a_changed_value_does_not_show_by_how_much_it_changed(is_additive):
    """The same key, people and ranges, as where a vintage goes on from another: the noise is drawn anew."""
    values = [3, 9, 17, 30, 31] * 8
    other = [4, *values[1:]]
    shifts = []
    for number in range(30):
        draws, found = StickyDraws(key_number(number), VINTAGE, STANDARD), []
        for of in (values, other):
            rows = [((0, x), (e,)) for e, x in enumerate(of)]
            cells = cells_of(rows, "gx", [tokens_of(40)], [is_additive])
            tree = grow(cells, (0, 5), EXACT, ONE_ROW)
            found.append(int(sums_of(cells, tree, "x", draws).n[0]))
        shifts.append(found[1] - found[0])
    assert np.std(shifts) > 16  # a layer of noise has 32
    assert shifts.count(1) < 10


@pytest.mark.parametrize(
    ("additive", "most", "has"), [([True, True], None, True), ([False, False], 4, False)]
)
def test_no_sums_where_several_kinds_of_entities_have_several_rows(additive, most, has):
    """Whose rows are the fewest would turn a sum by more than noise hides."""
    rows = [((int(x),), (e, e // 2)) for e, x in enumerate(INCOMES[:400])]
    cells = cells_of(rows, "x", [tokens_of(400), tokens_of(400)], additive)
    bounds, draws = RowBounds(most=most, of_values={}), StickyDraws(KEY, VINTAGE, STANDARD)
    source = SimpleNamespace(each=lambda sets: (cells for _ in sets))
    total = grow(cells_of([((), (0,))] * 9, "", [tokens_of(1)], [False]), (), EXACT, ONE_ROW)
    run = measure_columns(source, ["x"], {}, total, draws, bounds, ["x"])
    assert bool(run.one_way["x"].sums) == has


def test_noise_grows_with_the_rows_that_count():
    rows = [((0, x), (e,)) for e in range(30) for x in (1, 5, 14)]
    tree = grown(
        rows, "gx", (0, 4), [tokens_of(30)], [False], EXACT, RowBounds(most=4, of_values={})
    )
    cells = cells_of(rows, "gx", [tokens_of(30)], [False])
    sums = sums_of(cells, tree, "x", EXACT)
    assert sums.scale.tolist() == [4 * 16]


def test_sums_of_values_too_large_for_64_bits_are_not_measured():
    rows = [((0, x), (e,)) for e, x in enumerate([-(2**62), 2**62] * 10)]
    cells = cells_of(rows, "gx", [tokens_of(20)], [True])
    tree = grow(cells, (0, 62), EXACT, NO_BOUND)
    assert not len(sums_of(cells, tree, "x", EXACT).n)


@pytest.mark.parametrize(
    ("values", "columns", "has"),
    [
        (INCOMES, (column("g", "category"), column("x")), True),
        (INCOMES, (column("g", "category"), column("x", sums=False)), False),
        (np.arange(3_000) % 4, (column("g", "category"), column("x")), False),  # no ranges
    ],
)
def test_sums_are_measured_of_numbers_that_are_shown_in_ranges_unless_their_owner_says_no(
    values, columns, has
):
    run = measured({**PEOPLE, "x": values}, [("g", "x")], columns=columns)
    assert [bool(tree.sums) for tree in (run.one_way["x"], run.wider["g", "x"])] == [has, has]
    assert not run.one_way["g"].sums


def test_counts_are_the_same_with_sums_and_without():
    columns = (column("g", "category"), column("x"))
    without = (columns[0], replace(columns[1], sums=False))
    runs = [measured(PEOPLE, [("g", "x")], columns=of) for of in (columns, without)]
    assert runs[0].all() == runs[1].all()
