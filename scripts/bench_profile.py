"""One build in one process and one thread, its steps timed apart. Prints CPU seconds by step as one line of JSON.

Usage: bench_profile.py JOB.json, as bench_build.py. The fit runs here instead of behind its wall, and a step's seconds
are those in its functions less those in steps inside them; processor time, so that other work on the machine matters
little. What all this leaves out is what processes cost: to start them and to send messages.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from importlib import import_module
from pathlib import Path
from typing import Any

from bench_build import census_spec

from engine.fit import FitOrder
from engine.progress import Progress, silent
from engine.release import sticky
from engine.release.fit_workers import FitWorkers
from engine.release.fitter import FitAnswer, Fitter
from engine.release.pipes import Finish
from engine.schema import Measurement
from engine.spec import read_spec
from engine.store import Staging, staging

FIRST, REST = "reading the source", "the rest"
STEPS = {
    "measuring": ("engine.release.sticky:measure_columns", "engine.release.sticky:measurements"),
    "reckoning exposure": ("engine.exposure:Incidence.add", "engine.release.sticky:charged"),
    "bringing in kernels": ("engine.release.fit_workers:warm",),
    "fitting columns": ("engine.release.fitter:fit_columns",),
    "finding and placing cells": (
        "engine.fit.locking:find_candidates",
        "engine.fit.locking:place_candidates",
        "engine.fit.locking:cell_groups",
    ),
    "fitting trees": ("engine.fit.locking:_started",),
    "raking": ("engine.fit.locking:lock_margins", "engine.fit.locking:rake"),
    "rounding": (
        "engine.fit.locking:controlled_rounding",
        "engine.fit.locking:_repaired",
        "engine.fit.locking:settle",
    ),
    "writing tables": (
        "engine.store:Staging.put_table",
        "engine.store:Staging.put_support",
        "engine.store:Staging.write",
    ),
    "closing the file": ("engine.store:Staging.finish",),
}
"""Functions of each step, where they are called; the last tables that are written when the file is closed count as
written."""


class Clock:
    """Processor seconds by step; the innermost running step has them."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = dict.fromkeys((FIRST, *STEPS, REST), 0.0)
        self._running, self._since = [FIRST], time.process_time()

    def enter(self, step: str) -> None:
        """Begin a step; the first one ends the reading of the source."""
        self._book()
        if self._running == [FIRST]:
            self._running = [REST]
        self._running.append(step)

    def leave(self) -> None:
        """End the step that runs."""
        self._book()
        self._running.pop()

    def _book(self) -> None:
        now = time.process_time()
        self.seconds[self._running[-1]] += now - self._since
        self._since = now

    def stop(self) -> dict[str, float]:
        """All seconds."""
        self._book()
        return self.seconds

    def timed(self, step: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """A function whose time is a step's, and that of what it yields where it is a generator."""

        @functools.wraps(call)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self.enter(step)
            try:
                found = call(*args, **kwargs)
            finally:
                self.leave()
            return self._each(step, found) if isinstance(found, Iterator) else found

        return wrapped

    def _each(self, step: str, found: Iterator[Any]) -> Iterator[Any]:
        while True:
            self.enter(step)
            try:
                one = next(found)
            except StopIteration:
                return
            finally:
                self.leave()
            yield one


class AtOnce(Executor):
    """In the place of the thread that writes tables: written at once, so that processor time is its step's."""

    def __init__(self, **_: int) -> None:
        pass

    def submit(self, call: Callable[..., Any], /, *values: Any, **more: Any) -> Future[Any]:
        """Call it here."""
        done: Future[Any] = Future()
        try:
            done.set_result(call(*values, **more))
        except Exception as error:  # noqa: BLE001  # raised where the result is asked for
            done.set_exception(error)
        return done


class FitHere:
    """In the place of the fit process: the same in this process, each table at once."""

    def __init__(
        self, order: FitOrder, _progress: Progress | None = None, _child: object = None
    ) -> None:
        self._staging = Staging.open(
            order.release_path, order.header, build_id=order.build_id, force=order.force
        )
        self._fitter = Fitter(order, self._staging, FitWorkers(0))
        self.finished = self._staging.finished()

    def __enter__(self) -> FitHere:
        return self

    def __exit__(self, *_: object) -> None:
        self._staging.close()

    def send(self, measurement: Measurement, *, ahead: int) -> list[FitAnswer]:
        """Fit one measurement, and store its tables."""
        _ = ahead
        self._fitter.begin(measurement)
        return self._fitter.settle(0)

    def settle(self) -> None:
        """Write what is left."""
        self._staging.write()

    def finish(
        self,
        exposure: dict[str, Any],
        note: Callable[[str], None],
        meanwhile: Callable[[], None],
    ) -> list[dict[str, Any]]:
        """Write the release."""
        meanwhile()
        made = self._fitter.finish(
            silent, Finish(exposure=exposure), lambda record: note(record.sha256)
        )
        return [{"sha256": made.sha256, "content_hash": made.content_hash}]


def profiled(job: dict[str, Any]) -> dict[str, float]:
    """Build, and give the seconds of each step."""
    spec = read_spec(job["spec"]) if "spec" in job else census_spec(job)
    clock = Clock()
    for step, places in STEPS.items():
        for place in places:
            module, _, path = place.partition(":")
            holder, _, name = path.rpartition(".")
            owner: Any = import_module(module)
            owner = getattr(owner, holder) if holder else owner
            setattr(owner, name, clock.timed(step, getattr(owner, name)))
    sticky.FitProcess = FitHere  # type: ignore[assignment, misc]
    staging.ThreadPoolExecutor = AtOnce  # type: ignore[assignment, misc]
    sticky.make(spec, Path(job["out"]), jobs=1)
    return clock.stop()


if __name__ == "__main__":
    print(json.dumps(profiled(json.loads(Path(sys.argv[1]).read_text()))))
