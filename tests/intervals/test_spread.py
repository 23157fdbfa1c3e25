"""Ends of figures from what they are on copies, by hand: spread, steps, rows beyond an end, copies without the row."""

from __future__ import annotations

import numpy as np
import pytest

from queries.intervals.copies import spread

NONE = np.zeros((1, 0))
"""No column has an end."""


def _values(*rows):
    """Figures as `_spread` takes them: shown, again, copies, measured."""
    return np.array([[row[0], row[0], *row[1:], row[0]] for row in rows], dtype=float)


def test_ends_by_hand():
    """Copies 8 and 12 by turns round 10: standard deviation 2 sqrt(48 / 47), mean 10."""
    made = _values([10.0, *([8.0, 12.0] * 24)], [10.0, *np.linspace(8.0, 14.0, 48)])
    got = spread.spread_of(made, NONE, 0, is_whole=False)
    half = spread.T * 2 * np.sqrt(48 / 47) + 2.0  # steps of 2 between 8, 10 and 12
    assert got.low[0] == pytest.approx(10 - half)
    assert got.high[0] == pytest.approx(10 + half)
    # Noise raised the second by 1 on average, and did so once already.
    wide = spread.T * np.std(np.linspace(8.0, 14.0, 48), ddof=1)
    assert got.low[1] == pytest.approx(10 - 1 - wide)
    assert got.high[1] == pytest.approx(10 - 1 + wide)
    whole = spread.spread_of(made, NONE, 0, is_whole=True)
    assert whole.low[0] == np.ceil(10 - half - 0.5)
    assert whole.high[1] == np.floor(10 - 1 + wide + 0.5)


def test_rows_beyond_an_end_widen_one_side_by_hand():
    """Two ends of three draws each: the first lowers by 3 at most, the second moves by -1 to 2."""
    made = _values([10.0, *np.linspace(9.0, 11.0, 48)])
    sure = spread.spread_of(made, NONE, 0, is_whole=False)
    of_tails = np.array([[9.0, 7.0, np.nan, 9.0, 12.0, 10.0]])
    got = spread.spread_of(made, of_tails, 2, is_whole=False)
    assert got.low[0] == pytest.approx(sure.low[0] - np.hypot(3, 1))
    assert got.high[0] == pytest.approx(sure.high[0] + 2)
    # What may stand anywhere in a range moves a figure to either side.
    got = spread.spread_of(made, of_tails, 1, is_whole=False)
    assert got.low[0] == pytest.approx(sure.low[0] - np.hypot(3, 2))
    assert got.high[0] == pytest.approx(sure.high[0] + 2)


@pytest.mark.filterwarnings("error")
def test_endless_figures_have_no_interval_and_the_others_theirs():
    """The logarithm of a group that no copy has rows of."""
    some = [*np.linspace(8.0, 12.0, 48)]
    made = _values([-np.inf, *some], [10.0, *some], [10.0, -np.inf, *some[1:]])
    assert spread.unfit(made) is None
    tails = np.array([[1.0, 2.0, -np.inf], [-np.inf, 10.0, 11.0], [10.0, 10.0, 10.0]])
    got = spread.spread_of(made, tails, 1, is_whole=False)
    assert np.isnan(got.low).tolist() == [True, False, False]
    assert got.high[1] > 12.0
    assert np.isfinite(got.low[2])
    made[1, 1] = np.inf
    assert "another figure" in str(spread.unfit(made))
