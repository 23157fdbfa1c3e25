"""Evaluation from Python, from the files to the report: every way in, and what may change no figure."""

from __future__ import annotations

import json
import re
import stat

import pandas as pd
import pyarrow as pa
import pytest
from fixtures.evaluate import CANARY, World, shuffled

import engine
import engine.store.opening
from engine.errors import DataError, SpecError
from engine.evaluation.report.verdicts import is_confidential
from engine.evaluation.runner import at_full_size, names_of
from engine.evaluation.study import read_study

pytest.importorskip("sklearn")
pytest.importorskip("jinja2")


def figures(*synthetic, world: World, place: int = 0, **more) -> dict[str, float]:
    told = {"data": world.data, "spec": world.study} | more
    return engine.evaluate(*synthetic, **told).results[place].figures()


@pytest.fixture(scope="module")
def evaluated(world):
    """The CSV by itself."""
    return engine.evaluate(world.csv, data=world.data, spec=world.study)


@pytest.fixture(scope="module")
def alone(evaluated):
    """Its figures."""
    return evaluated.results[0].figures()


@pytest.mark.ci
def test_an_evaluation_shows_figures_and_nothing_of_the_original(evaluated):
    found = evaluated
    name, figure = next(iter(found.results[0].figures().items()))
    for text in (repr(found), found._repr_html_()):
        assert name in text
        assert f"{figure:g}" in text
        assert "CONFIDENTIAL" in text
        assert "DataFrame" not in text


# Every way in.


