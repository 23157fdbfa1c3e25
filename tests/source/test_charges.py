"""The ledger of exposure, the journal beside a key and sketches of who is in a source."""

from __future__ import annotations

import json
import os
import stat
import threading
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from fixtures.measure import KEY

from engine.errors import PrivacyError, StoreError
from engine.schema import Column, SourceSpec
from engine.source import (
    Charge,
    Sketch,
    add_charge,
    begin_charges,
    charges,
    charges_path,
    history,
    open_source,
    pin_vintage,
    scratch_directory,
)
from engine.source.entities import SIZE, sketch_of
from engine.source.ingest import ingest
from engine.source.journal import VintageState, journal_path, read_journal
from engine.source.scratch import confidential_connection

TABLES = frozenset({("a", "b"), ("a", "c")})
CONTENTS = {"": "c0", "a": "c1", "b": "c2", "c": "c3"}


def sketch(first=0, n=200, of=("id",), named=True) -> Sketch:
    """Of n consecutive ids; whole, so of all of them."""
    return Sketch(of=of, named=named, hashes=tuple(range(first, first + n)), size=max(n, 201))


def charge(vintage="2024", *, tables=(("a", "b"),), exposure=0.2, **more) -> Charge:
    fields = {"draws": vintage, "title": "t", "sketch": sketch(), "contents": CONTENTS, **more}
    return Charge(vintage=vintage, tables=tables, pairs=(((), "b", exposure),), **fields)


@pytest.fixture
def key(tmp_path):
    path = tmp_path / "my.key"
    begin_charges(path)
    return path


def past(
    key,
    vintage="2024",
    *,
    draws=None,
    of=None,
    tables=TABLES,
    contents=None,
    shapes=None,
    copies=None,
    columns="abcdyz",
    unit=(),
):
    return history(
        key,
        vintage=vintage,
        draws=draws or vintage,
        contents=contents or CONTENTS,
        sketch=of or sketch(),
        shapes=shapes or {},
        copies=copies or {},
        tables=tables,
        columns=set(columns),
        unit=unit,
    )


def test_a_column_under_another_name_adds_up(key):
    shapes = {"a": "s1", "b": "s2", "c": "s3"}
    add_charge(key, charge(shapes=shapes))
    add_charge(key, charge(tables=(("a", "c"),), shapes=shapes))
    renamed = {"z": "s1", "b": "s2", "y": "s1"}
    here = past(key, tables=frozenset({("b", "z")}), shapes=renamed)
    assert here.held == {("b", "y"), ("c", "y")}  # of several copies the first by name
    same = past(key, tables=frozenset({("b", "c")}), shapes=shapes)
    assert same.held == {("a", "b"), ("a", "c")}
    both = {**shapes, "z": "s1"}
    copied = past(key, tables=frozenset({("b", "z")}), shapes=both, copies={"a": "z"})
    assert copied.held == {("b", "z"), ("c", "z")}  # counted by what stands for both
    # Under other draws digests say nothing; a ledger of before has none.
    other = past(key, "2025", tables=frozenset({("b", "z")}), shapes=renamed)
    assert other.again == {("a", "b"): 1, ("a", "c"): 1}
    assert charges(key)[0].shapes == shapes


def test_a_key_that_built_nothing_has_no_history(key):
    found = past(key)
    assert (found.builds, found.known, found.held, found.looks) == (0, {}, frozenset(), 1)
    assert not found.is_known
    assert charges(key) == ()


def test_a_key_without_its_ledger_was_perhaps_used_before(tmp_path):
    bare = tmp_path / "copied.key"
    assert past(bare).looks == 2
    add_charge(bare, charge())
    assert past(bare).looks == 2
    assert past(bare, "2025").looks == 3


