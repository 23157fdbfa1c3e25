"""What comes with an answer: own tables, labels, warnings from the plan, first rows; what is not released."""

from __future__ import annotations

import dataclasses
import types

import duckdb
import pandas as pd
import pytest
from fixtures.release import HEADER, SUPPORTS, build_release, expanded, make_support, make_table
from fixtures.tiny import tiny_release

from engine.errors import NotAnswerable, QueryRefused, StoreError
from engine.schema import Column
from queries.release import open_release
from queries.sql.advice import FEW, LOOK_UP, NUMBERED, SAMPLED, SELF_JOIN, advice_of
from queries.sql.unreleased import Released, compared, remark

SEXES = pd.DataFrame({"code": ["f", "m", "x"], "word": ["Women", "Men", None]})


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    with open_release(tiny_release(tmp_path_factory.mktemp("answers") / "r.duckdb")) as release:
        yield release


def words(release, sexes):
    result = release.sql(
        "SELECT word, count(*) FROM data JOIN sexes ON sex = code GROUP BY word ORDER BY word",
        tables={"sexes": sexes},
    )
    assert result.table == ("SEX",)
    return result.rows


def test_own_tables_in_every_form(release, tmp_path):
    held = [v for (v,) in expanded(make_table(("SEX",)))]
    wanted = [("Men", held.count("m")), ("Women", held.count("f"))]
    con = duckdb.connect()
    con.register("s", SEXES)
    paths = [tmp_path / name for name in ("s.csv", "s.parquet", "s.json")]
    for path in paths:
        con.execute(f"COPY s TO '{path}'")
    arrow = con.sql("FROM s").to_arrow_table()
    for sexes in (SEXES, arrow, con.sql("FROM s").pl(), *paths, str(paths[0])):
        assert words(release, sexes) == wanted
    with pytest.raises(NotAnswerable, match="sexes does not exist"):  # gone with its statement
        release.sql("SELECT * FROM sexes")


def test_own_tables_are_copied(release):
    frame = SEXES.copy()
    result = release.sql("SELECT word FROM own ORDER BY ALL", tables={"own": frame})
    frame["word"] = "changed"
    with pytest.warns(UserWarning, match="not known which figures"):
        got = result.df()
    assert got["word"].dropna().tolist() == ["Men", "Women"]
    assert result.rows == [("Men",), ("Women",), (None,)]
    assert frame["word"].tolist() == ["changed"] * 3


@pytest.mark.parametrize(
    ("tables", "why"),
    [
        ({"data": SEXES}, "'data': the name is already used"),
        ({"Age.Sex": SEXES}, "'Age.Sex': the name is already used"),
        ({"own": SEXES, "OWN": SEXES}, "'OWN': the name is already used"),
        ({"": SEXES}, "the name is empty"),
        ({"own": [1, 2]}, "'own': .* not list"),
        ({"own": types.SimpleNamespace(columns=1)}, "'own': cannot be read"),
    ],
)
def test_own_tables_refused(release, tables, why):
    for ask in (release.sql, release.explain):
        with pytest.raises(QueryRefused, match=why):
            ask("SELECT sex FROM data", tables=tables)


def test_own_files_refused(release, tmp_path):
    (tmp_path / "broken.parquet").write_text("no parquet")
    for name, why in (
        ("none.csv", "no such file"),
        ("x.xlsx", r"\.csv"),
        ("broken.parquet", "cannot be read as a table"),
    ):
        with pytest.raises(StoreError, match=why):
            release.sql("SELECT 1", tables={"own": tmp_path / name})


def test_values_and_labels(release):
    assert [row[:2] for row in release.values("SEX")] == [("f", "Women"), ("m", "Men")]
    assert release.values("AGE") == [
        (None, None, 10),
        (7, None, 10),
        (40, None, 10),
        (41, None, 10),
    ]
    assert [v for v, *_ in release.values("INCOME")] == [None, -2.5, 0.0, 0.3]
    assert [v for v, *_ in release.values("TOWN")] == [None, "Bath", 'Ely, O\'Neill "x"', "(other)"]
    assert release.labels == {
        "TOWN": "TOWN",
        "AGE": "Age in years",
        "SEX": "SEX",
        "INCOME": "INCOME",
    }
    with pytest.raises(NotAnswerable, match=r"no column 'SECKS'\. Near: SEX"):
        release.values("SECKS")


