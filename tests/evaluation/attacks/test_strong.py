"""Averaging, cloning, empty cells, membership and attributes: honest releases tell little, planted faults are found."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from attacks.trials import trial_of_rows
from fixtures.attacks import BARE, HalvedNoise, build, checked, held_of, rng, with_table
from fixtures.measure import EXACT

from engine.evaluation.attacks.inference import attribute
from engine.evaluation.attacks.protocol import Assumptions, held
from engine.evaluation.attacks.strong import averages, cloning, copies_of, empty, membership
from engine.evaluation.data.aligned import Distinct
from engine.evaluation.data.reading import Subject
from engine.evaluation.findings import WHOLE, say
from engine.mechanism import StickyDraws

NAMES = [f"x{j}" for j in range(6)]
PAIRS_OF_SIX = [t for width in (1, 2) for t in combinations(NAMES, width)]


def columns(seed: int = 1, n: int = 1500) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    return {c: draw.integers(0, 8, n) for c in NAMES}


def averaged(given):
    return checked(averages(given, Assumptions(), rng()))


def test_locked_tables_have_nothing_to_average():
    found = averaged(build(columns(), PAIRS_OF_SIX))
    assert found.values["ratio"] == pytest.approx(1)
    assert found.values["differ"] == 0
    assert found.values["counts"] == 48
    assert found.rate.value == found.control.value
    assert "nothing to average" in found.verdict


def test_a_table_that_is_not_locked_is_found_out():
    """The planted fault: the counts of one table carry noise of their own."""
    noise = rng(1)
    given = with_table(
        build(columns(), PAIRS_OF_SIX), ("x0", "x1"), lambda n: n + noise.integers(-2, 3, len(n))
    )
    found = averaged(given)
    assert found.values["differ"] == pytest.approx(2 / 30)
    assert "show other counts" in found.verdict


@pytest.mark.ci
def test_noise_that_is_not_sticky_is_found_out():
    """Two releases under one key say the same; under five keys the mean is nearer to the truth."""
    people = columns()
    sticky = [trial_of_rows(people, PAIRS_OF_SIX, 1) for _ in range(2)]
    loose = [trial_of_rows(people, PAIRS_OF_SIX, number) for number in range(1, 6)]
    assert averaged(held_of(people, *sticky)).values["ratio"] == pytest.approx(1)
    found = averaged(held_of(people, *loose)).values
    assert found["ratio"] <= 0.6
    assert found["exact"] >= found["exact_alone"] + 0.15


SECRET = Assumptions(secrets=("s",), people=1200)


def world(n_copies: int, seed: int = 1, n: int = 1200, wrong: float = 0.0):
    """Buckets of 30 people, a secret of three values, and relabelled copies of the bucket; tables (copy, secret)."""
    draw = np.random.default_rng(seed)
    bucket = np.arange(n) // 30
    columns = {"a0": bucket, "s": draw.integers(0, 3, n)}
    for i in range(1, n_copies + 1):
        copy = draw.permutation(40)[bucket]
        columns[f"a{i}"] = np.where(draw.random(n) < wrong, draw.integers(0, 40, n), copy)
    tables = [(c, "s") for c in columns if c != "s"]
    return columns, tables


def cloned(given, told=SECRET):
    return checked(cloning(given, told, rng()))


def test_copies_are_found():
    columns, tables = world(3)
    given = build(columns, tables)
    (found,) = copies_of(given.aligned, rng())
    assert found == ("a0", "a1", "a2", "a3")


def test_nearly_copies_are_found_and_others_are_not():
    assert copies_of(build(*world(1, wrong=0.01)).aligned, rng())
    assert not copies_of(build(*world(1, wrong=0.2)).aligned, rng())


def test_columns_of_values_of_one_person_each_are_no_copies():
    """Times of admission and costs in cents: nearly all are of one stay, which tells nothing of the other column."""
    draw = np.random.default_rng(5)
    columns = {
        "a": draw.integers(0, 100_000, 1200),
        "b": draw.integers(0, 100_000, 1200),
        "s": np.arange(1200) % 3,
    }
    tables = [("a", "s"), ("b", "s")]
    assert not copies_of(build(columns, tables).aligned, rng())
    assert not copies_of(build(columns | {"a": draw.permutation(1200)}, tables).aligned, rng())
    twice = columns | {"a": columns["a"] // 50, "b": 1 - columns["a"] // 50}
    assert copies_of(build(twice, tables).aligned, rng())


def test_every_copy_says_more():
    """The fault that is there today: copies that nobody declared draw noise of their own for the same people."""
    one, eight = (cloned(build(*world(n))) for n in (1, 8))
    assert 0.6 <= one.control.value <= 0.82
    assert eight.rate.value >= eight.control.value + 0.1
    assert eight.rate.value > one.rate.value
    assert eight.values["gain"] > 0.1
    assert eight.values["copies"] == 9
    assert "a0 = a1" in eight.verdict
    assert eight.breakdown.loc[0, ["tables_alone", "tables"]].tolist() == [1, 9]


def test_no_copy_and_no_table_say_so():
    columns, _ = world(0)
    assert "nearly one to one" in cloned(build(columns, [("a0", "s")])).why_not[WHOLE]
    columns, _ = world(1)
    apart = cloned(build(columns, [("a0",), ("a1",), ("s",)]))
    assert "a0 = a1" in apart.why_not[WHOLE]


A_AND_B = [("a",), ("b",), ("a", "b")]


def thinned(seed: int = 1) -> dict[str, np.ndarray]:
    """20 x 20 cells of 12 people, half of them all but emptied: none, or one to three."""
    draw = np.random.default_rng(seed)
    n = np.where(
        draw.random((20, 20)) < 0.5,
        12,
        draw.integers(0, 4, (20, 20)) * draw.integers(0, 2, (20, 20)),
    )
    a, b = np.indices(n.shape)
    return {"a": np.repeat(a.ravel(), n.ravel()), "b": np.repeat(b.ravel(), n.ravel())}


def emptied(given):
    return checked(empty(given, Assumptions(), rng()))


def changed(given, change):
    """The same with the pair's table changed: (codes, n, measured, truth) -> (n, measured)."""
    aligned = given.aligned
    views = []
    for view in given.views:
        if view.columns == ("a", "b"):
            a, b = np.indices((20, 20)).reshape(2, -1).astype(np.int32)
            table = view.table
            truth = np.zeros((20, 20), np.int64)
            np.add.at(truth, (aligned.original.codes["a"], aligned.original.codes["b"]), 1)
            n, measured = np.zeros((20, 20), np.int64), np.zeros((20, 20), bool)
            n[table.codes["a"], table.codes["b"]] = table.n
            measured[table.codes["a"], table.codes["b"]] = table.measured
            n, measured = change(n.ravel(), measured.ravel(), truth.ravel())
            kept = n > 0
            table = replace(
                table, codes={"a": a[kept], "b": b[kept]}, n=n[kept], measured=measured[kept]
            )
            view = replace(view, table=table)
        views.append(view)
    return replace(given, views=tuple(views))


