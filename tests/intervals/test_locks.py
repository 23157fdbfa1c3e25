"""Sums of rows that were brought to all narrower tables at once: margins say all of a whole value, and only the rest
is a table's own."""

from __future__ import annotations

import numpy as np
import pytest
from fixtures.intervals import small_release

from queries.intervals import noise_model, sums, tabulate


@pytest.fixture(scope="module")
def release(census, tmp_path_factory):
    tables = (("age",), ("age", "sex"), ("age", "region"), ("age", "region", "sex"))
    with small_release(tmp_path_factory.mktemp("locks"), census, tables=tables) as made:
        yield made


def chosen(model, **limits):
    """Ones at the rows of some values of some columns."""
    out = np.ones(len(model.table.n))
    for name, wanted in limits.items():
        j = model.table.columns.index(name)
        inside = np.array([value in wanted for value in model.table.released[j].values])
        out *= inside[model.table.rows[:, j]]
    return out


def test_each_lock_knows_the_rows_of_all_narrower_tables(release):
    model = noise_model(release, ("age", "region", "sex"))
    locks = model.locks()
    assert [len(lock.table.columns) for lock in locks] == [3, 2, 2, 2, 1, 1, 1]
    for lock in locks:
        for place, at in lock.to:
            narrow = locks[place].table
            keep = [lock.table.columns.index(name) for name in narrow.columns]
            known = at > 0
            assert known.mean() > 0.9
            assert (narrow.rows[at[known] - 1] == lock.table.rows[known][:, keep]).all()
    released = [lock.table for lock in locks if lock.table.columns in release.tables]
    assert len(released) == 4


def test_cells_of_an_unreleased_table_are_those_of_the_wider_one(release):
    table = noise_model(release, ("age", "region")).table
    less = sums.unreleased(table, ("region",))
    want = {int(code): int(table.n[table.rows[:, 1] == code].sum()) for code in table.rows[:, 1]}
    assert dict(zip(less.rows[:, 0].tolist(), less.n.tolist(), strict=True)) == want
    fewest = int(table.card["threshold_mean"])
    assert (less.row_measured == (less.n >= fewest)).all()
    assert less.size.tolist() == less.n.tolist()


def test_what_is_left_of_weights_is_nothing_to_any_margin_and_all_else_is_theirs(release):
    model = noise_model(release, ("age", "region", "sex"))
    lock, rng = model.locks()[0], np.random.default_rng(4)
    weight = rng.uniform(-1, 2, (2, len(lock.table.n)))
    given = [weight, *(np.zeros((2, len(one.table.n))) for one in model.locks()[1:])]
    for _ in range(30):  # until it is as near as can be
        weight = sums._left_by_margins(lock, weight, given)
    own = float(lock.table.own_variance[-1])
    n = lock.table.n.astype(float)
    give = np.where(lock.table.row_measured, np.minimum(n, own), n)
    taken = np.zeros_like(weight)
    for place, at in lock.to:
        known = at > 0
        for i in range(2):
            left = np.bincount(at[known], (give * weight[i])[known])
            assert np.abs(left).max() < 0.01
            taken[i, known] += given[place][i, at[known] - 1]
    assert weight + taken == pytest.approx(given[0])


def test_all_rows_of_a_value_have_the_error_of_its_own_table(release):
    model = noise_model(release, ("age", "region"))
    region = model.table.released[1].values[0]
    wide, narrow = chosen(model, region=[region]), model.locks()[-1]
    assert narrow.table.columns == ("region",)
    of_value = (narrow.table.rows[:, 0] == 0).astype(float)
    (found,) = sums.locked_variance(model.locks(), wide[None])
    (want,) = sums.locked_variance((narrow,), of_value[None])
    assert found == pytest.approx(want, rel=0.1)  # the number of all rows stands in both


def test_rounding_grows_with_the_values_of_a_range_and_not_to_its_end(release):
    model = noise_model(release, ("age", "sex"))
    sex = model.table.released[1].values[0]
    ages = [v for v in model.table.released[0].values if v is not None]
    parts = [chosen(model, sex=[sex], age=ages[:k]) for k in (2, len(ages) // 2, len(ages))]
    few, half, all_of_it = sums.locked_variance(model.locks(), np.array(parts))
    assert few < half
    assert all_of_it < half


def test_a_sum_hangs_on_no_other(release):
    """Neither on much heavier ones beside it, nor on single cells, nor on how many are asked for."""
    model = noise_model(release, ("age", "region", "sex"))
    ages = [v for v in model.table.released[0].values if v is not None]
    weight = np.stack([chosen(model, age=ages[: 9 + i]) for i in range(5)])
    weight[1:3] *= np.array([[1e7], [1e-7]])
    weight[3] = 0.0
    weight[3, 4] = 2.0
    together = model._of_noise(5, *np.nonzero(weight), weight[weight != 0])
    for i, one in enumerate(weight):
        (row,) = np.nonzero(one)
        (alone,) = model._of_noise(1, np.zeros(len(row), dtype=int), row, one[row])
        assert together[i] == pytest.approx(alone)
    is_locked = model.locked(6, np.nonzero(weight)[0])
    assert is_locked.tolist() == [True, True, True, False, True, False]


@pytest.mark.parametrize("name", ["MOST", "MOST_ROWS"])
def test_many_sums_are_reckoned_without_all_margins(name, release, monkeypatch):
    asked = {"columns": ["region"], "where": {"age": (30, 60)}}
    exact = tabulate(release, **asked)
    monkeypatch.setattr(f"queries.intervals.model.{name}", 0)
    bound = tabulate(release, **asked)
    assert (exact.value == bound.value).all()
    assert 0.5 < (bound.high - bound.low).mean() / (exact.high - exact.low).mean() < 2
    assert (bound.low != exact.low).any()
