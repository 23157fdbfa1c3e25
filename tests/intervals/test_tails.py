"""Rows beyond the last released values: figures leave room for them, and statements tell whether they count."""

from __future__ import annotations

import numpy as np
import pytest
from fixtures.intervals import plain_rows

from queries.intervals import tabulate
from queries.intervals.model import noise_model


@pytest.fixture(scope="module")
def release(large):
    return large


def test_figures_are_of_the_column_asked_for_where_the_table_has_two_of_numbers(release):
    rows = plain_rows(release, "age", "income")
    some = rows[rows["income"].between(1000, 3000)]["age"]
    for measure, right in (("sum", some.sum()), ("mean", some.mean()), ("median", some.median())):
        got = tabulate(release, [], where={"income": (1000, 3000)}, measure=measure, of="age")
        assert got.table == ("age", "income")
        assert got.value == pytest.approx([right])
    some = rows[rows["age"].between(30, 40)]["income"]
    got = tabulate(release, [], where={"age": (30, 40)}, measure="sum", of="income")
    assert got.value == pytest.approx([some.sum()])


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


def last_age(release):
    (column,) = noise_model(release, ("age",)).table.released
    return max(v for v in column.values if v is not None)


def test_figures_whose_limits_end_at_the_last_value_leave_room_for_who_is_beyond(release):
    last = last_age(release)
    opened, closed = (tabulate(release, [], where={"age": (60, end)}) for end in (None, last))
    assert closed.value == opened.value
    assert closed.high == opened.high
    assert 1 <= opened.low[0] - closed.low[0] <= 15  # 3 ranges of 5 rows are hidden at most


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


@pytest.mark.parametrize("figure", ["sum(income)", "avg(income)", "sum(age)", "avg(age * 2)"])
def test_a_condition_that_all_meet_changes_no_interval(release, figure):
    """Rows that are counted further inside move out as far, whether limits are named or not."""
    column = "income" if "income" in figure else "age"
    texts = figure, f"{figure} FILTER (WHERE {column} IS NOT NULL)"
    one, other = (release.sql(f"SELECT {t} AS f FROM data", intervals=True).rows[0] for t in texts)
    assert one[0] == other[0]
    ends = [np.subtract(row[1:3], row[0]) for row in (one, other)]
    assert ends[0] == pytest.approx(ends[1], rel=0.02)