def test_an_honest_release_keeps_to_its_rule_and_tells_little():
    found = emptied(build(thinned(), A_AND_B))
    assert found.values["shown_small"] == 0
    assert found.values["auc"] <= 0.75
    assert "No group of fewer than 3 is shown" in found.verdict
    assert found.rate.low <= found.values["auc"] <= found.rate.high


@pytest.mark.ci
def test_of_a_census_unreleased_cells_tell_hardly_more_than_its_columns_do(census):
    people = pd.read_parquet(census / "people.parquet")
    columns = {c: pd.factorize(people[c])[0] for c in ("age", "region", "income", "occupation")}
    tables = [t for width in (1, 2) for t in combinations(sorted(columns), width)]
    found = emptied(build(columns, tables)).values
    assert found["tables"] == 4  # two are shown whole
    assert found["shown_small"] == 0
    assert found["gain"] <= 0.05


def test_a_fill_that_looks_is_found_out():
    """The planted fault: unreleased cells are filled where people are."""
    honest = build(thinned(), A_AND_B)
    looking = changed(honest, lambda n, measured, truth: (np.where(measured, n, truth), measured))
    found = emptied(looking)
    assert found.values["auc"] == 1.0
    assert found.values["gain"] >= 0.2
    assert emptied(honest).values["auc"] < 0.75


def test_a_suppressed_cell_that_is_shown_is_found_out():
    """The planted fault: one cell of one or two people is released as it is."""

    def show_one(n, measured, truth):
        at = np.flatnonzero((truth > 0) & (truth < 3) & ~measured)[0]
        measured = measured.copy()
        n = n.copy()
        measured[at], n[at] = True, truth[at]
        return n, measured

    found = emptied(changed(build(thinned(), A_AND_B), show_one))
    assert found.values["shown_small"] == 1
    assert "breaks its own rule" in found.verdict


def test_what_stands_for_rare_values_is_no_group_of_the_data():
    """Twenty people whose towns are not shown are released as one placeholder, which nobody in the data has."""
    original = pd.DataFrame({"town": ["Bath"] * 30 + [f"t{i}" for i in range(20)]})
    shown = Distinct(
        frame=pd.DataFrame({"town": ["Bath", "(other)"]}),
        n=np.array([30, 20]),
        measured=np.array([True, True]),
    )
    card = {"noise_sd": 1.0, "mode": "sticky"}
    release = Subject(
        name="r",
        kind="release",
        tables={("town",): shown},
        content_hash="",
        cards={("town",): card},
        placeholders={"town": ("(other)",)},
    )
    assert emptied(held([release], original, BARE)).values["shown_small"] == 0
    undeclared = replace(release, placeholders={})
    assert emptied(held([undeclared], original, BARE)).values["shown_small"] == 1


TABLES = [("a",), ("b",), ("c",), ("a", "b"), ("a", "c"), ("b", "c")]


def people(n: int, seed: int) -> dict[str, np.ndarray]:
    """Independent columns of 12 values; pairs have about 14 people in 2,000."""
    draw = np.random.default_rng(seed)
    return {c: draw.integers(0, 12, n) for c in "abc"}


