"""Charts: ticks are round and inside, marks lie where the scales say, hostile texts are text."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.evaluation.report.charts import MARKS, Chart, Scale, rows, scale

FINITE = st.floats(-1e9, 1e9, allow_nan=False)


@given(st.lists(FINITE, min_size=1, max_size=20), st.booleans(), st.floats(0, 0.3))
def test_ticks_are_few_rising_and_inside(values, zero, room):
    found = scale(values, zero=zero, room=room)
    at = [where for where, _ in found.labelled()]
    assert 1 <= len(at) <= 7
    assert at == sorted(at)
    shares = found.share([min(values), max(values), *at])
    assert ((shares >= -1e-6) & (shares <= 1 + 1e-6)).all()


@given(st.floats(1e-6, 1e6), st.floats(1.001, 1e6))
def test_a_logarithmic_scale_has_ticks_inside_where_it_is_wide(low, times):
    found = Scale(low=low, high=low * times, is_log=True)
    at = [where for where, _ in found.labelled()]
    assert all(low * 0.999 <= where <= low * times * 1.001 for where in at)
    assert len(at) > 1 or times < 10
    assert found.share([low, low * times]) == pytest.approx([0, 1], abs=1e-6)


def test_places_by_hand():
    chart = Chart("t", Scale(low=0, high=10), Scale(low=0, high=2), width=100, height=100, left=20)
    left, top, right, bottom = chart.frame
    assert (left, right) == (20, 84)
    assert chart.px([0, 5, 10]).tolist() == [20, 52, 84]
    assert chart.py([0, 2]).tolist() == [bottom, top]
    chart.boxes([0], [1], [5], [-9], "more")  # cut off at the frame
    assert chart.parts[-1].endswith(f'd="M20.0 {(top + bottom) / 2:.1f}H52.0V{bottom:.1f}H20.0Z"/>')
    before = len(chart.parts)
    chart.segments(([np.nan], [1]), ([5], [1]), "more")
    assert len(chart.parts) == before  # nothing is drawn of what is no number


def test_texts_are_escaped_and_every_mark_is_drawn():
    hostile = '<b>"&\n'
    legend = [(hostile, "more", mark) for mark in (*MARKS, "-")]
    chart = rows(hostile, [hostile], scale([1, 2], name=hostile), legend=legend)
    for mark in MARKS:
        chart.marks([1.5], [0], "less", mark)
    svg = chart.svg()
    assert "<b>" not in svg
    assert svg.count("&lt;b&gt;") == len(legend) + 4
    assert len(re.findall(r'<path style="fill:var\(--less\)" d="M[^"]+Z?"', svg)) == len(MARKS)
