"""Reconstruct a secret of everybody from a release file: an attacker that shares no code with the engine.

Reads the file with DuckDB, and what the attacker knows: all other columns of everybody. Every released cell is an
equation over people: how many more of them have the secret than not, with the noise that the file states.
Sources: Dinur and Nissim 2003, doi:10.1145/773153.773173; Cohen and Nissim 2020, arXiv:1810.05692.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix, vstack
from scipy.sparse.linalg import lsqr
from scipy.stats import norm

NULL, OTHER = -(1 << 40), -(1 << 41)
KIND_NULL, KIND_OTHER = 0, 3
SMALL = 60
"""People of cells of which it counts that a side is not shown."""
LEAST_SHOWN = 3
SLOWLY = 0.1
"""Step of belief propagation, which swings with larger ones."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """How a column shows the secret."""

    side: Mapping[str, int]  # By value, as text: whether it tells 1 or -1
    label: Mapping[str, int] = field(default_factory=dict)  # What else a value tells: known
    gain: float = 1.0  # Correlation with the secret


@dataclass(frozen=True, kw_only=True)
class Secret:
    """What is attacked, and what the attacker knows."""

    known: pd.DataFrame  # A row each row of the source; columns that show the secret are not read
    person: np.ndarray  # shape (n_rows,): Of which person it is, from 0
    truth: np.ndarray  # shape (n_people,): 1 or -1
    shown: Mapping[str, Shown]
    labels: Mapping[str, np.ndarray] = field(
        default_factory=dict
    )  # By column: `Shown.label`, known of each row
    most_rows: int = 1


@dataclass(frozen=True, kw_only=True)
class System:
    matrix: csr_matrix
    shown: np.ndarray

    def ratio(self) -> np.ndarray:
        """Information of each equation on each person if all others are unknown, added up: who is most exposed."""
        square = self.matrix.multiply(self.matrix)
        total = 1 + np.asarray(square.sum(axis=1)).ravel()
        each = square.multiply(1 / total[:, None]).tocsr()
        return np.asarray(each.sum(axis=0)).ravel()


def system_of(paths: Sequence[Path], secret: Secret, *, thresholds: bool = False) -> System:
    """All equations of some releases.

    thresholds: Also what it tells that a side of a cell is not shown, for who knows how many are in the cell.
    """
    parts = [p for path in paths for p in _of_release(path, secret, thresholds)]
    parts = [(a, y) for a, y in parts if a.shape[0]]
    n = len(secret.truth)
    if not parts:
        return System(matrix=csr_matrix((0, n)), shown=np.zeros(0))
    return System(
        matrix=vstack([a for a, _ in parts]).tocsr(), shown=np.concatenate([y for _, y in parts])
    )


def least_squares(system: System) -> np.ndarray:
    """By damped least squares (LSQR)."""
    return np.asarray(lsqr(system.matrix, system.shown, damp=1.0, iter_lim=100)[0])


def belief(system: System, rounds: int = 120) -> np.ndarray:
    """By belief propagation that knows that every secret is 1 or -1: better than any linear attack."""
    a = system.matrix.tocoo()
    cell, who, w = a.row, a.col, a.data
    m, n = a.shape
    mean, of_cell = np.zeros(len(w)), np.zeros(len(w))
    total = np.zeros(n)
    for _ in range(rounds):
        guessed = np.bincount(cell, weights=w * mean, minlength=m)
        unknown = np.bincount(cell, weights=w**2 * (1 - mean**2), minlength=m)
        off = system.shown[cell] - guessed[cell] + w * mean
        around = 1 + unknown[cell] - w**2 * (1 - mean**2)
        of_cell += SLOWLY * (w * off / around - of_cell)
        total = np.bincount(who, weights=of_cell, minlength=n)
        mean = np.tanh(np.clip(total[who] - of_cell, -15, 15))
    return total


def _of_release(
    path: Path, secret: Secret, thresholds: bool
) -> Iterator[tuple[csr_matrix, np.ndarray]]:
    with duckdb.connect(str(path), read_only=True) as file:
        tables = file.sql(
            "SELECT table_id, physical, columns, tops, noise_sd, CAST(card ->> 'threshold_mean' AS DOUBLE) "
            "FROM catalog.tables ORDER BY table_id"
        ).fetchall()
        codes = file.sql("SELECT column_name, value, kind, code FROM catalog.codes").df()
        grids = {
            str(name): _Grid(held[held["kind"].isin(["value", "prefix"])])
            for name, held in codes.groupby("column_name")
        }
        sides = {
            name: _by_code(codes[codes["column_name"] == name], how)
            for name, how in secret.shown.items()
        }
        for number, physical, columns, tops, sd, mean in tables:
            shows = [c for c in columns if c in secret.shown]
            if not shows or len(columns) < 2:
                continue
            by = max(shows, key=lambda c: (secret.shown[c].gain, c))
            if tops:
                cells = file.execute(
                    "SELECT kind, low, high, n, depth FROM catalog.cells WHERE table_id = ?",
                    [number],
                ).fetchnumpy()
                lows, highs = _places(cells, len(columns))
                n, depth = cells["n"], cells["depth"]
            else:  # mode dp: every cell is measured
                rows = file.sql(f'SELECT * FROM tables."{physical}"').df()
                lows = highs = np.array([grids[c].of(rows[c]) for c in columns])
                n, depth = rows["n"].to_numpy(), np.zeros(len(rows), dtype=np.int64)
            top = dict(zip(columns, tops or [0] * len(columns), strict=True))
            at = columns.index(by)
            told = [
                sides[by].get(each, (0, -1))
                for each in zip(lows[at].tolist(), highs[at].tolist(), strict=True)
            ]
            side, label = np.array(told, dtype=np.int64).reshape(-1, 2).T
            others = [c for c in columns if c not in secret.shown]
            both = [
                np.concatenate([lows[columns.index(c)], grids[c].of(secret.known[c])])
                for c in others
            ]
            levels = [top[c] for c in others]
            if secret.shown[by].label:
                both.append(np.concatenate([label, secret.labels[by]]))
                levels.append(0)
            yield from _of_table(
                side,
                n.astype(np.float64),
                depth.astype(np.int64),
                both,
                levels,
                max(top.values()),
                secret,
                secret.shown[by].gain,
                sd,
                mean if thresholds else None,
            )


def _places(cells: Mapping[str, Any], width: int) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest place of each cell in each column, each of shape (width, n_cells)."""
    kind, low, high = (
        np.array([list(map(int, row)) if row is not None else [0] * width for row in cells[name]])
        if name == "kind"
        else np.array(
            [[0 if x is None or x is np.ma.masked else int(x) for x in row] for row in cells[name]]
        )
        for name in ("kind", "low", "high")
    )
    special = np.where(kind == KIND_NULL, NULL, OTHER)
    is_special = (kind == KIND_NULL) | (kind == KIND_OTHER)
    return np.where(is_special, special, low).T, np.where(is_special, special, high).T


