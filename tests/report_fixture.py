"""An evaluation made by hand, with every breakdown that pictures are drawn from, and hostile names all over."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from engine.evaluation import Evaluation, Result, Subject
from engine.schema import column_set
from engine.score import WHOLE, Figure, Rate, Risk, Score, wilson
from engine.study import Row, Study
from engine.utility.comparison import Distinct, compare

HOSTILE = '<script>alert("1")</script>'
TEXTS = ["plain", "$x_1$ & co", HOSTILE, "日本 العربية", "two\nlines\x07", "a" * 80]
TRUE_COUNT = 12_347
"""Figures that no publishable report may show: a count, a number of rows and one of a breakdown."""
N_ROWS = 98_765
IN_BREAKDOWN = 54_321


def figure(name: str, better="lower", **more) -> Figure:
    told = {"title": name, "words": f"words of {name}", "perfect": 0.0, "columns": "1"}
    return Figure(name=name, better=better, **(told | more))


CATALOGUE = {
    one.name: one
    for one in (
        figure(
            "univariate.median_composite_error",
            title="Median error of counts",
            good=0.5,
            poor=2.0,
            is_headline=True,
        ),
        figure("univariate.largest_absolute_error", digits=0, title="Largest error of a count"),
        figure("univariate.n", "neither", digits=0, perfect=None),
        figure(
            "correlations.median_difference",
            title="Kendall's tau: median difference",
            columns="2",
            digits=5,
            is_headline=True,
        ),
        figure(
            "marginals.score",
            "higher",
            title="k-marginals",
            columns="3",
            digits=1,
            high=1000,
            perfect=1000.0,
            good=950,
            poor=800,
            is_headline=True,
        ),
        figure(
            "components.mean_ks",
            title="Principal components",
            columns="all",
            high=1.0,
            is_headline=True,
        ),
        figure("learning.forest_ratio", "higher", title="Forest", perfect=1.0, is_headline=True),
        figure("linkage.correct", title="Linkage: correct", high=1.0, is_headline=True, poor=0.2),
        figure("inference.pi", title="Inference: gain", low=-9.0, high=1.0, good=0.5, poor=0.75),
    )
}


def people(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(0, 60, n).astype(float),
            HOSTILE: rng.choice(TEXTS, n),
            "day": pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 90, n), "D"),
        }
    )


def tables(frame: pd.DataFrame, *sets: list[str]) -> dict:
    out = {}
    for columns in map(column_set, sets):
        counted = frame.groupby(list(columns)).size().reset_index(name="n")
        out[columns] = Distinct(frame=counted.drop(columns="n"), n=counted["n"].to_numpy(np.int64))
    return out


def pairs(columns: list[str], seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = [
        (a, b, *np.round(rng.uniform(-1, 1, 2), 3))
        for i, a in enumerate(columns)
        for b in columns[i + 1 :]
    ]
    frame = pd.DataFrame(rows, columns=["first", "second", "original", "synthetic"])
    return frame.assign(difference=(frame["synthetic"] - frame["original"]).abs())


def univariate_score(comparison, error: float) -> Score:
    parts = []
    for column, values in comparison.values.items():
        size = len(values)
        truth = np.arange(size) * 10 + 5
        parts.append(
            pd.DataFrame(
                {
                    "column": column,
                    "key": np.arange(size),
                    "original": truth,
                    "synthetic": truth + 3,
                    "absolute_error": 3,
                    "composite_error": error,
                }
            )
        )
    whole = pd.concat(parts, ignore_index=True)
    whole.loc[0, "original"] = IN_BREAKDOWN
    values = {
        "median_composite_error": error,
        "largest_absolute_error": float(TRUE_COUNT),
        "n": float(len(whole)),
    }
    return Score(measure="univariate", values=values, breakdown=whole, notes=(f"note {HOSTILE}",))


def scores(comparison, error: float) -> dict[str, Score]:
    rng = np.random.default_rng(1)
    points = pd.DataFrame(rng.normal(size=(300, 3)), columns=["c1", "c2", "c3"])
    points["side"] = np.repeat(["original", "synthetic"], 150)
    points["highlight"] = np.arange(300) % 3 == 0
    lines = pd.DataFrame({"group": ["all", HOSTILE], "x_low": 0.0, "x_high": 9.0})
    lines = lines.assign(original_low=[1.0, 2], original_high=[5.0, 3])
    lines = lines.assign(synthetic_low=[1.1, 2], synthetic_high=[4.8, 3.5])
    fits = pd.DataFrame(
        {
            "columns": [f"t{i}" for i in range(60)],
            "width": np.repeat([1, 2, 3], 20),
            "df": 5,
            "pmse": 0.001,
            "s_pmse": rng.lognormal(0, 1, 60),
        }
    )
    wide = [c for c in comparison.values if c != "day"]
    found = [
        univariate_score(comparison, error),
        Score(
            measure="correlations",
            values={"median_difference": error / 1000},
            breakdown=pairs([*wide, "b", "c", "d"], 2),
        ),
        Score(
            measure="marginals",
            values={"score": 1000 - 40 * error},
            breakdown=pd.DataFrame({"columns": ["age, day"], "distance": [0.1]}),
            more={
                "by_group": pd.DataFrame(
                    {
                        HOSTILE: TEXTS,
                        "n": 9,
                        "distance": np.linspace(0, 0.4, 6),
                        "score": np.linspace(1000, 600, 6),
                    }
                ),
                "shares": pd.DataFrame(
                    {"share": [1.0, 10, 40, 90], "score": [700.0, 850, 940, 990]}
                ),
            },
        ),
        Score(measure="components", values={}, why_not={WHOLE: "the widest table has one column"}),
        Score(
            measure="regression",
            values={},
            breakdown=pd.DataFrame({"group": ["all", HOSTILE], "original": 0.4, "synthetic": 0.39}),
            more={"lines": lines},
        ),
        Score(measure="tables", values={}, breakdown=fits),
        Score(
            measure="distributions",
            values={},
            breakdown=pd.DataFrame({"column": ["age", "day"], "u_m": [0.1, 0.2]}),
        ),
        Score(
            measure="gaps",
            values={},
            breakdown=pd.DataFrame(
                {
                    "cell": TEXTS,
                    "original": np.linspace(-0.5, 0.5, 6),
                    "synthetic": np.linspace(-0.4, 0.6, 6),
                    "gap": "sex by job",
                }
            ),
        ),
        Score(
            measure="learning",
            values={"forest_ratio": 0.9},
            breakdown=pd.DataFrame(
                {
                    "task": "predicting x",
                    "learner": ["logistic", "logistic", "forest", "forest"],
                    "trained_on": ["original", "synthetic"] * 2,
                    "accuracy": [0.8, 0.7, 0.85, 0.8],
                    "guess": 0.5,
                }
            ),
        ),
        Score(
            measure="estimates",
            values={},
            breakdown=pd.DataFrame(
                {"name": [f"mean {i}" for i in range(4)], "overlap_signed": [0.9, -2.0, 0.2, 1.0]}
            ),
        ),
    ]
    named = {score.measure: score for score in found}
    component = Score(measure="components", values={"mean_ks": 0.01}, more={"points": points})
    return named | ({"components": component} if error < 1 else {})


def risks() -> dict[str, Risk]:
    shares = pd.DataFrame(
        {"share": [0.01, 0.1, 1.0], "attack": [0.9, 0.5, 0.2], "control": [0.5, 0.4, 0.2]}
    )
    linkage = Risk(
        attack="linkage",
        words=f"The attacker holds {HOSTILE}.",
        rate=wilson(300, 1_000),
        baseline=wilson(100, 1_000),
        control=Rate(value=0.25, low=0.2, high=0.3, n=TRUE_COUNT),
        values={"correct": 0.3},
        more={"by_share": shares},
    )
    inference = Risk(
        attack="inference",
        words="Guess.",
        values={"pi": 0.2},
        breakdown=pd.DataFrame({"column": TEXTS, "pi": [0.1, np.nan, 0.7, -0.4, 0.2, 0.5]}),
    )
    return {"linkage": linkage, "inference": inference}


def result(name: str, error: float, *, is_release: bool = True) -> Result:
    study = Study(title="")
    original, other = people(400, 1), people(300, 2)
    sets = [["age"], [HOSTILE], ["day"], ["age", HOSTILE]] if is_release else [list(original)]
    made = tables(other, *sets)
    cards = {c: {"noise_sd": 1.4, "rows": 300, "suppressed_share": 0.1} for c in made}
    comparison = compare(original, made, study)
    subject = Subject(
        name=name,
        kind="release" if is_release else "table",
        tables=made,
        content_hash="abc123",
        cards=cards if is_release else {},
        notes=(f"left out: {HOSTILE}",),
    )
    found = scores(comparison, error)
    scale = {
        "univariate": replace(found["univariate"], values={"median_composite_error": 1.234567})
    }
    return Result(
        subject=subject,
        comparison=comparison,
        scores=found,
        scale=scale,
        risks=risks(),
        seconds=1.0,
    )


def evaluation(*results: Result, rows: tuple[Row, ...] = ()) -> Evaluation:
    return Evaluation(
        title=f"A study of {HOSTILE}",
        study=Study(title="", rows=rows),
        results=results or (result("ours", 0.3),),
        share=0.4,
        data="people.csv",
        n_rows=N_ROWS,
        labels={"age": 'Age "in years" <b>'},
        value_labels={HOSTILE: {"plain": "<i>Plain</i>"}},
        seed=7,
        version="0.2.0",
    )
