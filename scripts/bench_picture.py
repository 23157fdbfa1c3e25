"""The picture of a benchmark: seconds against rows, tables and columns, and the floor. A small SVG, made by hand.

Takes the lines of `bench_series.py` as plain values; gives the text of the SVG. Both axes are logarithmic.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import ceil, floor, log10
from typing import Any

PANELS = (
    ("rows", "rows", "Rows (72 tables of up to 3 columns)"),
    ("tables", "tables", "Tables (of up to 3 columns)"),
    ("columns", "columns", "Columns (each and every pair)"),
)
WIDTH, HEIGHT, GAP = 250, 190, 60
LEFT, TOP, BOTTOM = 58, 46, 52
BUILD, FLOOR, INK, FAINT = "#1f6f8b", "#b8772c", "#333333", "#dddddd"
ENGINES = {"duckdb": BUILD, "spark": FLOOR}
STYLE = "font-family: system-ui, sans-serif; font-size: 11px"


def draw(lines: Sequence[dict[str, Any]]) -> str:
    """The picture of all series that have lines; a panel each."""
    panels = [
        (key, title, own)
        for series, key, title in PANELS
        if (own := sorted((x for x in lines if x["series"] == series), key=lambda x: x[key]))
    ]
    seconds = [
        x[name] for _, _, own in panels for x in own for name in ("seconds", "floor_seconds")
    ]
    low, high = _decades(seconds)
    width = LEFT + len(panels) * (WIDTH + GAP)
    height = TOP + HEIGHT + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" style="{STYLE}">',
        "<title>Seconds of a build, and of the plain GROUP BYs</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        *_legend(lines),
    ]
    for place, (key, title, own) in enumerate(panels):
        parts += _panel(LEFT + place * (WIDTH + GAP), key, title, own, low, high)
    return "\n".join([*parts, "</svg>", ""])


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """Powers of ten that hold all values."""
    if not values:
        return 0, 1
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    return low, max(high, low + 1)


def _legend(lines: Sequence[dict[str, Any]]) -> list[str]:
    """What the lines mean, and NIST's tables in a sentence."""
    parts = [
        f'<circle cx="{LEFT + 4}" cy="14" r="4" fill="{BUILD}"/>',
        _text(LEFT + 12, 18, "build, spec to finished file, with its peak memory"),
        f'<circle cx="{LEFT + 304}" cy="14" r="4" fill="{FLOOR}"/>',
        _text(LEFT + 312, 18, "floor: plain DuckDB GROUP BYs of the same column sets"),
    ]
    for line in lines:
        if line["series"] == "nist":
            told = (
                f"NIST: {line['tables']} tables in {line['seconds']:.1f} s, "
                f"{line['ratio']:.1f} times the floor"
            )
            parts.append(_text(LEFT + 640, 18, told))
    return parts


def _panel(
    left: int, key: str, title: str, own: Sequence[dict[str, Any]], low: int, high: int
) -> list[str]:
    """One series: grid, axes, two lines."""
    first, last = log10(own[0][key]), log10(own[-1][key])
    spread = (last - first) or 1.0

    def across(value: float) -> float:
        return left + 30 + (log10(value) - first) / spread * (WIDTH - 56)

    def down(value: float) -> float:
        return TOP + HEIGHT * (high - log10(value)) / (high - low)

    parts = []
    for power in range(low, high + 1):
        y = down(10.0**power)
        parts.append(
            f'<line x1="{left}" x2="{left + WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="{FAINT}"/>'
        )
        parts.append(_text(left - 6, y + 4, f"{10.0**power:g} s", anchor="end"))
    for line in own:
        x = across(line[key])
        parts.append(_text(x, TOP + HEIGHT + 16, _short(line[key]), anchor="middle"))
    parts.append(_text(left + WIDTH / 2, TOP + HEIGHT + 36, title, anchor="middle"))
    for name, colour in (("floor_seconds", FLOOR), ("seconds", BUILD)):
        dots = [(across(line[key]), down(line[name])) for line in own]
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in dots)
        parts.append(
            f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in dots]
    for line in own if key == "rows" else ():
        told = f"{line['peak_bytes'] / 1e9:.2f} GB"
        parts.append(_text(across(line[key]), down(line["seconds"]) - 9, told, anchor="middle"))
    return parts


def _short(value: int) -> str:
    """27253 as 27 k, 1000000 as 1 M."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if value >= size:
            return (
                f"{value / size:.3g} {letter}" if value < 10 * size else f"{value // size} {letter}"
            )
    return str(value)


def _text(x: float, y: float, words: str, *, anchor: str = "start") -> str:
    """Words at a place."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{INK}">{escape(words)}</text>'
    )


