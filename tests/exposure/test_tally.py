"""Tallies of figures: by hand, against a slow oracle, whatever the order of columns."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from attacks.trials import trial_of_rows
from fixtures.measure import Noiseless
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import InternalError
from engine.exposure import Figures, Tally, all_worst, pairs_of
from engine.exposure.tally import finest, pruned
from engine.ranges import code_bounds
from engine.schema import Measurement


def tree(columns, *nodes, scale=(1,)) -> Measurement:
    """A measurement by hand: each node is (depth, levels, indexes, parent, n), all of kind 2."""
    k, n = len(columns), len(nodes)
    return Measurement(
        columns=columns,
        depth=np.array([n[0] for n in nodes], dtype=np.uint8),
        kind=np.full((len(nodes), k), 2, dtype=np.uint8),
        level=np.array([n[1] for n in nodes], dtype=np.uint8).reshape(n, k),
        index=np.array([n[2] for n in nodes], dtype=np.int64).reshape(n, k),
        parent=np.array([n[3] for n in nodes], dtype=np.int64),
        n=np.array([n[4] for n in nodes], dtype=np.int64),
        scale=np.array(scale, dtype=np.int64),
    )


A = tree(("a",), (0, (1,), (0,), -1, 40), (1, (0,), (0,), 0, 10), (1, (0,), (1,), 0, 30))
B = tree(("b",), (0, (1,), (0,), -1, 40), (1, (0,), (0,), 0, 19), (1, (0,), (1,), 0, 21))
AB = tree(
    ("a", "b"),
    (0, (1, 1), (0, 0), -1, 40),
    (1, (0, 0), (0, 0), 0, 6),
    (1, (0, 0), (1, 0), 0, 14),
    (1, (0, 0), (1, 1), 0, 16),
)


def tally_of(*measurements, floor=5) -> Tally:
    out = Tally(floor)
    for measurement in measurements:
        out.add(measurement)
    return out


def test_a_table_of_two_columns_by_hand():
    tally = tally_of(A, B, AB)
    cells = tally.figures(("a",))[0]
    # a = 0 holds one finest bucket, a = 1 two, and all of them lie inside the whole column.
    assert cells[:, 0].tolist() == [3, 1, 2]
    _, of, figures = tally.figures(("a",))
    assert of == [(0, "b")]
    assert np.array_equal(figures, cells)
    assert tally.people(("a",), cells.max(axis=1)).tolist() == [40, 10, 30]
    found = Figures(tally)
    assert pairs_of(all_worst(found)) == {(("a",), "b"): 0.1, (("b",), "a"): 2 / 19}
    assert found.without([("a", "b")]).worst(("a",)) == []


def test_a_group_has_as_many_people_as_a_table_splits_it_into_times_the_threshold():
    tally = tally_of(A, B, AB, floor=9)
    assert tally.people(("a",), tally.figures(("a",))[0].max(axis=1)).tolist() == [40, 18, 30]
    assert tally.people(("a",)).tolist() == [40, 18, 30]


def test_a_bucket_that_the_narrower_table_lacks_counts_for_what_holds_its_parent():
    lacking = tree(("a",), (0, (1,), (0,), -1, 40), (1, (0,), (0,), 0, 10))
    wide = tree(("a", "b"), *[(0, (1, 1), (0, 0), -1, 40), (1, (0, 0), (0, 0), 0, 6)])
    tally = tally_of(lacking, B, wide)
    assert tally.figures(("a",))[0][:, 0].tolist() == [1, 1]


def test_the_total_and_single_columns_tell_nothing_of_groups():
    tally = tally_of(tree((), (0, (), (), -1, 40)), A, B)
    assert all_worst(Figures(tally)) == []


@pytest.mark.parametrize("measurements", [(AB,), (A, AB)])
def test_a_table_before_its_columns_is_our_mistake(measurements):
    with pytest.raises(InternalError, match="measured after"):
        tally_of(*measurements)


def test_a_range_that_the_column_does_not_release_is_our_mistake():
    other = tree(("a", "b"), (0, (3, 1), (0, 0), -1, 40))
    with pytest.raises(InternalError, match="does not release"):
        tally_of(A, B, other)


def test_a_three_way_table_before_its_pairs_is_our_mistake():
    c = tree(("c",), (0, (1,), (0,), -1, 40))
    abc = tree(("a", "b", "c"), (0, (1, 1, 1), (0, 0, 0), -1, 40))
    with pytest.raises(InternalError, match="measured after a table"):
        tally_of(A, B, c, abc)


def test_left_out_tables_tell_nothing():
    figures = Figures(tally_of(A, B, AB))
    before = pairs_of(all_worst(figures))
    assert before
    assert all_worst(figures.without([("a", "b")])) == []
    same = figures.without(())
    assert pairs_of(all_worst(same)) == before
    same.leave_out(("a", "b"))
    assert all_worst(same) == []
    assert pairs_of(all_worst(figures)) == before


def test_pruning_leaves_buckets_of_enough_people_inside_such_buckets():
    cut = pruned(AB, 15)
    assert (cut.n.tolist(), cut.parent.tolist()) == ([40, 16], [-1, 0])
    assert finest(cut).tolist() == [False, True]
    # a = 0 and b = 0 are not shown any more: what is left says less.
    assert pairs_of(all_worst(Figures(tally_of(A, B, AB).raised(15)))) == {
        (("a",), "b"): 1 / 30,
        (("b",), "a"): 1 / 30,
    }


def boxes(measurement: Measurement, columns, at) -> list[tuple]:
    """The ranges of some buckets in some columns: kind and both ends."""
    j = [measurement.columns.index(c) for c in columns]
    low, high = code_bounds(
        *(x[:, j] for x in (measurement.kind, measurement.level, measurement.index))
    )
    return [
        tuple(zip(measurement.kind[i][j].tolist(), low[i].tolist(), high[i].tolist(), strict=True))
        for i in np.flatnonzero(at)
    ]


def inside(box, other) -> bool:
    return all(
        k == m and low >= start and high <= stop
        for (k, low, high), (m, start, stop) in zip(box, other, strict=True)
    )


@settings(max_examples=5, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(5, 300),
    widths=st.tuples(*[st.integers(1, 9)] * 3),
    negative=st.booleans(),
)
def test_figures_are_those_of_a_slow_count(seed, rows, widths, negative):
    rng = np.random.default_rng(seed)
    codes = {
        name: rng.integers(-width if negative else 0, width, rows)
        for name, width in zip("abc", widths, strict=True)
    }
    measurements = trial_of_rows(codes, [("a", "b", "c")], seed, draws=Noiseless(3)).measurements
    tally = tally_of(*measurements.values())
    for group in (*combinations("abc", 1), *combinations("abc", 2)):
        groups = boxes(measurements[group], group, measurements[group].n >= 0)
        tables = [split.columns for split in tally.splits[group]]
        assert tables == [t for t in measurements if set(group) < set(t)]
        cells, of, figures = tally.figures(group)
        for at, table in enumerate(tables):
            wide = measurements[table]
            within = boxes(wide, group, finest(wide))
            whole = boxes(wide, table, finest(wide))
            slow = [sum(inside(cell, box) for cell in within) for box in groups]
            assert cells[:, at].tolist() == slow
            for told in set(table) - set(group):
                news = [is_news(cell, whole, table, {*group, told}) for cell in whole]
                slow = [
                    sum(inside(cell, box) for cell, new in zip(within, news, strict=True) if new)
                    for box in groups
                ]
                assert figures[:, of.index((at, told))].tolist() == slow


def is_news(cell, cells, table, apart) -> bool:
    """Whether, for each column not set apart, another cell lies where a cell does in all columns but that one."""
    return all(
        any(
            other != cell
            and all(
                inside((a,), (b,)) or inside((b,), (a,))
                for i, (a, b) in enumerate(zip(cell, other, strict=True))
                if i != j
            )
            for other in cells
        )
        for j, name in enumerate(table)
        if name not in apart
    )


def test_a_constant_column_tells_nothing_new():
    """Locked to the narrower table, its buckets are those of that table: no second look at the same people."""
    rng = np.random.default_rng(4)
    n = 500
    codes = {"a": rng.integers(0, 3, n), "b": rng.integers(0, 2, n), "c": np.full(n, 7)}
    few = trial_of_rows(codes, [("a", "b")], 5).measurements
    many = trial_of_rows(codes, [("a", "b", "c")], 5).measurements
    one, other = (pairs_of(all_worst(Figures(tally_of(*m.values())))) for m in (few, many))
    assert {pair: most for pair, most in other.items() if "c" not in str(pair)} == one


def test_a_further_table_changes_no_figure_of_the_others():
    rng = np.random.default_rng(3)
    codes = {name: rng.integers(0, n, 400) for name, n in (("a", 3), ("b", 5), ("c", 2), ("d", 4))}
    few = trial_of_rows(codes, [("a", "b", "c")], 3).measurements
    many = trial_of_rows(codes, [("a", "b", "c"), ("a", "c", "d")], 3).measurements
    one, other = (tally_of(*m.values()) for m in (few, many))
    for group in one.groups:
        _, of, figures = one.figures(group)
        _, more, of_all = other.figures(group)
        tables = [[split.columns for split in tally.splits[group]] for tally in (one, other)]
        same = [more.index((tables[1].index(tables[0][at]), told)) for at, told in of]
        assert np.array_equal(figures, of_all[:, same])
