"""`tablepack compare` as people run it, with a builder of our own in the place of the real one."""

from __future__ import annotations

import json
import stat
from unittest import mock

import pytest
import typer
from compare_fixture import Builder, make_small
from typer.testing import CliRunner

from engine.cli_compare import compare_command

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
    assert "defaults of dp mode" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.html", "c.json"]
    assert {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {0o600}


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
