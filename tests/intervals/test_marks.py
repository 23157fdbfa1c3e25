"""What is not released is marked in every form that people read, and can be asked for in those for programs."""

from __future__ import annotations

import json

import duckdb
import pandas as pd
import pytest
from fixtures.pipeline import tablepack

from queries.intervals import tabulate
from queries.sql import MARK, NOT_RELEASED

WARDS = "SELECT age, ward, count(*) AS n FROM data GROUP BY ALL ORDER BY ALL"


@pytest.fixture(scope="module")
def release(stays):
    return stays


def statuses_of(release):
    """Of plain answers: whether a figure is released."""
    table = tabulate(release, ["age", "ward"])
    return {
        key: status if status == NOT_RELEASED else "released"
        for key, status in zip(table.keys, table.status, strict=True)
    }


@pytest.mark.ci
def test_plain_answers_say_of_every_figure_what_a_tabulation_says(release):
    result, known = release.sql(WARDS), statuses_of(release)
    assert list(result.marks.statuses) == [2]
    assert list(result.marks.statuses[2]) == [known[row[:2]] for row in result.rows]
    assert NOT_RELEASED in result.marks.statuses[2]


def test_figures_that_are_not_released_are_not_shown(release):
    """Before, `age >= 69` gave invented counts of 1 and 2, as if they had been released."""
    result, known = release.sql(WARDS), statuses_of(release)
    for row, shown in zip(result.rows, result.shown(), strict=True):
        hidden = known[row[:2]] == NOT_RELEASED
        assert shown == ((*row[:2], MARK) if hidden else row)
    n = sum(shown[2] == MARK for shown in result.shown())
    assert f"[c]: {n} of {len(result)} figures are not released (too few patients, or none" in repr(
        result
    )
    first = next(i for i, row in enumerate(result.shown()) if row[2] == MARK)
    alone = f"SELECT age, ward, count(*) AS n FROM data WHERE age = {result.rows[first][0]} GROUP BY ALL"
    assert MARK in repr(release.sql(alone))
    assert f"<td>{MARK}</td>" in release.sql(alone)._repr_html_()


def test_programs_get_nothing_for_what_is_not_released_unless_they_ask(release):
    plain, known = release.sql(WARDS), statuses_of(release)
    hidden = [known[row[:2]] == NOT_RELEASED for row in plain.rows]
    assert any(hidden)
    frame, imputed = plain.df(), plain.df(unreleased="imputed")
    assert frame["n"].isna().tolist() == hidden
    shown = [row[2] for row, is_hidden in zip(plain.rows, hidden, strict=True) if not is_hidden]
    assert frame["n"].dropna().tolist() == shown
    assert imputed.columns.tolist() == ["age", "ward", "n", "n_status"]
    assert imputed["n"].tolist() == [row[2] for row in plain.rows]
    assert (imputed["n_status"] == NOT_RELEASED).tolist() == hidden
    table = plain.arrow()
    assert table["n"].null_count == sum(hidden)
    assert str(table["n"].type) == "int64"
    # Types are those of the statement, whether or not anything is left out.
    typed = WARDS.replace("AS n", "* 10::HUGEINT ** 25 AS n, DATE '2020-01-01' AS d, [1] AS l")
    dated = release.sql("SELECT DATE '2020-01-01' AS d").df()
    assert release.sql(typed).df()["d"].dtype == dated["d"].dtype
    assert release.sql(typed).marks.n_unreleased
    lines = plain.to_csv().splitlines()[1:]
    assert [line.endswith(",") for line in lines] == hidden
    assert [row[2] is None for row in json.loads(plain.to_json())["rows"]] == hidden
    # Rows without figures are what they were, in DuckDB's own frame.
    assert release.sql("SELECT ward FROM data LIMIT 3").df().shape == (3, 1)


def test_a_status_is_asked_for(release):
    plain, wider = release.sql(WARDS), release.sql(WARDS, status=True)
    assert wider.columns == ("age", "ward", "n", "n_status")
    assert [row[:3] for row in wider.rows] == plain.rows
    table = tabulate(release, ["age", "ward"])
    known = dict(zip(table.keys, table.status, strict=True))
    assert [row[3] for row in wider.rows] == [known[row[:2]] for row in plain.rows]
    assert wider.shown()[0][3] == wider.rows[0][3]
    assert isinstance(wider.df(), pd.DataFrame)


def test_shares_sums_and_means_are_marked_too(release):
    text = (
        "SELECT age, ward, 100 * count(*) / sum(count(*)) OVER () AS pct, avg(age) AS mean "
        "FROM data GROUP BY ALL ORDER BY ALL"
    )
    result, counted = release.sql(text), release.sql(WARDS)
    hidden = [status == NOT_RELEASED for status in counted.marks.statuses[2]]
    assert [row[2] == MARK for row in result.shown()] == hidden
    assert [row[3] == MARK for row in result.shown()] == hidden


