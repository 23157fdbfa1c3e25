"""`./scripts/test` runs every check, or one folder's tests."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys

import pytest
from fixtures.pipeline import ROOT

CHECKS = ["ruff format --check .", "ruff check .", "mypy "]
TOGETHER = "-n auto --dist loadfile --no-loadscope-reorder"


@pytest.fixture
def checkout(tmp_path):
    """A checkout whose tools say how they are called."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts", ignore=shutil.ignore_patterns("*.py"))
    (tmp_path / "tests" / "fit").mkdir(parents=True)
    tools = tmp_path / ".venv" / "bin"
    tools.mkdir(parents=True)
    for name in ("python", "ruff", "mypy"):
        (tools / name).write_text('#!/bin/sh\necho "${0##*/} $*"\n')
        (tools / name).chmod(0o700)
    for name in ("pyproject.toml", "constraints.txt", ".venv/installed-dev"):
        (tmp_path / name).touch()
    return tmp_path


def called(checkout, *words, ci="", **env):
    """What `./scripts/test` calls; its exit code and what it said."""
    done = subprocess.run(
        [checkout / "scripts" / "test", *words],
        env={**os.environ, "CI": ci, **env},
        capture_output=True,
        text=True,
    )
    return done.stdout.splitlines(), done.returncode, done.stderr


def test_all_checks(checkout):
    fast = f"python -m pytest -m not slow {TOGETHER}"
    assert called(checkout) == ([*CHECKS, fast], 0, "")
    assert called(checkout, "-k", "x") == ([*CHECKS, f"{fast} -k x"], 0, "")
    whole = f"python -m pytest {TOGETHER}"
    assert called(checkout, "--all") == ([*CHECKS, whole], 0, "")


@pytest.mark.parametrize("folder", ["fit", "tests/fit"])
def test_one_folder(checkout, folder):
    fast = f"python -m pytest -m not slow {TOGETHER} tests/fit"
    assert called(checkout, folder) == ([fast], 0, "")
    assert called(checkout, "--all", folder, "-x") == (
        [f"python -m pytest {TOGETHER} tests/fit -x"], 0, "",
    )  # fmt: skip
    assert called(checkout, folder, ci="true") == (
        [f"python -m pytest {TOGETHER} tests/fit"], 0, "",
    )  # fmt: skip


def test_a_folder_that_is_not_there(checkout):
    lines, code, message = called(checkout, "fitt")
    assert (lines, code) == ([], 2)
    assert "no tests in tests/fitt" in message
    assert "fit/" in message


def test_what_python_compiles_is_kept(checkout):
    """Else each of some thousand processes would compile our modules anew."""
    (checkout / ".venv/bin/python").write_text(
        '#!/bin/sh\necho "keeps${PYTHONDONTWRITEBYTECODE-}"\n'
    )
    assert called(checkout, "fit", PYTHONDONTWRITEBYTECODE="1") == (["keeps"], 0, "")


def test_what_is_installed_for_the_tests_is_not_installed_again(checkout):
    words = ["bash", "-c", ". scripts/environment; ensure_environment evaluate,dp", "scripts/demo"]
    done = subprocess.run(words, cwd=checkout, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (checkout / ".venv/installed-dev").unlink()
    done = subprocess.run(words, cwd=checkout, capture_output=True, text=True)
    assert done.stdout.startswith("python -m pip install")
    assert (checkout / ".venv/installed-evaluate,dp").exists()


@pytest.mark.slow
def test_scripts_that_take_arguments_say_which(monkeypatch, capsys):
    texts = {p: p.read_text("utf-8") for p in sorted((ROOT / "scripts").glob("*.py"))}
    scripts = [p for p, text in texts.items() if "ArgumentParser" in text and "__main__" in text]
    assert len(scripts) > 20
    for script in scripts:
        monkeypatch.setattr(sys, "argv", [script.name, "--help"])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(script), run_name="__main__")
        assert ended.value.code == 0, script.name
        assert "usage" in capsys.readouterr().out, script.name
