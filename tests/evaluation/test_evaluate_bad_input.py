"""Whole evaluations of input that is wrong or odd: a clear error, or a stated "not computed, because"; never a crash,
a warning, a figure out of its bounds, or a silent nothing."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest

from engine.errors import TablepackError
from engine.evaluation.attacks.protocol import Attacker, Linkage
from engine.evaluation.data.aligned import Binning
from engine.evaluation.data.reading import read_original, read_subject
from engine.evaluation.findings import FIGURES
from engine.evaluation.measures.analyses import Components, Estimate, Regression, RegressionGroup
from engine.evaluation.measures.association import Correlations
from engine.evaluation.measures.combinations import Gap, Marginals, Tables
from engine.evaluation.measures.counts import Distributions, Ranges, Univariate
from engine.evaluation.measures.learning import Learning
from engine.evaluation.measures.propensity import Models, Propensity
from engine.evaluation.measures.rules import Inconsistencies, Rule
from engine.evaluation.runner import Given, Result, evaluate_all
from engine.evaluation.study import Study

pytest.importorskip("sklearn")
WHOLE = Study(
    title="all sections",
    nulls=("N",),
    bins={"age": Binning(ranks=4), "income": Binning(edges=(-1e9, 0, 500, 1e9))},
    order={"town": ["west", "east", "north"]},
    univariate=Univariate(),
    correlations=Correlations(columns=("age", "edu", "income"), binned=("income",)),
    marginals=Marginals(width=2),
    propensity=Propensity(depth=3),
    regression=Regression(
        x="edu",
        y="income",
        groups=(RegressionGroup(name="all"), RegressionGroup(name="f", where={"sex": ["f"]})),
    ),
    inconsistencies=Inconsistencies(
        rules=(Rule(name="child", columns=("age", "edu"), violated="age < 5 AND edu > 3"),)
    ),
    ranges=Ranges(column="age", random=5),
    components=Components(n=2),
    tables=Tables(),
    models=Models(depth=3),
    distributions=Distributions(),
    estimates=(
        Estimate(name="mean", kind="mean", column="income"),
        Estimate(name="share", kind="share", column="sex", value="f"),
        Estimate(name="slope", kind="slope", column="income", on="edu"),
    ),
    gaps=(Gap(group="sex", values=("f", "m"), by=("town",)),),
    risks=Attacker(
        quasi_identifiers=("age", "sex", "town"),
        targets=("edu", "income"),
        linkage=Linkage(targets=20),
        attempts=30,
        model_rows=60,
    ),
)


LEARNED = Study(
    title="learners are slow: they have studies of their own",
    learning=(Learning(target="sex", trees=2), Learning(target="income", trees=2)),
)


def people(n: int = 90, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 40, n).astype(float)
    edu = np.where(age < 5, np.nan, rng.integers(1, 6, n))
    return pd.DataFrame(
        {
            "age": age,
            "sex": rng.choice(["f", "m"], n),
            "town": rng.choice(["west", "east", "north"], n),
            "edu": edu,
            "income": np.round(100 * edu + rng.normal(0, 50, n)),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 30, n), "D"),
        }
    )


def evaluated(original, synthetic, study: Study = WHOLE) -> Result:
    """The whole path, as `engine.evaluation` goes it, and what holds of every result."""
    data = read_original(original, study)
    subject = read_subject(synthetic, data, study, "s")
    given = Given(subjects=[subject], original=data, study=study, data="d")
    (result,) = evaluate_all(given).results
    for name, value in result.figures().items():
        told = FIGURES[name]
        assert math.isfinite(value), name
        assert told.low - 1e-9 <= value <= told.high + 1e-9, (name, value)
    for name, found in {**result.scores, **result.risks}.items():
        assert found.values or found.why_not, f"{name} has neither figure nor reason"
        assert all(found.why_not.values()), name
    return result


ODD = {
    "one row": lambda f: f.head(1),
    "two rows": lambda f: f.head(2),
    "four rows, fewer than folds": lambda f: f.head(4),
    "a constant number": lambda f: f.assign(income=7.0),
    "a constant text": lambda f: f.assign(sex="f"),
    "all constant": lambda f: f.head(1).loc[[0] * 30].reset_index(drop=True),
    "a blank column": lambda f: f.assign(edu=np.nan, town=None),
    "all blank": lambda f: f.assign(**dict.fromkeys(f, None)),
    "unique everywhere": lambda f: f.assign(age=np.arange(len(f)) * 1.5),
    "duplicate rows": lambda f: pd.concat([f, f, f], ignore_index=True),
    "unknown texts": lambda f: f.assign(sex="x", town="<script>'\"\n"),
    "unknown numbers": lambda f: f.assign(age=1e9, income=-1e12, edu=1e-9),
    "huge and infinite": lambda f: f.assign(income=np.where(f.index % 2, np.inf, 1e300)),
    "two columns": lambda f: f[["age", "sex"]],
    "one column": lambda f: f[["town"]],
    "only times": lambda f: f[["day"]],
    "as texts": lambda f: f.astype(str),
}


FEW = ("one row", "all blank", "huge and infinite")


def some(*always):
    """All odd tables in the long run, a few by default."""
    return [pytest.param(o, marks=[] if o in always else [pytest.mark.slow]) for o in ODD]


@pytest.mark.ci
@pytest.mark.parametrize("odd", some(*FEW, "unknown texts", "as texts"))
def test_odd_synthetic_tables_are_evaluated_or_said_not_to_be(odd):
    evaluated(people(), ODD[odd](people(80, 2)))


@pytest.mark.ci
@pytest.mark.parametrize("odd", [p for p in some(*FEW) if p.values != ("as texts",)])
def test_odd_originals_are_evaluated_or_refused(odd):
    evaluated(ODD[odd](people()), people(80, 2))


@pytest.mark.slow
@pytest.mark.parametrize("odd", ["one row", "two rows", "all constant", "all blank", "one column"])
def test_odd_on_both_sides(odd):
    evaluated(ODD[odd](people()), ODD[odd](people()))


@pytest.mark.slow
@pytest.mark.parametrize("odd", ["one row", "a constant text"])
def test_learners_are_run_or_said_not_to_be(odd):
    evaluated(people(), ODD[odd](people(60, 2)), LEARNED)
    evaluated(ODD[odd](people()), people(60, 2), LEARNED)


@pytest.mark.ci
def test_a_copy_scores_perfect_utility():
    result = evaluated(people(), people())
    figures = result.figures()
    measured = {n: v for n, v in figures.items() if n.split(".")[0] in result.scores}
    # The largest sample that it is likened to is of 90 %.
    perfect = {
        n: p
        for n in measured
        if (p := FIGURES[n].perfect) is not None and "sampling_equivalent" not in n
    }
    assert len(perfect) > 10
    for name, wanted in perfect.items():
        assert measured[name] == pytest.approx(wanted, abs=1e-6), name


# What cannot be read ends with an error.


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(
    "wrong",
    [
        people().head(0),
        pd.DataFrame(),
        pd.DataFrame({"other": [1, 2]}),
        pd.DataFrame([[1, 2]], columns=["age", "age"]),
        "gone.csv",
    ],
    ids=["no rows", "nothing", "no column in common", "a name twice", "no file"],
)
def test_what_cannot_be_evaluated_is_refused(side, wrong):
    given_ = [people(), people()]
    given_[side] = wrong
    with pytest.raises(TablepackError) as refused:
        evaluated(*given_)
    assert str(refused.value)


@pytest.mark.slow
def test_other_spellings_of_blanks_change_no_figure(tmp_path):
    original, synthetic = people(), people(80, 2)
    wanted = evaluated(original, synthetic).figures()
    for spelled in ("N", "nan"):
        path = tmp_path / "x.csv"
        synthetic.to_csv(path, index=False, na_rep=spelled)
        assert evaluated(original, path).figures() == wanted
    synthetic.astype({"age": object, "edu": object}).to_csv(tmp_path / "y.csv")
    assert evaluated(original, tmp_path / "y.csv").figures() == wanted


# Names and values are only names and values.

HOSTILE = {"age": '"age"; --', "sex": "<script>sex", "town": "to]w[n*\n", "edu": "éđu 名"}


def renamed_study() -> Study:
    """The study, its columns renamed in every section."""
    text = WHOLE.model_copy(update={"inconsistencies": None}).model_dump_json()

    def swap(told):
        if isinstance(told, dict):
            return {HOSTILE.get(k, k) if k in HOSTILE else k: swap(v) for k, v in told.items()}
        if isinstance(told, list):
            return [swap(v) for v in told]
        return HOSTILE.get(told, told) if isinstance(told, str) else told

    return Study.model_validate(swap(json.loads(text)))


@pytest.mark.ci
def test_hostile_names_score_as_plain_ones():
    plain = WHOLE.model_copy(update={"inconsistencies": None})
    wanted = evaluated(people(), people(80, 2), plain)
    got = evaluated(
        people().rename(columns=HOSTILE), people(80, 2).rename(columns=HOSTILE), renamed_study()
    )
    assert got.figures().keys() == wanted.figures().keys()
    for measure in ("univariate", "marginals", "tables", "regression", "estimates"):
        told, found = wanted.scores[measure].values, got.scores[measure].values
        assert found == pytest.approx(told, abs=1e-9), measure
