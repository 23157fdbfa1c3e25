from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from engine.alphabet import fit_alphabet
from engine.candidates import Candidates, Margin, Narrower, exactly, join_candidates
from engine.locking import lock_table, one_way_table, sub_tables
from engine.ranges import levels_at, split_codes
from engine.schema import (
    KIND_NULL,
    KIND_OTHER,
    NULL_CODE,
    Alphabet,
    Column,
    ColumnSet,
    Measurement,
    SyntheticTable,
)

KEY = b"0123456789abcdef"


def integer_column(name: str = "A", **settings) -> Column:
    return Column(name=name, kind="integer", value_type="integer", **settings)


def text_column(name: str = "T", **settings) -> Column:
    return Column(name=name, kind="text", value_type="text", **settings)


def top_for(codes: np.ndarray) -> int:
    """Smallest level whose index 0 holds every magnitude."""
    _, magnitude = split_codes(np.asarray(codes, dtype=np.int64))
    return int(magnitude.max(initial=0)).bit_length()


def measured(
    columns: ColumnSet,
    codes,
    tops: tuple[int, ...],
    *,
    threshold: int = 1,
    noise=None,
    scale: int = 1,
    values: tuple | None = None,
) -> Measurement:
    """What `measure` would release of the rows `codes`, counted node by node with plain dictionaries.

    Noise is off unless `noise(path) -> int` is given; a node passes where it holds `threshold` rows.
    """
    rows = np.asarray(codes, dtype=np.int64).reshape(len(codes), len(columns))
    kind, magnitude = split_codes(rows)
    special = (kind == KIND_NULL) | (kind == KIND_OTHER)
    n_depths = max(tops, default=0) + 1
    count: Counter[tuple] = Counter()
    for row in range(len(rows)):
        path: tuple = ()
        for depth in range(n_depths):
            label = []
            for j, level in enumerate(levels_at(tops, depth)):
                own = 0 if special[row, j] else level
                label.append((int(kind[row, j]), own, int(magnitude[row, j]) >> own))
            path += (tuple(label),)
            count[path] += 1
    passing = {p for p, n in count.items() if n >= threshold}
    passing = {p for p in passing if all(p[:d] in passing for d in range(1, len(p)))}
    paths = sorted(passing, key=lambda p: (len(p), p))
    place = {p: i for i, p in enumerate(paths)}
    shape = (len(paths), len(columns))
    part = [np.array([[c[i] for c in p[-1]] for p in paths]).reshape(shape) for i in range(3)]
    return Measurement(
        columns=columns,
        depth=np.array([len(p) - 1 for p in paths], dtype=np.uint8),
        kind=part[0].astype(np.uint8),
        level=part[1].astype(np.uint8),
        index=part[2].astype(np.int64),
        parent=np.array([place.get(p[:-1], -1) for p in paths], dtype=np.int64),
        n=np.array([count[p] + (noise(p) if noise else 0) for p in paths], dtype=np.int64),
        scale=np.full(n_depths, scale, dtype=np.int64),
        values=values,
    )


def total_measured(n: int, scale: int = 1) -> Measurement:
    nothing = np.zeros((1, 0), dtype=np.uint8)
    return Measurement(
        columns=(),
        depth=np.zeros(1, dtype=np.uint8),
        kind=nothing,
        level=nothing,
        index=np.zeros((1, 0), dtype=np.int64),
        parent=np.array([-1]),
        n=np.array([n]),
        scale=np.array([scale]),
    )


def tree_of(nodes: list[tuple[int, int, int, int, int, int]], values=None) -> Measurement:
    """A one-way measurement by hand: (depth, kind, level, index, parent, n) of each node."""
    raw = np.array(nodes, dtype=np.int64).reshape(len(nodes), 6)
    return Measurement(
        columns=("A",),
        depth=raw[:, 0].astype(np.uint8),
        kind=raw[:, 1:2].astype(np.uint8),
        level=raw[:, 2:3].astype(np.uint8),
        index=raw[:, 3:4].copy(),
        parent=raw[:, 4].copy(),
        n=raw[:, 5].copy(),
        scale=np.ones(int(raw[:, 0].max(initial=0)) + 1, dtype=np.int64),
        values=values,
    )


def gaussian(seed: int, sd: float = 1.4):
    """Reproducible noise for `measured`: fixed by seed and place, whatever the order of asking."""

    def noise(path: tuple) -> int:
        words = [int(v) for label in path[-1] for v in label] + [len(path), seed]
        bits = [w & 0xFFFFFFFF for w in words]
        return round(float(np.random.default_rng(bits).normal(0, sd)))

    return noise


