"""Rows of levels to published tables: values inside levels, sums met, projections, what is stated of the noise."""

from __future__ import annotations

import datetime
import itertools
from collections import Counter

import numpy as np
import pytest
from fixtures.measure import column
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.fit.joint import Precision, joint_rows, precision_of, projected
from engine.fit.joint.positions import GroupSums, meeting
from engine.levels import HALF, Levels, Margin, positions, widest
from engine.schema import KIND_NEGATIVE, KIND_NONNEGATIVE, KIND_NULL, NULL_CODE, Column, Resolution
from engine.store.decode import decode_values

KNOWN = Precision(is_covered=True, noise_sd=2.5)
MODELLED = Precision(is_covered=False, noise_sd=7.0)


def levels_by_hand(name: str, limits, *, null: bool = False, values=None, **settings) -> Levels:
    kind = "category" if values else "integer"
    column = Column(
        name=name, **{"kind": kind, "value_type": "text" if values else "integer", **settings}
    )
    low = [0] * null + [a for a, _ in limits]
    high = [0] * null + [b for _, b in limits]
    return Levels(
        column=column, low=np.array(low), high=np.array(high), has_null=null, values=values
    )


AGE = levels_by_hand("age", [(-5, -1), (0, 17), (18, 18), (19, 64)], null=True)
SEX = levels_by_hand("sex", [(0, 0), (1, 1)], values=("f", "m"))
CASH = levels_by_hand("cash", [(0, 99), (100, 399), (400, 405)], step=10)
LEVELS = {"age": AGE, "cash": CASH, "sex": SEX}
COLUMNS = ("age", "cash", "sex")


def rows(seed: int = 0, n_cells: int = 25, most: int = 30):
    rng = np.random.default_rng(seed)
    every = np.array(list(itertools.product(range(5), range(3), range(2))), dtype=np.int32)
    cells = every[np.sort(rng.choice(len(every), n_cells, replace=False))]
    return cells, rng.integers(1, most, n_cells)


def spelling(seed: int = 0, **settings):
    cells, n = rows(seed, **settings)
    return joint_rows(COLUMNS, cells, n, LEVELS, rng=np.random.default_rng(seed)), cells, n


def as_values(made, table) -> Counter:
    """A table as {(value, ...): rows}."""
    values = [decode_values(made.supports[name]) for name in table.columns]
    return Counter(
        {
            tuple(values[j][code] for j, code in enumerate(cell)): int(n)
            for cell, n in zip(table.codes.tolist(), table.n.tolist(), strict=True)
        }
    )


def level_at(levels: Levels, value) -> int:
    if value is None:
        return 0
    code = levels.values.index(value) if levels.values else value
    first = int(levels.has_null)
    inside = (levels.low[first:] <= code) & (code <= levels.high[first:])
    return first + int(np.flatnonzero(inside)[0])


@pytest.mark.parametrize("seed", range(3))
def test_rows_keep_their_levels(seed):
    made, cells, n = spelling(seed)
    table = projected(made, COLUMNS, MODELLED)
    back = Counter()
    for values, count in as_values(made, table).items():
        back[tuple(level_at(LEVELS[c], v) for c, v in zip(COLUMNS, values, strict=True))] += count
    assert back == Counter(dict(zip(map(tuple, cells.tolist()), n.tolist(), strict=True)))


@pytest.mark.parametrize("width", [1, 2])
def test_every_table_is_a_projection_of_the_widest(width):
    made, _, _ = spelling(4)
    whole = as_values(made, projected(made, COLUMNS, MODELLED))
    for columns in itertools.combinations(COLUMNS, width):
        kept = [COLUMNS.index(name) for name in columns]
        sums = Counter()
        for values, count in whole.items():
            sums[tuple(values[j] for j in kept)] += count
        table = projected(made, columns, KNOWN)
        assert as_values(made, table) == sums
        order = [tuple(cell) for cell in table.codes.tolist()]
        assert order == sorted(set(order))
        assert table.codes.dtype == np.int32
        assert (table.n > 0).all()


