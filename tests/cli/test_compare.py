"""`tablepack compare` as people run it, with a builder of our own in the place of the real one."""

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
    """Run the command with the small builder."""
    app = typer.Typer()
    app.command()(compare_command)
    builder = Builder()
    with mock.patch("engine.release.build", lambda spec, path, **_: builder(spec, path)):
        return CliRunner().invoke(app, [str(w) for w in words]), builder


def test_it_prints_a_table_and_writes_both_files(spec, tmp_path):
    done, builder = run(spec, "--epsilon", "0.1,10", "--seeds", 1, "-o", tmp_path / "c.html")
    assert done.exit_code == 0, done.output
    assert len(builder.seen) == 4
    for name in ("sticky", "dp, epsilon 0.1", "dp, epsilon 10", "dp without noise"):
        assert name in done.stdout
    assert "CONFIDENTIAL, mode 0600" in done.stderr
    assert "defaults of mode dp" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.html", "c.json"]
    assert {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {0o600}


def test_risks_are_printed_beside_utility(spec, tmp_path):
    strangers = spec.parent / "small.csv"
    words = ("--epsilon", "10", "--seeds", 1, "--control", strangers, "-o", tmp_path / "c.html")
    done, _ = run(spec, *words)
    assert done.exit_code == 0, done.output
    for said in (
        "Attribute gain",
        "Membership AUC",
        "Beside sticky:",
        "dp, epsilon 10: rows misplaced",
    ):
        assert said in done.stdout
    assert "up to 2,000 of the data" in done.stderr


def test_json_is_the_file(spec, tmp_path):
    done, _ = run(spec, "--epsilon", "1", "--seeds", 1, "-o", tmp_path / "c.html", "--json")
    assert done.exit_code == 0, done.output
    assert done.stdout == (tmp_path / "c.json").read_text("utf-8")
    assert json.loads(done.stdout)["epsilons"] == [1.0]


@pytest.mark.parametrize("words", [("--epsilon", "x"), ("--epsilon", "-1"), ("--seeds", "0")])
def test_bad_options_build_nothing(spec, tmp_path, words):
    done, builder = run(spec, *words, "-o", tmp_path / "c.html")
    assert done.exit_code != 0
    assert type(done.exception).__name__ == "SpecError"
    assert not builder.seen
    assert not list(tmp_path.iterdir())


def test_the_real_builds_take_part(tmp_path):
    path = make_small(tmp_path, more="budget = 1.0\n")
    app = typer.Typer()
    app.command()(compare_command)
    words = [path, "--epsilon", "0.2,20", "--seeds", 1, "-o", tmp_path / "c.html", "--json"]
    done = CliRunner().invoke(app, [str(w) for w in words])
    assert done.exit_code == 0, done.output
    told = {
        (s["kind"], s["epsilon"]): s["median"]
        for s in json.loads(done.stdout)["summary"]
        if s["figure"] == "groups/tables.s_pmse_2"
    }
    assert told["dp", 0.2] > 3 * told["dp", 20.0]
    assert told["exact", None] < told["dp", 0.2]
    # The ledger of the spec's own key was never made: nothing was spent, though 20 is over its budget.
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == ["c.html", "c.json", "small.csv", "small.key", "small.toml"]


def stopped(spec, folder, tmp, with_signal) -> subprocess.CompletedProcess[str]:
    """Stop a comparison by a signal once a release of it lies in scratch."""
    started = subprocess.Popen(
        [*COMMAND, "compare", str(spec), "--epsilon", "1", "--seeds", "50", "-o", "c.html"],
        cwd=folder,
        env=environment(tmp),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + 60
    while not list(tmp.rglob("scratch.duckdb*")) and time.monotonic() < end:
        time.sleep(0.01)
    started.send_signal(with_signal)
    told = started.communicate(timeout=60)
    return subprocess.CompletedProcess([], started.returncode, *told)


@pytest.mark.parametrize("with_signal", [signal.SIGINT, signal.SIGTERM])
def test_a_comparison_that_is_stopped_leaves_nothing(spec, tmp_path, scratch, with_signal):
    before = sorted(p.name for p in spec.parent.iterdir())
    folder = tmp_path / "out"
    folder.mkdir()
    done = stopped(spec, folder, scratch, with_signal)
    assert done.returncode == 128 + with_signal, done.stderr
    assert "stopped" in done.stderr
    assert not left_over(scratch)
    assert not list(folder.iterdir())
    assert sorted(p.name for p in spec.parent.iterdir()) == before


def test_what_a_killed_comparison_left_is_swept_by_the_next_command(spec, tmp_path, scratch):
    done = stopped(spec, tmp_path, scratch, signal.SIGKILL)
    assert done.returncode == -signal.SIGKILL
    assert left_over(scratch), "a killed process cannot tidy up"
    with scratch_directory() as own:
        assert left_over(scratch) == [own.name]
    assert not left_over(scratch)


def test_levers_are_compared_and_nothing_of_dp_is_built(spec, tmp_path):
    strangers = spec.parent / "small.csv"
    words = ("--levers", "--control", strangers, "-o", tmp_path / "c.html")
    done, builder = run(spec, *words)
    assert done.exit_code == 0, done.output
    assert {one.mode for one, _ in builder.seen} == {"sticky"}
    assert len(builder.seen) == 7
    assert "noise layers of sd 4: rows misplaced +" in done.stdout
    assert "declares no swap" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.html", "c.json"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--levers", "--epsilon", "1"), "is for several generators"),
        (("--levers", "--seeds", "0"), "wants 1 to 50"),
    ],
)
def test_options_of_the_other_comparison_are_refused(spec, tmp_path, words, said):
    done, builder = run(spec, *words, "-o", tmp_path / "c.html")
    assert type(done.exception).__name__ == "SpecError"
    assert said in str(done.exception)
    assert not builder.seen
