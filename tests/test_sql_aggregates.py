"""SQL answers with intervals: the plain answer untouched, ends as in a tabulation, reasons where none is known."""

from __future__ import annotations

import pytest
from intervals_fixture import small_release

from engine.errors import NotAnswerable, QueryRefused
from queries.uncertainty import annotated, tabulate


@pytest.fixture(scope="module")
def release(census, tmp_path_factory):
    with small_release(tmp_path_factory.mktemp("aggregates"), census) as made:
        yield made


def column(result, name):
    return [row[result.columns.index(name)] for row in result.rows]


def ends(result, name):
    return tuple(column(result, f"{name}_{end}") for end in ("low", "high", "status"))


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
        for row, low, high in zip(got.rows, *ends(got, "f")[:2], strict=True):
            assert (low / 100, high / 100) == pytest.approx(right[row[:2]])


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
    assert abs(kept.rows[0][2] - made.high[0]) <= 1
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
        assert low_c == pytest.approx(100 * low, abs=0.1)
        assert low_c <= 100 * low
        assert high_c >= 100 * high
    for low, low_n in zip(ends(got, "m")[0], ends(got, "n")[0], strict=True):
        assert -1 <= low - low_n <= 6  # arithmetic does not see what narrower tables know


UNKNOWN = [
    ("SELECT age, sex FROM data LIMIT 3", "it has no group"),
    ("SELECT COLUMNS('a.*') FROM data", "selects *"),
    ("WITH a AS (SELECT age FROM data) SELECT count(age) FROM a", "WITH"),
    ("SELECT count(age) FROM data UNION ALL SELECT 1", "UNION"),
    ("SELECT count(*) FROM data JOIN (SELECT 1 AS one) ON true", "alone"),
    ("SELECT count(*) FROM (SELECT age FROM data)", "alone"),
    ("SELECT sex, count(*) FROM data GROUP BY ROLLUP (sex)", "several ways"),
    ("SELECT count(*) AS n FROM data GROUP BY sex", "does not select"),
    ("SELECT count(*) AS n FROM data WHERE age > (SELECT avg(age) FROM data)", "subquery"),
    ("SELECT count(*) AS n FROM data WHERE random() < 0.5", "random()"),
    ("SELECT count(DISTINCT age) FROM data", "distinct values"),
    ("SELECT sex, max(age) FROM data GROUP BY sex", "max is not among"),
    ("SELECT quantile_cont(age, [0.1, 0.9]) FROM data", "one number"),
    ("SELECT median(age) / 2 FROM data", "quantiles"),
    ("SELECT sex, rank() OVER (ORDER BY count(*)) FROM data GROUP BY sex", "of windows"),
    ("SELECT sex, sum(avg(age)) OVER () FROM data GROUP BY sex", "totals of counts"),
    ("SELECT sex, sum(count(*)) OVER (PARTITION BY sex || 'x') FROM data GROUP BY sex", "partitioned"),
    ("SELECT sex, sum(count(*)) OVER () / sum(sum(age)) OVER () FROM data GROUP BY sex", "two kinds"),
    ("SELECT count(*) FROM data USING SAMPLE 10", "sample"),
    ("SELECT sex, count(*) FROM data GROUP BY sex QUALIFY row_number() OVER () = 1", "QUALIFY"),
    ("SELECT count(*) FROM catalog.codes", "does not read the logical table"),
    ("PIVOT (SELECT sex, age FROM data) ON sex USING count(*)", "No noise interval"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "why"), UNKNOWN)
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


def test_the_handle_asks_with_intervals(release):
    assert "n_low" in release.sql("SELECT count(*) AS n FROM data", intervals=True).columns
