from __future__ import annotations

import copy
import datetime as dt
import os
import pickle
import stat
import traceback
from hashlib import blake2b

import numpy as np
import pytest
from fixtures.measure import KEY, STICKY, key_number
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import DataError, SpecError, StoreError
from engine.key_files import check_key_file, new_key, read_key
from engine.keys import KEY_BYTES, MasterKey, entity_tokens, pack_strings, row_tokens, typed_id

SECRET = bytes(range(32))
PURPOSES = ("entity", "entity-set", "suppression", "label", "sampling", "fingerprint")
IDS = [0, "", False, True, 1, "1", 1.0, -1, 2**63, "é", b"1", 0.0, b"", dt.date(1970, 1, 1)]
IDS += [dt.datetime(1970, 1, 1), "1970-01-01", float("inf")]


def test_known_answers():
    assert KEY.id == "8e6a96fd365c3056"
    assert (
        KEY.derive("entity", "2024").hex()
        == "f19c7a6af34892d518fdc5409c22de443d8bc2744adc3097647d5281424cc6c8"
    )
    assert (
        KEY.derive("label", "2024", ("AGE", "SEX")).hex()
        == "3a766b65eec86d503ae0941367df034da0cc3d5fb1f83e135bd8a90c92e92909"
    )
    assert (
        KEY.derive("sampling", "2024", ()).hex()
        == "3e32906abe02b46ae729494ddf873557df5f2978d3dac86aebf6aa9125dc1e0f"
    )
    tokens = entity_tokens(KEY.derive("entity", "2024"), [0, "", False, "é"], entity_column="id")
    assert [[f"{lane:016x}" for lane in token] for token in tokens.tolist()] == [
        ["191e5c65280e1225", "e03417d1dbf93ee3"],
        ["16004f8a5862de59", "88b7985ab0b8ee1f"],
        ["b0b20359c0100695", "39c5cfc5a62552be"],
        ["644ea88e54b53a12", "6d75e5b43d3975ce"],
    ]
    rows = row_tokens(
        KEY.derive("entity", "2024"),
        np.array([[1, 2], [1, 2], [2, 1]], dtype=np.uint64),
        np.array([1, 2, 1], dtype=np.uint64),
    )
    assert [[f"{lane:016x}" for lane in token] for token in rows.tolist()] == [
        ["8307c21228b28d6f", "b6f42663829d474f"],
        ["9330a57853e34faf", "0a9ec1d9c28af0e0"],
        ["882d2f5500ec1116", "232578d72590c354"],
    ]


def test_tokens_are_keyed_blake2b_of_a_length_prefixed_message():
    key = KEY.derive("entity", "2024")
    message = (2).to_bytes(8, "little") + b"id" + (2).to_bytes(8, "little") + b"s1"
    digest = blake2b(message, key=key, digest_size=16, person=b"tablepack").digest()
    token = entity_tokens(key, ["1"], entity_column="id")
    assert token.tobytes() == digest
    assert token.dtype == np.uint64
    assert token.shape == (1, 2)


def test_ids_of_different_types_are_different_entities():
    assert len({typed_id(i) for i in IDS}) == len(IDS)
    tokens = entity_tokens(bytes(32), IDS, entity_column="id")
    assert len({tuple(t) for t in tokens.tolist()}) == len(IDS)
    assert typed_id(-0.0) == typed_id(0.0)
    assert entity_tokens(bytes(32), [], entity_column="id").shape == (0, 2)


simple_ids = st.one_of(
    st.integers(), st.text(), st.booleans(), st.binary(), st.floats(allow_nan=False), st.dates()
)


@settings(max_examples=50)
@given(simple_ids, simple_ids)
def test_typed_ids_are_injective(a, b):
    same = type(a) is type(b) and a == b
    assert (typed_id(a) == typed_id(b)) == same


@settings(max_examples=50)
@given(st.lists(st.text()), st.lists(st.text()))
def test_packed_strings_are_injective(a, b):
    assert (pack_strings(a) == pack_strings(b)) == (a == b)


def test_another_column_another_vintage_another_key_another_token():
    key = KEY.derive("entity", "2024")
    seen = [
        entity_tokens(key, [1], entity_column="person"),
        entity_tokens(key, [1], entity_column="household"),
        entity_tokens(KEY.derive("entity", "2025"), [1], entity_column="person"),
        entity_tokens(key_number(7).derive("entity", "2024"), [1], entity_column="person"),
    ]
    assert len({t.tobytes() for t in seen}) == 4