def _by_code(codes: pd.DataFrame, how: Shown) -> dict[tuple[int, int], tuple[int, int]]:
    """Side and label of each value of a column, by lowest and highest place."""
    out = {}
    for value, kind, code in zip(codes["value"], codes["kind"], codes["code"], strict=True):
        name = "null" if kind == "null" else str(value)
        place = NULL if kind == "null" else int(code)
        if name in how.side:
            out[place, place] = (how.side[name], how.label.get(name, -1))
    return out


class _Grid:
    """Places of a column's values on the file's grid."""

    def __init__(self, codes: pd.DataFrame) -> None:
        self._by_text = dict(
            zip(codes["value"].astype(str), codes["code"].astype(np.int64), strict=True)
        )
        numbers = _numbers(codes["value"])
        at = codes["code"].to_numpy(np.float64)
        usable = np.isfinite(numbers) & (at != 0) & (numbers != 0)
        steps = numbers[usable] / at[usable]
        self._step = (
            float(np.median(steps))
            if usable.sum() and np.allclose(steps, np.median(steps), rtol=1e-6)
            else None
        )

    def of(self, values: pd.Series) -> np.ndarray:
        null = values.isna().to_numpy()
        if self._step is not None:
            numbers = _numbers(values)
            null = null | ~np.isfinite(numbers)
            place = np.round(np.where(null, 0, numbers) / self._step).astype(np.int64)
        else:
            which, texts = pd.factorize(values)
            found = [self._at(str(t)) for t in texts]
            place = np.array([*found, NULL], dtype=np.int64)[which]  # the last: null
        return np.where(null, NULL, place)

    def _at(self, text: str) -> int:
        """Place of a text, or of the longest prefix that stands for it."""
        shown = [text, *(f"{text[:n]}*" for n in range(len(text) - 1, 0, -1))]
        return next((self._by_text[t] for t in shown if t in self._by_text), OTHER)


