"""The process that fits: a fresh interpreter that is given a measurement folder and the path of a release.

It inherits no file but its pipes and no environment but what Python needs, and works in the folder of the release. It
may start while the folder is still written: it then waits for one file after the other. On its standard output it says,
a line of JSON each, how far it is and how it ended: with the record of the staged release, or an error. It ends when
its standard input closes, which happens however its parent ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine import errors
from engine.errors import InternalError, StoreError, TablepackError, place_of
from engine.fit.order import FitOrder
from engine.fit.warm import warm
from engine.processes import end_interpreter, leave_quietly, start_interpreter
from engine.progress import Progress, silent
from engine.release.folder import MeasurementFolder

_MODULE = "engine.release.fit_process"
OUT_OF_MEMORY = "the fit ran out of memory; ask for narrower tables"
AHEAD = 4
"""Tables under way, for each thread that locks them: so that none waits for the next."""
GIVE_WAY_S = 0.0002
"""Seconds after which a running thread gives way to others. Python's own 5 ms are several times what a small table
takes: a thread between two kernels would wait that long."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FitOptions:
    """Options of a fit.

    jobs: Tables that are fitted at once.
    force: A release that is there may be replaced.
    earlier: File and SHA-256 of a release of the same recipe, whose tables are taken where this one has them too.
    """

    jobs: int = 2
    force: bool = False
    earlier: tuple[str, str] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Staged:
    """What a fit ends with: a whole release in its staging folder."""

    record: dict[str, Any]  # See `ReleaseRecord`
    build_id: str
    may_replace: bool


class FitProcess:
    """The process that fits, seen from its parent. Leaving the context ends it, whatever it is at."""

    def __init__(self, folder: Path, out: Path, options: FitOptions) -> None:
        self._fitted = 0
        arguments = str(folder), str(out), json.dumps(asdict(options))
        self._child = start_interpreter(_MODULE, out.parent, *arguments)
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> FitProcess:
        return self

    def __exit__(self, *_: object) -> None:
        end_interpreter(self._child, at_once=True)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._child.pid

    def fitted(self) -> int:
        """How many tables it has fitted so far; raises the error that it met."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._take(self._lines.get_nowait())
        return self._fitted

    def staged(self, report: Progress = silent) -> Staged:
        """Wait for its end, passing on how far it is."""
        while True:
            message = self._take(self._lines.get())
            if isinstance(message, Staged):
                return message
            report(*message)

    def _listen(self) -> None:
        with contextlib.suppress(ValueError, OSError):  # we have closed the pipe
            while line := self._child.stdout.readline():  # type: ignore[union-attr]
                self._lines.put(line)
        self._lines.put(b"")

    def _take(self, line: bytes) -> Staged | tuple[str, int, int]:
        """What a line says: how far it is, or how it ended."""
        if not line:
            self._lines.put(line)
            killed = self._child.wait() < 0  # nobody else kills it
            raise (
                StoreError(OUT_OF_MEMORY)
                if killed
                else InternalError("the fit process ended without an answer")
            )
        message = json.loads(line)
        if "progress" in message:
            stage, done, total = message["progress"]
            self._fitted = done if stage == "tables" else self._fitted
            return stage, done, total
        if "error" in message:
            raise getattr(errors, message["error"], InternalError)(message["message"])
        return Staged(**message["staged"])


# The process itself.


def _say(**what: object) -> None:
    with contextlib.suppress(BrokenPipeError):  # the parent is gone, and so shall we be
        sys.stdout.buffer.write(json.dumps(what).encode() + b"\n")
        sys.stdout.buffer.flush()


def _report(stage: str, done: int, total: int) -> None:
    _say(progress=(stage, done, total))


def _end_with_parent() -> None:
    """End this process once the pipe from its parent is closed."""

    def watch() -> None:
        while os.read(0, 1):
            pass
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextlib.contextmanager
def _threads(jobs: int) -> Iterator[Executor | None]:
    """Threads that lock tables, where there are several jobs: nearly all of that is kernels, which run side by side."""
    if jobs < 2 or (os.cpu_count() or 1) < 2:
        yield None
        return
    pool = ThreadPoolExecutor(jobs)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # after an error nobody waits for the rest


def fit(folder: Path, out: Path, options: FitOptions, pool: Executor | None = None) -> Staged:
    """Fit what is measured, and stage the release."""
    from engine.store import Staging  # slow to import

    measured = MeasurementFolder(folder)
    order = measured.order()
    earlier = options.earlier and (Path(options.earlier[0]), options.earlier[1])
    with Staging.open(
        out, order.header, build_id=order.build_id, force=options.force, earlier=earlier
    ) as staging:
        ledger: tuple[dict[str, Any], ...] = ()
        if isinstance(order, FitOrder):
            from engine.release.fitter import Fitter

            ahead = AHEAD * options.jobs if pool else 1
            fitter = Fitter(
                order, staging, measured.measurement, pool=pool, ahead=ahead, report=_report
            )
            fitter.fit()
            staging.write()
            exposure = measured.exposure()
            fitter.fit_wide(out, exposure)
        else:
            from engine.release.joint_fitter import fit_joint

            fit_joint(order, staging, measured.margin, _report)
            ledger, exposure = order.ledger, measured.exposure()
        record = staging.complete(ledger, exposure)
        return Staged(
            record=asdict(record), build_id=order.build_id, may_replace=staging.may_replace
        )


def main(folder: str, out: str, options: str) -> None:
    """Fit, and say how it ended."""
    sys.setswitchinterval(GIVE_WAY_S)
    try:
        chosen = FitOptions(**json.loads(options))
        warm(_report)
        _end_with_parent()
        with _threads(chosen.jobs) as pool:
            staged = fit(Path(folder), Path(out), chosen, pool)
        _say(staged=asdict(staged))
    except TablepackError as error:
        _say(error=type(error).__name__, message=str(error))
    except MemoryError:
        _say(error=StoreError.__name__, message=OUT_OF_MEMORY)
    except Exception as error:  # noqa: BLE001  # reported by its kind and place, as the command line does
        _say(error=InternalError.__name__, message=f"{type(error).__name__} in {place_of(error)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
    leave_quietly()
