"""Compiled loops for the tests of the fit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fixtures.compiled import unload

from engine.fit.compiled import loops


@pytest.fixture(scope="module")
def ready() -> Iterator[None]:
    """All loops are compiled, and none is in use."""
    pytest.importorskip("numba", reason="the extra `fast` is not installed")
    loops.compile_all()
    yield
    unload()
