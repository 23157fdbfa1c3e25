"""The README is true: its commands exist and run, and the files it names exist."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
import tomllib
from pathlib import Path

import duckdb
import pytest
from fixtures.pipeline import ROOT, demo_text, make_census, tablepack
from typer.main import get_command

from engine.cli.app import app

MACHINE_PATH = re.compile(r"(?<![\w.:/])/(?:home|mnt|opt|srv|Users)/")
README = (ROOT / "README.md").read_text(encoding="utf-8")
CODE = "\n".join(
    p.read_text(encoding="utf-8")
    for part in ("engine", "queries")
    for p in (ROOT / part).rglob("*.py")
)


def shell_commands(text: str) -> list[list[str]]:
    """Words of every `tablepack ...` line in an indented or fenced block, with or without a prompt."""
    lines = re.findall(
        r"^(?: {4,}|)(?:\$ )?(tablepack .*)$", text.replace("\\\n", " "), re.MULTILINE
    )
    return [shlex.split(line, comments=True)[1:] for line in lines]


def demo_commands() -> list[list[str]]:
    """Words of every command that ./scripts/demo runs or recommends."""
    text = (ROOT / "scripts" / "demo").read_text().replace("\\\n", " ").replace("$people", "2000")
    ran = re.findall(r"^run (.*)$", text, re.MULTILINE)
    suggested = re.findall(r'^echo "  \.venv/bin/tablepack (.*?)(?: {3,}.*)?"$', text, re.MULTILINE)
    return [shlex.split(line.replace('\\"', '"')) for line in (*ran, *suggested)]


def parsed(words: list[str]) -> None:
    """Parse a command without running it; raises the usage error of the command line."""
    command, rest = get_command(app), words
    while hasattr(command, "commands"):
        assert rest, words
        assert rest[0] in command.commands, f"no command {rest[0]}"
        with command.make_context("tablepack", list(rest)) as context:
            _, command, rest = command.resolve_command(context, list(rest))
    command.make_context("tablepack", list(rest))


def test_commands_are_found_in_the_readme():
    names = {words[0] for words in shell_commands(README)}
    assert {"simulate", "init", "key", "plan", "build", "sql", "evaluate"} <= names
    assert len(demo_commands()) >= 8


@pytest.mark.parametrize("words", shell_commands(README), ids=" ".join)
def test_every_command_of_the_readme_is_valid(words):
    parsed(words)


@pytest.mark.parametrize("words", demo_commands(), ids=" ".join)
def test_every_command_of_the_demo_is_valid(words):
    parsed(words)


@pytest.mark.parametrize(
    "words", [["build", "a.toml", "--nonsense"], ["show"], ["export", "r.duckdb"]]
)
def test_invalid_commands_are_detected(words):
    with pytest.raises(Exception, match=r"nonsense|Missing"):
        parsed(words)


@pytest.mark.ci
def test_the_tour_runs(tmp_path):
    """Every command of the README in its order, on fewer people; one of them is meant to be refused."""
    tour = tmp_path / "releases" / "tour"
    tour.mkdir(parents=True)
    (tour / "release.toml").write_text(demo_text())  # as `cp` in the README does
    shutil.copy(ROOT / "releases" / "demo-pack.toml", tour.parent)
    for words in shell_commands(README):
        fewer = ["1200" if word == "20000" else word for word in words]
        done = tablepack(*fewer, cwd=tmp_path)
        refused = "carer, sex" in done.stderr
        assert done.returncode == (5 if refused else 0), (words, done.stderr)
    assert (tour / "detected.toml").exists()
    assert list((tour / "csv").iterdir())
    with duckdb.connect(str(tour / "census.duckdb"), read_only=True) as con:
        for name in set(re.findall(r"`catalog\.(\w+)`", README)):
            assert con.execute(f"SELECT count(*) FROM catalog.{name}").fetchone()[0]
        assert con.execute('SELECT count(*) FROM "age.sex"').fetchone()[0]


def test_the_key_of_the_tour_is_that_of_its_spec():
    assert "\n    $ cp releases/demo.toml releases/tour/release.toml\n" in README
    (made,) = (words[2] for words in shell_commands(README) if words[:2] == ["key", "new"])
    spec = (ROOT / "releases" / "demo.toml").read_text(encoding="utf-8")
    named = tomllib.loads(spec)["release"]["key"]
    assert Path("releases/tour", named) == Path(made)


@pytest.mark.ci
def test_the_python_of_the_readme_runs(tmp_path, monkeypatch):
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert blocks
    monkeypatch.chdir(tmp_path)
    # Environments made before the package `tablepack` find it where pyproject.toml places it.
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT / "engine")])
    make_census(tmp_path / "releases/tour/census", people=1_200)
    for block in blocks:
        names = {}
        exec(compile(block, "README.md", "exec"), names)
        names["release"].close()


def test_no_path_of_a_developer_s_machine():
    for path in [ROOT / "README.md", ROOT / "pyproject.toml", *(ROOT / "scripts").iterdir()]:
        if path.is_file():
            assert not MACHINE_PATH.search(path.read_text(encoding="utf-8")), path
    assert not MACHINE_PATH.search(CODE)
