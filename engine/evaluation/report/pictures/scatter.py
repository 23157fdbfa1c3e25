"""A picture of releases as points: what an analyst loses to the right, what an attacker gets upwards, with names.

Takes `Spot`s; gives SVG. Invariant: in a wide picture every point is named, each name once and clear of the others
where there is room.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.evaluation.compare.risks import LOSS
from engine.evaluation.report.pictures.drawing import (
    INK,
    canvas,
    compact,
    compact_axis,
    legend,
    short,
    svg_of,
)

_NAMED = 34
LETTER = 5.4
"""Pixels of a letter of a name, about."""
_LOG_FROM = 4
"""The scale of the loss is logarithmic where the largest is so many times the smallest."""
Box = tuple[float, float, float, float]
"""Left, lower, right and upper end, in pixels."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Spot:
    """A release, or several alike, in the picture."""

    name: str
    at: tuple[float, float]  # Loss and risk
    ink: tuple[str, str]  # Colour and mark
    is_own: bool  # It is the spec's own: lines cross there


def scattered(
    spots: Sequence[Spot],
    entries: Iterable[tuple[str, str, str]],
    *,
    title: str,
    is_wide: bool,
) -> str:
    """Draw spots, lines through the spec's own, and a legend; names beside them where the picture is wide."""
    width, height = (720, 420) if is_wide else (360, 300)
    sheet, (axes,) = canvas(height, left=54, right=18, top=30 if is_wide else 62, width=width)
    for spot in spots:
        (x, y), (colour, mark) = spot.at, spot.ink
        size = 11 if spot.is_own else 8
        axes.plot([x], [y], mark, color=INK[colour], markersize=size, alpha=0.9)
        if spot.is_own:
            axes.axvline(x, color=INK["rule"], linewidth=1)
            axes.axhline(y, color=INK["rule"], linewidth=1)
    axes.margins(x=0.16, y=0.12)
    losses = [spot.at[0] for spot in spots]
    if losses and min(losses) > 0 and max(losses) > _LOG_FROM * min(losses):
        _log_axis(axes)
    else:
        compact_axis(axes.xaxis)
    compact_axis(axes.yaxis)
    axes.set_xlabel(LOSS.title)
    if is_wide:
        _name_spots(axes, spots)
    listed = list(entries)
    legend(sheet, listed, n_columns=len(listed) if is_wide else 3)
    return svg_of(sheet, title)


def _log_axis(axes: Any) -> None:
    """Losses far apart: a scale on which small ones can be told from each other."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: compact(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _name_spots(axes: Any, spots: Sequence[Spot]) -> None:
    """Write the names beside the points in their order, each where no other name or point is."""
    frame = axes.get_window_extent()
    points = [tuple(axes.transData.transform(spot.at)) for spot in spots]
    taken: list[Box] = [(x - 6, y - 6, x + 6, y + 6) for x, y in points]
    for spot, (x, y) in zip(spots, points, strict=True):
        name = short(spot.name, _NAMED)
        wide = LETTER * len(name)
        offsets = [
            (right, up)
            for far in (0, 14, 28, 42)
            for up in ((-4 + far, -4 - far) if far else (-4,))
            for right in (10, -10 - wide)
        ]
        boxes = [(x + r, y + u, x + r + wide, y + u + 11) for r, u in offsets]
        free = [
            i
            for i, box in enumerate(boxes)
            if frame.x0 <= box[0] and box[2] <= frame.x1 and not any(meet(box, t) for t in taken)
        ]
        best = free[0] if free else 0
        taken.append(boxes[best])
        axes.annotate(
            name,
            spot.at,
            xytext=offsets[best],
            textcoords="offset points",
            fontsize=9.5,
            fontweight="bold" if spot.is_own else "normal",
            color=INK["ink" if spot.is_own else "quiet"],
        )


def meet(one: Box, other: Box) -> bool:
    """Whether two boxes overlap."""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
