"""`tablepack compare`, mostly with a stand-in for the builder."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import time
from unittest import mock

import pytest
import typer
from fixtures.compare import Builder, make_small
from fixtures.pipeline import COMMAND, environment, left_over
from typer.testing import CliRunner

from engine.cli.evaluate import compare_command
from engine.source import scratch_directory

pytest.importorskip("sklearn")
pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")


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


def test_modes_are_compared_with_risks(spec, tmp_path):
    words = ("--epsilon", "0.1,10", "--seeds", 1, "--control", spec.parent / "small.csv")
    done, builder = run(spec, *words, "-o", tmp_path / "c.html")
    assert done.exit_code == 0, done.output
    assert len(builder.seen) == 4
    for name in ("sticky", "dp, epsilon 0.1", "dp, epsilon 10", "dp without noise"):
        assert name in done.stdout
    assert "Attribute gain" in done.stdout
    assert "Membership AUC" in done.stdout
    assert "CONFIDENTIAL, mode 0600" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.html", "c.json"]
    assert {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {0o600}


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
    medians = {
        (s["kind"], s["epsilon"]): s["median"]
        for s in json.loads(done.stdout)["summary"]
        if s["figure"] == "groups/tables.s_pmse_2"
    }
    assert medians["dp", 0.2] > 3 * medians["dp", 20.0]
    assert medians["exact", None] < medians["dp", 0.2]
    # No ledger was made for the key of the spec, although 20 exceeds its budget.
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == ["c.html", "c.json", "small.csv", "small.key", "small.toml"]


def stopped(spec, folder, tmp, how) -> subprocess.CompletedProcess[str]:
    """Stop a comparison by a signal once a release of it is in scratch."""
    started = subprocess.Popen(
        [*COMMAND, "compare", str(spec), "--epsilon", "1", "--seeds", "50", "-o", "c.html"],
        cwd=folder,
        env=environment(tmp),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not list(tmp.rglob("scratch.duckdb*")) and started.poll() is None:
        time.sleep(0.01)
    started.send_signal(how)
    out, err = started.communicate(timeout=60)
    return subprocess.CompletedProcess([], started.returncode, out, err)


def test_a_stopped_comparison_leaves_nothing(spec, tmp_path, scratch):
    before = sorted(p.name for p in spec.parent.iterdir())
    folder = tmp_path / "out"
    folder.mkdir()
    done = stopped(spec, folder, scratch, signal.SIGTERM)
    assert done.returncode == 143, done.stderr
    assert not left_over(scratch)
    assert not list(folder.iterdir())
    assert sorted(p.name for p in spec.parent.iterdir()) == before


def test_what_a_killed_comparison_left_is_removed_by_the_next_command(spec, tmp_path, scratch):
    done = stopped(spec, tmp_path, scratch, signal.SIGKILL)
    assert done.returncode == -signal.SIGKILL
    assert left_over(scratch), "a killed process cannot clean up"
    with scratch_directory() as own:
        assert left_over(scratch) == [own.name]
    assert not left_over(scratch)
