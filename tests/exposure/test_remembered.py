"""A tally as bytes: what is recalled counts as what was measured; and the file of it beside a key."""

from __future__ import annotations

import errno
import os
import stat
import threading

import numpy as np
import pytest
from attacks.trials import trial_of_rows

from engine.errors import InternalError
from engine.exposure import Figures, Remembered, Tally, all_worst, packed, tables_mu2
from engine.keys import MasterKey
from engine.source import keep_tally, kept_tally

KEY = MasterKey(bytes(range(32)))
TABLES = [("a", "b"), ("a", "b", "c"), ("b", "c"), ("a", "b", "c", "d")]


@pytest.fixture(scope="module")
def trees():
    rng = np.random.default_rng(8)
    codes = {name: rng.integers(0, n, 700) for name, n in (("a", 3), ("b", 6), ("c", 2), ("d", 5))}
    return trial_of_rows(codes, TABLES, 3).measurements


def tally_of(trees, memory=None, recalled=()):
    tally = Tally(5)
    for columns, tree in trees.items():
        if columns in recalled:
            memory.recall(columns, tally)
        else:
            tally.add(tree)
    return tally


def told(tally):
    return [
        (one.group, one.node, one.told, one.people, one.figures.tolist(), one.cells.tolist())
        for one in all_worst(Figures(tally))
    ]


def test_recalled_tables_count_like_measured_ones(trees):
    whole = tally_of(trees)
    memory = Remembered(packed(whole))
    wider = [columns for columns in trees if len(columns) > 1]
    assert memory.tables == frozenset(wider)
    for left_out in [(), *((one,) for one in wider)]:
        again = tally_of(trees, memory, {*wider} - {*left_out})
        assert told(again) == told(whole)
        assert tables_mu2(again, 1) == tables_mu2(whole, 1)
        assert packed(again) == packed(whole)  # what was recalled can be kept again


def test_another_threshold_needs_the_measurements(trees):
    whole = tally_of(trees)
    again = tally_of(trees, Remembered(packed(whole)), [("a", "b", "c")])
    assert told(whole.raised(8))
    with pytest.raises(InternalError, match="a, b, c: counted, but not measured here"):
        again.raised(8)


def test_a_tally_of_columns_alone(trees):
    alone = tally_of({columns: tree for columns, tree in trees.items() if len(columns) < 2})
    assert Remembered(packed(alone)).tables == frozenset()


def test_the_file_beside_a_key(tmp_path):
    key = tmp_path / "my.key"
    path = tmp_path / "my.key.tally"
    assert kept_tally(key, KEY, "recipe") is None
    keep_tally(key, KEY, "recipe", b"counts")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert kept_tally(key, KEY, "recipe") == b"counts"
    assert kept_tally(key, KEY, "another recipe") is None
    assert kept_tally(key, MasterKey(bytes(32)), "recipe") is None
    written = path.read_bytes()
    for place in (0, 30, len(written) - 1):
        path.write_bytes(written[:place] + bytes([written[place] ^ 1]) + written[place + 1 :])
        assert kept_tally(key, KEY, "recipe") is None
    path.write_bytes(written[:-1])
    assert kept_tally(key, KEY, "recipe") is None
    keep_tally(key, KEY, "recipe", b"more")
    assert kept_tally(key, KEY, "recipe") == b"more"


def test_another_file_of_that_name_stays(tmp_path):
    path = tmp_path / "my.key.tally"
    path.write_text("votes counted on Sunday")
    keep_tally(tmp_path / "my.key", KEY, "recipe", b"counts")
    assert path.read_text() == "votes counted on Sunday"
    assert kept_tally(tmp_path / "my.key", KEY, "recipe") is None


def test_a_tally_that_cannot_be_written_fails_no_build(tmp_path, monkeypatch):
    """The disk is full: the one before stays, whole, and nothing half written beside it."""
    key = tmp_path / "my.key"
    keep_tally(key, KEY, "recipe", b"counts")

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        keep_tally(key, KEY, "recipe", b"more")
    assert kept_tally(key, KEY, "recipe") == b"counts"
    assert {p.name for p in tmp_path.iterdir()} == {"my.key.tally", "my.key.tally.lock"}
    keep_tally(tmp_path / "nowhere" / "my.key", KEY, "recipe", b"more")
    assert not (tmp_path / "nowhere").exists()


def test_builds_that_end_at_once_write_one_after_the_other(tmp_path, monkeypatch):
    """Both write the same name on the way: without a lock one would put the other's half in place."""
    from engine.source import files

    at_work, most, real = [], [], files.replace_file

    def slow(path, data, what, *more):
        at_work.append(what)
        most.append(len(at_work))
        started.wait(0.2)  # longer than the others take to come here
        real(path, data, what, *more)
        at_work.pop()

    started = threading.Event()
    monkeypatch.setattr(files, "replace_file", slow)
    key = tmp_path / "my.key"
    builds = [
        threading.Thread(target=keep_tally, args=(key, KEY, "recipe", bytes([n]) * 9))
        for n in range(3)
    ]
    for build in builds:
        build.start()
    for build in builds:
        build.join()
    assert most == [1, 1, 1]
    assert kept_tally(key, KEY, "recipe") in {bytes([n]) * 9 for n in range(3)}


def test_a_tally_that_is_too_large_is_not_kept(tmp_path, monkeypatch):
    from engine.source import files

    monkeypatch.setattr(files, "MOST_OF_TALLY", 5)
    keep_tally(tmp_path / "my.key", KEY, "recipe", b"counts")
    assert not (tmp_path / "my.key.tally").exists()


@pytest.mark.parametrize("widest", [2, 3, 4])
def test_forgotten_tables_tell_the_same_and_hold_no_bucket(trees, widest):
    trees = {columns: tree for columns, tree in trees.items() if len(columns) <= widest}
    unsplit = {one for one in trees if not any({*one} < {*other} for other in trees)}
    tally, whole = Tally(5), tally_of(trees)
    for tree in trees.values():
        tally.add(tree)
        tally.forget(unsplit)
    assert told(tally) == told(whole)
    assert tables_mu2(tally, 1) == tables_mu2(whole, 1)
    assert not unsplit & {*tally.groups}
    with pytest.raises(InternalError, match="counted, but not measured here"):
        tally.raised(8)
