"""Forged releases: every way to open one refuses every one of `tests/forged`, at once, and reads nothing outside it."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from fixtures.forged import CANARY, FORGERIES, forge, good_release
from typer.testing import CliRunner

from engine.cli.app import app
from engine.errors import DamagedRelease, StoreError
from engine.evaluation.data.reading import read_release, released_columns
from queries.release import open_release

pytestmark = pytest.mark.hostile
SECONDS = 10
"""That a refusal may take, on a busy machine."""


def command(*words):
    """Run a command in this process; raise what it raised, or what it ended with."""

    def run(path: Path, folder: Path):
        said = CliRunner().invoke(
            app, [w.format(path=path, folder=folder / f"out-{words[0]}") for w in words]
        )
        if said.exception is not None and not isinstance(said.exception, SystemExit):
            raise said.exception
        if said.exit_code:
            raise StoreError(f"exit {said.exit_code}: {said.output}")
        return said.output

    return run


def serve(path: Path, folder: Path):
    pytest.importorskip("fastapi")
    from fixtures.serve import served

    from queries.serve import app_of

    with served(app_of(path)):
        pass


OPENINGS = {
    "open_release": lambda path, folder: open_release(path).close(),
    "show": command("show", "{path}"),
    "show --json": command("show", "{path}", "--json"),
    "sql": command("sql", "{path}", "SELECT count(*) FROM data"),
    "export": command("export", "{path}", "{folder}"),
    "publish": command("publish", "{path}", "{folder}"),
    "doctor": command("doctor", "{path}"),
    "read": lambda path, folder: read_release(path),
    "types": lambda path, folder: released_columns(path),
    "serve": serve,
}


ALL = [name for name in OPENINGS if name not in ("show --json", "types")]
"""What every forgery is tried with; the others open in the same way, and are tried with the good one."""


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return good_release(tmp_path_factory.mktemp("good"))


@pytest.mark.parametrize("recipe", FORGERIES, ids=[f.stem for f in FORGERIES])
def test_every_opening_refuses(recipe, good, tmp_path):
    forged = forge(recipe, good, tmp_path)
    before = sorted(p.name for p in tmp_path.iterdir())
    for name in forged.only or ALL:
        start = time.monotonic()
        with pytest.raises(StoreError) as refused:
            OPENINGS[name](forged.path, tmp_path)
        said = str(refused.value)
        assert time.monotonic() - start < SECONDS, name
        assert re.search(forged.says, " ".join(said.split())), (name, said)
        assert CANARY not in said
        assert len(said) < 2000
        assert isinstance(refused.value, DamagedRelease) or "exit 6" in said, name
        assert sorted(p.name for p in tmp_path.iterdir()) == before, name


def test_the_good_one_is_opened_by_all(good, tmp_path):
    for name, opening in OPENINGS.items():
        opening(good, tmp_path / name.replace(" ", ""))


def test_there_are_sixty():
    assert len(FORGERIES) >= 60