@pytest.mark.parametrize("null", [None, float("nan")])
def test_null_ids_are_refused_without_a_number(null):
    with pytest.raises(DataError, match="null") as caught:
        entity_tokens(bytes(32), [5, null], entity_column="id")
    assert not any(ch.isdigit() for ch in str(caught.value))


def test_ids_of_unknown_types_are_refused():
    with pytest.raises(DataError, match="entity id"):
        typed_id([1])


def test_derived_keys_differ_by_purpose_vintage_columns_and_key():
    seen = [KEY.derive(p, "v") for p in PURPOSES]
    seen += [
        KEY.derive("label", v, c) for v in ("v", "w") for c in ((), ("a",), ("a", "b"), ("ab",))
    ]
    seen += [KEY.derive("label", "va", ()), key_number(1).derive("label", "v")]
    assert len(set(seen)) == len(seen)
    assert {len(k) for k in seen} == {32}


def test_a_key_hides_itself():
    for shown in (repr(KEY), str(KEY), f"{KEY}", repr([KEY]), repr(STICKY)):
        assert SECRET.hex() not in shown
        assert repr(SECRET) not in shown
    assert repr(KEY) == "MasterKey(hidden)"
    assert not hasattr(KEY, "__dict__")
    for way in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="never pickled"):
            way(KEY)
    with pytest.raises(TypeError, match="never pickled"):
        pickle.dumps(STICKY)


@pytest.mark.parametrize("length", [0, 31, 33])
def test_a_key_has_32_bytes(length):
    with pytest.raises(SpecError, match="exactly 32 bytes"):
        MasterKey(bytes(length))


def test_new_key(tmp_path):
    path = tmp_path / "key"
    before = os.umask(0)
    try:
        name = new_key(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(path.read_bytes()) == KEY_BYTES
    assert check_key_file(path) == []
    assert read_key(path).id == name
    assert new_key(tmp_path / "other") != name
    assert len(name) == 16


def test_a_key_is_never_overwritten(tmp_path):
    path = tmp_path / "key"
    path.write_bytes(b"x")
    with pytest.raises(StoreError, match="never overwritten"):
        new_key(path)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StoreError, match="never overwritten"):
        new_key(tmp_path / "link")
    assert path.read_bytes() == b"x"
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(StoreError, match="cannot write"):
        new_key(tmp_path / "no" / "folder")


def test_half_a_key_is_not_left_behind(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        new_key(tmp_path / "key")
    assert not (tmp_path / "key").exists()


def key_file(tmp_path, content=SECRET, mode=0o600):
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o610])
def test_a_key_that_others_can_reach_is_refused(tmp_path, mode):
    with pytest.raises(SpecError, match="read by others"):
        read_key(key_file(tmp_path, mode=mode))


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_a_key_of_another_length_is_refused(tmp_path, length):
    with pytest.raises(SpecError, match="exactly 32 bytes"):
        read_key(key_file(tmp_path, bytes(length)))


def test_anything_but_a_regular_file_is_refused(tmp_path):
    path = key_file(tmp_path)
    (tmp_path / "link").symlink_to(path)
    (tmp_path / "folder").mkdir(mode=0o700)
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("link", "folder", "pipe"):
        with pytest.raises(SpecError, match="not a regular file"):
            read_key(tmp_path / name)
    with pytest.raises(SpecError, match="does not exist"):
        read_key(tmp_path / "missing")
    (tmp_path / "moved.journal").touch()  # a new key would draw fresh noise for the same people
    with pytest.raises(SpecError, match=r"does not exist; moved\.journal"):
        read_key(tmp_path / "moved")
    with pytest.raises(SpecError, match="below"):
        read_key(path / "below")


def test_a_key_of_another_user_is_refused(tmp_path, monkeypatch):
    path = key_file(tmp_path)
    monkeypatch.setattr(os, "getuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(SpecError, match="another user"):
        read_key(path)


def test_a_key_that_cannot_be_read_is_refused(tmp_path, monkeypatch):
    path = key_file(tmp_path)

    def denied(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(SpecError, match="cannot be read"):
        read_key(path)


def test_all_faults_are_named_and_no_byte_of_the_key(tmp_path):
    path = key_file(tmp_path, b"CANARY" * 5, mode=0o644)
    with pytest.raises(SpecError) as caught:
        read_key(path)
    assert len(caught.value.problems) == 2
    shown = "".join(traceback.format_exception(caught.value))
    assert "CANARY" not in shown