def test_intervals_show_the_mark_beside_their_ends(release):
    result = release.sql(WARDS, intervals=True)
    at = result.columns.index("n_status")
    for row, shown in zip(result.rows, result.shown(), strict=True):
        assert (shown[2] == MARK) == (row[at] == NOT_RELEASED)
        assert shown[3:] == row[3:]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT ward, max(n) FROM (SELECT ward, age, count(*) n FROM data GROUP BY ALL) GROUP BY 1",
         "outermost released values"),
        ("SELECT ward, count(DISTINCT age) AS k FROM data GROUP BY 1", "k: what lies beyond"),
    ],
)  # fmt: skip
def test_what_is_not_understood_says_that_nothing_is_known(release, text, why):
    result = release.sql(text)
    with pytest.warns(UserWarning, match="not known which figures are released"):
        result.df()
    assert why in " ".join(json.loads(result.to_json())["warnings"])
    assert "not known which figures are released" in repr(result)
    assert why in " ".join(result.marks.unknown)


def test_own_tables_have_statuses_and_rows_need_no_word(release):
    own = pd.DataFrame({"ward": ["Surgery"]})
    joined = release.sql("SELECT count(*) FROM data JOIN own USING (ward)", tables={"own": own})
    assert joined.marks.statuses == {0: ["released"]}
    for text in ("SELECT ward FROM data LIMIT 3", "FROM catalog.notes", 'SELECT * FROM "age.ward"'):
        result = release.sql(text)
        assert result.marks.notes(release.entity) == []


@pytest.mark.parametrize(
    ("form", "is_marked"), [("table", True), ("markdown", True), ("csv", False)]
)
def test_commands_mark_what_people_read(release, form, is_marked):
    done = tablepack("sql", release.path, WARDS, "--format", form, cwd=release.path.parent)
    assert done.returncode == 0
    assert (MARK in done.stdout) == is_marked
    assert "figures are not released (too few patients" in done.stderr
    assert ("and left empty" in done.stderr) != is_marked
    if not is_marked:
        done = tablepack(
            "sql", release.path, WARDS, "--format", form, "--imputed", cwd=release.path.parent
        )
        assert "the numbers given were imputed" in done.stderr
        assert done.stdout.splitlines()[0] == "age,ward,n,n_status"


