"""Rows of a trial, and the tables that come out of it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from engine.errors import SpecError
from engine.schema import Column, ColumnSet, Int64Array

VINTAGE = "1"
FEW = 20
"""Columns that are one to one but for fewer rows may be copies to a build; a trial does not look for any."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialRows:
    """Rows to be released."""

    columns: ColumnSet
    values: tuple[tuple[str, ...], ...]  # Public domain of each column
    codes: Int64Array  # shape (n_rows, n_columns): Positions in `values`

    def declared(self) -> tuple[Column, ...]:
        """The columns as a spec would declare them."""
        return tuple(
            Column(
                name=name,
                kind="category",
                value_type="text",
                domain=values,
                public=True,
                nullable=False,
            )
            for name, values in zip(self.columns, self.values, strict=True)
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialTable:
    """A table that a build would release."""

    columns: ColumnSet
    codes: Int64Array  # shape (n_cells, n_columns): Positions in the columns' domains
    n: Int64Array  # shape (n_cells,)


def refuse_copies(rows: TrialRows) -> None:
    """Refuse columns that are one to one, or nearly."""
    for i, j in combinations(range(len(rows.columns)), 2):
        shape = len(rows.values[i]), len(rows.values[j])
        place = np.ravel_multi_index((rows.codes[:, i], rows.codes[:, j]), shape)
        n = np.bincount(place, minlength=shape[0] * shape[1]).reshape(shape)
        if max(len(rows.codes) - int(n.max(axis=axis).sum()) for axis in (0, 1)) < FEW:
            raise SpecError(
                f"{rows.columns[i]} and {rows.columns[j]} are one to one, or nearly: leave one of them out"
            )
