"""The study of undeclared data: what is chosen, what is left out, and odd frames that it must survive."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from engine.evaluation.data.aligned import align, distinct
from engine.evaluation.measures.combinations import density_rmse
from engine.evaluation.measures.learning import learning
from engine.evaluation.study import default_study
from engine.schema import column_set

N = 300


def people(n: int = N) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "id": rng.permutation(n),
            "name": [f"person {i}" for i in range(n)],
            "region": rng.choice([*"wxyz"], n),
            "sex": rng.choice(["f", "m"], n, p=[0.55, 0.45]),
            "age": rng.integers(0, 90, n).astype(float),
            "weight": rng.normal(70, 9, n),
            "children": np.where(rng.random(n) < 0.1, np.nan, rng.integers(0, 4, n)),
            "born": pd.Timestamp("2000-01-01") + pd.to_timedelta(rng.integers(0, 999, n), "D"),
            "is_owner": rng.random(n) < 0.3,
            "country": "here",
        }
    )


def of(frame: pd.DataFrame, *sets):
    sets = sets or (list(frame),)
    tables = {column_set([*columns]): distinct(frame[[*columns]]) for columns in sets}
    return default_study(frame, tables, title="mine"), tables


def text_of(found) -> str:
    return "; ".join(found.notes)


def test_what_is_chosen():
    found, _ = of(people())
    study = found.study
    assert study.title == "mine"
    assert set(study.bins) == {"age", "weight", "born"}
    assert all(b.ranks == 20 for b in study.bins.values())
    assert study.correlations.columns == ("age", "weight", "children", "born", "is_owner")
    assert study.distributions.columns == study.correlations.columns
    assert (study.marginals.width, study.marginals.most, study.marginals.group) == (3, 500, ())
    assert {e.column: e.kind for e in study.estimates} == {
        "age": "mean",
        "weight": "mean",
        "children": "mean",
        "is_owner": "mean",
        "region": "share",
        "sex": "share",
    }
    assert [e.value for e in study.estimates if e.column == "sex"] == ["f"]
    assert study.learning[0].target == "children", "the most even of few values"
    assert study.risks.quasi_identifiers == ("region", "sex", "age", "children")
    assert study.risks.targets == ("weight", "born", "is_owner")
    assert "region, sex, age, children" in text_of(found)
    assert "declare" in text_of(found)


def test_ids_and_constants_are_left_out_and_noted():
    found, _ = of(people())
    for section in ("univariate", "marginals", "tables"):
        assert set(getattr(found.study, section).leave_out) == {"id", "name"}, section
    for section in ("components", "models"):
        assert set(getattr(found.study, section).leave_out) == {"id", "name", "country"}, section
    assert "id, name: nearly every row" in text_of(found)
    assert "country: the same" in text_of(found)
    assert not any(v in text_of(found) for v in ("person 1", "here;")), "no value is told"


ODD = {
    "one column": pd.DataFrame({"a": [1, 2, 2]}),
    "one row": people(1),
    "no rows": people().iloc[:0],
    "all constant": pd.DataFrame({"a": [1] * 9, "b": ["x"] * 9}),
    "all blank": pd.DataFrame({"a": [np.nan] * 9, "b": [None] * 9, "c": [pd.NaT] * 9}),
    "ids only": people()[["id", "name"]],
    "truths with blanks": pd.DataFrame({"a": [True, None, False], "b": [1, 2, None]}),
    "categories": people().assign(sex=pd.Categorical(people()["sex"], ["q", "m", "f"])),
    "blank or one value": pd.DataFrame({"a": [1, None] * 30, "b": ["x", None, None] * 20}),
}


@pytest.mark.parametrize("frame", ODD.values(), ids=ODD.keys())
def test_odd_frames_have_a_study_that_measures_run_with(frame):
    found, tables = of(frame)
    assert found.notes
    pytest.importorskip("sklearn.ensemble")
    aligned = align(frame, tables, found.study)
    rng = np.random.default_rng(0)
    if found.study.tables is not None:
        score = density_rmse(aligned, found.study.tables, rng)
        assert score.why_not or score.values["rmse_1"] == 0
    if found.study.learning:
        score = learning(aligned, found.study.learning, rng)
        assert score.values or score.why_not
