"""The report's figures and files: verdicts, factors, JSON, what may be published, distortions, charts."""

from __future__ import annotations

import json
import math
import os
import re
import stat
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from fixtures.report import (
    HOSTILE,
    N_ROWS,
    TRUE_COUNT,
    evaluation,
    figure,
    result,
)
from hypothesis import given
from hypothesis import strategies as st

from engine.charts import MARKS, Scale, rows, scale
from engine.errors import PrivacyError, StoreError
from engine.evaluation.findings import Finding
from engine.evaluation.report.page import write_report
from engine.evaluation.report.pictures import Names, distortions, uses
from engine.evaluation.report.verdicts import (
    Line,
    as_json,
    blocks,
    check_frame,
    factor,
    is_confidential,
    is_publishable,
    lines,
    publishable_lines,
    published,
    refuse_confidential,
    sentence,
    verdict,
    write_frame,
)

pytest.importorskip("jinja2")

FIRST = "univariate.median_composite_error"


# Verdicts.


@pytest.mark.parametrize(
    ("better", "value", "expected"),
    [
        ("lower", 1.0, "good"),
        ("lower", 1.001, "fair"),
        ("lower", 2.0, "fair"),
        ("lower", 2.001, "poor"),
        ("higher", 2.0, "good"),
        ("higher", 1.999, "fair"),
        ("higher", 1.0, "fair"),
        ("higher", 0.999, "poor"),
        ("neither", 1.0, "only stated"),
        ("lower", None, "not computed"),
        ("lower", math.nan, "not computed"),
    ],
)
def test_a_threshold_belongs_to_its_better_side(better, value, expected):
    good, poor = (1.0, 2.0) if better != "higher" else (2.0, 1.0)
    assert verdict(figure("a.b", better, good=good, poor=poor), value) == expected


@pytest.mark.parametrize(
    ("better", "perfect", "value", "scale", "reach", "expected"),
    [
        ("lower", 0.0, 0.2, 0.2, "", "good"),
        ("lower", 0.0, 0.59, 0.2, "", "fair"),
        ("lower", 0.0, 0.61, 0.2, "", "poor"),
        ("higher", 1.0, 1.7, 0.9, "", "good"),
        ("higher", 1.0, 0.69, 0.9, "", "poor"),
        ("lower", 0.0, 0.1, None, "", "only stated"),
        ("lower", None, 0.1, 0.2, "", "only stated"),
        ("neither", 0.0, 0.1, 0.2, "", "only stated"),
        ("lower", 0.0, 0.2, 0.2, "<= 0.1", "fair"),
        ("lower", 0.0, 0.7, 0.2, "<= 0.1", "poor"),
    ],
)
def test_without_a_threshold_a_figure_is_held_against_the_sample(
    better, perfect, value, scale, reach, expected
):
    one = figure("a.b", better, perfect=perfect)
    assert verdict(one, value, reach, scale=scale) == expected


# JSON.


def test_json_has_every_figure_and_no_nan():
    def refuse(text):
        raise AssertionError(text)

    told = json.loads(as_json(evaluation()), parse_constant=refuse)
    assert told["confidential"] is True
    assert (told["rows"], told["seed"], told["data"]) == (N_ROWS, 7, "people.csv")
    assert told["subjects"][0]["content_hash"] == "abc123"
    name = told["subjects"][0]["name"]
    own = [row for row in told["frame"] if row["subject"] == name]
    rows = {row["measure"]: row for row in own if not row["note"].startswith("note")}
    assert set(evaluation().results[0].figures()) <= set(rows)
    assert (rows[FIRST]["value"], rows[FIRST]["note"][:5]) == (0.3, "good:")
    assert rows["linkage.rate"]["note"].endswith("of 1,000")
    assert "inference.rate" not in rows
    notes = [row["note"] for row in own if row["measure"] == "univariate"]
    assert notes == [f"note {HOSTILE}"]


# What may be published.


# Files.


def small():
    """An evaluation whose report is drawn at once."""
    return evaluation(replace(result("ours", 0.3), scores={}, risks={}))


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_confidential_files_are_for_their_owner_from_the_first_byte(tmp_path, monkeypatch):
    opened = []
    real = os.open

    def told(path, flags, mode=0o777, **more):
        if flags & os.O_CREAT and flags & os.O_EXCL:
            opened.append((str(path), mode))
        return real(path, flags, mode, **more)

    for name in ("r.html", "r.json"):
        (tmp_path / name).write_text("wide open")
        (tmp_path / name).chmod(0o666)
    monkeypatch.setattr(os, "open", told)
    before = os.umask(0)
    try:
        files = write_report(small(), tmp_path / "r.html", force=True)
    finally:
        os.umask(before)
    assert files == (tmp_path / "r.html", tmp_path / "r.json")
    assert [mode(path) for path in files] == [0o600, 0o600]
    ours = [m for path, m in opened if path.startswith(str(tmp_path))]
    assert ours == [0o600, 0o600]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r.html", "r.json"]


