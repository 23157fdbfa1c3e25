"""When a release is refused, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.errors import SpecError
from engine.exposure import Exposure, Group
from engine.params import BOUNDS, ExposureBounds

PAIR, OTHER = (("age",), "health"), (("age", "sex"), "income")
GROUP = Group(
    columns=("age", "sex"),
    ranges=("80 to 87", "F"),
    people=120,
    told="income",
    figures=36,
    tables=4,
    guessed=0.66,
)


def exposure(own, *, added=None, before=None, **more) -> Exposure:
    return Exposure(
        groups=(GROUP,),
        pairs=own,
        added=own if added is None else added,
        before=before or {},
        mu=2.0,
        **{"bounds": BOUNDS["standard"], **more},
    )


@pytest.mark.parametrize(
    ("own", "added", "before", "is_refused"),
    [
        ({PAIR: 0.4}, None, {}, False),
        ({PAIR: 0.41}, None, {}, True),
        (
            {PAIR: 0.2},
            None,
            {PAIR: 0.3},
            True,
        ),  # twenty builds tell as much as one of twenty tables
        ({PAIR: 0.2}, {}, {PAIR: 0.2}, False),  # told before: nothing is added
        ({PAIR: 0.2}, {OTHER: 0.1}, {PAIR: 9.0}, False),  # others were told of, not these
        ({PAIR: 0.41}, {}, {PAIR: 0.41}, True),  # too much by itself stays too much
        ({}, None, {PAIR: 1.0}, False),
    ],
)
def test_what_is_over_the_bound_is_refused(own, added, before, is_refused):
    one = exposure(own, added=added, before=before)
    assert one.is_refused is is_refused
    accepted = replace(one.bounds, accept_risk="agreed")
    assert not replace(one, bounds=accepted).is_refused


def test_too_many_looks_are_refused():
    assert not exposure({}, looks=4).is_refused
    assert exposure({}, looks=5).is_refused
    assert exposure({}, looks=3, bounds=BOUNDS["strict"]).is_refused


def test_it_says_what_it_knows():
    one = exposure({PAIR: 0.3}, added={PAIR: 0.1}, before={PAIR: 0.4}, builds=2, looks=2)
    text = " ".join(one.sentences())
    assert "at most 0.30 noisy figures a person" in text
    assert (
        "income of those with age 80 to 87 and sex F (about 120): 36 figures in 4 tables, 0.30 a person"
        in text
    )
    assert "guesses an even bit 66% right" in text
    assert "Together with earlier builds of these people (2): at most 0.50." in text
    assert "look 2 at nearly the same data, as far as can be told (at most 4)" in text
    assert "AUC of 0.92 and finds 37% of them" in text
    assert "accepted" not in text
    accepted = replace(one, bounds=replace(one.bounds, accept_risk="agreed with the board"))
    assert accepted.sentences()[-1] == "The owner accepted this risk: agreed with the board"


def test_as_plain_values():
    plain = exposure({PAIR: 0.3}, before={PAIR: 0.4}).as_dict()
    assert (plain["figures_a_person"], plain["with_earlier_builds"]) == (0.3, 0.7)
    assert plain["groups"][0]["ranges"] == ["80 to 87", "F"]
    assert plain["membership_auc"] == pytest.approx(0.9214, abs=1e-4)


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
