from __future__ import annotations

import pytest
from fixtures.spec_dp import mistakes, spec_writer


@pytest.fixture
def write(tmp_path):
    return spec_writer(tmp_path)


BAD = [
    ("", "dp.epsilon: is missing; give a number above 0, or say guarantee = false"),
    ("epsilon = 0", "dp.epsilon: wants a finite number above 0, not 0.0"),
    ("epsilon = -1", "dp.epsilon: wants a finite number above 0"),
    ("epsilon = nan", "dp.epsilon: wants a finite number above 0, not nan"),
    ("epsilon = inf", "dp.epsilon: wants a finite number above 0, not inf"),
    ("epsilon = 5e-324", "dp.epsilon: wants a number from 1e-09 to 500, not 4.94066e-324"),
    ("epsilon = 501", "dp.epsilon: wants a number from 1e-09 to 500, not 501: below, noise drowns"),
    ('epsilon = "1"', "dp.epsilon: wants a number"),
    ("epsilon = true", "dp.epsilon: wants a number"),
    ("epsilon = 1\nguarantee = false", "dp.epsilon: belongs to a guarantee"),
    ("guarantee = false\ndelta = 0.1", "dp.delta: belongs to a guarantee"),
    ("guarantee = false\nbudget = 1", "dp.budget: belongs to a guarantee"),
    ("epsilon = 1\ndelta = 0.1", 'dp.delta: belongs to noise = "gaussian" only'),
    ('epsilon = 1\nnoise = "gaussian"', 'dp.delta: is missing; noise = "gaussian" wants one'),
    *[
        (
            f'epsilon = 1\nnoise = "gaussian"\ndelta = {bad}',
            "dp.delta: wants a number between 0 and 1",
        )
        for bad in ("0", "1", "-1", "nan", "1.5")
    ],
    ('epsilon = 1\nnoise = "cauchy"', "dp.noise: wants 'laplace' or 'gaussian'"),
    ('epsilon = 1\npost = "hard"', "dp.post: wants 'wls', 'paper' or 'synthpop'"),
    ('epsilon = 1\nsample = "r"', "dp.sample: wants 'rounded' or 'multinomial'"),
    ('epsilon = 1\nmethod = "gan"', "dp.method: wants 'ipf' or 'catall'"),
    ("epsilon = 1\nprior = -1", "dp.prior: wants a finite number, 0 or above"),
    ("epsilon = 1\nprior = inf", "dp.prior: wants a finite number, 0 or above"),
    ("epsilon = 1\ntotal_share = 0", "dp.total_share: wants a number between 0 and 1"),
    ("epsilon = 1\ntotal_share = 1", "dp.total_share: wants a number between 0 and 1"),
    ("epsilon = 1\ntolerance = nan", "dp.tolerance: wants a number between 0 and 1"),
    ("epsilon = 1\nmax_rows = 0", "dp.max_rows: wants a whole number from 1"),
    ("epsilon = 1\nmax_cycles = 0", "dp.max_cycles: wants a whole number from 1"),
    ("epsilon = 1\nmax_cells = 0", "dp.max_cells: wants a whole number from 1"),
    ("epsilon = 1\nbudget = 0", "dp.budget: wants a finite number above 0"),
    ("epsilon = 1\nbudget = inf", "dp.budget: wants a finite number above 0"),
    ("epsilon = 1\nbudget = 0.5", "dp.budget: 0.5 is less than this build's epsilon, 1.0"),
    ("epsilon = 1\nmargins = 0", "dp.margins: wants a number from 1 to 4, not 0"),
    ("epsilon = 1\nmargins = 5", "dp.margins: wants a number from 1 to 4, not 5"),
    ("epsilon = 1\nmargins = true", "dp.margins: wants a number from 1 to 4, or a list"),
    ('epsilon = 1\nmargins = ["AGE"]', "dp.margins: wants a number from 1 to 4, or a list"),
    ("epsilon = 1\nmargins = []", "dp.margins: is empty"),
    ("epsilon = 1\nmargins = [[]]", "dp.margins[1]: names no column"),
    ('epsilon = 1\nmargins = [["AGE", "AGE"]]', "dp.margins[1]: names a column twice"),
    (
        'epsilon = 1\nmargins = [["AGE", "JOB"], ["JOB", "AGE"]]',
        "dp.margins[2]: the same margin as dp.margins[1]",
    ),
    ('epsilon = 1\nmargins = [["AEG"]]', "dp.margins[1]: no column AEG; did you mean 'AGE'?"),
    ('epsilon = 1\nextra = [["X"]]', "dp.extra[1]: no column X"),
    ('epsilon = 1\nstrata = ["AREB"]', "dp.strata: no column AREB; did you mean 'AREA'?"),
    ('epsilon = 1\nstrata = ["AREA", "AREA"]', "dp.strata: names a column twice"),
    ('epsilon = 1\nstrata = ["AGE", "AREA", "JOB", "OWNS"]', "dp.strata: leave no column to count"),
    (
        'epsilon = 1\nstrata = ["AREA"]\nmargins = [["AREA", "AGE"]]',
        "dp.margins[1]: AREA is among the strata",
    ),
    (
        'epsilon = 1\nstrata = ["AREA"]\nmargins = 4',
        "dp.margins: 4 columns in each, of 3 that are counted",
    ),
    ("epsilon = 1\nranges = { AGE = 1 }", "dp.ranges.AGE: wants a whole number from 2"),
    ("epsilon = 1\nranges = { JOB = 2 }", "dp.ranges.JOB: JOB has no order"),
    ("epsilon = 1\nranges = { OWNS = 2 }", "dp.ranges.OWNS: OWNS has no order"),
    ("epsilon = 1\nranges = { AG = 2 }", "dp.ranges.AG: no column AG; did you mean 'AGE'?"),
    ("epsilon = 1\nranges = { AGE = 2.5 }", "dp.ranges: wants columns with whole numbers"),
    ('epsilon = 1\nstrata = ["AGE"]\nranges = { AGE = 2 }', "dp.ranges.AGE: is among the strata"),
    *[
        (f'epsilon = 1\nmethod = "catall"\n{line}', f"dp.{line.split()[0]}: belongs to method")
        for line in ("margins = 2", 'extra = [["AGE"]]', "ranges = { AGE = 2 }")
    ],
    ("epsilon = 1\nzeros = [{}]", "dp.zeros[1]: names no column"),
    ("epsilon = 1\nzeros = [{ AGE = 3 }]", "dp.zeros: wants a list of rules"),
    ("epsilon = 1\nzeros = [{ AGE = [] }]", "dp.zeros[1].AGE: names no value"),
    ("epsilon = 1\nzeros = [{ AGE = {} }]", "dp.zeros[1].AGE: wants a list of values, or {"),
    (
        "epsilon = 1\nzeros = [{ AGE = { most = 1 } }]",
        "dp.zeros[1].AGE: wants a list of values, or {",
    ),
    ("epsilon = 1\nzeros = [{ AGE = { min = 2, max = 1 } }]", "dp.zeros[1].AGE: min is above max"),
    ('epsilon = 1\nzeros = [{ AGE = ["x"] }]', 'dp.zeros[1].AGE: wants a value of type "integer"'),
    ('epsilon = 1\nzeros = [{ JOB = ["x"] }]', "dp.zeros[1].JOB: 'x' is not in the domain"),
    ('epsilon = 1\nzeros = [{ JOB = { min = "a" } }]', "dp.zeros[1].JOB: JOB has no order"),
    (
        "epsilon = 1\nzeros = [{ JB = [1] }]",
        "dp.zeros[1].JB: is in no table, margin or stratum; did",
    ),
    ("epsilon = 1\nepsilno = 1", "dp.epsilno: unknown key; did you mean 'epsilon'?"),
]


