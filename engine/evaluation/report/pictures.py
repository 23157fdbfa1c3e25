"""Pictures of a report, in their groups, those that a decision rests on; and the largest distortions in words.

Takes a `Result` or what was made of it; gives `Picture`s, `Use`s and `Distortion`s. CONFIDENTIAL: the original is in
them. Invariants: a picture that cannot be drawn says why in its place; distortions are ranked by one size, the share of
the whole that is off, and each names what is shown and what is true.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from itertools import islice, pairwise
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.charts import (
    INKS,
    MARKS,
    WIDE,
    Chart,
    Scale,
    compact,
    percent,
    rows,
    scale,
    short,
)
from engine.evaluation.data.aligned import counts, covering
from engine.evaluation.findings import STRONG, TITLES, WHOLE, Rate
from engine.evaluation.report.verdicts import Improvement, Line, Verdict, cell
from engine.evaluation.runner import Evaluation, Result

TEXTS = tomllib.loads(files("engine.evaluation.report").joinpath("report.toml").read_text("utf-8"))
WORDS, DISTORTED = TEXTS["words"], TEXTS["distortions"]
MOST_COLUMNS = 12
"""Columns whose counts are drawn."""
MOST_VALUES = 16
"""Values of a column that get a row each; more are drawn side by side without names."""
MOST_CORRELATED, MOST_ROWS = 30, 24
MOST_TABLES, MOST_POINTS = 120, 1_500
BOTH = (("original", "original", "s"), ("synthetic", "synthetic", "s"))
DASH = "3 3"
PERCENT = tuple((p / 100, f"{p} %" if p else "0") for p in (0, 25, 50, 75, 100))
SHARE = Scale(low=-0.02, high=1.02, ticks=PERCENT, has_grid=True)


class NothingToDraw(Exception):
    """A picture's data are not there; says why. Never leaves this module."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    """A picture, or why there is none."""

    title: str
    words: str = ""  # What is seen, and how to read it
    svg: str = ""  # Empty where there is none
    table: pd.DataFrame = field(default_factory=pd.DataFrame)  # The figures behind it
    why_not: str = ""
    is_wide: bool = False  # It wants more room than a column of the page

    @classmethod
    def of(
        cls, chart: Chart, words: str, table: pd.DataFrame | None = None, **more: Any
    ) -> Picture:
        behind = pd.DataFrame() if table is None else table
        return cls(title=chart.title, words=words, svg=chart.svg(), table=behind, **more)


class Group(NamedTuple):
    title: str
    words: str
    pictures: Sequence[Picture]


@dataclass(frozen=True, kw_only=True, slots=True)
class Names:
    """Labels of columns and values; what has none is shown as it is."""

    labels: Mapping[str, str]
    value_labels: Mapping[str, Mapping[str, str]]  # Column -> value as text -> label

    @classmethod
    def of(cls, evaluation: Evaluation) -> Names:
        return cls(labels=evaluation.labels, value_labels=evaluation.value_labels)

    def column(self, name: str) -> str:
        label = self.labels.get(name, "")
        return f"{name}: {label}" if label and label != name else name

    def value(self, column: str, value: object) -> str:
        label = self.value_labels.get(column, {}).get(str(value), "")
        return f"{value} {label}" if label and label != str(value) else str(value)


def breakdown(result: Result, measure: str, columns: Sequence[str]) -> pd.DataFrame:
    score = result.scores.get(measure)
    return _needed(None if score is None else score.breakdown, columns)


def _needed(frame: pd.DataFrame | None, columns: Sequence[str]) -> pd.DataFrame:
    if frame is None or not set(columns) <= set(frame.columns):
        raise NothingToDraw("the measure gives no figures to draw it from")
    if frame.empty:
        raise NothingToDraw("there are no figures to draw it from")
    return frame


def numbers(column: Any) -> NDArray[np.float64]:
    return np.asarray(pd.to_numeric(column, errors="coerce"), np.float64)


# --- single columns


