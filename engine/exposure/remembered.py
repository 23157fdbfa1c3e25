"""A tally as bytes, so that a later build of the same recipe counts only the tables that are new.

Takes a tally; gives one file's worth of bytes, and from these what was counted of each table of two and more columns.
Holds what a tally holds: noisy counts of passing buckets, and how many buckets lie in which.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.exposure.tally import WIDEST_GROUP, Counted, Split, Tally, grouped
from engine.schema import ColumnSet, Measurement

_OF_TREE = ("depth", "kind", "level", "index", "parent", "n")
"""Fields of a measurement with an entry a node."""


def bytes_of(tree: Measurement) -> int:
    """What a measurement adds to a packed tally if its buckets single groups out."""
    if len(tree.columns) != WIDEST_GROUP:
        return 0
    return sum(getattr(tree, name).nbytes for name in _OF_TREE)


def packed(tally: Tally) -> memoryview:
    """What a tally counted of its tables of two and more columns, as `numpy.savez` would write it.

    One array is put together at a time: all of them beside the file would take its size once more.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, array in _arrays(tally):
            with file.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)
            del array
    return buffer.getbuffer()


def _arrays(tally: Tally) -> Iterator[tuple[str, NDArray[Any]]]:
    """Name and content of each array."""
    tables = [table for table in tally.tables if len(table.columns) > 1]
    trees = [tally.groups[t.columns] for t in tables if len(t.columns) <= WIDEST_GROUP]
    of_group = {
        group: {split.columns: split for split in splits} for group, splits in tally.splits.items()
    }
    splits = [
        of_group[tuple(table.columns[j] for j in at)][table.columns]
        for table in tables
        for at in grouped(len(table.columns))
    ]
    head = [[list(table.columns), table.scale, table.news] for table in tables]
    yield "head", np.frombuffer(json.dumps(head).encode(), dtype=np.uint8)
    yield "nodes", np.array([tree.n_nodes for tree in trees], dtype=np.int64)
    yield "depths", np.array([len(tree.scale) for tree in trees], dtype=np.int64)
    yield "scale", _joined([tree.scale for tree in trees], np.int64)
    yield "lengths", np.array([len(split.node) for split in splits], dtype=np.int64)
    yield "node", _joined([split.node for split in splits], np.int32)
    yield "cells", _joined([split.cells for split in splits], np.int32)
    yield "news", _joined([split.news.ravel() for split in splits], np.int32)
    for name in _OF_TREE:
        yield name, _joined([getattr(tree, name).ravel() for tree in trees], None)


class Remembered:
    """What an earlier tally counted.

    tables: Those of two and more columns.
    """

    def __init__(self, raw: bytes | memoryview) -> None:
        with np.load(io.BytesIO(raw), allow_pickle=False) as held:
            arrays: dict[str, NDArray[Any]] = dict(held)
        self._counted = {
            tuple(columns): Counted(columns=tuple(columns), scale=scale, news=news)
            for columns, scale, news in json.loads(arrays["head"].tobytes())
        }
        self.tables: frozenset[ColumnSet] = frozenset(self._counted)
        groups = [columns for columns in self._counted if len(columns) <= WIDEST_GROUP]
        self._trees = dict(zip(groups, _trees(groups, arrays), strict=True))
        self._splits: dict[ColumnSet, list[Split]] = {columns: [] for columns in self._counted}
        _put_splits(self._splits, arrays)

    def recall(self, columns: ColumnSet, tally: Tally) -> None:
        """Count a table in another tally, which has all narrower ones."""
        tally.recall(self._counted[columns], self._trees.get(columns), self._splits[columns])


def _trees(groups: list[ColumnSet], arrays: dict[str, NDArray[Any]]) -> Iterator[Measurement]:
    """The measurements of the tables that single groups out."""
    nodes = pairwise(np.cumsum([0, *arrays["nodes"]]).tolist())
    depths = pairwise(np.cumsum([0, *arrays["depths"]]).tolist())
    for columns, (first, last), (top, low) in zip(groups, nodes, depths, strict=True):
        k = len(columns)
        wide: dict[str, Any] = {
            n: arrays[n][k * first : k * last].reshape(-1, k) for n in ("kind", "level", "index")
        }
        flat: dict[str, Any] = {n: arrays[n][first:last] for n in ("depth", "parent", "n")}
        yield Measurement(columns=columns, scale=arrays["scale"][top:low], **wide, **flat)


def _put_splits(splits: dict[ColumnSet, list[Split]], arrays: dict[str, NDArray[Any]]) -> None:
    """Cut the splits of every table out of the arrays that hold all of them."""
    lengths, at, start, news_start = arrays["lengths"].tolist(), 0, 0, 0
    for columns, own in splits.items():
        for places in grouped(len(columns)):
            stop = start + lengths[at]
            told = tuple(name for j, name in enumerate(columns) if j not in places)
            news_stop = news_start + len(told) * lengths[at]
            own.append(
                Split(
                    columns=columns,
                    node=arrays["node"][start:stop],
                    cells=arrays["cells"][start:stop],
                    told=told,
                    news=arrays["news"][news_start:news_stop].reshape(len(told), -1)
                    if told
                    else np.zeros((0, lengths[at]), dtype=np.int32),
                )
            )
            at, start, news_start = at + 1, stop, news_stop


def _joined(parts: Sequence[NDArray[Any]], dtype: type | None) -> NDArray[Any]:
    """Arrays one after the other, also none."""
    return np.concatenate(parts) if parts else np.zeros(0, dtype=dtype or np.int64)
