"""`FROM replicates(...)`: rows of all copies, typed as the table's, always the same; refused where there are none."""

from __future__ import annotations

import numpy as np
import pytest

from engine.errors import NotAnswerable, QueryRefused, TimedOut
from queries.intervals.copies.replicates import N_REPLICATES, replicates
from queries.intervals.model import noise_model
from queries.release import open_release

TABLES = (("age",), ("sex",), ("region",), ("income",), ("age", "sex"), ("region", "sex"))


@pytest.fixture(scope="module")
def release(large):
    return large


@pytest.mark.ci
def test_rows_are_those_of_the_copies_with_the_types_of_the_release(release):
    got = release.replicates("sex", "age")
    by_type = dict(zip(got.columns, got.types, strict=True))
    assert got.columns[0] == "replicate"
    assert got.columns[-1] == "count"
    assert by_type["age"] == release.columns["age"]
    assert by_type["sex"] == release.columns["sex"]
    table = noise_model(release, ("age", "sex")).table
    drawn = replicates(release, ("age", "sex")).counts
    assert len(got.rows) == N_REPLICATES * len(table.rows)
    values = [
        [column.values[i] for i in table.rows[:, j]] for j, column in enumerate(table.released)
    ]
    place = [table.columns.index(name) for name in got.columns[1:-1]]
    expected = {
        (k + 1, *(values[j][i] for j in place)): int(drawn[i, k])
        for i in range(len(table.rows))
        for k in (0, 7, 47)
    }
    found = {row[:-1]: row[-1] for row in got.rows if row[0] in (1, 8, 48)}
    assert found == expected


def test_another_opening_has_the_same(release):
    with open_release(release.path) as again:
        assert again.replicates("region", "sex").rows == release.replicates("region", "sex").rows


def test_the_variance_that_the_manual_gives_is_that_of_the_interval(release):
    """A standard deviation of counts by the formula of README.md, beside the closed form's half width."""
    text = (
        "WITH each AS (SELECT replicate, region, sum(count) AS n FROM replicates('region') GROUP BY ALL) "
        "SELECT region, stddev_samp(n) FROM each GROUP BY region ORDER BY region"
    )
    sd = np.array([row[1] for row in release.sql(text).rows], dtype=float)
    got = release.tabulate(["region"])
    half = (got.high - got.low) / 2
    assert 0.6 < np.mean(2 * sd / half) < 1.6


def test_two_are_joined_and_named_as_any_table(release):
    text = (
        "SELECT count(*) FROM replicates('sex') AS a(k, s, n) JOIN replicates('sex') AS b "
        "ON a.k = b.replicate AND a.s = b.sex WHERE a.n = b.count"
    )
    assert release.sql(text).rows == [(2 * N_REPLICATES,)]


def test_a_text_that_has_the_word_is_no_call(release):
    assert release.sql("SELECT 'replicates(1)' AS f").rows == [("replicates(1)",)]


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("FROM replicates()", QueryRefused, "the columns of one released table"),
        ("FROM replicates(1)", QueryRefused, "the columns of one released table"),
        ("FROM replicates('income', 'region')", NotAnswerable, "table"),
        ("FROM replicates('nothing')", NotAnswerable, "nothing"),
        ("FROM replicates('income')", QueryRefused, "filled in"),
        ("FROM replicates('sex'", QueryRefused, "plain SELECT"),
    ],
)
def test_what_has_no_replicates_is_refused(release, text, error, said):
    with pytest.raises(error, match=said):
        release.sql(text)


def test_strangers_have_none(release, monkeypatch):
    monkeypatch.setattr(release, "is_overseen", True)
    with pytest.raises(QueryRefused, match="strangers"):
        release.replicates("sex")


def test_drawing_ends_where_nobody_waits(release):
    with open_release(release.path) as fresh:
        noise_model(fresh, ("age", "sex"))
        asked = iter([False, False, False])
        leaving = fresh.until(lambda: next(asked, True))
        with pytest.raises(TimedOut):
            replicates(leaving, ("age", "sex"))
        assert ("replicates", ("age", "sex")) not in fresh.models


def test_ties_of_modes_go_by_the_stored_order_whatever_runs_beside(release):
    """Half the ages have as many men as women in some copy or other; DuckDB takes the first of equals."""
    text = "SELECT age, mode(sex) FROM data GROUP BY age ORDER BY age"
    answers = []
    for threads in (1, 4):
        with open_release(release.path, threads=threads) as again:
            answers += [again.sql(text).rows for _ in range(5)]
    assert all(rows == answers[0] for rows in answers)
