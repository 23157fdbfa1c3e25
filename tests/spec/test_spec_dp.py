from __future__ import annotations

import json
from itertools import combinations
from math import comb

import pytest
from fixtures.spec_dp import ALL, COLUMNS, DATE, NAMES, SIZES, mistakes, spec_writer

from engine.errors import SpecError
from engine.params import DPParams, ZeroPart, ZeroRule
from engine.schema import Column, SourceSpec
from engine.spec import read_spec, spec_of


@pytest.fixture
def write(tmp_path):
    return spec_writer(tmp_path)


def params(write, dp="epsilon = 1.0", **more):
    got = read_spec(write(dp, **more)).dp
    assert got is not None
    return got


def test_the_defaults(write):
    spec = read_spec(write())
    assert spec.mode == "dp"
    assert spec.zeros == ()
    assert spec.dp == DPParams(
        epsilon=1.0, columns=NAMES, margins=tuple(combinations(NAMES, 2)), allocation="cells"
    )


@pytest.mark.parametrize(
    ("dp", "allocation"),
    [
        ("epsilon = 1", "cells"),
        ('epsilon = 1\nallocation = "equal"', "equal"),
        ('epsilon = 1\npost = "paper"', "equal"),
        ('epsilon = 1\nnoise = "gaussian"\ndelta = 1e-6', "equal"),
        ('epsilon = 1\nnoise = "gaussian"\ndelta = 1e-6\nallocation = "cells"', "cells"),
    ],
)
def test_the_allocation(write, dp, allocation):
    assert read_spec(write(dp)).dp.allocation == allocation


def test_everything_said(write):
    spec = read_spec(
        write(
            'epsilon = 2\ndelta = 1e-6\nnoise = "gaussian"\nmethod = "ipf"\nmargins = 1\n'
            'extra = [["JOB", "AGE"]]\nstrata = ["AREA"]\nranges = { AGE = 16 }\n'
            'zeros = [{ AGE = { max = 14 }, JOB = ["a", "b"] }, { OWNS = [true] }]\npost = "paper"\n'
            'sample = "multinomial"\nprior = 1\ntotal_share = 0.1\npublic_n = true\nmax_rows = 3\n'
            "max_cells = 1000\nmax_cycles = 5\ntolerance = 0.01\nbudget = 4.0\n"
        )
    )
    assert spec.dp == DPParams(
        epsilon=2.0,
        delta=1e-6,
        noise="gaussian",
        columns=NAMES,
        margins=(("AGE",), ("JOB",), ("OWNS",), ("AGE", "JOB")),
        strata=("AREA",),
        ranges=(("AGE", 16),),
        post="paper",
        sample="multinomial",
        prior=1.0,
        total_share=0.1,
        public_n=True,
        max_rows=3,
        max_cells=1000,
        max_cycles=5,
        tolerance=0.01,
        budget=4.0,
    )
    young = ZeroPart(column="AGE", high=14)
    assert spec.zeros == (
        ZeroRule(parts=(young, ZeroPart(column="JOB", values=("a", "b")))),
        ZeroRule(parts=(ZeroPart(column="OWNS", values=(True,)),)),
    )
    assert str(spec.zeros[0]) == "declared impossible: AGE up to 14 and JOB in a, b"


def test_without_a_guarantee(write):
    got = params(write, "guarantee = false")
    assert got.epsilon is None
    assert not got.is_protected


