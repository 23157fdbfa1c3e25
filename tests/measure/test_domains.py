from __future__ import annotations

import datetime as dt
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import SpecError
from engine.levels import Levels
from engine.measure.dp import levels_of, zeros_of
from engine.params import ZeroPart, ZeroRule
from engine.schema import Column, Resolution, Universe
from engine.spec import missing_domain
from engine.spec.dp import n_levels
from engine.spec.model import MOST_LEVELS


def column(name="v", kind="integer", **more):
    told = {"value_type": kind, "public": True} | more
    return Column(name=name, kind=kind, **told)


def ranked(name="c", values=("x", "y", "z"), **more):
    return column(name, "category", value_type="text", domain=values, **more)


def pairs(levels: Levels):
    return [*zip(levels.low.tolist(), levels.high.tolist(), strict=True)]


CENTS = Resolution(base=10, exponent=-2)
EIGHTH = Resolution(base=2, exponent=-3)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (column(bounds=(3, 6), nullable=False), [(3, 3), (4, 4), (5, 5), (6, 6)]),
        (column(bounds=(-1, 1)), [(0, 0), (-1, -1), (0, 0), (1, 1)]),
        (column(bounds=(7, 7), nullable=False), [(7, 7)]),
        (
            column(bounds=(0, 99), breaks=(18, 65), nullable=False),
            [(0, 17), (18, 64), (65, 99)],
        ),
        (column(bounds=(0, 99), breaks=(99,)), [(0, 0), (0, 98), (99, 99)]),
        # multiples of 5 between 3 and 22; the ends reach the bounds, so that no code is lost
        (
            column(bounds=(3, 22), step=5, nullable=False),
            [(3, 9), (10, 14), (15, 19), (20, 22)],
        ),
        (
            column(bounds=(0, 22), step=5, breaks=(10,), nullable=False),
            [(0, 9), (10, 22)],
        ),
        (
            column(kind="real", bounds=(-0.25, 0.25), resolution=EIGHTH, nullable=False),
            [(-2, -2), (-1, -1), (0, 0), (1, 1), (2, 2)],
        ),
        (
            column(kind="decimal", bounds=(0.0, 10.0), resolution=CENTS, breaks=(1.15, 2.5)),
            [(0, 0), (0, 114), (115, 249), (250, 1000)],
        ),
        (
            column(
                kind="date",
                bounds=(dt.date(1969, 12, 31), dt.date(1970, 1, 3)),
                breaks=(dt.date(1970, 1, 2),),
                nullable=False,
            ),
            [(-1, 0), (1, 2)],
        ),
        (
            column(
                kind="time",
                bounds=(dt.time(6), dt.time(21, 59, 59)),
                breaks=(dt.time(12),),
                nullable=False,
            ),
            [(21_600, 43_199), (43_200, 79_199)],
        ),
        (
            column(
                kind="timestamp",
                bounds=(dt.datetime(1970, 1, 1), dt.datetime(1970, 1, 1, 0, 0, 2)),
                nullable=False,
            ),
            [(0, 0), (1, 1), (2, 2)],
        ),
        (column(kind="boolean", public=False), [(0, 0), (0, 0), (1, 1)]),
        (ranked(nullable=False), [(0, 0), (1, 1), (2, 2)]),
        (ranked(values=("only",)), [(0, 0), (0, 0)]),
    ],
)
def test_levels_by_hand(told, expected):
    levels = levels_of(told)
    assert pairs(levels) == expected
    assert levels.has_null == told.nullable
    assert levels.values == told.domain
    assert levels.low.dtype == levels.high.dtype == np.int64
    assert n_levels(told) == len(levels)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (column(), "columns.v.domain: .*{ min"),
        (ranked(values=None), "columns.c.domain: "),
        (column(bounds=(0, 5), public=False), "columns.v.public: "),
        (ranked(public=False), "columns.c.public: "),
        (column(bounds=(1, MOST_LEVELS)), None),
        (column(bounds=(0, MOST_LEVELS)), "columns.v.breaks: 10,001 values or groups"),
        (column(bounds=(1, 4), step=5), "columns.v.domain: .*step 5"),
        (column(bounds=(0, 20), step=5, breaks=(11, 14)), "columns.v.breaks: .*step 5"),
        (column(bounds=(0, 9), breaks=(5, 5)), "columns.v.breaks: "),
        (column(kind="real", bounds=(0.0, 0.3), resolution=EIGHTH), "columns.v.domain: "),
    ],
)
def test_what_a_domain_lacks(told, why):
    if why is None:
        assert missing_domain(told) == []
        assert len(levels_of(told)) == MOST_LEVELS + 1
    else:
        with pytest.raises(SpecError, match=why):
            levels_of(told)


