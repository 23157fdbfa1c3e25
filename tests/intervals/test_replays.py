"""Replays of a table and replicates: spread by hand and beside the closed form, from the file alone; statements."""

from __future__ import annotations

import shutil
from dataclasses import replace

import duckdb
import numpy as np
import pandas as pd
import pytest
from fixtures.intervals import sliced
from fixtures.replays import digest_alone, digest_of

from engine.errors import NotAnswerable, QueryRefused, TimedOut
from queries.intervals import cache
from queries.intervals import replays as module_of_replays
from queries.intervals.buckets import stored_codes
from queries.intervals.replays import N_REPLAYS, replays, table_of
from queries.intervals.spread import Figures, ends_of_figures, statuses, unfit
from queries.intervals.statement import aggregates
from queries.intervals.statement import answers as module
from queries.release import open_release
from queries.sql import Session
from queries.sql.views import LogicalViews

TABLES = (("age",), ("sex",), ("region",), ("income",), ("age", "sex"), ("income", "sex"), ("region", "sex"),
          ("age", "region", "sex"))  # fmt: skip


@pytest.fixture(scope="module")
def release(large):
    return large


def same(one, other) -> bool:
    """Whether two sets of replays are equal to the bit."""
    return len(one) == len(other) and all(
        np.array_equal(a.n, b.n) and all(np.array_equal(a.codes[c], b.codes[c]) for c in a.codes)
        for a, b in zip(one, other, strict=True)
    )


def test_replays_follow_from_the_released_file_alone(release, tmp_path):
    table = ("age", "sex")
    first = replays(release, table)
    replayed = first.of("replayed")
    assert len(first.of("imagined")) == len(replayed) == N_REPLAYS
    assert not same(replayed[:1], replayed[1:2])
    copied = tmp_path / release.path.name  # beside it lies no key, no source and no spec
    for ending in ("", ".manifest.json"):
        shutil.copy(f"{release.path}{ending}", f"{copied}{ending}")
    with open_release(copied) as again:
        other = replays(again, table)
        for name in ("imagined", "replayed", "doubled"):
            assert same(other.of(name), first.of(name))
    with open_release(release.path) as other:
        other.content_hash = "another"
        assert not same(replays(other, table).of("replayed"), replayed)


def test_a_process_that_has_the_file_alone_draws_the_same_bytes(release, tmp_path):
    for table in (("age", "sex"), ("income",)):
        assert digest_alone(release, table, tmp_path) == digest_of(release, table)


def share_of_one_error(release, table) -> float:
    """Share of the mean square error of counts that all replays have in common: 1 of 24 where each has its own."""
    found = replays(release, table)
    released = [*zip(*(found.of("released")[0].codes[c].tolist() for c in table), strict=True)]

    def counted(rows):
        n = dict(
            zip(
                zip(*(rows.codes[c].tolist() for c in table), strict=True),
                rows.n.tolist(),
                strict=True,
            )
        )
        return [n.get(cell, 0) for cell in released]

    imagined, replayed = (
        np.array([counted(rows) for rows in found.of(kind)]) for kind in ("imagined", "replayed")
    )
    errors = replayed - imagined
    return float((errors.mean(axis=0) ** 2).mean() / (errors**2).mean())


def test_replays_that_reuse_one_noise_are_seen(release, monkeypatch):
    """Planted: all have the noise of one key, as those would that took over the noise of the release."""
    table = ("region", "sex")
    assert share_of_one_error(release, table) < 0.25
    monkeypatch.setattr(cache, "read", lambda *given: None)
    monkeypatch.setattr(cache, "write", lambda *given: None)
    monkeypatch.setattr(module_of_replays, "_key", lambda *given: bytes(32))
    with open_release(release.path) as fresh:
        assert share_of_one_error(fresh, table) > 0.6