@pytest.mark.parametrize(
    ("dp", "tables", "columns", "margins"),
    [
        ("", '[[tables]]\ncolumns = ["JOB"]\n', ("JOB",), [("JOB",)]),
        ("margins = 3", ALL, NAMES, [*combinations(NAMES, 3)]),
        ("margins = 4", ALL, NAMES, [NAMES]),
        # only what tables, margins and strata name is counted
        ("", '[[tables]]\ncolumns = ["JOB", "AGE"]\n', ("AGE", "JOB"), [("AGE", "JOB")]),
        (
            'margins = [["OWNS", "JOB"], ["AGE"]]',
            '[[tables]]\ncolumns = ["JOB"]\n',
            ("AGE", "JOB", "OWNS"),
            [("AGE",), ("JOB", "OWNS")],
        ),
        # a column of a table in no margin is allowed
        ('margins = [["AGE"]]', '[[tables]]\ncolumns = ["JOB"]\n', ("AGE", "JOB"), [("AGE",)]),
        # what ranges name is a margin of its own; extra that is there already is there once
        (
            'extra = [["AGE", "JOB"]]\nranges = { AGE = 2 }',
            '[[tables]]\ncolumns = ["JOB", "AGE"]\n',
            ("AGE", "JOB"),
            [("AGE",), ("AGE", "JOB")],
        ),
        ('strata = ["AREA"]', '[[tables]]\ncolumns = ["JOB"]\n', ("AREA", "JOB"), [("JOB",)]),
        ('method = "catall"', ALL, NAMES, [NAMES]),
        ('method = "catall"\nstrata = ["AREA"]', ALL, NAMES, [("AGE", "JOB", "OWNS")]),
    ],
)
def test_which_margins(write, dp, tables, columns, margins):
    got = params(write, f"epsilon = 1\n{dp}", tables=tables)
    assert got.columns == columns
    assert list(got.margins) == margins


def test_tables_of_any_width(write, tmp_path):
    wide = '[[tables]]\ncolumns = ["OWNS", "JOB", "AREA", "AGE", "D"]\n'
    five = COLUMNS + DATE
    spec = read_spec(write(columns=five, tables=wide))
    assert spec.tables == (("AGE", "AREA", "D", "JOB", "OWNS"),)
    assert read_spec(write(columns=five, tables="[[tables]]\nall = 5\n")).tables == spec.tables
    (tmp_path / "w.json").write_text(json.dumps([["AGE", "AREA", "D", "JOB", "OWNS"], ["AGE"]]))
    listed = '[[tables]]\nfile = "w.json"\nmax_width = 5\n'
    assert read_spec(write(columns=five, tables=listed)).tables == (("AGE",), *spec.tables)
    assert any(
        "wants a number from 1 to 5" in m
        for m in mistakes(write(columns=five, tables=listed.replace("5", "6")))
    )
    listed = listed.removesuffix("max_width = 5\n")
    (told,) = mistakes(write(columns=five, tables=listed, mode="sticky"))
    assert "5 columns; at most 4 here" in told


def test_a_family_that_is_too_large(write):
    many = "".join(f'[columns.c{i}]\nkind = "boolean"\n' for i in range(40))
    told = mistakes(write(columns=many, tables="[[tables]]\nall = 20\n"))
    assert f"tables[1].all: are {comb(40, 20):,} tables; at most 100,000" in told
    (told,) = mistakes(write("epsilon = 1\nmargins = 4", columns=many * 1 + _more_columns()))
    assert told.startswith(f"dp.margins: are {comb(60, 4):,}, more than 100,000")


def _more_columns():
    return "".join(f'[columns.d{i}]\nkind = "boolean"\n' for i in range(20))


def test_mode_dp_wants_its_section_and_sticky_keeps_it(write):
    (told,) = mistakes(write(None))
    assert told.startswith('dp: mode = "dp" wants a section [dp]')
    assert read_spec(write(None, mode="sticky")).dp is None
    assert read_spec(write(mode="sticky")).dp == params(write)
    (told,) = mistakes(write("epsilon = 0", mode="sticky"))
    assert told.startswith("dp.epsilon: ")
    (told,) = mistakes(write(mode="catall"))
    assert told == 'release.mode: wants "sticky" or "dp", not \'catall\''


def test_a_range_of_a_column_that_nothing_counts(write):
    (told,) = mistakes(
        write("epsilon = 1\nranges = { AGE = 2 }", tables='[[tables]]\ncolumns = ["JOB"]\n')
    )
    assert told == "dp.ranges.AGE: AGE is in no table and no margin"


