"""Outputs are written to a temporary file and renamed, never over a file that appeared meanwhile or through a link."""

from __future__ import annotations

import os
import stat

import pytest
from fixtures.pipeline import KEY

from engine.errors import StoreError
from engine.outputs import output_file, output_folder, write_output


def test_what_appears_meanwhile_stays(tmp_path):
    out = tmp_path / "a.csv"
    with pytest.raises(StoreError, match="exists"), output_file(out) as part:  # noqa: PT012
        part.write_text("mine")
        out.write_text("theirs")
    assert out.read_text() == "theirs"
    (tmp_path / "k").write_bytes(KEY)
    with pytest.raises(StoreError, match="is a key"), output_file(out, force=True) as part:  # noqa: PT012
        part.write_text("mine")
        (tmp_path / "k").replace(out)
    assert out.read_bytes() == KEY
    assert list(tmp_path.iterdir()) == [out]


def test_a_file_that_appears_at_the_last_moment_stays(tmp_path, monkeypatch):
    """Between the last check and the renaming."""
    out = tmp_path / "a.csv"
    monkeypatch.setattr("engine.outputs._sync", lambda part: None)
    calls = []

    def check(path, **_):
        calls.append(path)
        if len(calls) == 2:
            out.write_text("theirs")

    monkeypatch.setattr("engine.outputs.check_output", check)
    with pytest.raises(StoreError, match="appeared"):
        write_output(out, "mine")
    assert out.read_text() == "theirs"


def test_a_name_is_taken_once_without_hard_links_too(tmp_path, monkeypatch):
    """As on some network and memory-card file systems."""
    out = tmp_path / "a.csv"

    def link(part, there):
        raise PermissionError("no hard links here")

    monkeypatch.setattr("engine.outputs.os.link", link)
    write_output(out, "mine")
    assert out.read_text() == "mine"
    out.unlink()

    def appearing(part, there):
        out.write_text("theirs")
        raise PermissionError("no hard links here")

    monkeypatch.setattr("engine.outputs.os.link", appearing)
    with pytest.raises(StoreError, match="appeared"):
        write_output(out, "mine")
    assert out.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [out]


def test_a_replaced_temporary_file_is_not_renamed(tmp_path):
    """Somebody with access to the folder puts a link in its place: the key behind it keeps its mode and single name."""
    out, key = tmp_path / "a.csv", tmp_path / "my.key"
    key.write_bytes(KEY)
    key.chmod(0o600)
    for put in (lambda part: part.symlink_to(key), lambda part: os.link(key, part)):
        with pytest.raises(StoreError, match="replaced meanwhile"), output_file(out) as part:  # noqa: PT012
            part.write_text("mine")
            part.unlink()
            put(part)
        assert sorted(p.name for p in tmp_path.iterdir()) == ["my.key"]
        assert (key.read_bytes(), stat.S_IMODE(key.stat().st_mode)) == (KEY, 0o600)


def test_a_dangling_link_is_not_followed(tmp_path):
    """In a shared folder it would let others decide which file of the user is created."""
    (tmp_path / "out.csv").symlink_to(tmp_path / "elsewhere.csv")
    for force in (False, True):
        with pytest.raises(StoreError, match=r"is a link to .*elsewhere\.csv"):
            write_output(tmp_path / "out.csv", "mine", force=force)
    assert not (tmp_path / "elsewhere.csv").exists()


def test_a_link_of_another_user_is_not_followed(tmp_path, monkeypatch):
    (tmp_path / "elsewhere.csv").write_text("x")
    (tmp_path / "out.csv").symlink_to(tmp_path / "elsewhere.csv")
    write_output(tmp_path / "out.csv", "mine", force=True)
    own = os.geteuid()
    os.lchown(tmp_path / "out.csv", own if own else 12345, -1)
    if own:  # only root can change the owner: otherwise pretend to be another user
        monkeypatch.setattr("engine.outputs.os.geteuid", lambda: own + 1)
    with pytest.raises(StoreError, match="another user"):
        write_output(tmp_path / "out.csv", "theirs", force=True)
    assert (tmp_path / "elsewhere.csv").read_text() == "mine"


def test_modes_are_never_wider_than_before(tmp_path):
    out = tmp_path / "a.txt"
    write_output(out, "x")
    umask = os.umask(0o022)
    os.umask(umask)
    assert stat.S_IMODE(out.stat().st_mode) == 0o666 & ~umask
    out.chmod(0o600)
    write_output(out, "y", force=True)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    out.chmod(0o644)
    write_output(out, "z", force=True, private=True)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


def test_a_failure_leaves_what_was_there(tmp_path):
    out = tmp_path / "a.txt"
    out.write_text("old")
    with pytest.raises(StoreError, match="No space left"), output_file(out, force=True) as part:  # noqa: PT012
        part.write_text("half")
        raise OSError(28, "No space left on device")
    assert out.read_text() == "old"
    with pytest.raises(StoreError, match="No space left"), output_folder(tmp_path / "d") as part:  # noqa: PT012
        (part / "half").touch()
        raise OSError(28, "No space left on device")
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
