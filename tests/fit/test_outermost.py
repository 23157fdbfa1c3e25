"""Bounds where none are declared: nothing is drawn beyond the outermost released ranges, nor beyond the data."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import pytest
from fixtures.fit import KEY, integer_column, measured, top_for, tree_of
from fixtures.measure import cells_of, column, key_number, sticky, tokens_of
from fixtures.measure import measured as measured_rows
from fixtures.pipeline import table_hashes, write_spec
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.api.reading import read
from engine.fit import Noise, fit_support, found_limits
from engine.mechanism import RowBounds, grow
from engine.release import build
from engine.schema import KIND_NEGATIVE, KIND_NONNEGATIVE, KIND_NULL, Resolution

NONNEG, NEG, NULL = KIND_NONNEGATIVE, KIND_NEGATIVE, KIND_NULL


def limits(tree, one=None, deciders=()):
    return found_limits({"A": tree}, (one or integer_column(),), deciders).get("A")


def drawn(tree, found, *, step=1, total=None):
    return fit_support(
        tree,
        integer_column(step=step),
        noise=Noise(int(tree.n[tree.depth == 0].sum()), 3, 0),
        total=total or int(tree.n[tree.depth == 0].sum()),
        code_limits=found,
        key=KEY,
    )


# 0..15 of 100 rows; below and above a few in ranges of four, 4..11 in single values.
WIDE = [
    (0, NONNEG, 4, 0, -1, 100),
    (1, NONNEG, 3, 0, 0, 50),
    (1, NONNEG, 3, 1, 0, 50),
    (2, NONNEG, 2, 0, 1, 6),
    (2, NONNEG, 2, 1, 1, 44),
    (2, NONNEG, 2, 2, 2, 42),
    (2, NONNEG, 2, 3, 2, 8),
]


def test_the_inner_ends_of_the_outermost_ranges_by_hand():
    assert limits(tree_of(WIDE)) == (3, 12)


def test_rows_of_an_outermost_range_stand_at_its_inner_end():
    support = drawn(tree_of(WIDE), limits(tree_of(WIDE)))
    found = dict(zip(support.grid.tolist(), support.n.tolist(), strict=True))
    assert found[3] == 6
    assert found[12] == 8
    assert min(found) == 3
    assert max(found) == 12
    without = drawn(tree_of(WIDE), None)
    assert without.grid.min() < 3 or without.grid.max() > 12


def test_nothing_is_drawn_in_suppressed_halves_beyond():
    # 8..15 lacks 12..15, and 0..7 lacks 0..3; their remainders stay inside.
    nodes = [
        (0, NONNEG, 4, 0, -1, 100),
        (1, NONNEG, 3, 0, 0, 60),
        (1, NONNEG, 3, 1, 0, 40),
        (2, NONNEG, 2, 1, 1, 40),
        (2, NONNEG, 2, 2, 2, 25),
    ]
    tree = tree_of(nodes)
    assert limits(tree) == (4, 11)  # both hold more than one in ten: drawn from in full
    support = drawn(tree, limits(tree))
    assert support.n.sum() == 100
    assert (support.grid.min(), support.grid.max()) == (4, 11)
    assert drawn(tree, None).grid.max() > 11


def test_negative_values_are_below_the_others():
    nodes = [(0, NULL, 0, 0, -1, 30), (0, NEG, 2, 0, -1, 5), (0, NONNEG, 2, 0, -1, 95)]
    assert limits(tree_of(nodes)) == (-1, 3)
    nodes = [(0, NEG, 2, 0, -1, 95), (0, NONNEG, 2, 0, -1, 5)]
    assert limits(tree_of(nodes)) == (-4, 0)


@pytest.mark.parametrize(
    ("step", "found"), [(1, (3, 12)), (2, (2, 12)), (3, (3, 12)), (7, (0, 14))]
)
def test_the_ends_are_multiples_of_the_step(step, found):
    assert limits(tree_of(WIDE), integer_column(step=step)) == found
    support = drawn(tree_of(WIDE), found, step=step)
    assert found[0] <= support.grid.min()
    assert support.grid.max() <= found[1]


def test_a_range_without_a_multiple_has_its_own_inner_end():
    nodes = [(0, NONNEG, 1, 8, -1, 5), (0, NONNEG, 4, 3, -1, 95)]
    assert limits(tree_of(nodes), integer_column(step=10)) == (17, 63)


def test_one_range_and_none():
    assert limits(tree_of([(0, NONNEG, 4, 1, -1, 40)])) == (16, 31)
    assert limits(tree_of([(0, NULL, 0, 0, -1, 40)])) is None
    assert limits(tree_of([])) is None
    # Noise may leave nothing to compare with.
    assert limits(tree_of([(0, NONNEG, 4, 1, -1, -2)])) == (16, 31)


def test_declared_bounds_lists_and_deciders_are_left_alone():
    tree = tree_of(WIDE)
    assert limits(tree, integer_column(bounds=(-5, 80))) is None
    assert limits(tree, column("A", "boolean")) is None
    assert limits(tree, column("A", "category")) is None
    assert limits(tree, integer_column(), {"A"}) == (0, 15)
    assert limits(tree, integer_column(), {"B"}) == (3, 12)
    for kind in ("real", "decimal", "date", "timestamp"):
        assert limits(tree, column("A", kind, resolution=Resolution())) == (3, 12)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(-70, 90), min_size=5, max_size=150),
    st.integers(2, 6),
    st.sampled_from([1, 1, 5]),
)
def test_no_small_outermost_range_is_left_beyond_the_data(rows, threshold, step):
    rows = np.array(rows) * step
    tree = measured(("A",), rows, (top_for(rows),), threshold=threshold)
    found = limits(tree, integer_column(step=step))
    if found is None:
        assert not (tree.kind != NULL).any()
        return
    support = drawn(tree, found, step=step, total=len(rows))
    assert support.n.sum() == len(rows)
    assert found[0] <= support.grid.min() <= support.grid.max() <= found[1]
    valued = tree.n[(tree.depth == 0)].sum()
    low, high = (tree.n[_outermost(tree, side)] * 10 <= valued for side in (0, 1))
    assert not low or support.grid.min() >= rows.min()
    assert not high or support.grid.max() <= rows.max()


def _outermost(tree, side) -> int:
    """Slow twin: the leaf that holds the smallest or largest code."""
    ends = {}
    for node in range(tree.n_nodes):
        if node not in tree.parent:
            size, index = 1 << int(tree.level[node, 0]), int(tree.index[node, 0])
            codes = (index * size, (index + 1) * size - 1)
            if tree.kind[node, 0] == NEG:
                codes = (-1 - codes[1], -1 - codes[0])
            ends[node] = codes[side]
    return (max if side else min)(ends, key=ends.get)


# --- what one person changes -----------------------------------------------------------------------------------


def ends_of(codes, number: int):
    rows = [((int(code),), (i,)) for i, code in enumerate(codes)]
    cells = cells_of(rows, ("A",), [tokens_of(len(rows) + 40, 3)], [True])
    tree = grow(cells, (15,), sticky(number), RowBounds(most=None, of_values={}))
    return limits(tree)


OTHERS = np.repeat(np.arange(9_000, 9_100), 4)


@pytest.mark.parametrize("outer", [0, 1])
def test_one_person_at_the_extreme_never_moves_a_bound(outer):
    """Whether nobody is there yet, or one: fewer than three never make a range."""
    few = np.full(outer, 20_000)
    for number in range(25):
        without = ends_of([*OTHERS, *few], number)
        assert ends_of([*OTHERS, *few, 20_000], number) == without
        assert without[1] < 9_100


@pytest.mark.ci
def test_of_about_five_one_more_moves_a_bound_by_keyed_chance():
    """Four and five people draw thresholds of their own from N(5, 1): 31 and 69 % pass."""
    trials = 100
    moved = 0
    for number in range(trials):
        one, other = (ends_of([*OTHERS, *[20_000] * n], number)[1] for n in (4, 5))
        assert one in (20_000, 9_099) or one < 9_100
        moved += one != other
    weight = [math.exp(-(k * k) / 2) for k in range(-9, 10)]
    four, five = (sum(weight[:end]) / sum(weight) for end in (9, 10))
    expected = four * (1 - five) + five * (1 - four)
    assert abs(moved / trials - expected) < 5 * math.sqrt(expected * (1 - expected) / trials)


@pytest.mark.ci
def test_the_same_people_give_the_same_bound_in_any_order():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"A": np.append(rng.integers(9_000, 9_900, 300), [20_000] * 5)})
    for number in range(6):
        runs = [
            measured_rows(part, columns=(column("A"),), key=key_number(number)).one_way["A"]
            for part in (frame, frame.sample(frac=1, random_state=number))
        ]
        assert limits(runs[0]) == limits(runs[1])


# --- whole releases --------------------------------------------------------------------------------------------


def days_of_2021(per_day: float) -> pd.DataFrame:
    """Stays from the first of January 2021 on, most days of 2021 and 2022."""
    rng = np.random.default_rng(7)
    n = int(730 * per_day)
    day = np.concatenate([[0, 0], rng.integers(0, 730, n)])
    moment = pd.Timestamp("2021-01-01") + pd.to_timedelta(
        day * 86_400 + rng.integers(0, 86_400, len(day)), "s"
    )
    return pd.DataFrame(
        {
            "id": np.arange(len(day)),
            "day": moment.normalize(),
            "moment": moment,
            "cost": np.round(250 + rng.lognormal(5, 1, len(day)), 2),
        }
    )


ID = {"id": {"kind": "integer"}}
KINDS = {
    "day": {"kind": "date"},
    "moment": {"kind": "timestamp"},
    "cost": {"kind": "decimal", "resolution": 0.01},
}


@pytest.mark.ci
@pytest.mark.parametrize(
    ("per_day", "keys"),
    [(0.7, 5), *(pytest.param(n, 30, marks=pytest.mark.slow) for n in (0.7, 2.5, 9.0))],
)
def test_no_2020_in_data_that_begin_in_2021(per_day, keys):
    """Sparse and dense."""
    frame = days_of_2021(per_day)
    columns = tuple(
        column("cost", "decimal", resolution=Resolution(exponent=-2))
        if name == "cost"
        else column(name, settings["kind"])
        for name, settings in KINDS.items()
    )
    first = (datetime.date(2021, 1, 1) - datetime.date(1970, 1, 1)).days
    truth = {
        "day": (first, first + 729),
        "moment": (first * 86_400, (first + 730) * 86_400 - 1),
        "cost": (round(frame.cost.min() * 100), round(frame.cost.max() * 100)),
    }
    reached = 0
    for number in range(keys):
        run = measured_rows(frame[list(KINDS)], columns=columns, key=key_number(number))
        found = found_limits(run.one_way, columns)
        for one in columns:
            tree = run.one_way[one.name]
            for code_limits in (found[one.name], None):
                support = fit_support(
                    tree,
                    one,
                    noise=Noise(int(run.one_way[""].n[0]), 3, 1),
                    total=int(run.one_way[""].n[0]),
                    total_sd=1.4,
                    code_limits=code_limits,
                    key=KEY,
                )
                low, high = truth[one.name]
                is_inside = low <= support.grid.min() and support.grid.max() <= high
                if code_limits is None:
                    reached += not is_inside
                else:
                    assert is_inside
    assert reached > keys  # without bounds most of them (three columns a key) reach beyond


@pytest.mark.ci
def test_a_release_says_its_bounds_and_keeps_to_them(tmp_path):
    days_of_2021(1.5).to_parquet(tmp_path / "stays.parquet")
    tables = [("day",), ("moment",), ("cost",), ("cost", "day")]
    spec = write_spec(tmp_path, tmp_path / "stays.parquet", ID | KINDS, tables, entities=("id",))
    out = build(read(spec), tmp_path / "r.duckdb")
    with duckdb.connect(str(out), read_only=True) as con:
        notes = [note for (note,) in con.execute("SELECT note FROM catalog.notes").fetchall()]
        for table in ("day", "moment", '"cost.day"'):
            name = "moment" if table == "moment" else "day"
            first, last = con.execute(f"SELECT min({name}), max({name}) FROM {table}").fetchone()
            assert first.year == 2021
            assert last.year == 2022
        shown = con.execute("SELECT min(cost), max(cost) FROM cost").fetchone()
    (told,) = [note for note in notes if note.startswith("Bounds found in the data with noise")]
    for name, ends in (("day", None), ("moment", None), ("cost", shown)):
        assert f"{name} from " in told
        if ends is not None:
            low, high = told.partition("cost from ")[2].split(";")[0].split(". ")[0].split(" to ")
            assert Decimal(low) <= ends[0] <= ends[1] <= Decimal(high)


@pytest.mark.ci
def test_a_column_shows_the_same_whichever_other_tables_are_asked_for(tmp_path):
    """Age decides a universe of a column that only one of both builds has tables of."""
    rng = np.random.default_rng(4)
    age = np.append(rng.integers(15, 70, 900), [12, 13, 13, 14, 14])
    pd.DataFrame(
        {"id": range(len(age)), "age": age, "job": np.where(age < 16, None, "some")}
    ).to_parquet(tmp_path / "a.parquet")
    kinds = ID | {
        "age": {"kind": "integer"},
        "job": {"kind": "category", "universe": {"column": "age", "min": 16}},
    }
    digests = set()
    for tables in ([("age",)], [("age",), ("job",)]):
        spec = write_spec(tmp_path, tmp_path / "a.parquet", kinds, tables, entities=("id",))
        out = build(read(spec), tmp_path / f"{len(tables)}.duckdb")
        digests.add(table_hashes(out)["age",])
    assert len(digests) == 1
