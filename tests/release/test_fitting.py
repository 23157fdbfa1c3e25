from __future__ import annotations

import threading
from concurrent.futures import Future

import numpy as np
import pytest
from fixtures.fit import Fits, integer_column, measured, text_column, top_for, total_measured
from fixtures.fitting import (
    EVERY_SET,
    TREES,
    Shelf,
    order_of,
)

from engine.errors import InternalError, StoreError
from engine.fit import lock_table
from engine.relations import NO_RELATIONS
from engine.release import fitter as fitting
from engine.release.fitter import FitAnswer, Fitter
from engine.schema import CodedUniverse, Universe


def run(fitter, sets):
    fitter.take(total_measured(50))
    for columns in [*((name,) for name in "ABCD"), *sets]:
        fitter.take(TREES[columns])


def fitted(tables, shelf=None, **settings) -> Shelf:
    shelf = shelf or Shelf()
    run(Fitter(order_of(tables, **settings), shelf), NO_RELATIONS.needed(tuple(tables)))
    return shelf


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


def test_total_comes_first():
    fitter = Fitter(order_of([("A",)]), Shelf())
    with pytest.raises(InternalError, match="total"):
        fitter.take(TREES["A",])


@pytest.mark.parametrize("given", [(), (("A",),), (("A",), ("B",))])
def test_narrower_tables_come_first(given):
    fitter = Fitter(order_of([("A", "B", "C")]), Shelf())
    fitter.take(total_measured(50))
    for columns in given:
        fitter.take(TREES[columns])
    with pytest.raises(InternalError, match="before the narrower"):
        fitter.take(TREES["A", "B", "C"])


def test_total_itself_is_no_table():
    assert Fitter(order_of([("A",)]), Shelf()).take(total_measured(50)) is None


def test_negative_total_fits_nothing():
    shelf = Shelf()
    fitter = Fitter(order_of([("A",)], names="A"), shelf)
    fitter.take(total_measured(-2))
    fitter.take(TREES["A",])
    assert shelf.tables["A",].n_rows == 0
    assert shelf.cards["A",].suppressed_share == 0.0


def test_memory_follows_what_is_still_needed():
    fitter = Fitter(order_of([("A", "B", "C"), ("C", "D")]), Shelf())
    fitter.take(total_measured(50))
    for name in "ABCD":
        fitter.take(TREES[name,])
    held = []
    for columns in (("A", "B"), ("A", "C"), ("B", "C"), ("C", "D"), ("A", "B", "C")):
        fitter.take(TREES[columns])
        held.append({c for c in fitter._tables if len(c) > 1})
    pairs = [("A", "B"), ("A", "C"), ("B", "C")]
    assert held == [set(pairs[:1]), set(pairs[:2]), set(pairs), set(pairs), set()]


def test_limits_reach_the_fit():
    data = np.repeat([0, 9], [10, 3])  # 8..15 passes with 3 rows, 9 alone does not
    tree = measured(("A",), data, (4,), threshold=4)
    for limits, largest in (({"A": (0, 9)}, 9), ({}, 15)):
        shelf = Shelf()
        fitter = Fitter(order_of([("A",)], names="A", limits=limits), shelf)
        fitter.take(total_measured(1000))
        fitter.take(tree)
        assert shelf.supports["A"].grid.max() == largest


def test_ranked_columns_are_limited_to_their_ranks():
    shelf = Shelf()
    fitter = Fitter(order_of([("T",)], columns=(text_column("T"),)), shelf)
    tree = measured(("T",), np.repeat([0, 4], [10, 3]), (3,), threshold=4, values=tuple("abcde"))
    fitter.take(total_measured(1000))
    fitter.take(tree)
    assert shelf.supports["T"].grid.max() == 4
    assert shelf.supports["T"].values == tuple("abcde")