ANSWERED = [
    "SELECT stddev_samp(income) AS f FROM data",
    "SELECT region, sex, stddev_samp(age) AS f FROM data GROUP BY ALL",
    "SELECT sex, median(age) - avg(age) AS f FROM data GROUP BY sex",
    "SELECT sex, stddev_samp(age) AS f FROM data GROUP BY sex",
    "SELECT corr(age, CASE sex WHEN 'Male' THEN 1 ELSE 0 END) AS f FROM data",
    "SELECT count(*) AS f FROM data JOIN (SELECT 1 AS one) ON true",
    "SELECT sex, sum(count(*)) OVER () AS f FROM data GROUP BY ROLLUP (sex)",
    "SELECT sex, sum(count(*)) OVER (PARTITION BY sex || 'x') AS f FROM data GROUP BY sex",
    "WITH t AS (SELECT sex, count(*) AS n FROM data GROUP BY sex) SELECT sex, n / (SELECT sum(n) FROM t) AS f FROM t",
    "SELECT region, sum(count(*)) OVER (ORDER BY region) AS f FROM data GROUP BY region",
    "SELECT sex, quantile_cont(income, 0.75) - quantile_cont(income, 0.25) AS f FROM data GROUP BY sex",
    "SELECT 'all' AS who, count(*) AS f FROM data WHERE age > (SELECT avg(age) FROM data)",
    "SELECT count(*) AS n, avg(age) AS m, stddev_samp(age) AS f FROM data",
    "WITH t AS (SELECT region, count(*) AS n FROM data GROUP BY ALL) "
    "SELECT region, n / first_value(n) OVER (ORDER BY region DESC) + n AS f FROM t",
    "WITH t AS (SELECT age, count(*) AS n FROM data GROUP BY age), u AS (SELECT age, t.n AS n, n ^ 2 AS m FROM t) "
    "SELECT sum(m) / sum(n) ^ 2 + sum(age * n) AS f FROM u",
    "WITH t AS (SELECT age AS x, row_number() OVER (ORDER BY age) AS i, count(*) OVER () AS n FROM data) "
    "SELECT sum((2 * i - n - 1) * x) / (any_value(n) * sum(x)) AS f FROM t",
]


@pytest.mark.ci
@pytest.mark.parametrize("text", sliced(ANSWERED))
def test_figures_that_no_closed_form_covers_have_an_interval(release, text):
    got = release.sql(text, intervals=True)
    assert got.columns[-4:] == ("f", "f_low", "f_high", "f_status")
    for row in got.rows:
        value, low, high, _ = row[-4:]
        assert low <= value <= high
        assert low < high
    again = release.sql(text, intervals=True)
    assert sorted(map(repr, again.rows)) == sorted(map(repr, got.rows))


REFUSED = [
    ("SELECT sex, max(age) AS f FROM data GROUP BY sex", "outermost released values"),
    ("SELECT count(DISTINCT age) AS f FROM data", "outermost released values"),
    ("SELECT sex, list(age)[1] AS f FROM data GROUP BY sex", "outermost released values"),
    ("SELECT region, min(count(*)) OVER () AS f FROM data GROUP BY region", "outermost released"),
    ("SELECT sex, entropy(age) AS f FROM data GROUP BY sex", "too rare to be released"),
    ("SELECT stddev_samp(age) AS f FROM data WHERE random() < 0.5", "at random"),
    ("SELECT sex, age FROM data LIMIT 3", "it has no group"),
    ("SELECT median(n) AS f FROM (SELECT age, count(*) AS n FROM data GROUP BY age)", "it computes from groups"),
    ("SELECT count(*) AS f FROM (SELECT DISTINCT age FROM data)", "it computes from groups"),
    ("WITH t AS (SELECT sex, age, count(*) AS n FROM data GROUP BY ALL), u AS (SELECT sex, avg(n) AS f FROM t "
     "GROUP BY sex) SELECT sex, f FROM u", "it computes from groups"),
    ("SELECT count(*) AS f FROM (SELECT age FROM data UNION SELECT 1)", "it computes from groups"),
    ("SELECT avg(age) AS f FROM (SELECT age FROM data LIMIT 99)", "the first rows"),
    ("SELECT approx_quantile(age, 0.99) AS f FROM data", "outermost released values"),
    ("SELECT quantile_cont(age, 0.5) - quantile_cont(age, 0.001) AS f FROM data", "outermost released values"),
    ("SELECT sex, bool_or(age > 90)::INT AS f FROM data GROUP BY sex", "outermost released values"),
    ("SELECT stddev_samp(1) AS f FROM data", "the same in every replay"),
    ("SELECT upper(mode(sex)) AS f FROM data", "no numbers"),
    ("SELECT reservoir_quantile(age, 0.5) AS f FROM data", "at random"),
    ("SELECT percentile_cont(0.001) WITHIN GROUP (ORDER BY age DESC) AS f FROM data", "outermost released values"),
    ("SELECT sex, max(age) AS m, m + 1 AS f FROM data GROUP BY sex", "f: what lies beyond the outermost"),
    ("WITH t AS (SELECT age AS a FROM data) SELECT count(DISTINCT a) AS f FROM t", "outermost released values"),
    ("WITH t AS (SELECT age - avg(age) OVER () AS a FROM data) SELECT count(DISTINCT a) AS f FROM t", "outermost"),
    ("SELECT len(ARRAY(SELECT DISTINCT age FROM data)) AS f", "outermost released values"),
    ("SELECT age AS f FROM data QUALIFY row_number() OVER (ORDER BY age DESC) = 1", "by their number in an order"),
    ("SELECT avg(age) AS f FROM (SELECT age, row_number() OVER (ORDER BY age DESC) AS r FROM data) "
     "WHERE r BETWEEN 1 AND 9", "by their number in an order"),
    ("SELECT median(n) AS f FROM (SELECT age, count(*) AS n FROM data GROUP BY ALL)", "it computes from groups"),
    ("SELECT sum(1) AS f FROM (SELECT age FROM data GROUP BY age)", "it computes from groups"),
    ("SELECT sum(a) AS f FROM (SELECT DISTINCT age AS a FROM data)", "it computes from groups"),
    ("SELECT sum(n > 0) AS f FROM (SELECT age, count(*) AS n FROM data GROUP BY age)", "it computes from groups"),
    ("SELECT stddev_samp(age) / (SELECT count(*) FROM \"sex\") AS f FROM data", "it reads sex"),
    ("SELECT stddev_samp(age) / (SELECT sum(n) FROM catalog.codes) AS f FROM data", "it reads codes"),
    ("SELECT f FROM query('SELECT max(age) AS f FROM data')", "it reads query"),
]  # fmt: skip


