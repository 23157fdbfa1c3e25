"""The model of a pack: dimensions with their code lists, tables of figures, and who publishes them.

One model, many writers: each writer takes a `Pack` or a `PackTable` and returns a file. All classes are frozen; arrays
inside are never written to after construction. Texts are tuples with one string per language of the pack.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from engine.guarantee import Guarantee
from engine.schema import ColumnSet, FloatArray
from engine.store import GeneratorCard
from queries.intervals import Status, Tabulation
from queries.packs.spec import PackInfo

Texts = tuple[str, ...]
ItemKind = Literal["total", "group", "value", "blank"]
STATUSES: tuple[Status, ...] = get_args(Status)
"""A table's `status` array has positions in this list."""
NOT_RELEASED = STATUSES.index("not released")
FIGURES = ("value", "low", "high")


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One code of a dimension."""

    # As in CSV files: the released value as text, `_T` for the total, `_X` for a blank of the source.
    code: str
    key: str  # The same, as an SDMX identifier
    labels: Texts
    kind: ItemKind  # total, group (a subtotal or a larger area), value, or blank
    parent: int = -1  # Position of the item that it is part of; -1: none
    value: Any = None  # The typed value; None for all but values
    members: tuple[int, ...] = ()  # Positions of the values in a group
    limits: tuple[Any, Any] | None = None  # The range of a group that is a range


@dataclass(frozen=True, kw_only=True)
class Dimension:
    """A column with all codes that tables of the pack may show, each after the one it is part of."""

    name: str
    key: str
    labels: Texts
    items: tuple[Item, ...]

    def places(self, *kinds: ItemKind) -> list[int]:
        """Positions of the items of some kinds."""
        return [i for i, item in enumerate(self.items) if item.kind in kinds]

    @cached_property
    def place_of_value(self) -> dict[Any, int]:
        """Position of each typed value; None is a blank."""
        return {it.value: i for i, it in enumerate(self.items) if it.kind in ("value", "blank")}


@dataclass(frozen=True, kw_only=True, slots=True)
class Content:
    """One number for every row of a table: a figure, how far it may be off, or a status."""

    code: str
    labels: Texts
    units: Texts
    figures: FloatArray  # NaN where nothing is released
    status: npt.NDArray[np.uint8]  # Of the figure that it is or describes
    is_whole: bool
    decimals: int  # For readers


@dataclass(frozen=True, kw_only=True, slots=True)
class Contents:
    """What is shown for every row of a table, as one more axis with a code for each."""

    name: str
    labels: Texts
    items: tuple[Content, ...]


@dataclass(frozen=True, kw_only=True)
class PackTable:
    """One table: a figure, its noise interval and its status for combinations of codes."""

    id: str
    titles: Texts
    units: Texts
    dimensions: tuple[Dimension, ...]
    # Position of each row's code in its dimension; shape (n_rows, n_dimensions).
    index: npt.NDArray[np.int32]
    # NaN where nothing is released.
    value: FloatArray
    low: FloatArray
    high: FloatArray
    status: npt.NDArray[np.uint8]  # Positions in `STATUSES`
    # Dimensions that a cross table shows down (stub) and across; no heading: a long table.
    stub: tuple[int, ...] = ()
    heading: tuple[int, ...] = ()
    measure: str = "count"
    is_whole: bool = True  # Values are whole numbers
    decimals: int = 0  # Decimals for readers; files have one more, where figures are not whole
    # Only measured combinations are listed: there are too many to list all
    is_listed: bool = False
    answered: ColumnSet = ()  # The widest released table the figures come from
    footnotes: tuple[Texts, ...] = ()
    words: str = ""  # How accurate the figures are, and which table they come from

    def __len__(self) -> int:
        return len(self.value)

    @cached_property
    def used(self) -> tuple[npt.NDArray[np.int64], ...]:
        """Positions that occur, per dimension, in order."""
        return tuple(np.unique(self.index[:, j]) for j in range(len(self.dimensions)))

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of codes that occur, per dimension."""
        return tuple(len(u) for u in self.used)

    def depths(self, place: int) -> list[int]:
        """How deeply each item of a dimension is nested in others that the table shows."""
        displayed = set(self.used[place].tolist())
        out: list[int] = []
        for item in self.dimensions[place].items:  # each comes after the one it is part of
            out.append(0 if item.parent < 0 else out[item.parent] + (item.parent in displayed))
        return out

    def contents(self, words: Mapping[str, Texts]) -> Contents:
        """The figures of its rows, as formats list them that know one axis of figures: value, low, high."""
        items = tuple(
            Content(
                code=name,
                labels=words[name],
                units=self.units,
                figures=getattr(self, name),
                status=self.status,
                is_whole=self.is_whole,
                decimals=self.decimals,
            )
            for name in FIGURES
        )
        return Contents(name="figure", labels=words["figure"], items=items)

    @property
    def n_by_status(self) -> dict[Status, int]:
        """Number of rows of each status."""
        counts = np.bincount(self.status, minlength=len(STATUSES)).tolist()
        return dict(zip(STATUSES, counts, strict=True))

    @property
    def is_cube(self) -> bool:
        """Whether every combination of its codes has a row, in order."""
        return len(self) == math.prod(self.shape)