def test_it_is_read_as_written_and_closed_to_others(key):
    one = charge(accepted="why", tables=(("a", "b"), ("a", "c", "d")))
    add_charge(key, one)
    add_charge(key, charge("2025"))
    assert charges(key) == (one, charge("2025"))
    assert one.worst == 0.2
    assert stat.S_IMODE(charges_path(key).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("other", "builds", "looks"),
    [
        (sketch(first=1_000), 0, 1),  # other people
        (sketch(first=100), 1, 1),  # half of them
        (sketch(first=5), 1, 2),  # nearly all
        (sketch(of=("name",)), 1, 2),  # cannot be compared: taken for the same
        (sketch(first=1_000, named=False), 1, 2),
        (sketch(first=0, n=30), 1, 1),  # a city of the same country
        (sketch(first=1_000, n=30), 0, 1),  # of another one
        (sketch(first=1_000, n=5), 1, 1),  # too few to tell
    ],
)
def test_vintages_are_told_apart_by_who_is_in_them(key, other, builds, looks):
    add_charge(key, charge("2023", sketch=other))
    found = past(key, "2024")
    assert (found.builds, found.looks) == (builds, looks)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: "[]",
        lambda text: text.replace("0.2", "0.1"),
        lambda text: text.replace('"format": 1', '"format": 2'),
        lambda text: text[: len(text) // 2],
    ],
)
def test_a_damaged_ledger_is_refused(key, damage):
    add_charge(key, charge())
    path = charges_path(key)
    path.write_text(damage(path.read_text()))
    with pytest.raises(StoreError, match="cannot be read, or was changed by hand"):
        past(key)


def test_it_holds_names_and_numbers_only(key):
    add_charge(key, charge())
    raw = json.loads(charges_path(key).read_text())
    assert set(raw) == {"format", "is_whole", "charges", "digest"}
    assert set(raw["charges"][0]) == {
        *("vintage", "draws", "title", "tables", "pairs", "accepted", "contents", "sketch"),
        "shapes",
    }


def test_the_share_of_two_sketches_is_that_of_their_people():
    assert sketch().shared_with(sketch()) == 1
    assert sketch(n=0).shared_with(sketch(n=0)) == 0
    # 150 of 250 are in both: of the 201 smallest, those from 50 to 199.
    assert sketch().shared_with(sketch(first=50)) == 150 / 201
    assert sketch().shared_with(sketch(of=("x",))) is None


STATE = VintageState(
    draws="2024",
    entities=("person", "household"),
    identity=(),
    privacy="aa",
    encodings={"AGE": "e1", "SEX": "e2"},
    contents={"": "c0", "AGE": "c1", "SEX": "c2"},
)


@pytest.fixture
def pinned_key(tmp_path):
    return tmp_path / "my.key"


def test_the_first_build_pins(pinned_key):
    assert "2024" not in read_journal(pinned_key).vintages
    pin_vintage(pinned_key, "2024", replace(STATE, identity=("AGE",)))
    path = journal_path(pinned_key)
    assert path == pinned_key.with_name("my.key.journal")
    assert read_journal(pinned_key).vintages["2024"].identity == ("AGE",)
    assert "2025" not in read_journal(pinned_key).vintages
    written = path.read_text()
    pin_vintage(pinned_key, "2024", replace(STATE, identity=("AGE",)))
    assert path.read_text() == written


@pytest.mark.parametrize("mask", [0, 0o77])
def test_only_we_may_read_it(pinned_key, mask):
    before = os.umask(mask)
    try:
        pin_vintage(pinned_key, "2024", STATE)
    finally:
        os.umask(before)
    for path in pinned_key.parent.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


DIFFERENCES = {
    "the entity columns": {"entities": ("person",)},
    "the order of entity columns": {"entities": ("household", "person")},
    "the identity columns": {"identity": ("AGE",)},
    "the privacy parameters": {"privacy": "bb"},
    "the encoding of column AGE": {"encodings": {"AGE": "e9"}},
    "the content of column SEX": {"contents": {"SEX": "c9"}},
    "the entities or the number of rows": {"contents": {"": "c9"}},
}


@pytest.mark.parametrize("what", DIFFERENCES)
def test_every_difference_is_refused_and_changes_nothing(pinned_key, what):
    pin_vintage(pinned_key, "2024", STATE)
    before = journal_path(pinned_key).read_text()
    said = what.replace("the order of", "the")
    with pytest.raises(PrivacyError, match=said) as caught:
        pin_vintage(pinned_key, "2024", replace(STATE, **DIFFERENCES[what]))
    assert "release.vintage" in str(caught.value)
    assert caught.value.exit_code == 3
    assert journal_path(pinned_key).read_text() == before
    pin_vintage(pinned_key, "2025", replace(STATE, **DIFFERENCES[what]))
    pin_vintage(pinned_key, "2024", STATE)


