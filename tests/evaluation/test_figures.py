"""The catalogue of figures is whole: each says what it is, and its bounds and thresholds fit together."""

from __future__ import annotations

from engine.evaluation.attacks.protocol import ATTACKS, STRONG_ATTACKS
from engine.evaluation.findings import FIGURES, STRONG, Figure, figures_of
from engine.evaluation.measures.suite import MEASURES

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