def test_released_tables_by_name_are_warned_of_too(release):
    joined = release.sql('SELECT count(*) FROM "AGE" AS a JOIN "AGE.SEX" AS b ON a.age = b.age')
    assert joined.warnings == (SELF_JOIN,)
    assert release.sql('SELECT lag(age) OVER () FROM "AGE"').warnings == (NUMBERED,)
    assert release.sql('SELECT count(*) FROM "AGE" WHERE age = 7').warnings == ()


def node(name, *children, **info):
    return {"name": name, "extra_info": info, "children": list(children)}


ROWS = node("SEQ_SCAN", Table="rows")
SUMS = node("HASH_GROUP_BY", ROWS, Aggregates="count_star()")


@pytest.mark.parametrize(
    ("plan", "said", "may_look_up"),
    [
        (ROWS, (), False),
        (node("ASOF_JOIN", ROWS, ROWS, **{"Join Type": "LEFT"}), (SELF_JOIN,), False),
        (node("HASH_JOIN", ROWS, ROWS, **{"Join Type": "SEMI"}), (), True),
        (node("HASH_JOIN", SUMS, ROWS, **{"Join Type": "RIGHT_ANTI"}), (), True),
        (
            node("HASH_JOIN", ROWS, ROWS, **{"Join Type": "ANTI", "Conditions": ["a = b", "a < c"]}),
            (SELF_JOIN,),
            True,
        ),
        (node("LIMIT_PERCENT", ROWS, Limit="0.1%"), (), True),
        (node("TOP_N", ROWS, Top=str(FEW)), (LOOK_UP,), False),
        (node("TOP_N", ROWS, Top=str(FEW + 1)), (), False),
        (node("RESERVOIR_SAMPLE", ROWS, **{"Sample Size": "3 rows"}), (SAMPLED, LOOK_UP), False),
        (node("STREAMING_SAMPLE", SUMS), (), False),
        (node("SEQ_SCAN", Table="rows", **{"Sample Method": "System: 10.0%"}), (SAMPLED,), False),
        (node("UNGROUPED_AGGREGATE", ROWS, Aggregates='"first"(#0)'), (LOOK_UP,), False),
        (node("UNNEST", node("SEQ_SCAN", Table="stored", Filters="x=1")), (), True),
        (node("CTE", ROWS, node("FILTER", node("CTE_SCAN", **{"CTE Index": "0"})), **{"Table Index": "0"}), (), True),
    ],
)  # fmt: skip
def test_advice_reads_the_plan(plan, said, may_look_up):
    advice = advice_of([plan], lambda table: table or None)
    assert advice.warnings == said
    assert advice.may_look_up == may_look_up
    assert any("few rows" in text for text in advice.foreseen) == may_look_up


def test_a_released_table_named_as_the_logical_one_does_not_hide_it(tmp_path):
    columns = (Column(name="data", kind="integer", value_type="integer"), HEADER.columns[1])
    supports = {
        "data": make_support(columns[0], [(0, 0), (2, 5)]),
        "AGE": SUPPORTS["AGE"],
    }
    header = dataclasses.replace(HEADER, columns=columns, tables=(("AGE",), ("data",)))
    path = build_release(tmp_path / "r.duckdb", header=header, supports=supports)
    with open_release(path) as release:
        assert release.sql("SELECT age FROM data").rows == expanded(make_table(("AGE",)))
        assert release.sql("SELECT data FROM data").table == ("data",)
        assert len(release.sql("SELECT count(*) FROM catalog.notes")) == 1


def test_columns_that_duckdb_carries_unread_do_not_refuse(release):
    """A correlated subquery drags whole rows along; the answer does not depend on what the table lacks."""
    sql = (
        "SELECT count(*) FROM data AS d WHERE EXISTS (SELECT 1 FROM data AS o WHERE o.age = d.age + 1 AND "
        "o.sex <> d.sex)"
    )
    rows = [dict(zip(("AGE", "SEX"), r, strict=True)) for r in expanded(make_table(("AGE", "SEX")))]
    wanted = sum(
        any(
            d["AGE"] is not None and o["AGE"] == d["AGE"] + 1 and o["SEX"] != d["SEX"] for o in rows
        )
        for d in rows
    )
    result = release.sql(sql)
    assert result.table == ("AGE", "SEX")
    assert result.rows == [(wanted,)]