def test_new_columns_are_added_and_then_pinned(pinned_key):
    pin_vintage(pinned_key, "2024", STATE)
    wider = replace(
        STATE, encodings={**STATE.encodings, "ZIP": "e3"}, contents={**STATE.contents, "ZIP": "c3"}
    )
    pin_vintage(pinned_key, "2024", wider)
    pin_vintage(pinned_key, "2024", STATE)  # fewer columns: still the same state, nothing forgotten
    with pytest.raises(PrivacyError, match="column ZIP"):
        pin_vintage(pinned_key, "2024", replace(wider, contents={"ZIP": "c9"}))


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "null", "[]", "7", '"x"', "{}", '{"format": 1}', '{"format": 2, "vintages": {}}',
        '{"format": 1, "vintages": []}', '{"format": 1, "vintages": {"2024": 5}}',
        '{"format": 1, "vintages": {"2024": {}}}',
    ],
)  # fmt: skip
def test_a_journal_that_cannot_be_read_is_never_taken_for_an_empty_one(pinned_key, text):
    journal_path(pinned_key).write_text(text)
    for attempt in (
        lambda: pin_vintage(pinned_key, "2024", STATE),
        lambda: read_journal(pinned_key).vintages["2024"].identity,
    ):
        with pytest.raises(StoreError, match="cannot be read; restore it, or use a new key"):
            attempt()
    assert journal_path(pinned_key).read_text() == text


def test_a_full_disk_leaves_the_old_journal(pinned_key, monkeypatch):
    pin_vintage(pinned_key, "2024", STATE)
    before = journal_path(pinned_key).read_text()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="cannot write the journal"):
        pin_vintage(pinned_key, "2025", STATE)
    assert journal_path(pinned_key).read_text() == before


def test_two_builds_pin_one_after_the_other(pinned_key):
    threads = [
        threading.Thread(target=pin_vintage, args=(pinned_key, f"v{i}", STATE)) for i in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entries = json.loads(journal_path(pinned_key).read_text())["vintages"]
    assert sorted(entries) == sorted(f"v{i}" for i in range(12))


def test_it_holds_only_names_and_digests(pinned_key):
    pin_vintage(pinned_key, "2024", STATE)
    entry = json.loads(journal_path(pinned_key).read_text())["vintages"]["2024"]
    named = {"draws", "entities", "identity", "order", "privacy", "encodings", "contents"}
    assert set(entry) == named


COLUMNS = tuple(
    Column(name=name, kind=kind, value_type=value)
    for name, kind, value in (("age", "integer", "integer"), ("job", "text", "text"))
)


def people(first: int, n: int) -> pd.DataFrame:
    ids = np.arange(first, first + n)
    return pd.DataFrame({"id": ids, "age": ids * 7 % 90, "job": [f"j{i * 31 % 997}" for i in ids]})


def sketched(frame: pd.DataFrame, *, entities=("id",), identity=(), key=KEY) -> Sketch:
    columns = COLUMNS
    if entities:
        columns = (*COLUMNS, Column(name="id", kind="integer", value_type="integer"))
    with scratch_directory() as folder:
        con = confidential_connection(folder)
        spec = SourceSpec(path=None, format="frame", entities=tuple(entities))
        ingested = ingest(con, open_source(con, spec, frame), columns, tuple(entities))
        return sketch_of(ingested, key, tuple(identity))


def test_row_order_and_further_rows_of_a_person_change_nothing():
    frame = people(0, 900)
    one = sketched(frame)
    assert one == sketched(frame.sample(frac=1, random_state=1))
    assert one == sketched(pd.concat([frame, frame.head(40)]))
    assert len(one.hashes) == SIZE
    assert list(one.hashes) == sorted(set(one.hashes))


@pytest.mark.parametrize("moved", [0, 1_000])
def test_the_share_of_people_in_both_is_estimated(moved):
    """Jaccard of two runs of 3,000 ids; a sketch of 512 is off by less than 5 sd = 0.11."""
    one, other = sketched(people(0, 3_000)), sketched(people(moved, 3_000))
    both = max(3_000 - moved, 0)
    assert one.shared_with(other) == pytest.approx(both / (6_000 - both), abs=0.11)


def test_rows_without_a_name_are_known_by_what_is_in_them():
    frame = people(0, 700).drop(columns="id")
    one = sketched(frame, entities=(), identity=("age", "job"))
    again = sketched(frame.sample(frac=1, random_state=2), entities=(), identity=("age", "job"))
    assert one == again
    assert not one.named
    changed = frame.assign(age=frame.age + 1)
    other = sketched(changed, entities=(), identity=("age", "job"))
    assert one.shared_with(other) < 0.1
