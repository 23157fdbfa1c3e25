from __future__ import annotations

import json
import os
import stat
import threading
from dataclasses import replace

import pytest

from engine.errors import PrivacyError, StoreError
from engine.source import pin_vintage
from engine.source.journal import VintageState, journal_path, pinned_identity

STATE = VintageState(
    draws="2024",
    entities=("person", "household"),
    identity=(),
    privacy="aa",
    encodings={"AGE": "e1", "SEX": "e2"},
    contents={"": "c0", "AGE": "c1", "SEX": "c2"},
)


@pytest.fixture
def key(tmp_path):
    return tmp_path / "my.key"


def test_the_first_build_pins(key):
    assert pinned_identity(key, "2024") is None
    pin_vintage(key, "2024", replace(STATE, identity=("AGE",)))
    path = journal_path(key)
    assert path == key.with_name("my.key.journal")
    assert pinned_identity(key, "2024") == ("AGE",)
    assert pinned_identity(key, "2025") is None
    written = path.read_text()
    pin_vintage(key, "2024", replace(STATE, identity=("AGE",)))
    assert path.read_text() == written


@pytest.mark.parametrize("mask", [0, 0o77])
def test_only_we_may_read_it(key, mask):
    before = os.umask(mask)
    try:
        pin_vintage(key, "2024", STATE)
    finally:
        os.umask(before)
    for path in key.parent.iterdir():
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
def test_every_difference_is_refused_and_changes_nothing(key, what):
    pin_vintage(key, "2024", STATE)
    before = journal_path(key).read_text()
    said = what.replace("the order of", "the")
    with pytest.raises(PrivacyError, match=said) as caught:
        pin_vintage(key, "2024", replace(STATE, **DIFFERENCES[what]))
    assert "release.vintage" in str(caught.value)
    assert caught.value.exit_code == 3
    assert journal_path(key).read_text() == before
    pin_vintage(key, "2025", replace(STATE, **DIFFERENCES[what]))
    pin_vintage(key, "2024", STATE)


def test_new_columns_are_added_and_then_pinned(key):
    pin_vintage(key, "2024", STATE)
    wider = replace(
        STATE, encodings={**STATE.encodings, "ZIP": "e3"}, contents={**STATE.contents, "ZIP": "c3"}
    )
    pin_vintage(key, "2024", wider)
    pin_vintage(key, "2024", STATE)  # fewer columns: still the same state, nothing forgotten
    with pytest.raises(PrivacyError, match="column ZIP"):
        pin_vintage(key, "2024", replace(wider, contents={"ZIP": "c9"}))


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "null", "[]", "7", '"x"', "{}", '{"format": 1}', '{"format": 2, "vintages": {}}',
        '{"format": 1, "vintages": []}', '{"format": 1, "vintages": {"2024": 5}}',
        '{"format": 1, "vintages": {"2024": {}}}',
    ],
)  # fmt: skip
def test_a_journal_that_cannot_be_read_is_never_taken_for_an_empty_one(key, text):
    journal_path(key).write_text(text)
    for attempt in (lambda: pin_vintage(key, "2024", STATE), lambda: pinned_identity(key, "2024")):
        with pytest.raises(StoreError, match="cannot be read; restore it, or use a new key"):
            attempt()
    assert journal_path(key).read_text() == text


def test_a_full_disk_leaves_the_old_journal(key, monkeypatch):
    pin_vintage(key, "2024", STATE)
    before = journal_path(key).read_text()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="cannot write the journal"):
        pin_vintage(key, "2025", STATE)
    assert journal_path(key).read_text() == before


def test_two_builds_pin_one_after_the_other(key):
    threads = [threading.Thread(target=pin_vintage, args=(key, f"v{i}", STATE)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entries = json.loads(journal_path(key).read_text())["vintages"]
    assert sorted(entries) == sorted(f"v{i}" for i in range(12))


def test_it_holds_only_names_and_digests(key):
    pin_vintage(key, "2024", STATE)
    entry = json.loads(journal_path(key).read_text())["vintages"]["2024"]
    named = {"draws", "entities", "identity", "order", "privacy", "encodings", "contents"}
    assert set(entry) == named