@given(
    low=st.integers(-50, 50),
    width=st.integers(0, 60),
    step=st.integers(1, 7),
    cuts=st.sets(st.integers(-50, 110), max_size=5),
    nullable=st.booleans(),
)
def test_levels_tile_the_domain(low, width, step, cuts, nullable):
    breaks = tuple(sorted(c for c in cuts if low < c <= low + width)) or None
    told = column(bounds=(low, low + width), step=step, breaks=breaks, nullable=nullable)
    multiples = [v for v in range(low, low + width + 1) if v % step == 0]
    starts = [low, *(breaks or ()), low + width + 1]
    groups = [[v for v in multiples if a <= v < b] for a, b in pairwise(starts)]
    if not multiples or (breaks and not all(groups)):
        assert missing_domain(told)
        return
    levels = levels_of(told)
    assert n_levels(told) == len(levels)
    spans = pairs(levels)[int(nullable) :]
    assert [c for a, b in spans for c in range(a, b + 1)] == [*range(low, low + width + 1)]
    held = [[v for v in multiples if a <= v <= b] for a, b in spans]
    assert held == (groups if breaks else [[v] for v in multiples])


# The slow oracle: every level as the set of its values; null is None.
def values_in(levels: Levels):
    told, out = levels.column, [{None}] if levels.has_null else []
    first = int(levels.has_null)
    for low, high in pairs(levels)[first:]:
        span = range(low, high + 1)
        out.append(
            {levels.values[low]} if levels.values else {v for v in span if v % told.step == 0}
        )
    return out


def is_inside(universe, value):
    if value is None:
        return False
    if universe.values is not None:
        return value in universe.values
    return (universe.low is None or value >= universe.low) and (
        universe.high is None or value <= universe.high
    )


def is_possible(universe, decider, value):
    outside = value == universe.outside
    if not is_inside(universe, decider):
        return outside
    return not (universe.complete and outside)


def slow_zeros(universe, decider: Levels, own: Levels):
    return np.array(
        [
            [
                not any(is_possible(universe, d, v) for d, v in product(left, right))
                for right in values_in(own)
            ]
            for left in values_in(decider)
        ]
    )


AGE = column("AGE", bounds=(0, 9), breaks=(3, 5, 8))
JOBS = ("none", "a", "b")


@pytest.mark.parametrize("decider_nullable", [True, False])
@pytest.mark.parametrize(
    "universe",
    [
        Universe(column="AGE", low=5),
        Universe(column="AGE", low=4),  # cuts a level: it may be either
        Universe(column="AGE", low=3, high=7, complete=False),
        Universe(column="AGE", low=4, high=4),
        Universe(column="AGE"),
        Universe(column="AGE", low=5, outside="none"),
        Universe(column="AGE", high=4, outside="none", complete=False),
    ],
)
def test_zeros_of_universes_against_single_values(universe, decider_nullable):
    age = column("AGE", bounds=(0, 9), breaks=(3, 5, 8), nullable=decider_nullable)
    job = ranked("JOB", JOBS, universe=universe)
    levels = {c.name: levels_of(c) for c in (age, job)}
    (zero,) = zeros_of((age, job), (), levels)
    assert zero.columns == ("AGE", "JOB")
    assert zero.cells.tolist() == slow_zeros(universe, levels["AGE"], levels["JOB"]).tolist()
    assert str(universe) in zero.why


def test_rules_against_single_values():
    """Random rules over columns of different sizes, against every combination of values."""
    rng = np.random.default_rng(5)
    w = column("W", bounds=(0, 6), breaks=(2, 3), nullable=False)
    levels = {"AGE": levels_of(AGE), "JOB": levels_of(ranked("JOB", JOBS)), "W": levels_of(w)}
    for _ in range(40):
        low, high = sorted(rng.integers(0, 10, 2).tolist())
        some = tuple(rng.choice(7, rng.integers(1, 6), replace=False).tolist())
        jobs = tuple(rng.choice(JOBS, rng.integers(1, 3), replace=False).tolist())
        rule = ZeroRule(
            parts=(
                ZeroPart(column="W", values=some),
                ZeroPart(column="AGE", low=low, high=high),
                ZeroPart(column="JOB", values=jobs),
            )
        )
        slow = np.array(
            [
                [
                    [
                        all(v is not None and low <= v <= high for v in age)
                        and job <= set(jobs)
                        and of_w <= set(some)
                        for of_w in values_in(levels["W"])
                    ]
                    for job in values_in(levels["JOB"])
                ]
                for age in values_in(levels["AGE"])
            ]
        )
        found = zeros_of((), (rule,), levels)
        assert bool(found) == slow.any()
        assert all(zero.cells.tolist() == slow.tolist() for zero in found)
