"""Messages between interpreters of ours, and what happens where one side is gone."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fixtures.fit import total_measured
from fixtures.fitting import PAIR, TREES, environment, order_of
from fixtures.pipeline import ROOT

from engine.errors import InternalError
from engine.release import fit_workers
from engine.release.pipes import (
    end_interpreter,
    pipe_of,
    read_message,
    start_interpreter,
    write_message,
)


def as_message(what) -> bytes:
    stream = io.BytesIO()
    write_message(stream, what)
    return stream.getvalue()


@pytest.mark.parametrize(
    "what", [{"x": np.arange(3).tolist()}, ("StoreError", "text"), b"\0" * 100_000]
)
def test_messages_arrive_whole(what):
    stream = io.BytesIO(as_message(what) + as_message("next"))
    assert read_message(stream) == what
    assert read_message(stream) == "next"
    assert read_message(stream) is None


@pytest.mark.parametrize("cut", [0, 1, 7, 8, 9, 20])
def test_a_message_cut_short_is_none(cut):
    assert read_message(io.BytesIO(as_message("some text of a few bytes")[:cut])) is None


def test_a_process_without_a_pipe():
    with pytest.raises(InternalError, match="no pipe"):
        pipe_of(None)


def test_a_closed_pipe_ends_a_worker_quietly():
    for raw in (b"", b"\x01\x00", as_message({"tree": 1})[:-1]):
        run = subprocess.run(
            [sys.executable, "-m", "engine.release.fit_workers"],
            input=raw, capture_output=True, env=environment(), cwd=ROOT,
        )  # fmt: skip
        assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")


def test_a_worker_whose_fit_is_gone_ends_quietly():
    """Its answer finds a closed pipe."""

    class Gone(io.BytesIO):
        def write(self, _):
            raise BrokenPipeError

    source = io.BytesIO(as_message(PAIR) + as_message(PAIR))
    assert fit_workers.serve(source, Gone()) is None
    assert read_message(source) is not None  # the second job was not even read


@pytest.mark.parametrize("module", ["engine.release.fit_workers", "engine.release.fit_process"])
def test_nobody_reads_the_answer(module, tmp_path):
    """The other side of the pipe is closed: no traceback, as nothing went wrong here."""
    sent = {
        "engine.release.fit_workers": [PAIR],
        "engine.release.fit_process": [
            order_of([("A",)], tmp_path / "r.duckdb"),
            total_measured(50),
        ],
    }
    child = subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), cwd=ROOT,
    )  # fmt: skip
    child.stdout.close()
    try:
        for message in sent[module]:
            write_message(child.stdin, message)
        child.stdin.close()
    except BrokenPipeError:
        pass
    assert child.wait(timeout=60) == 0
    assert child.stderr.read() == b""
    child.stderr.close()


def test_nobody_reads_the_error(tmp_path):
    """A table without a total ends the build; who would be told is gone. Nothing of the error is printed instead."""
    child = subprocess.Popen(
        [sys.executable, "-m", "engine.release.fit_process"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), cwd=ROOT,
    )  # fmt: skip
    write_message(child.stdin, order_of([("A",)], tmp_path / "r.duckdb"))
    child.stdout.readline()
    child.stdout.close()
    write_message(child.stdin, TREES["A", "B"])
    child.stdin.close()
    said = child.stderr.read()
    child.stderr.close()
    assert child.wait(timeout=60) == 0
    assert said == b""


def test_an_interpreter_that_is_gone_can_be_ended():
    child = start_interpreter("engine.release.fit_workers", Path.cwd())
    child.kill()
    child.wait()
    child.stdin.write(b"x")  # stays in the buffer: closing finds the broken pipe
    end_interpreter(child)
    end_interpreter(child)
    assert child.stdout.closed
