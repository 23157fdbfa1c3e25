"""The wall as a process boundary: fit, sample and store run in a fresh interpreter that never sees the data.

The parent (measure) sends pickled messages down a pipe: a `FitOrder`, then measurements. The child answers each
with a line of JSON: progress, or the error it met. The child inherits no file but the pipe, no environment but
what Python needs, and starts in the folder of the release. It dies with its parent: the pipe closes.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, BinaryIO

from engine import errors
from engine.errors import InternalError, StoreError, TablepackError, place_of
from engine.fitting import FitOrder, Fitter
from engine.schema import ColumnSet, Measurement
from engine.store import Staging

_KEPT_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TZ", "SYSTEMROOT", "NPY_DISABLE_CPU_FEATURES")


class FitProcess:
    """The parent's side. Use as a context manager; leaving it without `finish` abandons the build.

    Parameters
    ----------
    order : FitOrder
    """

    def __init__(self, order: FitOrder) -> None:
        environment = {k: v for k, v in os.environ.items() if k in _KEPT_ENVIRONMENT}
        # The empty entry of an interactive session means the folder we are in, which is not the child's.
        environment["PYTHONPATH"] = os.pathsep.join(str(Path(p).resolve()) for p in sys.path)
        environment["OMP_NUM_THREADS"] = "1"
        try:
            self._child = subprocess.Popen(
                # -P: no module is taken from the folder of the release.
                [sys.executable, "-P", "-m", "engine.fit_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                cwd=order.release_path.resolve().parent,
                process_group=0,  # Ctrl-C reaches the parent only; the child ends when its pipe closes
            )
        except OSError as error:
            raise StoreError(f"the fit process cannot be started ({error.strerror})") from None
        self._waiting = 0
        try:
            answer = self._ask(order)
        except BaseException:
            self._leave()
            raise
        self.finished: frozenset[ColumnSet] = frozenset(tuple(c) for c in answer["finished"])

    def __enter__(self) -> FitProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    def _leave(self) -> None:
        """Close the pipe and wait for the child to end."""
        if self._child.stdin is not None and not self._child.stdin.closed:
            try:
                self._child.stdin.close()
            except BrokenPipeError:
                pass
        self._child.wait()
        if self._child.stdout is not None:
            self._child.stdout.close()

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._child.pid

    def send(self, measurement: Measurement, *, ahead: int) -> list[dict[str, Any]]:
        """Hand one measurement over the wall.

        Parameters
        ----------
        measurement : Measurement
        ahead : int
            How many measurements may be under way at once; 0 waits for the answer.

        Returns
        -------
        list of dict
            Answers that have come in: what was fitted.
        """
        self._put(measurement)
        self._waiting += 1
        answers = []
        while self._waiting > ahead:
            answers.append(self._get())
            self._waiting -= 1
        return answers

    def finish(self) -> list[dict[str, Any]]:
        """Wait for the rest, write the release; the last answer is about the finished file."""
        answers = []
        while self._waiting:
            answers.append(self._get())
            self._waiting -= 1
        answers.append(self._ask("finish"))
        return answers

    def _ask(self, message: object) -> dict[str, Any]:
        self._put(message)
        return self._get()

    def _put(self, message: object) -> None:
        raw = pickle.dumps(message, protocol=5)
        try:
            pipe = self._pipe(self._child.stdin)
            pipe.write(len(raw).to_bytes(8, "little"))
            pipe.write(raw)
            pipe.flush()
        except BrokenPipeError:
            while True:  # what it answered before comes first; the last answer raises why it ended
                self._get()

    def _get(self) -> dict[str, Any]:
        """Read one answer; raise the error it carries."""
        line = self._pipe(self._child.stdout).readline()
        if not line:
            raise InternalError("the fit process ended without an answer")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise getattr(errors, answer["error"], InternalError)(answer["message"])
        return answer

    @staticmethod
    def _pipe(stream: Any) -> BinaryIO:
        if stream is None:
            raise InternalError("the fit process has no pipe")
        pipe: BinaryIO = stream
        return pipe


def serve(source: BinaryIO, answers: BinaryIO) -> None:
    """Run the child's side: one answer for each message, until the pipe closes or an error ends it."""

    def answer(**what: object) -> None:
        answers.write(json.dumps(what).encode() + b"\n")
        answers.flush()

    try:
        order = _read(source)
        if not isinstance(order, FitOrder):
            return
        with Staging.open(order.release_path, order.header, build_id=order.build_id) as staging:
            answer(finished=sorted(staging.finished()))
            fitter = Fitter(order, staging)
            while (message := _read(source)) is not None:
                if isinstance(message, Measurement):
                    table = fitter.take(message)
                    gap = table.gap if table else 0
                    answer(fitted=message.columns, cells=len(table.n) if table else 1, gap=gap)
                else:
                    staging.finish()
                    answer(release=str(order.release_path))
                    return
    except TablepackError as error:
        answer(error=type(error).__name__, message=str(error))
    except MemoryError:
        answer(error="StoreError", message="the fit ran out of memory; ask for narrower tables")
    except BrokenPipeError:
        pass  # the parent is gone: nobody to answer
    except Exception as error:  # noqa: BLE001  # told by its kind and place, as the command line does
        answer(error="InternalError", message=f"{type(error).__name__} in {place_of(error)}")


def _read(source: BinaryIO) -> object:
    """One message, None where the pipe has closed, be it in the middle of one."""
    head = source.read(8)
    size = int.from_bytes(head, "little")
    raw = source.read(size) if len(head) == 8 else b""
    if len(head) < 8 or len(raw) < size:
        return None
    return pickle.loads(raw)  # noqa: S301  # from our own parent, over our own pipe


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
