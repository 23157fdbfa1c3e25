"""The installed package is complete: the list of packages, the files of a wheel, `import tablepack`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from fixtures.pipeline import ROOT

import engine

BUILD = "import sys, setuptools.build_meta as backend; print(backend.build_wheel(sys.argv[1]))"
FROM_WHEEL = """
import sys
import tablepack as tp, engine
assert not {"numpy", "duckdb", "pandas"} & set(sys.modules)
assert dir(tp) == dir(engine) == sorted(tp.__all__)
assert all(getattr(tp, name) is getattr(engine, name) for name in tp.__all__)
try:
    tp.nonsense
except AttributeError as error:
    print(tp.__version__, tp.__file__, error, sep="\\n")
"""


def as_installed(path: Path) -> str:
    """The path of a file of the checkout in an installation."""
    name = path.relative_to(ROOT).as_posix()
    return name.removeprefix("engine/") if name.startswith("engine/tablepack/") else name


def product_files() -> set[str]:
    """All files of the product except documents."""
    return {
        as_installed(path)
        for top in ("engine", "queries")
        for path in (ROOT / top).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".md"
    }


def test_pyproject_lists_every_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    folders = {name.rpartition("/")[0] for name in product_files() if name.endswith(".py")}
    listed = project["tool"]["setuptools"]["packages"]
    assert sorted(listed) == sorted(folder.replace("/", ".") for folder in folders)
    assert project["project"]["scripts"] == {"tablepack": "engine.cli:main"}


def test_extra_dev_includes_all_other_extras():
    """So that scripts which need an extra install nothing more."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    names = {extra: {one.partition(">=")[0] for one in listed} for extra, listed in extras.items()}
    assert set().union(*names.values()) == names["dev"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel, built from a copy of the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("engine", "queries"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    done = subprocess.run(
        [sys.executable, "-c", BUILD, folder], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.splitlines()[-1]


@pytest.mark.ci
def test_a_wheel_has_every_file(wheel):
    with zipfile.ZipFile(wheel) as held:
        names = {n for n in held.namelist() if ".dist-info/" not in n}
    assert names == product_files()
    assert {"tablepack/__init__.py", "engine/py.typed", "queries/serve/web/index.html"} <= names


@pytest.mark.ci
def test_import_tablepack(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as held:
        held.extractall(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", FROM_WHEEL],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    version, place, error = done.stdout.splitlines()
    assert version == engine.__version__
    assert Path(place).is_relative_to(tmp_path)
    assert error == "module 'tablepack' has no attribute 'nonsense'"
