"""The summary: what is compared, what may be published, the outline of the page."""

from __future__ import annotations

import pytest
from fixtures.report import TRUE_COUNT, figure
from hypothesis import given
from hypothesis import strategies as st

from engine.evaluation.report.verdicts import (
    Line,
    blocks,
    is_publishable,
    publishable_lines,
    published,
    sentence,
)

pytest.importorskip("jinja2")


def line(name: str = "a.b", value: float | None = 1.0, **more) -> Line:
    told = {
        "subject": "x",
        "figure": figure(name, is_headline=True),
        "is_risk": False,
        "scale": None,
        "reach": "",
        "verdict": "only stated",
        "why": "",
    }
    return Line(value=value, **(told | more))


# What may be published.


@pytest.mark.parametrize("n_rows", [7, 150, 400, 27_253])
@given(count=st.integers(0, 400), high=st.sampled_from([1.0, 100.0]))
def test_a_published_share_does_not_tell_a_count(n_rows, count, high):
    share = figure("a.b", high=high)
    near = [c for c in range(count - 2, count + 3) if 0 <= c <= n_rows]
    told = {published(share, high * c / n_rows, n_rows) for c in near}
    # Five counts in a row are never told apart by more than one step.
    assert len(told) <= 2


def test_counts_are_not_published_however_they_are_shown():
    for digits in (0, 1):
        assert not is_publishable(line("a.b", figure=figure("a.b", digits=digits)))
    assert is_publishable(line("a.b", figure=figure("a.b", digits=2)))
    from engine.evaluation.findings import FIGURES

    counts = ("univariate.scaled_largest_absolute_error", "identification.expected_match_risk")
    for name in counts:
        assert not is_publishable(line(name, figure=FIGURES[name]))
    assert str(published(figure("a.b", high=1.0, low=-1.0), -0.0001, 100)) == "0.0"


def test_a_publishable_summary_names_no_count():
    count = figure("a.n", digits=0, title="records", is_headline=True, poor=5)
    told = [line("a.n", float(TRUE_COUNT), figure=count, verdict="poor")]
    assert "12,347" in sentence(told, is_risk=False)
    public = publishable_lines(told, 100)
    assert "12" not in sentence(public, is_risk=False)
    assert blocks(public, ["x"], sample="s", width=80) == []
