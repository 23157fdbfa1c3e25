"""Studies: the catalogue of figures is whole, and what is chosen for data that nobody declared."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from engine.evaluation.attacks.protocol import ATTACKS, STRONG_ATTACKS
from engine.evaluation.data.aligned import align, distinct
from engine.evaluation.findings import FIGURES, STRONG, Figure, figures_of
from engine.evaluation.measures.combinations import density_rmse
from engine.evaluation.measures.learning import learning
from engine.evaluation.measures.suite import MEASURES
from engine.evaluation.study import default_study
from engine.schema import column_set

WORSE = {"lower": 1, "higher": -1}


def faults(figure: Figure) -> list[str]:
    """What is wrong with an entry."""
    told = [x for x in (figure.perfect, figure.good, figure.poor) if x is not None]
    sign = WORSE.get(figure.better, 0)
    both = figure.good is not None and figure.poor is not None
    checks = {
        "words": bool(figure.title) and figure.words.endswith("."),
        "direction": figure.better in (*WORSE, "neither"),
        "bounds": figure.low < figure.high,
        "inside": all(figure.low <= x <= figure.high for x in told),
        "thresholds": not both or sign * (figure.poor - figure.good) >= 0,
        "context": figure.better != "neither" or (figure.good is None and figure.poor is None),
        "headline": not figure.is_headline or figure.better != "neither",
        "whose": (figure.good is None and figure.poor is None) or bool(figure.source),
        # What an attack gets of a release that tells nothing is its control, no fixed number.
        "perfect": figure.better == "neither"
        or figure.perfect is not None
        or figure.name.partition(".")[0] in ATTACKS,
    }
    return [name for name, is_right in checks.items() if not is_right]


def test_every_entry_fits_together():
    wrong = {name: faults(figure) for name, figure in FIGURES.items() if faults(figure)}
    assert wrong == {}


def test_every_measure_and_attack_has_entries_and_no_other():
    whole = (*MEASURES, *ATTACKS, *STRONG_ATTACKS)
    assert {name.partition(".")[0] for name in FIGURES} == set(whole)
    assert sum(len(figures_of(m)) for m in whole) == len(FIGURES)
    assert set(STRONG_ATTACKS) == STRONG


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
