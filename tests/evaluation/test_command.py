"""Commands of others: what they say, how they end, and that nothing of them is left, whichever way they end."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.evaluation.command import Ended, run_command


def ran(code, folder, seconds=60.0):
    """What some Python comes to."""
    return run_command([sys.executable, "-c", code], folder, seconds)


CHILD = (
    "import subprocess, sys, time; "
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); "
    "open({path!r}, 'w').write(str(child.pid)); "
)


def test_a_child_does_not_outlive_its_command(tmp_path):
    told = tmp_path / "child"
    assert ran(CHILD.format(path=str(told)) + "sys.exit(4)", tmp_path) == Ended(code=4, said="")
    assert is_gone(int(told.read_text()))


def test_a_child_does_not_outlive_a_command_that_hangs(tmp_path, monkeypatch):
    told = tmp_path / "child"
    raise_once_told(told, subprocess.TimeoutExpired("it", 60), monkeypatch)
    hangs = CHILD.format(path=str(told)) + "time.sleep(600)"
    assert ran(hangs, tmp_path) == Ended(code=None, said="")
    assert is_gone(int(told.read_text()))


def is_gone(pid: int) -> bool:
    """Whether a process ends, within a minute: whoever adopts it may take a moment."""
    until = time.monotonic() + 60
    while is_running(pid) and time.monotonic() < until:
        time.sleep(0.02)
    return not is_running(pid)


def is_running(pid: int) -> bool:
    """Whether a process is there, and not merely waited for."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return told.rpartition(")")[2].split()[0] != "Z"


def raise_once_told(told: Path, error: BaseException, monkeypatch) -> None:
    """Waiting for a command with a limit raises once the command has reported its child, however long that takes."""
    waits = subprocess.Popen.wait

    def wait(process, seconds=None):
        while seconds is not None and not (told.exists() and told.read_text()):
            time.sleep(0.01)
        if seconds is not None:
            raise error
        return waits(process)

    monkeypatch.setattr(subprocess.Popen, "wait", wait)


def test_an_interrupted_caller_ends_it(tmp_path, monkeypatch):
    """What interrupts the waiting is passed on."""
    told = tmp_path / "child"

    class Stopped(BaseException):
        pass

    raise_once_told(told, Stopped(), monkeypatch)
    with pytest.raises(Stopped):
        ran(CHILD.format(path=str(told)) + "time.sleep(600)", tmp_path)
    assert is_gone(int(told.read_text()))


def test_the_end_of_what_it_says_is_kept(tmp_path):
    assert ran("print('x' * 70_000 + 'end')", tmp_path).said == "x" * (2**16 - 4) + "end\n"
    assert ran("import sys; sys.stderr.write('no')", tmp_path).said == "no"