def test_supports_are_in_the_store_s_order():
    made, _, _ = spelling(1, n_cells=30)
    for support in made.supports.values():
        order = list(zip(support.kind.tolist(), support.grid.tolist(), strict=True))
        assert order == sorted(set(order))
        assert (support.n > 0).all()
    age = made.supports["age"]
    assert set(age.kind.tolist()) == {KIND_NULL, KIND_NEGATIVE, KIND_NONNEGATIVE}
    assert age.measured.tolist() == [v in (None, 18) for v in decode_values(age)]
    one_way = projected(made, ("age",), KNOWN)
    assert one_way.n.tolist() == age.n.tolist()


def test_values_lie_on_the_steps_of_their_column():
    made, _, _ = spelling(2, most=300)
    cash = set(decode_values(made.supports["cash"]))
    assert cash == set(range(0, 401, 10))  # 400 is the one multiple in the last level


def test_every_value_of_a_level_is_equally_likely():
    """Four rows in a level of six values, many times: 2/3 of a row each."""
    wide = levels_by_hand("x", [(10, 15)])
    found = Counter()
    for seed in range(3000):
        made = joint_rows(
            ("x",),
            np.zeros((1, 1), dtype=np.int32),
            np.array([4]),
            {"x": wide},
            rng=np.random.default_rng(seed),
        )
        support = made.supports["x"]
        found.update(dict(zip(support.grid.tolist(), support.n.tolist(), strict=True)))
    assert set(found) == set(range(10, 16))
    assert all(abs(count - 2000) < 130 for count in found.values())  # 5 sd of the binomial


def test_groups_are_the_combinations_of_levels():
    made, cells, n = spelling(5)
    table = projected(made, ("age", "sex"), KNOWN)
    want = Counter()
    for (age, _, sex), count in zip(cells.tolist(), n.tolist(), strict=True):
        want[age, sex] += count
    groups = table.groups
    got = {}
    for i, count in enumerate(groups.n.tolist()):
        is_null = groups.kind[i, 0] == KIND_NULL
        age = 0 if is_null else level_at(AGE, int(groups.low[i, 0]))
        assert (groups.low[i, 0], groups.high[i, 0]) == (AGE.low[age], AGE.high[age])
        got[age, int(groups.low[i, 1])] = count
        assert groups.measured[i] == (age in (0, 3))
    assert got == want
    assert (groups.noise_sd == 2.5).all()
    assert (groups.kind[:, 0][groups.low[:, 0] < 0] == KIND_NEGATIVE).all()
    standing = made.level_of["age"][table.codes[:, 0]]
    assert table.measured.tolist() == [int(level) in (0, 3) for level in standing]


def test_a_modelled_table_has_no_groups_and_nothing_measured():
    made, _, _ = spelling(5)
    table = projected(made, COLUMNS, MODELLED)
    assert not table.measured.any()
    assert table.groups.n.shape == (0,)
    assert table.groups.low.shape == (0, 3)
    assert table.noise_sd == 7.0


def test_dates_and_decimals():
    day = levels_by_hand("d", [(0, 30), (31, 58)], kind="date", value_type="date")
    cents = levels_by_hand(
        "e", [(-199, 300)], kind="decimal", value_type="decimal", resolution=Resolution(exponent=-2)
    )
    cells = np.array([[0, 0], [1, 0]], dtype=np.int32)
    made = joint_rows(
        ("d", "e"), cells, np.array([400, 2]), {"d": day, "e": cents}, rng=np.random.default_rng(1)
    )
    days = decode_values(made.supports["d"])
    assert min(days) == datetime.date(1970, 1, 1)
    assert max(days) <= datetime.date(1970, 2, 28)
    assert all(-2 < value <= 3 for value in decode_values(made.supports["e"]))
    assert set(made.supports["e"].kind.tolist()) == {KIND_NEGATIVE, KIND_NONNEGATIVE}


