"""Which triples are chosen for a wide table: columns whose counts are known."""

from __future__ import annotations

from itertools import combinations, pairwise, product
from math import sqrt

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.fit.wide import chosen_triples
from engine.fit.wide.choosing import FIXED_COST

COLUMNS = ("a", "b", "c", "d", "e")
EVEN = [np.full(size, 960 // size) for size in (2, 2, 4, 4, 8)]
NOISE = {"threshold": 5, "noise_sd": sqrt(2)}


def test_those_with_more_cells_above_the_threshold_come_first():
    """Cells hold 7.5 rows in c, d, e: 128 times 1.32 nearer is 169 rows; 15 rows and 64 times 2.46 in a, d, e: 157."""
    chosen = chosen_triples(COLUMNS, EVEN, **NOISE, most=99)
    assert chosen[0] == ("c", "d", "e")
    assert {*chosen[1:5]} == {*product("ab", "cd", "e")}
    assert chosen[-1] == ("a", "b", "c") or chosen[-1] == ("a", "b", "d")
    assert len(chosen) == 10
    # Where 7.5 rows are suppressed, nothing is seen of c, d, e.
    hidden = chosen_triples(COLUMNS, EVEN, threshold=10, noise_sd=sqrt(2), most=99)
    assert ("c", "d", "e") not in hidden
    assert len(hidden) == 9


def test_what_takes_long_comes_later():
    """Twice 2,000 values that are looked at in few groups: 4,000 times as many combinations, and no more gain."""
    counts = [np.full(16, 2_000), np.full(16, 2_000), np.full(2_000, 16), np.full(16, 2_000)]
    assert chosen_triples(COLUMNS[:4], counts, **NOISE, most=1) == (("a", "b", "d"),)


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

    def use(triple):
        sizes = [counts[columns.index(name)] for name in triple]
        cells = [i * j * k for i, j, k in product(*sizes)]
        gain = sum(max(sqrt(n) / total - 1, 0) for n in cells if n >= threshold * total**2)
        return gain / (FIXED_COST + sqrt(len(cells)))

    chosen = chosen_triples(
        columns, [np.array(n) for n in counts], threshold=threshold, noise_sd=1, most=99
    )
    uses = [use(triple) for triple in chosen]
    assert all(one > other - 0.001 for one, other in pairwise(uses))
    left = {*combinations(columns, 3)} - {*chosen}
    assert all(use(triple) < 0.001 for triple in left)
