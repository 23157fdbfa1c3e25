"""Copies of a table's counts: locks, spread beside the closed form, the same every time; statements on them."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import numpy as np
import pandas as pd
import pytest
from fixtures.intervals import small_release
from fixtures.pipeline import make_census

from engine.errors import TimedOut
from queries.intervals.copies import replicates as module
from queries.intervals.copies.replicates import N_REPLICATES, errors_of_buckets, replicates
from queries.intervals.model import noise_model
from queries.intervals.statement import aggregates, reckoned
from queries.intervals.statement import spreads as copies
from queries.intervals.tree import variance_of_sums
from queries.release import open_release
from queries.sql import RowsBeyond
from queries.sql.answering import Answering
from queries.sql.views import LogicalViews

TABLES = (("age",), ("sex",), ("region",), ("income",), ("age", "sex"), ("income", "sex"), ("region", "sex"),
          ("age", "region", "sex"))  # fmt: skip


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """Of so many people that nearly every age of each sex is measured."""
    folder = tmp_path_factory.mktemp("replicates")
    with small_release(folder, make_census(folder / "census", people=6000), tables=TABLES) as made:
        yield made


@pytest.fixture(autouse=True)
def nothing_kept(release):
    """Each test asks anew: answers of statements stay with an open release."""
    release.models.pop(("answers",), None)


FILLED = ("age", "region", "sex")
"""Cells of few rows, 46 % filled in."""


def test_copies_keep_their_locks_and_are_no_noise_free_data(release):
    assert FILLED in release.tables
    for table in set(release.tables) - {FILLED}:
        got = replicates(release, table)
        rows = noise_model(release, table).table.rows
        assert got.counts.shape == (len(rows), N_REPLICATES)
        assert got.counts.min() >= 0
        assert got.astray <= copies.MOST_ASTRAY, table
        assert (got.counts.std(axis=1) > 0).any()


def test_values_of_a_column_are_as_many_in_every_table(release):
    wide = ("age", "sex")
    narrow = replicates(release, ("sex",)).counts
    rows = noise_model(release, wide).table.rows
    at = noise_model(release, wide).table.columns.index("sex")
    summed = np.zeros_like(narrow)
    np.add.at(summed, rows[:, at], replicates(release, wide).counts)
    off = np.abs(summed - narrow).sum(axis=0) / narrow.sum(axis=0)
    assert off.mean() / 2 <= copies.MOST_ASTRAY


def test_margins_that_are_not_released_are_kept_as_the_wider_table_tells_them(
    tmp_path, monkeypatch
):
    """People by sex, of a table by age and sex: as sure as the closed form says, not as the sum of all cells' noise."""
    census = make_census(tmp_path / "census", people=3000)

    def spread_of_sexes(made):
        model = noise_model(made, ("age", "sex"))
        counts = module._drawn(made, model, model.tree, made.go_on).counts
        by_sex = module.sum_rows(model.table.rows[:, 1], counts.astype(float), 2)
        return by_sex.std(axis=1, ddof=1).mean()

    with small_release(tmp_path, census, tables=(("age",), ("age", "sex"))) as made:
        rows = made.sql("SELECT sex, count(*) AS f FROM data GROUP BY sex", intervals=True).rows
        closed = np.mean([(high - low) / 2 / 1.96 for _, _, low, high, _ in rows])
        kept = spread_of_sexes(made)
        assert 0.7 * closed < kept < 1.2 * closed
        monkeypatch.setattr(module, "WIDEST_UNRELEASED", 0)
        assert spread_of_sexes(made) > 1.5 * closed


@pytest.fixture(scope="module")
def sparse(tmp_path_factory):
    """Of a table of three columns one column is released by itself, and no pair."""
    folder = tmp_path_factory.mktemp("sparse")
    census = make_census(folder / "census", people=3000)
    tables = (("sex",), ("age", "region", "sex"))
    with small_release(folder, census, tables=tables) as made:
        yield made