def draw_steps(found: Sequence[dict[str, Any]], revision: str | None) -> str:
    """The share of each step of each build as bars, and seconds then and now in words.

    Parameters
    ----------
    found : sequence of dict
        Of each build its `name` and seconds by step (`steps`); with `then_seconds` and `now_seconds`, if compared.
    revision : str or None
        What it was compared with.
    """
    row, left, bar = 18, 190, 300
    steps = list(found[0]["steps"]) if found else []
    height_of_one = 46 + row * len(steps) + 24
    width, height = left + bar + 120, max(height_of_one * len(found), 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" style="{STYLE}">',
        "<title>Share of each step of a build</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for place, one in enumerate(found):
        top, total = place * height_of_one, sum(one["steps"].values()) or 1.0
        told = f"{one['name']}: {total:.1f} s of one core"
        if "then_seconds" in one:
            told += (
                f"; in all {one['now_seconds']:.1f} s, {one['then_seconds']:.1f} s at {revision}"
            )
        parts.append(_text(8, top + 24, told))
        most = max(one["steps"].values()) or 1.0
        for at, step in enumerate(steps):
            seconds, y = one["steps"][step], top + 46 + row * at
            length = bar * seconds / most
            parts.append(_text(left - 8, y + 4, step, anchor="end"))
            parts.append(
                f'<rect x="{left}" y="{y - 6}" width="{length:.1f}" height="12" fill="{BUILD}"/>'
            )
            parts.append(_text(left + length + 6, y + 4, f"{seconds / total:.0%}, {seconds:.2f} s"))
    return "\n".join([*parts, "</svg>", ""])


def draw_scale(runs: Sequence[dict[str, Any]]) -> str:
    """Seconds, memory and disk of builds by each engine against rows, a panel each.

    Parameters
    ----------
    runs : sequence of dict
        Of each build its `engine`, `rows`, `seconds`, `peak_bytes` and `disk_bytes`.
    """
    panels = (
        ("seconds", 1.0, "s", "Seconds, spec to finished file"),
        ("peak_bytes", 1e9, "GB", "Peak memory of all processes"),
        ("disk_bytes", 1e9, "GB", "Most on disk in scratch"),
    )
    width, height = LEFT + len(panels) * (WIDTH + GAP), TOP + HEIGHT + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" style="{STYLE}">',
        "<title>A build by DuckDB and by Spark against rows</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for place, (engine, colour) in enumerate(ENGINES.items()):
        x = LEFT + 4 + 160 * place
        parts.append(f'<circle cx="{x}" cy="14" r="4" fill="{colour}"/>')
        parts.append(_text(x + 8, 18, engine))
    for place, (name, unit, spelled, title) in enumerate(panels):
        parts += _scale_panel(LEFT + place * (WIDTH + GAP), runs, name, unit, spelled, title)
    return "\n".join([*parts, "</svg>", ""])


def _scale_panel(
    left: int, runs: Sequence[dict[str, Any]], name: str, unit: float, spelled: str, title: str
) -> list[str]:
    """One measure: grid, axes, a line an engine; what is 0 has no point."""
    seen = [(r["engine"], log10(r["rows"]), r[name] / unit) for r in runs if r[name] > 0]
    low, high = _decades([value for *_, value in seen])
    rows = sorted({r["rows"] for r in runs})
    first, spread = log10(rows[0]), (log10(rows[-1]) - log10(rows[0])) or 1.0

    def across(power: float) -> float:
        return left + 30 + (power - first) / spread * (WIDTH - 56)

    def down(value: float) -> float:
        return TOP + HEIGHT * (high - log10(value)) / (high - low)

    parts = []
    for power in range(low, high + 1):
        y = down(10.0**power)
        parts.append(
            f'<line x1="{left}" x2="{left + WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="{FAINT}"/>'
        )
        parts.append(_text(left - 6, y + 4, f"{10.0**power:g} {spelled}", anchor="end"))
    for n in rows:
        parts.append(_text(across(log10(n)), TOP + HEIGHT + 16, _short(n), anchor="middle"))
    parts.append(_text(left + WIDTH / 2, TOP + HEIGHT + 36, title, anchor="middle"))
    for engine, colour in ENGINES.items():
        dots = sorted((across(x), down(value)) for of, x, value in seen if of == engine)
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in dots)
        parts.append(
            f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in dots]
    return parts
