"""Which triples are chosen for a wide table: hand-made rows whose pairs are known."""

from __future__ import annotations

import numpy as np

from engine.fit.wide import chosen_triples

COLUMNS = ("a", "b", "c", "d", "e", "f")


def rows(n: int = 4_000) -> tuple[list[np.ndarray], np.ndarray]:
    """a, b, c hang together closely, d and e less, f with none; each row once."""
    rng = np.random.default_rng(11)
    a = rng.integers(0, 4, n)

    def near(other: np.ndarray, share: float) -> np.ndarray:
        return np.where(rng.random(n) < share, other, rng.integers(0, 4, n))

    b, c = near(a, 0.8), near(a, 0.8)
    d = near(a, 0.5)
    e = near(d, 0.5)
    return [a, b, c, d, e, rng.integers(0, 4, n)], np.ones(n, dtype=np.int64)


def test_columns_that_hang_together_come_first_and_others_last():
    codes, n = rows()
    chosen = chosen_triples(COLUMNS, codes, n, most=20)
    assert chosen[0] == ("a", "b", "c")
    assert len(chosen) == len(set(chosen)) == 20
    assert "f" in chosen[-1]


def test_a_pair_counts_half_once_it_is_in_a_table():
    """By strength alone the second table would have a and b, or a and c, of the first again with d."""
    codes, n = rows()
    first, second = chosen_triples(COLUMNS, codes, n, most=2)
    assert len({*first} & {*second}) == 2
    by_strength = chosen_triples(COLUMNS, codes, n, most=1, known=[first])
    assert by_strength == (second,)
    assert "e" in {name for t in chosen_triples(COLUMNS, codes, n, most=4) for name in t}


def test_what_lies_inside_known_tables_is_not_chosen():
    codes, n = rows()
    known = [("a", "b", "c", "d"), ("c", "d", "e")]
    chosen = chosen_triples(COLUMNS, codes, n, most=99, known=known)
    assert len(chosen) == 20 - 4 - 1
    assert not any({*t} <= {*table} for t in chosen for table in known)


def test_tables_with_the_target_come_first():
    codes, n = rows()
    chosen = chosen_triples(COLUMNS, codes, n, most=12, target="f")
    assert all("f" in table for table in chosen[:10])
    assert chosen[10] == ("a", "b", "c")
