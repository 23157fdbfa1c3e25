"""`FROM replicates(...)`: rows of all replays, typed as the table's, always the same; refused where there are none."""

from __future__ import annotations

import numpy as np
import pytest

from engine.errors import NotAnswerable, QueryRefused, TimedOut
from queries.intervals import cache
from queries.intervals.buckets import stored_codes
from queries.intervals.replays import N_REPLAYS, replays, table_of
from queries.release import open_release

TABLES = (("age",), ("sex",), ("region",), ("income",), ("age", "sex"), ("region", "sex"))


@pytest.fixture(scope="module")
def release(large):
    return large


@pytest.mark.ci
def test_rows_are_those_of_the_replays_with_the_types_of_the_release(release):
    got = release.replicates("sex", "age")
    by_type = dict(zip(got.columns, got.types, strict=True))
    assert {*got.columns} == {"replicate", "age", "sex", "imagined", "count"}
    assert by_type["age"] == release.columns["age"]
    assert by_type["sex"] == release.columns["sex"]
    drawn = replays(release, ("age", "sex"))
    values = {
        column.name: dict(zip(stored_codes(column).tolist(), column.values, strict=True))
        for column in table_of(release, ("age", "sex")).released
    }
    assert {row[0] for row in got.rows} == {*range(1, N_REPLAYS + 1)}
    for number in (1, 8, N_REPLAYS):
        rows = [dict(zip(got.columns, row, strict=True)) for row in got.rows if row[0] == number]
        for name, of in (("imagined", drawn.of("imagined")), ("count", drawn.of("replayed"))):
            one = of[number - 1]
            named = zip(*(one.codes[c].tolist() for c in ("age", "sex")), strict=True)
            expected = {
                (values["age"].get(age, age), values["sex"][sex]): n
                for (age, sex), n in zip(named, one.n.tolist(), strict=True)
            }
            assert {(r["age"], r["sex"]): r[name] for r in rows if r[name]} == expected


def test_another_opening_has_the_same(release):
    with open_release(release.path) as again:
        assert again.replicates("region", "sex").rows == release.replicates("region", "sex").rows


def test_the_spread_that_the_manual_gives_is_that_of_the_interval(release):
    """Root mean square errors of counts by the formula of README.md, beside the closed form's half width."""
    text = (
        "WITH each AS (SELECT replicate, region, sum(count) - sum(imagined) AS e FROM replicates('region') "
        "GROUP BY ALL) SELECT region, sqrt(avg(e ** 2)) FROM each GROUP BY region ORDER BY region"
    )
    rms = np.array([row[1] for row in release.sql(text).rows], dtype=float)
    got = release.tabulate(["region"])
    half = (got.high - got.low) / 2
    assert 0.6 < np.mean(2 * rms / half) < 1.6


def test_two_are_joined_and_named_as_any_table(release):
    text = (
        "SELECT count(*) FROM replicates('sex') AS a(k, s, i, n) JOIN replicates('sex') AS b "
        "ON a.k = b.replicate AND a.s = b.sex WHERE a.n = b.count"
    )
    assert release.sql(text).rows == [(2 * N_REPLAYS,)]


def test_a_text_that_has_the_word_is_no_call(release):
    assert release.sql("SELECT 'replicates(1)' AS f").rows == [("replicates(1)",)]


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("FROM replicates()", QueryRefused, "the columns of one released table"),
        ("FROM replicates(1)", QueryRefused, "the columns of one released table"),
        ("FROM replicates('income', 'region')", NotAnswerable, "table"),
        ("FROM replicates('nothing')", NotAnswerable, "nothing"),
        ("FROM replicates('sex'", QueryRefused, "plain SELECT"),
    ],
)
def test_what_has_no_replicates_is_refused(release, text, error, said):
    with pytest.raises(error, match=said):
        release.sql(text)


def test_drawing_ends_where_nobody_waits(release, monkeypatch):
    monkeypatch.setattr(cache, "read", lambda *given: None)
    with open_release(release.path) as fresh:
        asked = iter([False, False, False])
        leaving = fresh.until(lambda: next(asked, True))
        with pytest.raises(TimedOut):
            replays(leaving, ("age", "sex"))
        assert ("replays", ("age", "sex")) not in fresh.models


def test_ties_of_modes_go_by_the_stored_order_whatever_runs_beside(release):
    """Half the ages have as many men as women in some copy or other; DuckDB takes the first of equals."""
    text = "SELECT age, mode(sex) FROM data GROUP BY age ORDER BY age"
    answers = []
    for threads in (1, 4):
        with open_release(release.path, threads=threads) as again:
            answers += [again.sql(text).rows for _ in range(5)]
    assert all(rows == answers[0] for rows in answers)
