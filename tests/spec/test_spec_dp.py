from __future__ import annotations

from itertools import combinations

import pytest
from fixtures.spec import cases, places
from fixtures.spec_dp import ALL, COLUMNS, NAMES, SIZES, mistakes, spec_writer

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
        # what adaptive builds choose among is no margin yet; the columns' own are, and extra stays
        (
            'adaptive = true\nextra = [["AGE", "JOB"]]',
            ALL,
            NAMES,
            [*((name,) for name in NAMES), ("AGE", "JOB")],
        ),
        ('method = "catall"', ALL, NAMES, [NAMES]),
        ('method = "catall"\nstrata = ["AREA"]', ALL, NAMES, [("AGE", "JOB", "OWNS")]),
    ],
)
def test_which_margins(write, dp, tables, columns, margins):
    got = params(write, f"epsilon = 1\n{dp}", tables=tables)
    assert got.columns == columns
    assert list(got.margins) == margins


def test_what_adaptive_builds_choose_among(write):
    got = params(write, 'epsilon = 1\nadaptive = true\nextra = [["AGE", "JOB"]]', tables=ALL)
    assert {*got.candidates} == {*combinations(NAMES, 2)} - {("AGE", "JOB")}
    exact = params(write, "guarantee = false\nadaptive = true", tables=ALL)
    assert (exact.candidates, exact.margins) == ((), tuple(combinations(NAMES, 2)))


def test_mode_dp_needs_its_section_and_sticky_keeps_it(write):
    assert places(mistakes(write(None))) == ["dp"]
    assert read_spec(write(None, mode="sticky")).dp is None
    assert read_spec(write(mode="sticky")).dp == params(write)
    assert places(mistakes(write("epsilon = 0", mode="sticky"))) == ["dp.epsilon"]
    assert places(mistakes(write(mode="catall"))) == ["release.mode"]


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
    found = mistakes(
        write(
            'epsilon = 1\nmargins = [["id"]]\nstrata = ["home"]',
            columns=COLUMNS + ids,
            source='entities = ["id", "home"]',
        )
    )
    assert {"source.entities", "dp.margins[1]", "dp.strata"} <= {*places(found)}


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
    found = mistakes(write(columns=bare, tables=tables))
    assert places(found) == [
        "columns.a.domain",
        "columns.b.domain",
        "columns.c.public",
        "columns.d.breaks",
    ]
    assert "20,001" in found[-1]


def test_a_table_that_is_too_large(write):
    limit = SIZES["AGE"] * SIZES["JOB"]  # the largest pair
    assert params(write, f"epsilon = 1\nmax_cells = {limit}").max_cells == limit
    (found,) = mistakes(write(f"epsilon = 1\nmax_cells = {limit - 1}"))
    assert found.startswith("dp.margins: AGE, JOB have 20 cells")
    (found,) = mistakes(write(f'epsilon = 1\nmax_cells = {limit * 3 - 1}\nstrata = ["AREA"]'))
    assert found.startswith("dp.margins: AGE, AREA, JOB have 60 cells")
    (found,) = mistakes(write('epsilon = 1\nmethod = "catall"\nmax_cells = 179'))
    assert found.startswith("dp.method: AGE, AREA, JOB, OWNS have 180 cells")
    found = mistakes(write("epsilon = 1\nmax_cells = 8"))
    assert len(found) == 6
    assert "1 more" in found[-1]
    rule = "margins = 1\nzeros = [{ AGE = [1], JOB = ['a'] }]"
    (found,) = mistakes(write(f"epsilon = 1\nmax_cells = 19\n{rule}"))
    assert found.startswith("dp.zeros[1]: AGE, JOB have 20 cells")


def test_a_universe_and_no_nulls_contradict_each_other(write):
    alone = (
        '[columns.v]\nkind = "boolean"\nnullable = false\nuniverse = { column = "AGE", min = 15 }\n'
    )
    assert places(mistakes(write(columns=COLUMNS + alone))) == ["columns.v.universe"]


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

    said = {"each_row_is_one_entity": True, "each_row_from_one_entity": True}
    got = made({"epsilon": 0.5, "margins": 1} | said, mode="dp").dp
    assert got is not None
    assert (got.epsilon, got.margins) == (0.5, (("x",), ("y",)))
    assert made(None).dp is None
    with pytest.raises(SpecError, match=r"section \[dp\]"):
        made(None, mode="dp")


