"""Hostile text, and the names of rows and entities."""

from __future__ import annotations

import os
import pty
import re
import subprocess

import pytest
from fixtures.names import NAMES
from fixtures.pipeline import COMMAND, environment, read_terminal, tablepack
from fixtures.release import build_release

from engine.texts import names_from, names_text, parsed_json, parsed_toml, shown
from engine.units import (
    ENTITIES,
    PEOPLE,
    ROWS,
    Unit,
    Words,
    declared_unit,
    unit_from_json,
    unit_of,
    units_for,
)

DEEP = "[" * 5000 + "]" * 5000
HOSTILE = "\x1b[31mred\x1b]0;title\x07\u202eevil\u2066\x9b1m\r\x08\u2028"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    build_release(folder / "r.duckdb")
    (folder / "deep.toml").write_text(f"title = 'x'\nx = {DEEP}")
    (folder / "long.toml").write_text("\n\n[privacy]\nwarn_at = " + "9" * 5000)
    (folder / "bytes.toml").write_bytes(b"[release]\n# \xff\n")
    (folder / "data.csv").write_text("a,b\n1,2\n")
    return folder


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("deep.toml", ("plan", "{}")),
        ("long.toml", ("plan", "{}")),
        ("bytes.toml", ("plan", "{}")),
        ("deep.toml", ("compare", "{}", "-o", "c.html")),
        ("bytes.toml", ("publish", "r.duckdb", "pack", "--spec", "{}")),
        (
            "long.toml",
            ("evaluate", "data.csv", "--data", "data.csv", "--spec", "{}", "-o", "e.html"),
        ),
    ],
)
def test_hostile_documents_end_with_2_and_a_place(folder, words, name):
    done = tablepack(*(word.format(name) for word in words), cwd=folder)
    assert done.returncode == 2, done.stderr
    line = {"deep.toml": "line 2", "long.toml": "line 4", "bytes.toml": "byte|position"}[name]
    assert any(place in done.stderr for place in line.split("|")), done.stderr
    assert name in done.stderr
    assert "bug" not in done.stderr


def test_json_that_is_too_deep_or_has_long_numbers():
    with pytest.raises(ValueError, match="100 levels"):
        parsed_json(DEEP)
    with pytest.raises(ValueError, match="digits"):
        parsed_json("[1,\n" + "9" * 5000 + "]")
    assert parsed_json("[1]") == [1]
    assert parsed_toml("a = 1") == {"a": 1}


def test_arguments_that_are_not_utf_8(folder):
    done = subprocess.run(
        [*COMMAND, b"sql", b"r.duckdb", b"SELECT \xff"],
        cwd=folder, env=environment(), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2
    assert re.search("argument 3: .*UTF-8", done.stderr)


def test_control_characters_are_escaped():
    assert shown("Größe\t1\n日本 👩‍👩‍👧") == "Größe\t1\n日本 👩‍👩‍👧"
    assert shown(HOSTILE) == (
        "\\x1b[31mred\\x1b]0;title\\x07\\u202eevil\\u2066\\x9b1m\\r\\x08\\u2028"
    )
    assert shown("\ud800") == "\\ud800"


CHARS = "||".join(f"chr({ord(c)})" for c in HOSTILE)
NAME = HOSTILE.replace('"', "")
STATEMENTS = {
    "value": f"SELECT {CHARS} AS x",
    "wide": f"SELECT repeat({CHARS}, 40) AS x",
    "name": f'SELECT 1 AS "{NAME}"',
    "refusal": f'SELECT "{NAME}" FROM data',
}
BY_DEFAULT = {("table", "value")}


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        pytest.param(form, kind, marks=() if (form, kind) in BY_DEFAULT else pytest.mark.slow)
        for form in ("table", "csv", "json", "markdown")
        for kind in STATEMENTS
    ],
)
def test_no_value_of_a_release_controls_the_terminal(folder, form, kind):
    """Nor does a column's name, a table that is too wide, or the words of a refusal."""
    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        [*COMMAND, "sql", "r.duckdb", STATEMENTS[kind], "--format", form], cwd=folder,
        env=environment(NO_COLOR="1"), stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    text = read_terminal(ours).decode()
    assert running.wait() in (0, 5)
    for char in "\x07\u202e\u2066\x9b\x08\u2028":
        assert char not in text
    assert "\x1b[31m" not in text
    assert "\x1b]0" not in text


@pytest.mark.parametrize("separator", [",", ", "])
@pytest.mark.parametrize("name", NAMES)
def test_a_list_of_names_is_read_as_it_is_written(name, separator):
    for names in ([name], ["age", name], [name, "age"], list(NAMES)):
        assert names_from(names_text(names, separator)) == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("age,sex", ["age", "sex"]),
        (" age , sex ,", ["age", "sex"]),
        ('"income, net",age', ["income, net", "age"]),
        ('" lead" , "q""q"', [" lead", 'q"q']),
        ('q"q,5",x', ['q"q', '5"', "x"]),
        ('"open,x', ['"open', "x"]),
        (",,", []),
    ],
)
def test_lists_of_names_are_as_in_a_line_of_csv(text, names):
    assert names_from(text) == names
    assert names_from(text, known=[text]) == [text]


