"""The table of commands agrees with the commands; help, version and `add` import little."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module

import pytest
from fixtures.pipeline import COMMAND, ROOT, environment
from typer.main import get_command, get_group

from engine.cli.app import COMMANDS, app, loaded

HEAVY = {"numpy", "duckdb", "pandas", "pydantic", "rich.progress"}


def test_the_table_lists_every_command_with_its_help():
    listed = get_command(app)
    assert [*COMMANDS] == listed.list_commands(None)
    for name in COMMANDS:
        real = loaded(name)
        assert real.name == name
        assert real.help.splitlines()[0] == listed.commands[name].help
    files = {
        p.stem
        for p in (ROOT / "engine" / "cli").glob("*.py")
        if "\ncommands = typer" in p.read_text()
    }
    assert {*COMMANDS.values()} == files
    for module in files:
        found = get_group(import_module(f"engine.cli.{module}").commands).commands
        assert set(found) == {name for name, of in COMMANDS.items() if of == module}


def test_help_and_version_import_next_to_nothing():
    code = (
        "import sys; from engine.cli.app import app\n"
        "for word in ('--help', '--version'):\n"
        "    try: app([word])\n"
        "    except SystemExit: pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    modules = set(done.stderr.split())
    assert "typer" in modules
    assert not modules & HEAVY
    ours = {m for m in modules if m.startswith(("engine.", "queries"))}
    assert ours == {"engine.cli", "engine.cli.app", "engine.errors", "engine.version"}


@pytest.mark.ci
def test_adding_a_table_imports_nothing_that_answers_queries_or_fits_wide_tables():
    code = (
        "import sys, engine.cli.amend, engine.release.sticky\n"
        "here = {*sys.modules}\n"
        "import engine.release.fitter, engine.release.fit_process\n"
        "print(*here, '|', *sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    here, there = (set(names.split()) for names in done.stdout.split("|"))
    assert {"engine.measure.sticky", "engine.fit.order", "engine.api.amend"} <= here
    slow = (
        "queries",
        "engine.fit.wide",
        "engine.fit.joint",
        "engine.measure.dp",
        "engine.release.dp",
    )
    slow += ("engine.release.planner", "rich.progress")
    slow += ("pandas", "pyarrow", "pyspark", "cryptography", "engine.evaluation")
    assert not {m for m in there if m.startswith(slow)}
    assert "engine.release.fitter" not in here


@pytest.mark.parametrize(
    ("asked", "is_seen"),
    [
        ({}, False),
        pytest.param({"PYDANTIC_DISABLE_PLUGINS": ""}, True, marks=pytest.mark.slow),
    ],
)
def test_third_party_pydantic_plugins_see_no_spec(asked, is_seen, tmp_path):
    """The second case shows that the planted plugin works: the environment can enable plugins."""
    about = tmp_path / "planted-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: planted\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[pydantic]\nplanted = planted:plugin\n")
    (tmp_path / "planted.py").write_text(
        f"open({str(tmp_path / 'seen')!r}, 'w').close()\n"
        "class Plugin:\n"
        "    def new_schema_validator(self, *given, **more): return None, None, None\n"
        "plugin = Plugin()\n"
    )
    given = environment(PYTHONPATH=f"{ROOT}{os.pathsep}{tmp_path}", **asked)
    if not asked:
        given.pop("PYDANTIC_DISABLE_PLUGINS", None)  # a command in this process sets it
    done = subprocess.run(
        [*COMMAND, "plan", "none.toml"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=given,
        check=False,
    )
    assert done.returncode == 2
    assert (tmp_path / "seen").exists() == is_seen
