from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

import duckdb
import numpy as np
import pandas as pd
import pytest
from fixtures.margins import (
    COLUMNS,
    EXACT,
    FRAME,
    NAMES,
    NO_NOISE,
    counted_slowly,
    frame_of,
    make_spec,
    measure,
)
from fixtures.measure import cells_of, column, tokens_of

from engine.cell_keys import CodeSpan
from engine.measure import coding
from engine.measure.cells import DuckDBCells
from engine.measure.dp import counting, levels_of, shares
from engine.measure.dp.counting import bounded_rows, counted, counter
from engine.mechanism import AdditiveEntities, ArrayCells, Cells
from engine.progress import silent
from engine.schema import NULL_CODE, OTHER_CODE
from engine.source import EntityColumn, open_rows

pytest.importorskip("opendp")

MASK = 2**64 - 1
EXTREMES = [NULL_CODE, OTHER_CODE, -(2**63) + 2, -1, 0, 2**63 - 2]

SQL_NAMES = {"A": "c0", "B": "c1", "C": "c2"}


def source_of(rows, tokens, additive, threads=1, spans=None):
    """A table as `entities` leaves it, with columns A -> c0, B -> c1, C -> c2; by spans small numbers in it."""
    con = duckdb.connect(config={"threads": str(threads)})
    names, types = ["c0", "c1", "c2"], ["BIGINT"] * 3
    for k in range(len(tokens)):
        names += [f"e{k}", f"l{k}_0", f"l{k}_1"]
        types += ["BIGINT", "UBIGINT", "UBIGINT"]
    declared = ", ".join(f"{n} {t}" for n, t in zip(names, types, strict=True))
    con.execute(f"CREATE TABLE t ({declared})")
    for codes, entities in rows:
        lanes = [x for k, e in enumerate(entities) for x in (e, *map(int, tokens[k][e]))]
        con.execute(f"INSERT INTO t VALUES ({', '.join('?' * len(names))})", [*codes, *lanes])
    columns = tuple(
        EntityColumn(number=k, tokens=None if additive[k] else tokens[k])
        for k in range(len(tokens))
    )
    if spans:
        small = [f"{spans[name].small(sql)} AS {sql}" for name, sql in SQL_NAMES.items()]
        con.execute(f"CREATE TABLE small AS SELECT * REPLACE ({', '.join(small)}) FROM t")
    return DuckDBCells(con, "small" if spans else "t", SQL_NAMES, columns, spans)


def arrays_of(rows, tokens, additive):
    """The same rows as arrays."""
    codes = np.array([c for c, _ in rows], dtype=np.int64).reshape(len(rows), 3)
    numbers = np.array([e for _, e in rows], dtype=np.int64).reshape(len(rows), len(tokens))
    held = [
        (of_kind[numbers[:, k]], None) if additive[k] else (numbers[:, k], of_kind)
        for k, of_kind in enumerate(tokens)
    ]
    return ArrayCells(dict(zip("ABC", codes.T, strict=True)), len(rows), tuple(held))


SOURCES = pytest.mark.parametrize("make", [source_of, arrays_of], ids=["DuckDB", "numpy"])


def content(cells: Cells) -> dict:
    """Everything of the cells but their order."""
    out = {}
    codes = [tuple(c) for c in cells.codes.tolist()]
    for i, code in enumerate(codes):
        out[code] = [int(cells.n_rows[i])]
    assert len(out) == len(codes)
    for entity in cells.entities:
        if isinstance(entity, AdditiveEntities):
            for i, code in enumerate(codes):
                out[code].append(tuple(entity.lanes[i].tolist()))
            continue
        pairs = defaultdict(dict)
        for cell, e, n in zip(entity.cell, entity.entity, entity.n_rows, strict=True):
            assert int(e) not in pairs[cell]
            pairs[cell][int(e)] = int(n)
        for i, code in enumerate(codes):
            out[code].append((dict(sorted(pairs[i].items())), entity.tokens.tobytes()))
    return out


