"""Sums of rows that were brought to all narrower tables at once: margins say all of a whole value, and only the rest
is a table's own."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from fixtures.intervals import small_release

from engine.fit.whole.start import in_halves
from queries.intervals import buckets, noise_model, sums, tabulate
from queries.intervals import model as model_module
from queries.intervals.model import Groups, _locks
from queries.intervals.regions import region_of


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
        for margin in lock.to:
            narrow, tree = locks[margin.place].table, locks[margin.place].tree
            keep = [lock.table.columns.index(name) for name in narrow.columns]
            own = buckets.rows_in(lock.table, narrow)
            assert (own >= 0).mean() > 0.9
            assert (narrow.rows[own[own >= 0]] == lock.table.rows[own >= 0][:, keep]).all()
            assert (margin.at == np.where(own >= 0, margin.part[own] + 1, 0)).all()
            boxes: dict[int, set[int]] = {}
            for row, part in enumerate(margin.part.tolist()):
                bucket = int(tree.row_bucket[row])
                is_filled = bucket >= 0 and not narrow.measured[bucket]
                boxes.setdefault(part, set()).add(bucket if is_filled else -1 - row)
            assert all(len(rows) == 1 for rows in boxes.values())
            assert len({box for rows in boxes.values() for box in rows}) == len(boxes)
    released = [lock.table for lock in locks if lock.table.columns in release.tables]
    assert len(released) == 4


def test_cells_of_an_unreleased_table_are_those_of_the_wider_one(release):
    table = noise_model(release, ("age", "region")).table
    less = buckets.unreleased(table, ("region",))
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
    for _ in range(300):  # until it is as near as can be
        weight = sums._left_by_margins(lock, weight, given)
    own = float(lock.table.own_variance[-1])
    n = lock.table.n.astype(float)
    give = np.where(lock.table.row_measured, np.minimum(n, own), n)
    taken = np.zeros_like(weight)
    for margin in lock.to:
        own = buckets.rows_in(lock.table, model.locks()[margin.place].table)
        for i in range(2):
            left = np.bincount(margin.at, give * weight[i])[1:]
            assert np.abs(left).max() < 0.01
            taken[i, own >= 0] += given[margin.place][i, own[own >= 0]]
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


def slow_ends(lock, weight) -> float:
    """Value by value of the shorter column: steps of weights are ends of runs, and so is the way back to the start."""
    sizes = [len(column.values) for column in lock.table.released]
    short = 1 if sizes[1] <= sizes[0] else 0
    rows, steps = lock.table.rows.tolist(), 0.0
    for value in range(sizes[short]):
        own = sorted((row[1 - short], i) for i, row in enumerate(rows) if row[short] == value)
        of_run = [0.0, *(weight[i] for _, i in own), 0.0]
        steps += sum((one - other) ** 2 for one, other in pairwise(of_run))
        steps += (of_run[1] - of_run[-2]) ** 2
    splits = 1
    while 2**splits < sizes[short]:
        splits += 1
    return (1 / 12 + (splits - 1) / 24) * steps


@pytest.mark.parametrize("columns", [("age", "sex"), ("age", "region")])
def test_rounding_of_two_columns_hangs_on_where_weights_change(release, columns):
    """Whichever has fewer ends, weights or what margins leave of them."""
    lock = noise_model(release, columns).locks()[0]
    weight, rest = np.random.default_rng(3).uniform(-1, 2, (2, 3, len(lock.table.n)))
    weight[0], rest[1] = 1.0, 0.0
    for told, of_one, left in zip(lock.rounding(weight, rest), weight, rest, strict=True):
        want = min(slow_ends(lock, of_one), lock.loose * slow_ends(lock, left))
        assert told == pytest.approx(want)
    assert 1 <= lock.loose <= 2


def test_rounding_of_two_columns_does_not_grow_with_a_range(release):
    """That of three does, with each cell; a table that is locked to nothing has none of it."""
    pair, triple = (noise_model(release, of) for of in (("age", "sex"), ("age", "region", "sex")))
    ages = [v for v in pair.table.released[0].values if v is not None]
    for model in (pair, triple):
        sex = model.table.released[-1].values[0]
        weight = np.array([chosen(model, sex=[sex], age=ages[5 : 5 + k]) for k in (5, 30)])
        few, many = model.locks()[0].rounding(weight, weight)
        times = weight[1].sum() / weight[0].sum() if model is triple else 1.0
        assert many == pytest.approx(times * few)
    alone = noise_model(release, ("age",)).locks()[0]
    assert alone.rounding(*np.ones((2, 2, len(alone.table.n)))).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("sizes", "runs"),
    [
        ((2, 3), [[3, 1, 0], [2]]),  # of each value of the first column, along the second
        ((3, 3), [[3, 2], [1], [0]]),  # as the fit does it where both have as many
        ((4, 3), [[3, 2], [1], [0]]),
    ],
)
def test_runs_go_along_the_longer_column_whatever_the_order_of_rows(sizes, runs):
    released = tuple(SimpleNamespace(values=range(size)) for size in sizes)
    rows = np.array([[0, 2], [0, 1], [1, 0], [0, 0]])
    want = [4, *(row for run in runs for row in (*run, 4))]
    assert sums._runs(SimpleNamespace(rows=rows, released=released)).tolist() == want


@pytest.mark.parametrize(("n_codes", "n_fibres"), [(2, 80), (8, 200), (16, 300)])
def test_ends_of_runs_are_as_far_off_as_rounding_leaves_them(n_codes, n_fibres):
    """Within 30 % of what `in_halves` does to cells that have nothing to do with each other."""
    off = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x = rng.gamma(1.0, size=(n_fibres, n_codes))
        target = np.round(x.sum(axis=1)).astype(np.int64)
        x *= (target / x.sum(axis=1))[:, None]
        fibre, code = np.indices(x.shape).reshape(2, -1)
        n = in_halves(x.ravel(), fibre, code, target, rng.bytes(16)).reshape(x.shape)
        upto = np.cumsum(n - x, axis=0)
        off.append(upto[n_fibres // 4] - upto[n_fibres // 2])
    splits = (n_codes - 1).bit_length() - 1
    want = 2 * (sums.END + sums.SPLIT * splits)
    assert 0.7 * want < np.mean(np.square(off)) < 1.3 * want


def test_only_tables_that_were_rounded_along_both_columns_have_runs(release, monkeypatch):
    pair = noise_model(release, ("age", "sex"))
    assert pair.locks()[0].runs is not None
    assert noise_model(release, ("age", "region", "sex")).locks()[0].runs is None
    for too_many in (0, 3):  # combinations that nobody lists; of which hardly any may hold rows
        monkeypatch.setattr("queries.intervals.model._n_possible", lambda *_, n=too_many: n)
        assert _locks(release, pair.table, pair.tree)[0].runs is None


def test_a_range_to_the_end_is_surer_than_half_of_it(release):
    model = noise_model(release, ("age", "sex"))
    sex = model.table.released[1].values[0]
    ages = [v for v in model.table.released[0].values if v is not None]
    parts = [chosen(model, sex=[sex], age=ages[:k]) for k in (len(ages) // 2, len(ages))]
    half, all_of_it = sums.locked_variance(model.locks(), np.array(parts))
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


def test_the_outermost_filled_rows_are_numbered_by_group_and_end(release):
    table = noise_model(release, ("age", "region")).table
    age, n = table.released[0], 300
    found = buckets.outermost(table, n)
    valued = [place for place, v in enumerate(age.values) if v is not None]
    total = sum(int(age.n[place]) for place in valued)
    seen = 0
    for row, number in zip(range(len(table.n)), found.tolist(), strict=True):
        place, group = table.rows[row].tolist()
        below = sum(int(age.n[p]) for p in valued if p < place)
        above = total - below - int(age.n[place])
        is_out = place in valued and min(below, above) < n and not table.row_measured[row]
        assert number == (2 * group + (above < below) if is_out else -1)
        seen += is_out
    assert seen > 20
    assert (buckets.outermost(noise_model(release, ("age",)).table, n) == -1).all()


def test_who_has_the_outermost_values_is_unsure_together(release):
    """Of each group and end the weighted rows add up before they are squared, next to all that was told before."""
    locks = noise_model(release, ("age", "region")).locks()
    lock, rng = locks[0], np.random.default_rng(7)
    weight = rng.uniform(-1, 2, (3, len(lock.table.n)))
    want = np.zeros(3)
    for number in set(lock.outermost[lock.outermost >= 0].tolist()):
        at = lock.outermost == number
        want += sums.UNEVEN * ((weight * lock.table.n)[:, at].sum(axis=1)) ** 2
    assert (want > 0).all()
    assert lock.uneven(weight) == pytest.approx(want)
    assert all((one.uneven(weight[:, : len(one.table.n)]) == 0).all() for one in locks[1:])
    none = replace(lock, outermost=np.full(len(lock.table.n), -1))
    assert none.uneven(weight).tolist() == [0.0, 0.0, 0.0]
    told = sums.locked_variance(locks, weight) - sums.locked_variance((none, *locks[1:]), weight)
    rest = sums._left_by_margins(lock, weight, [np.zeros((3, len(x.table.n))) for x in locks])
    assert told == pytest.approx(lock.uneven(rest))


@pytest.mark.parametrize("at_once", [3, 1])
def test_figures_that_are_reckoned_together_have_the_errors_that_each_has(
    release, monkeypatch, at_once
):
    """Where so many are too many to be brought to all margins, they are not reckoned together."""
    model = noise_model(release, ("age", "region", "sex"))
    region = region_of(model.table, ("region", "sex"), {"age": (None, 60)})
    groups = Groups(release=release, model=model, region=region)
    row = groups.row
    weights = np.random.default_rng(8).uniform(-1, 2, (3, len(row)))
    monkeypatch.setattr(model_module, "MOST", at_once * region.n_groups * len(model.table.n))
    want = [groups.sd(row, weight) for weight in weights]
    got = groups.sds(row, weights)
    assert got.shape == (3, region.n_groups)
    assert np.array_equal(got, want)
    assert len(np.unique(got)) == got.size
