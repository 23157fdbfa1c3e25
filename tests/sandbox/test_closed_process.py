"""What the operating system denies a worker process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from fixtures.hostile_statements import fingerprints
from fixtures.pipeline import ROOT
from fixtures.release import build_release


def in_a_process(body):
    """Run Python in a separate process and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", body],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    return done.stdout.split()


TRIES = """
import os, socket, subprocess, sys
def tried(what, *given):
    try:
        what(*given)
        return "done"
    except MemoryError:
        return "memory"
    except OSError as error:
        return str(error.errno)
"""


def test_a_closed_process_opens_and_takes_nothing(tmp_path):
    (tmp_path / "there").write_text("x")
    body = f"""{TRIES}
from queries.sandbox.limits import ProcessLimits, close_process
held = open({str(tmp_path / "held")!r}, "w")
before = [tried(open, {str(tmp_path / "there")!r}), tried(socket.socket), tried(bytearray, 300 * 2**20)]
close_process(ProcessLimits(process_mb=200))
after = [tried(open, {str(tmp_path / "there")!r}), tried(socket.socket), tried(bytearray, 300 * 2**20)]
held.write("x")
print(*before, *after, tried(held.flush))
os._exit(0)
"""
    printed = in_a_process(body.replace("os._exit", "sys.stdout.flush(); os._exit"))
    assert printed[:3] == ["done"] * 3
    assert printed[3:5] == ["24", "24"]  # no descriptor left
    assert printed[5] == ("memory" if sys.platform == "linux" else "done")
    assert printed[6] == "27"  # file too large: any size is


def test_a_process_that_may_not_write(tmp_path):
    (tmp_path / "there").write_text("x")
    body = f"""{TRIES}
from queries.sandbox.limits import deny_writes
is_closed = deny_writes()
there, new = {str(tmp_path / "there")!r}, {str(tmp_path / "new")!r}
tries = [(open, new, "w"), (open, there, "a"), (os.unlink, there), (os.mkdir, new), (os.rename, there, new),
         (os.symlink, there, new), (os.truncate, there, 0), (subprocess.run, ["true"])]
print(is_closed, *[tried(*t) for t in tries], tried(open, there))
"""
    printed = in_a_process(body)
    if printed[0] == "False":
        pytest.skip("this kernel has no Landlock")
    assert set(printed[1:-1]) <= {"13", "18"}  # permission denied; a rename is one across devices
    assert printed[-1] == "done"  # reading is prevented by close_process
    assert (tmp_path / "there").read_text() == "x"
    assert len(fingerprints(tmp_path)) == 1


@pytest.mark.ci
def test_numpys_lazy_imports_are_done_before_the_process_is_closed(tmp_path):
    """Values far apart are looked up in another way, which imports numpy.ma at first use."""
    release = build_release(tmp_path / "r.duckdb")
    body = f"""
import sys
import numpy as np
from queries.sandbox.limits import ProcessLimits, close_process
from queries.sandbox.worker import _opened
from queries.sql import Oversight
start = {{"path": {str(release)!r}, "verify": "size"}}
_opened(start, ProcessLimits(), Oversight(look=lambda *_: None, is_stopped=lambda: False))
close_process(ProcessLimits())
print(np.isin(np.arange(100), np.arange(30) * 10**9).sum(), flush=True)
"""
    assert in_a_process(body) == ["1"]
