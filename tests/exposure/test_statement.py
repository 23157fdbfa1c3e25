"""When a release is refused, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.errors import SpecError
from engine.exposure import ColumnExposure, Exposure, stated
from engine.params import BOUNDS, ExposureBounds

TOLD = ColumnExposure(
    column="income",
    most=0.6512,
    of_1=0.65,
    of_5=0.5501,
    of_all=0.512,
    snr=0.15,
    figures=0.303,
    by={("age", "income"): 0.1, ("income", "sex"): 0.05},
)


def exposure(found=(TOLD,), *, together=(), **more) -> Exposure:
    groups, both = stated(found, 45_321), stated(together, 45_321)
    return Exposure(groups=groups, together=both, mu=2.0, **{"bounds": BOUNDS["standard"], **more})


def test_shares_are_rounded_up_to_steps():
    (group,) = stated([TOLD], 45_321)
    shares = (group.guessed, group.guessed_1, group.guessed_5, group.guessed_all, group.figures)
    assert shares == (0.7, 0.65, 0.6, 0.55, 0.35)
    assert (group.people, group.tables) == (227, 2)
    assert stated([TOLD], 900)[0].people == 30


def test_what_is_over_the_bound_is_refused_unless_accepted():
    assert not exposure().is_refused
    one = exposure(is_over=True)
    assert one.is_refused
    accepted = replace(one.bounds, accept_risk="agreed")
    assert not replace(one, bounds=accepted).is_refused


def test_too_many_looks_are_refused():
    assert not exposure(looks=4).is_refused
    assert exposure(looks=5).is_refused
    assert exposure(looks=3, bounds=BOUNDS["strict"]).is_refused


def test_it_says_what_it_knows():
    one = exposure(together=(replace(TOLD, most=0.76),), builds=2, looks=2)
    text = " ".join(one.sentences())
    assert "income, from 2 tables" in text
    assert "at most 70% of the 227 most exposed" in text
    assert "Together with earlier builds of these people (2): 80% at most." in text
    assert (
        "independent release 2 of nearly the same data, as far as can be determined (at most 4)"
        in text
    )
    assert "AUC of 0.92 and finds 37% of them" in text
    assert "accepted" not in text
    accepted = replace(one, bounds=replace(one.bounds, accept_risk="agreed with the board"))
    assert accepted.sentences()[-1] == "The owner accepted this risk: agreed with the board"


def test_as_plain_values():
    plain = exposure(together=(replace(TOLD, most=0.76, figures=0.7),), builds=1).as_dict()
    assert (plain["figures_a_person"], plain["with_earlier_builds"]) == (0.35, 0.7)
    assert (plain["guessed"], plain["guessed_with_earlier_builds"]) == (0.7, 0.8)
    assert plain["groups"][0]["told"] == "income"
    assert plain["membership_auc"] == pytest.approx(0.9214, abs=1e-4)
    assert exposure(()).as_dict()["guessed"] == 0.5


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({"warn_at": 0.0, "refuse_at": 1.0, "max_looks": 1}, "warn_at"),
        ({"warn_at": 0.5, "refuse_at": 0.4, "max_looks": 1}, "warn_at"),
        ({"warn_at": 0.5, "refuse_at": 0.6, "max_looks": 0}, "max_looks"),
        ({"warn_at": float("nan"), "refuse_at": 0.6, "max_looks": 1}, "warn_at"),
    ],
)
def test_bounds_that_cannot_be_are_refused(values, what):
    with pytest.raises(SpecError, match=what):
        ExposureBounds(**values)
