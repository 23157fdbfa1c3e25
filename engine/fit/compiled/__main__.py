"""Compile the innermost loops of the fit, in a process of their own: `python -m engine.fit.compiled`.

Builds start it where there is much to fit and nothing is compiled yet, and end it when they are done: what it has
compiled by then is kept for the next one. They never wait for it.
"""

from __future__ import annotations

import os
import sys
import threading

from engine.fit.compiled.loops import WITH_PARENT, compile_all


def end_with_parent() -> None:
    """From now on end when the input closes."""

    def wait() -> None:
        while os.read(
            sys.stdin.fileno(), 1 << 10
        ):  # a buffered read would be in the way of a plain end
            pass
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    if WITH_PARENT in sys.argv:
        end_with_parent()
    if hasattr(os, "nice"):
        os.nice(10)
    compile_all()
