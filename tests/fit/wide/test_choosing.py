"""Which triples are chosen for a wide table: columns whose counts are known."""

from __future__ import annotations

from itertools import combinations, pairwise, product
from math import sqrt

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.fit.wide import chosen_triples

COLUMNS = ("a", "b", "c", "d", "e")
EVEN = [np.full(size, 960 // size) for size in (2, 2, 4, 4, 8)]
NOISE = {"threshold": 5, "noise_sd": sqrt(2)}


def test_those_with_more_cells_above_the_threshold_come_first():
    """Cells hold 7.5 rows in c, d, e: 128 times about 1.32 nearer; 15 rows and 64 times 2.46 in a, d, e."""
    chosen = chosen_triples(COLUMNS, EVEN, **NOISE, most=99)
    assert chosen[:3] == (("c", "d", "e"), ("a", "c", "e"), ("a", "d", "e"))
    assert chosen[-1] == ("a", "b", "c") or chosen[-1] == ("a", "b", "d")
    assert len(chosen) == 10
    # Where 7.5 rows are suppressed, nothing is seen of c, d, e.
    hidden = chosen_triples(COLUMNS, EVEN, threshold=10, noise_sd=sqrt(2), most=99)
    assert ("c", "d", "e") not in hidden
    assert len(hidden) == 9


def test_nothing_is_chosen_that_noise_would_drown():
    assert chosen_triples(COLUMNS, EVEN, threshold=5, noise_sd=16, most=99) == ()


def test_what_lies_inside_known_tables_is_not_chosen():
    known = [("a", "b", "c", "d"), ("c", "d", "e")]
    chosen = chosen_triples(COLUMNS, EVEN, **NOISE, most=99, known=known)
    assert len(chosen) == 10 - 4 - 1
    assert not any({*t} <= {*table} for t in chosen for table in known)


def test_tables_with_the_target_come_first():
    chosen = chosen_triples(COLUMNS, EVEN, **NOISE, most=7, target="a")
    assert all("a" in table for table in chosen[:6])
    assert chosen[0] == ("a", "c", "e")
    assert chosen[6] == ("c", "d", "e")


@settings(max_examples=30)
@given(
    st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=6), min_size=3, max_size=5),
    st.floats(1, 12),
)
def test_the_order_is_that_of_a_sum_over_cells(counts, threshold):
    """An oracle that goes through all cells one by one."""
    total = max(map(sum, counts))
    for n in counts:
        n[0] += total - sum(n)
    columns = COLUMNS[: len(counts)]

    def gain(triple):
        cells = product(*(counts[columns.index(name)] for name in triple))
        return sum(
            max(sqrt(i * j * k) / total - 1, 0)
            for i, j, k in cells
            if i * j * k >= threshold * total**2
        )

    chosen = chosen_triples(
        columns, [np.array(n) for n in counts], threshold=threshold, noise_sd=1, most=99
    )
    gains = [gain(triple) for triple in chosen]
    assert all(one > other - 0.1 for one, other in pairwise(gains))
    left = {*combinations(columns, 3)} - {*chosen}
    assert all(gain(triple) < 0.1 for triple in left)
