"""Rows beyond the last released values: where ranges may be hidden, by hand; rows that are moved, on random tables."""

from __future__ import annotations

import datetime
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from fixtures.intervals import small_release
from fixtures.pipeline import make_census

from engine.schema import KIND_NONNEGATIVE
from queries.intervals import estimates, tabulate
from queries.intervals import extrapolation as module
from queries.intervals.buckets import ReleasedValues
from queries.intervals.copies.tails import DRAWS, tails
from queries.intervals.model import Groups, noise_model
from queries.intervals.regions import region_of
from queries.intervals.statement import spreads as copies

TABLES = (("age",), ("income",), ("sex",), ("age", "sex"), ("age", "income"))
AGE_SEX = ("age", "sex")


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tails")
    with small_release(folder, make_census(folder / "census", people=3000), tables=TABLES) as made:
        yield made


def drawn(release, table, seed=3):
    model = noise_model(release, table)
    return model.table, tails(release, model, np.random.default_rng(seed))


@pytest.mark.parametrize(
    ("last", "sign", "width", "reach", "hidden"),
    [
        (90, 1, 1, 3.0, 2),  # 91; 92 to 95
        (90, 1, 2, 3.0, 1),  # its own range holds 91
        (90, 1, 2, 6.0, 2),  # 96 to 127 as well
        (90, 1, 2, 40.0, 3),  # 128 to 255 as well
        (16, -1, 1, 1.0, 1),  # 0 to 15
        (16, -1, 1, 0.5, 0),
        (0, -1, 1, 99.0, 0),  # not across 0
        (-1, 1, 1, 99.0, 0),
        (-4, -1, 1, 1.0, 1),  # -5 to -8
        (-3, 1, 1, 1.0, 1),  # -2 and -1
    ],
)
def test_ranges_that_may_be_hidden_by_hand(last, sign, width, reach, hidden):
    assert len(module._hidden_ranges(last, sign, width, reach)) == hidden


def test_how_far_a_range_reaches_that_the_last_value_was_drawn_from_by_hand(release):
    """Its one value stands at the inner end; a value that was measured, or filled in beside a half, has no range."""
    model = noise_model(release, ("age",))
    table = replace(
        model.table,
        first=np.array([[0], [1], [3]]),
        last=np.array([[0], [2], [3]]),
        span=np.array([[0], [63], [31]]),
        measured=np.array([True, False, False]),
    )
    one = replace(model, table=table, tree=replace(model.tree, is_open=np.array([1.0, 1.0, 0.5])))
    assert [module._drawn_from(one, at) for at in range(4)] == [0, 63, 63, 0]


def column_of(values, codes, sql_type="BIGINT"):
    n = len(values)
    return ReleasedValues(
        name="c",
        sql_type=sql_type,
        values=tuple(values),
        kind=np.full(n, KIND_NONNEGATIVE),
        grid=np.array(codes),
        n=np.ones(n, dtype=np.int64),
    )


@pytest.mark.parametrize(
    ("values", "codes", "code", "text"),
    [
        ((10, 30), (1, 3), 5, "50"),
        ((7,), (7,), 7, "7"),
        ((0.5, 1.5), (1, 3), 4, "2.0"),
        ((datetime.date(2021, 1, 1), datetime.date(2021, 1, 3)), (0, 2), 4, "2021-01-05"),
        ((datetime.date(2021, 1, 1), datetime.date(2021, 1, 3)), (0, 2), 10**9, "2021-01-03"),
        ((datetime.date(2021, 1, 1), datetime.date(2021, 1, 3)), (0, 2), -(10**9), "2021-01-01"),
    ],
)
def test_values_of_codes_beyond(values, codes, code, text):
    assert module.as_text(module.value_at(column_of(values, codes), code)) == text


@pytest.mark.parametrize("table", [("age",), AGE_SEX, ("age", "income")])
def test_rows_that_are_moved_are_as_many_and_like_others(release, table):
    own, got = drawn(release, table)
    n = len(own.n)
    assert got.counts.shape[0] == n + len(got.rows.source)
    assert got.counts.shape[1] >= got.n_ends * DRAWS
    assert got.counts.min() >= 0
    assert (got.counts.sum(axis=0) == own.total).all()  # a row is taken where another is put
    assert set(got.rows.column) <= set(table)


