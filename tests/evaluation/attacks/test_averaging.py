"""Averaging: locked tables say one thing, however many; one that is not locked, or noise that is not sticky, more."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from attacks.trials import trial_of_rows
from fixtures.attacks import build, checked, held_of, rng, with_table
from fixtures.measure import EXACT

from engine.evaluation.attacks.protocol import Assumptions
from engine.evaluation.attacks.strong import averages

NAMES = [f"x{j}" for j in range(6)]
TABLES = [t for width in (1, 2) for t in combinations(NAMES, width)]


def columns(seed: int = 1, n: int = 1500) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    return {c: draw.integers(0, 8, n) for c in NAMES}


def attack(given):
    return checked(averages(given, Assumptions(), rng()))


def test_locked_tables_have_nothing_to_average():
    found = attack(build(columns(), TABLES))
    assert found.values["ratio"] == pytest.approx(1)
    assert found.values["differ"] == 0
    assert found.values["counts"] == 48
    assert found.rate.value == found.control.value
    assert "nothing to average" in found.verdict


def test_a_table_that_is_not_locked_is_found_out():
    """The planted fault: the counts of one table carry noise of their own."""
    noise = rng(1)
    given = with_table(
        build(columns(), TABLES), ("x0", "x1"), lambda n: n + noise.integers(-2, 3, len(n))
    )
    found = attack(given)
    assert found.values["differ"] == pytest.approx(2 / 30)
    assert "show other counts" in found.verdict


@pytest.mark.slow
def test_tables_that_are_not_locked_give_counts_away():
    """The planted fault in all tables: margins with as much noise as the one-way table, drawn anew in each."""
    people, noise = columns(), rng(2)
    given, bare = (
        build(people, TABLES),
        held_of(people, trial_of_rows(people, TABLES, 1, draws=EXACT)),
    )
    views = list(given.views)
    for i, (view, true) in enumerate(zip(views, bare.views, strict=True)):
        if len(view.columns) == 2:
            n = true.table.n + np.rint(noise.normal(0, 0.5, len(true.table.n))).astype(np.int64)
            views[i] = replace(view, table=replace(true.table, n=n))
    found = attack(replace(given, views=tuple(views)))
    assert found.values["ratio"] <= 0.6
    assert found.values["exact"] >= found.values["exact_alone"] + 0.15


@pytest.mark.ci
def test_noise_that_is_not_sticky_is_found_out():
    """Two releases under one key say the same; under five keys the mean is nearer to the truth."""
    people = columns()
    sticky = [trial_of_rows(people, TABLES, 1) for _ in range(2)]
    loose = [trial_of_rows(people, TABLES, number) for number in range(1, 6)]
    assert attack(held_of(people, *sticky)).values["ratio"] == pytest.approx(1)
    found = attack(held_of(people, *loose)).values
    assert found["ratio"] <= 0.6
    assert found["exact"] >= found["exact_alone"] + 0.15