@pytest.mark.ci
def test_a_status_column_in_files(release, tmp_path):
    for ending in (".csv", ".json", ".parquet"):
        out = tmp_path / f"a{ending}"
        done = tablepack("sql", release.path, WARDS, "--status", "-o", out, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    columns = ["age", "ward", "n", "n_status"]
    assert list(pd.read_csv(tmp_path / "a.csv").columns) == columns
    assert json.loads((tmp_path / "a.json").read_text("utf-8"))["columns"] == columns
    parquet = pd.read_parquet(tmp_path / "a.parquet")
    assert list(parquet.columns) == columns
    assert NOT_RELEASED in set(parquet["n_status"])


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_exports_have_a_status_column_on_request(release, tmp_path, form):
    done = tablepack(
        *("export", release.path, tmp_path / "out", "--format", form, "--status"), cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    path = tmp_path / "out" / f"age.ward.{form}"
    frame = pd.read_csv(path) if form == "csv" else pd.read_parquet(path)
    assert list(frame.columns) == ["ward", "age", "status"]
    assert len(frame) == release.card("age", "ward").rows
    of_groups = frame.groupby(["age", "ward"])["status"].unique()
    known = statuses_of(release)
    assert {key: len(values) for key, values in of_groups.items()} == dict.fromkeys(
        of_groups.index, 1
    )
    for key, (status,) in of_groups.items():
        assert (status == NOT_RELEASED) == (known[key] == NOT_RELEASED)


def test_exports_without_it_are_as_before(release, tmp_path):
    from queries.sql import export

    (path,) = export(release, tmp_path / "out", tables=(("age", "ward"),))
    assert path.read_text("utf-8").splitlines()[0] == "ward,age"


@pytest.mark.parametrize(
    "how", ["ROLLUP (age, ward)", "CUBE (age, ward)", "GROUPING SETS ((age, ward), ())"]
)
def test_totals_of_a_statement_add_up_and_parts_are_marked_as_by_themselves(release, how):
    result = release.sql(f"SELECT age, ward, count(*) AS n, grouping(age) FROM data GROUP BY {how}")
    known = statuses_of(release)
    total = 0
    for (age, ward, n, _), status in zip(result.rows, result.marks.statuses[2], strict=True):
        if age is not None and ward is not None:
            assert status == known[age, ward]
            total += n
    (whole,) = (row for row in result.rows if row[0] is None and row[1] is None)
    assert whole[2] == total == release.card("age", "ward").rows
    assert MARK not in result.shown()[result.rows.index(whole)]
    assert "Totals include them" in repr(result)


@pytest.mark.parametrize(
    "text",
    [
        'SELECT age, ward, count(*) AS n FROM "age.ward" GROUP BY ALL',
        'SELECT age, count(*) OVER (PARTITION BY age, ward) AS n FROM "age.ward"',
        'SUMMARIZE "age.ward"',
        "SELECT * FROM tables.t_0001",
    ],
)
def test_tables_read_by_name_say_that_nothing_is_known(release, text):
    """Before, their filled-in counts stood there without a word."""
    assert "not known which figures are released: it reads a stored table" in repr(
        release.sql(text)
    )


@pytest.mark.parametrize("text", ['SELECT * FROM "age.ward"', 'DESCRIBE "age.ward"', "SHOW TABLES"])
def test_rows_of_tables_and_what_there_is_need_no_word(release, text):
    assert release.sql(text).marks.unknown == ()


def test_group_by_all_with_other_aggregates_keeps_the_marks(release):
    """Before, max(urgent) was taken for a group: all marks were lost."""
    more = WARDS.replace("AS n", "AS n, max(urgent), min(urgent), list(urgent)")
    result, known = release.sql(more), statuses_of_three(release)
    assert list(result.marks.statuses[2]) == [known[row[:2]] for row in result.rows]
    assert NOT_RELEASED in result.marks.statuses[2]
    assert len(result.marks.unknown) == 3


def statuses_of_three(release):
    """As the table of three columns has them."""
    text = WARDS.replace("AS n", "AS n, count(urgent)")
    result = release.sql(text)
    return {row[:2]: s for row, s in zip(result.rows, result.marks.statuses[2], strict=True)}


@pytest.mark.parametrize("macro", ["geomean(length(urgent))", "wavg(length(urgent), 1)"])
def test_macros_of_aggregates_are_no_groups(release, macro):
    """Before, geomean(...) was taken for a group, and all marks were lost."""
    result, known = release.sql(WARDS.replace("AS n", f"AS n, {macro}")), statuses_of_three(release)
    assert list(result.marks.statuses[2]) == [known[row[:2]] for row in result.rows]
    assert NOT_RELEASED in result.marks.statuses[2]


def test_what_duckdb_says_of_our_statements_is_not_printed(release, monkeypatch):
    def fails(*_):
        raise duckdb.Error("Conversion Error: of a value")

    monkeypatch.setattr("queries.intervals.statement.aggregates.matched", fails)
    text = "SELECT age, count(*) FROM data GROUP BY ALL"
    (why,) = release.sql(text).marks.unknown
    assert why == "it is not understood."
    assert "Error" not in " ".join(release.sql(text, intervals=True).warnings)


@pytest.mark.parametrize(
    "figure",
    [
        "round(avg(age), 0)",
        "avg(age)::INTEGER",
        "avg(age)::DECIMAL(5, 1)",
        "count(*)::VARCHAR",
        "2 * round(avg(age))",
    ],
)
def test_totals_with_rounded_figures_are_marked(release, figure):
    """What is rounded has the marks of what is not."""
    sets = "GROUP BY ROLLUP (age, ward) ORDER BY ALL"
    plain = release.sql(f"SELECT age, ward, count(*) AS n FROM data {sets}")
    more = release.sql(f"SELECT age, ward, count(*) AS n, {figure} AS f FROM data {sets}")
    assert more.marks.statuses[2] == plain.marks.statuses[2]
    hidden = [status == NOT_RELEASED for status in plain.marks.statuses[2]]
    assert [row[3] == MARK for row in more.shown()] == hidden


@pytest.mark.parametrize("key", ["MAP {'a': 1}", "[ward]", "{'of': ward}", "[{'of': [ward]}]"])
def test_keys_of_lists_maps_and_structs_have_the_marks_of_plain_ones(release, key):
    plain = release.sql("SELECT ward, count(*) AS n FROM data GROUP BY ward ORDER BY ward")
    for how in ("ALL", "ROLLUP (k)"):
        nested = release.sql(f"SELECT {key} AS k, count(*) AS n FROM data GROUP BY {how}")
        assert len(nested.marks.statuses[1]) == len(nested)
    if "ward" in key:
        alone = release.sql(f"SELECT {key} AS k, count(*) AS n FROM data GROUP BY k ORDER BY k")
        assert alone.marks.statuses == plain.marks.statuses