def test_an_end_of_a_wider_table_knows_what_that_table_counts_where(release):
    model = noise_model(release, ("age", "income"))
    ends = module.ends_of(release, model)
    assert ends
    for end in ends:
        code = model.table.rows[:, end.column]
        wanted = np.bincount(code, model.table.n, len(model.table.released[end.column].values))
        assert (end.counted == wanted).all()
        assert (end.inside.sum(axis=0) <= wanted + 1e-9).all()


def test_rows_beyond_an_end_are_taken_from_where_they_are_counted(release):
    """As many by value as `absorbed` says, one by one along the rows; those at the last value may be moved as well."""
    own, got = drawn(release, ("age",))
    ends = module.ends_of(release, noise_model(release, ("age",)))
    code, (column,) = own.rows[:, 0], own.released
    assert ends
    for i, end in enumerate(ends):
        wanted = np.minimum(end.inside.sum(axis=0), np.bincount(code, own.n, len(column.values)))
        at_last = end.sign * column.grid[code] == end.last
        for draw in range(DRAWS):
            taken = own.n - got.counts[: len(own.n), i * DRAWS + draw]
            assert (np.abs(taken - wanted[code])[~at_last] < 1).all()
            assert (taken - wanted[code])[at_last] > -1
            assert abs(taken[~at_last].sum() - wanted[code[~at_last]].sum()) <= 2


@pytest.mark.parametrize(
    "figure",
    [
        "count(*) FILTER (WHERE 1 = 0) / count(income)",
        "count(income) FILTER (WHERE NULL) + count(income)",
        "sum(income) + sum(CASE WHEN 1 = 0 THEN 1 ELSE 0 END)",
        "avg(income) FILTER (WHERE false) / avg(income)",
    ],
)
def test_parts_that_hold_nothing_join_with_others(release, figure):
    """The one part of the figure has limits, the other is made of rows that no limits tell of."""
    got = release.sql(f"SELECT {figure} AS f FROM data", intervals=True)
    assert len(got.rows) == 1


def test_one_figure_has_one_interval_however_it_is_written(release):
    """What lies beyond the last income is the same in both parts, and counts twice."""
    texts = "sum(income) FILTER (WHERE income IS NOT NULL) + sum(income)", "2 * sum(income)"
    sums = [release.sql(f"SELECT {text} AS f FROM data", intervals=True).rows[0] for text in texts]
    assert sums[0][:3] == pytest.approx(sums[1][:3], rel=1e-3)


def test_groups_keep_their_rows(release):
    own, got = drawn(release, AGE_SEX)
    sex = own.rows[:, own.columns.index("sex")]
    everybody = np.concatenate([sex, sex[got.rows.source]])
    for one in np.unique(sex):
        before = own.n[sex == one].sum()
        after = got.counts[everybody == one].sum(axis=0)
        assert (after == before).all()


def test_values_lie_beyond_the_last_ones(release):
    own, got = drawn(release, ("age",))
    of_ends = got.counts[len(own.n) :, : got.n_ends * DRAWS].any(axis=1)
    ages = [int(v) for v, is_end in zip(got.rows.value, of_ends, strict=True) if is_end]
    known = [v for v in own.released[0].values if v is not None]
    assert ages
    assert all(age > max(known) or age < min(known) for age in ages)