def test_a_table_the_release_lacks_names_the_spec_entry(release):
    with pytest.raises(NotAnswerable, match=r"INCOME\.TOWN does not exist") as refused:
        release.sql('SELECT * FROM "INCOME.TOWN"')
    assert 'columns = ["INCOME", "TOWN"]' in str(refused.value)
    with pytest.raises(NotAnswerable, match=r"AGE\.SEX\b"):
        release.sql('SELECT * FROM "AGE.SEKS"')


UNRELEASED_SEXES = Released(labels={"f": "Women", "m": "Men"}, is_category=True)
AGES = Released(labels={"7": None, "40": None, "-1": "Unborn"}, is_category=False)
DAYS = Released(labels={"2020-01-01": None}, is_category=False)


@pytest.fixture(scope="module")
def release_of_unreleased(tmp_path_factory):
    with open_release(
        tiny_release(tmp_path_factory.mktemp("values") / "r.duckdb")
    ) as release_of_unreleased:
        yield release_of_unreleased


def plan(**info):
    scan = {"name": "SEQ_SCAN", "extra_info": {"Table": "ours"}}
    return [{"name": "FILTER", "extra_info": info, "children": [scan]}]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(sex = CAST('F' AS VARCHAR))", (("sex", "F"),)),
        ("((age > 3) AND (sex = 'O''x'))", (("sex", "O'x"),)),
        ('("we""ird.na me" != CAST(200 AS BIGINT))', (('we"ird.na me', "200"),)),
        ("(age IS NOT DISTINCT FROM CAST(-2.5 AS DOUBLE))", (("age", "-2.5"),)),
        ("((sex = 'a') OR (sex = 'b') OR (sex = 'a'))", (("sex", "a"), ("sex", "b"))),
        ("(NOT (sex IN (CAST('a, b' AS VARCHAR), CAST('c' AS VARCHAR))))", (("sex", "a, b"), ("sex", "c"))),
        ("(age >= CAST(200 AS BIGINT))", ()),
        ("(a.age = b.age)", ()),
    ],
)  # fmt: skip
def test_constants_in_a_plan(text, found):
    def is_ours(table):
        return table == "ours"

    assert compared(plan(Expression=text), is_ours) == found
    assert compared(plan(Projections=["x", text]), is_ours) == found
    assert compared(plan(Expression=text), lambda table: table == "theirs") == ()


@pytest.mark.parametrize(
    ("values", "asked", "said"),
    [
        (UNRELEASED_SEXES, "f", None),
        (UNRELEASED_SEXES, "F", "'f'"),
        (UNRELEASED_SEXES, "Women", "the label of 'f'"),
        (UNRELEASED_SEXES, "zzz", "'f', 'm'"),
        (AGES, "12", None),
        (AGES, "200", "-1 to 40"),
        (AGES, "Unborn", None),
        (DAYS, "2021-01-01", None),
        (Released(labels={}, is_category=True), "x", None),
    ],
)
def test_what_is_said(values, asked, said):
    text = remark("C", asked, values)
    assert (text is None) == (said is None)
    if said is not None:
        head, _, rest = text.partition(": ")
        assert head.startswith(f"C has no released value {asked!r}")
        assert said in rest


def test_an_answer_warns_of_values_that_are_not_there(release_of_unreleased):
    result = release_of_unreleased.sql("SELECT count(*) FROM data WHERE sex = 'F'")
    assert result.rows == [(0,)]
    said = "SEX has no released value 'F'"
    assert [w.startswith(said) for w in result.warnings] == [True]
    assert (
        result.warnings
        == release_of_unreleased.explain("SELECT count(*) FROM data WHERE sex = 'F'").warnings
    )
    labelled = release_of_unreleased.sql("SELECT count(*) FILTER (sex = 'Women') FROM data")
    assert labelled.warnings[0].endswith("the label of 'f'.")
    assert (
        "from 7 to 41"
        in release_of_unreleased.sql("SELECT count(*) FROM data WHERE age = 999").warnings[0]
    )
    for sql in (
        "SELECT count(*) FROM data WHERE sex = 'f' AND age = 40 AND age <> 12",
        "SELECT count(*) FROM (SELECT 1 AS sex) WHERE sex = 999",
        "SELECT count(*) FROM data WHERE age < 999",
    ):
        assert release_of_unreleased.sql(sql).warnings == ()
