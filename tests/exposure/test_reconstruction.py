"""An attack that reads release files only: it gets as far as is stated, and what was recorded of it holds."""

from __future__ import annotations

import numpy as np
import pytest
from attacks.reconstructing import System, belief, least_squares, right_of
from attacks.structures import everybody, few, prefixes, recodes
from attacks.trying import attacked, built, planned
from fixtures.pipeline import ROOT
from scipy.sparse import csr_matrix

WITHIN = 0.03
UNSEEN = ("null together",)
"""Structures that PRIVACY.md says the bound does not see."""


def test_every_solver_finds_secrets_that_exact_sums_determine():
    """Three people, and the sum of every two: enough without noise."""
    truth = np.array([1, -1, 1])
    pairs = csr_matrix(np.array([[1.0, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]])) * 5
    system = System(matrix=pairs.tocsr(), shown=pairs @ truth)
    for solve in (least_squares, belief):
        assert right_of(solve(system), truth) == 1
    assert right_of(least_squares(system), -truth) == 0


@pytest.mark.ci
def test_as_much_is_guessed_as_is_stated_and_nothing_of_non_members():
    structure = everybody(4, 1, 1_500)
    with built(structure) as (stated, paths):
        found = attacked(paths, structure.secret)
        others = np.random.default_rng(1).permutation(structure.secret.truth)
        guess = attacked(
            paths, type(structure.secret)(**{**vars(structure.secret), "truth": others})
        )
    assert found["lsqr"][0] == pytest.approx(stated.of_all, abs=0.04)
    assert guess["lsqr"][0] == pytest.approx(0.5, abs=0.04)


@pytest.mark.ci
def test_prefixes_of_texts_tell_no_more_than_is_stated():
    """Each is a further look at the same people, as ranges of numbers are."""
    structure = prefixes(3, 1, 3_000)
    with built(structure) as (stated, paths):
        found = attacked(paths, structure.secret)
    best = max(of_all for of_all, _ in found.values())
    assert 0.6 < best < stated.of_all + WITHIN


@pytest.mark.ci
@pytest.mark.parametrize(
    ("make", "within", "over"), [(few, 4, 6), (everybody, 3, 6), (recodes, 4, 6), (prefixes, 2, 6)]
)
def test_a_plan_refuses_where_the_attack_passes_the_bound(make, within, over):
    assert not planned(make(within, 1, 3_000)).is_refused
    assert planned(make(over, 1, 3_000)).is_refused


def test_what_was_not_refused_told_no_more_than_is_shown():
    """Figures in the file are finer than those that are shown, which are rounded up to steps of 5 %."""
    text = (ROOT / "releases" / "measured" / "exposure.md").read_text("utf-8")
    rows = [[c.strip() for c in line.split("|")[1:-1]] for line in text.splitlines() if ";" in line]
    rows = [row for row in rows if len(row) > 5 and row[-1][:1] in "+-"]
    assert len(rows) >= 30
    too_low = []
    for name, _, stated, refused, *attacks, over in rows:
        said = [float(x) for x in stated.split(";")]
        best = np.max([[float(x) for x in one.split(";")] for one in attacks], axis=0)
        which = int(np.argmin(abs(best - said - float(over))))  # of the group, or of all
        shown = np.ceil(round(said[which] * 20, 6)) / 20
        if refused != "yes" and best[which] > shown + WITHIN and not any(u in name for u in UNSEEN):
            too_low.append((name, stated, attacks))
    assert too_low == []