@pytest.mark.parametrize(("dp", "sentence"), BAD)
def test_mistakes_by_name(write, dp, sentence):
    told = mistakes(write(dp))
    assert any(one.startswith(sentence) for one in told), told
    if dp:
        assert len(told) <= 2  # one mistake is told once, not in ten ways


def test_an_unknown_noise_is_told_and_no_delta_is_blamed_for_it(write):
    (told,) = mistakes(write('epsilon = 1\nnoise = "gausian"\ndelta = 1e-6'))
    assert told.startswith("dp.noise: wants 'laplace' or 'gaussian', not 'gausian'")


@pytest.mark.parametrize("epsilon", ['"1"', "nan", "0", "-1", "1e9"])
def test_a_bad_epsilon_hides_no_other_mistake(write, epsilon):
    told = mistakes(
        write(
            f'epsilon = {epsilon}\nnoise = "gaussian"\ndelta = 1.5\nbudget = -1\ntotal_share = 2\n'
            'margins = [["AGE", "X"]]\nmax_rows = 0'
        )
    )
    assert sorted(one.split(":")[0] for one in told) == [
        "dp.budget", "dp.delta", "dp.epsilon", "dp.margins[1]", "dp.max_rows", "dp.total_share",
    ]  # fmt: skip


def test_all_mistakes_are_told_together(write):
    told = mistakes(write('epsilon = 0\nprior = -1\nmargins = [["X"]]\npost = "x"\nstrata = ["Y"]'))
    places = [one.split(":")[0] for one in told]
    assert sorted(places) == ["dp.epsilon", "dp.margins[1]", "dp.post", "dp.prior", "dp.strata"]


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ('kind = "integer"\nbreaks = [3]', "columns.v.breaks: needs domain = { min"),
        ("breaks = []", "columns.v.breaks: names no value"),
        ("breaks = [0]", "columns.v.breaks: must ascend strictly, each above the domain's min"),
        ("breaks = [5, 5]", "columns.v.breaks: must ascend strictly"),
        ("breaks = [5, 3]", "columns.v.breaks: must ascend strictly"),
        ("breaks = [5, 10]", "columns.v.breaks: a group begins above the domain's max"),
        ('breaks = ["x"]', 'columns.v.breaks: wants values of type "integer" only'),
        ("breaks = 5", "columns.v.breaks: wants a list of values"),
        ("breaks = [4, 6]\nstep = 5", "columns.v.breaks: a group holds no multiple of the step 5"),
        ('kind = "boolean"\nbreaks = [true]', "columns.v.breaks: only columns of numbers"),
        ('kind = "text"\nbreaks = ["a"]', "columns.v.breaks: only columns of numbers"),
        (
            'kind = "real"\nresolution = 0.5\ndomain = { min = 0, max = 2 }\nbreaks = [0.75]',
            "columns.v.breaks: a value lies between the steps",
        ),
        ("nullable = 1", "columns.v.nullable: wants true or false"),
    ],
)
def test_breaks(write, lines, sentence):
    if "kind" not in lines:
        lines = 'kind = "integer"\ndomain = { min = 0, max = 9 }\n' + lines
    told = mistakes(write(None, columns=f"[columns.v]\n{lines}\n", mode="sticky"))
    assert [one for one in told if one.startswith(sentence)], told
