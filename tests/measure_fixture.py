"""Helpers of the tests of the measuring side: a noiseless twin of the draws, cells from plain rows, the way from a
frame to its measurements, and statistics with fixed bounds."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pandas as pd

from engine.cells import AdditiveEntities, Cells, PairedEntities
from engine.draws import EntitySets, StickyDraws
from engine.entities import add_tokens
from engine.forest import grow
from engine.ingest import ingest
from engine.keys import MasterKey
from engine.measure import Measured, measure_one_way, measure_wider
from engine.params import PROFILES
from engine.schema import Column, SourceSpec
from engine.scratch import confidential_connection, scratch_directory
from engine.sources import open_source

KEY = MasterKey(bytes(range(32)))
VINTAGE = "2024"
STANDARD = PROFILES["standard"]
STICKY = StickyDraws(KEY, VINTAGE, STANDARD)


def key_number(number: int) -> MasterKey:
    """One of many keys."""
    return MasterKey(number.to_bytes(32, "little"))


def sticky(number: int, vintage: str = VINTAGE) -> StickyDraws:
    return StickyDraws(key_number(number), vintage, STANDARD)


@dataclass(frozen=True)
class Noiseless:
    """Draws without chance: a hard threshold, no noise, no outliers (unless told)."""

    threshold: int = 1
    outliers: int = 0
    top: int = 2

    @property
    def smallest(self):
        return 1

    def passes(self, sets: EntitySets):
        return sets.size >= self.threshold

    def group_sizes(self, sets: EntitySets):
        return np.full_like(sets.size, self.outliers), np.full_like(sets.size, self.top)

    def set_noise(self, sets: EntitySets, log2_scale: int):
        return np.zeros(len(sets.size), dtype=np.int64)

    def label_noise(self, columns, kind, level, index, log2_scale: int):
        return np.zeros(len(kind), dtype=np.int64)


EXACT = Noiseless()


def tokens_of(n: int, seed: int = 0) -> np.ndarray:
    """Random token lanes of n entities."""
    return np.random.default_rng(seed).integers(0, 2**64, size=(n, 2), dtype=np.uint64)


def cells_of(rows, columns, tokens, additive) -> Cells:
    """Cells of rows (codes, entities), by plain counting; see `oracles.forest_oracle`."""
    count = Counter(codes for codes, _ in rows)
    where = {codes: i for i, codes in enumerate(count)}
    kinds = []
    for k, of_kind in enumerate(tokens):
        if additive[k]:
            lanes = np.zeros((len(where), 2), dtype=np.uint64)
            for codes, entities in rows:
                lanes[where[codes]] += of_kind[entities[k]]
            kinds.append(AdditiveEntities(lanes=lanes))
            continue
        pairs = Counter((where[codes], entities[k]) for codes, entities in rows)
        as_array = np.array([(c, e, n) for (c, e), n in pairs.items()], dtype=np.int64).reshape(
            -1, 3
        )
        kinds.append(
            PairedEntities(
                cell=as_array[:, 0], entity=as_array[:, 1], n_rows=as_array[:, 2], tokens=of_kind
            )
        )
    return Cells(
        columns=tuple(columns),
        codes=np.array(list(where), dtype=np.int64).reshape(len(where), len(columns)),
        n_rows=np.array(list(count.values()), dtype=np.int64),
        entities=tuple(kinds),
    )


def nodes_of(measurement) -> dict:
    """{(depth, ((kind, level, index), ...)): (n, parent's ranges or None, scale)}."""
    labels = [
        tuple(zip(kind, level, index, strict=True))
        for kind, level, index in zip(
            measurement.kind.tolist(),
            measurement.level.tolist(),
            measurement.index.tolist(),
            strict=True,
        )
    ]
    return {
        (depth, label): (n, labels[parent] if parent >= 0 else None, int(measurement.scale[depth]))
        for depth, label, n, parent in zip(
            measurement.depth.tolist(),
            labels,
            measurement.n.tolist(),
            measurement.parent.tolist(),
            strict=True,
        )
    }


def boundaries(measurement) -> list:
    """What is published of a measurement, but for its counts."""
    return sorted(nodes_of(measurement))


def column(name: str, kind: str = "integer", **more) -> Column:
    more.setdefault("value_type", "text" if kind in ("category", "text") else kind)
    return Column(name=name, kind=kind, **more)


def columns_of(frame: pd.DataFrame) -> tuple[Column, ...]:
    """Text columns as categories, whole numbers as integers, booleans as such."""
    kinds = {name: pd.api.types.infer_dtype(frame[name], skipna=True) for name in frame}
    spelled = {"string": "category", "boolean": "boolean", "empty": "category"}
    return tuple(column(name, spelled.get(kind, "integer")) for name, kind in kinds.items())


@dataclass(frozen=True)
class Run:
    """All that one run measured."""

    one_way: dict
    wider: dict
    tops: dict

    def all(self) -> dict:
        """Everything, comparable with ==."""
        out = {(name,): (nodes_of(m), m.values) for name, m in self.one_way.items()}
        return out | {name: (nodes_of(m), m.values) for name, m in self.wider.items()}


def measured(
    frame,
    sets=(),
    *,
    columns=None,
    entities=(),
    draws=None,
    key=KEY,
    vintage=VINTAGE,
    identity=None,
    threads=1,
) -> Run:
    """From a frame to its measurements, through the real modules and DuckDB."""
    if isinstance(frame, dict):
        frame = pd.DataFrame(frame)
    columns = columns_of(frame) if columns is None else columns
    with scratch_directory() as scratch:
        con = confidential_connection(scratch, threads=threads)
        source = open_source(con, SourceSpec(path=None, format="frame"), frame)
        ingested = ingest(con, source, columns, tuple(entities))
        if identity is None:
            identity = tuple(c.name for c in ingested.columns)
        tokens = add_tokens(ingested, key, vintage, identity)
        draws = draws or StickyDraws(key, vintage, STANDARD)
        found: Measured = measure_one_way(ingested, tokens, ingested.columns, draws)
        wider = {m.columns: m for m in measure_wider(found, sets, draws)}
        con.close()
    return Run(one_way=found.one_way, wider=wider, tops=found.tops)


class OneSource:
    """A CellSource of prepared cells."""

    def __init__(self, *cells: Cells) -> None:
        self._cells = {c.columns: c for c in cells}

    def cells(self, columns):
        return self._cells[columns]


def grown(rows, columns, tops, tokens, additive, draws):
    return grow(cells_of(rows, columns, tokens, additive), tops, draws)


def chi_square_z(observed, expected) -> float:
    """Chi-square of counts as a standard normal (Wilson and Hilferty): |z| < 4.89 is p > 1e-6, two-sided."""
    observed, expected = np.asarray(observed, dtype=float), np.asarray(expected, dtype=float)
    statistic, free = float(((observed - expected) ** 2 / expected).sum()), len(expected) - 1
    spread = 2 / (9 * free)
    return ((statistic / free) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)


def gaussian_bins(values, sd: float, *, least: float = 30.0) -> tuple[np.ndarray, np.ndarray]:
    """Observed and expected numbers of draws in bins, for the discrete Gaussian p(k) ~ exp(-k^2 / 2 sd^2)."""
    reach = math.ceil(9 * sd)
    ks = np.arange(-reach, reach + 1)
    share = np.exp(-(ks**2) / (2 * sd * sd))
    expected = share / share.sum() * len(values)
    observed = np.bincount(np.clip(values, -reach, reach) + reach, minlength=len(ks))
    bins = np.floor(ks / max(1.0, sd / 4)).astype(np.int64)
    bins -= bins.min()
    expected, observed = np.bincount(bins, expected), np.bincount(bins, observed)
    enough = np.flatnonzero(expected >= least)
    low, high = enough[0], enough[-1] + 1
    return tuple(
        np.concatenate([[x[:low].sum() + x[low]], x[low + 1 : high - 1], [x[high - 1 :].sum()]])
        for x in (observed, expected)
    )
