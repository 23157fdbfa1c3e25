"""A small release of the simulated census, its table as plain rows, and a slow twin of how noise reaches a sum."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from pipeline_fixture import CENSUS, write_spec

import engine
from queries.session import Release

TABLES = (("age",), ("sex",), ("income",), ("age", "sex"), ("age", "region"), ("income", "sex"),
          ("age", "region", "sex"))  # fmt: skip


def small_release(folder: Path, census: Path, *, tables=TABLES, **columns) -> Release:
    """Build it from a simulated census with a key that is always the same."""
    declared = {c: dict(CENSUS[c]) for c in ("person_id", "age", "sex", "income", "region")}
    for name, more in columns.items():
        declared[name] = {**CENSUS[name], **more}
    spec = write_spec(folder, census / "people.parquet", declared, tables)
    return engine.build(spec, out=folder / "r.duckdb", jobs=1)


@cache
def plain_rows(release: Release, *columns: str) -> pd.DataFrame:
    """The synthetic rows of one table."""
    return release.table(*columns).df()


def twin_variance(tree, weights: dict[int, float]) -> float:
    """Variance of one weighted sum of buckets, node by node, from the leaves up."""
    last = len(tree.levels) - 1
    held = {
        int(n): weights.get(int(b), 0.0)
        for n, b in zip(tree.leaf_node, tree.leaf_bucket, strict=True)
    }
    total = 0.0
    for d in range(last, -1, -1):
        level = tree.levels[d]
        mean = np.zeros(len(level.own_sum))
        entries: dict[int, list[tuple[float, float, float]]] = {i: [] for i in range(len(mean))}
        if d == last:
            for node in range(len(mean)):
                entries[node].append((held.get(node, 0.0), 1.0, 0.0))
        else:
            for child, parent in enumerate(level.child_parent):
                entry = held.get(child, 0.0), level.part_child[child], level.own_child[child]
                entries[int(parent)].append(entry)
        for i, bucket in enumerate(level.rest_bucket):
            weight = weights.get(int(bucket), 0.0)
            if d == last or not (level.child_parent == level.rest_node[i]).any():
                entries[int(level.rest_node[i])] = [(weight, level.part_rest[i], level.own_rest[i])]
            else:
                entries[int(level.rest_node[i])].append(
                    (weight, level.part_rest[i], level.own_rest[i])
                )
        for node, parts in entries.items():
            mean[node] = sum(p * w for w, p, _ in parts)
            if d < last:
                spread = sum(own * (w - mean[node]) ** 2 for w, _, own in parts)
                unlike = sum(p * w**2 for w, p, _ in parts) - mean[node] ** 2
                total += spread
                total += level.hidden[node] * min(max(unlike, 0.0), mean[node] ** 2)
        held = dict(enumerate(mean.tolist()))
    return total + held[0] ** 2 * tree.total_variance