def test_what_is_released_below_tables_that_are_not_is_kept(sparse):
    wide = ("age", "region", "sex")
    model = noise_model(sparse, wide)
    by_sex = module.sum_rows(
        model.table.rows[:, 2], replicates(sparse, wide).counts.astype(float), 2
    )
    assert np.abs(by_sex - replicates(sparse, ("sex",)).counts).max() <= 1


def test_tables_that_are_not_released_are_drawn_once_and_always_alike(sparse):
    wide = ("age", "region", "sex")
    model = noise_model(sparse, wide)
    seen = []
    whole = module._Drawing.whole

    def drawn(self, table, *given):
        seen.append(table.columns)
        return whole(self, table, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module._Drawing, "whole", drawn)
        first = module._drawn(sparse, model, model.tree, sparse.go_on)
    pairs = [("age", "region"), ("age", "sex"), ("region", "sex")]
    assert sorted(seen) == sorted([wide, *pairs, ("age",), ("region",)])
    with open_release(sparse.path) as again:
        assert np.array_equal(replicates(again, wide).counts, first.counts)


def test_noise_of_several_columns_counts_as_in_closed_forms(release, monkeypatch):
    def spread_of_cells():
        model = noise_model(release, ("age", "sex"))
        return module._drawn(release, model, model.tree, release.go_on).counts.std(axis=1).mean()

    once = spread_of_cells()
    monkeypatch.setattr(module, "ALIKE", (1.0, 2.25 * module.ALIKE[True]))
    assert 1.2 * once < spread_of_cells() < 1.6 * once


def test_ranges_of_the_longer_column_are_rounded_as_one(release):
    """For each sex by itself: what any run of ages is off is less than 1, though no age is whole."""
    table = noise_model(release, ("age", "sex")).table
    shares = np.random.default_rng(3).random((len(table.rows), 5))
    whole = module._rounded(table, shares, np.random.default_rng(4))
    assert whole.dtype == np.int64
    for sex in (0, 1):
        own = table.rows[:, 1] == sex
        upto = np.cumsum((whole - shares)[own], axis=0)
        assert (np.ptp(upto, axis=0) < 1).all()


def test_values_with_rows_too_many_give_to_neighbours_by_hand():
    off = np.array([[1, 0], [-1, 2], [0, 0], [1, -1], [-1, -1]])
    copy, given, taken = module._pairs(off, None)
    pairs = sorted(zip(copy.tolist(), given.tolist(), taken.tolist(), strict=True))
    assert pairs == [(0, 0, 1), (0, 3, 4), (1, 1, 3), (1, 1, 4)]
    copy, given, _ = module._pairs(off, np.random.default_rng(1))
    assert sorted(zip(copy.tolist(), given.tolist(), strict=True)) == [
        (0, 0), (0, 3), (1, 1), (1, 1),
    ]  # fmt: skip


def test_a_lock_left_out_is_seen(release, monkeypatch):
    """Planted: counts that are brought to no margin lie outside of them."""
    table = ("age", "sex")
    sound = replicates(release, table).astray
    monkeypatch.setattr(module, "_raked", lambda table, counts, *_: counts)
    monkeypatch.setattr(module, "_settled", lambda table, whole, *_: whole)
    model = noise_model(release, table)
    assert module._drawn(release, model, model.tree, release.go_on).astray > max(3 * sound, 0.001)


def _drawn(release, table, n=4000, times=1.0):
    model = noise_model(release, table)
    tree = model.tree
    rng = np.random.default_rng(5)
    total = np.sqrt(tree.total_variance) * rng.standard_normal((1, n))
    return times * errors_of_buckets(tree, len(model.table.size), total, rng).std(axis=1), model


def _closed(model):
    n = len(model.table.size)
    each = np.arange(n)
    return np.sqrt(variance_of_sums(model.tree, n, each, each, np.ones(n)))


