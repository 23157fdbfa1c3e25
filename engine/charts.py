"""Charts as small SVG in colours that the page sets, so that one file is right by day and by night.

Of packs and of evaluation reports. A `Chart` has two scales and a legend; its methods add marks in data coordinates;
`svg` gives the element. Colours are names of the page's CSS variables, set as attributes: a page may forbid inline
styles. Invariant: all text is escaped; the same calls give the same bytes.
"""

from __future__ import annotations

import html
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.texts import plain

WIDTH, WIDE = 360, 540
LONGEST = 24
"""Characters of a label in a chart."""
INKS = ("synthetic", "more", "third", "fourth", "less", "original")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "h")
_SIZE = 10.5  # Of the font
_LETTER = 0.56 * _SIZE
"""Width of a letter, about."""
_RIGHT, _BOTTOM = 16, 40
"""Margins of a chart beside its frame."""
_CORNERS: dict[str, tuple[tuple[float, float], ...]] = {
    "s": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    "D": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    "^": ((0, -1.2), (1.2, 1), (-1.2, 1)),
    "v": ((0, 1.2), (1.2, -1), (-1.2, -1)),
    "<": ((-1.2, 0), (1, -1.2), (1, 1.2)),
    ">": ((1.2, 0), (-1, -1.2), (-1, 1.2)),
    "h": ((0, -1.2), (1, -0.6), (1, 0.6), (0, 1.2), (-1, 0.6), (-1, -0.6)),
    "P": ((-.4, -1.2), (.4, -1.2), (.4, -.4), (1.2, -.4), (1.2, .4), (.4, .4), (.4, 1.2), (-.4, 1.2), (-.4, .4),
          (-1.2, .4), (-1.2, -.4), (-.4, -.4)),
    "X": ((-1.2, -.7), (-.7, -1.2), (0, -.5), (.7, -1.2), (1.2, -.7), (.5, 0), (1.2, .7), (.7, 1.2), (0, .5),
          (-.7, 1.2), (-1.2, .7), (-.5, 0)),
}  # fmt: skip
Floats = NDArray[np.float64]
Box = tuple[float, float, float, float]
"""Left, upper, right and lower end, in pixels."""


def short(text: object, most: int = LONGEST) -> str:
    whole = plain(text)
    return whole if len(whole) <= most else whole[: most - 1].rstrip() + "…"


def compact(value: float) -> str:
    """Return a number as briefly as an axis wants it: 1.2k, 30M, 0.004."""
    size = abs(value)
    for bound, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size >= bound:
            return f"{value / bound:.3g}{unit}".replace("-", "−")
    return f"{value:.3g}".replace("-", "−")