def some_rows(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return [
        (
            (int(rng.integers(-1, 2)), EXTREMES[rng.integers(6)], int(rng.integers(4))),
            (i, int(rng.integers(7))),
        )
        for i in range(n)
    ]


@SOURCES
@pytest.mark.parametrize("names", [(), ("B",), ("A", "B", "C")])
@pytest.mark.parametrize("additive", [(True, False), (False, True), (False, False)])
def test_cells_are_counted(make, names, additive):
    tokens = (tokens_of(60, 1), tokens_of(60, 2))
    rows = [(c, e if not additive[1] else (e[0], i)) for i, (c, e) in enumerate(some_rows())]
    found = make(rows, tokens, additive).cells(names)
    keep = ["ABC".index(name) for name in names]
    short = [(tuple(c[k] for k in keep), e) for c, e in rows]
    assert content(found) == content(cells_of(short, names, tokens, additive))
    assert found.columns == names
    assert found.codes.dtype == found.n_rows.dtype == np.int64
    assert found.codes.shape == (len(Counter(c for c, _ in short)), len(names))
    for array in (found.codes, found.n_rows):
        assert type(array) is np.ndarray  # a masked array would carry a hidden null


# --- small numbers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("additive", "n"), [((True, False), 0), ((False, True), 60), ((True, True), 60)]
)
def test_sets_summed_from_wider_ones_have_the_same_cells(additive, n):
    """The rows are said to be many, so that wider sets are counted first, asked for or not."""
    spans = {
        "A": CodeSpan(low=0, high=1),
        "B": CodeSpan(low=0, high=5),
        "C": CodeSpan(low=0, high=3),
    }
    tokens = (np.full((60, 2), MASK, dtype=np.uint64), tokens_of(60, 2))
    rows = [
        ((a, i % 6, c), (i, i if additive[1] else e[1]))
        for i, ((a, _, c), e) in enumerate(some_rows(n))
    ]
    sets = [(), ("A",), ("C",), ("A", "B"), ("B", "C"), ("A", "C"), ("A", "B", "C")]
    apart = source_of(rows, tokens, additive, spans=spans)
    summed = DuckDBCells(apart._con, "small", SQL_NAMES, apart._entities, spans, n_rows=10**6)
    for asked in (sets, sets[::-1], sets[:3], sets[1:6]):
        for columns, found in zip(asked, summed.each(asked), strict=True):
            assert found.columns == columns
            assert content(found) == content(apart.cells(columns))
    left = {name for (name,) in apart._con.execute("SHOW TABLES").fetchall()}
    assert left == {"t", "small"}


SECRET = bytes(range(32))


@pytest.fixture
def spec(tmp_path, monkeypatch):
    return make_spec(tmp_path, monkeypatch)


def test_by_hand(spec):
    frame = pd.DataFrame(
        {
            "AGE": pd.array([0, 2, 3, 9, None], dtype="Int64"),
            "SEX": list("ffmmm"),
            "REG": list("nnnns"),
            "HRS": [6, 6, 0, 6, 1],
        }
    )
    found = measure(spec, EXACT, frame)
    margins = {m.columns: m for m in found.margins}
    assert found.total.n.shape == ()
    assert found.total.n == 5
    assert margins[("AGE",)].n.tolist() == [1, 2, 1, 1]
    assert margins[("HRS",)].n.tolist() == [1, 1, 0, 0, 0, 0, 3]
    assert margins[("AGE", "SEX")].n.tolist() == [[0, 1, 0], [2, 0, 0], [0, 1, 0], [0, 1, 0]]


@pytest.mark.ci
@pytest.mark.parametrize("engine", ["numpy", "DuckDB"])
@pytest.mark.parametrize(("strata", "n"), [((), 1), ((), 90), (("REG", "SEX"), 90)])
def test_counts_are_those_of_plain_counting(spec, monkeypatch, engine, strata, n):
    monkeypatch.setattr(coding, "FEW_ROWS", 10**6 if engine == "numpy" else 0)
    margins = (*(m for m in EXACT.margins if not set(m) & set(strata)), ("AGE", "HRS"))
    params = replace(NO_NOISE, strata=strata, margins=margins)
    frame = FRAME.head(n)
    found = measure(spec, params, frame)
    in_order = sorted(margins, key=lambda m: (len(m), m))
    assert [m.columns for m in found.margins] == [params.measured(m) for m in in_order]
    for margin in (found.total, *found.margins):
        assert margin.n.dtype == np.int64
        assert np.array_equal(margin.n, counted_slowly(frame, margin.columns))


def test_trees_are_counted_from_their_leaves(spec):
    params = replace(
        NO_NOISE, ranges=(("HRS", 2), ("AGE", 3)), strata=("REG",), margins=(("HRS",), ("AGE",))
    )
    found = {m.columns: m for m in measure(spec, params).margins}
    ages, hours = found["AGE", "REG"], found["HRS", "REG"]
    assert (ages.branching, hours.branching) == (3, 2)
    by_leaf = counted_slowly(FRAME, ("HRS", "REG"))
    assert [t.shape for t in hours.tree] == [(2, 2), (4, 2)]
    for i in range(4):
        assert np.array_equal(hours.tree[1][i], by_leaf[2 * i : 2 * i + 2].sum(axis=0))
    assert np.array_equal(hours.tree[0][1], by_leaf[4:].sum(axis=0))
    assert [t.shape for t in ages.tree] == [(2, 2)]
    assert np.array_equal(ages.tree[0][0], counted_slowly(FRAME, ("AGE", "REG"))[:3].sum(axis=0))