CLOSED = [
    ("SELECT age, count(*) AS f FROM data WHERE age BETWEEN 10 AND 60 GROUP BY age", 2.3),
    ("SELECT age // 10 AS a, count(*) AS f FROM data GROUP BY a", 1.3),
    ("SELECT region, sex, count(*) AS f FROM data GROUP BY ALL", 2.0),
    ("SELECT region, count(*) / sum(count(*)) OVER () AS f FROM data GROUP BY region", 1.3),
    ("SELECT sex, avg(age) AS f FROM data GROUP BY sex", 1.4),
    ("SELECT sex, sum(age) AS f FROM data GROUP BY sex", 1.4),
    ("SELECT sex, count(*) + 0.5 AS f FROM data WHERE age BETWEEN 17 AND 52 GROUP BY sex", 1.3),
]
"""Statements that have a closed form, and how many times wider their intervals by copies may be: counts that take few
values go by steps."""


@pytest.mark.parametrize(("text", "most"), CLOSED)
def test_closed_forms_are_the_fast_path_to_what_copies_say(release, text, most):
    """Copies are never much surer, and at most twice as wide where steps and rounding weigh (counts of few rows)."""
    plain, closed = release.sql(text), release.sql(text, intervals=True)
    ends = {row[:-4]: (float(row[-3]), float(row[-2])) for row in closed.rows}
    found, why = copies.spreads(release, text, plain, None, [len(plain.columns) - 1])
    assert not why
    (of_copies,) = found.values()
    low, high = np.array([ends[row[:-1]] for row in plain.rows]).T
    times = (of_copies.high - of_copies.low) / (high - low)
    assert 0.7 <= np.median(times) <= most
    # They lie about the same figure: each reaches into the other.
    assert (of_copies.low <= high).all()
    assert (of_copies.high >= low).all()


@pytest.mark.parametrize("table", [("age",), ("age", "sex")])
def test_errors_are_as_spread_as_the_closed_form_says(release, table):
    """4,000 draws have their standard deviation to 1.1 %, five times that is the bound."""
    drawn, model = _drawn(release, table)
    known = model.tree.row_bucket[model.tree.row_bucket >= 0]
    want = _closed(model)[np.unique(known)]
    assert np.abs(drawn[np.unique(known)] / want - 1).max() < 0.06


def test_noise_twice_as_large_is_seen(release):
    drawn, model = _drawn(release, ("age",), times=2.0)
    known = np.unique(model.tree.row_bucket[model.tree.row_bucket >= 0])
    assert np.abs(drawn[known] / _closed(model)[known] - 1).min() > 0.5


def test_copies_hang_on_the_content_hash_alone(release):
    table = ("age", "sex")
    first = replicates(release, table).counts
    with open_release(release.path) as again:
        assert np.array_equal(replicates(again, table).counts, first)
    with open_release(release.path) as other:
        other.content_hash = "another"
        assert not np.array_equal(replicates(other, table).counts, first)


