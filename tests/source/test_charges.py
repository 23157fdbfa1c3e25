"""The ledger of exposure: what counts against a build, whatever name it comes under."""

from __future__ import annotations

import json
import stat

import pytest

from engine.errors import StoreError
from engine.source import (
    Charge,
    Sketch,
    add_charge,
    begin_charges,
    charges,
    charges_path,
    history,
)

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