@pytest.mark.ci
@pytest.mark.parametrize(("text", "why"), sliced(REFUSED))
def test_what_no_replay_can_hold_is_refused_with_the_reason(release, text, why):
    got = release.sql(text, intervals=True)
    assert not any(name.endswith("_low") for name in got.columns)
    assert why in " ".join(w for w in got.warnings if w.startswith("No noise interval"))


def test_own_tables_have_intervals_by_replays(release):
    own = pd.DataFrame({"sex": ["Female", "Male"], "w": [1, 3]})
    got = release.sql(
        "SELECT sum(w * age) / sum(w) AS f FROM data JOIN own USING (sex)",
        tables={"own": own},
        intervals=True,
    )
    ((value, low, high, status),) = got.rows
    assert low < value < high
    assert status == "reliable"


@pytest.mark.ci
def test_rows_that_come_first_have_the_intervals_that_they_have_among_all(release):
    """Others come first in some replays."""
    of_men = "SELECT region, count(*) AS m FROM data WHERE sex = 'Male' GROUP BY region"
    text = (
        f"WITH a AS (SELECT region, count(*) AS n FROM data GROUP BY region), b AS ({of_men}) "
        "SELECT region, m / n AS f FROM a JOIN b USING (region) ORDER BY f DESC"
    )
    first, every = (release.sql(f"{text} {end}", intervals=True) for end in ("LIMIT 3", ""))
    assert first.columns == ("region", "f", "f_low", "f_high", "f_status")
    assert first.rows == every.rows[:3]
    assert {row[-1] for row in first.rows} == {"reliable"}
    largest = "SELECT stddev(age) AS f FROM data GROUP BY sex ORDER BY f DESC LIMIT 1"
    ((value, low, high, _),) = release.sql(largest, intervals=True).rows
    assert low < value < high


def test_groups_without_a_row_in_any_replay_hold_what_suppression_hides(release):
    """Ages of one's own that nobody released has: 0 in every replay, and nobody knows how many the threshold hides."""
    own = pd.DataFrame({"age": [40, 41, 42, 120]})
    got = release.sql(
        "SELECT age, count(sex) AS f FROM own LEFT JOIN data USING (age) GROUP BY age ORDER BY age",
        tables={"own": own},
        intervals=True,
    )
    assert got.rows[-1] == (120, 0, 0, 6, "not released")
    assert all(low < f < high for _, f, low, high, _ in got.rows[:-1])


def test_what_fails_while_replays_are_run_is_a_reason_and_no_failure(release, monkeypatch):
    def fails(*given, **more):
        raise duckdb.OutOfMemoryException("full")

    monkeypatch.setattr(LogicalViews, "put_variants", fails)
    got = release.sql("SELECT stddev_samp(age) AS f FROM data", intervals=True)
    assert got.columns == ("f",)
    assert "it is not understood" in " ".join(got.warnings)


