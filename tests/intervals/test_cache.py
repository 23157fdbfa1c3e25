"""Replays on disk: the same answers with and without them, and nothing that is torn, foreign or old is ever used."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest

from engine.schema import NULL_CODE
from queries.intervals import cache
from queries.intervals import replays as module
from queries.intervals.replays import replays
from queries.release import open_release
from queries.sql import Oversight

TABLE = ("age", "sex")
TEXT = "SELECT sex, avg(age) AS f FROM data GROUP BY sex ORDER BY sex"


@pytest.fixture
def path(large, tmp_path):
    """A release of its own, beside which nothing is kept yet."""
    out = tmp_path / "own" / large.path.name
    out.parent.mkdir(mode=0o700)
    for ending in ("", ".manifest.json"):
        shutil.copy(f"{large.path}{ending}", f"{out}{ending}")
    return out


@pytest.fixture
def drawn(monkeypatch):
    """Counts how often replays are drawn."""
    counted = []
    draw = module._drawn

    def counting(*given):
        counted.append(given[1].columns)
        return draw(*given)

    monkeypatch.setattr(module, "_drawn", counting)
    return counted


def answered(path, **how):
    with open_release(path, **how) as release:
        rows = release.sql(TEXT, intervals=True).rows
        return rows, [(r.codes, r.n) for r in replays(release, TABLE).of("replayed")]


def files(path):
    return sorted(path.parent.glob("*.replays/*"))


def same(one, other):
    (rows, variants), (others, of_others) = one, other
    assert rows == others
    for (codes, n), (other_codes, other_n) in zip(variants, of_others, strict=True):
        np.testing.assert_array_equal(n, other_n)
        for name in TABLE:
            np.testing.assert_array_equal(codes[name], other_codes[name])


def test_the_next_process_reads_what_the_first_drew(path, drawn):
    first = answered(path)
    (file,) = files(path)
    assert file.stat().st_mode & 0o777 == 0o600
    same(answered(path), first)
    assert drawn == [TABLE]


def torn(raw):
    return raw[: len(raw) // 2]


def turned(raw):
    """One bit of the middle."""
    at = len(raw) // 2
    return raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]


@pytest.mark.parametrize("fault", [torn, turned, lambda raw: b"", lambda raw: b"x" * 99])
def test_a_file_that_is_not_sound_is_drawn_again(path, drawn, fault):
    first = answered(path)
    (file,) = files(path)
    sound = file.read_bytes()
    file.write_bytes(fault(sound))
    same(answered(path), first)
    assert len(drawn) == 2
    assert file.read_bytes() == sound


def test_a_file_of_another_table_or_that_others_can_write_is_not_used(path, drawn):
    """Planted: replays of one table under the name of another's."""
    first = answered(path)
    (file,) = files(path)
    with open_release(path) as release:
        replays(release, ("region", "sex"))
    (other,) = {*files(path)} - {file}
    shutil.copy(other, file)
    same(answered(path), first)
    os.chmod(file, 0o622)
    same(answered(path), first)
    assert drawn.count(TABLE) == 3


def test_other_code_draws_again(path, drawn, monkeypatch):
    first = answered(path)
    monkeypatch.setattr(cache, "_code", lambda: "another")
    same(answered(path), first)
    assert len(drawn) == 2


def test_beside_a_folder_of_others_the_users_own_is_used(path, drawn, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path.parent.chmod(0o777)
    first = answered(path)
    assert not files(path)
    assert len([*(tmp_path / "cache" / "tablepack" / "replays").iterdir()]) == 1
    same(answered(path), first)
    assert drawn == [TABLE]


def test_sessions_of_untrusted_users_touch_no_file(path, drawn):
    oversight = Oversight(look=lambda plan: None, is_stopped=lambda: False)
    first = answered(path, oversight=oversight)
    assert not files(path)
    same(answered(path), first)
    same(answered(path, oversight=oversight), first)
    assert len(drawn) == 3


def test_what_was_used_longest_ago_goes_first(path, monkeypatch):
    with open_release(path) as release:
        replays(release, TABLE)
        (oldest,) = files(path)
        monkeypatch.setattr(cache, "MOST_BYTES", oldest.stat().st_size + 10)
        os.utime(oldest, (1, 1))
        replays(release, ("region", "sex"))
    (left,) = files(path)
    assert left != oldest


def test_blanks_and_placeholders_keep_their_codes(path):
    """Codes far from all others, in the smallest type that numbers them."""
    rows = module.WeightedRows(codes={"x": np.array([5, NULL_CODE, 7])}, n=np.array([1, 2, 3]))
    stack, counts = module.stacked(("x",), [[rows], []])
    assert counts == (1, 0)
    again = module.joined(stack, stack).rows(1)
    np.testing.assert_array_equal(again.codes["x"], [5, NULL_CODE, 7])