def membership_of(given, **more):
    return checked(membership(given, Assumptions(**more), rng()))


def test_without_noise_who_knows_everybody_else_is_always_right():
    members, non_members = people(2000, 1), people(2000, 2)
    given = held_of(
        members, trial_of_rows(members, TABLES, 1, draws=EXACT), non_members=non_members
    )
    found = membership_of(given)
    assert found.values["auc"] == found.values["caught"] == 1.0
    assert found.control.value == 0.0


def test_the_figures_are_those_of_the_closed_form():
    """Six released cells with noise of sd 1.41: about mu 1.73, so AUC .89. Locked margins say a little less."""
    members, non_members = people(2000, 1), people(2000, 2)
    found = membership_of(build(members, TABLES, non_members=non_members))
    assert found.values["predicted_auc"] == pytest.approx(0.89, abs=0.01)
    assert found.values["auc"] == pytest.approx(found.values["predicted_auc"], abs=0.04)
    assert found.values["caught"] == pytest.approx(found.values["predicted_caught"], abs=0.1)
    assert found.control.value <= 0.01
    assert found.rate.value == found.values["caught"]
    low, high = found.breakdown.loc[0, ["low", "high"]]
    assert low < found.values["auc"] < high
    assert "ranks a person of the data above a non-member" in found.verdict


@pytest.mark.parametrize("number", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3))])
def test_halved_noise_is_found_out(number):
    """The planted fault: cards state the noise as ever, the counts have half of it."""
    members, non_members = people(2000, 10 + number), people(2000, 20 + number)
    honest, halved = (
        membership_of(build(members, TABLES, number, kind=kind, non_members=non_members)).values
        for kind in (StickyDraws, HalvedNoise)
    )
    assert honest["auc"] <= 0.93
    assert halved["auc"] >= honest["auc"] + 0.05
    assert halved["caught"] >= honest["caught"] + 0.25


def test_a_release_of_other_people_tells_who_knows_the_population_nothing():
    first, second, third = (people(2000, seed) for seed in (1, 2, 3))
    released = trial_of_rows(first, TABLES, 1)
    found = membership_of(held_of(second, released, non_members=third))
    assert found.values["auc_population"] == pytest.approx(0.5, abs=0.05)
    assert membership_of(held_of(first, released, non_members=third)).values["auc_population"] > 0.6


def test_without_strangers_only_the_closed_form_is_given():
    members = people(500, 1)
    found = membership_of(build(members, TABLES))
    assert set(found.values) == {"predicted_auc", "predicted_caught", "cells"}
    assert found.rate is found.control is None
    assert "no control" in found.control_note
    assert "can be expected" in found.verdict


WIDE = [("a", "b", "c", "s")]


@cache
def leaning(seed: int, n: int = 1500) -> dict[str, np.ndarray]:
    """Three known columns whose combinations have about one person each, and a secret that leans on one of them."""
    draw = np.random.default_rng(seed)
    known = {c: draw.integers(0, 12, n) for c in "abc"}
    return {**known, "s": np.where(draw.random(n) < 0.5, known["a"] % 4, draw.integers(0, 4, n))}


def attribute_of(given, **more):
    more = {"people": 400, "secrets": ("s",)} | more
    return checked(attribute(given, Assumptions(**more), rng()))


def both(seed: int, with_non_members: bool):
    """The attack on bare cells and on an honest release of the same people."""
    members = leaning(2 * seed - 1)
    non_members = leaning(2 * seed) if with_non_members else None
    bare = held_of(members, trial_of_rows(members, WIDE, 1, draws=EXACT), non_members=non_members)
    return attribute_of(bare), attribute_of(build(members, WIDE, non_members=non_members))


@pytest.mark.slow
@pytest.mark.parametrize("with_non_members", [True, False])
def test_an_honest_release_tells_a_third_of_what_bare_cells_tell(with_non_members):
    """The gain of 400 targets has an sd of .035 and counts as 0 where chance explains it: six sets of people."""
    found = [both(seed, with_non_members) for seed in range(1, 7)]
    bare, honest = np.mean([[x.values["gain"] for x in pair] for pair in found], axis=0)
    assert bare >= 0.3
    assert honest <= bare / 3


def test_cells_shown_as_they_are_are_found_out():
    """The planted fault: nothing suppressed, no noise. Members are read off, non_members are not.

    What an honest release of one set of people tells is 0 or, in two of three sets, about .12:
    the test above looks at six.
    """
    found, _ = both(1, with_non_members=True)
    assert found.values["gain"] >= 0.15
    assert found.control.value < found.rate.value - 0.2
    assert found.control_note == say("attribute", "non_members")
    assert found.rate.value > found.baseline.value
    assert found.breakdown.loc[0, "column"] == "s"


def test_without_strangers_the_control_is_what_others_tell():
    found, _ = both(1, with_non_members=False)
    assert found.control_note == say("attribute", "others")
    assert found.values["gain"] >= 0.15
