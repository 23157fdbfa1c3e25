"""`tablepack compare`, mostly with a stand-in for the builder."""

from __future__ import annotations

import json
import stat
from unittest import mock

import pytest
import typer
from fixtures.compare import Builder, make_small
from typer.testing import CliRunner

from engine.cli.evaluate import compare_command

pytest.importorskip("sklearn")
pytest.importorskip("jinja2")


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    return make_small(tmp_path_factory.mktemp("cli"), dp="")


def run(*words: object):
    """Run the command with the stand-in."""
    app = typer.Typer()
    app.command()(compare_command)
    builder = Builder()
    with mock.patch("engine.release.build", lambda spec, path, **_: builder(spec, path)):
        return CliRunner().invoke(app, [str(w) for w in words]), builder


@pytest.mark.ci
@pytest.mark.parametrize("with_risks", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_modes_are_compared(spec, tmp_path, with_risks):
    control = ("--control", spec.parent / "small.csv") if with_risks else ()
    words = ("--epsilon", "10", "--seeds", 1, *control, "-o", tmp_path / "c.html")
    done, builder = run(spec, *words)
    assert done.exit_code == 0, done.output
    assert len(builder.seen) == 3
    for name in ("sticky", "dp, epsilon 10", "dp without noise"):
        assert name in done.stdout
    if with_risks:
        assert "Attribute gain" in done.stdout
        assert "Membership AUC" in done.stdout
    assert "CONFIDENTIAL, mode 0600" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.html", "c.json"]
    assert {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {0o600}


@pytest.mark.slow
def test_settings_of_sticky_mode_are_compared(spec, tmp_path):
    words = ("--levers", "--control", spec.parent / "small.csv", "-o", tmp_path / "c.html")
    done, builder = run(spec, *words, "--json")
    assert done.exit_code == 0, done.output
    assert {one.mode for one, _ in builder.seen} == {"sticky"}
    assert len(builder.seen) == 7
    assert done.stdout == (tmp_path / "c.json").read_text("utf-8")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.html", "c.json"]


@pytest.mark.parametrize(
    "words",
    [
        ("--epsilon", "x"),
        ("--epsilon", "-1"),
        ("--seeds", "0"),
        ("--levers", "--epsilon", "1"),
        ("--levers", "--seeds", "0"),
        ("--study", "s.toml"),
        ("--areas", "region"),
    ],
)
def test_bad_options_build_nothing(spec, tmp_path, words):
    done, builder = run(spec, *words, "-o", tmp_path / "c.html")
    assert type(done.exception).__name__ == "SpecError"
    assert not builder.seen
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_real_builds_spend_nothing_of_the_budget(tmp_path):
    path = make_small(tmp_path, more="budget = 1.0\n")
    app = typer.Typer()
    app.command()(compare_command)
    words = [path, "--epsilon", "0.2,20", "--seeds", 1, "-o", tmp_path / "c.html", "--json"]
    done = CliRunner().invoke(app, [str(w) for w in words])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    kinds = {one["name"]: (one["kind"], one["epsilon"]) for one in told["generators"]}
    medians = {
        kinds[row["subject"]]: row["value"]
        for row in told["frame"]
        if (row["measure"], row["by"]) == ("groups/tables.s_pmse_2", "")
    }
    assert medians["dp", 0.2] > 3 * medians["dp", 20.0]
    assert medians["exact", None] < medians["dp", 0.2]
    # No ledger was made for the key of the spec, although 20 exceeds its budget.
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == ["c.html", "c.json", "small.csv", "small.key", "small.toml"]
