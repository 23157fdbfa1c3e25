"""How pictures are drawn: small SVG, in colours that the page sets, so that one file is right by day and by night.

Gives `Picture`s and the canvas that they are drawn on; needs Matplotlib. Colours are stand-ins until the SVG is
written: each becomes a CSS variable of the page. Invariant: the same picture gives the same bytes.
"""

from __future__ import annotations

import html
import io
import re
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from engine.errors import StoreError

WIDTH = 360
"""Of a picture, in the page's pixels."""
INK = {
    "ink": "#0a0b01",
    "quiet": "#0a0b02",
    "rule": "#0a0b03",
    "original": "#0a0b04",
    "synthetic": "#0a0b05",
    "more": "#0a0b06",
    "less": "#0a0b07",
    "third": "#0a0b08",
    "fourth": "#0a0b09",
    "paper": "#0a0b0a",
}
"""Stand-ins of the page's colours by name; the page calls them --name."""
MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "h")
LONGEST = 24
"""Characters of a label in a picture."""


@contextmanager
def drawn_alike() -> Iterator[None]:
    """Set what all pictures share, for as long as the context is open."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise StoreError("reports need Matplotlib: pip install 'tablepack[evaluate]'") from None
    with mpl.rc_context(rc=mpl.rcParamsDefault), mpl.rc_context(_settings()):
        yield


def _settings() -> Any:
    """Settings of Matplotlib; its units are the page's pixels."""
    return {
        "svg.fonttype": "none",
        "text.parse_math": False,
        "axes.formatter.use_mathtext": False,
        "figure.dpi": 72,
        "font.size": 11,
        "axes.labelsize": 11,
        "axes.labelpad": 6,
        "xtick.labelsize": 10.5,
        "ytick.labelsize": 10.5,
        "legend.fontsize": 10.5,
        "text.color": INK["ink"],
        "xaxis.labellocation": "right",
        "axes.labelcolor": INK["quiet"],
        "xtick.color": INK["quiet"],
        "ytick.color": INK["quiet"],
        "axes.edgecolor": INK["rule"],
        "axes.linewidth": 1,
        "xtick.major.size": 0,
        "ytick.major.size": 0,
        "xtick.minor.size": 0,
        "ytick.minor.size": 0,
        "xtick.major.pad": 5,
        "ytick.major.pad": 6,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.spines.left": False,
        "grid.color": INK["rule"],
        "grid.linewidth": 0.8,
        "axes.axisbelow": True,
        "axes.facecolor": "none",
        "figure.facecolor": "none",
        "legend.frameon": False,
        "axes.unicode_minus": True,
    }


def canvas(
    height: float,
    *,
    left: float = 44,
    right: float = 12,
    top: float = 10,
    bottom: float = 38,
    width: float = WIDTH,
    n: int = 1,
    gap: float = 12,
) -> tuple[Any, list[Any]]:
    """Return a figure of a height, with `n` axes beside each other, all in pixels."""
    from matplotlib.figure import Figure as Sheet

    sheet = Sheet(figsize=(width / 72, height / 72), dpi=72)
    own = (width - left - right - (n - 1) * gap) / n
    axes = [
        sheet.add_axes(
            (
                (left + i * (own + gap)) / width,
                bottom / height,
                own / width,
                (height - top - bottom) / height,
            )
        )
        for i in range(n)
    ]
    return sheet, axes


def rows_canvas(
    labels: Sequence[str],
    *,
    top: float = 10,
    bottom: float = 38,
    step: float = 19,
    width: float = WIDTH,
    right: float = 16,
) -> tuple[Any, Any]:
    """Return a figure and axes with one labelled row an entry, the first on top."""
    left = min(14 + 6.3 * max(map(len, labels), default=0), 0.48 * width)
    height = top + bottom + step * max(len(labels), 2)
    sheet, (axes,) = canvas(height, left=left, right=right, top=top, bottom=bottom, width=width)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(max(len(labels), 2) - 0.4, -0.6)
    axes.grid(axis="x")
    axes.spines["bottom"].set_visible(False)
    return sheet, axes


