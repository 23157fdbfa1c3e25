"""Ends of figures from what they are on replays, by hand: spread, shift by hiding, whole numbers, missing rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from queries.intervals.spread import Figures, ends_of_figures, statuses, unfit

N = 24


def figures(value, error, doubled=None, *, imagined=10.0, doublings=2.0) -> Figures:
    """One row for each error: its figure on pairs of imagined and replayed rows that are apart by the error."""
    value, error = np.atleast_1d(np.array(value, float)), np.atleast_2d(np.array(error, float))
    base = np.full(error.shape, imagined)
    return Figures(
        value=value,
        again=value,
        placed=value[:, None].repeat(10, axis=1),
        imagined=base,
        replayed=base + error,
        doubled=(base + error)[:, :2] if doubled is None else np.atleast_2d(doubled),
        extreme=np.zeros((len(value), 0)),
        reworded=np.zeros((len(value), 0)),
        possible=np.zeros((len(value), 0)),
        doublings=doublings,
    )


def test_ends_by_hand():
    """Replays are off by 2 in either direction: root mean square 2, Student's t with 24 degrees of freedom 2.0639."""
    low, high = ends_of_figures(figures(10.0, [-2.0, 2.0] * 12), is_whole=False)
    assert low[0] == pytest.approx(10 - 2.0639 * 2, abs=1e-3)
    assert high[0] == pytest.approx(10 + 2.0639 * 2, abs=1e-3)
    low, high = ends_of_figures(figures(10.0, [-2.0, 2.0] * 12), is_whole=True)
    assert (low[0], high[0]) == (6.0, 14.0)  # inwards: the whole numbers from 5.87 to 14.13


def test_an_error_of_one_sign_counts_in_full():
    """A mean that every replay lowers by 3 is no better known than one that is off by 3 either way."""
    low, high = ends_of_figures(figures(10.0, [-3.0] * N), is_whole=False)
    assert high[0] - low[0] == pytest.approx(2 * 2.0639 * 3, abs=1e-3)


def test_what_hiding_moves_a_figure_by_is_added_for_each_doubling():
    """Hiding twice as much lowers 8 by 5 and 12 by 3: mean 4, variance 2, of two: 4 ** 2 - 1 = 15, twice doubled."""
    _, high = ends_of_figures(figures(10.0, [-2.0, 2.0] * 12, [3.0, 9.0]), is_whole=False)
    half = np.sqrt((2.0639 * 2) ** 2 + 15.0 * 2**2)
    assert high[0] == pytest.approx(10 + half, abs=2e-3)
    # A shift that is within its own noise is none.
    _, high = ends_of_figures(figures(10.0, [-2.0, 2.0] * 12, [6.0, 14.1]), is_whole=False)
    assert high[0] == pytest.approx(10 + 2.0639 * 2, abs=1e-3)


def test_rows_that_too_few_replays_have_are_not_known():
    error = [[1.0] * N, [np.nan] * 3 + [1.0] * (N - 3), [1.0, np.nan] + [1.0] * (N - 2)]
    low, _ = ends_of_figures(figures([10.0, 10.0, 10.0], error), is_whole=False)
    assert np.isnan(low).tolist() == [False, True, False]
    low, _ = ends_of_figures(figures(0.0, [0.0] * N, imagined=0.0), is_whole=True)
    assert np.isnan(low[0])


@pytest.mark.filterwarnings("error")
def test_endless_figures_have_no_interval_and_the_others_theirs():
    """The logarithm of a group that no replay has rows of."""
    made = figures([-np.inf, 10.0], [[-1.0, 1.0] * 12, [-np.inf, 1.0] + [-1.0, 1.0] * 11])
    assert unfit(made) is None
    assert np.isnan(ends_of_figures(made, is_whole=False)[0]).tolist() == [True, False]


def test_figures_that_replays_cannot_tell_are_named():
    assert "the same in every replay" in str(unfit(figures(10.0, [0.0] * N)))
    assert "in no replay" in str(unfit(figures(10.0, [np.nan] * N)))
    made = replace(figures(10.0, [1.0] * N), again=np.array([11.0]))
    assert "another figure" in str(unfit(made))


def test_what_rests_on_where_rows_were_imputed_is_not_known():
    """Ten placements: there in all, in eight, nothing in two of them, nothing as a figure that may be 0."""
    placed = np.full((4, 10), 5.0)
    placed[1, :2] = np.nan
    placed[2:, :2] = 0.0
    made = replace(figures([5.0] * 4, [[1.0] * N] * 4), placed=placed)
    assert made.known(is_amount=True).tolist() == [True, False, False, False]
    assert made.known(is_amount=False).tolist() == [True, False, False, False]
    nothing = replace(made, value=np.zeros(4))
    assert nothing.known(is_amount=True).tolist() == [False] * 4
    assert nothing.known(is_amount=False).tolist() == [True, False, True, True]


def test_statuses_by_hand():
    """Half widths of a tenth and more, of a figure next to nothing, without an end, not released, ruled out."""
    value = np.array([100.0, 100.0, 3.0, 100.0, 100.0, 0.0])
    half = np.array([10.0, 11.0, 3.0, np.nan, 10.0, 0.0])
    known = np.array([True, True, True, True, False, False])
    ruled = np.array([False] * 5 + [True])
    words = ("reliable", "unreliable", "low", "unreliable", "not released", "structural zero")
    assert statuses(value, value - half, value + half, known, ruled) == words
    assert statuses(value, value - half, value + half, known, is_amount=False)[2] == "unreliable"


def test_a_figure_reaches_to_what_it_is_with_far_outermost_values():
    """17 on one side, and nothing on the other; a count stays as it is."""
    made = replace(figures(10.0, [-1.0, 1.0] * 12), extreme=np.array([[17.0, 30.0]]))
    low, high = ends_of_figures(made, is_whole=False)
    assert (low[0], high[0]) == (pytest.approx(10 - 2.0639, abs=1e-3), 17.0)
    _, high = ends_of_figures(made, is_whole=False, is_count=True)
    assert high[0] == pytest.approx(10 + 2.0639, abs=1e-3)