def test_filled_values_are_drawn_from_their_ranges_and_nowhere_else(release):
    own, got = drawn(release, ("age", "income"))
    one = noise_model(release, ("income",))
    income = own.released[own.columns.index("income")]
    of_ends = got.counts[len(own.n) :, : got.n_ends * DRAWS].any(axis=1)
    moved = [
        (int(income.values[own.rows[at, own.columns.index("income")]]), int(value))
        for at, value, is_end, name in zip(
            got.rows.source, got.rows.value, of_ends, got.rows.column, strict=True
        )
        if not is_end and name == "income"
    ]
    assert len(moved) > 100
    widths = {int(w) + 1 for w in one.table.span[:, 0]}
    known = {v for v, k in zip(income.values, income.valued, strict=True) if k}
    measured = {income.values[p] for p in one.table.rows[one.table.row_measured, 0]}
    for before, after in moved:
        assert any(before // w == after // w for w in widths)
        assert min(known) <= after <= max(known)
        assert after not in measured


def test_nothing_lies_beyond_words_or_where_the_last_value_has_many_rows(release, monkeypatch):
    assert drawn(release, ("sex",))[1].n_ends == 0
    model = noise_model(release, ("age",))
    (column,) = model.table.released
    n = column.n.copy()
    n[[int(np.argmax(column.grid)), int(np.argmin(column.grid))]] = 10_000
    table = replace(model.table, released=(replace(column, n=n),))
    monkeypatch.delitem(release.models, ("ends", ("age",)))
    assert tails(release, replace(model, table=table), np.random.default_rng(0)).n_ends == 0


def test_a_column_without_a_table_of_its_own_has_ends_too(release, monkeypatch):
    monkeypatch.setattr(release, "tables", (AGE_SEX,))
    assert drawn(release, AGE_SEX)[1].n_ends >= 1


def test_what_lies_beyond_is_in_the_interval(release, monkeypatch):
    """A maximum age of 130 that nobody sees: the spread of ages may be as wide."""
    text = "SELECT stddev_samp(age) AS f FROM data"
    ((_, low, high, _),) = release.sql(text, intervals=True).rows
    nothing = np.zeros((1, 0))
    whole = copies.spread_of
    monkeypatch.setattr(copies, "spread_of", lambda v, *_, **kw: whole(v, nothing, 0, **kw))
    ((_, sure_low, sure_high, _),) = release.sql(text, intervals=True).rows
    assert low <= sure_low
    assert high > sure_high


def test_copies_of_rows_beyond_are_read_by_sql(release):
    """The maximum of a copy is the value that was moved."""
    own, got = drawn(release, ("age",))
    answers = release.on_copies("SELECT max(age) FROM data", ("age",), got.counts, got.rows)
    shown = [rows[0][0] for rows in answers]
    known = max(v for v in own.released[0].values if v is not None)
    ages = [own.released[0].values[code] for code in own.rows[:, 0]]
    ages = np.array([-1 if age is None else age for age in [*ages, *map(int, got.rows.value)]])
    assert shown == [ages[of_copy > 0].max() for of_copy in got.counts.T]
    assert pd.Series(shown).max() > known


def last_age(release):
    (column,) = noise_model(release, ("age",)).table.released
    return max(v for v in column.values if v is not None)


def room(release, low):
    """Rows that may be beyond the last age and be counted from `low` on."""
    model = noise_model(release, ("age",))
    (column,) = model.table.released
    (end,) = (end for end in module.ends_of(release, model) if end.sign > 0)
    of_code = np.bincount(model.table.rows[:, 0], model.table.n, len(column.values))
    is_inside = np.array([v is not None and v >= low for v in column.values])
    return np.minimum(end.inside.sum(axis=0), of_code)[is_inside].sum()


def test_figures_whose_limits_end_at_the_last_value_leave_room_for_who_is_beyond(release):
    last = last_age(release)
    opened, closed = (tabulate(release, [], where={"age": (60, end)}) for end in (None, last))
    assert closed.value == opened.value
    assert closed.high == opened.high
    held = room(release, 60)  # 3 ranges of 5 rows are hidden at most
    assert 1 <= held <= 15
    assert np.floor(held) <= opened.low[0] - closed.low[0] <= np.ceil(held)  # ends are whole


def test_who_is_beyond_the_last_value_may_be_counted_inside_limits_that_end_before_it(
    release, monkeypatch
):
    last = last_age(release)
    limits = ((60, last - 1), (last - 3, None))
    before = [tabulate(release, [], where={"age": limit}) for limit in limits]
    monkeypatch.setattr(
        estimates, "absorbed", lambda *given: np.zeros((1, given[0].region.n_groups))
    )
    without = [tabulate(release, [], where={"age": limit}) for limit in limits]
    assert before[0].low[0] < without[0].low[0]
    assert before[0].high[0] == without[0].high[0]
    assert (before[1].high[0] > without[1].high[0]) == (room(release, 0) > room(release, last - 3))


@pytest.mark.parametrize(
    ("codes", "level", "share"),  # the widest ranges are those of level 6: 0 to 63, 64 to 127
    [
        ((87, 88, 89, 90), 0, (0, 0, 0, 1)),  # 91 is counted at 90
        ((87, 88, 89, 90), 2, (0, 0.25, 0.25, 0.5)),  # 92 to 95: as much in 88 and 89 as at 90
        ((64, 87, 90), 5, (0.5, 0.25, 0.25)),  # 96 to 127
        ((63, 87, 90), 6, (0.5, 0.25, 0.25)),  # 128 to 191: all of the widest ranges have the same
    ],
)
def test_where_rows_of_hidden_ranges_are_counted_by_hand(codes, level, share):
    assert module._shares(column_of(codes, codes), codes[-1], level, 6).tolist() == list(share)


@pytest.mark.parametrize(
    ("condition", "is_open"),
    [
        ("age >= 60", True),
        ("NOT age < 60", True),
        ("age BETWEEN 60 AND {}", False),
        ("age >= 60 AND age <= {}", False),
        ("CAST(age AS UTINYINT) >= 60 AND age <= {}", False),  # fails below 0, beyond the lower end
    ],
)
def test_statements_tell_by_their_conditions_whether_who_is_beyond_counts(
    release, condition, is_open
):
    last = last_age(release)
    where = condition.format(last)
    opened = tabulate(release, [], where={"age": (60, None)})
    for text in (
        f"SELECT count(*) FROM data WHERE {where}",
        f"SELECT count(*) FILTER (WHERE {where}) FROM data",
        f"SELECT sum(CASE WHEN {where} THEN 1 ELSE 0 END) FROM data",
    ):
        ((value, low, _, _),) = release.sql(text, intervals=True).rows
        assert value == opened.value[0]
        assert (low == opened.low[0]) == is_open


def test_who_may_be_beyond_moves_a_median_of_another_column_as_often_up_as_down(
    release, monkeypatch
):
    """Of those who are counted at the last age half earn more than the median of all, not none of them."""
    seen = []

    def absorbed(*given):
        seen.append(given[-1])
        return module.absorbed(*given)

    monkeypatch.setattr(estimates, "absorbed", absorbed)
    tabulate(release, [], where={"age": (60, last_age(release))}, measure="median", of="income")
    moved = seen[-1]
    assert {*moved.tolist()} == {-0.5, 0.5}
    assert 0.4 < (moved > 0).mean() < 0.6


def test_a_mean_of_the_last_values_may_be_higher_by_who_is_beyond(release):
    last = last_age(release)
    ((value, low, high, _),) = release.sql(
        f"SELECT avg(age) FILTER (WHERE age > {last - 4}) - 0 * count(*) AS f FROM data",
        intervals=True,
    ).rows
    assert high - value > value - low


def test_what_is_beyond_is_the_same_for_both_parts_of_a_figure(release):
    last = last_age(release)
    keep = f"FILTER (WHERE age BETWEEN {last - 9} AND {last})"
    text = f"SELECT avg(age) {keep} AS a, sum(age) {keep} / count(*) {keep} AS b FROM data"
    (row,) = release.sql(text, intervals=True).rows
    assert row[0] == row[4]
    assert row[6] - row[5] < 1.5 * (row[2] - row[1])


def at_top(release, numbers, *, where=None, far=True):
    """What `beyond` says of sums of `numbers(age)` over all people, or those of some ages; `far`: it is known there."""
    model = noise_model(release, ("age",))
    (column,) = model.table.released
    ages = np.array([np.nan if v is None else float(v) for v in column.values])
    wanted = np.ones(len(ages), dtype=bool) if where is None else where(ages)
    limits = (
        {}
        if where is None
        else {"age": [v for v, ok in zip(column.values, wanted, strict=True) if ok]}
    )
    groups = Groups(release=release, model=model, region=region_of(model.table, [], limits))
    tops = [
        (end, float(numbers(np.array([float(end.far)]))[0]) if far else np.nan)
        for end in module.ends_of(release, model)
    ]
    more, less = module.beyond(groups, numbers(ages[model.table.rows[:, 0]]), tops)
    return float(more[0]), float(less[0])


def test_sums_may_be_higher_by_all_rows_that_ranges_beyond_may_hold(release):
    (end,) = (e for e in module.ends_of(release, noise_model(release, ("age",))) if e.sign > 0)
    more, _ = at_top(release, lambda age: age)
    rows = release.sql(f"SELECT count(*) FROM data WHERE age = {last_age(release)}").rows[0][0]
    assert more == pytest.approx(end.hidden + rows * end.own)
    assert end.hidden > 5  # at least a year for each of five
    assert at_top(release, lambda age: age, far=False) == pytest.approx(
        (more, at_top(release, lambda age: age)[1])
    )


def test_what_is_beyond_follows_the_figure_that_is_added_up(release):
    more, less = at_top(release, lambda age: age)
    assert at_top(release, lambda age: 2.0 * age) == pytest.approx((2 * more, 2 * less))
    assert at_top(release, lambda age: -age) == pytest.approx((less, more))
    assert at_top(release, np.ones_like) == (0, 0)  # every year counts alike
    # Steps between the outermost rows and the last one tell nothing of what is further out.
    last = last_age(release)
    assert at_top(release, lambda age: np.where(age >= last, 2.0, 0.0))[0] == 0
    assert at_top(release, lambda age: np.where(age > last - 5, age, np.nan))[0] == pytest.approx(
        more
    )
    assert at_top(release, lambda age: np.where(age > last - 5, age, np.nan), far=False)[
        0
    ] == pytest.approx(more)
    assert at_top(release, lambda age: age * age)[0] > 2 * last * more


@pytest.mark.parametrize("figure", ["sum(income)", "avg(income)", "sum(age)", "avg(age * 2)"])
def test_a_condition_that_all_meet_changes_no_interval(release, figure):
    """Rows that are counted further inside move out as far, whether limits are named or not."""
    column = "income" if "income" in figure else "age"
    texts = figure, f"{figure} FILTER (WHERE {column} IS NOT NULL)"
    one, other = (release.sql(f"SELECT {t} AS f FROM data", intervals=True).rows[0] for t in texts)
    assert one[0] == other[0]
    ends = [np.subtract(row[1:3], row[0]) for row in (one, other)]
    assert ends[0] == pytest.approx(ends[1], rel=0.02)


def test_ends_of_other_columns_than_those_that_are_added_up_are_nothing_to_a_sum(release):
    ends = [end for end in module.ends_of(release, noise_model(release, AGE_SEX)) if end.sign > 0]
    assert ends
    with_age = release.sql(
        "SELECT sum(age) AS f FROM data WHERE sex = 'Male'", intervals=True
    ).rows[0]
    seen = []

    def beyond(groups, numbers, tops):
        seen.extend(groups.model.table.columns[end.column] for end, _ in tops)
        return module.beyond(groups, numbers, tops)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(estimates, "beyond", beyond)
        release.sql("SELECT sum(income) AS f FROM data WHERE age > 31", intervals=True)
    assert {*seen} == {"income"}
    assert with_age[2] > with_age[0]


def test_groups_without_the_last_value_have_nothing_beyond_it(release):
    last = last_age(release)
    assert at_top(release, lambda age: age, where=lambda age: age < last)[0] == 0
    assert at_top(release, lambda age: age, where=lambda age: age >= last)[0] > 0


def test_rows_of_a_hidden_range_are_as_far_as_half_of_it_or_as_mean_excesses_reach():
    # 10 codes from 20 on, one behind the last; outermost rows from 10 on, so that excesses there are twice as large.
    near = module._further([20], 19, [4], 10, 2.0)
    assert near == pytest.approx(1 + 1.83 * 2.0 * 2.0)
    assert module._further([20], 19, [2], 10, 2.0) == pytest.approx(1 + 4 / 2)
    assert module._further([20, 32], 19, [2, 3], 10, 2.0) == pytest.approx(3 + 13 + 4)
    assert module._further([-4], -5, [4], -10, 2.0) == pytest.approx(
        1 + 1.83 * 2.0
    )  # nothing grows below 0
    assert module._further([], 19, [], 10, 2.0) == 0


@pytest.mark.parametrize("name", ["age", "income"])
def test_how_far_rows_beyond_the_top_are_by_a_slow_reckoning(release, name):
    model = noise_model(release, (name,))
    (column,), table = model.table.released, model.table
    (end,) = (one for one in module.ends_of(release, model) if one.sign > 0)
    n = {int(column.grid[code]): int(rows) for (code,), rows in zip(table.rows, table.n, strict=True)
         if column.valued[code]}  # fmt: skip
    at = int(np.flatnonzero(column.valued & (column.grid == end.last))[0])
    spans = [
        int(table.span[i, 0])
        for i in range(len(table.size))
        if table.first[i, 0] <= at <= table.last[i, 0]
        and (not table.measured[i] or table.span[i, 0] == 0)
    ]
    assert end.own == pytest.approx(max(spans) / 2, rel=1e-9)
    outer = {code: rows for code, rows in n.items() if code >= end.inner}

    def further(excess):
        total = 0.0
        for level in range(61):
            if (end.last >> level) % 2 == 0:
                begin = ((end.last >> level) + 1) << level
                if begin <= end.far_code:
                    likely = 1.83 * excess * max(begin / end.inner, 1.0)
                    total += begin - end.last + min(2.0**level / 2, likely)
        return total

    at_most = 5 * further(end.excess) + end.own * n[end.last]
    wanted = 5 * further(end.excess + at_most / (2 * sum(outer.values())))
    assert end.hidden == pytest.approx(wanted)
