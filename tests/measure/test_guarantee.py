"""The guarantee of the code that ships, from rows to what crosses the wall, on two sources that one entity parts."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from fixtures.falsify import (
    judged,
    reachable_by_integers,
)
from fixtures.margins import AGE, FRAME, HRS, PARAMS, REG, make_spec, measure
from fixtures.measure import column

from engine.errors import InternalError
from engine.levels import Margin
from engine.measure import coding
from engine.measure.dp import accounting, cost, counting, levels_of, shares
from engine.measure.dp import margins as marginals
from engine.measure.dp.counting import counted, counter
from engine.measure.dp.noise import noised
from engine.progress import silent
from engine.source import open_rows

pytest.importorskip("opendp")


def test_a_sampler_with_gaps_is_caught():
    """Noise of even numbers only: of the neighbour's outputs nothing is reachable."""
    drawn = 2 * noised(np.zeros(20_000, dtype=np.int64), "laplace", 3.0)
    counts = 7 + drawn[:5000]
    assert reachable_by_integers(counts, 7, drawn[5000:]).mean() > 0.99
    assert reachable_by_integers(counts, 8, drawn[5000:]).mean() < 0.1


def responses(rng: np.random.Generator, truth: int, n: int, keep: float) -> np.ndarray:
    """Randomised response among 3 labels 0, 10, 20: the truth with probability `keep`."""
    lie = (truth + rng.integers(1, 3, n)) % 3
    return 10 * np.where(rng.random(n) < keep, truth, lie)


def test_verdict_on_randomised_response():
    # P(truth) = 0.6, each other 0.2: epsilon is ln 3; at epsilon e the least delta is 0.6 - exp(e) 0.2.
    rng = np.random.default_rng(11)
    first, second = responses(rng, 0, 40_000, 0.6), responses(rng, 2, 40_000, 0.6)
    assert not judged(first, second, epsilon=math.log(3)).is_refuted
    verdict = judged(first, second, epsilon=math.log(2), alpha=1e-6)
    assert verdict.is_refuted
    assert 0.12 < verdict.bound < 0.2
    high, low = sorted((verdict.share_first, verdict.share_second), reverse=True)
    assert (high, low) == pytest.approx((0.6, 0.2), abs=0.03)
    assert not judged(first, second, epsilon=math.log(2), delta=0.2).is_refuted
    assert judged(second, first, epsilon=math.log(2)).bound == pytest.approx(
        verdict.bound, abs=0.02
    )


def test_each_direction_is_looked_at():
    """An output that only one neighbour gives, now and then: seen whichever comes first."""
    rng = np.random.default_rng(2)
    usual, odd = np.zeros(4000, dtype=np.int64), (rng.random(4000) < 0.05).astype(np.int64)
    for first, second in ((usual, odd), (odd, usual)):
        verdict = judged(first, second, epsilon=1.0)
        assert verdict.is_refuted
        assert (verdict.share_first > verdict.share_second) == (first is odd)


def test_true_claims_are_refuted_no_oftener_than_alpha():
    rng = np.random.default_rng(4)
    n_refuted = sum(
        judged(
            rng.integers(0, 9, (60, 3)), rng.integers(0, 9, (60, 3)), epsilon=0.0, alpha=0.1
        ).is_refuted
        for _ in range(150)
    )
    assert n_refuted <= 26  # 15 expected at most; three standard errors


ALPHA = 1e-7  # of each verdict: about twenty are given here
N_RUNS = 1500
COLUMNS = (AGE, HRS, REG)
LEVELS = {c.name: levels_of(c) for c in COLUMNS}
ONE = replace(
    PARAMS, columns=("AGE", "HRS", "REG"), margins=(("AGE",),), strata=("REG",), max_rows=2
)
WAYS = {
    "strata": ONE,
    "several margins": replace(ONE, margins=(("AGE",), ("HRS",), ("AGE", "HRS"))),
    "a tree": replace(ONE, margins=(("HRS",),), ranges=(("HRS", 3),)),
    "no strata": replace(ONE, margins=(("AGE",),), strata=(), total_share=0.5),
    "gaussian": replace(ONE, noise="gaussian", delta=1e-6),
    "a public number": replace(ONE, public_n=True),
}
ONE_CELL = {"AGE": [4] * 30, "HRS": [2] * 30, "REG": ["s"] * 30}
EVERYWHERE = {"AGE": [0, 4, 8] * 10, "HRS": [0, 3, 5, 6, 1] * 6, "REG": ["n", "s"] * 15}


