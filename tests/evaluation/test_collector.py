"""Steps without Python's search for cycles leave it as it was."""

from __future__ import annotations

import gc

import pytest

from engine.evaluation.collector import uncollected


@pytest.mark.parametrize("is_collecting", [True, False])
def test_it_is_as_before_whatever_happens(is_collecting):
    (gc.enable if is_collecting else gc.disable)()
    try:
        with uncollected():
            assert not gc.isenabled()
        assert gc.isenabled() == is_collecting
        with pytest.raises(ZeroDivisionError), uncollected():
            1 / 0  # noqa: B018
        assert gc.isenabled() == is_collecting
    finally:
        gc.enable()
