"""The nouns of a pack: dimensions with their code lists, tables of figures, and who publishes them.

One model, many writers: each writer takes a `Pack` or a `PackTable` and gives a file. All are frozen; arrays inside are
never written to after construction. Texts are tuples with one string a language of the pack.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from engine.schema import ColumnSet, FloatArray
from engine.store import GeneratorCard
from queries.intervals import Status
from queries.packs.spec import PackInfo

Texts = tuple[str, ...]
ItemKind = Literal["total", "group", "value", "blank"]
STATUSES: tuple[Status, ...] = get_args(Status)
"""A table's `status` array holds places in this list."""
_FOR_OTHERS = (
    *("At a SQL prompt", "NULL is", "No row is", "Rows of two tables", "A margin has one value"),
    *(
        "Exposure:",
        "Most exposed:",
        "Together with earlier builds",
        "This is look",
        "Who knows everybody else",
    ),
)
"""How notes of a release begin that readers of its tables have no use for: they stand in the release."""
NOT_RELEASED = STATUSES.index("not released")


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One code of a dimension."""

    # As CSV files hold it: the released value as text, `_T` for the total, `_X` for a blank of the source.
    code: str
    key: str  # The same, as an SDMX identifier
    labels: Texts
    kind: ItemKind  # total, group (a subtotal or an area that holds others), value, or blank
    parent: int = -1  # Place of the item that it is part of; -1: none
    value: Any = None  # The typed value; None for all but values
    members: tuple[int, ...] = ()  # Places of the values that a group sums
    limits: tuple[Any, Any] | None = None  # The range of a group that is one


@dataclass(frozen=True, kw_only=True)
class Dimension:
    """A column with all codes that tables of the pack may display, each after the one it is part of."""

    name: str
    key: str
    labels: Texts
    items: tuple[Item, ...]

    def places(self, *kinds: ItemKind) -> list[int]:
        """Places of the items of some kinds."""
        return [i for i, item in enumerate(self.items) if item.kind in kinds]

    @cached_property
    def place_of_value(self) -> dict[Any, int]:
        """Place of each typed value; None is a blank."""
        return {it.value: i for i, it in enumerate(self.items) if it.kind in ("value", "blank")}


@dataclass(frozen=True, kw_only=True)
class PackTable:
    """One table: a figure, its noise interval and its status for combinations of codes."""

    id: str
    titles: Texts
    units: Texts
    dimensions: tuple[Dimension, ...]
    # shape (n_rows, n_dimensions): Place of each row's code in its dimension.
    index: npt.NDArray[np.int32]
    # value, low, high: NaN where nothing is released.
    value: FloatArray
    low: FloatArray
    high: FloatArray
    status: npt.NDArray[np.uint8]  # Places in `STATUSES`
    # stub, heading: Dimensions that a cross table displays down and across; no heading: a long table.
    stub: tuple[int, ...]
    heading: tuple[int, ...]
    measure: str
    is_whole: bool  # Values are whole numbers
    decimals: int  # Decimal places for people; files hold one more, where figures are not whole
    is_listed: bool  # Only released combinations are listed: there are too many to list all
    answered: ColumnSet  # The widest released table the figures come from
    footnotes: tuple[Texts, ...]
    words: str  # How sure the figures are, and where they are from

    def __len__(self) -> int:
        return len(self.value)

    @cached_property
    def used(self) -> tuple[npt.NDArray[np.int64], ...]:
        """Places that occur, per dimension, in order."""
        return tuple(np.unique(self.index[:, j]) for j in range(len(self.dimensions)))

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of codes that occur, per dimension."""
        return tuple(len(u) for u in self.used)

    def depths(self, place: int) -> list[int]:
        """How deep each item of a dimension stands in others that are displayed."""
        displayed = set(self.used[place].tolist())
        out: list[int] = []
        for item in self.dimensions[place].items:  # each stands after the one it is part of
            out.append(0 if item.parent < 0 else out[item.parent] + (item.parent in displayed))
        return out

    @property
    def n_by_status(self) -> dict[Status, int]:
        """Number of rows of each status."""
        counts = np.bincount(self.status, minlength=len(STATUSES)).tolist()
        return dict(zip(STATUSES, counts, strict=True))

    @property
    def is_cube(self) -> bool:
        """Whether every combination of its codes has a row, in order."""
        return len(self) == math.prod(self.shape)


def decimals_of(
    value: FloatArray,
    low: FloatArray,
    high: FloatArray,
    *,
    is_whole: bool,
    is_percent: bool = False,
) -> int:
    """Return how many decimals people see.

    Three digits of a middling one and one decimal at least; up to two more, until most intervals have two ends.
    Percentages have one, and two where a middling one is below 1 %.
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
    """A pack: its tables, and what all of them share."""

    info: PackInfo
    languages: tuple[str, ...]
    titles: Texts
    descriptions: Texts
    dimensions: Mapping[str, Dimension]  # By column name
    tables: tuple[PackTable, ...]
    cards: Mapping[ColumnSet, GeneratorCard]  # Of the tables that answered
    footnotes: tuple[Texts, ...]  # Of the whole pack
    notes: tuple[str, ...]  # Of the release: how to read it
    # What was detected in the data was reviewed by nobody, and is published all the same.
    is_unreviewed: bool
    words: Mapping[str, Texts]  # Words of the pages, in each language
    warnings: tuple[str, ...]  # What a publisher should look at
    # title, vintage, mode, key_id, engine_version, content_hash, file: its name; empty: it is not handed
    # out.
    release: Mapping[str, str]

    @property
    def cubes(self) -> tuple[PackTable, ...]:
        """Tables that list every combination, as some formats need."""
        return tuple(t for t in self.tables if t.is_cube and not t.is_listed)

    @property
    def reader_notes(self) -> tuple[str, ...]:
        """Notes for people who see tables: none on SQL, on rows, or on what the custodian weighs."""
        return tuple(note for note in self.notes if not note.startswith(_FOR_OTHERS))

    @property
    def has_noise(self) -> bool:
        """Whether figures carry noise: those of a dp release without an epsilon do not."""
        return self.release["mode"] != "dp" or all(
            card.dp.get("epsilon") is not None for card in self.cards.values()
        )
