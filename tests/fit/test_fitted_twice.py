"""Pairs are fitted twice, the second time by what the first has nearby: what each step is given, and what it is for."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from fixtures.fit import KEY, Fits, gaussian, noisy

from engine.fit import expected, locking
from engine.fit.placement import UNRELEASED_CAP, most_unreleased

STEPS = ("sharpened", "expected_rows", "fit_tree", "spread", "weighed_nearby", "rake")


@pytest.fixture
def calls(monkeypatch) -> dict[str, list[SimpleNamespace]]:
    """What the steps of a fit were given and what they gave, call by call."""
    noted: dict[str, list[SimpleNamespace]] = {step: [] for step in STEPS}
    for step in STEPS:
        monkeypatch.setattr(locking, step, _noting(getattr(locking, step), noted[step]))
    return noted


def _noting(function, calls):
    def called(*given, **named):
        gave = function(*given, **named)
        calls.append(SimpleNamespace(given=given, named=named, gave=gave))
        return gave

    return called


def test_a_pair_is_fitted_again_with_new_weights_and_what_they_expect(calls):
    noisy(1).table("A", "B")
    (weighed,), (again,), (raked,) = (
        calls[step] for step in ("sharpened", "weighed_nearby", "rake")
    )
    assert again.given[0] is weighed.gave
    assert again.given[1] is calls["spread"][0].gave
    assert again.given[4] == 1  # B has more values
    for turn, weight in enumerate((weighed.gave, again.gave)):
        assert calls["expected_rows"][turn].given[2] is weight
        assert calls["fit_tree"][turn].named["expected"] is calls["expected_rows"][turn].gave
        assert calls["spread"][turn].given[0] is calls["fit_tree"][turn].gave
        assert calls["spread"][turn].given[2] is weight
    assert len(calls["fit_tree"]) == len(calls["spread"]) == 2
    assert raked.given[0] is calls["spread"][1].gave


def test_both_fits_hold_no_more_than_can_be_unreleased(calls):
    fits = noisy(1)
    pair, supports = (fits.table("A"), fits.table("B")), (fits.supports["A"], fits.supports["B"])
    tree = replace(fits.measurement(("A", "B")), scale=np.array([1, 1, 1, 4]))
    settings = {"noisy_total": 150, "floor": 3, "layer_sd": 1, "key": KEY}
    locking.lock_table(tree, supports, pair, **settings)
    for fit, spread in zip(calls["fit_tree"], calls["spread"], strict=True):
        assert fit.named["most"].tolist() == most_unreleased(tree).tolist()
        assert spread.given[3] == 4 * UNRELEASED_CAP


def few_values() -> Fits:
    """Columns A and C of two values, B of five and D of three."""
    return Fits({name: np.arange(60) % m for name, m in zip("ABCD", (2, 5, 2, 3), strict=True)})


@pytest.mark.parametrize("columns", ["AC", "ABD"])
def test_a_pair_without_order_and_wider_tables_are_fitted_once(calls, columns):
    fits = few_values()
    if len(columns) > 2:
        for pair in ("AB", "AD", "BD"):
            fits.table(*pair)
    for noted in calls.values():
        noted.clear()
    fits.table(*columns)
    assert [len(calls[step]) for step in ("fit_tree", "spread", "weighed_nearby")] == [1, 1, 0]
    assert (calls["fit_tree"][0].named["expected"] is None) == (len(columns) > 2)
    assert calls["rake"][0].given[0] is calls["spread"][0].gave


def thin_top(seed: int) -> dict[str, np.ndarray]:
    """Numbers of 32 groups, all alike below 256; from there on of group 16 only, 400 below 512 and 20 up to 1023."""
    rng = np.random.default_rng(seed)
    number = [rng.integers(0, 256, 1200), rng.integers(256, 512, 400), rng.integers(512, 1024, 20)]
    group = [rng.integers(0, 32, 1200), np.full(420, 16)]
    return {"I": np.concatenate(number), "G": np.concatenate(group)}


def large(seed: int, columns: tuple[str, str]) -> tuple[int, int, int]:
    """Rows of group 16 from 512 on; how many such cells are released, and how many below 512 that are next to them."""
    fits = Fits(thin_top(seed), threshold=4, noise=gaussian(seed), floor=3, layer_sd=1)
    number, group = (columns.index(name) for name in ("I", "G"))
    rows, released, near = 0, 0, 0
    cells = zip(fits.counts(*columns).items(), fits.table(*columns).measured, strict=True)
    for (cell, n), is_released in cells:
        if cell[group] == 16 and cell[number] >= 512:
            rows, released = rows + n, released + int(is_released)
        elif cell[group] == 16 and cell[number] >= 256:
            near += int(is_released)
    return rows, released, near


@pytest.mark.parametrize("columns", [("I", "G"), ("G", "I")])
def test_a_group_that_has_all_large_numbers_gets_the_largest_too(monkeypatch, columns):
    """None of them is released, and boxes that are hold several groups; cells next to them say whose they are."""
    rows, released, near = zip(*(large(seed, columns) for seed in range(5)), strict=True)
    assert not any(released)
    assert min(near) > 10
    monkeypatch.setattr(expected, "ALIKE", 1e12)  # as if columns were independent in a box
    alone = [large(seed, columns)[0] for seed in range(5)]
    off, off_alone = ([abs(n - 20) for n in found] for found in (rows, alone))
    assert all(one <= other for one, other in zip(off, off_alone, strict=True))
    assert sum(off) <= 0.75 * sum(off_alone)
    assert sum(off) <= 20
