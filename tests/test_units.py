"""Names of rows and entities: declared in a spec or derived from names of columns, and shown with figures."""

from __future__ import annotations

import pytest

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