def misplaced_by_column(frame: pd.DataFrame) -> pd.Series:
    """Return the share of rows that would have to move, by column of a breakdown of `univariate`, the worst first."""
    off = (frame["synthetic"] - frame["original"]).abs().groupby(frame["column"]).sum()
    share = off / frame.groupby("column")["original"].sum().clip(lower=1) / 2
    return share.sort_values(ascending=False, kind="stable")


def univariate_bars(result: Result, names: Names) -> Iterable[Picture]:
    """Counts of the columns that are furthest off, original beside synthetic."""
    frame = breakdown(result, "univariate", ["column", "label", "original", "synthetic"])
    worst = misplaced_by_column(frame).iloc[:MOST_COLUMNS]
    return (
        _one_column(names, str(column), frame[frame["column"] == column], share)
        for column, share in worst.items()
    )


def _one_column(names: Names, column: str, frame: pd.DataFrame, share: float) -> Picture:
    """Bars of few values; of many the original as an area and the synthetic as a line over it, in their order."""
    table = frame[["original", "synthetic"]].reset_index(drop=True)
    table.insert(0, "value", [short(names.value(column, label)) for label in frame["label"]])
    title, n = f"{names.column(column)}: counts", len(table)
    at, zeros = np.arange(n), np.zeros(n)
    counted = scale(table[["original", "synthetic"]], zero=True, name="rows")
    if n <= MOST_VALUES:
        chart = rows(title, list(table["value"]), counted, step=24, legend=BOTH)
        for side, shift in (("original", 0.37), ("synthetic", -0.01)):
            chart.boxes(zeros, shift - at, table[side], shift - at - 0.36, side)
    else:
        ends = [(i, short(table["value"].iloc[i], 22)) for i in (0, n - 1)]
        x = Scale(low=-0.5, high=n - 0.5, ticks=ends, name=f"{n:,} values in their order")
        entries = (BOTH[0], ("synthetic", "synthetic", "-"))
        chart = Chart(title, x, counted, height=220, left=58, legend=entries)
        chart.boxes(at - 0.5, zeros, at + 0.5, table["original"], "original", alpha=0.55)
        edges = np.repeat(np.arange(n + 1) - 0.5, 2)[1:-1]
        chart.line(edges, np.repeat(table["synthetic"], 2), "synthetic", stroke=1.4)
    words = f"{share:.2%} of the rows would have to move for the two to be equal."
    return replace(Picture.of(chart, words, table), title=names.column(column))


