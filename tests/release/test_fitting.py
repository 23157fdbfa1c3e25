from __future__ import annotations

import numpy as np
import pytest
from fixtures.fit import Fits, total_measured
from fixtures.fitting import (
    EVERY_SET,
    TREES,
    Shelf,
    fitted_by,
    order_of,
)

from engine.schema import CodedUniverse, Universe


def fitted(tables, shelf=None, **settings) -> Shelf:
    return fitted_by(order_of(tables, **settings), TREES, shelf)


def test_tables_of_an_earlier_run_are_not_stored_again():
    shelf = fitted([("A",), ("A", "B"), ("C",)], Shelf([("A",), ("A", "B")]))
    assert set(shelf.tables) == {("C",)}


def test_other_tables_change_nothing():
    alone, all_of_them = fitted([("B", "C", "D")]), fitted(EVERY_SET)
    one, other = (s.tables["B", "C", "D"] for s in (alone, all_of_them))
    assert (one.codes == other.codes).all()
    assert (one.n == other.n).all()
    assert alone.cards["B", "C", "D"] == all_of_them.cards["B", "C", "D"]


def test_what_was_not_measured_is_missed():
    for missing in ((), ("A",), ("A", "B")):
        trees = {columns: tree for columns, tree in TREES.items() if columns != missing}
        with pytest.raises(KeyError):
            fitted_by(order_of([("A", "B")]), trees)


def test_card_by_hand():
    # 20 rows: A = 0 with 12, A = 1 with 8; B = 0 with 10, B = 1 with 10. Of the four pairs (0, 0) has 9,
    # (1, 1) has 7, (0, 1) has 3 and (1, 0) has 1: with a threshold of 4 two of them are released.
    a = np.repeat([0, 0, 1, 1], [9, 3, 7, 1])
    b = np.repeat([0, 1, 1, 0], [9, 3, 7, 1])
    fits = Fits({"A": a, "B": b}, threshold=4)
    trees = {columns: fits.measurement(columns) for columns in (("A",), ("B",), ("A", "B"))}
    order = order_of([("A",), ("A", "B")], names="AB")
    shelf = fitted_by(order, trees | {(): total_measured(20, scale=4)})
    card = shelf.cards["A", "B"]
    assert card.columns == ("A", "B")
    assert card.sub_tables == (("A",), ("B",))
    assert (card.mode, card.profile, card.vintage) == ("sticky", "standard", "v1")
    assert (card.key_id, card.engine_version) == ("0011223344556677", "0.1.0")
    assert (card.low_threshold, card.threshold_mean) == (3, 5)
    # The total's noise has variance 32, the top range takes it over, and each of its two values carries half of what
    # it is off: 2 / 4 of its own, and (2 + 32) / 4. The pairs are locked to these values.
    assert card.noise_sd == pytest.approx((0.5 + 8.5) ** 0.5)
    assert card.noise_sd_total == pytest.approx(4 * 2**0.5)
    assert card.buckets_released == 3  # the top bucket and two cells
    assert card.cells_released == 2
    table = shelf.tables["A", "B"]
    assert card.cells == len(table.n)
    assert card.rows == 20
    filled = table.n[~table.measured].sum()
    assert card.suppressed_share == pytest.approx(filled / 20)
    assert card.rounding_gap == 0
    assert card.rake_converged
    assert card.rake_cycles == table.rake_cycles >= 1
    assert card.rake_error == table.rake_error <= 0.01
    assert card.cells_per_entity == pytest.approx(2 / 20)
    one_way = shelf.cards["A",]
    assert one_way.sub_tables == ()
    assert (one_way.rows, one_way.cells, one_way.buckets_released) == (20, 2, 3)
    assert (one_way.suppressed_share, one_way.rake_cycles) == (0.0, 0)


def test_a_column_with_a_universe_is_fitted_after_the_one_that_decides_it():
    universe = CodedUniverse(declared=Universe(column="B"))
    shelf = fitted([("A",), ("B",)], names="AB", universes={"A": universe})
    assert shelf.tables["A",].n_rows == 50