def test_nobody_waiting_ends_the_work(release, monkeypatch):
    """It is no reason why there are no intervals, as too long a time is."""
    left = []

    def leaves(*given, **more):
        left.append(True)
        raise TimedOut("stopped")

    monkeypatch.setattr(Session, "on_variants", leaves)
    with pytest.raises(TimedOut, match="Cancelled"):
        release.until(lambda: bool(left)).sql(
            "SELECT stddev_samp(age) AS f FROM data", intervals=True
        )


@pytest.mark.parametrize(
    ("where", "name", "value", "why"),
    [
        (aggregates, "MOST_ROWS", 0, "more than 0 rows"),
        (module, "MOST_S", 0.0, "more than 0 seconds"),
    ],
)
def test_replays_that_cost_too_much_are_not_used(release, monkeypatch, where, name, value, why):
    monkeypatch.setattr(where, name, value)
    monkeypatch.setattr(cache, "read", lambda *given: None)
    with open_release(release.path) as fresh:
        got = fresh.sql("SELECT stddev_samp(age) AS f FROM data", intervals=True)
    assert got.columns == ("f",)
    assert why in " ".join(got.warnings)


def test_a_statement_that_fails_on_a_replay_has_none(release):
    got = release.sql(
        "SELECT stddev_samp(age) + CASE WHEN count(*) <> "
        f"{release.sql('SELECT count(*) FROM data').rows[0][0]} THEN error('another') ELSE 0 END AS f FROM data",
        intervals=True,
    )
    assert got.columns == ("f",)
    assert "on a replay of the table it fails" in " ".join(got.warnings)


def test_a_figure_that_differs_when_computed_again_has_none(release, monkeypatch):
    """Planted: other rows than those that answer are replayed."""
    whole = aggregates.drawn_replays

    def other(release, columns):
        drawn = whole(release, columns)
        n, size = drawn.stack.n.copy(), int(drawn.stack.sizes[0])
        n[:size] = np.roll(n[:size], 7)
        return replace(drawn, stack=replace(drawn.stack, n=n))

    monkeypatch.setattr(aggregates, "drawn_replays", other)
    with open_release(release.path) as fresh:
        got = fresh.sql("SELECT stddev_samp(age) AS f FROM data", intervals=True)
    assert got.columns == ("f",)
    assert "another figure" in " ".join(got.warnings)


def test_rows_that_no_replay_has_are_given_as_the_reason(release):
    """Joined by two figures that are never the same, a table has no rows, in no replay either."""
    groups = "(SELECT sex, {f} AS f FROM data GROUP BY sex)"
    one, other = groups.format(f="count(*)"), groups.format(f="avg(age)")
    got = release.sql(f"SELECT f FROM {one} a JOIN {other} b USING (f)", intervals=True)
    (warning,) = (text for text in got.warnings if "interval" in text)
    assert "stand in no replay of the table, as those that a figure" in warning


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


N = 24


def figures(value, error, doubled=None, *, imagined=10.0, doublings=2.0) -> Figures:
    """One row for each error: its figure on pairs of imagined and replayed rows that are apart by the error."""
    value, error = np.atleast_1d(np.array(value, float)), np.atleast_2d(np.array(error, float))
    base = np.full(error.shape, imagined)
    return Figures(
        value=value,
        again=value,
        placed=value[:, None].repeat(10, axis=1),
        imagined=base,
        replayed=base + error,
        doubled=(base + error)[:, :2] if doubled is None else np.atleast_2d(doubled),
        extreme=np.zeros((len(value), 0)),
        reworded=np.zeros((len(value), 0)),
        possible=np.zeros((len(value), 0)),
        doublings=doublings,
    )


def test_ends_by_hand():
    """Replays are off by 2 in either direction: root mean square 2, Student's t with 24 degrees of freedom 2.0639."""
    low, high = ends_of_figures(figures(10.0, [-2.0, 2.0] * 12), is_whole=False)
    assert low[0] == pytest.approx(10 - 2.0639 * 2, abs=1e-3)
    assert high[0] == pytest.approx(10 + 2.0639 * 2, abs=1e-3)
    low, high = ends_of_figures(figures(10.0, [-2.0, 2.0] * 12), is_whole=True)
    assert (low[0], high[0]) == (6.0, 14.0)  # inwards: the whole numbers from 5.87 to 14.13