def noise_against_count(result: Result, _: Names) -> list[Picture]:
    """How far released counts are off, against the counts themselves."""
    pictures, aligned = [], result.aligned
    for width in (1, 2):
        # Counts of the tables of a width; for one wide table those of its columns, or of some pairs.
        sets: Sequence[Sequence[str]] = [c for c in aligned.tables if len(c) == width]
        if not sets:
            names = sorted(c for c in aligned.values if covering(aligned, [c]))
            sets = [(c,) for c in names] if width == 1 else list(pairwise(names))
        parts = []
        for columns in sets[:MOST_TABLES]:
            if (table := covering(aligned, columns)) is not None:
                both = counts(aligned, aligned.original, table, columns)
                parts.append(pd.DataFrame({"original": both.left, "off": both.right - both.left}))
        frame = _needed(pd.concat(parts, ignore_index=True) if parts else None, ["original", "off"])
        # The noise that the cards state
        noise = [
            float(card["noise_sd"])
            for columns, card in result.subject.cards.items()
            if len(columns) == width and "noise_sd" in card and not card.get("wide")
        ]
        sd, off = float(np.median(noise)) if noise else 0.0, numbers(frame["off"])
        title = f"Counts of {width} column{'s' if width > 1 else ''}: error against count"
        stated = WORDS["stated"].format(sd=sd) if sd else ""
        # Few enough points to draw, from all sizes: every so many in order of size, and the furthest off.
        by_size = frame.sort_values(["original", "off"], kind="stable")
        furthest = np.argsort(-by_size["off"].abs().to_numpy(), kind="stable")[:60]
        every = by_size.iloc[:: max(len(by_size) // MOST_POINTS, 1)]
        few = pd.concat([every, by_size.iloc[furthest]])
        log = np.log10(numbers(few["original"]) + 1)
        top, name = float(log.max()), "count in the original (log scale)"
        ticks = [(e, compact(10**e if e else 0)) for e in range(int(top) + 1)]
        x = Scale(low=-0.1, high=max(1.03 * top, 1), ticks=ticks, name=name)
        y = scale([*few["off"], 2 * sd, -2 * sd], room=0.05, name="synthetic − original")
        chart = Chart(title, x, y)
        chart.across(0, "quiet", stroke=0.8)
        if sd:
            chart.boxes([x.low], [2 * sd], [x.high], [-2 * sd], "third", alpha=0.16)
        chart.dots(log, few["off"], "synthetic")
        rms = float(np.sqrt((off**2).mean()))
        words = WORDS["noise"].format(n=len(frame), rms=rms, stated=stated)
        pictures.append(Picture.of(chart, words, _by_size(frame)))
    return pictures


def _by_size(frame: pd.DataFrame) -> pd.DataFrame:
    edges = [-1, 0, 9, 99, 999, 9_999, np.inf]
    words = ["0", "1 to 9", "10 to 99", "100 to 999", "1,000 to 9,999", "10,000 and more"]
    size = pd.cut(frame["original"], edges, labels=words)
    off = frame["off"].astype("float64")
    errors = pd.DataFrame({"size": size, "square": off**2, "off": off, "exact": off == 0})
    grouped = errors.groupby("size", observed=True)
    out = grouped.agg(
        n=("off", "size"),
        mean_error=("off", "mean"),
        square=("square", "mean"),
        share_exact=("exact", "mean"),
    ).reset_index()
    out["sd"] = np.sqrt(out.pop("square"))
    return out.rename(columns={"size": "original count"})


# --- several columns


def correlation_gaps(result: Result, _: Names) -> list[Picture]:
    """How far the correlations of all pairs are off: tiles whose colour says the sign, its strength the size."""
    needed = ["first", "second", "original", "synthetic"]
    frame = breakdown(result, "correlations", needed)[needed]
    columns = list(dict.fromkeys([*frame["first"], *frame["second"]]))[:MOST_CORRELATED]
    frame = frame[frame["first"].isin(columns) & frame["second"].isin(columns)]
    apart = numbers(frame["synthetic"]) - numbers(frame["original"])
    largest = float(np.nanmax(np.abs(apart), initial=0)) or 1.0
    ticks = [(i, f"{i + 1}") for i in range(len(columns))]
    x = Scale(low=-0.6, high=len(columns) - 0.4, ticks=ticks)
    labels = [f"{short(c)} {i + 1}" for i, c in enumerate(columns)]
    chart = rows("Kendall's tau of all pairs: synthetic − original", labels, x, step=14)
    at, below = (frame[c].map(columns.index).to_numpy() for c in ("first", "second"))
    strength = np.nan_to_num(np.round(8 * apart / largest))
    for level in range(-8, 9):
        own = strength == level
        across, down = np.r_[at[own], below[own]], -np.r_[below[own], at[own]]
        tiles = across - 0.47, down + 0.47, across + 0.47, down - 0.47
        chart.boxes(*tiles, "more" if level >= 0 else "less", alpha=0.04 + 0.12 * abs(level))
    table = frame.assign(difference=apart)
    table = table.iloc[np.argsort(-np.nan_to_num(np.abs(apart)), kind="stable")]
    words = WORDS["correlations"].format(largest=largest)
    return [Picture.of(chart, words, table)]


def marginals_by_group(result: Result, names: Names) -> list[Picture]:
    """How near the combinations are in each group (place)."""
    score = result.scores.get("marginals")
    frame = _needed(None if score is None else score.more.get("by_group"), ["distance"])
    ordered = frame.sort_values("distance", ascending=False, kind="stable")
    shown = ordered.iloc[:MOST_ROWS]
    title = "Combinations of columns by " + ", ".join(map(str, groups_of_marginals(frame)))
    few = f" Of {len(ordered):,} groups the furthest." if len(shown) < len(ordered) else ""
    words = WORDS["groups"] + few
    lengths = pd.Series(numbers(shown["distance"]), index=group_names(shown, names))
    return [_bars(title, words, lengths, "mean distance as a share of its people", ordered)]


def groups_of_marginals(frame: pd.DataFrame) -> list[str]:
    """Return the columns that say which group a row of the breakdown by groups is about."""
    return [c for c in frame.columns if c not in ("distance", "n", "score")]


def group_names(frame: pd.DataFrame, names: Names) -> list[str]:
    group = groups_of_marginals(frame)
    return [
        " · ".join(names.value(str(c), v) for c, v in zip(group, row, strict=True))
        for row in frame[group].itertuples(index=False)
    ]


def _bars(title: str, words: str, lengths: pd.Series, name: str, table: pd.DataFrame) -> Picture:
    """One bar a row, as long as a number that is indexed by its label."""
    chart = rows(
        title, [short(label) for label in lengths.index], scale(lengths, zero=True, name=name)
    )
    at = -np.arange(len(lengths))
    chart.boxes(np.minimum(lengths, 0), at + 0.31, np.maximum(lengths, 0), at - 0.31, "synthetic")
    chart.down(0, "quiet", stroke=0.8)
    return Picture.of(chart, words, table)


def tables_by_width(result: Result, _: Names) -> list[Picture]:
    """S_pMSE of tables, a histogram a number of columns."""
    frame = breakdown(result, "tables", ["width", "s_pmse"])
    frame = frame[np.isfinite(numbers(frame["s_pmse"]))]
    if frame.empty:
        raise NothingToDraw("no table has a figure")
    # A log scale ends above zero: a table that is met exactly is drawn at its left end.
    logs = np.log10(numbers(frame["s_pmse"]).clip(1e-3))
    low, high = np.floor(logs.min()), max(np.ceil(logs.max()), np.floor(logs.min()) + 1)
    ticks = [(e, compact(10.0**e)) for e in np.arange(low, high + 1)]
    widths, of = sorted(frame["width"].unique()), frame["width"].to_numpy()
    title = "Every table: S_pMSE by number of columns"
    x = Scale(low=low, high=high, ticks=ticks, name="S_pMSE (log scale)")
    labels = [f"{w} column{'s' if w > 1 else ''}: {(of == w).sum():,}" for w in widths]
    chart, edges = rows(title, labels, x, step=56), np.linspace(low, high, 41)
    for i, width in enumerate(widths):
        n = np.histogram(logs[of == width], edges)[0]
        floor = np.full(len(n), -i - 0.4)
        chart.boxes(edges[:-1], floor + 0.85 * n / n.max(), edges[1:], floor, "synthetic")
        middle = np.median(logs[of == width])
        chart.segments(([middle], [-i - 0.4]), ([middle], [-i + 0.45]), "ink", stroke=1.4)
    for bound in (3, 10):
        if low <= np.log10(bound) <= high:
            chart.down(float(np.log10(bound)), "more", dash=DASH)
    worst = frame.sort_values("s_pmse", ascending=False, kind="stable")
    return [Picture.of(chart, WORDS["tables"], worst)]


def estimate_overlaps(result: Result, _: Names) -> list[Picture]:
    """Overlap of the confidence intervals of declared estimates."""
    frame = breakdown(result, "estimates", ["name", "overlap_signed"])
    frame = frame[np.isfinite(numbers(frame["overlap_signed"]))]
    if frame.empty:
        raise NothingToDraw("no estimate has an interval on both sides")
    worst = frame.sort_values("overlap_signed", kind="stable").iloc[:MOST_ROWS]
    lengths = worst.set_index("name")["overlap_signed"].astype("float64").clip(-1)
    words = "1: the same interval; 0: they touch; below: apart (cut at −1)."
    title, name = "Estimates: overlap of the 95 % intervals", "overlap of the confidence intervals"
    return [_bars(title, words, lengths, name, frame)]


# --- attacks


class Dots(NamedTuple):
    """Marks, one a row, with a line between two ends."""

    at: Any
    ink: str
    mark: str = "o"
    size: float = 3.5
    ends: tuple[Any, Any] | None = None
    shift: float = 0.0  # Above the middle of the row


def dotted(
    title: str, labels: Iterable[object], x: Scale, series: Sequence[Dots], **more: Any
) -> Chart:
    """One or several marks a row."""
    chart = rows(title, [short(label) for label in labels], x, **more)
    for one in series:
        at = one.shift - np.arange(len(one.at))
        if one.ends is not None:
            chart.segments((one.ends[0], at), (one.ends[1], at), one.ink, alpha=0.55)
        chart.marks(one.at, at, one.ink, one.mark, one.size)
    return chart


def attack_rates(result: Result, _: Names) -> list[Picture]:
    """How often attacks are right, beside guessing and beside their control."""
    found = []
    for name, risk in result.risks.items():
        row: dict[str, object] = {"attack": name.replace("_", " ")}
        for part in ("rate", "baseline", "control"):
            rate: Rate | None = getattr(risk, part)
            row[part] = None if rate is None else rate.value
            row |= {f"{part}: {of}": getattr(rate, of, None) for of in ("low", "high", "n")}
        found += [row] * any(v is not None for k, v in row.items() if k != "attack")
    if not found:
        raise NothingToDraw("no attack has a rate")
    frame = pd.DataFrame(found)
    looks = {
        "rate": ("more", "o", 0.0),
        "baseline": ("quiet", "D", -0.22),
        "control": ("less", "s", 0.22),
    }
    series = [
        Dots(
            numbers(frame[part]),
            ink,
            mark,
            3 if shift else 3.8,
            (numbers(frame[f"{part}: low"]), numbers(frame[f"{part}: high"])),
            shift,
        )
        for part, (ink, mark, shift) in looks.items()
    ]
    entries = (("attack", "more", "o"), ("guessing", "quiet", "D"), ("control", "less", "s"))
    title, x = (
        "How often each attack is right",
        replace(SHARE, name="share of attempts that are right"),
    )
    chart = dotted(title, frame["attack"], x, series, step=44, legend=entries)
    return [Picture.of(chart, WORDS["rates"], frame)]


def gains_by_target(result: Result, names: Names) -> list[Picture]:
    """Precision improvement of attacks, target by target."""
    pictures = []
    for name, risk in result.risks.items():
        frame = risk.breakdown
        gain = next((c for c in ("pi", "precision improvement") if c in frame.columns), None)
        target = next((c for c in ("target", "column", "secret") if c in frame.columns), None)
        if gain is None or target is None:
            continue
        with_gain = frame[np.isfinite(numbers(frame[gain]))]
        if with_gain.empty:
            continue
        worst = with_gain.sort_values(gain, ascending=False, kind="stable").iloc[:MOST_ROWS]
        shown = numbers(worst[gain]).clip(-1, 1)
        low = min(float(shown.min()), -0.1) - 0.05
        x = Scale(low=low, high=1.03, name="precision improvement over the baseline", has_grid=True)
        title = f"{name.replace('_', ' ').capitalize()}: gain by target"
        labels = [names.column(str(t)) for t in worst[target]]
        series = [Dots(shown, "more", ends=(np.zeros(len(shown)), shown))]
        chart = dotted(title, labels, x, series)
        chart.down(0, "quiet", stroke=0.8)
        chart.down(0.5, "more", dash=DASH)
        is_cut = len(worst) < len(with_gain)
        few = f" The {len(worst)} largest of {len(with_gain)}." if is_cut else ""
        pictures.append(Picture.of(chart, WORDS["gains"] + few, with_gain))
    if not pictures and not set(result.risks) <= STRONG:
        raise NothingToDraw("no attack gives its gain by target")
    return pictures


def tables_asked_for(result: Result, _: Names) -> list[Picture]:
    """Share of secrets right against the number of tables that an attacker asks for; none where none asked."""
    asked = result.risks.get("adaptive")
    if asked is None or asked.breakdown.empty:
        return []
    curve = asked.breakdown
    given = ("tables", "right", "low", "high", "random")
    at, right, low, high, drawn = (numbers(curve[c]) for c in given)
    places = np.arange(len(at))  # 0, 1, 2, 3, 5, 10 ...: evenly apart
    ticks = [(i, f"{n:g}") for i, n in enumerate(at)]
    x = Scale(low=-0.2, high=len(at) - 0.8, ticks=ticks, name="tables asked for")
    least = min(float(low.min()), 0.5) - 0.02
    y = Scale(low=least, high=1.02, name="secrets right", has_grid=True)
    entries = (("most telling first", "more", "-"), ("in any order", "quiet", "-"))
    chart = Chart("Tables asked for about small groups", x, y, legend=entries)
    chart.area(places, low, high, "more", alpha=0.18)
    for values, ink, mark in ((right, "more", "o"), (drawn, "quiet", "s")):
        chart.line(places, values, ink)
        chart.marks(places, values, ink, mark, size=3)
    return [Picture.of(chart, WORDS["asked"], curve)]


def shares_before_and_after(
    title: str, words: str, pairs: Sequence[tuple[str, float, float]], sides: tuple[str, str]
) -> Picture:
    """Draw pairs of shares, a row each: how often one is right elsewhere, and about those in the data."""
    names, before, after = zip(*pairs, strict=True)
    series = [Dots(before, "less", "s", 4, (before, after)), Dots(after, "more", size=3)]
    entries = ((sides[0], "less", "s"), (sides[1], "more", "o"))
    x = replace(SHARE, ticks=PERCENT[::2], name="right")
    return Picture.of(dotted(title, names, x, series, step=26, legend=entries), words)


# --- several subjects


def improvement_picture(factors: Sequence[Improvement]) -> Picture:
    """Draw improvement factors of utility: one row a headline figure by number of columns, one mark a subject."""
    title = "Improvement factors of the first"
    usable = [one for one in factors if not one.other.is_risk and not one.why_not]
    shown = [one for one in usable if one.other.figure.is_headline] or usable
    # One figure a measure and number of columns: others say the same again.
    firsts: dict[tuple[str, str], str] = {}
    for one in shown:
        firsts.setdefault((one.other.measure, one.other.figure.columns), one.other.figure.name)
    shown = [one for one in shown if one.other.figure.name in firsts.values()]
    if not shown:
        return Picture(title=title, why_not="no two subjects have a figure in common")
    lines = {one.other.figure.name: one.other for one in shown}
    labels = [
        short(f"{line.figure.columns} · {line.title}" if line.figure.columns else line.title, 40)
        for line in lines.values()
    ]
    others = list(dict.fromkeys(one.other.subject for one in shown))
    finite = [1.0, *(one.place for one in shown if one.place and isfinite(one.place))]
    low, high = min(finite) / 1.6, max(finite) * 1.6
    x = Scale(
        low=low / 1.1,
        high=high * 1.1,
        is_log=True,
        name="times nearer to perfect (log scale)",
        has_grid=True,
    )
    looks = [(short(o), INKS[k % len(INKS)], MARKS[k % len(MARKS)]) for k, o in enumerate(others)]
    chart = rows(title, labels, x, step=24, width=WIDE, legend=looks)
    chart.down(1, "ink", stroke=1.3)
    for other, (_, ink, mark) in zip(others, looks, strict=True):
        own = [one for one in shown if one.other.subject == other]
        at = [-list(lines).index(one.other.figure.name) for one in own]
        chart.marks(np.clip([one.place for one in own], low, high), at, ink, mark, size=4)
    # One row a figure, one column a subject
    found: dict[str, dict[str, str]] = {}
    for one in sorted(factors, key=lambda one: not one.other.figure.is_headline):
        figure = one.other.figure
        row = found.setdefault(figure.name, {"figure": one.other.title, "columns": figure.columns})
        row[one.other.subject] = one.text
    table = pd.DataFrame(list(found.values())).fillna("–")
    return Picture.of(chart, WORDS["improvements"], table, is_wide=True)


# --- all of a subject


DRAWN_BY: Mapping[str, Callable[[Result, Names], Iterable[Picture]]] = {
    draw.__name__: draw
    for draw in (
        *(univariate_bars, noise_against_count, correlation_gaps, marginals_by_group),
        *(tables_by_width, estimate_overlaps, attack_rates, gains_by_target, tables_asked_for),
    )
}


def groups_of(result: Result, names: Names, *, most: int | None = None) -> list[Group]:
    """Return the pictures of a subject."""
    found = []
    for group in TEXTS["groups"]:
        if result.risks if group["title"] == "Risk" else result.scores or not result.risks:
            pictures: list[Picture] = []
            for title, measure, draw in group["pictures"]:
                try:
                    pictures += islice(DRAWN_BY[draw](result, names), most)
                except NothingToDraw as error:
                    pictures.append(Picture(title=title, why_not=_why(result, measure, error)))
            found.append(Group(group["title"], group["words"], pictures))
    return found


def _why(result: Result, measure: str, error: NothingToDraw) -> str:
    """Why there is no picture, in the words of the measure."""
    score = result.scores.get(measure)
    if measure and score is None:
        return "the study does not declare it"
    return ("" if score is None else score.why_not.get(WHOLE, "")) or str(error)


def front_pictures(result: Result, gains: Sequence[tuple[str, float, float]]) -> list[Picture]:
    """Draw what each attacker gains by the release, and attacks on members and non-members; what there is of it."""
    rates = [
        (TITLES.get(name, name), other.value, risk.rate.value)
        for name, risk in result.risks.items()
        if name not in STRONG
        and risk.rate is not None
        and (other := risk.control or risk.baseline) is not None
    ]
    drawn = []
    if gains:
        sides = ("without the release", "with it")
        title = "What each attacker gains"
        drawn.append(shares_before_and_after(title, WORDS["attackers"], gains, sides))
    if rates:
        title = "Attacks on those in the data and on non-members"
        sides = ("non-members (or guessing)", "those in the data")
        drawn.append(shares_before_and_after(title, WORDS["members"], rates, sides))
    return drawn


# Is this good enough for ...? The largest distortions in words


MOST_DISTORTIONS = 10
MOST_OF_A_KIND = 5
"""So that one kind of distortion does not hide the others."""


class Use(NamedTuple):
    """Something that people do with tables, and whether the release is good enough for it."""

    what: str
    verdict: Verdict
    why: str  # The figure that decides, or why nothing does


class Distortion(NamedTuple):
    size: float  # Share of the whole that is off: 0 to 1
    words: str


def uses(own_lines: Sequence[Line]) -> list[Use]:
    """Return what the headline figures say of each use: the worst of them decides."""
    found = []
    for what, measures in TEXTS["uses"].items():
        mine = [x for x in own_lines if x.measure in measures and x.figure.is_headline]
        computed = [line for line in mine if line.value is not None]
        order: tuple[Verdict, ...] = ("poor", "fair", "good", "only stated")
        decides = min(computed, key=lambda line: order.index(line.verdict), default=None)
        if decides is not None:
            value = f"{decides.value:.{decides.figure.digits}f}"
            limit = f" ({decides.threshold})" if decides.threshold else ""
            why = f"{decides.title}: {value}{limit}"
            found.append(Use(what=what, verdict=decides.verdict, why=why))
        elif mine:
            titles = ", ".join(dict.fromkeys(TITLES.get(line.measure, "") for line in mine))
            found.append(Use(what=what, verdict="not computed", why=f"{titles}: {mine[0].why}"))
    return found


def distortions(result: Result, names: Names) -> list[Distortion]:
    """Return the largest distortions, by the share of the whole that is off."""
    found: list[Distortion] = []
    for of_kind in (_columns_off, _correlations_off, _groups_off, _estimates_off, _slopes_off):
        try:
            found += islice(of_kind(result, names), MOST_OF_A_KIND)
        except NothingToDraw:
            continue  # its measure did not run
    return sorted((d for d in found if d.size > 0), key=lambda d: -d.size)[:MOST_DISTORTIONS]


def _columns_off(result: Result, names: Names) -> Iterator[Distortion]:
    """Rows in the wrong value of a column, and the value that is furthest off."""
    frame = breakdown(result, "univariate", ["column", "label", "original", "synthetic"])
    for column, share in misplaced_by_column(frame).items():
        mine = frame[frame["column"] == column]
        off = np.abs(numbers(mine["synthetic"]) - numbers(mine["original"]))
        worst = mine.iloc[int(off.argmax())]
        told = {"column": names.column(str(column)), "share": percent(share)}
        told |= {"shown": cell(worst["synthetic"]), "true": cell(worst["original"])}
        value = names.value(str(column), worst["label"])
        yield Distortion(float(share), DISTORTED["column"].format(value=value, **told))


def _correlations_off(result: Result, names: Names) -> Iterator[Distortion]:
    """Rank correlations; half of the difference is a share of the range from -1 to 1."""
    frame = breakdown(result, "correlations", ["first", "second", "original", "synthetic"])
    shown, true = numbers(frame["synthetic"]), numbers(frame["original"])
    for i in _largest(np.abs(shown - true)):
        pair = " and ".join(names.column(str(frame[c].iloc[i])) for c in ("first", "second"))
        words = DISTORTED["correlation"].format(pair=pair, shown=shown[i], true=true[i])
        yield Distortion(abs(shown[i] - true[i]) / 2, words)


def _groups_off(result: Result, names: Names) -> Iterator[Distortion]:
    """Groups (places) whose combinations are furthest off; half the distance is the share of people misplaced."""
    score = result.scores.get("marginals")
    frame = _needed(None if score is None else score.more.get("by_group"), ["distance"])
    half, called = numbers(frame["distance"]) / 2, group_names(frame, names)
    for i in _largest(half):
        yield Distortion(
            half[i], DISTORTED["group"].format(group=called[i], share=percent(half[i]))
        )


def _figures_off(result: Result, measure: str, of: str, words: str) -> Iterator[Distortion]:
    """Figures of a breakdown that are furthest off, as a share of the true one, and in standard errors of it."""
    frame = breakdown(result, measure, [of, "original", "synthetic"])
    true, shown = numbers(frame["original"]), numbers(frame["synthetic"])
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.minimum(np.abs(shown - true) / np.abs(true), 1)
        errors = np.abs(shown - true) / numbers(frame.get("se_original", np.nan))
    for i in _largest(share):
        said = {"name": frame[of].iloc[i], "shown": cell(shown[i]), "true": cell(true[i])}
        apart = errors[i] if errors.ndim else np.nan
        far = f", {apart:.1f} standard errors apart" if np.isfinite(apart) else ""
        yield Distortion(float(share[i]), words.format(apart=far, **said))


def _estimates_off(result: Result, _: Names) -> Iterator[Distortion]:
    return _figures_off(result, "estimates", "name", DISTORTED["estimate"])


def _slopes_off(result: Result, _: Names) -> Iterator[Distortion]:
    return _figures_off(result, "regression", "group", DISTORTED["slope"])


def _largest(size: np.ndarray) -> list[int]:
    """Where the largest numbers stand, the largest first; what is no number is left out."""
    order = np.argsort(-np.nan_to_num(size, nan=-1.0), kind="stable")
    return [int(i) for i in order[:MOST_OF_A_KIND] if np.isfinite(size[i])]
