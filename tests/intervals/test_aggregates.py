"""SQL answers with intervals: the plain answer untouched, ends as in a tabulation, reasons where none is known."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from fixtures.intervals import sliced

import engine
from engine.errors import NotAnswerable, QueryRefused
from queries.intervals import annotated, tabulate


@pytest.fixture(scope="module")
def release(small):
    return small


def column(result, name):
    return [row[result.columns.index(name)] for row in result.rows]


def ends(result, name):
    return tuple(column(result, f"{name}_{end}") for end in ("low", "high", "status"))


@pytest.mark.ci
def test_each_figure_gets_three_columns_and_the_answer_stays(release):
    text = "SELECT sex, count(*) AS n, avg(age) FROM data GROUP BY sex ORDER BY n"
    got, plain = annotated(release, text), release.sql(text)
    assert got.columns == (
        *("sex", "n", "n_low", "n_high", "n_status"),
        *("avg(age)", "avg(age)_low", "avg(age)_high", "avg(age)_status"),
    )
    assert [(r[0], r[1], r[5]) for r in got.rows] == plain.rows
    assert got.table == plain.table == ("age", "sex")
    assert len(got.types) == len(got.columns)
    assert got.df().columns.tolist() == list(got.columns)
    assert got.arrow().num_rows == got.pl().height == len(got) == 2
    assert got.head(1) == got.rows[:1]
    assert "n_low" in got.to_csv()


SAME = [
    ("SELECT age, sex, count(*) AS f FROM data GROUP BY ALL", ["age", "sex"], {}),
    (
        "SELECT sex, count(*) f FROM data WHERE age BETWEEN 18 AND 40 GROUP BY 1",
        ["sex"],
        {"where": {"age": (18, 40)}},
    ),
    (
        "SELECT sex, count(*) f FROM data d WHERE d.age >= 18 AND d.age <= 40 AND sex = 'Male' GROUP BY sex",
        ["sex"],
        {"where": {"age": (18, 40), "sex": ["Male"]}},
    ),
    ("SELECT count(*) AS f FROM data", [], {}),
    (
        "SELECT sex, sum(income) AS f FROM data GROUP BY sex",
        ["sex"],
        {"measure": "sum", "of": "income"},
    ),
    (
        "SELECT sex, avg(income) AS f FROM data GROUP BY sex",
        ["sex"],
        {"measure": "mean", "of": "income"},
    ),
    (
        "SELECT sex, median(income) f FROM data GROUP BY sex",
        ["sex"],
        {"measure": "median", "of": "income"},
    ),
    (
        "SELECT sex, quantile_cont(age, 0.9) AS f FROM data GROUP BY sex",
        ["sex"],
        {"measure": "quantile", "of": "age", "quantile": 0.9},
    ),
]


@pytest.mark.ci
@pytest.mark.parametrize(("text", "columns", "asked"), SAME)
def test_a_statement_and_a_tabulation_say_the_same(release, text, columns, asked):
    got, made = annotated(release, text), tabulate(release, columns, **asked)
    place = {key: i for i, key in enumerate(made.keys)}
    keys = [tuple(row[: len(columns)]) for row in got.rows]
    assert len(keys) > 0
    for key, value, low, high, status in zip(keys, column(got, "f"), *ends(got, "f"), strict=True):
        i = place[key]
        assert (low, high) == pytest.approx((made.low[i], made.high[i]))
        assert status == made.status[i]
        if status != "not released":
            assert float(value) == pytest.approx(made.value[i])
    if not asked:
        shown = {k for k, s in zip(made.keys, made.status, strict=True) if s != "not released"}
        assert shown <= set(keys)


def test_shares_are_those_of_a_tabulation(release):
    for window, over in (("", []), ("PARTITION BY region", ["region"])):
        text = (
            f"SELECT region, sex, 100.0 * count(*) / sum(count(*)) OVER ({window}) AS f FROM data "
            "WHERE age > 20 GROUP BY region, sex"
        )
        got = annotated(release, text)
        made = tabulate(
            release, ["region", "sex"], where={"age": (21, None)}, measure="share", over=over
        )
        right = dict(zip(made.keys, zip(made.low, made.high, strict=True), strict=True))
        shown = 0
        for row, low, high in zip(got.rows, *ends(got, "f")[:2], strict=True):
            assert (low is None) == np.isnan(right[row[:2]][0])
            if low is not None:
                shown += 1
                assert (low / 100, high / 100) == pytest.approx(right[row[:2]])
        assert shown > 9


def test_bands_and_filters_are_ranges(release):
    bands = annotated(
        release,
        "SELECT CASE WHEN age < 18 THEN 'child' ELSE 'adult' END AS band, count(*) n FROM data GROUP BY band",
    )
    kept = annotated(release, "SELECT count(*) FILTER (WHERE age >= 18) AS n FROM data")
    made = tabulate(release, [], where={"age": (18, None)})
    of_band = {row[0]: row[1:5] for row in bands.rows}
    assert of_band["adult"][0] == kept.rows[0][0] == made.value[0]
    assert of_band["adult"][1:3] == kept.rows[0][1:3]
    assert kept.rows[0][1:3] == (made.low[0], made.high[0])
    either = annotated(release, "SELECT count(*) AS n FROM data WHERE age > 60 OR sex = 'Male'")
    assert either.rows[0][1] < either.rows[0][0] < either.rows[0][2]


def test_arithmetic_follows_its_parts(release):
    got = annotated(
        release,
        "SELECT sex, sum(age) / count(*) AS a, avg(age) AS b, round(100.0 * avg(age), 1) AS c, "
        "2 * count(*) - count(*) + 0 AS n, count(*) AS m FROM data GROUP BY sex",
    )
    for a, b in zip(ends(got, "a")[:2], ends(got, "b")[:2], strict=True):
        assert a == pytest.approx(b)
    for low, high, low_c, high_c in zip(*ends(got, "b")[:2], *ends(got, "c")[:2], strict=True):
        assert low_c == pytest.approx(100 * low, abs=0.2)
        assert high_c == pytest.approx(100 * high, abs=0.2)
    assert ends(got, "m") == ends(got, "n")


SAME_COUNT = (
    "count(*) FILTER (WHERE {})", "count_if({})", "sum(CASE WHEN {} THEN 1 END)", "sum(({})::INT)",
    "sum(CASE WHEN {} THEN 1 ELSE 0 END)", "count(CASE WHEN {} THEN 'x' END)", "count_if({}) + 0",
    "2 * count_if({}) - count_if({})",
)  # fmt: skip


@pytest.mark.parametrize("condition", ["age >= 40", "age < 30 OR sex = 'Male'", "sex = 'Male'"])
def test_one_question_has_one_interval_however_it_is_spelled(release, condition):
    listed = ", ".join(
        f"{f.format(condition, condition)} AS f{i}" for i, f in enumerate(SAME_COUNT)
    )
    got = annotated(release, f"SELECT region, {listed} FROM data GROUP BY region ORDER BY region")
    for i in range(1, len(SAME_COUNT)):
        assert ends(got, f"f{i}") == ends(got, "f0"), SAME_COUNT[i]
        assert [float(x) for x in column(got, f"f{i}")] == column(got, "f0")
    assert got.types[2:4] == ("BIGINT", "BIGINT")
    if "sex" not in condition:
        made = (
            tabulate(release, ["region"], where={"age": (40, None)}) if ">=" in condition else None
        )
        assert made is not None
        assert ends(got, "f0")[:2] == (made.low.tolist(), made.high.tolist())


SPELLED = [
    ("percentile_cont(0.4) WITHIN GROUP (ORDER BY income)", "quantile_cont(income, 0.4)"),
    ("percentile_disc(0.4) WITHIN GROUP (ORDER BY income)", "quantile_disc(income, 0.4)"),
    ("1.0 * count(income) / nullif(count(*), 0)", "1.0 * count(income) / count(*)"),
    ("coalesce(sum(income), 0)", "sum(income)"),
    ("sum(CASE WHEN income > 50000 THEN income ELSE 0 END)", "sum(income) FILTER (WHERE income > 50000)"),
    ("sum(CASE WHEN income > 50000 THEN income END)", "sum(income) FILTER (WHERE income > 50000)"),
    ("sum(income * (income > 50000)::INT)", "sum(income) FILTER (WHERE income > 50000)"),
    ("avg(CASE WHEN income > 50000 THEN income END)", "avg(income) FILTER (WHERE income > 50000)"),
    ("sum(if(income > 9000, income, 0)) / count(*)", "sum(income) FILTER (WHERE income > 9000) / count(*)"),
    ("sum(CASE WHEN income > 9000 AND sex = 'Male' THEN income END)",
     "sum(income) FILTER (WHERE income > 9000 AND sex = 'Male')"),
]  # fmt: skip


@pytest.mark.parametrize(("figure", "same"), sliced(SPELLED))
def test_one_figure_has_one_interval_and_one_status_however_it_is_spelled(release, figure, same):
    other, one = (
        annotated(release, f"SELECT sex, {text} AS f FROM data GROUP BY sex ORDER BY sex")
        for text in (figure, same)
    )
    for of_other, of_one in zip(ends(other, "f")[:2], ends(one, "f")[:2], strict=True):
        assert of_other == pytest.approx(of_one)
    assert ends(other, "f")[2] == ends(one, "f")[2]
    assert set(column(other, "f_status")) <= {"reliable", "unreliable", "not released"}


def test_what_stands_for_nothing_has_no_interval(release):
    """The -1 is the same whatever the rows are: it is no figure of them."""
    text = "SELECT sex, ifnull(avg(income) FILTER (WHERE sex = 'Male'), -1) AS f FROM data GROUP BY 1 ORDER BY 1"
    female, male = annotated(release, text).rows
    assert female[1:4] == (-1, None, None)
    assert female[4] != "reliable"
    assert male[2] < male[1] < male[3]


def test_what_a_with_calls_as_the_table_is_inside_it_the_table(release):
    flat = (
        "SELECT sex, count(*) AS f FROM data WHERE age >= 18 AND age < 65 GROUP BY sex ORDER BY sex"
    )
    chained = (
        "WITH data AS (SELECT * FROM data WHERE age >= 18), d AS (FROM Data WHERE age < 65) "
        "SELECT sex, count(*) AS f FROM d GROUP BY sex ORDER BY sex"
    )
    assert annotated(release, chained).rows == annotated(release, flat).rows
    assert release.sql(chained).marks.statuses == release.sql(flat).marks.statuses


EACH = "SELECT region, count(*) AS n, avg(age) AS f FROM data GROUP BY region"


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT * FROM ({EACH} ORDER BY f DESC LIMIT 2)",
        f"WITH g AS ({EACH}), r AS (SELECT *, row_number() OVER (ORDER BY f) AS k FROM g) "
        "SELECT region, n, f FROM r WHERE k < 3",
        f"SELECT t.region, n, t.f FROM ({EACH}) AS t QUALIFY rank() OVER (ORDER BY f) < 3",
        f"SELECT * EXCLUDE (m) FROM ({EACH.replace(', avg', ', max(age) AS m, avg')}) ORDER BY f LIMIT 2",
    ],
)
def test_groups_that_are_chosen_later_have_the_intervals_that_all_have(release, text):
    every, best = annotated(release, EACH), annotated(release, text)
    assert best.columns == every.columns
    assert len(best.rows) == 2
    assert set(best.rows) < set(every.rows)
    assert not any(w.startswith("No noise interval") for w in best.warnings)


def test_a_mean_of_ones_is_a_share(release):
    got = annotated(
        release,
        "SELECT avg((age >= 40)::INT) AS a, count_if(age >= 40) / count(*) AS b, "
        "100 * avg(CASE WHEN age >= 40 THEN 1.0 ELSE 0 END) AS c FROM data",
    )
    a, b, c = (ends(got, name)[:2] for name in "abc")
    assert [x[0] for x in a] == pytest.approx([x[0] for x in b])
    assert [100 * x[0] for x in a] == pytest.approx([x[0] for x in c])
    assert 0 < a[0][0] < column(got, "a")[0] < a[1][0] < 1


def test_names_of_the_same_select_are_followed(release):
    got = annotated(
        release,
        "SELECT age // 10 AS ten, count(*) AS n, count(*) FILTER (WHERE sex = 'Male') AS men, men / n AS share, "
        "count(*) FILTER (WHERE sex = 'Male') / count(*) AS same FROM data WHERE ten < 9 GROUP BY ten",
    )
    assert ends(got, "share") == ends(got, "same")
    assert len(set(ends(got, "share")[2])) > 0
    assert not got.warnings
    # A column of the table goes before a name.
    got = annotated(
        release, "SELECT sex AS region, count_if(region = 'R1') AS n FROM data GROUP BY sex"
    )
    right = annotated(release, "SELECT sex, count_if(region = 'R1') AS n FROM data GROUP BY sex")
    assert sorted(got.rows) == sorted(right.rows)


def test_a_value_that_is_not_released_may_be_what_suppression_hides(release):
    got = annotated(release, "SELECT count(*) AS n FROM data WHERE region = 'nowhere'")
    assert got.rows == [(0, 0, 6, "not released")]


def test_what_is_reckoned_from_figures_that_are_not_released_is_not_released(release):
    got = annotated(
        release,
        "SELECT age, count(*) FILTER (WHERE sex = 'Male') AS m, count(*) FILTER (WHERE sex = 'Female') AS f, "
        "m / f AS r, m / (2 + count(*)) AS p, m * f AS t, m - f AS d FROM data GROUP BY age",
    )
    hidden = {
        name: [status == "not released" for status in column(got, f"{name}_status")]
        for name in "mfrptd"
    }
    pairs = list(zip(hidden["m"], hidden["f"], strict=True))
    assert {(False, False), (True, True)} < {*pairs}  # and some of which one is
    either = [m or f for m, f in pairs]
    assert hidden["r"] == hidden["t"] == either
    # A difference may be 0 in several variants, and then is not known, only where both are about as large.
    apart = [abs(d or 0) for d in column(got, "d")]
    told = zip(either, hidden["d"], apart, strict=True)
    assert not any(d and far > 5 for of_either, d, far in told if not of_either)
    assert all(p for m, p in zip(hidden["m"], hidden["p"], strict=True) if m)


UNKNOWN = [
    ("SELECT age, sex FROM data LIMIT 3", "it has no group"),
    ("SELECT COLUMNS('a.*') FROM data", "it computes nothing"),
    ("WITH a AS (SELECT age FROM data LIMIT 3) SELECT count(age) FROM a", "first rows"),
    ("SELECT count(age) FROM data UNION ALL SELECT 1", "could not be told apart"),
    ("SELECT count(*) FROM (SELECT DISTINCT age FROM data)", "it computes from groups"),
    ("SELECT count(*) AS n FROM data GROUP BY sex", "could not be told apart"),
    ("SELECT count(*) AS n FROM data WHERE random() < 0.5", "at random"),
    ("SELECT count(DISTINCT age) FROM data", "too rare to be released"),
    ("SELECT sex, max(age) FROM data GROUP BY sex", "too rare to be released"),
    ("SELECT quantile_cont(age, [0.1, 0.9]) FROM data", "outermost released values"),
    ("SELECT quantile_disc(age, [0.1, 0.9]) FROM data", "outermost released values"),
    ("SELECT sex, CASE WHEN count(*) > 3 THEN 1 END FROM data GROUP BY sex", "the same in every replay"),
    ("SELECT sex, count(*) > 3 FROM data GROUP BY sex", "no numbers"),
    ("SELECT sex, struct_extract(any_value({'a': age}), 'a') FROM data GROUP BY sex", "struct_extract"),
    ("SELECT sex, rank() OVER (ORDER BY count(*)) FROM data GROUP BY sex", "the same in every replay"),
    ("SELECT count(*) FROM data USING SAMPLE 10", "sample"),
    ("SELECT count(*) FROM catalog.codes", "does not read the logical table"),
    ("PIVOT (SELECT sex, age FROM data) ON sex USING count(*)", "No noise interval"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "why"), sliced(UNKNOWN))
def test_what_is_not_understood_is_answered_plain_with_the_reason(release, text, why):
    got, plain = annotated(release, text), release.sql(text)
    assert got.columns == plain.columns
    if "random" not in text and "SAMPLE" not in text:
        # Without ORDER BY, DuckDB's threads decide the order.
        assert sorted(map(repr, got.rows)) == sorted(map(repr, plain.rows))
    said = [w for w in got.warnings if w.startswith("No noise interval is known for ")]
    assert said
    assert why in " ".join(said)


def test_one_figure_that_is_not_understood_leaves_the_others(release):
    got = annotated(
        release, "SELECT sex, max(age), count(*) AS n FROM data GROUP BY sex HAVING n > 3"
    )
    assert got.columns == ("sex", "max(age)", "n", "n_low", "n_high", "n_status")
    assert "max(age)" in got.warnings[0]


@pytest.mark.parametrize(
    ("text", "error"),
    [("SELECT count(*) FROM data GROUP BY agee", NotAnswerable), ("DROP TABLE data", QueryRefused)],
)
def test_refusals_are_those_of_a_plain_answer(release, text, error):
    with pytest.raises(error):
        annotated(release, text)


def test_a_difference_to_nobody_has_no_interval(release):
    """A mean of no rows, or of rows that no released bucket speaks of, is not zero with an interval round it."""
    got = annotated(
        release,
        "SELECT avg(age) FILTER (WHERE age > 200) - avg(age) AS a, sum(age) FILTER (WHERE age > 200) / count(*) AS b, "
        "avg(age) FILTER (WHERE age > 30) - avg(age) AS c FROM data",
    )
    assert "a_low" not in got.columns
    assert "b_low" not in got.columns
    assert ends(got, "c")[0][0] < column(got, "c")[0] < ends(got, "c")[1][0]


@pytest.fixture(scope="module")
def fine(tmp_path_factory):
    """Towns and streets: 1,000 values each, and a million pairs of which 0.4 % have rows."""
    folder, draws = tmp_path_factory.mktemp("fine"), np.random.default_rng(1)
    town = draws.integers(0, 1000, 40_000)
    street = (town * 3 + draws.integers(0, 3, len(town))) % 1000
    frame = pd.DataFrame({"town": town, "street": street})
    frame = frame.apply(lambda column: column.name[0] + column.astype(str).str.zfill(4))
    engine.new_key(folder / "my.key")
    columns = [
        engine.Column(name=name, kind="text", value_type="text", release="made up")
        for name in frame
    ]
    with engine.build(
        frame,
        tables=[["town", "street"]],
        columns=columns,
        entities=[],
        key=folder / "my.key",
        out=folder / "r.duckdb",
    ) as made:
        yield made


@pytest.mark.ci
@pytest.mark.parametrize(
    ("figure", "rest", "intervals"),
    [
        ("count(*)", "GROUP BY ALL ORDER BY n DESC LIMIT 5", False),
        ("count(*)", "GROUP BY ALL ORDER BY n DESC LIMIT 5", True),
        ("count(*)", "GROUP BY CUBE (town, street)", False),
        ("count(*) / sum(count(*)) OVER (PARTITION BY town)", "GROUP BY town, street", True),
        ("count(*) FILTER (town < 't0400')", "GROUP BY ALL", True),
    ],
)
def test_memory_follows_the_rows_of_a_pair_and_not_its_possible_combinations(
    fine, figure, rest, intervals
):
    text = f"SELECT town, street, {figure} AS n FROM data {rest}"
    fine.models.clear()
    tracemalloc.start()
    try:
        answer = fine.sql(text, intervals=intervals)
        assert not answer.marks.unknown
        assert len(answer.marks.statuses) == 1
        assert tracemalloc.get_traced_memory()[1] < (100 if intervals else 20) << 20
    finally:
        tracemalloc.stop()


@pytest.mark.ci
def test_pairs_that_have_rows_get_the_same_as_in_a_table_of_all_combinations(fine):
    towns = [f"t{number:04}" for number in range(40)]
    listed = ", ".join(f"'{town}'" for town in towns)
    text = f"SELECT town, street, count(*) AS n FROM data WHERE town IN ({listed}) GROUP BY ALL"
    every = tabulate(fine, ["town", "street"], where={"town": towns})
    of_each = zip(every.low, every.high, every.status, strict=True)
    of_pair = dict(zip(every.keys, of_each, strict=True))
    got = fine.sql(text, intervals=True).rows
    assert 100 < len(got) < len(of_pair) / 100
    assert [tuple(row[3:]) for row in got] == [of_pair[tuple(row[:2])] for row in got]
