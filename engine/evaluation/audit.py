"""Audits: does a generator use more of the data than its card says? After Houssiau et al., arXiv:2211.11540.

Takes rows, the margins that a generator may use, and a generator: one of ours, a function, a command. Random direction
-> extremal data -> K synthetic data sets of each -> the direction in which they differ most -> extremal data along it
-> K fresh ones of each -> two-sided t-test (section 3.3.1). Gives an `Audit`. CONFIDENTIAL: the data sets compared have
the safe margins of the data.

Tables over a domain are a sum of components, one a set of columns (the analysis of variance). Margins span those of all
column sets inside them; all other components are what a generator must not know. So both spaces, and projections to
them, are explicit however large the domain is. Where that of what is not safe is small it is taken whole; where it is
large, a random part of it: combinations of values of the narrowest column sets that no margin holds (section 4.4).
Linear programs (HiGHS) find extremal data as fractions. Whole rows come from these by rounding down; what is then
missing of a margin is put back in combinations that have the commonest value in all columns but those of one safe
column set, which is always possible, by inclusion and exclusion.
"""

from __future__ import annotations

import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from importlib.resources import files
from itertools import chain, combinations
from math import isfinite, prod
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.charts import WIDE, WIDTH, Chart, Scale, percent
from engine.errors import DamagedRelease, DataError, InternalError, SpecError
from engine.evaluation.baselines.catalogue import table_of
from engine.evaluation.command import command_words, masked, texts_of
from engine.evaluation.data.aligned import listed
from engine.evaluation.data.reading import Released, read_release
from engine.evaluation.findings import FRAME, notes_frame, optional
from engine.evaluation.report.page import render
from engine.evaluation.report.pictures import TEXTS as OF_PICTURES
from engine.evaluation.report.pictures import Picture
from engine.evaluation.report.verdicts import check_target, json_of, json_text, write_both
from engine.guarantee import Guarantee
from engine.keys import MasterKey
from engine.params import PROFILES, DPParams, PrivacyParams
from engine.progress import Progress, silent
from engine.release.trials import TrialRows, TrialTable, joint_trial, sticky_trial
from engine.schema import MAX_WIDTH, BoolArray, ColumnSet, FloatArray, Int64Array, column_set
from engine.spec import ReleaseSpec
from engine.store import exposure_sentences, open_release
from engine.version import ENGINE_VERSION

TEXTS = OF_PICTURES["audit"]
MOST_VALUES = 40
"""Numbers with more values are audited in groups; other columns with more are refused."""
GROUPS = 20
MOST_COLUMNS = 12
Axes = tuple[int, ...]
"""Columns, by their places in the domain."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditColumn:
    name: str
    # What rows made for the audit hold, one a level; None stands for no value and comes last.
    values: tuple[Any, ...]
    # Numbers in groups: where each group begins, the first from minus infinity. None: each value is a
    # level.
    starts: tuple[float, ...] | None = None

    def codes(self, column: pd.Series[Any], place: str) -> Int64Array:
        """Levels of a column's rows."""
        is_null = column.isna().to_numpy()
        has_null = self.values[-1] is None
        known = self.values[:-1] if has_null else self.values
        if is_null.any() and not has_null:
            raise DataError(
                f"{place}: column {self.name!r} is blank in rows; the data's is in none"
            )
        numbers = pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)
        if self.starts is not None:
            found = np.searchsorted(np.array(self.starts[1:]), numbers, side="right")
            found[np.isnan(numbers)] = -1
        elif all(isinstance(v, int | float) for v in known):
            found = pd.Index(known).get_indexer(numbers)
        else:
            found = pd.Index(map(str, known)).get_indexer(pd.Index(column.astype(str)))
        if (found[~is_null] < 0).any():
            raise DataError(
                f"{place}: column {self.name!r} holds values that the data it was given does not have"
            )
        return np.where(is_null, len(known), found)


@dataclass(frozen=True, kw_only=True, slots=True)
class Domain:
    columns: tuple[AuditColumn, ...]  # Sorted by name

    @property
    def names(self) -> ColumnSet:
        return tuple(column.name for column in self.columns)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(len(column.values) for column in self.columns)

    @property
    def n_cells(self) -> int:
        return prod(self.sizes)

    def coded(self, frame: pd.DataFrame, place: str) -> Int64Array:
        missing = [name for name in self.names if name not in frame.columns]
        if missing:
            raise DataError(f"{place}: has no column {', '.join(missing)}")
        return np.column_stack([one.codes(frame[one.name], place) for one in self.columns])

    def frame(self, codes: Int64Array) -> pd.DataFrame:
        columns = {}
        for place, column in enumerate(self.columns):
            held = pd.Series(pd.array(column.values, dtype=object)[codes[:, place]])
            # Whole numbers, numbers or texts, as such
            columns[column.name] = (
                held.convert_dtypes() if held.isna().any() else held.infer_objects()
            )
        return pd.DataFrame(columns)

    def axes(self, columns: Sequence[str]) -> Axes:
        """Places of columns."""
        return tuple(self.names.index(name) for name in columns)

    def cells(self, table: NDArray[Any]) -> Cells:
        """The cells of a dense table that are not empty."""
        held = np.flatnonzero(table)
        codes = np.column_stack(np.unravel_index(held, self.sizes))
        return Cells(codes=codes, n=table.ravel()[held])


@dataclass(frozen=True, kw_only=True, slots=True)
class Cells:
    """Combinations with their number of rows, or their share of all."""

    codes: Int64Array  # shape (n_cells, n_columns): Distinct, unless rows stand for themselves
    n: NDArray[Any]  # shape (n_cells,)

    def rows(self, rng: np.random.Generator | None = None) -> Int64Array:
        rows = np.repeat(self.codes, self.n.astype(np.int64), axis=0)
        return rows if rng is None else rows[rng.permutation(len(rows))]


def cells_of(codes: Int64Array, sizes: Sequence[int]) -> Cells:
    label, n = np.unique(np.ravel_multi_index(tuple(codes.T), tuple(sizes)), return_counts=True)
    return Cells(codes=np.column_stack(np.unravel_index(label, tuple(sizes))), n=n.astype(np.int64))


def domain_of(frame: pd.DataFrame, columns: Sequence[str]) -> Domain:
    names = column_set(tuple(dict.fromkeys(columns)))
    if not 1 <= len(names) <= MOST_COLUMNS:
        raise SpecError(f"audit: wants 1 to {MOST_COLUMNS} columns, not {len(names)}")
    if missing := [name for name in names if name not in frame.columns]:
        raise DataError(f"the data has no column {', '.join(missing)}")
    return Domain(columns=tuple(_column_of(name, frame[name]) for name in names))