EVENTS = frame_of(160, seed=8).assign(
    id=np.concatenate([np.zeros(40, int), np.ones(30, int), np.repeat(np.arange(2, 32), 3)])
)
WIDE = replace(
    EXACT,
    epsilon=1.0,
    strata=("REG",),
    margins=(("AGE",), ("HRS",), ("SEX",), ("AGE", "HRS", "SEX")),
    ranges=(("HRS", 2),),
)


def counted_within(spec, params, frame) -> list[np.ndarray]:
    """Every array that gets noise: the total, each margin over all strata, each depth of a tree."""
    named = replace(
        spec, source=replace(spec.source, entities=("id",)), columns=(*COLUMNS, column("id"))
    )
    with open_rows(named, frame, silent) as opened:
        levels = {c.name: levels_of(c) for c in COLUMNS}
        count = counter(opened, params, levels, opened.key.derive("fingerprint", spec.vintage))
        planned = shares(params, {name: len(levels[name]) for name in NAMES})
        found = counted(count, planned, params, len(frame), silent)
    return [counts for margin in found for counts in (margin.n, *margin.tree)]


def changes(spec, params, entity) -> list[int]:
    """How far, in L1, one entity moves each of them."""
    with_it = counted_within(spec, params, EVENTS)
    without = counted_within(spec, params, EVENTS[EVENTS.id != entity])
    return [int(np.abs(a - b).sum()) for a, b in zip(with_it, without, strict=True)]


@pytest.mark.ci
@pytest.mark.parametrize(("engine", "max_rows"), [("numpy", 1), ("DuckDB", 7)])
def test_one_entity_moves_every_margin_by_its_bounded_rows_and_no_more(
    spec, monkeypatch, engine, max_rows
):
    monkeypatch.setattr(coding, "FEW_ROWS", 10**6 if engine == "numpy" else 0)
    for entity, n_rows in ((0, 40), (9, 3)):
        moved = changes(spec, replace(WIDE, max_rows=max_rows), entity)
        assert len(moved) == 1 + 4 + 2
        assert moved == [min(n_rows, max_rows)] * len(moved)


def test_the_bound_is_seen_where_it_is_broken(spec, monkeypatch):
    """Two planted faults: no bound at all; and a choice that depends on where a cell stands among all others'."""
    real = counting.siphash128
    with monkeypatch.context() as patched:
        patched.setattr(counting, "bounded_rows", lambda cells, *_: cells.n_rows)
        assert max(changes(spec, WIDE, 0)) == 40
    monkeypatch.setattr(
        counting, "siphash128",
        lambda key, words: real(key, [np.arange(len(words[0])).astype(np.uint64)]),
    )  # fmt: skip
    assert max(changes(spec, WIDE, 0)) > 1


def test_row_order_does_not_decide_which_rows_count(spec):
    first = counted_within(spec, WIDE, EVENTS)
    again = counted_within(spec, WIDE, EVENTS.sample(frac=1, random_state=2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert int(first[0]) == 32


def pairs_of(rows, n_entities):
    return cells_of(
        [(codes, (e,)) for codes, e in rows], ("A", "B"), (tokens_of(n_entities),), (False,)
    )


def test_chosen_rows_are_as_many_as_allowed_and_among_the_entitys_own():
    rng = np.random.default_rng(5)
    rows = [((int(rng.integers(4)), int(rng.integers(3))), int(e)) for e in rng.integers(0, 9, 60)]
    for max_rows in (1, 2, 5, 100):
        together = dict.fromkeys({codes for codes, _ in rows}, 0)
        for entity in range(9):
            own = [row for row in rows if row[1] == entity]
            alone = pairs_of(own, 9)  # nobody else is there: the choice must be the same
            n = bounded_rows(alone, max_rows, SECRET)
            assert n.sum() == min(len(own), max_rows)
            assert (n <= alone.n_rows).all()
            for codes, chosen in zip(alone.codes.tolist(), n.tolist(), strict=True):
                together[tuple(codes)] += chosen
        cells = pairs_of(rows, 9)
        found = dict(
            zip(
                map(tuple, cells.codes.tolist()),
                bounded_rows(cells, max_rows, SECRET).tolist(),
                strict=True,
            )
        )
        assert found == together


@pytest.mark.ci
def test_each_row_of_an_entity_has_the_same_chance():
    rows = [((0, 0), e) for e in range(4000) for _ in range(9)] + [((1, 0), e) for e in range(4000)]
    n = bounded_rows(pairs_of(rows, 4000), 1, SECRET)
    assert n.sum() == 4000
    assert abs(n[1] - 400) < 5 * 19  # 9 of 10 rows lie in the first cell; sd 19
    assert not np.array_equal(n, bounded_rows(pairs_of(rows, 4000), 1, bytes(32)))