def _numbers(values: pd.Series) -> np.ndarray:
    numbers = pd.to_numeric(values, errors="coerce") if values.dtype.kind != "M" else None
    if numbers is None or numbers.notna().sum() < values.notna().sum():
        days = pd.to_datetime(values, errors="coerce", format="%Y-%m-%d")
        if days.notna().sum() == values.notna().sum() and days.notna().any():
            return ((days - pd.Timestamp(0)) / pd.Timedelta(days=1)).to_numpy(np.float64)
    if numbers is None:
        return np.full(len(values), np.nan)
    out = numbers.to_numpy(np.float64, na_value=np.nan)
    # A list of codes such as "01" and "1" is no list of numbers.
    return out if numbers.notna().sum() == values.notna().sum() else np.full(len(values), np.nan)


def _of_table(
    side: np.ndarray,
    n: np.ndarray,
    depths: np.ndarray,
    places: Sequence[np.ndarray],
    tops: Sequence[int],
    deepest: int,
    secret: Secret,
    gain: float,
    sd: float,
    threshold: float | None,
) -> Iterator[tuple[csr_matrix, np.ndarray]]:
    """Equations of one table: finest buckets with both sides released, and what is left of wider ones."""
    n_shown, n_known = len(side), len(secret.person)
    left_shown, left_known = side != 0, np.ones(n_known, dtype=bool)
    used = np.full(n_known, -1)  # Which finer bucket each row is in
    n_used, finer = 0, None
    for depth in range(deepest, -1, -1):
        key = np.zeros(n_shown + n_known, dtype=np.int64)
        for place, top in zip(places, tops, strict=True):
            at = np.where(place <= NULL, place, place >> max(top - depth, 0))
            number, values_at = pd.factorize(at)
            key = pd.factorize(key * len(values_at) + number)[0].astype(np.int64)
        size = int(key.max()) + 1
        shown, known = key[:n_shown], key[n_shown:]
        deep = depths >= depth
        people = np.bincount(known[left_known], minlength=size)
        counts, seen = [], []
        for s in (1, -1):
            held = left_shown & deep & (side == s)
            counts.append(np.bincount(shown[held], weights=n[held], minlength=size))
            seen.append(np.bincount(shown[deep & (side == s)], minlength=size) > 0)
        kept = seen[0] & seen[1] & (people > 0)
        if threshold is not None and finer is not None:
            # Of people who are first in a bucket of this depth, the one below is not released whole.
            taken = left_known & kept[known]
            yield _small(*finer, taken, secret, gain, sd, threshold)
        inside = pd.DataFrame({"key": known[used >= 0], "used": used[used >= 0]})
        within = inside.drop_duplicates().groupby("key").size()
        noise = np.full(size, 2 * sd**2)
        noise[within.index.to_numpy(np.int64)] *= 1 + within.to_numpy()
        noise = noise + people * (1 - gain**2)
        yield _equations(kept, known, left_known, counts[0] - counts[1], noise, secret, gain)
        number = np.where(kept, np.cumsum(kept) - 1 + n_used, -1)
        n_used += int(kept.sum())
        taken = left_known & kept[known]
        used[taken] = number[known[taken]]
        left_known &= ~kept[known]
        left_shown = left_shown & ~(kept[shown] & deep)
        finer = (known, counts, seen)
        if not left_known.any():
            return