def sorted_figures(
    figures: Tabulation, index: npt.NDArray[np.int32], scale: float = 1
) -> dict[str, Any]:
    """Return what a `PackTable` holds of figures with the positions of their codes, sorted by these."""
    order = np.lexsort(index.T[::-1]) if index.shape[1] else np.arange(len(index))
    return {
        "index": index[order],
        "value": scale * figures.value[order],
        "low": scale * figures.low[order],
        "high": scale * figures.high[order],
        "status": np.array([STATUSES.index(s) for s in figures.status], dtype=np.uint8)[order],
        "answered": figures.table,
        "words": figures.words,
    }


def are_whole(*figures: FloatArray) -> bool:
    """Whether all figures that are known are whole numbers."""
    known = np.concatenate(figures)
    known = known[np.isfinite(known)]
    return bool(np.all(known == np.rint(known)))


def half_width(table: PackTable) -> FloatArray:
    """Return half of each noise interval; NaN where it is unknown."""
    half: FloatArray = (table.high - table.low) / 2
    return half


def decimals_of(
    value: FloatArray,
    low: FloatArray,
    high: FloatArray,
    *,
    is_whole: bool,
    is_percent: bool = False,
) -> int:
    """Return how many decimals readers see.

    At least one, and three digits of the median figure; up to two more, until most intervals show two different limits.
    Percentages have one decimal, or two where the median is below 1 %.
    """
    if is_whole:
        return 0
    sizes = np.abs(value[np.isfinite(value) & (value != 0)])
    if is_percent:
        return 2 if len(sizes) and np.median(sizes) < 1 else 1
    least = int(np.clip(2 - np.floor(np.log10(np.median(sizes))), 1, 6)) if len(sizes) else 1
    is_open = np.isfinite(low) & np.isfinite(high) & (low < high)
    for digits in range(least, min(least + 2, 6)):
        differ = np.round(low[is_open], digits) < np.round(high[is_open], digits)
        if 2 * np.count_nonzero(differ) >= len(differ):
            return digits
    return min(least + 2, 6)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pack:
    """A pack: its tables, and everything they share."""

    info: PackInfo
    languages: tuple[str, ...]
    titles: Texts
    descriptions: Texts
    dimensions: Mapping[str, Dimension]  # By column name
    tables: tuple[PackTable, ...]
    cards: Mapping[ColumnSet, GeneratorCard]  # Of the released tables that figures come from
    footnotes: tuple[Texts, ...]  # Of the whole pack
    notes: tuple[str, ...]  # Of the release: how to read it
    reader_notes: tuple[str, ...]  # Those for readers of tables: none on SQL, rows or exposure
    guarantee: Guarantee | None  # Of mode dp
    is_unreviewed: bool  # Settings detected in the data are published without review
    words: Mapping[str, Texts]  # Words of the pages, in each language
    warnings: tuple[str, ...]  # What the publisher should check
    # title, vintage, mode, key_id, engine_version, content_hash; file: its name, empty where the pack is
    # without the release.
    release: Mapping[str, str]

    @property
    def cubes(self) -> tuple[PackTable, ...]:
        """Tables that list every combination, as some formats require."""
        return tuple(t for t in self.tables if t.is_cube and not t.is_listed)

    def words_in(self, language: int) -> dict[str, str]:
        """Return the words of one language."""
        return {word: text[language] for word, text in self.words.items()}

    @property
    def has_noise(self) -> bool:
        """Whether figures include noise: those of a dp release without an epsilon do not."""
        return self.release["mode"] != "dp" or all(
            card.dp.get("epsilon") is not None for card in self.cards.values()
        )
