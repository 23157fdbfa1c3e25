"""Pictures of attacks: how often each is right, beside guessing and its control; gains by target; tables asked for.

Takes a `Result`; gives `Picture`s. CONFIDENTIAL.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from engine.evaluation.findings import STRONG, Finding, Rate
from engine.evaluation.report.naming import Names
from engine.evaluation.report.pictures.drawing import (
    INK,
    canvas,
    compact_axis,
    legend,
    rows_canvas,
    short,
    svg_of,
)
from engine.evaluation.report.pictures.picture import NothingToDraw, Picture, numbers
from engine.evaluation.result import Result

MOST_ROWS = 24
ASKING = "adaptive"
PARTS = ("rate", "baseline", "control")
GAINS = ("pi", "precision improvement")


def rates_table(risks: dict[str, Finding]) -> pd.DataFrame:
    """Return the rates of attacks, one row an attack that has any."""
    rows = []
    for name, risk in risks.items():
        parts: dict[str, Rate | None] = {part: getattr(risk, part) for part in PARTS}
        if not any(parts.values()):
            continue
        row: dict[str, object] = {"attack": name.replace("_", " ")}
        for part, rate in parts.items():
            row[part] = None if rate is None else rate.value
            row[f"{part}: low"] = None if rate is None else rate.low
            row[f"{part}: high"] = None if rate is None else rate.high
            row[f"{part}: n"] = None if rate is None else rate.n
        rows.append(row)
    return pd.DataFrame(rows)


def attack_rates(result: Result, names: Names) -> list[Picture]:
    """How often attacks are right, beside guessing and beside their control."""
    del names
    frame = rates_table(dict(result.risks))
    if frame.empty:
        raise NothingToDraw("no attack has a rate")
    sheet, axes = rows_canvas([short(a) for a in frame["attack"]], top=32, step=44)
    looks = (
        ("rate", "more", "o", 0.0),
        ("baseline", "quiet", "D", 0.22),
        ("control", "less", "s", -0.22),
    )
    for part, colour, mark, shift in looks:
        at = np.arange(len(frame)) + shift
        low, high = (numbers(frame[f"{part}: {end}"]) for end in ("low", "high"))
        axes.hlines(at, low, high, color=INK[colour], linewidth=2.4, alpha=0.55)
        axes.plot(
            numbers(frame[part]), at, mark, color=INK[colour], markersize=7 if shift == 0 else 5.5
        )
    axes.set_xlim(-0.02, 1.02)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
    axes.set_xlabel("share of attempts that are right")
    legend(
        sheet,
        (("attack", "more", "o"), ("guessing", "quiet", "D"), ("control", "less", "s")),
    )
    title = "How often each attack is right"
    words = (
        "With 95 % intervals. The control is most often the same attack on non_members, whom the release was not made "
        "from: an attack that does no better than its control tells of the population, not of a person."
    )
    return [Picture(title=title, words=words, svg=svg_of(sheet, title), table=frame)]


def tables_asked_for(result: Result, names: Names) -> list[Picture]:
    """Share of secrets right against the number of tables that an attacker asks for; none where none asked."""
    del names
    if ASKING not in result.risks or result.risks[ASKING].breakdown.empty:
        return []
    curve = result.risks[ASKING].breakdown
    sheet, (axes,) = canvas(250, top=34)
    at, right, low, high, drawn = (
        numbers(curve[c]) for c in ("tables", "right", "low", "high", "random")
    )
    places = np.arange(len(at))  # 0, 1, 2, 3, 5, 10 ...: evenly apart
    axes.fill_between(places, low, high, color=INK["more"], alpha=0.18, linewidth=0)
    axes.plot(places, right, "o-", color=INK["more"], markersize=6)
    axes.plot(places, drawn, "s-", color=INK["quiet"], markersize=5)
    axes.set_xticks(places, [f"{n:g}" for n in at])
    axes.set_ylim(min(float(low.min()), 0.5) - 0.02, 1.02)
    axes.set_xlabel("tables asked for")
    axes.set_ylabel("secrets right")
    legend(sheet, (("most telling first", "more", "-"), ("in any order", "quiet", "-")))
    title = "Tables asked for about small groups"
    words = (
        "How many members' secrets are right after so many tables, with 95 % intervals; 0: by the group's commonest "
        "value."
    )
    return [Picture(title=title, words=words, svg=svg_of(sheet, title), table=curve)]


def gains_by_target(result: Result, names: Names) -> list[Picture]:
    """Precision improvement of attacks, target by target."""
    pictures = []
    for name, risk in result.risks.items():
        frame = risk.breakdown
        gain = next((c for c in GAINS if c in frame.columns), None)
        target = next((c for c in ("target", "column", "secret") if c in frame.columns), None)
        if gain is None or target is None:
            continue
        with_gain = frame[np.isfinite(numbers(frame[gain]))]
        if with_gain.empty:
            continue
        worst = with_gain.sort_values(gain, ascending=False, kind="stable").iloc[:MOST_ROWS]
        sheet, axes = rows_canvas([short(names.column(str(t))) for t in worst[target]])
        shown = numbers(worst[gain]).clip(-1, 1)
        at = np.arange(len(worst))
        axes.hlines(at, 0, shown, color=INK["rule"], linewidth=2.4)
        axes.plot(shown, at, "o", color=INK["more"], markersize=7)
        axes.axvline(0, color=INK["quiet"], linewidth=0.8)
        axes.axvline(0.5, color=INK["more"], linewidth=1, linestyle=(0, (3, 3)))
        axes.set_xlim(min(float(shown.min()), -0.1) - 0.05, 1.03)
        compact_axis(axes.xaxis)
        axes.set_xlabel("precision improvement over the baseline")
        title = f"{name.replace('_', ' ').capitalize()}: gain by target"
        few = (
            f" The {len(worst)} largest of {len(with_gain)}." if len(worst) < len(with_gain) else ""
        )
        words = (
            "0: no better than without the release; beyond 0.5 (dashed) is weak protection; cut at −1."
            + few
        )
        pictures.append(
            Picture(title=title, words=words, svg=svg_of(sheet, title), table=with_gain)
        )
    if not pictures and not set(result.risks) <= STRONG:
        raise NothingToDraw("no attack gives its gain by target")
    return pictures
