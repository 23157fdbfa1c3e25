"""Empty or small: a fill that looks is found out, and so is a suppressed cell that is shown."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from fixtures.attacks import BARE, build, checked, rng

from engine.evaluation.attacks.protocol import Assumptions, held
from engine.evaluation.attacks.strong import empty
from engine.evaluation.data.aligned import Distinct
from engine.evaluation.data.reading import Subject

TABLES = [("a",), ("b",), ("a", "b")]


def people(seed: int = 1) -> dict[str, np.ndarray]:
    """20 x 20 cells of 12 people, half of them all but emptied: none, or one to three."""
    draw = np.random.default_rng(seed)
    n = np.where(
        draw.random((20, 20)) < 0.5,
        12,
        draw.integers(0, 4, (20, 20)) * draw.integers(0, 2, (20, 20)),
    )
    a, b = np.indices(n.shape)
    return {"a": np.repeat(a.ravel(), n.ravel()), "b": np.repeat(b.ravel(), n.ravel())}


def attack(given):
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
    found = attack(build(people(), TABLES))
    assert found.values["shown_small"] == 0
    assert found.values["auc"] <= 0.75
    assert "No group of fewer than 3 is shown" in found.verdict
    assert found.rate.low <= found.values["auc"] <= found.rate.high


def test_a_fill_that_looks_is_found_out():
    """The planted fault: unreleased cells are filled where people are."""
    honest = build(people(), TABLES)
    looking = changed(honest, lambda n, measured, truth: (np.where(measured, n, truth), measured))
    found = attack(looking)
    assert found.values["auc"] == 1.0
    assert found.values["gain"] >= 0.2
    assert attack(honest).values["auc"] < 0.75


def test_a_suppressed_cell_that_is_shown_is_found_out():
    """The planted fault: one cell of one or two people is released as it is."""

    def show_one(n, measured, truth):
        at = np.flatnonzero((truth > 0) & (truth < 3) & ~measured)[0]
        measured = measured.copy()
        n = n.copy()
        measured[at], n[at] = True, truth[at]
        return n, measured

    found = attack(changed(build(people(), TABLES), show_one))
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
    assert attack(held([release], original, BARE)).values["shown_small"] == 0
    undeclared = replace(release, placeholders={})
    assert attack(held([undeclared], original, BARE)).values["shown_small"] == 1