def test_publish_knows_a_confidential_file_by_its_content(tmp_path):
    html, told = write_report(small(), tmp_path / "r.html")
    other = tmp_path / "harmless.txt"
    other.write_bytes(html.read_bytes())
    compact = tmp_path / "compact.data"
    compact.write_text(json.dumps(json.loads(told.read_text("utf-8"))))
    for path in (html, told, other, compact):
        assert is_confidential(path)
        with pytest.raises(PrivacyError, match=path.name):
            refuse_confidential([path])
    with pytest.raises(PrivacyError, match=r"compact\.data"):
        refuse_confidential([tmp_path])
    plain = tmp_path / "plain"
    for text in ("", "{", '{"confidential": false}', "[1]", "a,b\n1,2\n", "\x00\xff"):
        plain.write_text(text)
        assert not is_confidential(plain)
    with pytest.raises(StoreError, match="cannot be read"):
        is_confidential(tmp_path / "absent")


# Tables.


@pytest.mark.parametrize(
    ("perfect", "first", "other", "expected"),
    [
        (0.0, 0.1, 0.3, 3.0),
        (0.0, 0.3, 0.1, -3.0),
        (1000.0, 990.0, 950.0, 5.0),
        (1000.0, 950.0, 990.0, -5.0),
        (1.0, 1.2, 0.4, 3.0),
        (0.0, 0.2, 0.2, 1.0),
        (0.0, 0.0, 0.0, 1.0),
        (0.0, 0.0, 0.1, math.inf),
        (0.0, 0.1, 0.0, -math.inf),
    ],
)
def test_factors_by_hand(perfect, first, other, expected):
    assert factor(perfect, first, other) == pytest.approx(expected)


# --- the tidy table


@pytest.mark.parametrize("name", ["all.csv", "all.json"])
def test_the_tidy_table_is_private_whole_and_refused_by_publish(tmp_path, name):
    whole = evaluation()
    path = tmp_path / name
    check_frame(path)
    write_frame(whole, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    if name.endswith("csv"):
        read = pd.read_csv(path, keep_default_na=False, na_values={"value": [""]})
    else:
        read = pd.DataFrame(json.loads(path.read_text("utf-8"))["frame"])
    frame = whole.frame()
    assert list(read) == list(frame)
    assert len(read) == len(frame)
    assert read["measure"].tolist() == frame["measure"].tolist()
    values = pd.to_numeric(read["value"]).to_numpy(float)
    np.testing.assert_allclose(values, frame["value"].astype(float), rtol=1e-12)
    with pytest.raises(PrivacyError):
        refuse_confidential([tmp_path])
    with pytest.raises(StoreError, match=r"\.csv or \.json"):
        check_frame(tmp_path / "all.xlsx")


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


NAMES = Names(labels={"a": "Area"}, value_labels={"a": {"1": "north"}})


def found(**scores: pd.DataFrame):
    given = {name: Finding(measure=name, breakdown=frame) for name, frame in scores.items()}
    return distortions(replace(result("r", 0.3), scores=given), NAMES)


def test_distortions_are_ranked_by_the_share_that_is_off():
    counts = pd.DataFrame(
        {
            "column": ["a", "a", "b", "b", "c"],
            "label": ["1", "2", "x", "y", "z"],
            "original": [60, 40, 50, 50, 100],
            "synthetic": [40, 60, 52, 48, 100],
        }
    )
    pairs = pd.DataFrame({"first": ["a"], "second": ["b"], "original": [0.5], "synthetic": [0.4]})
    estimates = pd.DataFrame(
        {"name": ["mean of b"], "original": [10.0], "synthetic": [11.0], "se_original": [0.5]}
    )
    told = found(univariate=counts, correlations=pairs, estimates=estimates)
    assert [(round(one.size, 9), one.words) for one in told] == [
        (0.2, "a: Area: 20 % of the rows are in a wrong value; furthest off: 1 north, shown 40, true 60."),
        (0.1, "mean of b: shown 11, true 10, 2.0 standard errors apart."),
        (0.05, "a: Area and b: rank correlation (Kendall's tau) shown 0.400, true 0.500."),
        (0.02, "b: 2 % of the rows are in a wrong value; furthest off: x, shown 52, true 50."),
    ]  # fmt: skip
    assert found() == []


def test_the_worst_headline_decides_on_a_use():
    whole = evaluation(result("r", 0.3))
    told = {use.what: use for use in uses(lines(whole))}
    assert told["counting values of one column"].verdict == "good"
    assert "0.300 (good ≤ 0.5, poor > 2)" in told["counting values of one column"].why
    worse = evaluation(result("r", 5.0))
    assert uses(lines(worse))[0].verdict == "poor"


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


def test_texts_are_escaped_and_every_mark_is_drawn():
    hostile = '<b>"&\n'
    legend = [(hostile, "more", mark) for mark in (*MARKS, "-")]
    chart = rows(hostile, [hostile], scale([1, 2], name=hostile), legend=legend)
    for mark in MARKS:
        chart.marks([1.5], [0], "less", mark)
    svg = chart.svg()
    assert "<b>" not in svg
    assert svg.count("&lt;b&gt;") == len(legend) + 4
    assert len(re.findall(r'<path fill="var\(--less\)" d="M[^"]+Z?"', svg)) == len(MARKS)
