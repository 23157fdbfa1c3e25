"""The report's figures and files: verdicts, improvement factors, JSON, modes, what may be published."""

from __future__ import annotations

import json
import math
import os
import stat
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from fixtures.report import (
    CATALOGUE,
    HOSTILE,
    IN_BREAKDOWN,
    N_ROWS,
    TRUE_COUNT,
    evaluation,
    figure,
    result,
)

from engine.errors import PrivacyError, StoreError
from engine.evaluation.report.files import (
    as_json,
    check_frame,
    check_target,
    is_confidential,
    refuse_confidential,
    write_frame,
)
from engine.evaluation.report.page import write_report
from engine.evaluation.report.verdicts import factor, verdict

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

    told = json.loads(as_json(evaluation(), catalogue=CATALOGUE), parse_constant=refuse)
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


@pytest.mark.ci
def test_a_publishable_report_holds_rounded_scores_and_no_count(tmp_path):
    one = result("ours", 1.23456)
    files = write_report(
        evaluation(one), tmp_path / "p.html", publishable=True, catalogue=CATALOGUE
    )
    for path in files:
        text = path.read_text("utf-8")
        for secret in (TRUE_COUNT, N_ROWS, IN_BREAKDOWN):
            assert str(secret) not in text.replace(",", "")
        assert "1.234" not in text
        assert "<svg" not in text
        assert "people.csv" not in text
        assert not is_confidential(path)
        assert "largest_absolute_error" not in text, "a count of rows"
        assert "note &lt;" not in text
        assert "note <" not in text
    refuse_confidential(files)
    html, told = files[0].read_text("utf-8"), json.loads(files[1].read_text("utf-8"))
    assert '<meta name="tablepack" content="publishable">' in html
    assert ">1.2<" in html
    assert told["confidential"] is False
    assert told["frame"][0]["value"] == 1.2
    confidential = write_report(evaluation(one), tmp_path / "c.html", catalogue=CATALOGUE)
    text = confidential[0].read_text("utf-8").replace(",", "")
    for secret in (TRUE_COUNT, N_ROWS, IN_BREAKDOWN):  # the control: they are there to be found
        assert str(secret) in text


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
        files = write_report(small(), tmp_path / "r.html", catalogue=CATALOGUE, force=True)
    finally:
        os.umask(before)
    assert files == (tmp_path / "r.html", tmp_path / "r.json")
    assert [mode(path) for path in files] == [0o600, 0o600]
    ours = [m for path, m in opened if path.startswith(str(tmp_path))]
    assert ours == [0o600, 0o600]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r.html", "r.json"]


def test_a_report_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    (tmp_path / "r.html").write_text("old")

    def full(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        write_report(small(), tmp_path / "r.html", catalogue=CATALOGUE, force=True)
    assert [p.name for p in tmp_path.iterdir()] == ["r.html"]
    assert (tmp_path / "r.html").read_text() == "old"


def test_unfit_targets_are_refused(tmp_path):
    for name, words in (("r.txt", "ends in .html"), ("no/r.html", "does not exist")):
        with pytest.raises(StoreError, match=words):
            check_target(tmp_path / name)
    (tmp_path / "d.html").mkdir()
    (tmp_path / "e.json").mkdir()
    for name in ("d.html", "e.html"):
        with pytest.raises(StoreError, match="is a directory"):
            check_target(tmp_path / name)


def test_publish_knows_a_confidential_file_by_its_content(tmp_path):
    html, told = write_report(small(), tmp_path / "r.html", catalogue=CATALOGUE)
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