def test_an_error_of_one_sign_counts_in_full():
    """A mean that every replay lowers by 3 is no better known than one that is off by 3 either way."""
    low, high = ends_of_figures(figures(10.0, [-3.0] * N), is_whole=False)
    assert high[0] - low[0] == pytest.approx(2 * 2.0639 * 3, abs=1e-3)


def test_what_hiding_moves_a_figure_by_is_added_for_each_doubling():
    """Hiding twice as much lowers 8 by 5 and 12 by 3: mean 4, variance 2, of two: 4 ** 2 - 1 = 15, twice doubled."""
    _, high = ends_of_figures(figures(10.0, [-2.0, 2.0] * 12, [3.0, 9.0]), is_whole=False)
    half = np.sqrt((2.0639 * 2) ** 2 + 15.0 * 2**2)
    assert high[0] == pytest.approx(10 + half, abs=2e-3)
    # A shift that is within its own noise is none.
    _, high = ends_of_figures(figures(10.0, [-2.0, 2.0] * 12, [6.0, 14.1]), is_whole=False)
    assert high[0] == pytest.approx(10 + 2.0639 * 2, abs=1e-3)


def test_rows_that_too_few_replays_have_are_not_known():
    error = [[1.0] * N, [np.nan] * 3 + [1.0] * (N - 3), [1.0, np.nan] + [1.0] * (N - 2)]
    low, _ = ends_of_figures(figures([10.0, 10.0, 10.0], error), is_whole=False)
    assert np.isnan(low).tolist() == [False, True, False]
    low, _ = ends_of_figures(figures(0.0, [0.0] * N, imagined=0.0), is_whole=True)
    assert np.isnan(low[0])


@pytest.mark.filterwarnings("error")
def test_endless_figures_have_no_interval_and_the_others_theirs():
    """The logarithm of a group that no replay has rows of."""
    made = figures([-np.inf, 10.0], [[-1.0, 1.0] * 12, [-np.inf, 1.0] + [-1.0, 1.0] * 11])
    assert unfit(made) is None
    assert np.isnan(ends_of_figures(made, is_whole=False)[0]).tolist() == [True, False]


def test_figures_that_replays_cannot_tell_are_named():
    assert "the same in every replay" in str(unfit(figures(10.0, [0.0] * N)))
    assert "in no replay" in str(unfit(figures(10.0, [np.nan] * N)))
    made = replace(figures(10.0, [1.0] * N), again=np.array([11.0]))
    assert "another figure" in str(unfit(made))


def test_what_rests_on_where_rows_were_imputed_is_not_known():
    """Ten placements: there in all, in eight, nothing in two of them, nothing as a figure that may be 0."""
    placed = np.full((4, 10), 5.0)
    placed[1, :2] = np.nan
    placed[2:, :2] = 0.0
    made = replace(figures([5.0] * 4, [[1.0] * N] * 4), placed=placed)
    assert made.known(is_amount=True).tolist() == [True, False, False, False]
    assert made.known(is_amount=False).tolist() == [True, False, False, False]
    nothing = replace(made, value=np.zeros(4))
    assert nothing.known(is_amount=True).tolist() == [False] * 4
    assert nothing.known(is_amount=False).tolist() == [True, False, True, True]


def test_statuses_by_hand():
    """Half widths of a tenth and more, of a figure next to nothing, without an end, not released, ruled out."""
    value = np.array([100.0, 100.0, 3.0, 100.0, 100.0, 0.0])
    half = np.array([10.0, 11.0, 3.0, np.nan, 10.0, 0.0])
    known = np.array([True, True, True, True, False, False])
    ruled = np.array([False] * 5 + [True])
    words = ("reliable", "unreliable", "low", "unreliable", "not released", "structural zero")
    assert statuses(value, value - half, value + half, known, ruled) == words
    assert statuses(value, value - half, value + half, known, is_amount=False)[2] == "unreliable"


def test_a_figure_reaches_to_what_it_is_with_far_outermost_values():
    """17 on one side, and nothing on the other; a count stays as it is."""
    made = replace(figures(10.0, [-1.0, 1.0] * 12), extreme=np.array([[17.0, 30.0]]))
    low, high = ends_of_figures(made, is_whole=False)
    assert (low[0], high[0]) == (pytest.approx(10 - 2.0639, abs=1e-3), 17.0)
    _, high = ends_of_figures(made, is_whole=False, is_count=True)
    assert high[0] == pytest.approx(10 + 2.0639, abs=1e-3)
