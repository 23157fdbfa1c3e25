"""Forged releases: each one in `tests/forged` is refused, by every way to open one, and reads nothing outside it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fixtures.forged import CANARY, FORGERIES, forge
from fixtures.tiny import tiny_release
from typer.testing import CliRunner

from engine.cli.app import app
from engine.errors import DamagedRelease, StoreError
from engine.evaluation.data.reading import read_release, released_columns
from queries.release import open_release

pytestmark = pytest.mark.hostile


def command(*words):
    """Run a command in this process; raise the error it ended with."""

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
"""The others open in the same way as one of these."""
ONE_OF_EACH_KIND = (
    *("manifest_nested", "schema", "view_over_csv", "release_title_long", "table_noise_nan"),
    *("count_endless", "card_nested"),
)
"""Manifest, structure, sizes, facts, counts and cards: all openings that can see it are tried with these."""
SLOW = {
    *("notes_long", "codes_many"),  # seconds to make
    *(f"view_over_{what}" for what in "blob glob text settings environment range".split()),
    *(f"view_with_{what}" for what in "a_union recursion other_names".split()),
    *(f"macro_hides_{what}" for what in "len sum count".split()),
    *(f"table_noise_{what}" for what in "infinite missing negative".split()),
    *(f"code_{what}" for what in "kind negative count_negative".split()),
    *(
        "range_backwards",
        "range_without_noise",
        "swap_number",
        "privacy_word",
        "table_rows_negative",
    ),
    *("column_type_unknown", "catalog_of_other_types", "count_missing", "count_negative"),
}
"""Large forgeries, and those that the same check as another's refuses."""
MARKS = {name: (pytest.mark.slow,) for name in SLOW} | dict.fromkeys(ONE_OF_EACH_KIND, ())


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return tiny_release(tmp_path_factory.mktemp("good") / "r.duckdb")


def check_refused(recipe, good, folder, openings):
    forged = forge(recipe, good, folder)
    before = sorted(p.name for p in folder.iterdir())
    for name in forged.only[-len(openings) :] or openings:
        with pytest.raises(StoreError) as refused:
            OPENINGS[name](forged.path, folder)
        said = str(refused.value)
        assert re.search(forged.says, " ".join(said.split())), (name, said)
        assert CANARY not in said
        assert len(said) < 2000
        assert isinstance(refused.value, DamagedRelease) or "exit 6" in said, name
        assert sorted(p.name for p in folder.iterdir()) == before, name


@pytest.mark.parametrize(
    "recipe",
    [pytest.param(f, id=f.stem, marks=MARKS.get(f.stem, [pytest.mark.ci])) for f in FORGERIES],
)
def test_every_forgery_is_refused(recipe, good, tmp_path):
    check_refused(recipe, good, tmp_path, ["open_release"])


@pytest.mark.ci
@pytest.mark.parametrize("name", ONE_OF_EACH_KIND)
def test_every_opening_refuses(name, good, tmp_path):
    (recipe,) = (f for f in FORGERIES if f.stem == name)
    check_refused(recipe, good, tmp_path, ALL[1:])


@pytest.mark.slow
def test_the_good_one_is_opened_by_all(good, tmp_path):
    for name, opening in OPENINGS.items():
        opening(good, tmp_path / name.replace(" ", ""))


def test_there_are_sixty():
    assert len(FORGERIES) >= 60
    assert {f.stem for f in FORGERIES} >= {*SLOW, *ONE_OF_EACH_KIND}
