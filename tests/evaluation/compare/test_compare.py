"""Comparisons of sticky and dp releases: what is built, that nothing of it is left, what the figures and page say."""

from __future__ import annotations

import json
import shutil
import stat
import tempfile
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from fixtures.compare import TWO_WAY, VALUES, Builder, made, make_small

from engine.api.reading import read
from engine.errors import PrivacyError, SpecError
from engine.evaluation.compare import (
    SCRATCH,
    checked_epsilons,
    compare_all,
    refuse_scratch,
    variants,
)
from engine.evaluation.report.page import comparison_json, comparison_table, write_comparison
from engine.evaluation.report.verdicts import refuse_confidential
from engine.release import build

pytest.importorskip("sklearn")
pytest.importorskip("jinja2")


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    return make_small(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def ran(small, tmp_path_factory):
    scratch = tmp_path_factory.mktemp("scratch")
    before, tempfile.tempdir = tempfile.tempdir, str(scratch)
    try:
        builder, told = Builder(), []
        spec = read(small)
        found = compare_all(
            "modes",
            spec,
            variants(spec, (0.1, 10.0)),
            repeats=2,
            build=builder,
            progress=lambda *what: told.append(what),
        )
    finally:
        tempfile.tempdir = before
    return found, builder, told, scratch


# --- what is built


def test_variants_are_marked_and_differ_in_mode_and_epsilon_alone(small):
    spec = read(small)
    ways = variants(spec, (0.5, 2.0))
    assert [(w.generator.kind, w.generator.epsilon, w.made_by.mode) for w in ways] == [
        ("sticky", None, "sticky"),
        ("dp", 0.5, "dp"),
        ("dp", 2.0, "dp"),
        ("exact", None, "dp"),
    ]
    assert [w.made_by.dp and w.made_by.dp.epsilon for w in ways] == [None, 0.5, 2.0, None]
    for way in ways:
        assert way.made_by.notes[0] == SCRATCH
        assert way.made_by.title.startswith("SCRATCH")
        assert way.made_by.tables == spec.tables
        assert way.made_by.columns == spec.columns
    assert {replace(w.made_by.dp, epsilon=None) for w in ways[1:]} == {
        replace(spec.dp, epsilon=None)
    }


@pytest.mark.parametrize(
    "told",
    ["", "a", "1,,2", "0", "-1", "nan", "inf", "1,1.0", "501", [None], [], list(range(1, 22))],
)
def test_epsilons_that_cannot_be_are_refused(told):
    with pytest.raises(SpecError, match="epsilon"):
        checked_epsilons(told)


# --- how it runs


@pytest.mark.slow
def test_every_release_has_a_fresh_key_in_scratch_and_nothing_is_left(ran, small):
    found, builder, told, scratch = ran
    assert len(found.runs) == len(builder.seen) == 8
    keys = [spec.key_path for spec, _ in builder.seen]
    assert len(set(keys)) == 8
    assert all(scratch in key.parents for key in keys)
    assert read(small).key_path not in keys
    assert not [p for p in scratch.rglob("*") if p.is_file() and p.suffix != ".lock"]
    assert sorted(p.name for p in small.parent.iterdir()) == [
        "small.csv",
        "small.key",
        "small.toml",
    ]
    assert told[0][1:] == (0, 8)
    assert told[-1] == ("done", 8, 8)


@pytest.mark.slow
def test_better_releases_have_better_figures(ran):
    found = ran[0]
    assert {f.name for f in found.figures()} >= {TWO_WAY, "tables.s_pmse_1", "propensity.pmse"}
    worst, better = (found.spread(TWO_WAY, f"dp, epsilon {e:g}") for e in (0.1, 10.0))
    exact, sticky = (found.spread(TWO_WAY, name) for name in ("dp without noise", "sticky"))
    assert worst.low > 3 * better.high
    assert worst.low > 3 * exact.high  # at epsilon 10 the draws of people outweigh the noise
    assert sticky.n == 2  # two keys, so two releases
    assert sticky.low < sticky.high


@pytest.mark.slow
def test_every_release_is_attacked_alike(ran):
    """Before, a comparison said what an analyst loses by each way, and nothing of what an attacker gets."""
    found = ran[0]
    names = [f.name for f in found.weighed()]
    assert names[:3] == ["misplaced", "attribute", "attribute_unusual"]
    assert "membership" not in names  # no control
    for run in found.runs:
        assert {"misplaced", "attribute", "attribute_unusual"} <= run.figures.keys()
    worst, exact = (
        found.spread("misplaced", name) for name in ("dp, epsilon 0.1", "dp without noise")
    )
    assert worst.low > 3 * exact.high
    # Three quarters of a column are shuffled: who trusts it guesses worse than from everybody else.
    gains = [found.spread("attribute", name) for name in ("dp, epsilon 0.1", "dp without noise")]
    assert gains[0].high < gains[1].low
    assert found.own == "sticky"
    assert any("up to 2,000 of the data" in note for note in found.notes)
    assert any("No control rows were given" in note for note in found.notes)


def test_a_build_that_fails_leaves_nothing(small, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def build_one(spec, path):
        path.write_text("half")
        raise PrivacyError("too few")

    spec = read(small)
    with pytest.raises(PrivacyError, match="too few"):
        compare_all("modes", spec, variants(spec, (1.0,)), repeats=1, build=build_one)
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and p.suffix != ".lock"]


@pytest.mark.slow
def test_the_same_release_has_the_same_figures_whatever_built_it(small, tmp_path):
    build(replace(read(small), mode="sticky", dp=None), tmp_path / "one.duckdb", jobs=1)

    def copied(_, path):
        for file in tmp_path.glob("one.duckdb*"):
            shutil.copy(file, path.with_name(file.name.replace("one", path.stem)))

    spec = read(small)
    found = compare_all("modes", spec, variants(spec, (0.5, 2.0)), repeats=2, build=copied)
    times = {"seconds", "cpu_seconds"}
    first, *others = ({n: v for n, v in r.figures.items() if n not in times} for r in found.runs)
    assert len(others) == 7
    assert len(first) >= 6
    assert {"misplaced", "attribute", "attribute_unusual"} <= first.keys()
    assert all(other == first for other in others)


@pytest.mark.ci
def test_a_scratch_release_says_so_and_is_refused(small, tmp_path):
    spec = read(small)
    marked = variants(spec, (1.0,))[0].made_by
    build(marked, tmp_path / "scratch.duckdb", jobs=1)
    build(spec, tmp_path / "plain.duckdb", jobs=1)
    refuse_scratch(tmp_path / "plain.duckdb")
    with pytest.raises(PrivacyError, match="built for a comparison"):
        refuse_scratch(tmp_path / "scratch.duckdb")


# --- what was found


def test_the_json_is_the_frame_and_confidential():
    told = json.loads(comparison_json(made(tables__s_pmse_2=VALUES)))
    assert (told["confidential"], told["own"], told["kind"]) == (True, "sticky", "modes")
    frame = pd.DataFrame(told["frame"])
    frame = frame[frame["measure"] == "tables.s_pmse_2"]
    medians = frame[frame["by"] == ""].set_index("subject")
    kinds = {one["name"]: (one["kind"], one["epsilon"]) for one in told["generators"]}
    assert {kinds[name]: value for name, value in medians["value"].items()} == {
        ("sticky", None): 1.3,
        ("dp", 0.5): 40.0,
        ("dp", 2.0): 6.0,
        ("exact", None): 1.0,
    }
    assert medians.loc["sticky", ["low", "high"]].tolist() == [1.1, 1.5]
    each = frame[(frame["subject"] == "sticky") & (frame["by"] != "")]
    assert dict(zip(each["by"], each["value"], strict=True)) == {
        f"repeat {i + 1}": value for i, value in enumerate(VALUES["sticky", None])
    }


def test_a_page_is_written_privately_and_refused_by_publish(tmp_path):
    found = made(tables__s_pmse_2=VALUES, marginals__score={("sticky", None): [950.0]})
    out = tmp_path / "c.html"
    out.write_text("older")
    out.chmod(0o644)
    write_comparison(found, out, force=True)
    assert {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {0o600}
    page = out.read_text("utf-8")
    assert "CONFIDENTIAL" in page
    assert "<made>" not in page
    assert "&lt;made&gt; &amp; up" in page
    assert "http://" not in page.replace("http://www.w3.org/", "")
    assert page.count("<svg") == 2
    heads, rows = comparison_table(found)
    assert heads[1:] == tuple(f.title[:1].upper() + f.title[1:] for f in found.figures())
    assert rows == [
        ("sticky", "1.30 (1.10 to 1.50)", "950"),
        ("dp, epsilon 0.5", "40.00 (30.00 to 50.00)", "–"),
        ("dp, epsilon 2", "6.00 (4.00 to 8.00)", "–"),
        ("exact", "1.00", "–"),
    ]
    for path in (out, out.with_suffix(".json")):
        with pytest.raises(PrivacyError):
            refuse_confidential([path])
