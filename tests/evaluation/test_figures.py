"""The catalogue of figures is whole: each says what it is, and its bounds and thresholds fit together."""

from __future__ import annotations

from math import inf

import pytest

from engine.evaluation.attacks import STRONG_ATTACKS
from engine.evaluation.figures import FIGURES, STRONG, figures_of
from engine.evaluation.risk.suite import ATTACKS
from engine.evaluation.score import Figure
from engine.evaluation.utility.suite import MEASURES

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


@pytest.mark.parametrize("name", FIGURES)
def test_an_entry_fits_together(name):
    assert faults(FIGURES[name]) == []


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"words": ""}, "words"),
        ({"better": "up"}, "direction"),
        ({"low": 1.0, "high": 1.0}, "bounds"),
        ({"perfect": -1.0}, "inside"),
        ({"good": 3.0, "poor": 2.0}, "thresholds"),
        ({"better": "neither", "good": 0.0, "poor": None}, "context"),
        ({"better": "neither", "is_headline": True}, "headline"),
        ({"good": 0.0, "source": ""}, "whose"),
        ({"perfect": None}, "perfect"),
    ],
)
def test_a_faulty_entry_is_noticed(changed, fault):
    right = {
        "name": "a.b",
        "title": "t",
        "words": "W.",
        "better": "lower",
        "perfect": 0.0,
        "high": inf,
    }
    assert faults(Figure(**right)) == []
    assert fault in faults(Figure(**{**right, **changed}))


def test_every_measure_and_attack_has_entries_and_no_other():
    whole = (*MEASURES, *ATTACKS, *STRONG_ATTACKS)
    assert {name.partition(".")[0] for name in FIGURES} == set(whole)
    assert sum(len(figures_of(m)) for m in whole) == len(FIGURES)
    assert set(STRONG_ATTACKS) == STRONG