ANSWERED = [
    "SELECT sex, stddev_samp(age) AS f FROM data GROUP BY sex",
    "SELECT corr(age, CASE sex WHEN 'Male' THEN 1 ELSE 0 END) AS f FROM data",
    "SELECT count(*) AS f FROM data JOIN (SELECT 1 AS one) ON true",
    "SELECT sex, sum(count(*)) OVER () AS f FROM data GROUP BY ROLLUP (sex)",
    "SELECT sex, sum(count(*)) OVER (PARTITION BY sex || 'x') AS f FROM data GROUP BY sex",
    "WITH t AS (SELECT sex, count(*) AS n FROM data GROUP BY sex) SELECT sex, n / (SELECT sum(n) FROM t) AS f FROM t",
    "SELECT region, sum(count(*)) OVER (ORDER BY region) AS f FROM data GROUP BY region",
    "SELECT sex, quantile_cont(age, 0.75) - quantile_cont(age, 0.25) AS f FROM data GROUP BY sex",
    "SELECT 'all' AS who, count(*) AS f FROM data WHERE age > (SELECT avg(age) FROM data)",
    "SELECT count(*) AS n, avg(age) AS m, stddev_samp(age) AS f FROM data",
    "WITH t AS (SELECT region, count(*) AS n FROM data GROUP BY ALL) "
    "SELECT region, n / first_value(n) OVER (ORDER BY region DESC) + n AS f FROM t",
    "WITH t AS (SELECT age, count(*) AS n FROM data GROUP BY age), u AS (SELECT age, t.n AS n, n ^ 2 AS m FROM t) "
    "SELECT sum(m) / sum(n) ^ 2 + sum(age * n) AS f FROM u",
    "WITH t AS (SELECT age AS x, row_number() OVER (ORDER BY age) AS i, count(*) OVER () AS n FROM data) "
    "SELECT sum((2 * i - n - 1) * x) / (any_value(n) * sum(x)) AS f FROM t",
]


