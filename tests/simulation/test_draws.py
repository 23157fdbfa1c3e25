from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.simulation.draw import (
    draw_table,
    permuted,
    row_number,
)

# --- draws


@settings(max_examples=50)
@given(
    weights=st.lists(
        st.lists(st.sampled_from([0.0, 1e-9, 0.1, 1.0, 30.0]), min_size=4, max_size=4).filter(any),
        min_size=1,
        max_size=6,
    ),
    seed=st.integers(0, 1_000),
)
def test_weight_0_is_never_drawn(weights, seed):
    table = draw_table(weights)
    rows = np.repeat(np.arange(len(weights)), 50)
    drawn = table.draw(np.random.default_rng(seed), rows)
    assert drawn.dtype == np.int64
    assert (np.array(weights)[rows, drawn] > 0).all()


class Extreme:
    """A generator whose uniform numbers are the smallest or the largest possible."""

    def __init__(self, word):
        self.word = word

    def integers(self, low, high, size, dtype):
        return np.full(size, self.word, dtype=dtype)


@pytest.mark.parametrize(("word", "expected"), [(0, [1, 0, 2]), (2**32 - 1, [2, 0, 2])])
def test_extreme_draws_stay_in_their_row(word, expected):
    table = draw_table([[0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 5, 0]])
    assert table.draw(Extreme(word), np.arange(3)).tolist() == expected
    # Far down a long table the row number leaves fewer bits for the fraction.
    long = draw_table(np.tile([0.0, 2, 1, 0], (300_000, 1)))
    last = np.array([299_999])
    assert long.draw(Extreme(word), last).tolist() == [{0: 1}.get(word, 2)]


def test_draws_follow_the_weights():
    table = draw_table([[[1, 3], [0, 1]], [[1, 1], [9, 1]]])
    n = 40_000
    rows = row_number((np.full(n, 1), 2), (np.full(n, 1), 2))
    assert set(rows) == {3}
    drawn = table.draw(np.random.default_rng(0), rows)
    assert abs(np.mean(drawn == 1) - 0.1) < 4 * np.sqrt(0.09 / n)


@settings(max_examples=30)
@given(size=st.integers(1, 1_000), seed=st.integers(0, 2**64), purpose=st.integers(0, 1))
def test_permutations_are_one_to_one(size, seed, purpose):
    out = permuted(np.arange(size), size=size, seed=seed, purpose=purpose)
    assert sorted(out) == list(range(size))
