"""Compiled loops: one compilation each, in installations that can be written and in ones that cannot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fixtures.exposure import everybody, most, seen
from fixtures.fit import KEY, contradictory, noisy
from fixtures.measure import NO_BOUND, STICKY_BOUNDED, cells_of, tokens_of
from fixtures.wide import locked, people
from numba.core import caching

from engine.exposure.warm import warm as warm_exposure
from engine.fit import fine, warm
from engine.fit.wide import fit_wide
from engine.kernels import KERNELS, kernel, report_compiling
from engine.mechanism import grow
from engine.sticky_prf import siphash128


@pytest.mark.ci
def test_builds_use_what_an_installation_has_compiled(monkeypatch):
    """Each kernel for one set of types: a second one would be compiled in the midst of builds, in seconds."""
    warm.warm()
    warm.warm_wide()
    warm.warm_mechanism()
    for additive in ((True, True), (True, False)):
        codes = [((k % 3, -k), (k, k % 5)) for k in range(40)]
        cells = cells_of(codes, ("A", "B"), (tokens_of(40), tokens_of(40)), additive)
        for order in ("C", "F"):
            laid = replace(cells, codes=np.array(cells.codes, order=order))
            grow(laid, (63, 63), STICKY_BOUNDED, NO_BOUND)
    warm_exposure()
    for fits in (noisy(1, 150), contradictory(2, 300)):
        for columns in (("A", "B"), ("A", "B", "C"), ("A", "B", "D"), ("B", "C", "D")):
            fits.table(*columns)
    monkeypatch.setattr(fine, "FINE", 0)
    noisy(4, 300).table("A", "B")
    rows = people(700)
    supports, tables = locked(rows, [("age", "region", "wealth"), ("major", "region", "spouse")])
    fit_wide(tuple(sorted(rows)), supports, tables, key=KEY)
    codes, wanted = everybody(6)
    assert most(seen(codes, [*wanted, ("bit", "c00", "c01")]), "bit") > 0.7
    siphash128(KEY, [np.arange(9, dtype=np.uint64)])
    assert len(KERNELS) > 12
    twice = {k.py_func.__qualname__: k.signatures for k in KERNELS if len(k.signatures) > 1}
    assert not twice


def test_where_machine_code_cannot_be_kept_it_is_made_in_memory(monkeypatch):
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    monkeypatch.setattr("engine.kernels.KERNELS", [])

    @kernel
    def double(x: int) -> int:
        return 2 * x

    stages = []
    for _ in range(2):
        report_compiling(lambda: stages.append(double(21)), lambda *stage: stages.append(stage))
    assert stages == [("compiling", 0, 1), 42, ("compiling", 1, 1), 42]