@pytest.mark.parametrize("text", ANSWERED)
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
    ("SELECT stddev_samp(income) AS f FROM data", "of income was filled in"),
    ("SELECT region, sex, stddev_samp(age) AS f FROM data GROUP BY ALL", "of its table was filled"),
    ("SELECT sex, median(age) - avg(age) AS f FROM data GROUP BY sex", "goes by steps"),
    ("SELECT median(n) AS f FROM (SELECT age, count(*) AS n FROM data GROUP BY age)", "it reckons from groups"),
    ("SELECT count(*) AS f FROM (SELECT DISTINCT age FROM data)", "it reckons from groups"),
    ("WITH t AS (SELECT sex, age, count(*) AS n FROM data GROUP BY ALL), u AS (SELECT sex, avg(n) AS f FROM t "
     "GROUP BY sex) SELECT sex, f FROM u", "it reckons from groups"),
    ("SELECT count(*) AS f FROM (SELECT age FROM data UNION SELECT 1)", "it reckons from groups"),
    ("SELECT avg(age) AS f FROM (SELECT age FROM data LIMIT 99)", "the first rows"),
    ("SELECT approx_quantile(age, 0.99) AS f FROM data", "outermost released values"),
    ("SELECT quantile_cont(age, 0.5) - quantile_cont(age, 0.001) AS f FROM data", "outermost released values"),
    ("SELECT sex, bool_or(age > 90)::INT AS f FROM data GROUP BY sex", "outermost released values"),
    ("SELECT stddev_samp(1) AS f FROM data", "the same in every copy"),
    ("SELECT upper(mode(sex)) AS f FROM data", "no numbers"),
    ("SELECT reservoir_quantile(age, 0.5) AS f FROM data", "at random"),
    ("SELECT percentile_cont(0.001) WITHIN GROUP (ORDER BY age DESC) AS f FROM data", "outermost released values"),
    ("SELECT sex, max(age) AS m, m + 1 AS f FROM data GROUP BY sex", "f: max is not among"),
    ("WITH t AS (SELECT age AS a FROM data) SELECT count(DISTINCT a) AS f FROM t", "outermost released values"),
    ("WITH t AS (SELECT age - avg(age) OVER () AS a FROM data) SELECT count(DISTINCT a) AS f FROM t", "outermost"),
    ("SELECT len(ARRAY(SELECT DISTINCT age FROM data)) AS f", "outermost released values"),
    ("SELECT age AS f FROM data QUALIFY row_number() OVER (ORDER BY age DESC) = 1", "by their number in an order"),
    ("SELECT avg(age) AS f FROM (SELECT age, row_number() OVER (ORDER BY age DESC) AS r FROM data) "
     "WHERE r BETWEEN 1 AND 9", "by their number in an order"),
    ("SELECT median(n) AS f FROM (SELECT age, count(*) AS n FROM data GROUP BY ALL)", "it reckons from groups"),
    ("SELECT sum(1) AS f FROM (SELECT age FROM data GROUP BY age)", "it reckons from groups"),
    ("SELECT sum(a) AS f FROM (SELECT DISTINCT age AS a FROM data)", "it reckons from groups"),
    ("SELECT sum(n > 0) AS f FROM (SELECT age, count(*) AS n FROM data GROUP BY age)", "it reckons from groups"),
    ("SELECT stddev_samp(age) / (SELECT count(*) FROM \"sex\") AS f FROM data", "it reads sex"),
    ("SELECT stddev_samp(age) / (SELECT sum(n) FROM catalog.codes) AS f FROM data", "it reads codes"),
    ("SELECT f FROM query('SELECT max(age) AS f FROM data')", "it reads query"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_what_no_copy_can_hold_is_refused_with_the_reason(release, text, why):
    got = release.sql(text, intervals=True)
    assert not any(name.endswith("_low") for name in got.columns)
    assert why in " ".join(w for w in got.warnings if w.startswith("No noise interval"))


def test_own_tables_have_intervals_by_copies(release):
    own = pd.DataFrame({"sex": ["Female", "Male"], "w": [1, 3]})
    got = release.sql(
        "SELECT sum(w * age) / sum(w) AS f FROM data JOIN own USING (sex)",
        tables={"own": own},
        intervals=True,
    )
    ((value, low, high, status),) = got.rows
    assert low < value < high
    assert status == "reliable"


def test_rows_that_come_first_have_the_intervals_that_they_have_among_all(release):
    """Others come first in some copies."""
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


def test_groups_without_a_row_in_any_copy_have_no_interval(release):
    """Ages of one's own that nobody released has: 0 in every copy, and nobody knows how many the threshold hides."""
    own = pd.DataFrame({"age": [40, 41, 42, 120]})
    got = release.sql(
        "SELECT age, count(sex) AS f FROM own LEFT JOIN data USING (age) GROUP BY age ORDER BY age",
        tables={"own": own},
        intervals=True,
    )
    assert got.rows[-1] == (120, 0, None, None, "unreliable")
    assert all(low < f < high for _, f, low, high, _ in got.rows[:-1])


def test_a_value_that_its_type_cannot_hold_stays_where_it_was(release):
    """Rows beyond an end that is the last number there is."""
    beyond = RowsBeyond(source=np.array([0]), column=("age",), value=(str(2**63),))
    n = len(noise_model(release, ("age",)).table.rows)
    counts = np.zeros((n + 1, 1), dtype=np.int64)
    counts[-1] = 1
    ((rows,),) = (release.on_copies("SELECT age FROM data", ("age",), counts, beyond),)
    ((first,), *_) = release.sql("SELECT age FROM data ORDER BY age").rows
    assert rows == [(first,)]


def test_what_fails_while_copies_are_made_is_a_reason_and_no_failure(release, monkeypatch):
    def fails(*given, **more):
        raise duckdb.OutOfMemoryException("full")

    monkeypatch.setattr(LogicalViews, "put_copies", fails)
    got = release.sql("SELECT stddev_samp(age) AS f FROM data", intervals=True)
    assert got.columns == ("f",)
    assert "nor do copies of the table tell" in " ".join(got.warnings)


def test_nobody_waiting_ends_the_work(release, monkeypatch):
    """It is no reason why there are no intervals, as too long a time is."""
    left = []

    def leaves(*given, **more):
        left.append(True)
        raise TimedOut("stopped")

    monkeypatch.setattr(Answering, "on_copies", leaves)
    with pytest.raises(TimedOut, match="nobody waits"):
        release.until(lambda: bool(left)).sql(
            "SELECT stddev_samp(age) AS f FROM data", intervals=True
        )


@pytest.mark.parametrize(
    ("text", "does"),
    [
        ("WITH t AS (SELECT age + 1 AS f FROM data WHERE age > 3) SELECT f FROM t", False),
        ("SELECT DISTINCT age FROM data", True),
        ("SELECT age, avg(age) OVER () AS f FROM data", True),
        ("EXPLAIN SELECT 1", True),
    ],
)
def test_whether_a_statement_reckons_is_seen_in_its_plan(release, text, does):
    assert copies.reckons(release, text, None) == does


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("MOST_ASTRAY", -1.0, "do not keep its totals"),
        ("MOST_ROWS", 1, "too many to copy"),
        ("replicates", lambda *_: None, "mode dp"),
        ("MOST_S", 0.0, "more than 0 seconds"),
    ],
)
def test_copies_that_are_not_sound_or_cost_too_much_are_not_used(
    release, monkeypatch, name, value, why
):
    monkeypatch.setattr(copies, name, value)
    got = release.sql("SELECT stddev_samp(age) AS f FROM data", intervals=True)
    assert got.columns == ("f",)
    assert why in " ".join(got.warnings)


