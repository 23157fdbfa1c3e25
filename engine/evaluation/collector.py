"""Steps that make many objects and let go of few, done without Python's search for cycles among them.

The search looks through all that is there again and again: loading packages, reading a release of hundreds of tables
and drawing a report spend a tenth of their time with it. Takes nothing; what is unreachable is found afterwards.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Look for no cycles inside, unless nobody does outside either."""
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_collecting:
            gc.enable()
