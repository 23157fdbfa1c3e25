"""Small frames, tables and comparisons for tests of measures, and what every score must keep to."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pandas as pd

from engine.schema import column_set
from engine.score import Figure, Score
from engine.study import Study
from engine.study_sections import Binning
from engine.utility.comparison import Comparison, Distinct, compare, distinct

RNG_SEED = 5
BARE = Study(title="", spec="", folder="")
EVERY_SET = (["age"], ["sex"], ["age", "sex"], ["age", "education"], ["age", "education", "sex"])


def table(n, **columns) -> Distinct:
    return Distinct(frame=pd.DataFrame(columns), n=np.array(n, np.int64))


def tables(*given: Distinct) -> dict:
    return {column_set(list(t.frame.columns)): t for t in given}


def side_by_side(original: dict, *given: Distinct, study: Study = BARE):
    return compare(pd.DataFrame(original), tables(*given), study)


def people(n: int = 600, seed: int = RNG_SEED) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 90, n)
    education = np.where(age < 16, np.nan, np.minimum(rng.integers(1, 9, n), age // 8))
    income = np.round(education * 1_000 + rng.normal(0, 400, n), -2)
    sex = rng.choice(["f", "m"], n)
    return pd.DataFrame({"age": age, "education": education, "income": income, "sex": sex})


def marginal_tables(frame: pd.DataFrame, *sets) -> dict:
    """Exact tables of a frame."""
    out = {}
    for columns in map(column_set, sets):
        counted = frame.groupby(list(columns), dropna=False).size().reset_index(name="n")
        n = counted.pop("n").to_numpy()
        out[columns] = Distinct(frame=counted, n=n)
    return out


def one_table(
    original: dict | pd.DataFrame, other: dict | pd.DataFrame, study: Study = BARE
) -> Comparison:
    """A comparison with one synthetic table of rows."""
    frame = pd.DataFrame(other)
    return compare(pd.DataFrame(original), {column_set(list(frame)): distinct(frame)}, study)


def of_marginals(
    original: pd.DataFrame, other: pd.DataFrame, *sets, study: Study = BARE
) -> Comparison:
    """A comparison with exact tables of another frame."""
    return compare(original, marginal_tables(other, *sets), study)


def collapsed(frame: pd.DataFrame) -> Distinct:
    """Distinct rows of a frame and how often each is there."""
    counted = frame.groupby(list(frame.columns), dropna=False).size().reset_index(name="n")
    n = counted.pop("n").to_numpy()
    return Distinct(frame=counted, n=n)


def replace_bins(**bins: Binning) -> Study:
    """A study that bins some columns."""
    return BARE.model_copy(update={"bins": bins})


def assert_in_catalogue(score: Score, catalogue: Iterable[Figure]) -> None:
    """Every figure is a number within the bounds that its catalogue says, and what is absent has a reason."""
    known = {
        f.name.removeprefix(f"{score.measure}."): f
        for f in catalogue
        if f.name.startswith(f"{score.measure}.")
    }
    assert set(score.values) <= set(known)
    for name, figure in score.values.items():
        assert math.isfinite(figure), name
        assert known[name].low <= figure <= known[name].high, name
    assert set(score.why_not) <= {*known, ""}
    assert not set(score.values) & set(score.why_not)
    assert score.values or all(score.why_not.values())
    assert score.values or score.why_not
