"""The universe of a column: whom its question is about, as code books say ("persons 15 years and older").

A declaration from outside the data. Outside the universe a column has no value (or one that says so); combinations
that contradict it are structural zeros in every table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Universe:
    """For which rows a column has a value.

    Attributes
    ----------
    column : str
        The column that decides; a row where it is null is outside.
    low, high : value or None
        Smallest and largest value inside, for columns on a grid. None: no limit.
    values : tuple or None
        The values inside, for columns with a list of values. None: all.
    complete : bool
        Every row inside has a value: the column is null exactly outside.
    outside : value or None
        What a column with a list of values holds outside, if not null.
    """

    column: str
    low: Any = None
    high: Any = None
    values: tuple[Any, ...] | None = None
    complete: bool = True
    outside: Any = None

    @property
    def condition(self) -> tuple[Any, ...]:
        """What it takes to be inside: equal for columns that share a universe."""
        values = None if self.values is None else frozenset(self.values)
        return self.column, self.low, self.high, values

    def __str__(self) -> str:
        """In words, as code books have it."""
        parts = [f"{self.column} from {self.low}"] if self.low is not None else []
        parts += [f"{self.column} up to {self.high}"] if self.high is not None else []
        if self.values is not None:
            parts.append(f"{self.column} in {', '.join(map(str, self.values))}")
        return " and ".join(parts) or f"{self.column} not null"


@dataclass(frozen=True, kw_only=True, slots=True)
class CodedUniverse:
    """A universe in the codes of the column that decides it.

    Attributes
    ----------
    declared : Universe
    low, high : int or None
        Grid codes of its limits.
    """

    declared: Universe
    low: int | None = None
    high: int | None = None