@pytest.mark.parametrize(
    ("place", "lines"),
    cases(r"""
dp.epsilon      | epsilon = 0
dp.epsilon      | epsilon = -1
dp.epsilon      | epsilon = nan
dp.epsilon      | epsilon = inf
dp.epsilon      | epsilon = 5e-324
dp.epsilon      | epsilon = 501
dp.epsilon      | epsilon = "1"
dp.epsilon      | epsilon = 1 ; guarantee = false
dp.delta        | guarantee = false ; delta = 0.1
dp.budget       | guarantee = false ; budget = 1
dp.delta        | epsilon = 1 ; delta = 0.1
dp.delta        | epsilon = 1 ; noise = "gaussian"
dp.delta        | epsilon = 1 ; noise = "gaussian" ; delta = 0
dp.delta        | epsilon = 1 ; noise = "gaussian" ; delta = 1
dp.delta        | epsilon = 1 ; noise = "gaussian" ; delta = -1
dp.delta        | epsilon = 1 ; noise = "gaussian" ; delta = nan
dp.noise        | epsilon = 1 ; noise = "cauchy"
dp.post         | epsilon = 1 ; post = "hard"
dp.prior        | epsilon = 1 ; prior = -1
dp.total_share  | epsilon = 1 ; total_share = 0
dp.tolerance    | epsilon = 1 ; tolerance = nan
dp.max_rows     | epsilon = 1 ; max_rows = 0
dp.max_cycles   | epsilon = 1 ; max_cycles = 0
dp.max_cells    | epsilon = 1 ; max_cells = 0
dp.budget       | epsilon = 1 ; budget = 0
dp.budget       | epsilon = 1 ; budget = 0.5
dp.adaptive     | epsilon = 1 ; adaptive = true ; margins = 1
dp.sums         | epsilon = 1 ; sums = true ; strata = ["AREA"]
dp.adaptive     | epsilon = 1 ; adaptive = true ; method = "catall"
dp.margins      | epsilon = 1 ; margins = 0
dp.margins      | epsilon = 1 ; margins = 5
dp.margins      | epsilon = 1 ; margins = true
dp.margins      | epsilon = 1 ; margins = ["AGE"]
dp.margins      | epsilon = 1 ; margins = []
dp.margins[1]   | epsilon = 1 ; margins = [[]]
dp.margins[1]   | epsilon = 1 ; margins = [["AGE", "AGE"]]
dp.margins[2]   | epsilon = 1 ; margins = [["AGE", "JOB"], ["JOB", "AGE"]]
dp.margins[1]   | epsilon = 1 ; margins = [["AEG"]]
dp.extra[1]     | epsilon = 1 ; extra = [["X"]]
dp.strata       | epsilon = 1 ; strata = ["AREB"]
dp.strata       | epsilon = 1 ; strata = ["AREA", "AREA"]
dp.strata       | epsilon = 1 ; strata = ["AGE", "AREA", "JOB", "OWNS"]
dp.margins[1]   | epsilon = 1 ; strata = ["AREA"] ; margins = [["AREA", "AGE"]]
dp.margins      | epsilon = 1 ; strata = ["AREA"] ; margins = 4
dp.ranges.AGE   | epsilon = 1 ; ranges = { AGE = 1 }
dp.ranges.JOB   | epsilon = 1 ; ranges = { JOB = 2 }
dp.ranges.AG    | epsilon = 1 ; ranges = { AG = 2 }
dp.ranges       | epsilon = 1 ; ranges = { AGE = 2.5 }
dp.ranges.AGE   | epsilon = 1 ; strata = ["AGE"] ; ranges = { AGE = 2 }
dp.margins      | epsilon = 1 ; method = "catall" ; margins = 2
dp.extra        | epsilon = 1 ; method = "catall" ; extra = [["AGE"]]
dp.ranges       | epsilon = 1 ; method = "catall" ; ranges = { AGE = 2 }
dp.zeros[1]     | epsilon = 1 ; zeros = [{}]
dp.zeros        | epsilon = 1 ; zeros = [{ AGE = 3 }]
dp.zeros[1].AGE | epsilon = 1 ; zeros = [{ AGE = [] }]
dp.zeros[1].AGE | epsilon = 1 ; zeros = [{ AGE = {} }]
dp.zeros[1].AGE | epsilon = 1 ; zeros = [{ AGE = { min = 2, max = 1 } }]
dp.zeros[1].AGE | epsilon = 1 ; zeros = [{ AGE = ["x"] }]
dp.zeros[1].JOB | epsilon = 1 ; zeros = [{ JOB = ["x"] }]
dp.zeros[1].JOB | epsilon = 1 ; zeros = [{ JOB = { min = "a" } }]
dp.zeros[1].JB  | epsilon = 1 ; zeros = [{ JB = [1] }]
dp.epsilno      | epsilon = 1 ; epsilno = 1
"""),
)
def test_mistakes(write, place, lines):
    found = places(mistakes(write(lines)))
    assert place in found
    assert len(found) <= 2  # one mistake is reported once, not in ten ways


@pytest.mark.parametrize(
    ("place", "lines"),
    cases(r"""
columns.v.breaks   | kind = "integer" ; breaks = [3]
columns.v.breaks   | breaks = []
columns.v.breaks   | breaks = [0]
columns.v.breaks   | breaks = [5, 5]
columns.v.breaks   | breaks = [5, 3]
columns.v.breaks   | breaks = [5, 10]
columns.v.breaks   | breaks = ["x"]
columns.v.breaks   | breaks = 5
columns.v.breaks   | breaks = [4, 6] ; step = 5
columns.v.breaks   | kind = "boolean" ; breaks = [true]
columns.v.breaks   | kind = "text" ; breaks = ["a"]
columns.v.breaks   | kind = "real" ; resolution = 0.5 ; domain = { min = 0, max = 2 } ; breaks = [0.75]
columns.v.nullable | nullable = 1
"""),
)
def test_breaks(write, place, lines):
    if "kind" not in lines:
        lines = 'kind = "integer"\ndomain = { min = 0, max = 9 }\n' + lines
    found = mistakes(write(None, columns=f"[columns.v]\n{lines}\n", mode="sticky"))
    assert place in places(found)