def test_entities_in_dp(write):
    ids = '[columns.id]\nkind = "integer"\n[columns.home]\nkind = "integer"\n'
    one = read_spec(
        write(
            columns=COLUMNS + ids,
            source='entities = ["id"]',
            tables=ALL.replace("1", "1\nof = ['AGE']"),
        )
    )
    assert one.dp is not None
    assert one.dp.columns == ("AGE",)
    told = mistakes(
        write(
            'epsilon = 1\nmargins = [["id"]]\nstrata = ["home"]',
            columns=COLUMNS + ids,
            source='entities = ["id", "home"]',
        )
    )
    assert "source.entities: [dp] protects one kind of entity, not 2; name one column" in told
    assert "dp.margins[1]: id names the entities; it cannot be counted" in told
    assert "dp.strata: home names the entities; it cannot be counted" in told


def test_every_column_that_is_counted_has_a_public_domain(write):
    bare = """
[columns.a]
kind = "integer"
[columns.b]
kind = "category"
[columns.c]
kind = "category"
domain = ["x"]
[columns.d]
kind = "integer"
domain = { min = 0, max = 20000 }
public = true
[columns.e]
kind = "boolean"
[columns.unused]
kind = "real"
resolution = 0.01
"""
    tables = '[[tables]]\ncolumns = ["a", "b", "c", "d", "e"]\n'
    told = mistakes(write(columns=bare, tables=tables))
    assert [one.split(":")[0] for one in told] == [
        "columns.a.domain",
        "columns.b.domain",
        "columns.c.public",
        "columns.d.breaks",
    ]
    assert "20,001 values or groups" in told[-1]


def test_a_table_that_is_too_large(write):
    limit = SIZES["AGE"] * SIZES["JOB"]  # the largest pair
    assert params(write, f"epsilon = 1\nmax_cells = {limit}").max_cells == limit
    (told,) = mistakes(write(f"epsilon = 1\nmax_cells = {limit - 1}"))
    assert told == (
        "dp.margins: AGE, JOB have 20 cells, more than dp.max_cells = 19; cut columns into groups (breaks), "
        "take fewer columns, or raise max_cells"
    )
    (told,) = mistakes(write(f'epsilon = 1\nmax_cells = {limit * 3 - 1}\nstrata = ["AREA"]'))
    assert told.startswith("dp.margins: AGE, AREA, JOB have 60 cells")
    (told,) = mistakes(write('epsilon = 1\nmethod = "catall"\nmax_cells = 179'))
    assert told.startswith("dp.method: AGE, AREA, JOB, OWNS have 180 cells")
    told = mistakes(write("epsilon = 1\nmax_cells = 8"))
    assert len(told) == 6
    assert told[-1] == "dp.margins: ... and 1 more like these"
    rule = "margins = 1\nzeros = [{ AGE = [1], JOB = ['a'] }]"
    (told,) = mistakes(write(f"epsilon = 1\nmax_cells = 19\n{rule}"))
    assert told.startswith("dp.zeros[1]: AGE, JOB have 20 cells")


def test_breaks_and_nullable_reach_the_column(write):
    columns = {c.name: c for c in read_spec(write()).columns}
    assert columns["AGE"].breaks == (18, 65)
    assert columns["JOB"].breaks is None
    assert {c.name for c in columns.values() if not c.nullable} == {"AREA"}


def test_a_universe_and_no_nulls_contradict_each_other(write):
    alone = (
        '[columns.v]\nkind = "boolean"\nnullable = false\nuniverse = { column = "AGE", min = 15 }\n'
    )
    (told,) = mistakes(write(columns=COLUMNS + alone))
    assert told == "columns.v.universe: makes v null outside, but nullable = false"


def test_from_python(tmp_path):
    def made(dp, **release):
        return spec_of(
            release={"vintage": "1", "key": "k", **release},
            source=SourceSpec(path=None, format="frame"),
            columns=(
                Column(name="x", kind="boolean", value_type="boolean"),
                Column(name="y", kind="integer", value_type="integer", bounds=(0, 5), public=True),
            ),
            tables=[{"columns": ["x", "y"]}],
            privacy={},
            dp=dp,
            check_key=False,
        )

    got = made({"epsilon": 0.5, "margins": 1}, mode="dp").dp
    assert got is not None
    assert (got.epsilon, got.margins) == (0.5, (("x",), ("y",)))
    assert made(None).dp is None
    with pytest.raises(SpecError, match=r"section \[dp\]"):
        made(None, mode="dp")
