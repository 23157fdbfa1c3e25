from __future__ import annotations

from collections import Counter, defaultdict

import duckdb
import numpy as np
import pytest
from fixtures.measure import cells_of, tokens_of

from engine.cell_keys import CodeSpan
from engine.measure.cells import DuckDBCells
from engine.mechanism import AdditiveEntities, ArrayCells, Cells
from engine.schema import NULL_CODE, OTHER_CODE
from engine.source import EntityColumn

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
