"""Remarks on values in a statement that the release does not have, with similar ones."""

from __future__ import annotations

import pytest
from fixtures.tiny import tiny_release

from queries.release import open_release
from queries.sql.unreleased import Released, compared, remark

SEXES = Released(labels={"f": "Women", "m": "Men"}, is_category=True)
AGES = Released(labels={"7": None, "40": None, "-1": "Unborn"}, is_category=False)
DAYS = Released(labels={"2020-01-01": None}, is_category=False)


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    with open_release(tiny_release(tmp_path_factory.mktemp("values") / "r.duckdb")) as release:
        yield release


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
        (SEXES, "f", None),
        (SEXES, "F", "'f'"),
        (SEXES, "Women", "the label of 'f'"),
        (SEXES, "zzz", "'f', 'm'"),
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


def test_an_answer_warns_of_values_that_are_not_there(release):
    result = release.sql("SELECT count(*) FROM data WHERE sex = 'F'")
    assert result.rows == [(0,)]
    said = "SEX has no released value 'F'"
    assert [w.startswith(said) for w in result.warnings] == [True]
    assert result.warnings == release.explain("SELECT count(*) FROM data WHERE sex = 'F'").warnings
    labelled = release.sql("SELECT count(*) FILTER (sex = 'Women') FROM data")
    assert labelled.warnings[0].endswith("the label of 'f'.")
    assert "from 7 to 41" in release.sql("SELECT count(*) FROM data WHERE age = 999").warnings[0]
    for sql in (
        "SELECT count(*) FROM data WHERE sex = 'f' AND age = 40 AND age <> 12",
        "SELECT count(*) FROM (SELECT 1 AS sex) WHERE sex = 999",
        "SELECT count(*) FROM data WHERE age < 999",
    ):
        assert release.sql(sql).warnings == ()
