"""What an executor's task counts of a partition, without Spark: against brute force, and in little memory."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

from engine.cell_keys import CodeSpan
from engine.schema import NULL_CODE, OTHER_CODE
from engine.source.spark import tasks

pa = pytest.importorskip("pyarrow")


@dataclass
class Sent:
    """Stands for a broadcast."""

    value: Any


def count_of(sets, by=(), lanes=(), *, spans, ranks=None):
    width = max(map(len, sets))
    halves = [f"{lane}_{half}" for lane in lanes for half in ("low", "high")]
    names = ["s", *(f"k{place}" for place in range(width)), *by, "n", *halves]
    return partial(
        tasks.count,
        sets=sets,
        by=by,
        lanes=lanes,
        codes=Sent(tasks.Codes(spans=spans, ranks=ranks or {})),
        schema=pa.schema([(name, pa.int64()) for name in names]),
    )


def batches_of(columns: dict[str, np.ndarray], size: int):
    n = len(next(iter(columns.values())))
    for start in range(0, n, size):
        parts = [pa.array(held[start : start + size]) for held in columns.values()]
        yield pa.RecordBatch.from_arrays(parts, list(columns))


def rows_of(task, columns, size=7) -> list[dict[str, int]]:
    return [row for batch in task(batches_of(columns, size)) for row in batch.to_pylist()]


def test_cells_of_a_partition():
    """Nulls, other values, a ranked column whose positions become codes, huge codes, entities, sums of lanes."""
    rng = np.random.default_rng(4)
    n = 60
    columns = {
        "c0": rng.choice([NULL_CODE, OTHER_CODE, -3, 0, 250], n),
        "c1": rng.choice([NULL_CODE, 0, 1, 2], n),
        "c2": rng.choice([5, 1 << 40], n),
        "e0": rng.integers(0, 3, n),
        "l1_0": rng.integers(-(1 << 63), (1 << 63) - 1, n),
    }
    spans = {
        "c0": CodeSpan(low=-3, high=250),
        "c1": CodeSpan(low=10, high=20),
        "c2": CodeSpan(low=5, high=1 << 40),
    }
    ranks = {"c1": np.array([20, 10, 20, NULL_CODE])}
    sets = (("c0",), ("c1", "c0"), (), ("c2",))
    task = count_of(sets, ("e0",), ("l1_0",), spans=spans, ranks=ranks)
    wanted, sums = Counter(), defaultdict(int)
    held = dict(columns, c1=ranks["c1"][np.maximum(columns["c1"], -1)])
    for i in range(n):
        for number, names in enumerate(sets):
            cell = (number, *(int(held[c][i]) for c in names), int(columns["e0"][i]))
            wanted[cell] += 1
            sums[cell] += int(columns["l1_0"][i])
    found, total = {}, {}
    for row in rows_of(task, columns):
        codes = [
            int(spans[c].codes(np.array([row[f"k{k}"]]))[0]) if spans[c].sql_type else row[f"k{k}"]
            for k, c in enumerate(sets[row["s"]])
        ]
        cell = (row["s"], *codes, row["e0"])
        assert cell not in found
        found[cell] = row["n"]
        total[cell] = row["l1_0_low"] + (row["l1_0_high"] << 32)
    assert found == dict(wanted)
    assert total == dict(sums)


def test_sums_of_a_partition_are_exact():
    big = np.array([1 << 62, 1 << 62, 5, -7])
    task = partial(
        tasks.sum_up,
        sums=Sent(["sum(CAST(a AS HUGEINT) * 3)", "count(*)"]),
        schema=pa.schema([("s0", pa.string()), ("s1", pa.string())]),
    )
    (row,) = rows_of(task, {"a": big}, 2)
    assert row == {"s0": str(3 * sum(big.tolist())), "s1": "4"}
    assert list(task(iter(()))) == []