def percent(share: float) -> str:
    """Return a share with two digits, as a percentage."""
    return f"{100 * share:.2g} %" if abs(share) < 0.995 else f"{100 * share:.0f} %"


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """One axis: its range, its ticks (by default round numbers) and its name."""

    low: float
    high: float
    is_log: bool = False
    ticks: Sequence[tuple[float, str]] | None = None
    name: str = ""
    has_grid: bool = False

    def share(self, values: Any) -> Floats:
        low, high, at = self.low, self.high, np.asarray(values, np.float64)
        if self.is_log:
            low, high, at = math.log10(low), math.log10(high), np.log10(at)
        return np.asarray((at - low) / ((high - low) or 1.0), np.float64)

    def labelled(self) -> Sequence[tuple[float, str]]:
        return [(at, compact(at)) for at in self._round()] if self.ticks is None else self.ticks

    def _round(self) -> list[float]:
        """At most six round numbers of the range; powers of ten, or thrice as many, of a logarithmic one."""
        if self.is_log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            for steps in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 5, 7)):
                found = [s * 10.0**p for p in powers for s in steps]
                found = [v for v in found if self.low <= v <= self.high]
                if len(found) > 1:
                    return found[:: -(-len(found) // 7)]
        step = 10.0 ** math.floor(math.log10((self.high - self.low) / 5 or 1.0))
        step *= next(k for k in (1, 2, 2.5, 5, 10) if (self.high - self.low) / (k * step) <= 5.5)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [k * step for k in range(first, last + 1)]


def scale(
    values: Any,
    *,
    name: str = "",
    zero: bool = False,
    room: float = 0.0,
    log_from: float = math.inf,
) -> Scale:
    """Return an axis for values.

    zero: It begins, or ends, at zero. room: Share of the range that is left free at each end.
    log_from: It is logarithmic where the largest value is so many times the smallest, and all are above zero.
    """
    at = np.asarray(values, np.float64).ravel()
    at = at[np.isfinite(at)]
    low, high = (float(at.min()), float(at.max())) if len(at) else (0.0, 1.0)
    if low > 0 and high > log_from * low:
        spread = (high / low) ** room
        return Scale(low=low / spread, high=high * spread, is_log=True, name=name, has_grid=True)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    free = (high - low) * room or (abs(high) * 0.1 or 1.0) * (high == low)
    return Scale(low=low - free * (not zero or low < 0), high=high + free, name=name, has_grid=True)


Entry = tuple[str, str, str]
"""Words, colour and mark of an entry of a legend; the mark "-" is a line."""


@dataclass
class Chart:
    title: str
    x: Scale
    y: Scale
    width: float = WIDTH
    height: float = 240  # Without the lines of the legend
    left: float = 48
    legend: Sequence[Entry] = ()
    parts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Lay out frame, axes and legend, which makes the chart higher by its lines."""
        top = 10 + self._legend()
        self.height += top - 10
        self.frame: Box = (self.left, top, self.width - _RIGHT, self.height - _BOTTOM)
        self._axes()

    # --- layout

    def _legend(self) -> float:
        """Write entries one after the other in as many lines as they need; their height."""
        at, line = 8.0, 0
        for words, ink, mark in self.legend:
            wide = 30 + _LETTER * len(words)
            if at > 8 and at + wide > self.width:
                at, line = 8.0, line + 1
            y = 8.0 + 17 * line
            if mark == "-":
                self._path(f"M{at:.1f} {y:.1f}h12", ink, stroke=2)
            else:
                self._path(_mark(at + 6, y, mark, 4), ink)
            self._text(at + 17, y + 3.5, words)
            at += wide
        return 17.0 * (line + 1) if self.legend else 0.0

    def _axes(self) -> None:
        left, top, right, bottom = self.frame
        for at, label in self.x.labelled():
            px = float(self.px([at])[0])
            if self.x.has_grid:
                self._path(f"M{px:.1f} {top:.1f}V{bottom:.1f}", "rule", stroke=0.8)
            self._text(px, bottom + 15, label, ink="quiet", anchor="middle")
        for at, label in self.y.labelled():
            py = float(self.py([at])[0])
            if self.y.has_grid:
                self._path(f"M{left:.1f} {py:.1f}H{right:.1f}", "rule", stroke=0.8)
            self._text(left - 6, py + 3.5, label, ink="quiet", anchor="end")
        if not self.x.has_grid:
            self._path(f"M{left:.1f} {bottom:.1f}H{right:.1f}", "rule", stroke=1)
        if self.x.name:
            self._text(right, bottom + 31, self.x.name, ink="quiet", anchor="end")
        if self.y.name:
            at = (top + bottom) / 2
            turned = f' transform="rotate(-90 12.0 {at:.1f})"'
            self._text(12, at, self.y.name, ink="quiet", anchor="middle", more=turned)

    def px(self, values: Any) -> Floats:
        return np.asarray(self.frame[0] + self.x.share(values) * (self.frame[2] - self.frame[0]))

    def py(self, values: Any) -> Floats:
        return np.asarray(self.frame[3] - self.y.share(values) * (self.frame[3] - self.frame[1]))

    def _points(self, x: Any, y: Any) -> list[tuple[float, float]]:
        """Points in pixels, without those that are no numbers."""
        return [(a, b) for a, b in zip(self.px(x), self.py(y), strict=True) if np.isfinite(a + b)]

    # --- marks; `look` is `stroke`, the width of a line, `alpha`, or `dash`

    def marks(self, x: Any, y: Any, ink: str, mark: str = "o", size: float = 3.5) -> None:
        self._path("".join(_mark(a, b, mark, size) for a, b in self._points(x, y)), ink, alpha=0.9)

    def dots(self, x: Any, y: Any, ink: str) -> None:
        """Draw many points as round strokes of one path: few bytes each."""
        d = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in self._points(x, y))
        self._path(d, ink, stroke=4, alpha=0.55, more=' stroke-linecap="round"')

    def line(self, x: Any, y: Any, ink: str, stroke: float = 1.8) -> None:
        points = " ".join(f"{a:.1f} {b:.1f}" for a, b in self._points(x, y))
        self._path(f"M{points}", ink, stroke=stroke)

    def segments(self, begin: tuple[Any, Any], end: tuple[Any, Any], ink: str, **look: Any) -> None:
        """Draw lines from points (x, y) to points; those with an end that is no number are left out."""
        ends = zip(
            *(f(v) for side in (begin, end) for f, v in zip((self.px, self.py), side, strict=True)),
            strict=True,
        )
        d = "".join(
            f"M{a:.1f} {b:.1f}L{c:.1f} {e:.1f}" for a, b, c, e in ends if np.isfinite(a + b + c + e)
        )
        self._path(d, ink, **{"stroke": 2.4, **look})

    def across(self, y: float, ink: str, **look: Any) -> None:
        """Draw a line over the whole width."""
        self.segments(([self.x.low], [y]), ([self.x.high], [y]), ink, **{"stroke": 1, **look})

    def down(self, x: float, ink: str, **look: Any) -> None:
        """Draw a line over the whole height."""
        self.segments(([x], [self.y.low]), ([x], [self.y.high]), ink, **{"stroke": 1, **look})

    def boxes(self, x0: Any, y0: Any, x1: Any, y1: Any, ink: str, alpha: float = 1) -> None:
        """Fill rectangles, those beyond the frame cut off there."""
        left, top, right, bottom = self.frame
        xs = [np.clip(self.px(v), left, right) for v in (x0, x1)]
        ys = [np.clip(self.py(v), top, bottom) for v in (y0, y1)]
        d = "".join(
            f"M{a:.1f} {b:.1f}H{c:.1f}V{e:.1f}H{a:.1f}Z"
            for a, b, c, e in zip(xs[0], ys[0], xs[1], ys[1], strict=True)
            if np.isfinite(a + b + c + e) and round(a, 1) != round(c, 1)
        )
        self._path(d, ink, alpha=alpha)

    def area(self, x: Any, low: Any, high: Any, ink: str, alpha: float = 0.3) -> None:
        """Fill what lies between two lines."""
        there = np.concatenate([self.px(x), self.px(x)[::-1]])
        back = np.concatenate([self.py(high), self.py(low)[::-1]])
        points = " ".join(f"{a:.1f} {b:.1f}" for a, b in zip(there, back, strict=True))
        self._path(f"M{points}Z", ink, alpha=alpha)

    def name(self, names: Sequence[str], x: Any, y: Any, bold: Sequence[bool]) -> None:
        """Write names beside points in their order, each where no other name or point is, while there is room."""
        points = list(zip(self.px(x), self.py(y), strict=True))
        taken: list[Box] = [(a - 6, b - 6, a + 6, b + 6) for a, b in points]

        def is_free(box: Box) -> bool:
            return (
                self.frame[0] <= box[0]
                and box[2] <= self.frame[2]
                and not any(
                    box[0] < t[2] and t[0] < box[2] and box[1] < t[3] and t[1] < box[3]
                    for t in taken
                )
            )

        for text, (a, b), is_bold in zip(names, points, bold, strict=True):
            wide = _LETTER * len(text)
            boxes = [
                (a + side, b + up - 5, a + side + wide, b + up + 6)
                for far in (0, 14, 28, 42)
                for up in ((-far, far) if far else (0,))
                for side in (10, -10 - wide)
            ]
            box = next(filter(is_free, boxes), boxes[0])
            taken.append(box)
            ink = "ink" if is_bold else "quiet"
            self._text(box[0], box[3] - 2, text, ink=ink, more=' font-weight="bold"' * is_bold)

    def write(self, texts: Sequence[str], x: Any, y: Any) -> None:
        """Write a text to the right of each point."""
        for text, a, b in zip(texts, self.px(x), self.py(y), strict=True):
            if np.isfinite(a):
                self._text(a + 6, b + 3.5, text)

    # --- SVG

    def _path(
        self,
        d: str,
        ink: str,
        *,
        stroke: float = 0,
        alpha: float = 1,
        dash: str = "",
        more: str = "",
    ) -> None:
        if not d:
            return
        colour = f'fill="none" stroke="var(--{ink})"' if stroke else f'fill="var(--{ink})"'
        look = f' stroke-width="{stroke:g}"' if stroke else ""
        look += f' stroke-dasharray="{dash}"' if dash else ""
        look += f' opacity="{alpha:.3g}"' if alpha != 1 else ""
        self.parts.append(f'<path {colour} d="{d}"{look}{more}/>')

    def _text(
        self,
        x: float,
        y: float,
        text: object,
        *,
        ink: str = "ink",
        anchor: str = "start",
        more: str = "",
    ) -> None:
        """Add a text, moved inwards where it would run over a side."""
        shown = plain(text)
        wide = sum(1.7 if unicodedata.east_asian_width(c) in "WF" else 1.0 for c in shown)
        room = _LETTER * wide
        if anchor == "middle" and not more:
            x = min(max(x, room / 2), self.width - room / 2)
        elif anchor == "end" and room > x:
            more += f' textLength="{x:.1f}" lengthAdjust="spacingAndGlyphs"'
        elif anchor == "start" and x + room > self.width:
            more += f' textLength="{self.width - x:.1f}" lengthAdjust="spacingAndGlyphs"'
        self.parts.append(
            f'<text fill="var(--{ink})" x="{x:.1f}" y="{y:.1f}" font-size="{_SIZE:g}" '
            f'text-anchor="{anchor}"{more}>{html.escape(shown)}</text>'
        )

    def svg(self) -> str:
        """Return the element with its title, which is also its text alternative."""
        title = html.escape(plain(self.title), quote=True)
        return (
            f'<svg viewBox="0 0 {self.width:g} {self.height:g}" width="{self.width:g}" direction="ltr" role="img" '
            f'aria-label="{title}"><title>{title}</title>{"".join(self.parts)}</svg>'
        )


def rows(
    title: str,
    labels: Sequence[str],
    x: Scale,
    *,
    at: Sequence[float] | None = None,
    step: float = 19,
    width: float = WIDTH,
    legend: Sequence[Entry] = (),
) -> Chart:
    """Return a chart with a labelled row an entry, the first on top; by default they are at 0, -1, ..."""
    places = [-float(i) for i in range(len(labels))] if at is None else at
    n = max(1 - min(places, default=0), 2)
    left = min(14 + 6.3 * max(map(len, labels), default=0), 0.48 * width)
    ticks = [(place, label) for place, label in zip(places, labels, strict=True) if label]
    y = Scale(low=0.4 - n, high=0.6, ticks=ticks)
    return Chart(title, x, y, width=width, height=50 + step * n, left=left, legend=legend)


def _mark(x: float, y: float, mark: str, size: float) -> str:
    if mark == "o":
        d = 2 * size
        return f"M{x - size:.1f} {y:.1f}a{size:g} {size:g} 0 1 0 {d:g} 0a{size:g} {size:g} 0 1 0 -{d:g} 0"
    corners = " ".join(f"{x + size * a:.1f} {y + size * b:.1f}" for a, b in _CORNERS[mark])
    return f"M{corners}Z"
