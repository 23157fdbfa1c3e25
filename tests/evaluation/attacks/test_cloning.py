"""Cloning: relabelled copies of a column are found, and give away what theory says; other columns are no copies."""

from __future__ import annotations

import numpy as np
from fixtures.attacks import build, checked, rng

from engine.evaluation.attacks.protocol import Assumptions
from engine.evaluation.attacks.strong import cloning, copies_of
from engine.evaluation.findings import WHOLE

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


def attack(given, told=SECRET):
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
    one, eight = (attack(build(*world(n))) for n in (1, 8))
    assert 0.6 <= one.control.value <= 0.82
    assert eight.rate.value >= eight.control.value + 0.1
    assert eight.rate.value > one.rate.value
    assert eight.values["gain"] > 0.1
    assert eight.values["copies"] == 9
    assert "a0 = a1" in eight.verdict
    assert eight.breakdown.loc[0, ["tables_alone", "tables"]].tolist() == [1, 9]


def test_no_copy_and_no_table_say_so():
    columns, _ = world(0)
    assert "nearly one to one" in attack(build(columns, [("a0", "s")])).why_not[WHOLE]
    columns, _ = world(1)
    apart = attack(build(columns, [("a0",), ("a1",), ("s",)]))
    assert "a0 = a1" in apart.why_not[WHOLE]