@pytest.mark.ci
def test_a_release_is_evaluated_and_written(world, tmp_path):
    said = []
    found = engine.evaluate(
        world.release,
        data=world.data,
        spec=world.study,
        out=tmp_path / "r.html",
        progress=lambda *told: said.append(told),
    )
    (one,) = found.results
    assert (one.subject.name, one.subject.kind) == ("ours", "release")
    assert len(one.aligned.tables) == 8
    assert found.title == "A short study"
    got = one.figures()
    assert got["univariate.median_composite_error"] < 5
    assert got["marginals.score"] > 800
    for attack in ("uniques", "apparent_match", "attribution", "identification", "linkage"):
        assert attack in one.risks
    told = json.loads((tmp_path / "r.json").read_text("utf-8"))
    own = [row for row in told["frame"] if row["subject"] == "ours"]
    assert {row["measure"]: row["value"] for row in own}.items() >= got.items()
    for name in ("r.html", "r.json"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
        assert is_confidential(tmp_path / name)
    stages = [stage for stage, _, _ in said]
    assert stages[0] == "reading"
    assert stages[-1] == "writing the report"
    assert all(done <= total or not total for _, done, total in said)
    for part in ("measuring", "sampling", "attacking"):
        assert any(stage.startswith(f"ours: {part}") for stage in stages)


@pytest.mark.ci
def test_the_same_rows_score_the_same_from_anywhere_and_beside_other_subjects(world, alone):
    """A file, a table of Arrow, the data as a frame, the study as read, another subject first: no figure changes."""
    arrow = pa.Table.from_pandas(world.synthetic)
    found = engine.evaluate(
        shuffled(world.original, 9, 300),
        arrow,
        world.parquet,
        data=world.original,
        spec=read_study(world.study),
    )
    for result in found.results[1:]:
        assert result.figures() == pytest.approx(alone, nan_ok=False)


@pytest.mark.slow
def test_a_release_spec_says_how_to_read_and_the_rest_is_chosen(world):
    found = engine.evaluate(world.csv, data=world.data, spec=world.spec)
    bare = engine.evaluate(world.csv, data=world.data)
    for one in (found, bare):
        assert any("no study was declared" in note for note in one.notes)
        assert one.results[0].figures()["marginals.score"] > 0
    assert list(found.study.order["sex"]) == ["Female", "Male"]


@pytest.mark.slow
def test_data_that_are_not_read_as_the_build_did_are_doubted(world):
    """Many incomes are spelled -8, as where a build reads that as a blank: the release has no such value."""
    is_third = pd.Series(range(len(world.original)), index=world.original.index) % 3 == 0
    people = world.original.assign(income=world.original["income"].mask(is_third, -8))

    def doubts(run, **more):
        notes = run(world.release, **more).notes
        assert not any("-8" in note for note in notes)
        return [note for note in notes if "does not have" in note]

    for run in (engine.evaluate, engine.attack):
        (found,) = doubts(run, data=people)
        assert found.startswith("income: many rows of the data have a value that the release does")
        assert "--spec" in found
    assert not doubts(engine.attack, data=world.data)
    assert not doubts(engine.attack, data=people, spec=world.spec), "who gives it is told nothing"


@pytest.mark.slow
def test_sets_of_one_synthesis_are_means_and_combined_estimates(world):
    sets = [shuffled(world.original, seed) for seed in (5, 6, 7)]
    apart = engine.evaluate(*sets, data=world.data, spec=world.study)
    (one,) = engine.evaluate(*sets, data=world.data, spec=world.study, together=True).results
    assert one.subject.name == "3 sets: table 1, table 2, table 3"
    for name in ("univariate.median_composite_error", "marginals.score", "uniques.replicated"):
        mean = sum(r.figures()[name] for r in apart.results) / 3
        assert one.figures()[name] == pytest.approx(mean)
    combined = one.scores["estimates"].breakdown.iloc[0]
    means = [r.scores["estimates"].breakdown["synthetic"].iloc[0] for r in apart.results]
    alone = [r.scores["estimates"].breakdown["se_synthetic"].iloc[0] for r in apart.results]
    assert combined["synthetic"] == pytest.approx(sum(means) / 3)
    assert combined["se_synthetic"] != pytest.approx(alone[0], rel=1e-6), "of all sets"


@pytest.mark.ci
def test_a_control_takes_the_place_of_the_held_out_half(world, alone):
    found = engine.evaluate(world.csv, data=world.data, spec=world.study, control=world.control)
    (one,) = found.results
    notes = " ".join(note for risk in one.risks.values() for note in risk.notes)
    assert "no control rows were given" not in notes
    controls = [risk.control for risk in one.risks.values() if risk.control is not None]
    assert controls
    assert all(0 < rate.n <= 400 * 10 for rate in controls)
    kept = {k: v for k, v in one.figures().items() if k.split(".")[0] in one.scores}
    assert {k: alone[k] for k in kept} == kept, "a control changes no measure of utility"


# What changes no figure.


@pytest.mark.slow
def test_the_seed_decides(world, alone):
    assert figures(world.csv, world=world, seed=2021) == alone
    other = figures(world.csv, world=world, seed=1)
    assert other != alone
    assert other["univariate.largest_absolute_error"] == alone["univariate.largest_absolute_error"]


# Names.


def test_subjects_of_one_name_are_told_apart(tmp_path):
    assert names_of(["a/x.csv", "b/x.parquet", "y.csv.gz"]) == ["a/x", "b/x", "y"]
    same = names_of(["a/x.csv", "a/x.csv", pd.DataFrame(), "x.csv"])
    assert len(set(same)) == 4


# What is wrong is said, before anything is measured, and tells nothing of the data.


def test_nothing_to_evaluate(world):
    with pytest.raises(SpecError, match="at least one"):
        engine.evaluate(data=world.data)
    with pytest.raises(SpecError, match="'half'"):
        engine.evaluate(world.csv, data=world.data, spec=world.study, combining="half")


def test_errors_hold_no_value(world, tmp_path):
    odd = world.original.assign(income=CANARY)
    path = tmp_path / "odd.csv"
    odd[["income"]].to_csv(path, index=False)
    with pytest.raises(DataError) as told:
        figures(path, world=world)
    assert CANARY not in str(told.value)
    broken = tmp_path / "broken.study.toml"
    broken.write_text("title = [")
    with pytest.raises(SpecError, match=r"broken\.study\.toml"):
        figures(world.csv, world=world, spec=broken)


# What may be published.


@pytest.mark.ci
def test_a_publishable_report_holds_no_value_count_or_path(world, tmp_path):
    n = 1_237
    data = world.original.head(n).assign(region=CANARY, age=lambda f: f["age"] + 31_415)
    study = tmp_path / "s.study.toml"
    study.write_text(world.study.read_text())
    more = {"data": data, "spec": study}
    data.to_csv(tmp_path / f"{CANARY}.csv", index=False)
    synthetic = shuffled(data, 1, 333)
    engine.evaluate(synthetic, **more, out=tmp_path / "p.html", publishable=True)
    engine.evaluate(synthetic, **more, out=tmp_path / "c.html")
    texts = {p: (tmp_path / p).read_text("utf-8") for p in ("p.html", "p.json", "c.html", "c.json")}
    secrets = (CANARY, "31415", "31,415", str(n), f"{n:,}", "333", str(tmp_path))
    for name in ("p.html", "p.json"):
        for secret in secrets:
            assert not re.search(rf"(?<![0-9a-f]){re.escape(secret)}(?![0-9a-f])", texts[name]), (
                secret
            )
    assert CANARY in texts["c.html"], "the control: it is there to be found"
    told = json.loads(texts["p.json"])
    values = [row["value"] for row in told["frame"]]
    assert len(values) > 10
    assert all(float(f"{v:.2g}") == v for v in values)


def test_a_sample_is_the_scale_as_if_it_were_as_large_as_the_original(evaluated):
    """Unscaled, a 40 % sample is off by 60 % of every count, and any release would look good beside it."""
    (one,) = evaluated.results
    scale = one.scale["univariate"].values
    assert scale["median_composite_error"] == scale["scaled_median_composite_error"]
    assert scale["median_composite_error"] < 40
    assert at_full_size(one.scores["correlations"]).values == one.scores["correlations"].values