def _equations(
    kept: np.ndarray,
    cell: np.ndarray,
    rows: np.ndarray,
    off: np.ndarray,
    noise: np.ndarray,
    secret: Secret,
    gain: float,
) -> tuple[csr_matrix, np.ndarray]:
    """Kept cells as equations."""
    place = np.cumsum(kept) - 1
    held = rows & kept[cell]
    n_rows = int(kept.sum())
    counted = csr_matrix(
        (np.ones(held.sum()), (place[cell[held]], secret.person[held])),
        shape=(n_rows, len(secret.truth)),
    )
    counted.data = np.minimum(counted.data, secret.most_rows)
    scale = 1 / np.sqrt(noise[kept])
    return counted.multiply(gain * scale[:, None]).tocsr(), off[kept] * scale


def _small(
    cell: np.ndarray,
    counts: Sequence[np.ndarray],
    seen: Sequence[np.ndarray],
    rows: np.ndarray,
    secret: Secret,
    gain: float,
    sd: float,
    threshold: float,
) -> tuple[csr_matrix, np.ndarray]:
    """Cells of which a side is not shown: how many are on each side, given that, as one normal equation each."""
    people = np.bincount(cell[rows], minlength=len(seen[0]))
    at = np.flatnonzero((people > 1) & (people <= SMALL) & ~(seen[0] & seen[1]))
    sides = [np.where(has[at], count[at], -1.0) for count, has in zip(counts, seen, strict=True)]
    what, which = np.unique(np.column_stack([people[at], *sides]), axis=0, return_inverse=True)
    found = np.array([_normal(int(n), *each, sd, threshold) for n, *each in what])
    off, noise = np.zeros(len(people)), np.full(len(people), np.inf)
    if len(at):
        off[at], noise[at] = found[which.ravel()].T
    kept = np.isfinite(noise)
    noise = np.where(kept, noise, 1.0) + people * (1 - gain**2)
    return _equations(kept, cell, rows, off, noise, secret, gain)


def _normal(n: int, plus: float, minus: float, sd: float, threshold: float) -> tuple[float, float]:
    """What is known of how many more of n are on one side, as a normal observation; -1: a side is not shown."""
    a = np.arange(n + 1)
    likely = norm.pdf(a, n / 2, n**0.5 / 2)
    for count, many in ((plus, a), (minus, n - a)):
        if count >= 0:
            likely = likely * norm.pdf(many, count, sd)
        else:
            likely = likely * np.where(many < LEAST_SHOWN, 1.0, norm.cdf(threshold - many))
    if likely.sum() <= 1e-12:
        return 0.0, np.inf
    likely = likely / likely.sum()
    mean = float((likely * a).sum())
    spread = 4 * max(float((likely * (a - mean) ** 2).sum()), 0.05)
    if spread >= 0.98 * n:
        return 0.0, np.inf
    noise = 1 / (1 / spread - 1 / n)
    return (2 * mean - n) * (1 + noise / n), noise


def right_of(guess: np.ndarray, truth: np.ndarray, group: Any = slice(None)) -> float:
    """Share of secrets guessed right; of none, half."""
    hit = np.where(guess == 0, 0.5, np.sign(guess) == truth)
    return float(hit[group].mean())
