"""Cross tables of values, groups, bands and totals; their percentages. One definition, for the server and for packs.

Takes a `Session` and, per column, the slices that the table displays; gives one `Tabulation`. Every combination of
slices is one call of `tabulate`; all are answered from one released table, so that parts add up to their totals. A
share is `tabulate`'s own where no group takes part; else a figure over its total, and its interval holds every share
that the intervals of both allow.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from engine.schema import BoolArray, FloatArray
from queries.intervals.spread import Status
from queries.intervals.tabulation import Measure, Tabulation, tabulate
from queries.sql import Session

_OF_BOTH = (
    "Percentages of groups, and of sums, are figures over their total; the interval holds every percentage that the "
    "intervals of both allow."
)
Limits = Sequence[Any] | tuple[Any, Any]
"""Values, or the smallest and largest one, as `tabulate` takes them."""


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """What a cross table displays of a column: each of its values, or several as one."""

    key: Any = None  # Stands for the values in the keys of the answer
    limits: Limits | None = None  # The values; None: all that the table's own limits leave
    is_each: bool = False  # Every value is a group of its own, with itself as key


EACH = Slice(is_each=True)
TOTAL = Slice(key=("total",))


@dataclass(frozen=True, kw_only=True)
class CrossTable:
    """A question for a cross table; `figures` answers it."""

    release: Session
    columns: Sequence[str]  # All that the table displays, whatever part of it is asked for
    # By column; a column that lacks shows each of its values.
    slices: Mapping[str, Sequence[Slice]]
    where: Mapping[str, Limits]  # Limits of the whole table; a slice's own take their place
    measure: Measure = "count"
    of: str | None = None
    quantile: float = 0.5

    def figures(self, columns: Sequence[str], over: Sequence[str] | None = None) -> Tabulation:
        """Return the figures of all combinations, slice by slice; no key is repeated.

        over: Shares of the totals of these columns (ratios, where the measure is one); None: the figures
            themselves.
        """
        pieces: dict[tuple[Slice, ...], Tabulation] = {}

        def piece(parts: tuple[Slice, ...]) -> Tabulation:
            if parts not in pieces:
                pieces[parts] = self._piece(columns, parts)
            return pieces[parts]

        out, is_divided = [], False
        for parts in itertools.product(*(self.slices.get(c, (EACH,)) for c in columns)):
            if over is None:
                out.append(piece(parts))
                continue
            whole = tuple(p if c in over else TOTAL for c, p in zip(columns, parts, strict=True))
            is_plain = self.of is None and all(p.limits is None for p in parts)
            if is_plain and parts != whole:
                out.append(self._piece(columns, parts, over))
                continue
            is_divided |= not is_plain
            same = [j for j, c in enumerate(columns) if c in over]
            share = shares_of(piece(parts), piece(whole), same, is_part=not self._has_negative)
            if parts == whole:  # all of it, without noise
                share = replace(share, low=share.value, high=share.value)
            out.append(_ratios(share) if self.measure == "ratio" else share)
        return _joined(out, _OF_BOTH if is_divided else "")

    @cached_property
    def _has_negative(self) -> bool:
        """What is summed can be less than nothing: a part may exceed its total."""
        if self.of is None:
            return False
        return any(v is not None and v < 0 for v, *_ in self.release.values(self.of))

    def _piece(
        self, columns: Sequence[str], parts: tuple[Slice, ...], over: Sequence[str] | None = None
    ) -> Tabulation:
        """Tabulate one combination of slices."""
        named = list(zip(columns, parts, strict=True))
        free = [c for c, p in named if p.is_each]
        measure = self.measure if over is not None or self.measure != "ratio" else "count"
        table = tabulate(
            self.release,
            free,
            where={**self.where, **{c: p.limits for c, p in named if p.limits is not None}},
            measure="share" if over is not None and measure == "count" else measure,
            of=self.of,
            over=[c for c in free if c in (over or ())],
            quantile=self.quantile,
            beside=self.columns,
        )
        keys = []
        for key in table.keys:
            values = iter(key)
            keys.append(tuple(next(values) if p.is_each else p.key for p in parts))
        return replace(table, columns=tuple(columns), keys=tuple(keys))


def adding_up(figures: Tabulation) -> str:
    """Say why the parts of a table may not add up to their totals; nothing where they do, or cannot be added."""
    if figures.measure in ("count", "sum", "share") and "not released" in figures.status:
        return "Totals count what is not released, too: the parts shown may add up to less."
    return ""


def shares_of(
    part: Tabulation, whole: Tabulation, same: Sequence[int], *, is_part: bool
) -> Tabulation:
    """Return figures over their totals; the interval holds every share of figures inside both intervals.

    is_part: A figure is at most its total: not where some are negative. Then it has no interval where the
        total's reaches nothing.
    """
    row = {tuple(key[j] for j in same): i for i, key in enumerate(whole.keys)}
    at = np.array([row[tuple(key[j] for j in same)] for key in part.keys], dtype=np.int64)
    total, least, most = whole.value[at], whole.low[at], whole.high[at]
    is_total_known = _is_known(whole)[at] & (total > 0)
    is_known = _is_known(part) & is_total_known
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(is_known, part.value / total, np.nan)
        if is_part:
            lowest = np.maximum(part.low, 0)
            low = lowest / np.maximum(most, lowest)
            high = np.where(part.high <= 0, 0, np.minimum(part.high / np.maximum(least, 0), 1))
        else:
            ends = [a / b for a in (part.low, part.high) for b in (least, most)]
            low = np.where(least > 0, np.minimum.reduce(ends), np.nan)
            high = np.where(least > 0, np.maximum.reduce(ends), np.nan)
    low = np.where(is_known, np.minimum(low, value), low)
    high = np.where(is_known, np.maximum(high, value), high)
    status: tuple[Status, ...] = tuple(
        s if known or s == "structural zero" else "not released"
        for s, known in zip(part.status, is_known.tolist(), strict=True)
    )
    return replace(
        part,
        measure="share",
        value=value,
        low=np.where(is_total_known, low, np.nan),
        high=np.where(is_total_known, high, np.nan),
        status=status,
    )


def _is_known(table: Tabulation) -> BoolArray:
    return np.array([s != "not released" for s in table.status], dtype=np.bool_)


def _ratios(shares: Tabulation) -> Tabulation:
    """Shares as ratios to the rest of the same total; none where the rest is nothing."""

    def over_rest(share: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio: FloatArray = share / (1 - share)
        return ratio

    is_all = shares.value >= 1
    status: tuple[Status, ...] = tuple(
        "not released" if whole else s
        for s, whole in zip(shares.status, is_all.tolist(), strict=True)
    )
    return replace(
        shares,
        measure="ratio",
        value=np.where(is_all, np.nan, over_rest(shares.value)),
        low=over_rest(shares.low),
        high=over_rest(shares.high),
        status=status,
    )


def _joined(pieces: Sequence[Tabulation], more: str) -> Tabulation:
    """All pieces as one table; words and table of the widest that answered."""
    widest = max(pieces, key=lambda p: (len(p.table), p.table))
    return replace(
        widest,
        keys=tuple(key for p in pieces for key in p.keys),
        value=np.concatenate([p.value for p in pieces]),
        low=np.concatenate([p.low for p in pieces]),
        high=np.concatenate([p.high for p in pieces]),
        status=tuple(s for p in pieces for s in p.status),
        words=f"{widest.words} {more}".strip(),
    )