def test_card_by_hand():
    # 20 rows: A = 0 with 12, A = 1 with 8; B = 0 with 10, B = 1 with 10. Of the four pairs (0, 0) has 9,
    # (1, 1) has 7, (0, 1) has 3 and (1, 0) has 1: with a threshold of 4 two of them are released.
    a = np.repeat([0, 0, 1, 1], [9, 3, 7, 1])
    b = np.repeat([0, 1, 1, 0], [9, 3, 7, 1])
    fits = Fits({"A": a, "B": b}, threshold=4)
    shelf = Shelf()
    fitter = Fitter(order_of([("A",), ("A", "B")], names="AB"), shelf)
    fitter.take(total_measured(20, scale=4))
    for columns in (("A",), ("B",), ("A", "B")):
        fitter.take(fits.measurement(columns))
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
    shelf = Shelf()
    fitter = Fitter(order_of([("A",), ("B",)], columns=columns), shelf)
    fitter.take(total_measured(60))
    for name in "AB":
        fitter.take(measured((name,), wide, (top_for(wide),), threshold=50))
    drawn = [set(shelf.supports[name].grid.tolist()) for name in "AB"]
    assert len(drawn[0] & drawn[1]) <= 3


# Under way.


class Later:
    """Workers that are done when the test says so."""

    def __init__(self):
        self.jobs: list[tuple[dict, Future]] = []

    def lock(self, *, left: int, **job) -> Future:
        assert left > 0
        self.jobs.append((job, Future()))
        return self.jobs[-1][1]

    def done(self, number: int) -> None:
        job, future = self.jobs[number]
        future.set_result(lock_table(**job))


def under_way(tables, sets) -> tuple[Fitter, Shelf, Later]:
    """A fitter that has settled all one-way tables and begun some others."""
    shelf, workers = Shelf(), Later()
    fitter = Fitter(order_of(tables), shelf, workers)
    fitter.begin(total_measured(50))
    for name in "ABCD":
        fitter.begin(TREES[name,])
    fitter.settle(0)
    for columns in sets:
        fitter.begin(TREES[columns])
    return fitter, shelf, workers


def test_what_is_told_of_measurements():
    fitter = Fitter(order_of([("A",)]), Shelf())
    fitter.begin(total_measured(50))
    fitter.begin(TREES["A",])
    assert fitter.settle(9) == [FitAnswer(columns=()), FitAnswer(columns=("A",))]
    assert fitter.settle(0) == []


def test_tables_are_stored_in_the_order_in_which_they_came():
    pairs = [("A", "B"), ("A", "C"), ("C", "D")]
    fitter, shelf, workers = under_way(pairs, pairs)
    workers.done(2)
    workers.done(1)
    assert fitter.settle(3) == []  # the first is still under way, and so many may be
    assert list(shelf.tables) == []
    workers.done(0)
    assert [f.columns for f in fitter.settle(3)] == pairs
    assert list(shelf.tables) == pairs


def test_more_may_be_under_way_where_they_have_few_buckets(monkeypatch):
    pairs = [("A", "B"), ("A", "C"), ("C", "D")]
    monkeypatch.setattr(fitting, "FEW_BUCKETS", sum(TREES[pair].n_nodes for pair in pairs))
    fitter, _, workers = under_way(pairs, pairs)
    assert fitter.settle(1, 3) == []
    monkeypatch.setattr(fitting, "FEW_BUCKETS", sum(TREES[pair].n_nodes for pair in pairs) - 1)
    for place in range(3):
        workers.done(place)
    fitter._is_done = lambda: False  # nothing goes but what must
    assert [f.columns for f in fitter.settle(1, 3)] == pairs[:1]  # the other two have fewer
    assert [f.columns for f in fitter.settle(1, 2)] == []


def test_cells_of_what_is_fitted_count_with_the_buckets(monkeypatch):
    pairs = [("A", "B"), ("A", "C"), ("C", "D")]
    fitter, _, workers = under_way(pairs, pairs)
    fitter._is_done = lambda: False  # nothing goes but what must
    buckets = sum(TREES[pair].n_nodes for pair in pairs)
    workers.done(2)
    cells = len(workers.jobs[2][1].result().n)
    monkeypatch.setattr(fitting, "FEW_BUCKETS", buckets + cells)
    assert fitter.settle(1, 3) == []
    monkeypatch.setattr(fitting, "FEW_BUCKETS", buckets + cells - 1)
    workers.done(0)
    assert [f.columns for f in fitter.settle(2, 3)] == pairs[:1]


def test_a_table_that_could_not_be_fitted_is_told_of_in_its_turn():
    pairs = [("A", "B"), ("A", "C")]
    fitter, shelf, workers = under_way(pairs, pairs)
    workers.jobs[1][1].set_exception(StoreError("too little memory"))
    assert fitter.settle(2, 2) == []
    workers.done(0)
    with pytest.raises(StoreError, match="too little memory"):
        fitter.settle(1, 1)
    assert list(shelf.tables) == pairs[:1]


