"""Wide tables in a spec: targets, sets, and the number of tables that may be added for them."""

from __future__ import annotations

import pytest
from fixtures.spec import HEAD, cases, mistakes, places

from engine.spec import WideOptions, amended, read_spec

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


def test_options_of_a_wide_table(write):
    entry = '[[tables]]\ncolumns = "all"\nsets = 3\nmax_added = 0\n'
    spec = read_spec(write(HEAD + 'entities = ["id"]\n' + WIDE_COLUMNS + entry))
    (wide,) = spec.tables
    assert spec.wide_options == {wide: WideOptions(sets=3, max_added=0)}
    assert (spec.targets, spec.sets) == ({}, {wide: 3})


@pytest.mark.parametrize(
    ("place", "entry"),
    cases(r"""
tables[1].target    | columns = "all" ; target = "PYA"
tables[1].target    | columns = "all" ; target = "id"
tables[1].target    | columns = "all" ; target = 5
tables[1].target    | columns = ["AGE", "SEX"] ; target = "AGE"
tables[1].target    | all = 2 ; target = "AGE"
tables[1].sets      | columns = "all" ; sets = 0
tables[1].sets      | columns = "all" ; sets = 101
tables[1].sets      | columns = ["AGE"] ; sets = 2
tables[1].max_added | columns = "all" ; max_added = -1
tables[1].max_added | all = 2 ; max_added = 4
"""),
)
def test_mistakes_are_reported_with_all_others(write, place, entry):
    text = HEAD + 'entities = ["id"]\nformat = "odd"\n' + WIDE_COLUMNS + f"[[tables]]\n{entry}\n"
    assert places(mistakes(write(text))) == ["source.format", place]
