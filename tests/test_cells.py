from __future__ import annotations

from collections import Counter, defaultdict

import duckdb
import numpy as np
import pytest
from measure_fixture import cells_of, tokens_of

from engine.cells import (
    AdditiveEntities,
    Cells,
    DuckDBCells,
    EntityColumn,
    PairedEntities,
    _positions,
)
from engine.schema import NULL_CODE, OTHER_CODE

MASK = 2**64 - 1
EXTREMES = [NULL_CODE, OTHER_CODE, -(2**63) + 2, -1, 0, 2**63 - 2]


def source_of(rows, tokens, additive, threads=1):
    """A table as `entities` leaves it, with columns A -> c0, B -> c1, C -> c2."""
    con = duckdb.connect(config={"threads": str(threads)})
    names, types = ["c0", "c1", "c2"], ["BIGINT"] * 3
    for k in range(len(tokens)):
        names += [f"e{k}", f"l{k}_0", f"l{k}_1"]
        types += ["BIGINT", "UBIGINT", "UBIGINT"]
    spelled = ", ".join(f"{n} {t}" for n, t in zip(names, types, strict=True))
    con.execute(f"CREATE TABLE t ({spelled})")
    for codes, entities in rows:
        lanes = [x for k, e in enumerate(entities) for x in (e, *map(int, tokens[k][e]))]
        con.execute(f"INSERT INTO t VALUES ({', '.join('?' * len(names))})", [*codes, *lanes])
    columns = tuple(
        EntityColumn(number=k, tokens=None if additive[k] else tokens[k])
        for k in range(len(tokens))
    )
    return DuckDBCells(con, "t", {"A": "c0", "B": "c1", "C": "c2"}, columns)


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


@pytest.mark.parametrize("names", [(), ("A",), ("B",), ("A", "C"), ("A", "B", "C")])
@pytest.mark.parametrize("additive", [(True, False), (False, True), (False, False), (True, True)])
def test_cells_are_counted(names, additive):
    tokens = (tokens_of(60, 1), tokens_of(60, 2))
    rows = [(c, e if not additive[1] else (e[0], i)) for i, (c, e) in enumerate(some_rows())]
    found = source_of(rows, tokens, additive).cells(names)
    keep = ["ABC".index(name) for name in names]
    short = [(tuple(c[k] for k in keep), e) for c, e in rows]
    assert content(found) == content(cells_of(short, names, tokens, additive))
    assert found.columns == names
    assert found.codes.dtype == found.n_rows.dtype == np.int64
    assert found.codes.shape == (len(Counter(c for c, _ in short)), len(names))
    for array in (found.codes, found.n_rows):
        assert type(array) is np.ndarray  # a masked array would carry a hidden null


def test_lanes_wrap_at_64_bits():
    tokens = (np.full((9, 2), MASK, dtype=np.uint64),)
    found = source_of([((0, 0, 0), (i,)) for i in range(9)], tokens, (True,)).cells(("A",))
    assert found.entities[0].lanes.tolist() == [[MASK - 8, MASK - 8]]


@pytest.mark.parametrize("names", [(), ("A",), ("A", "B")])
@pytest.mark.parametrize("additive", [True, False])
def test_an_empty_table_has_no_cells(names, additive):
    found = source_of([], (tokens_of(1),), (additive,)).cells(names)
    assert found.codes.shape == (0, len(names))
    assert found.n_rows.shape == (0,)
    entity = found.entities[0]
    assert entity.lanes.shape == (0, 2) if additive else entity.cell.shape == (0,)


def test_positions():
    codes = np.array([[5, 1], [-7, 2], [5, 0]])
    wanted = np.array([[5, 0], [5, 1], [5, 0], [-7, 2]])
    assert _positions(codes, wanted).tolist() == [2, 0, 2, 1]
    assert _positions(codes[:1, :0], wanted[:, :0]).tolist() == [0, 0, 0, 0]


def test_pairs_of_two_kinds_keep_their_own_tokens():
    tokens = (tokens_of(4, 1), tokens_of(6, 2))
    rows = [((0, 0, i % 2), (i % 4, i % 6)) for i in range(24)]
    found = source_of(rows, tokens, (False, False)).cells(("C",))
    assert [type(e) for e in found.entities] == [PairedEntities, PairedEntities]
    assert [len(e.tokens) for e in found.entities] == [4, 6]
    assert [e.n_rows.sum() for e in found.entities] == [24, 24]