def _column_of(name: str, column: pd.Series[Any]) -> AuditColumn:
    held = column.dropna()
    if held.empty:
        raise DataError(f"column {name!r} has no value: leave it out")
    none = (None,) if len(held) < len(column) else ()
    if not pd.api.types.is_numeric_dtype(held) or pd.api.types.is_bool_dtype(held):
        values = sorted({str(v) for v in held})
        if len(values) > MOST_VALUES:
            raise SpecError(
                f"column {name!r} has more than {MOST_VALUES} values: leave it out, or group it beforehand"
            )
        return AuditColumn(name=name, values=(*values, *none))
    ordered, starts = np.sort(held.to_numpy(dtype=np.float64)), None
    numbers = np.unique(ordered)
    if len(numbers) > MOST_VALUES:
        # In groups, each stood for by its median row
        starts = np.unique(ordered[[len(ordered) * group // GROUPS for group in range(GROUPS)]])
        ends = np.append(np.searchsorted(ordered, starts[1:]), len(ordered))
        begins = np.append(0, ends[:-1])
        numbers = ordered[begins + (ends - begins) // 2]
    plain = [int(v) if v.is_integer() else v for v in numbers.tolist()]
    bounds = None if starts is None else tuple(map(float, starts))
    return AuditColumn(name=name, values=(*plain, *none), starts=bounds)


# Safe statistics: the margins that a generator may use, and what is left beside them


@dataclass(frozen=True, kw_only=True)
class SafeStatistics:
    domain: Domain
    margins: tuple[ColumnSet, ...]  # None inside another

    @cached_property
    def axes(self) -> tuple[Axes, ...]:
        return tuple(map(self.domain.axes, self.margins))

    @cached_property
    def covered(self) -> tuple[Axes, ...]:
        """Column sets inside a margin, the empty one among them, the widest first."""
        inside = {subset for axes in self.axes for subset in subsets(axes)} | {()}
        return tuple(sorted(inside, key=lambda axes: (-len(axes), axes)))

    @cached_property
    def uncovered(self) -> tuple[Axes, ...]:
        """Column sets that no margin holds, the narrowest first."""
        held = set(self.covered)
        every = subsets(tuple(range(len(self.domain.sizes))))
        return tuple(axes for axes in every if axes not in held)

    def dimension(self) -> int:
        """Dimension of the space of what a generator must not know."""
        sizes = self.domain.sizes
        return sum(prod(sizes[axis] - 1 for axis in axes) for axes in self.uncovered)

    def counts(self, cells: Cells) -> tuple[NDArray[Any], ...]:
        return tuple(margin_of(cells, axes, self.domain.sizes) for axes in self.axes)


def subsets(axes: Axes) -> list[Axes]:
    widths = range(1, len(axes) + 1)
    return list(chain.from_iterable(combinations(axes, width) for width in widths))


def component(table: FloatArray, axes: Axes) -> FloatArray:
    """The component of a dense table that belongs to a column set; other axes have length 1."""
    others = tuple(axis for axis in range(table.ndim) if axis not in axes)
    part: FloatArray = np.asarray(table.mean(axis=others, keepdims=True))
    for axis in axes:
        part = part - part.mean(axis=axis, keepdims=True)
    return part


def margin_of(cells: Cells, axes: Axes, sizes: Sequence[int]) -> NDArray[Any]:
    """Sums of cells over all columns but some; whole where the cells are."""
    shape = tuple(sizes[axis] for axis in axes)
    if not axes:
        return np.asarray(cells.n.sum())
    place = np.ravel_multi_index(tuple(cells.codes[:, axis] for axis in axes), shape)
    if np.issubdtype(cells.n.dtype, np.integer):
        out = np.zeros(prod(shape), dtype=np.int64)
        np.add.at(out, place, cells.n)
        return out.reshape(shape)
    return np.bincount(place, weights=cells.n, minlength=prod(shape)).reshape(shape)


def safe_statistics(domain: Domain, margins: Iterable[Sequence[str]]) -> SafeStatistics:
    """Return margins as they are restricted to a domain, those inside others left out."""
    held = set(domain.names)
    cut = {column_set([name for name in margin if name in held]) for margin in map(set, margins)}
    widest = [m for m in cut if m and not any(set(m) < set(other) for other in cut)]
    if not widest:
        raise SpecError("safe: no margin is about the columns that are audited")
    return SafeStatistics(domain=domain, margins=tuple(sorted(widest, key=lambda m: (len(m), m))))


# Directions: what an audit looks along


EXPLICIT = 5_000
"""Largest dimension that is taken whole."""
SAMPLED = 1_000
"""Statistics, about, that stand for a larger one."""
_LEAST = 1e-10


@dataclass(frozen=True, kw_only=True, slots=True)
class Direction:
    """A linear function of data: a sum of tables over column sets, looked up row by row."""

    parts: tuple[tuple[Axes, FloatArray], ...]  # Each with one axis a column of its column set

    def of(self, codes: Int64Array) -> FloatArray:
        out = np.zeros(len(codes))
        for axes, weights in self.parts:
            out += weights[tuple(codes[:, axis] for axis in axes)]
        return out

    def mean(self, cells: Cells) -> float:
        return float(self.of(cells.codes) @ cells.n / cells.n.sum())


@dataclass(frozen=True, kw_only=True, slots=True)
class Subspace:
    safe: SafeStatistics
    # Column sets whose components are looked along, each with the combinations of values that are: all, or of a large
    # space some.
    picked: Mapping[Axes, BoolArray]

    @property
    def is_whole(self) -> bool:
        return len(self.picked) == len(self.safe.uncovered)

    @property
    def dimension(self) -> int:
        n_picked = sum(int(cells.sum()) for cells in self.picked.values())
        return self.safe.dimension() if self.is_whole else n_picked

    def random(self, rng: np.random.Generator) -> Direction:
        """A direction drawn from a normal distribution."""
        domain, parts = self.safe.domain, []
        if self.is_whole:
            table = rng.standard_normal(domain.sizes)
        for axes, cells in self.picked.items():
            if self.is_whole:
                weights = component(table, axes).reshape(cells.shape)
            else:
                drawn = np.where(cells, rng.standard_normal(cells.shape), 0.0)
                weights = component(drawn, tuple(range(len(axes))))
            parts.append((axes, weights))
        return Direction(parts=tuple(parts))

    def critical(self, plus: Sequence[Cells], minus: Sequence[Cells]) -> Direction | None:
        """The direction in which two samples of synthetic data differ most on average; None: they do not differ.

        The mean difference of all statistics, projected: its coefficients in an orthonormal basis are the slopes of the
        paper's equation 5 but for one factor.
        """
        domain, parts, square = self.safe.domain, [], 0.0
        for axes, cells in self.picked.items():
            means = [
                np.mean([margin_of(c, axes, domain.sizes) / c.n.sum() for c in lot], axis=0)
                for lot in (plus, minus)
            ]
            own = tuple(range(len(axes)))
            seen = np.where(cells, component(means[0] - means[1], own), 0.0)
            lift = domain.n_cells / cells.size  # from sums over the other columns to means
            weights = component(seen, own) / lift
            parts.append((axes, weights))
            square += lift * float((weights**2).sum())
        length = float(np.sqrt(square))
        if length < _LEAST:  # nothing but rounding
            return None
        return Direction(parts=tuple((axes, weights / length) for axes, weights in parts))


def subspace_of(safe: SafeStatistics, rng: np.random.Generator) -> Subspace:
    """The whole space where it is small; else statistics drawn evenly from those of the narrowest column sets."""
    sizes, covered = safe.domain.sizes, set(safe.covered)
    shapes = {axes: tuple(sizes[axis] for axis in axes) for axes in safe.uncovered}
    if safe.dimension() <= EXPLICIT:
        return Subspace(safe=safe, picked={a: np.ones(s, np.bool_) for a, s in shapes.items()})
    narrowest = {
        axes: shape
        for axes, shape in shapes.items()
        if covered.issuperset(combinations(axes, len(axes) - 1))
    }
    share = SAMPLED / sum(map(prod, narrowest.values()))
    return Subspace(
        safe=safe, picked={axes: rng.random(s) < share for axes, s in narrowest.items()}
    )


# Extremal data: two data sets that agree in every safe margin


MOST_LISTED = 20_000
"""Of a larger domain, those of the data and others like them are looked at."""
MOST_MULTIPLES = 12
"""Tries to find a multiple that makes all rows whole."""
_WHOLE = 1e-6


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """The data that extremal data keeps the margins of."""

    cells: Cells
    repeats: int  # Each row stands for at least so many rows of the extremal data
    # Share of the data's rows in safe margins' cells of too few, which were left out.
    left_out: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Extremal:
    """Two data sets with the same safe margins."""

    plus: Cells
    minus: Cells
    # Rows that rounding had taken from the margins of either and that were put back elsewhere.
    put_back: int
    smallest: int  # Smallest count above 0 in a safe margin


def start_of(
    codes: Int64Array, safe: SafeStatistics, *, rows: int, least: int, rng: np.random.Generator
) -> Start:
    """Return data whose safe counts are all large enough, and about so many rows once repeated."""
    if len(codes) > rows:
        codes = codes[np.sort(rng.choice(len(codes), size=rows, replace=False))]
    repeats = max(1, -(-rows // max(len(codes), 1)))
    kept, n_before = codes, len(codes)
    while len(kept):
        # Rows in a cell of a safe margin with fewer rows
        few, rows_kept = (
            np.zeros(len(kept), dtype=bool),
            Cells(codes=kept, n=np.ones(len(kept), np.int64)),
        )
        for axes, n in zip(safe.axes, safe.counts(rows_kept), strict=True):
            few |= n[tuple(kept[:, axis] for axis in axes)] < -(-least // repeats)
        if not few.any():
            break
        kept = kept[~few]
    if not len(kept):
        raise DataError(
            f"no row lies in safe counts of {least} rows and more: audit coarser columns, or more rows (--rows)"
        )
    return Start(
        cells=cells_of(kept, safe.domain.sizes), repeats=repeats, left_out=1 - len(kept) / n_before
    )


def candidates_of(start: Start, safe: SafeStatistics, rng: np.random.Generator) -> Int64Array:
    """Combinations that extremal data may have: no safe margin is 0 there. All of them, or of a large domain some."""
    sizes, held = safe.domain.sizes, start.cells.codes
    if safe.domain.n_cells <= MOST_LISTED:
        found = np.indices(sizes).reshape(len(sizes), -1).T
    else:
        found = held[rng.integers(len(held), size=MOST_LISTED)].copy()
        at = np.arange(len(found))
        for _ in range(2):  # in each row two columns have another row's value
            axis = rng.integers(len(sizes), size=len(found))
            found[at, axis] = held[rng.integers(len(held), size=len(found)), axis]
    allowed = np.ones(len(found), dtype=bool)
    for axes, n in zip(safe.axes, safe.counts(start.cells), strict=True):
        allowed &= n[tuple(found[:, axis] for axis in axes)] > 0
    found = found[allowed]
    if safe.domain.n_cells <= MOST_LISTED:
        return found
    return cells_of(np.concatenate([held, found]), sizes).codes


def extremal_data(
    start: Start, safe: SafeStatistics, direction: Direction, candidates: Int64Array
) -> Extremal | None:
    """Find two data sets with the margins of the start, farthest apart along a direction."""
    weights, sizes = direction.of(candidates), safe.domain.sizes
    ends = [_solved(start, safe, candidates, sign * weights) for sign in (-1.0, 1.0)]
    if float(weights @ (ends[0] - ends[1])) <= _WHOLE * max(float(np.abs(weights).max()), _WHOLE):
        return None
    repeats = start.repeats
    for multiple in range(start.repeats, (MOST_MULTIPLES + 1) * start.repeats, start.repeats):
        scaled = [end * multiple for end in ends]
        if all(np.abs(x - np.round(x)).max(initial=0.0) < _WHOLE for x in scaled):
            repeats = multiple  # all rows are whole
            break
    floors = [np.floor(end * repeats + _WHOLE).astype(np.int64) for end in ends]
    first = Cells(codes=candidates, n=floors[0])
    commonest = np.array([margin_of(first, (a,), sizes).argmax() for a in range(len(sizes))])
    every, parts, put_back = np.zeros(0, np.int64), [], 0
    for floor in floors:
        # What rounding took from the margins is put back as rows, of either sign.
        codes = np.concatenate([start.cells.codes, candidates])
        lack = Cells(codes=codes, n=np.concatenate([start.cells.n * repeats, -floor]))
        patch = _patch(safe, lack, commonest)
        put_back = max(put_back, int(np.abs(patch.n).sum()))
        labels = np.ravel_multi_index(tuple(np.concatenate([candidates, patch.codes]).T), sizes)
        parts.append((labels, np.concatenate([floor, patch.n])))
        every = np.union1d(every, labels)
    whole = np.zeros((2, len(every)), np.int64)
    for end, (labels, n) in zip(whole, parts, strict=True):
        np.add.at(end, np.searchsorted(every, labels), n)
    # Where a combination would have fewer rows than none, both data sets get more of it.
    more = np.maximum(0, -whole.min(axis=0))
    codes = np.column_stack(np.unravel_index(every, sizes))
    plus, minus = (Cells(codes=codes[n > 0], n=n[n > 0]) for n in whole + more)
    counts = safe.counts(plus)
    for one, other in zip(counts, safe.counts(minus), strict=True):
        if not np.array_equal(one, other):
            raise InternalError("the safe margins of extremal data are not the same")
    smallest = min(int(n[n > 0].min()) for n in counts)
    return Extremal(plus=plus, minus=minus, put_back=put_back + int(more.sum()), smallest=smallest)


def _solved(
    start: Start, safe: SafeStatistics, candidates: Int64Array, costs: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The cheapest data with the margins of the start, as fractions of its rows."""
    linprog = optional("scipy.optimize", "audits").linprog
    sparse = optional("scipy.sparse", "audits")
    blocks, wanted = [], []
    for axes, n in zip(safe.axes, safe.counts(start.cells), strict=True):
        place = np.ravel_multi_index(tuple(candidates[:, axis] for axis in axes), n.shape)
        held = np.flatnonzero(n.ravel())
        row = np.searchsorted(held, place)
        at = np.arange(len(candidates))
        blocks.append(sparse.csr_array((np.ones(len(at)), (row, at)), shape=(len(held), len(at))))
        wanted.append(n.ravel()[held].astype(np.float64))
    scale = max(float(np.abs(costs).max()), 1e-300)
    found = linprog(
        costs / scale,
        A_eq=sparse.vstack(blocks, format="csr"),
        b_eq=np.concatenate(wanted),
        bounds=(0, None),
        method="highs",
    )
    if found.x is None or found.status != 0:
        raise InternalError(
            f"the linear program of an audit was not solved (status {found.status})"
        )
    return np.maximum(np.asarray(found.x, dtype=np.float64), 0.0)


def _patch(safe: SafeStatistics, lack: Cells, commonest: Int64Array) -> Cells:
    """Rows, of either sign, with the margins that some others have.

    A combination whose values are commonest outside of a safe column set, and nowhere in it, counts in cells of
    just its parts: so the widest column sets come first, and what they bring is taken off their parts.
    """
    sizes = safe.domain.sizes
    found: dict[Axes, Int64Array] = {}
    codes, numbers = [np.zeros((0, len(sizes)), np.int64)], [np.zeros(0, np.int64)]
    for axes in safe.covered:
        inner = margin_of(lack, axes, sizes)
        for at, axis in enumerate(axes):
            inner = np.delete(inner, commonest[axis], axis=at)
        for wider, n in found.items():
            if set(axes) < set(wider):
                others = tuple(at for at, axis in enumerate(wider) if axis not in axes)
                inner = inner - n.sum(axis=others)
        found[axes] = inner
        held = np.argwhere(inner)
        own = np.tile(commonest, (len(held), 1))
        for at, axis in enumerate(axes):
            own[:, axis] = np.delete(np.arange(sizes[axis]), commonest[axis])[held[:, at]]
        codes.append(own)
        numbers.append(inner[inner != 0])
    return Cells(codes=np.concatenate(codes), n=np.concatenate(numbers))


# Generators


Function = Callable[[pd.DataFrame], Any]
"""Takes a frame, gives a frame of as many rows and the same columns."""
FEWEST = 0.5
"""Fewer rows than this share of those given are refused: then it is not clear what was made."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Generator:
    """Makes synthetic data of data, with randomness of its own."""

    words: str  # What it is, for people
    draw: Callable[
        [Cells, np.random.Generator], Cells
    ]  # Gives combinations with numbers of rows, or shares
    least: int = 1  # Smallest count that no threshold touches


def frame_generator(domain: Domain, function: Function, words: str = "") -> Generator:
    """A Python function of frames, run on shuffled rows; it must draw anew whenever it is called."""

    def draw(data: Cells, rng: np.random.Generator) -> Cells:
        frame = domain.frame(data.rows(rng))
        try:
            made = function(frame)
        except DataError:
            raise
        except Exception as error:  # noqa: BLE001  # of whatever kind: it is not our code
            message = masked(str(error), texts_of(frame))
            raise DataError(f"the generator failed: {type(error).__name__}: {message}") from None
        if not isinstance(made, pd.DataFrame):
            raise DataError(f"the generator gave {type(made).__name__}, not a data frame")
        return checked(made, domain, n_rows=len(frame))

    words = words or f"the function {getattr(function, '__name__', 'given')}"
    return Generator(words=words, draw=draw)


def command_generator(domain: Domain, command: str, *, seconds: float = 600) -> Generator:
    """A command that reads a CSV file and writes another, run in a scratch folder on shuffled rows."""
    words = command_words(command, "--generator")

    def made(frame: pd.DataFrame) -> pd.DataFrame:
        return table_of(words, frame, "the generator", seconds=seconds)

    return frame_generator(domain, made, f"the command {command}")


def checked(made: pd.DataFrame, domain: Domain, *, n_rows: int) -> Cells:
    strange = [str(name) for name in made.columns if name not in domain.names]
    missing = [name for name in domain.names if name not in made.columns]
    if strange or missing:
        problems = [f"lacks {', '.join(missing)}"] if missing else []
        problems += [f"has {len(strange)} that were not given"] if strange else []
        raise DataError(f"the generator gave other columns: {' and '.join(problems)}")
    if len(made) < FEWEST * n_rows:
        raise DataError(
            f"the generator gave {len(made):,} rows of {n_rows:,}: an audit wants about as many as it gives"
        )
    codes = domain.coded(made, "what the generator gave")
    return cells_of(codes, domain.sizes)


# Our own generators, as fast trials


MOST_CELLS = 2_000_000
"""Tables are put together over a domain of at most so many combinations."""
CYCLES, ENOUGH = 60, 1e-9
SURE_ABOVE = 9
"""Counts so far above the mean threshold pass it whatever is drawn."""


def sticky_generator(
    domain: Domain, tables: Sequence[ColumnSet], privacy: PrivacyParams
) -> Generator:
    """A release of mode sticky, each with a fresh key, drawn from the generator, so that an audit can be repeated."""
    tables = tuple(column_set(table) for table in tables)
    privacy = replace(privacy, max_rows=None, swap=None)

    def draw(data: Cells, rng: np.random.Generator) -> Cells:
        found = sticky_trial(_trial_rows(domain, data), tables, privacy, MasterKey(rng.bytes(32)))
        return together(domain, found)

    words = f"mode sticky ({privacy.profile}), {tables_text(tables)}; a fresh key for each"
    return Generator(words=words, draw=draw, least=privacy.threshold_mean + SURE_ABOVE)


def joint_generator(domain: Domain, params: DPParams) -> Generator:
    """A release of mode dp; its noise is fresh, and outside any ledger."""
    params = replace(params, columns=domain.names)

    def draw(data: Cells, rng: np.random.Generator) -> Cells:
        # The key draws rows of what was measured; the noise is OpenDP's, and fresh.
        table = joint_trial(_trial_rows(domain, data), params, MasterKey(rng.bytes(32)))
        return Cells(codes=table.codes, n=table.n)

    spent = "exact counts" if params.epsilon is None else f"epsilon {params.epsilon:g}"
    return Generator(words=f"mode dp ({spent}), {tables_text(params.margins)}", draw=draw)


def together(domain: Domain, tables: Mapping[ColumnSet, TrialTable]) -> Cells:
    whole = tables.get(domain.names)
    if whole is not None:
        return Cells(codes=whole.codes, n=whole.n)
    if domain.n_cells > MOST_CELLS:
        raise SpecError(
            f"audit: tables are put together over at most {MOST_CELLS:,} combinations, and these columns have "
            f"{domain.n_cells:,}: audit fewer columns (--columns), or a release with a wide table"
        )
    wanted = {}
    for columns, table in tables.items():
        axes = domain.axes(columns)
        n = np.zeros([domain.sizes[axis] for axis in axes])
        n[tuple(table.codes.T)] = table.n
        wanted[axes] = n
    return domain.cells(raked(wanted, domain.sizes))


def tables_text(tables: Sequence[ColumnSet], *, most: int = 6) -> str:
    return listed(["(" + ", ".join(table) + ")" for table in tables], most=most)


def raked(wanted: Mapping[Axes, FloatArray], sizes: Sequence[int]) -> FloatArray:
    """Iterative proportional fitting of an even table to margins, which noise may keep from agreeing.

    Source: Deming and Stephan 1940, doi:10.1214/aoms/1177731829.
    """
    # Combinations that some margin rules out stay empty: only the others are looked at.
    aims = [
        n.reshape([sizes[a] if a in axes else 1 for a in range(len(sizes))]).astype(float)
        for axes, n in wanted.items()
    ]
    possible = np.logical_and.reduce([np.broadcast_to(aim > 0, sizes) for aim in aims])
    at = np.nonzero(possible)
    places = [
        np.ravel_multi_index([at[axis] for axis in axes], n.shape) for axes, n in wanted.items()
    ]
    shares = np.ones(len(at[0]))
    for _ in range(CYCLES):
        worst = 0.0
        for place, n in zip(places, wanted.values(), strict=True):
            aim = n.ravel().astype(float)
            held = np.bincount(place, shares, len(aim))
            shares *= np.divide(aim, held, out=np.zeros_like(held), where=held > 0)[place]
            worst = max(worst, float(np.abs(aim - held).max() / max(aim.sum(), 1.0)))
        if worst < ENOUGH:
            break
    table = np.zeros(tuple(sizes))
    table[at] = shares
    return table


def _trial_rows(domain: Domain, data: Cells) -> TrialRows:
    """Rows for a trial: levels are called by their numbers, in their order."""
    return TrialRows(
        columns=domain.names,
        values=tuple(tuple(f"{level:04d}" for level in range(size)) for size in domain.sizes),
        codes=data.rows(),
    )


# What a spec or a release claims to use


QUICK = 2_000
"""Combinations of columns that an audit chooses by itself, of many."""
LOOKED_AT = 24
"""Columns among which it chooses: sets of five of them are 42,504."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    title: str
    tables: tuple[ColumnSet, ...]  # That it publishes
    # Those of mode sticky that nothing was measured of as such. A table of five columns is measured where
    # one of them determines another: a release says so, a spec as far as it is declared.
    modelled: tuple[ColumnSet, ...]
    privacy: PrivacyParams  # Of mode sticky
    dp: DPParams | None  # Of mode dp

    @property
    def margins(self) -> tuple[ColumnSet, ...]:
        """Column sets that are measured: for a modelled table all its pairs."""
        if self.dp is not None:
            return tuple(self.dp.measured(margin) for margin in self.dp.margins)
        pairs = chain.from_iterable(combinations(table, 2) for table in self.modelled)
        measured = (table for table in self.tables if table not in self.modelled)
        return (*measured, *dict.fromkeys(pairs))

    @property
    def columns(self) -> ColumnSet:
        return tuple(sorted({name for margin in self.margins for name in margin}))

    def generator(self, domain: Domain, safe: SafeStatistics) -> Generator:
        """How releases are made, cut to a domain whose safe margins are the claim's."""
        if self.dp is not None:
            shared: dict[str, Any] = {"strata": (), "ranges": (), "budget": None}
            return joint_generator(
                domain, replace(self.dp, method="ipf", margins=safe.margins, **shared)
            )
        cut = {tuple(n for n in table if n in domain.names) for table in self.modelled}
        wide = {table for table in cut if len(table) > MAX_WIDTH}
        return sticky_generator(domain, tuple(sorted({*safe.margins, *wide})), self.privacy)


def claim_of_spec(spec: ReleaseSpec) -> Claim:
    determined = {column.name: column.determines for column in spec.columns}
    modelled = []
    for table in spec.tables if spec.mode != "dp" else ():
        # Whether too many columns are left without those that others of the table are declared to determine
        left = list(table)
        for name in table:
            if any(name in determined.get(other, ()) for other in left if other != name):
                left.remove(name)
        if len(left) > MAX_WIDTH:
            modelled.append(table)
    return Claim(
        title=spec.title,
        tables=spec.tables,
        modelled=tuple(modelled),
        privacy=spec.counted,
        dp=spec.dp if spec.mode == "dp" else None,
    )


def claim_of_release(path: Path) -> Claim:
    release = read_release(path)
    stated = release.facts.privacy
    dp, privacy = None, PROFILES["standard"]
    try:
        if release.facts.mode == "dp":
            values = {k.name: stated[k.name] for k in fields(DPParams) if k.name in stated}
            values |= {k: tuple(stated[k]) for k in ("columns", "strata")} | {"ranges": ()}
            values["margins"] = tuple(tuple(margin) for margin in stated["margins"])
            dp = DPParams(**values)
        else:
            names = ("profile", "low_threshold", "threshold_mean", "layer_sd")
            privacy = PrivacyParams(**{name: stated[name] for name in names})
    except (TypeError, KeyError, ValueError):
        raise DamagedRelease(f"{path}: its parameters are not what tablepack wrote") from None
    return Claim(
        title=release.facts.title,
        tables=tuple(release.tables),
        modelled=tuple(table for table in release.tables if release.cards[table].get("wide")),
        privacy=privacy,
        dp=dp,
    )


def chosen_domain(
    frame: pd.DataFrame, margins: Sequence[ColumnSet], wanted: Sequence[str] | None
) -> tuple[Domain, tuple[str, ...]]:
    """Return the columns that are audited, and a note on the choice.

    All that margins name, where they have few enough combinations; else the largest of those sets of columns with few
    combinations that no margin holds although margins hold all their parts: there is something to find.
    """
    named = tuple(sorted({name for margin in margins for name in margin}))
    if wanted:
        if strange := [name for name in wanted if name not in named]:
            raise SpecError(f"columns: no safe margin is about {', '.join(strange)}")
        domain = domain_of(frame, wanted)
        is_cut = set(domain.names) != set(named)
        return domain, (TEXTS["cut"].format(columns=", ".join(domain.names)),) if is_cut else ()
    if len(named) <= MOST_COLUMNS:
        domain = domain_of(frame, named)
        if domain.n_cells <= MOST_LISTED:
            return domain, ()
    sizes = {name: frame[name].nunique(dropna=False) for name in named if name in frame.columns}
    for width in (3, 4, 2, 5):
        _, best = max(open_sets(sizes, margins, width, QUICK), default=(0, ()))
        if best:
            return domain_of(frame, best), (TEXTS["cut"].format(columns=", ".join(best)),)
    return domain_of(frame, tuple(sizes)[:4]), (
        TEXTS["cut"].format(columns=", ".join(tuple(sizes)[:4])),
    )


def open_sets(
    sizes: Mapping[str, int], margins: Sequence[ColumnSet], width: int, most: int
) -> Iterator[tuple[int, ColumnSet]]:
    """Sets of columns that no margin holds, although margins hold all of them but one, whichever that is."""
    named = Counter(name for margin in margins for name in margin if name in sizes)
    names = column_set(sorted(named, key=lambda name: (-named[name], name))[:LOOKED_AT])
    inside = [[name for name in names if name in margin] for margin in map(set, margins)]
    held, parts = (
        set(chain.from_iterable(combinations(own, n) for own in inside)) for n in (width, width - 1)
    )
    for chosen in combinations(names, width):
        cells = prod(min(sizes[name], MOST_VALUES + 1) for name in chosen)
        if (
            cells <= most
            and chosen not in held
            and parts.issuperset(combinations(chosen, width - 1))
        ):
            yield cells, chosen


# Results


Verdict = Literal["refuted", "not refuted", "nothing to test"]
SHARES = (0.01, 0.1, 1.0)
"""Shares copied whose power is stated."""
LIKELY = 0.8
_SAME = 1e-12
"""Relative difference that rounding makes."""
QUANTILES = 2_000


@dataclass(frozen=True, kw_only=True, slots=True)
class DirectionTest:
    # plus, minus: Statistic of each set of synthetic data, made of the two extremal data sets; fresh runs.
    plus: tuple[float, ...]
    minus: tuple[float, ...]
    # of_plus, of_minus: Statistic of the extremal data sets themselves.
    of_plus: float
    of_minus: float
    t: float | None  # Of the two-sided t-test; None where nothing varies
    p: float
    p_holm: float  # Corrected for the other directions
    # Difference of the means, as a share of that of the extremal data: 1, what is unsafe is copied whole.
    copied: float
    # copied_low, copied_high: Its 95 % interval.
    copied_low: float
    copied_high: float
    # By share copied: how likely the test is to find a generator that copies so much, at the level of the
    # audit.
    power: dict[float, float]
    # Share copied that is found with probability 0.8; None: not even a whole copy would be.
    found_from: float | None
    # put_back, smallest: As in `Extremal`.
    put_back: int
    smallest: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Audit:
    title: str
    generator: str  # What was audited, in words
    columns: dict[str, int]  # Levels of each column
    margins: tuple[ColumnSet, ...]  # Safe margins
    # dimension, looked_at: Of the space of what is not safe, and of the part of it that was looked along.
    dimension: int
    looked_at: int
    rows: int  # Of each extremal data set
    left_out: float  # Share of the data's rows in safe counts of too few
    # Fresh runs from each of two extremal data sets, and as many before to choose the direction.
    runs: int
    level: float  # The card is refuted below it
    seed: int
    tests: tuple[DirectionTest, ...]
    why_nothing: str = ""  # Why there was nothing to test; empty: there was
    notes: tuple[str, ...] = ()  # What a reader must know
    seconds: float = 0.0

    @property
    def p(self) -> float | None:
        """The smallest p-value, corrected for the number of directions; None: nothing was tested."""
        return min((test.p_holm for test in self.tests), default=None)

    @property
    def verdict(self) -> Verdict:
        if self.p is None:
            return "nothing to test"
        return "refuted" if self.p < self.level else "not refuted"

    @property
    def is_refuted(self) -> bool:
        return self.verdict == "refuted"

    def sentences(self) -> list[str]:
        margins = tables_text(self.margins, most=8)
        said = TEXTS["said"].format(generator=self.generator, margins=margins)
        if self.p is None:
            return [said, TEXTS["nothing"].format(why=self.why_nothing)]
        best, p = min(self.tests, key=lambda test: test.p_holm), p_text(self.p)
        if self.is_refuted:
            through = {"copied": best.copied, "low": best.copied_low, "high": best.copied_high}
            told = {name: percent(share) for name, share in through.items()}
            return [said, TEXTS["refuted"].format(p=p, **told)]
        found = TEXTS["inconclusive"]
        if best.found_from is not None:
            found = TEXTS["found"].format(share=percent(best.found_from))
        return [said, TEXTS["not_refuted"].format(p=p, found=found), TEXTS["no_proof"]]

    def frame(self) -> pd.DataFrame:
        """The public frame: the smallest p-value, each test, and the statistic of each run and data set."""
        rows: list[tuple[Any, ...]] = []

        def add(name: str, value: Any, by: str = "", *ends: float, better: str = "") -> None:
            if value is not None and isfinite(value):
                low, high = ends or (None, None)
                rows.append((self.generator, f"audit.{name}", "", by, value, low, high, better, ""))

        add("p", self.p, better="higher")
        for number, test in enumerate(self.tests, 1):
            by = f"direction {number}"
            add("t", test.t, by)
            add("p", test.p, by)
            add("p_holm", test.p_holm, by)
            add("copied", test.copied, by, test.copied_low, test.copied_high, better="lower")
            add("found_from", test.found_from, by)
            add("put_back", test.put_back, by)
            add("smallest_safe_count", test.smallest, by)
            for share, power in test.power.items():
                add("power", power, f"{by}; {share:.0%} copied")
            for side, data, lot in (
                ("D+", test.of_plus, test.plus),
                ("D-", test.of_minus, test.minus),
            ):
                add("statistic", data, f"{by}; {side}")
                for run, value in enumerate(lot, 1):
                    add("statistic", value, f"{by}; {side}; run {run}")
        whole = pd.DataFrame(rows, columns=list(FRAME))
        notes = notes_frame(self.generator, (*self.sentences(), *self.notes))
        return pd.concat([whole, notes], ignore_index=True) if rows else notes

    def about(self) -> dict[str, Any]:
        names = "title generator columns margins dimension looked_at rows left_out runs level seed seconds"
        said = {name: getattr(self, name) for name in names.split()}
        return {"kind": "audit", "tablepack": ENGINE_VERSION, "verdict": self.verdict, **said}


# --- the test


def two_sample(
    plus: Sequence[float],
    minus: Sequence[float],
    of_ends: tuple[float, float],
    ends: Extremal,
    *,
    level: float,
) -> DirectionTest:
    """Student's two-sided t-test of two samples of as many runs, as in Houssiau et al., its power and what it finds.

    Where nothing varies, p is 1 if both are the same and 0 if not.
    """
    one, other = (np.asarray(lot, dtype=np.float64) for lot in (plus, minus))
    span, difference = of_ends[0] - of_ends[1], float(one.mean() - other.mean())
    error = float(np.sqrt((one.var(ddof=1) + other.var(ddof=1)) / len(one)))
    scale = max(float(np.abs([*one, *other, *of_ends]).max()), 1e-300)
    t, interval = None, (difference, difference)
    if error <= _SAME * scale:
        p, error = float(abs(difference) <= _SAME * scale), 0.0
    else:
        found = optional("scipy.stats", "audits").ttest_ind(one, other)
        t, p, interval = float(found.statistic), float(found.pvalue), found.confidence_interval()
    low, high = sorted(float(end) / span for end in interval) if span else (0.0, 0.0)

    def power(share: float) -> float:
        return power_of(share * span, error, len(one), level)

    found_from = None
    if power(1.0) >= LIKELY:
        brentq = optional("scipy.optimize", "audits").brentq
        is_sure = power(0.0) >= LIKELY
        found_from = 0.0 if is_sure else float(brentq(lambda share: power(share) - LIKELY, 0, 1))
    return DirectionTest(
        plus=tuple(map(float, one)),
        minus=tuple(map(float, other)),
        of_plus=of_ends[0],
        of_minus=of_ends[1],
        t=t,
        p=p,
        p_holm=p,
        copied=difference / span if span else 0.0,
        copied_low=low,
        copied_high=high,
        power={share: power(share) for share in SHARES},
        found_from=found_from,
        put_back=ends.put_back,
        smallest=ends.smallest,
    )


def power_of(difference: float, error: float, runs: int, level: float) -> float:
    """Power of the two-sided t-test for a difference of means with a standard error."""
    if error == 0:
        return float(difference != 0)
    stats, freedom, away = optional("scipy.stats", "audits"), 2 * runs - 2, abs(difference) / error
    limit = float(stats.t.isf(level / 2, freedom))
    # Over quantiles of the estimated error: scipy's noncentral t distribution is nan where it is far off.
    errors = np.sqrt(stats.chi2.ppf((np.arange(QUANTILES) + 0.5) / QUANTILES, freedom) / freedom)
    found = stats.norm.sf(limit * errors - away) + stats.norm.cdf(-limit * errors - away)
    return float(found.mean())


def holm(p: Sequence[float]) -> list[float]:
    """Correct p-values for their number: Holm 1979."""
    order = np.argsort(np.asarray(p), kind="stable")
    times = len(p) - np.arange(len(p))
    out = np.empty(len(p))
    out[order] = np.maximum.accumulate(np.minimum(times * np.asarray(p)[order], 1.0))
    return out.tolist()


def p_text(p: float) -> str:
    if p == 0:
        return "0 (exactly: nothing varies)"
    return f"{p:.1e}" if p < 0.001 else f"{p:.2g}"


# The procedure


SPANNED = "the safe margins say all there is to say of these columns"
NO_ROOM = "no other data has these safe margins, in whole rows and without new combinations"
MOST_RUNS, MOST_DIRECTIONS = 1_000, 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """How an audit is made."""

    runs: int = 10
    directions: int = 1
    rows: int = 10_000
    least: int = 1
    level: float = 0.01
    seed: int = 2021

    def __post_init__(self) -> None:
        problems = []
        if not 2 <= self.runs <= MOST_RUNS:
            problems.append(f"runs: wants 2 to {MOST_RUNS:,}, not {self.runs}")
        if not 1 <= self.directions <= MOST_DIRECTIONS:
            problems.append(f"directions: wants 1 to {MOST_DIRECTIONS}, not {self.directions}")
        if not 0 < self.level < 1:
            problems.append("level: wants a probability above 0 and below 1")
        if self.rows < 1:
            problems.append("rows: wants at least 1")
        if problems:
            raise SpecError(problems)


def run_audit(
    codes: Int64Array,
    safe: SafeStatistics,
    generator: Generator,
    settings: Settings,
    *,
    title: str = "",
    notes: tuple[str, ...] = (),
    progress: Progress | None = None,
) -> Audit:
    begun, rng, tell = time.perf_counter(), np.random.default_rng(settings.seed), progress or silent
    remarks, tests, rows, done = list(notes), list[DirectionTest](), 0, 0
    start: Start | None = None
    space: Subspace | None = None

    def lots(ends: Extremal) -> tuple[list[Cells], list[Cells]]:
        """Make as many synthetic data sets of each of two, in turns."""
        nonlocal done
        out: tuple[list[Cells], list[Cells]] = ([], [])
        for _ in range(settings.runs):
            for lot, data in zip(out, (ends.plus, ends.minus), strict=True):
                tell("running the generator", done, 4 * settings.runs * settings.directions)
                lot.append(generator.draw(data, rng))
                done += 1
        return out

    if safe.dimension():
        start = start_of(codes, safe, rows=settings.rows, least=settings.least, rng=rng)
        space = subspace_of(safe, rng)
    for _ in range(settings.directions):
        if start is None or space is None:
            break
        candidates, direction = candidates_of(start, safe, rng), space.random(rng)
        ends = extremal_data(start, safe, direction, candidates)
        if ends is None:
            continue
        critical = space.critical(*lots(ends)) or direction
        if (again := extremal_data(start, safe, critical, candidates)) is not None:
            direction, ends = critical, again
        # Else the runs differ where data cannot: it is looked along the random direction.
        plus, minus = ([direction.mean(cells) for cells in lot] for lot in lots(ends))
        of_ends = direction.mean(ends.plus), direction.mean(ends.minus)
        tests.append(two_sample(plus, minus, of_ends, ends, level=settings.level))
        rows = max(rows, int(ends.plus.n.sum()))
    left_out = 0.0 if start is None else start.left_out
    if left_out:
        remarks.append(TEXTS["left_out"].format(percent=100 * left_out))
    smallest = min((test.smallest for test in tests), default=settings.least)
    if smallest < settings.least:
        remarks.append(TEXTS["smallest"].format(smallest=smallest, least=settings.least))
    if tests and all(test.t is None for test in tests):
        remarks.append(TEXTS["same"])
    corrected = holm([test.p for test in tests])
    return Audit(
        title=title,
        generator=generator.words,
        columns=dict(zip(safe.domain.names, safe.domain.sizes, strict=True)),
        margins=safe.margins,
        dimension=safe.dimension(),
        looked_at=0 if space is None else space.dimension,
        rows=rows,
        left_out=left_out,
        runs=settings.runs,
        level=settings.level,
        seed=settings.seed,
        tests=tuple(replace(t, p_holm=p) for t, p in zip(tests, corrected, strict=True)),
        why_nothing="" if tests else SPANNED if space is None else NO_ROOM,
        notes=tuple(remarks),
        seconds=time.perf_counter() - begun,
    )


# The page


HEADS = (
    "direction",
    "t",
    "p",
    "p (Holm)",
    "through",
    "interval",
    "found from",
    "1 % found",
    "10 % found",
)


def write_audit(audit: Audit, path: Path, *, force: bool = False) -> tuple[Path, Path]:
    check_target(path, force=force)
    return write_both(path, force=force, page=audit_page(audit), json=audit_json(audit))


def audit_json(audit: Audit) -> str:
    return json_of(audit.frame(), **audit.about())


def audit_rows(audit: Audit) -> list[tuple[str, ...]]:
    return [
        (
            f"{number}",
            "–" if test.t is None else f"{test.t:.2f}",
            p_text(test.p),
            p_text(test.p_holm),
            percent(test.copied),
            f"{percent(test.copied_low)} to {percent(test.copied_high)}",
            "–" if test.found_from is None else percent(test.found_from),
            f"{test.power[0.01]:.2f}",
            f"{test.power[0.1]:.2f}",
        )
        for number, test in enumerate(audit.tests, 1)
    ]


def _picture(test: DirectionTest, title: str, *, is_wide: bool) -> Picture:
    """Runs of both data sets: marks a run, a smoothed distribution above; 0 and 1 are the data sets themselves."""
    span = test.of_plus - test.of_minus
    lots = [(np.asarray(lot) - test.of_minus) / span for lot in (test.plus, test.minus)]
    every = np.concatenate(lots)
    least = float(np.ptp(every)) / 100 or 0.01
    # Silverman's rule; no less than can be seen.
    widths = [float(max(1.06 * lot.std(ddof=1) * len(lot) ** -0.2, least)) for lot in lots]
    room = 3 * max(widths)  # no curve is cut off
    low, high = float(every.min()) - room, float(every.max()) + room
    at = np.linspace(low, high, 300)
    x = Scale(low=low, high=high, name="statistic; 0 and 1 are the two data sets themselves")
    y = Scale(low=-0.3, high=1.2, ticks=())
    legend = [("made of D+", "synthetic", "o"), ("made of D-", "more", "s")]
    width_of = WIDE if is_wide else WIDTH
    chart = Chart(title, x, y, width=width_of, height=170, left=20, legend=legend)
    for lot, width, colour, mark, row in zip(
        lots, widths, ("synthetic", "more"), ("o", "s"), (0.0, -0.12), strict=True
    ):
        density = np.exp(-0.5 * ((at[:, None] - lot[None, :]) / width) ** 2).sum(axis=1)
        height = density / density.max()
        chart.area(at, np.full(len(at), 0.1), 0.1 + height, colour, alpha=0.35)
        chart.marks(lot, np.full(len(lot), row), colour, mark, size=3)
    words = OF_PICTURES["words"]["runs"] if is_wide else "Marks as above."
    return Picture.of(chart, words, is_wide=is_wide)


def audit_page(audit: Audit) -> str:
    return render(
        "audit.html.j2",
        pictures=[
            _picture(test, f"Direction {number}", is_wide=number == 1)
            for number, test in enumerate(audit.tests, 1)
        ],
        audit=audit,
        heads=HEADS,
        rows=audit_rows(audit),
        version=ENGINE_VERSION,
    )


# Generator cards of releases: PUBLIC, all of it stands in the release


Card = dict[str, Any]


def write_card(release: Path, out: Path, *, force: bool = False) -> tuple[Path, Path]:
    check_target(out, force=force, inputs=(release,))
    card = generator_card(release)
    page = render("card.html.j2", card=card, version=ENGINE_VERSION)
    return write_both(out, page=page, json=json_text(card), force=force, private=False)


def generator_card(path: Path) -> Card:
    release, claim = read_release(path), claim_of_release(path)
    facts = release.facts
    con, record = open_release(path)
    names, shown = ("columns", "rows", "cells", "content_hash", "noise_sd"), set(claim.margins)
    with con:
        listed_tables = con.execute(
            f"SELECT {', '.join(names)} FROM catalog.tables ORDER BY width, name"
        ).fetchall()
    tables = [
        dict(zip(names, one, strict=True)) | {"measured": tuple(one[0]) in shown}
        for one in listed_tables
    ]
    sections = _sections(release, claim).items()
    return {
        "confidential": False,
        "kind": "generator card",
        "tablepack": ENGINE_VERSION,
        "title": facts.title,
        "Phi": [list(margin) for margin in claim.margins],
        # The safe statistics: the released counts, named by their digests; they are in the release.
        "psi": {"release": record.content_hash, "tables": tables},
        "generator": {
            "name": f"tablepack {facts.version}, mode {facts.mode}",
            "key_id": facts.key_id,
            "vintage": facts.vintage,
            "parameters": {
                k: v for k, v in facts.privacy.items() if k not in ("measured", "bounds", "sums")
            },
            "modelled": [list(table) for table in claim.tables if table not in shown],
        },
        "sections": [{"heading": h, "sentences": told} for h, told in sections if told],
    }


def _sections(release: Released, claim: Claim) -> dict[str, list[str]]:
    """The headings of a model card, with what a release says under each."""
    texts = tomllib.loads(
        files("engine.evaluation.report").joinpath("card.toml").read_text("utf-8")
    )
    words, facts, cards = texts.pop("words"), release.facts, release.cards
    first = next(iter(cards.values()), {})
    noise = [float(card["noise_sd"]) for card in cards.values() if not card.get("wide")]
    gaps = [int(card["rounding_gap"]) for card in cards.values()]
    reviewed = "reviewed" if facts.is_reviewed else "not reviewed"
    if facts.mode == "sticky":
        analyses: Sequence[str] = list(exposure_sentences(first.get("exposure") or {}))
        promise = words["sticky"]["promise"].format_map(facts.privacy)
    else:
        guarantee = Guarantee.of(first.get("dp") or {})
        analyses = guarantee.sentences()[1:] or guarantee.sentences()[:1]
        promise = guarantee.promise()
    modelled = ", ".join(f"{len(table)} columns" for table in claim.modelled)
    # One or several sentences in the place of each name.
    several: dict[str, Sequence[str]] = {
        "{modelled}": [words["modelled"].format(modelled)] if modelled else [],
        "{found}": [
            words["found"].format(column, ", ".join(settings), reviewed)
            for column, settings in facts.detected.items()
        ],
        "{noise}": [words["noise"].format(min(noise), max(noise))] if noise else [],
        "{gap}": [words["gap"].format(max(gaps))] if gaps else [],
        "{notes}": facts.notes,
        "{analyses}": analyses,
        "{promise}": [promise],
        "{known}": [words["sticky" if facts.mode == "sticky" else "dp"]["known"]],
    }
    known = {"facts": facts, "tables": len(claim.tables), "margins": len(claim.margins)}
    return {
        heading: [
            sentence
            for text in sentences
            for sentence in (several[text] if text in several else [text.format(**known)])
        ]
        for heading, sentences in texts.items()
    }