def test_settling_waits_for_no_more_than_it_must():
    pairs = [("A", "B"), ("A", "C"), ("C", "D")]
    fitter, shelf, workers = under_way(pairs, pairs)
    workers.done(0)
    assert [f.columns for f in fitter.settle(2)] == pairs[:1]
    waiter = threading.Timer(0.05, workers.done, (1,))
    waiter.start()
    assert [f.columns for f in fitter.settle(1)] == pairs[1:2]
    assert list(shelf.tables) == pairs[:2]
    waiter.join()


def test_a_table_waits_for_the_narrower_ones_it_is_locked_to_and_no_others():
    pairs = [("A", "B"), ("A", "C"), ("B", "C"), ("C", "D")]
    fitter, shelf, workers = under_way([*pairs, ("A", "B", "C")], pairs)
    waiters = [threading.Timer(0.02 * i, workers.done, (i,)) for i in range(3)]
    for waiter in waiters:
        waiter.start()
    fitter.begin(TREES["A", "B", "C"])  # C, D is not done yet
    assert list(shelf.tables) == pairs[:3]
    for i in (3, 4):
        workers.done(i)
    assert [f.columns for f in fitter.settle(0)] == [*pairs, ("A", "B", "C")]
    alone = fitted([("A", "B", "C")]).tables["A", "B", "C"]
    assert (shelf.tables["A", "B", "C"].codes == alone.codes).all()
    assert (shelf.tables["A", "B", "C"].n == alone.n).all()


def test_a_missing_narrower_table_is_not_waited_for():
    """What is under way is settled; then it is known that the table came too early."""
    fitter, _, workers = under_way([("A", "B", "C")], [("A", "B"), ("A", "C")])
    for i in range(2):
        workers.done(i)
    with pytest.raises(InternalError, match="before the narrower"):
        fitter.begin(TREES["A", "B", "C"])


def test_the_error_of_a_table_under_way_is_raised():
    fitter, shelf, workers = under_way([("A", "B"), ("A", "C")], [("A", "B"), ("A", "C")])
    workers.jobs[0][1].set_exception(StoreError("told"))
    workers.done(1)
    with pytest.raises(StoreError, match="told"):
        fitter.settle(0)
    assert list(shelf.tables) == []


def test_memory_follows_what_is_still_needed_with_tables_under_way_too():
    pairs = [("A", "B"), ("A", "C"), ("B", "C"), ("C", "D")]
    fitter, _, workers = under_way([("A", "B", "C"), ("C", "D")], pairs)
    for i in range(4):
        workers.done(i)
    fitter.begin(TREES["A", "B", "C"])
    held = {c for c in fitter._tables if len(c) > 1}
    assert held == set(pairs[:3])
    workers.done(4)
    fitter.settle(0)
    assert {c for c in fitter._tables if len(c) > 1} == set()


@pytest.mark.parametrize("names", ["AB", "BA"])
def test_columns_are_fitted_once_all_have_come(names):
    universe = CodedUniverse(declared=Universe(column="A"))
    shelf = Shelf()
    order = order_of([("A",), ("B",)], names="AB", universes={"B": universe})
    fitter = Fitter(order, shelf)
    fitter.take(total_measured(50))
    fitter.take(TREES[names[0],])
    assert not shelf.tables
    fitter.take(TREES[names[1],])
    assert shelf.tables["B",].n_rows == 50


def test_the_column_that_decides_a_universe_must_come():
    universe = CodedUniverse(declared=Universe(column="A"))
    fitter = Fitter(order_of([("B",)], names="B", universes={"B": universe}), Shelf())
    fitter.take(total_measured(50))
    with pytest.raises(InternalError, match="a universe is decided by a column that was not"):
        fitter.take(TREES["B",])


def test_no_column_comes_after_a_wider_table():
    fitter = Fitter(order_of([("A", "B"), ("C",)]), Shelf())
    for columns in [("A",), ("B",), ("A", "B")]:
        if columns == ("A",):
            fitter.take(total_measured(50))
        fitter.take(TREES[columns])
    with pytest.raises(InternalError, match="a column came after"):
        fitter.take(TREES["C",])


def test_total_comes_first_for_wider_tables_too():
    with pytest.raises(InternalError, match="total"):
        Fitter(order_of([("A", "B")]), Shelf()).begin(TREES["A", "B"])


# The process boundary.