class Fits:
    """All tables of a small data set, fitted on demand, each with its narrower ones."""

    def __init__(
        self,
        data: dict[str, np.ndarray],
        *,
        threshold: int = 1,
        noise=None,
        floor: int = 1,
        layer_sd: int = 0,
        noisy_total: int | None = None,
    ) -> None:
        self.data = {name: np.asarray(codes, dtype=np.int64) for name, codes in data.items()}
        self.threshold, self.noise = threshold, noise
        self.floor, self.layer_sd = floor, layer_sd
        self.n_rows = len(next(iter(self.data.values())))
        self.total = self.n_rows if noisy_total is None else noisy_total
        self.tops = {name: top_for(codes) for name, codes in self.data.items()}
        self.alphabets: dict[str, Alphabet] = {}
        self.tables: dict[ColumnSet, SyntheticTable] = {}

    def measurement(self, columns: ColumnSet) -> Measurement:
        return measured(
            columns,
            np.column_stack([self.data[c] for c in columns]),
            tuple(self.tops[c] for c in columns),
            threshold=self.threshold,
            noise=self.noise,
        )

    def table(self, *columns: str) -> SyntheticTable:
        if columns not in self.tables:
            tree = self.measurement(columns)
            if len(columns) == 1:
                self.tables[columns] = self._one_way(columns[0], tree)
            else:
                narrower = tuple(self.table(*sub) for sub in sub_tables(columns))
                for name in columns:
                    self.table(name)
                self.tables[columns] = lock_table(
                    tree,
                    tuple(self.alphabets[c] for c in columns),
                    narrower,
                    noisy_total=self.total,
                    floor=self.floor,
                    layer_sd=self.layer_sd,
                    key="/".join(columns).encode().ljust(16, b"."),
                )
        return self.tables[columns]

    def _one_way(self, name: str, tree: Measurement) -> SyntheticTable:
        self.alphabets[name] = fit_alphabet(
            tree,
            integer_column(name),
            noisy_total=self.total,
            total=self.total,
            floor=self.floor,
            layer_sd=self.layer_sd,
            code_limits=None,
            key=name.encode().ljust(16, b"."),
        )
        return one_way_table(self.alphabets[name], tree, self.layer_sd)

    def counts(self, *columns: str) -> dict[tuple, int]:
        """A fitted table as {(code, ...): rows}; null as None."""
        return as_counts(self.table(*columns), [self.alphabets[c] for c in columns])

    def truth(self, *columns: str) -> dict[tuple, int]:
        """The data as `counts` gives it."""
        listed = [
            [None if k == KIND_NULL else int(c) for k, c in zip(split_codes(x)[0], x, strict=True)]
            for x in (self.data[c] for c in columns)
        ]
        return dict(Counter(zip(*listed, strict=True)))


def random_data(seed: int, n: int) -> dict[str, np.ndarray]:
    """Four columns of 4, 7, 3 and 5 values: two independent, one that follows from A, one with nulls."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 4, n)
    b = np.minimum(a + rng.integers(0, 6, n) ** 2 // 4, 8) - 2
    d = np.where(rng.random(n) < 0.3, NULL_CODE, rng.integers(0, 5, n) * 3)
    return {"A": a, "B": b, "C": a // 2 * 5, "D": d}


def noisy(seed: int, n: int = 150, **settings) -> Fits:
    options = {"threshold": 4, "noise": gaussian(seed), "floor": 3, "layer_sd": 1} | settings
    return Fits(random_data(seed, n), **options)


def as_counts(table: SyntheticTable, alphabets: list[Alphabet]) -> dict[tuple, int]:
    spelled = [
        [None if k == KIND_NULL else int(c) for k, c in zip(a.kind, a.code, strict=True)]
        for a in alphabets
    ]
    return {
        tuple(spelled[j][letter] for j, letter in enumerate(cell)): n
        for cell, n in zip(table.letters.tolist(), table.n.tolist(), strict=True)
    }


def margin(counts: dict[tuple, int], kept: tuple[int, ...]) -> dict[tuple, int]:
    """Sum a table over all columns but the kept positions; nothing at 0."""
    out: dict[tuple, int] = defaultdict(int)
    for cell, n in counts.items():
        out[tuple(cell[j] for j in kept)] += n
    return {cell: n for cell, n in out.items() if n}


def margins(counts: dict[tuple, int], k: int) -> list[dict[tuple, int]]:
    """All margins of one column less, in the order of `sub_tables`."""
    return [margin(counts, kept) for kept in combinations(range(k), k - 1)]


def narrower_of(table: np.ndarray) -> list[Narrower]:
    """Margins of a dense table of whole numbers; entry j without axis j. Counts of 3 and more are measured."""
    out = []
    for j in range(table.ndim):
        sums = table.sum(axis=j)
        letters = np.argwhere(sums > 0).astype(np.int32)
        n = sums[tuple(letters.T)].astype(np.int64)
        out.append(Narrower(letters=letters, n=n, measured=n >= 3))
    return out


@dataclass(frozen=True, kw_only=True)
class Locking:
    """Candidates of a dense table and the margins it is locked to, all of which it meets."""

    found: Candidates
    without: list[Narrower]
    fibres: Margin
    others: tuple[Margin, ...]
    one_way: Margin


def locking_of(table: np.ndarray, last: int) -> Locking:
    """What `lock_table` would make of a table with all its narrower tables measured."""
    without = narrower_of(table)
    found = join_candidates(without, table.shape, last)
    margins = [exactly(at, narrow.n) for at, narrow in zip(found.at, without, strict=True)]
    counts = table.sum(axis=tuple(j for j in range(table.ndim) if j != last)).astype(np.int64)
    return Locking(
        found=found,
        without=without,
        fibres=margins[last],
        others=tuple(m for j, m in enumerate(margins) if j != last and table.ndim > 2),
        one_way=exactly(found.letters[:, last].astype(np.int64), counts),
    )


def distances(n: np.ndarray, margins) -> list[int]:
    """Largest distance of a sum from its bounds, for each margin."""
    out = []
    for m in margins:
        have = np.bincount(m.of, weights=n, minlength=len(m.low)).astype(np.int64)
        out.append(int(np.abs(have - np.clip(have, m.low, m.high)).max(initial=0)))
    return out