def test_what_is_stated_of_the_noise():
    sizes = {"age": 5, "cash": 3, "sex": 2, "bare": 9}

    def margin(*columns, variance=4.0):
        shape = tuple(sizes[name] for name in columns)
        return Margin(columns=columns, n=np.zeros(shape, dtype=np.int64), variance=variance)

    margins = [margin("age", "cash"), margin("cash", "sex", variance=9.0), margin("age")]
    stated = {
        columns: precision_of(columns, margins, sizes)
        for columns in [("age",), ("cash",), ("age", "cash"), ("age", "sex"), COLUMNS, ("bare",)]
    }
    # The sum over k cells of a margin has k times the variance; the best margin is taken.
    assert stated[("age",)] == Precision(is_covered=True, noise_sd=2.0)
    assert stated[("cash",)] == Precision(is_covered=True, noise_sd=18**0.5)
    assert stated[("age", "cash")] == Precision(is_covered=True, noise_sd=2.0)
    assert stated[("age", "sex")] == Precision(is_covered=False, noise_sd=27**0.5)
    assert stated[COLUMNS] == Precision(is_covered=False, noise_sd=3.0)
    assert stated[("bare",)] == Precision(is_covered=False, noise_sd=0.0)


def held(share, width, group) -> np.ndarray:
    return np.bincount(group, 2 * HALF * (share - 0.5) * width)


def sums_of(group, n, variance=0.0) -> GroupSums:
    return GroupSums(group=np.array(group), n=np.array(n, dtype=float), variance=variance)


def test_positions_by_hand():
    levels = Levels(
        column=column("X", bounds=(0, 100), public=True),
        low=np.array([0, 0, 10, 50]), high=np.array([0, 9, 49, 100]), has_null=True,
    )  # fmt: skip
    assert widest(levels) == 50
    codes = np.array([NULL_CODE, 50, 75, 100, 10, 49, 0, 9, 4])
    half = [39 * HALF / 50, 9 * HALF / 50, HALF / 50]
    assert positions(codes, levels).tolist() == [
        0, -HALF, 0, HALF, *np.rint([-half[0], half[0], -half[1], half[1], -half[2]]),
    ]  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_exact_sums_are_met_and_nobody_leaves_a_level(seed):
    """Sums that some shares have: of all, and in groups."""
    rng = np.random.default_rng(seed)
    n, groups = 400, int(rng.integers(1, 6))
    group, width = rng.integers(0, groups, n), rng.choice([0.0, 0.1, 1.0], n)
    true, share = rng.beta(rng.uniform(0.5, 3), 2, n), rng.random(n)
    own = held(true, width, np.append(group, groups - 1)[:n])
    own = np.append(own, np.zeros(groups - len(own)))
    whole = np.zeros(n, dtype=np.int64)
    got = meeting(share, width, [sums_of(group, own), sums_of(whole, [own.sum()])])
    assert got.min() >= 0
    assert got.max() <= 1
    reached = np.bincount(group, 2 * HALF * (got - 0.5) * width, groups)
    assert np.abs(reached - own).max() < 1e-3 * HALF
    for level in np.unique(width):
        for one in range(groups):  # in order, as they were
            at = (width == level) & (group == one)
            assert (np.diff(got[at][np.argsort(share[at])]) >= 0).all()


def test_what_is_noise_is_not_met():
    share, group = np.linspace(0, 1, 100), np.zeros(100, dtype=np.int64)
    width = np.ones(100)
    far = meeting(share, width, [sums_of(group, [20 * HALF], variance=(10 * HALF) ** 2)])
    # Of 20 HALF a fourth is noise, by variances.
    assert held(far, width, group)[0] == pytest.approx(15 * HALF, rel=1e-6)
    near = meeting(share, width, [sums_of(group, [5 * HALF], variance=(10 * HALF) ** 2)])
    assert near.tolist() == pytest.approx(share.tolist())


def test_more_groups_leave_the_sum_of_fewer():
    rng = np.random.default_rng(1)
    group, share, width = np.repeat([0, 1], 200), rng.random(400), np.ones(400)
    whole = np.zeros(400, dtype=np.int64)
    got = meeting(
        share, width, [sums_of(group, [90 * HALF, 10 * HALF]), sums_of(whole, [40 * HALF])]
    )
    assert held(got, width, whole)[0] == pytest.approx(40 * HALF, rel=1e-3)
    one, other = held(got, width, group)
    assert one - other == pytest.approx(80 * HALF, rel=0.01)
