"""Wide tables in a spec: targets, sets, and how much may be added for them."""

from __future__ import annotations

import pytest
from fixtures.spec import HEAD, mistakes

from engine.spec import WideWish, amended, read_spec

WIDE_COLUMNS = """
[columns.AGE]
kind = "integer"
[columns.SEX]
kind = "category"
[columns.PAY]
kind = "real"
resolution = 0.01
[columns.id]
kind = "text"
""" + "".join(f'[columns.c{i}]\nkind = "category"\n' for i in range(3))


def test_a_wide_table_has_a_target(write):
    entries = '[[tables]]\ncolumns = "all"\ntarget = "PAY"\n[[tables]]\ncolumns = ["AGE"]\n'
    spec = read_spec(write(HEAD + 'entities = ["id"]\n' + WIDE_COLUMNS + entries))
    assert spec.targets == {spec.tables[-1]: "PAY"}
    fewer = amended(spec, fewer=[spec.tables[-1]])
    assert fewer.targets == {}
    assert amended(spec, fewer=[["AGE"]]).targets == spec.targets


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            'columns = "all"\ntarget = "PYA"',
            "'PYA' is not a column of the table; did you mean 'PAY'?",
        ),
        ('columns = "all"\ntarget = "id"', "'id' is not a column of the table"),
        ('columns = "all"\ntarget = 5', "wants a text"),
        (
            'columns = ["AGE", "SEX"]\ntarget = "AGE"',
            "belongs to wide tables, of more than 4 columns",
        ),
        ('columns = ["AGE", "SEX"]\ntarget = "PAY"', "'PAY' is not a column of the table"),
        ('all = 2\ntarget = "AGE"', 'belongs to "columns" only'),
    ],
)
def test_target_mistakes_are_told_with_all_others(write, entry, message):
    text = HEAD + 'entities = ["id"]\nformat = "odd"\n' + WIDE_COLUMNS + f"[[tables]]\n{entry}\n"
    found = mistakes(write(text))
    assert any(problem.startswith("tables[1].target: ") and message in problem for problem in found)
    assert any(problem.startswith("source.format") for problem in found)


def test_a_wide_table_says_how_often_and_how_much_may_be_added(write):
    entry = '[[tables]]\ncolumns = "all"\nsets = 3\nmax_added = 0\n'
    spec = read_spec(write(HEAD + 'entities = ["id"]\n' + WIDE_COLUMNS + entry))
    (wide,) = spec.tables
    assert spec.wishes == {wide: WideWish(sets=3, max_added=0)}
    assert (spec.targets, spec.sets) == ({}, {wide: 3})


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('columns = "all"\nsets = 0', "tables[1].sets: wants a number from 1 to 100, not 0"),
        ('columns = "all"\nsets = 101', "tables[1].sets: wants a number from 1 to 100, not 101"),
        ('columns = "all"\nsets = "x"', "tables[1].sets: wants a whole number"),
        ('columns = "all"\nmax_added = -1', "tables[1].max_added: wants 0 or more, not -1"),
        ('columns = ["AGE"]\nsets = 2', "tables[1].sets: belongs to wide tables"),
        ("all = 2\nmax_added = 4", 'tables[1].max_added: belongs to "columns" only'),
    ],
)
def test_mistakes_of_sets_and_bounds(write, entry, message):
    text = HEAD + 'entities = ["id"]\n' + WIDE_COLUMNS + f"[[tables]]\n{entry}\n"
    found = mistakes(write(text))
    assert any(message in problem for problem in found), found