def test_strangers_have_none(release, monkeypatch):
    monkeypatch.setattr(release, "is_overseen", True)
    got = release.sql("SELECT stddev_samp(age) AS f FROM data", intervals=True)
    assert "strangers" in " ".join(got.warnings)


def test_a_statement_that_fails_on_a_copy_has_none(release):
    got = release.sql(
        "SELECT stddev_samp(age) AS f FROM data HAVING CASE WHEN count(*) <> "
        f"{release.sql('SELECT count(*) FROM data').rows[0][0]} THEN error('another') ELSE true END",
        intervals=True,
    )
    assert got.columns == ("f",)
    assert "on a copy of the table it fails" in " ".join(got.warnings)


def test_a_figure_that_differs_from_its_second_reckoning_has_none(release, monkeypatch):
    """Planted: the copies are laid under other rows than those that answer."""
    whole = copies.noise_model

    def other(release, columns):
        model = whole(release, columns)
        return replace(model, table=replace(model.table, n=np.roll(model.table.n, 7)))

    monkeypatch.setattr(copies, "noise_model", other)
    monkeypatch.setattr(copies, "sound_copies", lambda *given: replicates(*given))
    got = release.sql("SELECT stddev_samp(age) AS f FROM data", intervals=True)
    assert got.columns == ("f",)
    assert "another figure" in " ".join(got.warnings)


def test_what_failed_its_check_has_no_copies_either(release, monkeypatch):
    asked = []
    whole = reckoned.estimate_of
    monkeypatch.setattr(
        reckoned,
        "estimate_of",
        lambda *given: replace(whole(*given), value=whole(*given).value + 1),
    )
    monkeypatch.setattr(
        aggregates, "spreads", lambda *given: asked.append(given[-2:]) or ({}, {1: "x"})
    )
    got = release.sql("SELECT count(*) AS n, stddev_samp(age) AS f FROM data", intervals=True)
    assert asked == [([1], {0})]
    assert got.columns == ("n", "f")


def test_cost_of_no_copies_is_no_copy(release, monkeypatch):
    """Figures that a closed form covers never ask for copies."""
    monkeypatch.setattr(aggregates, "spreads", None)
    got = release.sql(
        "SELECT sex, count(*) AS n, avg(age) AS m FROM data GROUP BY sex", intervals=True
    )
    assert "m_low" in got.columns


def test_rows_that_no_copy_has_are_given_as_the_reason(release):
    """Joined by two figures that are never the same, a table has no rows, in no copy either."""
    groups = "(SELECT sex, {f} AS f FROM data GROUP BY sex)"
    one, other = groups.format(f="count(*)"), groups.format(f="avg(age)")
    got = release.sql(f"SELECT f FROM {one} a JOIN {other} b USING (f)", intervals=True)
    (warning,) = (text for text in got.warnings if "interval" in text)
    assert "stand in no copy of the table, as those that a figure" in warning
