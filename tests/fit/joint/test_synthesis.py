"""From noisy margins to rows: which way is taken, strata, uniform columns, totals."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from engine.errors import InternalError, SpecError
from engine.fit.joint import synthesis, synthesise
from engine.fit.joint.margins import reconcile
from engine.levels import Levels, Margin, StructuralZero
from engine.params import DPParams
from engine.progress import silent
from engine.schema import Column, column_set

SIZES = {"age": 4, "edu": 5, "job": 3, "sex": 2, "town": 6}
COLUMNS = tuple(SIZES)


def levels_of(sizes):
    return {
        name: Levels(
            column=Column(name=name, kind="integer", value_type="integer"),
            low=np.arange(n),
            high=np.arange(n),
            has_null=False,
        )
        for name, n in sizes.items()
    }


LEVELS = levels_of(SIZES)


def truth_of(seed=1, rows=5000):
    rng = np.random.default_rng(seed)
    share = rng.gamma(0.5, size=tuple(SIZES.values()))
    return rng.multinomial(rows, (share / share.sum()).ravel()).reshape(share.shape)


def margin_of(table, columns, variance=0.0, noise=0):
    gone = tuple(k for k, name in enumerate(COLUMNS) if name not in columns)
    n = table.sum(axis=gone).astype(np.int64)
    return Margin(columns=columns, n=n + noise, variance=variance)


def total_of(n, variance=0.0):
    return Margin(columns=(), n=np.asarray(n), variance=variance)


def params_of(**what):
    return DPParams(**({"epsilon": None, "columns": COLUMNS} | what))


def made(table, margins, *, zeros=(), seed=3, progress=silent, total=None, **what):
    return synthesise(
        [margin_of(table, m) for m in margins] if isinstance(margins[0], tuple) else margins,
        total_of(table.sum()) if total is None else total,
        params=params_of(**what),
        levels=LEVELS,
        zeros=zeros,
        rng=np.random.default_rng(seed),
        progress=progress,
    )


def table_of(synthesis, sizes=SIZES):
    table = np.zeros(tuple(sizes.values()), dtype=np.int64)
    np.add.at(table, tuple(synthesis.cells.T), synthesis.n)
    return table


def check(synthesis):
    """Distinct, lexicographic, positive, within the levels."""
    cells = synthesis.cells
    assert cells.dtype == np.int32
    assert synthesis.n.dtype == np.int64
    assert (synthesis.n > 0).all()
    assert (cells >= 0).all()
    assert (cells < [SIZES[name] for name in synthesis.columns]).all()
    listed = [tuple(cell) for cell in cells.tolist()]
    assert listed == sorted(set(listed))


def off(got, table, margin):
    return np.abs(margin_of(got, margin).n - margin_of(table, margin).n).sum() / table.sum()


PAIRS = list(combinations(COLUMNS, 2))
CHAIN = [("age", "edu"), ("edu", "job"), ("job", "sex"), ("sex", "town")]


@pytest.mark.ci
@pytest.mark.parametrize("sample", ["rounded", "multinomial"])
@pytest.mark.parametrize(
    ("margins", "max_cells", "how"),
    [
        (PAIRS, 10**6, "dense"),
        (CHAIN, 720, "dense"),
        (CHAIN, 719, "junction tree"),
        (CHAIN, 53, "junction tree"),  # 20 + 15 + 6 + 12
        (CHAIN, 52, "support rows"),
        (PAIRS, 719, "support rows"),
    ],
)
def test_size_decides_the_way_and_the_margins_come_out(margins, max_cells, how, sample):
    table = truth_of()
    got = made(table, margins, max_cells=max_cells, sample=sample, max_cycles=2000)
    check(got)
    assert [report.how for report in got.reports] == [how]
    assert got.n.sum() == 5000
    assert got.columns == COLUMNS
    assert got.uniform == ()
    for margin in margins:
        assert off(table_of(got), table, margin) < 0.1
    if how != "support rows":
        assert got.reports[0].converged


@pytest.mark.parametrize(
    ("what", "is_brought"),
    [
        ({}, True),
        ({"post": "paper"}, False),
        ({"post": "synthpop"}, False),
        ({"sample": "multinomial"}, False),
    ],
)
def test_drawn_rows_are_brought_to_margins_that_agree_and_to_no_others(
    what, is_brought, monkeypatch
):
    """Of margins that contradict each other the fit is a compromise, which rows must not leave for one of them."""
    changed = []

    def nearer_rows(rows, *given, **named):
        changed.append(len(rows))
        return rows

    monkeypatch.setattr(synthesis, "nearer_rows", nearer_rows)
    check(made(truth_of(), PAIRS, **what))
    assert changed == [5000] * is_brought


def test_sums_of_neighbouring_levels_are_right_to_the_row():
    """300 levels of fractions of a row: rounded one by one, sums of a hundred would be off by several rows."""
    rng = np.random.default_rng(5)
    sizes = {"age": 300, "sex": 2}
    margin = Margin(columns=("age", "sex"), n=rng.gamma(1, 1, (300, 2)), variance=1e-6)
    total = total_of(round(float(margin.n.sum())))
    (target,) = reconcile([margin], total, post="wls")
    for max_cells in (600, 1):  # drawn and searched
        got = synthesise(
            [margin],
            total,
            params=DPParams(epsilon=None, columns=("age", "sex"), max_cells=max_cells),
            levels=levels_of(sizes),
            zeros=(),
            rng=rng,
        )
        ages = table_of(got, sizes).sum(axis=1)
        off_by = np.cumsum(ages) - np.cumsum(target.n.sum(axis=1))
        assert np.abs(off_by).max() < 0.51


def test_columns_in_no_margin_are_even_and_named():
    table = truth_of(rows=6000)
    got = made(table, [("age", "edu")])
    check(got)
    assert got.uniform == ("job", "sex", "town")
    rows = table_of(got)
    assert margin_of(rows, ("job",)).n.tolist() == [2000] * 3
    assert margin_of(rows, ("town",)).n.tolist() == [1000] * 6
    assert (margin_of(rows, ("age", "edu")).n == margin_of(table, ("age", "edu")).n).all()
    pair = margin_of(rows, ("job", "town")).n
    assert np.abs(pair - 6000 / 18).max() < 6 * np.sqrt(6000 / 18)


@pytest.mark.ci
def test_an_impossible_combination_gets_no_row_whichever_way():
    cells = np.zeros((4, 2, 6), dtype=bool)
    cells[1, 0] = cells[:, 1, 2] = True
    zero = StructuralZero(columns=("age", "sex", "town"), cells=cells, why="planted")
    table = truth_of() * ~cells[:, None, None]
    for margins, max_cells in ((PAIRS, 10**6), (CHAIN, 400), (PAIRS, 400)):
        got = made(table, margins, max_cells=max_cells, zeros=[zero])
        assert (table_of(got) * cells[:, None, None]).sum() == 0
        assert got.n.sum() == table.sum()


@pytest.mark.ci
def test_the_same_seed_the_same_rows_and_another_other_rows():
    for max_cells in (10**6, 400, 60):
        one, same, other = (
            made(truth_of(), CHAIN, max_cells=max_cells, seed=seed) for seed in (5, 5, 6)
        )
        assert (one.cells.tolist(), one.n.tolist()) == (same.cells.tolist(), same.n.tolist())
        assert (one.cells.tolist(), one.n.tolist()) != (other.cells.tolist(), other.n.tolist())


@pytest.mark.parametrize("post", ["wls", "paper", "synthpop"])
def test_noisy_margins_of_any_post(post):
    rng = np.random.default_rng(0)
    table = truth_of()
    margins = []
    for pair in PAIRS:
        exact = margin_of(table, pair)
        noise = rng.integers(-20, 21, exact.n.shape)
        margins.append(replace(exact, n=exact.n + noise, variance=140.0))
    got = made(table, margins, post=post, total=total_of(5012, 8.0))
    check(got)
    assert abs(got.n.sum() - 5012) < 60
    assert off(table_of(got), table, ("age", "edu")) < 0.3


@pytest.mark.parametrize("total", [0, -7])
def test_no_rows(total):
    margins = [replace(margin_of(truth_of() * 0, pair), variance=2.0) for pair in PAIRS]
    got = made(truth_of(), margins, total=total_of(total, 1.0))
    assert got.cells.shape == (0, 5)
    assert got.n.shape == (0,)


def test_no_margin_and_nothing_possible():
    with pytest.raises(InternalError, match="at least one margin"):
        synthesise(
            [],
            total_of(3),
            params=params_of(),
            levels=LEVELS,
            zeros=(),
            rng=np.random.default_rng(0),
        )
    nothing = StructuralZero(columns=("sex",), cells=np.ones(2, dtype=bool), why="planted")
    with pytest.raises(SpecError, match="no possible combination"):
        made(truth_of(), [("age", "sex"), ("job",)], zeros=[nothing])


STRATA = ("sex", "town")


def stratified(table, margins, variance=0.0, noise=None):
    out = []
    for margin in margins:
        exact = margin_of(table, column_set((*margin, *STRATA)), variance)
        out.append(exact if noise is None else replace(exact, n=exact.n + noise(exact.n.shape)))
    return out


@pytest.mark.ci
def test_strata_are_fitted_each_for_itself():
    table = truth_of()
    table[:, :, :, 1, 2] = 0  # a stratum without people
    stages = []
    got = made(
        table,
        stratified(table, [("age", "edu"), ("edu", "job")]),
        strata=STRATA,
        progress=lambda *what: stages.append(what),
    )
    check(got)
    rows = table_of(got)
    assert (margin_of(rows, STRATA).n == margin_of(table, STRATA).n).all()
    assert len(got.reports) == 11
    assert all(report.converged for report in got.reports)
    assert stages[0] == ("fit", 0, 12)
    assert stages[-1] == ("fit", 12, 12)
    assert off(rows, table, ("age", "edu", *STRATA)) < 0.06
    assert got.uniform == ()


@pytest.mark.ci
def test_an_impossible_stratum_gets_no_rows_and_rules_hold_within_the_others():
    cells = np.zeros((2, 6), dtype=bool)
    cells[0, 3] = True
    whole = StructuralZero(columns=STRATA, cells=cells, why="planted")
    partly = np.zeros((4, 2), dtype=bool)
    partly[2, 1] = True
    part = StructuralZero(columns=("age", "sex"), cells=partly, why="planted")
    table = truth_of()
    noisy = stratified(table, [("age", "edu"), ("job",)], 50.0, lambda shape: np.full(shape, 3))
    got = made(table, noisy, strata=STRATA, zeros=[whole, part], total=total_of(5000, 2.0))
    rows = table_of(got)
    assert rows[:, :, :, 0, 3].sum() == 0
    assert rows[2, :, :, 1].sum() == 0
    assert len(got.reports) == 11


def test_a_stratum_that_a_wider_rule_empties_gets_no_rows():
    cells = np.zeros((4, 2), dtype=bool)
    cells[:, 1] = True
    rule = StructuralZero(columns=("age", "sex"), cells=cells, why="planted")
    table = truth_of()
    noisy = [margin_of(table, ("age", "edu", "sex"), 9.0)]
    got = made(table, noisy, strata=("sex",), zeros=[rule], total=total_of(5000, 2.0))
    assert table_of(got)[..., 1, :].sum() == 0
    assert len(got.reports) == 1