def with_one_more(entity: dict | None) -> pd.DataFrame:
    """Rows of 15 entities, six each; and of one more, with thirty."""
    others = FRAME[["AGE", "HRS", "REG"]].assign(id=np.arange(90) // 6)
    if entity is None:
        return others
    mine = pd.DataFrame(entity).astype({"AGE": "Int64"}).assign(id=99)
    return pd.concat([mine, others], ignore_index=True)


def exact_counts(spec, params, frame) -> tuple[Margin, ...]:
    """True counts as a build takes them."""
    with open_rows(spec, frame, silent) as opened:
        secret = opened.key.derive("fingerprint", spec.vintage)
        count = counter(opened, params, LEVELS, secret)
        sizes = {name: len(levels) for name, levels in LEVELS.items()}
        return counted(count, shares(params, sizes), params, 7, silent)


def released(params, exact: tuple[Margin, ...], n_runs: int, paid=None) -> np.ndarray:
    """Everything that crosses the wall, one row a run: all runs' counts go through `noisy` as one."""
    planned = shares(paid or params, {name: len(levels) for name, levels in LEVELS.items()})
    many = tuple(
        replace(
            margin,
            n=np.tile(margin.n, (n_runs, *[1] * margin.n.ndim)),
            tree=tuple(np.tile(counts, (n_runs, *[1] * counts.ndim)) for counts in margin.tree),
        )
        for margin in exact
    )
    found = marginals.noisy(many, planned, params, silent)
    arrays = [counts for margin in found for counts in (margin.n, *margin.tree)]
    return np.concatenate([counts.reshape(n_runs, -1) for counts in arrays], axis=1)


def is_refuted(spec, params, entity, *, n_runs: int = N_RUNS, paid=None) -> bool:
    """Whether the entity shows more than the claim allows."""
    both = [exact_counts(spec, params, with_one_more(one)) for one in (entity, None)]
    first, second = (released(params, exact, n_runs, paid) for exact in both)
    spent = cost(params)
    return judged(first, second, epsilon=spent.epsilon, delta=spent.delta, alpha=ALPHA).is_refuted


@pytest.fixture
def spec(tmp_path, monkeypatch):
    made = make_spec(tmp_path, monkeypatch)
    source = replace(made.source, entities=("id",))
    return replace(made, source=source, columns=(*COLUMNS, column("id")), tables=(ONE.columns,))


@pytest.mark.parametrize(
    ("way", "entity"),
    [
        ("strata", EVERYWHERE),
        ("a tree", ONE_CELL),
        *(
            pytest.param(way, entity, marks=pytest.mark.slow)
            for way in WAYS
            for entity in (ONE_CELL, EVERYWHERE)
            if (way, entity) not in (("strata", EVERYWHERE), ("a tree", ONE_CELL))
        ),
    ],
)
def test_one_entity_of_thirty_rows_does_not_show(spec, monkeypatch, way, entity):
    monkeypatch.setattr(coding, "FEW_ROWS", 10**6 if entity is ONE_CELL else 0)  # numpy, DuckDB
    assert not is_refuted(spec, WAYS[way], entity)


def test_rows_that_are_not_bounded_are_caught(spec, monkeypatch):
    monkeypatch.setattr(counting, "bounded_rows", lambda cells, *_: cells.n_rows)
    assert is_refuted(spec, ONE, ONE_CELL, n_runs=500)


@pytest.mark.ci
def test_a_bound_within_each_stratum_is_caught(spec, monkeypatch):
    """Rows bounded area by area: an entity of many areas counts in each of them."""
    real = counting.bounded_rows

    def area_by_area(cells, max_rows, secret):
        (pairs,), areas = cells.entities, cells.codes[:, cells.columns.index("REG")]
        n = len(pairs.tokens)
        entity = pairs.entity + n * (areas[pairs.cell] == areas.max())
        tokens = np.concatenate([pairs.tokens, ~pairs.tokens])
        apart = replace(pairs, entity=entity, tokens=tokens)
        return real(replace(cells, entities=(apart,)), max_rows, secret)

    monkeypatch.setattr(counting, "bounded_rows", area_by_area)
    one_row = replace(ONE, max_rows=1, total_share=0.9)
    assert is_refuted(spec, one_row, EVERYWHERE, n_runs=8000)


def test_a_choice_that_others_have_a_part_in_is_caught(spec, monkeypatch):
    """Rows chosen by where their cells stand among all others': one entity more moves rows of the others."""
    real = counting.siphash128

    def by_place(key, words):
        return real(key, [np.arange(len(words[0])).astype(np.uint64)])

    monkeypatch.setattr(counting, "siphash128", by_place)
    both = [exact_counts(spec, ONE, with_one_more(one)) for one in (EVERYWHERE, None)]
    moved = [int(np.abs(a.n - b.n).sum()) for a, b in zip(*both, strict=True)]
    assert moved[0] == 2
    assert moved[1] > 2


@pytest.mark.ci
@pytest.mark.parametrize(
    "way",
    [
        "no strata",
        *(pytest.param(w, marks=pytest.mark.slow) for w in ("strata", "a public number")),
    ],
)
def test_half_the_scale_is_caught(spec, monkeypatch, way):
    real = marginals.noised
    monkeypatch.setattr(marginals, "noised", lambda n, noise, scale: real(n, noise, scale / 2))
    assert is_refuted(spec, WAYS[way], ONE_CELL, n_runs=8000)


def test_half_the_scale_of_gaussian_noise_is_caught(spec, monkeypatch):
    params = replace(WAYS["gaussian"], epsilon=1.0, delta=0.05)
    assert not is_refuted(spec, params, ONE_CELL)
    real = marginals.noised
    monkeypatch.setattr(marginals, "noised", lambda n, noise, scale: real(n, noise, scale / 2))
    assert is_refuted(spec, params, ONE_CELL, n_runs=20_000)


@pytest.mark.parametrize("what", ["the total", "one depth of a tree"])
def test_counts_without_noise_are_caught(spec, monkeypatch, what):
    n_counts = 1 if what == "the total" else 6  # three nodes in each of two areas
    real = marginals.noised

    def some(counts, noise, scale):
        return counts if len(counts) == 500 * n_counts else real(counts, noise, scale)

    monkeypatch.setattr(marginals, "noised", some)
    assert is_refuted(spec, WAYS["a tree"], ONE_CELL, n_runs=500)


def test_noise_for_one_row_where_two_are_let_in_is_caught(spec):
    assert is_refuted(spec, ONE, ONE_CELL, paid=replace(ONE, max_rows=1))


@pytest.mark.slow
def test_a_margin_that_is_paid_for_once_and_drawn_twice_is_caught(spec):
    """Two margins, each with the noise of the whole budget, in 23 counts of which three tell: seldom all at once."""
    twice = replace(ONE, margins=(("AGE",), ("HRS",)))
    alone = [shares(replace(ONE, margins=(m,)), {"AGE": 4, "HRS": 7}) for m in twice.margins]
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(globals(), "shares", lambda *_: (alone[0][0], alone[0][1], alone[1][1]))
        assert is_refuted(spec, twice, ONE_CELL, n_runs=6000)


def test_a_depth_of_a_tree_that_is_not_paid_for_is_never_drawn(spec, monkeypatch):
    monkeypatch.setattr(accounting, "_depths", lambda *_: 1)
    with pytest.raises(InternalError, match="not paid for"):
        is_refuted(spec, WAYS["a tree"], ONE_CELL)


@pytest.mark.parametrize("way", ["a tree", "gaussian", "a public number"])
def test_nothing_crosses_but_through_the_noise_that_was_paid_for(spec, monkeypatch, way):
    """Of a whole measurement: every array is drawn once, at its share's scale; only a declared total is exact."""
    params, frame = WAYS[way], with_one_more(EVERYWHERE)
    exact = exact_counts(spec, params, frame)
    seen = []

    def note(counts, noise, scale):
        seen.append((len(counts), noise, scale))
        return counts + 1_000_000

    monkeypatch.setattr(marginals, "noised", note)
    found = measure(spec, params, frame)
    drawn = [m for m in (found.total, *found.margins) if m.columns or not params.public_n]
    assert found.total.n == (len(frame) if params.public_n else exact[0].n + 1_000_000)
    assert found.total.n.shape == ()
    for margin, true in zip(found.margins, exact[1:], strict=True):
        assert np.array_equal(margin.n, true.n + 1_000_000)
        for counts, of_depth in zip(margin.tree, true.tree, strict=True):
            assert np.array_equal(counts, of_depth + 1_000_000)
    planned = {s.columns: s for s in shares(params, {n: len(of) for n, of in LEVELS.items()})}
    assert seen == [
        (counts.size, params.noise, planned[margin.columns].scale)
        for margin in drawn
        for counts in (margin.n, *margin.tree)
    ]