def declared(raw):
    problems: list[str] = []
    return declared_unit(raw, "release.unit", problems), problems


@pytest.mark.parametrize(
    ("many", "one"),
    [
        ("stays", "stay"),
        ("people", "person"),
        ("deliveries", "delivery"),
        ("crashes", "crashe"),
        ("branches", "branch"),
        ("boxes", "box"),
        ("addresses", "address"),
        ("cattle", "cattle"),
    ],
)
def test_the_singular_follows_from_the_plural(many, one):
    unit, problems = declared(many)
    assert (unit.one, unit.many, problems) == (one, many, [])


def test_a_section_gives_words_by_language():
    unit, problems = declared(
        {"one": "stay", "many": "stays", "de": {"one": "Aufenthalt", "many": "Aufenthalte"}}
    )
    assert problems == []
    assert unit.words["de"] == Words(one="Aufenthalt", many="Aufenthalte")
    assert unit.counted(1) == "1 stay"
    assert unit.counted(1204) == "1,204 stays"
    assert unit_from_json(unit.to_json()) == unit


@pytest.mark.parametrize(
    "raw",
    [
        7,
        {1: {"one": "a", "many": "b"}},
        "",
        " ",
        "a\nb",
        "x" * 61,
        {},
        {"one": "stay"},
        {"one": 1, "many": "stays"},
        {"de": {"many": "Aufenthalte"}},
        {"many": "stays", "German": {"many": "Aufenthalte"}},
        {"many": "stays", "de": {"plural": "Aufenthalte"}},
        {"many": "stays", "de": 3},
    ],
)
def test_invalid_units_are_refused_with_their_place(raw):
    unit, problems = declared(raw)
    assert unit is None
    assert len(problems) == 1
    assert problems[0].startswith("release.unit")


@pytest.mark.parametrize(
    "text", ["", "[]", "7", '{"many": "stays"}', '{"de": {"many": "x"}}', "NaN"]
)
def test_other_json_is_not_read(text):
    with pytest.raises(ValueError, match=r"not a unit|Expecting"):
        unit_from_json(text)


STAYS = unit_of("stay", "stays")


@pytest.mark.parametrize(
    ("unit", "entity", "entities", "is_row_each", "called"),
    [
        (None, None, (), True, (ROWS, ENTITIES)),
        (STAYS, None, (), True, (STAYS, STAYS)),
        (None, None, ("person_id",), True, (PEOPLE, PEOPLE)),
        (None, None, ("PersonId",), True, (PEOPLE, PEOPLE)),
        (None, None, ("pid",), True, (ROWS, ENTITIES)),
        (None, None, ("person_id",), False, (ROWS, PEOPLE)),
        (None, None, ("patnr",), False, (ROWS, ENTITIES)),
        (STAYS, None, ("patnr",), False, (STAYS, ENTITIES)),
        (STAYS, PEOPLE, ("patnr",), False, (STAYS, PEOPLE)),
        (PEOPLE, None, (), True, (PEOPLE, PEOPLE)),
        (None, PEOPLE, ("x",), True, (PEOPLE, PEOPLE)),
    ],
)
def test_rows_are_people_only_if_that_is_known(unit, entity, entities, is_row_each, called):
    assert units_for(unit, entity, entities=entities, is_row_each=is_row_each) == called


def test_the_rows_of_a_release_that_counts_entities_are_entities():
    given = {"entities": ("patnr",), "is_row_each": False, "count": "entities"}
    patients = unit_of("patient", "patients")
    assert units_for(STAYS, patients, **given) == (patients, patients)
    assert units_for(STAYS, None, **given) == (ENTITIES, ENTITIES)


def test_entities_in_each_value_of_a_column_are_pairs():
    given = {"entities": ("patnr",), "is_row_each": False, "count": "entities", "each": "ward"}
    pairs = unit_of("pair of entity and ward", "pairs of entity and ward")
    assert units_for(STAYS, None, **given) == (pairs, ENTITIES)
    patients = Unit(
        words={
            "en": Words(one="patient", many="patients"),
            "de": Words(one="Patient", many="Patienten"),
            "fr": Words(one="patient", many="patients"),
        }
    )
    unit, entity = units_for(None, patients, **given)
    assert entity == patients
    assert unit.counted(1204) == "1,204 pairs of patient and ward"
    assert unit.words["de"] == Words(
        one="Paar aus Patient und ward", many="Paare aus Patient und ward"
    )
    assert unit.words["fr"].many == "patient × ward"
    assert unit_from_json(unit.to_json()) == unit
    long, _ = units_for(None, patients, **given | {"each": "w" * 60})
    assert (long.many, long.words["fr"].one) == ("pairs", "×")
    assert unit_from_json(long.to_json()) == long
