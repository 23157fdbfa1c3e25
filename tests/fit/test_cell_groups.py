from __future__ import annotations

import numpy as np
import pytest
from fixtures.fit import Fits, noisy
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.ranges import code_bounds
from engine.schema import (
    KIND_NEGATIVE,
    NULL_CODE,
)


@given(st.integers(0, 10**6), st.integers(5, 150))
@settings(max_examples=10)
def test_cell_groups_add_up_and_hold_their_cells(seed, n):
    fits = noisy(seed, n)
    for columns in (("B",), ("A", "D"), ("A", "B", "D")):
        table = fits.table(*columns)
        tree = fits.measurement(columns)
        groups = table.groups
        assert groups.n.sum() == table.n_rows
        assert groups.n[groups.measured].sum() == table.n[table.measured].sum()
        assert (groups.n > 0).all()
        single = (groups.low == groups.high).all(axis=1)
        assert single[groups.measured].all()
        assert groups.noise_sd == pytest.approx(np.full(len(groups.n), 2**0.5))
        released = {
            tuple(map(tuple, np.column_stack([k, c]).tolist()))
            for k, c in zip(
                tree.kind, code_bounds(tree.kind, tree.level, tree.index)[0], strict=True
            )
        }
        assert (groups.measured == (groups.depth == len(tree.scale) - 1)).all()
        assert groups.scale == tuple(tree.scale)
        at_top = tree.level[tree.depth == 0].max(axis=0, initial=0)
        assert groups.tops == tuple(at_top)
        boxes = {
            (d, *box)
            for d, *box in zip(
                tree.depth.tolist(),
                *(
                    map(tuple, ends.tolist())
                    for ends in code_bounds(tree.kind, tree.level, tree.index)
                ),
                strict=True,
            )
        }
        for g in np.flatnonzero(groups.depth >= 0):
            assert (groups.depth[g], tuple(groups.low[g]), tuple(groups.high[g])) in boxes
        for g in np.flatnonzero(groups.measured):
            assert (
                tuple(zip(groups.kind[g].tolist(), groups.low[g].tolist(), strict=True)) in released
            )


def test_cell_groups_by_hand():
    # 0 and 1 pass with 6 rows, 6..7 as a range with 3; of 4..7 that leaves 2 rows, in 4..5.
    fits = Fits({"A": np.repeat([0, 1, 4, 6, 7], [6, 6, 2, 1, 2])}, threshold=3, floor=3)
    groups = fits.table("A").groups
    assert groups.n.tolist() == [2, 3, 6, 6]
    assert groups.measured.tolist() == [False, False, True, True]
    assert groups.low[:, 0].tolist() == [4, 6, 0, 1]
    assert groups.high[:, 0].tolist() == [7, 7, 0, 1]
    assert groups.noise_sd.tolist() == [0, 0, 0, 0]


def test_rows_outside_every_released_bucket_have_a_group_of_their_own():
    # Each value passes in A and in B, the pair of nulls does not, and no top bucket holds it.
    a = np.array([0] * 12 + [NULL_CODE] * 6)
    b = np.array([0] * 8 + [NULL_CODE] * 4 + [0] * 4 + [NULL_CODE] * 2)
    fits = Fits({"A": a, "B": b}, threshold=3)
    groups = fits.table("A", "B").groups
    outside = (groups.low > groups.high).all(axis=1)
    assert groups.n[outside].tolist() == [2]
    assert (groups.kind[outside] == KIND_NEGATIVE).all()
    assert fits.counts("A", "B") == fits.truth("A", "B")
