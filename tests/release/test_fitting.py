from __future__ import annotations

import numpy as np
import pytest
from fixtures.fit import Fits, integer_column, measured, text_column, top_for, total_measured
from fixtures.fitting import (
    EVERY_SET,
    TREES,
    Shelf,
    fitted_by,
    order_of,
)

from engine.errors import InternalError
from engine.relations import NO_RELATIONS
from engine.schema import CodedUniverse, Universe


def fitted(tables, shelf=None, **settings) -> Shelf:
    return fitted_by(order_of(tables, **settings), TREES, shelf)


def test_needed_tables():
    assert NO_RELATIONS.needed(()) == ()
    assert NO_RELATIONS.needed((("A",), ("B",))) == ()
    assert NO_RELATIONS.needed((("A", "B"),)) == (("A", "B"),)
    assert NO_RELATIONS.needed((("B",), ("A", "B", "C"), ("C", "D"))) == (
        ("A", "B"),
        ("A", "C"),
        ("B", "C"),
        ("C", "D"),
        ("A", "B", "C"),
    )
    four = NO_RELATIONS.needed((("A", "B", "C", "D"),))
    assert len(four) == 6 + 4 + 1
    assert four == tuple(cs for cs in EVERY_SET if len(cs) > 1)


def test_only_published_tables_are_stored():
    shelf = fitted([("A",), ("A", "B", "C")])
    assert set(shelf.tables) == {("A",), ("A", "B", "C")}
    assert set(shelf.supports) == {"A", "B", "C"}


def test_tables_of_an_earlier_run_are_not_stored_again():
    shelf = fitted([("A",), ("A", "B"), ("C",)], Shelf([("A",), ("A", "B")]))
    assert set(shelf.tables) == {("C",)}


def test_other_tables_change_nothing():
    alone, all_of_them = fitted([("B", "C", "D")]), fitted(EVERY_SET)
    one, other = (s.tables["B", "C", "D"] for s in (alone, all_of_them))
    assert (one.codes == other.codes).all()
    assert (one.n == other.n).all()
    assert alone.cards["B", "C", "D"] == all_of_them.cards["B", "C", "D"]


def test_order_of_columns_and_of_tables_in_the_header_changes_nothing():
    one, other = fitted(EVERY_SET), fitted(EVERY_SET[::-1], names="DCBA")
    for columns in EVERY_SET:
        assert (one.tables[columns].codes == other.tables[columns].codes).all()
        assert (one.tables[columns].n == other.tables[columns].n).all()


def test_what_was_not_measured_is_missed():
    for missing in ((), ("A",), ("A", "B")):
        trees = {columns: tree for columns, tree in TREES.items() if columns != missing}
        with pytest.raises(KeyError):
            fitted_by(order_of([("A", "B")]), trees)


def test_negative_total_fits_nothing():
    shelf = fitted_by(order_of([("A",)], names="A"), TREES | {(): total_measured(-2)})
    assert shelf.tables["A",].n_rows == 0
    assert shelf.cards["A",].suppressed_share == 0.0


def test_limits_reach_the_fit():
    data = np.repeat([0, 9], [10, 3])  # 8..15 passes with 3 rows, 9 alone does not
    tree = measured(("A",), data, (4,), threshold=4)
    for limits, largest in (({"A": (0, 9)}, 9), ({}, 15)):
        order = order_of([("A",)], names="A", limits=limits)
        shelf = fitted_by(order, {(): total_measured(1000), ("A",): tree})
        assert shelf.supports["A"].grid.max() == largest


def test_ranked_columns_are_limited_to_their_ranks():
    tree = measured(("T",), np.repeat([0, 4], [10, 3]), (3,), threshold=4, values=tuple("abcde"))
    order = order_of([("T",)], columns=(text_column("T"),))
    shelf = fitted_by(order, {(): total_measured(1000), ("T",): tree})
    assert shelf.supports["T"].grid.max() == 4
    assert shelf.supports["T"].values == tuple("abcde")


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


def test_sampling_keys_differ_by_column_set():
    wide = np.repeat([1 << 20], 60) + np.arange(60) * 997
    columns = tuple(integer_column(name) for name in "AB")
    trees = {(name,): measured((name,), wide, (top_for(wide),), threshold=50) for name in "AB"}
    order = order_of([("A",), ("B",)], columns=columns)
    shelf = fitted_by(order, trees | {(): total_measured(60)})
    drawn = [set(shelf.supports[name].grid.tolist()) for name in "AB"]
    assert len(drawn[0] & drawn[1]) <= 3


def test_a_column_with_a_universe_is_fitted_after_the_one_that_decides_it():
    universe = CodedUniverse(declared=Universe(column="B"))
    shelf = fitted([("A",), ("B",)], names="AB", universes={"A": universe})
    assert shelf.tables["A",].n_rows == 50


def test_the_column_that_decides_a_universe_must_be_there():
    universe = CodedUniverse(declared=Universe(column="A"))
    with pytest.raises(InternalError, match="a universe is decided by a column that was not"):
        fitted([("B",)], names="B", universes={"B": universe})
