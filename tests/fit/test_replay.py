"""Replays by hand: the noise they have, what they suppress, what is imagined, and planted faults."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.fit.replay import Mechanism, imagine, replay
from engine.params import PROFILES
from engine.schema import NULL_CODE, OTHER_CODE, Column, WeightedRows

STANDARD = PROFILES["standard"]
NUMBER = Column(name="x", kind="integer", value_type="integer")
LETTER = Column(
    name="g", kind="category", value_type="text", domain=tuple(range(6)), placeholder="(other)"
)
BOTH = Mechanism(columns=(LETTER, NUMBER), privacy=STANDARD)
ONE = Mechanism(columns=(NUMBER,), privacy=STANDARD)


def key_of(number: int) -> bytes:
    return number.to_bytes(32, "big")


def rows_of(n, **codes) -> WeightedRows:
    return WeightedRows(
        codes={name: np.array(of, dtype=np.int64) for name, of in codes.items()},
        n=np.array(n, dtype=np.int64),
    )


def counts(rows: WeightedRows, name: str) -> dict[int, int]:
    values = np.unique(rows.codes[name])
    return {int(v): int(rows.n[rows.codes[name] == v].sum()) for v in values}


def errors_of(mechanism: Mechanism, keys: int) -> np.ndarray:
    """Errors of four counts that are far above the threshold."""
    rows = rows_of([400, 500, 600, 700], x=[0, 1, 2, 3])
    found = [counts(replay(rows, mechanism, ("x",), key_of(k)), "x") for k in range(keys)]
    return np.array([[one[v] for v in range(4)] for one in found]) - rows.n


def test_the_noise_of_a_replay_is_that_of_a_release():
    """A value alone has two layers of sd 1, so variance 2; with the sum of two values known exactly it would have 1."""
    keys = 300
    errors = errors_of(ONE, keys)
    assert abs(errors.mean()) < 5 * np.sqrt(2 / keys / 4)
    assert 1.0 < (errors**2).mean() < 2.0 * (1 + 5 * np.sqrt(2 / (4 * keys)))


def test_noise_twice_as_large_is_seen():
    """Planted: the root mean square of errors is then twice as large."""
    twice = replace(ONE, privacy=replace(STANDARD, layer_sd=2))
    assert (errors_of(twice, 100) ** 2).mean() > 2.5 * (errors_of(ONE, 100) ** 2).mean()


def test_a_key_decides_all_of_it():
    rows = rows_of([30, 40, 50], g=[0, 1, 2], x=[5, 6, 7])
    one, same, other = (replay(rows, BOTH, ("g", "x"), key_of(k)) for k in (1, 1, 2))
    assert np.array_equal(one.n, same.n)
    assert all(np.array_equal(one.codes[c], same.codes[c]) for c in one.codes)
    assert not np.array_equal(one.n, other.n) or any(
        not np.array_equal(one.codes[c], other.codes[c]) for c in one.codes
    )


def test_values_of_too_few_are_hidden_and_public_ones_are_not():
    """A letter of 2 people is never shown, one of 5 in half of all keys; together they are enough for a placeholder."""
    rows = rows_of([300, 2, 5, 2, 2, 2], g=[0, 1, 2, 3, 4, 5])
    hidden = Mechanism(columns=(LETTER,), privacy=STANDARD)
    shown = [counts(replay(rows, hidden, ("g",), key_of(k)), "g") for k in range(60)]
    assert not any(1 in one for one in shown)
    assert 15 <= sum(2 in one for one in shown) <= 45
    assert all(OTHER_CODE in one for one in shown if 2 not in one)
    public = Mechanism(columns=(replace(LETTER, public=True),), privacy=STANDARD)
    assert not any(
        OTHER_CODE in counts(replay(rows, public, ("g",), key_of(k)), "g") for k in range(20)
    )


def test_too_few_rows_give_an_empty_table():
    got = replay(rows_of([1], x=[3]), ONE, ("x",), key_of(1))
    assert len(got.n) == 0


@pytest.fixture
def table():
    """A group of many measured values, and one of few that were filled in."""
    x = np.concatenate([np.arange(20, 40), np.arange(20, 60)])
    g = np.repeat([0, 1], [20, 40])
    return rows_of(np.where(g == 0, 50, 1), g=g, x=x), g == 0


def test_imagined_rows_are_as_many_and_measured_ones_stay(table):
    rows, measured = table
    bounded = replace(BOTH, limits={"x": (20, 59)})
    for k in range(20):
        got = imagine(rows, measured, bounded, np.random.default_rng(k))
        assert got.n.sum() == rows.n.sum()
        assert (got.n > 0).all()
        assert len(np.unique(np.column_stack([*got.codes.values()]), axis=0)) == len(got.n)
        inner = (got.codes["g"] == 0) & (got.codes["x"] > 22) & (got.codes["x"] < 38)
        # Up to as many as the threshold hold a hidden letter.
        assert (50 * 15 - STANDARD.threshold_mean) <= got.n[inner].sum() <= 50 * 15
        assert got.codes["x"].min() >= 20
        assert got.codes["x"].max() <= 59


def test_filled_rows_come_in_clumps(table):
    """The number in a window of 8 filled values varies more than 8 independent people would."""
    rows, measured = table
    bounded = replace(BOTH, limits={"x": (20, 59)})
    inside = []
    for k in range(200):
        got = imagine(rows, measured, bounded, np.random.default_rng(k))
        window = (got.codes["g"] == 1) & (got.codes["x"] >= 36) & (got.codes["x"] < 44)
        inside.append(got.n[window].sum())
    assert abs(np.mean(inside) - 8) < 1.5
    assert np.var(inside) > 2 * 8 * (1 - 8 / 40)


def test_rows_may_lie_beyond_an_end_that_is_not_declared(table):
    rows, measured = table
    got = [imagine(rows, measured, BOTH, np.random.default_rng(k)) for k in range(30)]
    furthest = [int(one.codes["x"].max()) for one in got]
    assert max(furthest) > 59
    assert max(furthest) <= 3 * 60  # none more than three times as far as the outermost
    # At the lower end many were measured: there the scale ends.
    assert min(int(one.codes["x"].min()) for one in got) == 20


def test_blanks_are_no_end():
    rows = rows_of([40, 40, 9], x=[1, 2, NULL_CODE])
    got = imagine(rows, np.ones(3, dtype=bool), ONE, np.random.default_rng(1))
    assert counts(got, "x")[NULL_CODE] == 9


def test_codes_at_the_ends_of_their_range_stay_codes():
    """Beyond 2 ** 62 nothing is imagined: no code overflows."""
    x = np.concatenate([np.arange(1, 30), [2**62 - 5, 2**62 - 3, 2**62 - 1]])
    rows = rows_of(np.ones(32), x=x)
    for k in range(20):
        got = imagine(rows, np.zeros(32, dtype=bool), ONE, np.random.default_rng(k))
        assert got.codes["x"].max() <= 2**62
        assert got.codes["x"].min() >= 0