def legend(
    sheet: Any, entries: Iterable[tuple[str, str, str]], *, n_columns: int | None = None
) -> None:
    """Write a legend on top, by default in one line: entries (words, colour, mark).

    A mark is one of Matplotlib's, or "-" for a line.
    """
    from matplotlib.lines import Line2D

    width, height = sheet.get_size_inches() * 72
    handles = [
        Line2D(
            [],
            [],
            color=INK[colour],
            label=words,
            marker="" if mark == "-" else mark,
            linestyle="-" if mark == "-" else "none",
            markersize=7,
            linewidth=2,
        )
        for words, colour, mark in entries
    ]
    sheet.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(8 / width, 1 - 1 / height),
        ncols=n_columns or len(handles),
        borderpad=0,
        borderaxespad=0,
        handletextpad=0.45,
        columnspacing=1.2,
        handlelength=1.2,
    )


def svg_of(sheet: Any, title: str) -> str:
    """Return a figure as an SVG element with its title; identifiers are its own within a page.

    title: Also makes identifiers: two pictures of a page need two titles, or the same content.
    """
    import matplotlib as mpl

    file = io.StringIO()
    with warnings.catch_warnings(), mpl.rc_context({"svg.hashsalt": title}):
        # Letters that the font lacks are drawn by the reader's own.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support")
        sheet.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    drawn = file.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    drawn = re.sub(r"<metadata>.*?</metadata>\s*", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r"<!--.*?-->\s*", "", drawn, flags=re.DOTALL)
    drawn = re.sub(
        r'<g id="[^"]*"', "<g", drawn
    )  # the same in every picture, and never referred to
    drawn = re.sub(r' (?:d|x|y|transform|points)="[^"]*"', _rounded, drawn)
    box = re.search(r'viewBox="([^"]*)"', drawn)
    inner = drawn[drawn.index(">") + 1 :]
    for name, stand_in in INK.items():
        inner = inner.replace(stand_in, f"var(--{name})")
    escaped = html.escape(plain(title), quote=True)
    size = box.group(1) if box else f"0 0 {WIDTH} {WIDTH}"
    return (
        f'<svg viewBox="{size}" role="img" aria-label="{escaped}" style="max-width:'
        f'{float(size.split()[2]):.0f}px"><title>{escaped}</title>{inner.strip()}'
    )


def _rounded(attribute: re.Match[str]) -> str:
    """Coordinates to a tenth of a pixel: nobody sees more, and the file is a third smaller."""
    return re.sub(r"(\d\.\d)\d+", r"\1", attribute.group())


def plain(text: object) -> str:
    """Return a text without control characters, line breaks and marks of direction: they have no place in a label."""
    return "".join(
        " " if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") else c
        for c in str(text)
    )


def short(text: object, most: int = LONGEST) -> str:
    """Return a text as a label: plain, and cut where it is long."""
    whole = plain(text)
    return whole if len(whole) <= most else whole[: most - 1].rstrip() + "…"


def end_ticks(axes: Any, at: Sequence[Any], labels: Sequence[str]) -> None:
    """Write few ticks of which the first and the last stay inside the picture."""
    axes.set_xticks(at, labels)
    texts = axes.get_xticklabels()
    texts[0].set_horizontalalignment("left")
    texts[-1].set_horizontalalignment("right" if len(texts) > 1 else "left")


def compact(value: float) -> str:
    """Return a number as briefly as an axis wants it: 1.2k, 30M, 0.004."""
    size = abs(value)
    for bound, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size >= bound:
            return f"{value / bound:.3g}{unit}".replace("-", "−")
    return f"{value:.3g}".replace("-", "−")


def compact_axis(axis: Any) -> None:
    """Write an axis's numbers briefly."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: compact(value)))
