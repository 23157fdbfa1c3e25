"""What figures are worth: beside thresholds and a sample of the original, and of one subject beside another; as texts.

Takes an `Evaluation` and the catalogue of figures; gives a `Line` a figure and subject, improvement factors
(P. Francis, "A Comparison of SynDiffix Multi-table versus Single-table Synthetic Data", arXiv:2403.08463, section 4,
equation 1), tables of texts, files, and the summary of a screen. Invariants: a figure that is absent, or no number, is
"not computed" with a reason, never good; a factor is never between -1 and 1 (but 0 where a reason stands in its place),
and never NaN; a confidential file has mode 0600 from its first byte, also where it replaces a wider one, is there whole
or not at all, and a marker in it says what it is, which `publish` reads; a publishable file holds rounded figures only:
no count, no breakdown, nothing of the original; every headline figure is named in a summary: it has a row, or a reason.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, isfinite, isinf, log10
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from engine.charts import short
from engine.errors import PrivacyError, StoreError
from engine.evaluation.findings import FIGURES, FRAME, STRONG, WHOLE, Figure
from engine.evaluation.runner import Evaluation, Result
from engine.outputs import check_output, write_output
from engine.texts import plain

Verdict = Literal["good", "fair", "poor", "only stated", "not computed"]
DIRECTION = {
    "lower": "lower is better",
    "higher": "higher is better",
    "neither": "context, neither is better",
}
JUDGED = ("good", "fair", "poor")
TIMES_AS_FAR = 3.0
"""Without a threshold: poor is further from perfect than so many times a sample of the original is. Our own choice."""
NO_SECTION = "the study does not declare it"
MOST_APART = 1.5
"""Figures of whole tables are compared if one table has at most so many times the columns of the other."""
NO_REASON = "the measure gave no figure and no reason"


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One figure of one subject."""

    subject: str
    figure: Figure
    is_risk: bool  # It belongs to an attack
    value: float | None  # None: not computed
    scale: float | None  # The same figure of a sample of the original
    # What the study wants it to reach: "<= 0.3"; empty: the catalogue's thresholds count.
    reach: str
    verdict: Verdict
    why: str  # Why it was not computed, else empty
    is_declared: bool = True  # The study declares its measure
    over: int = 0  # Columns of the table that a measure of whole tables read; 0: not applicable
    is_rounded: bool = False  # Its numbers may be published

    @property
    def measure(self) -> str:
        return self.figure.name.partition(".")[0]

    @property
    def title(self) -> str:
        """What the figure is called, with a capital letter unless it begins with a symbol."""
        first, *rest = self.figure.title.split(" ")
        is_word = first.isalpha() and first.islower()
        return " ".join([first.capitalize() if is_word else first, *rest])

    def text(self, value: float | None) -> str:
        """A number of this figure, with its digits or as rounded."""
        return cell(value) if self.is_rounded else shown(value, self.figure.digits)

    @property
    def fixed(self) -> str:
        """Its value with as many digits as the figure is shown with."""
        return f"{self.value:.{self.figure.digits}f}"

    @property
    def direction(self) -> str:
        return DIRECTION[self.figure.better]

    @property
    def threshold(self) -> str:
        if self.reach:
            return f"{self.reach.replace('<=', '≤').replace('>=', '≥')} (wanted by the study)"
        if self.is_judged and self.figure.good is None and self.figure.poor is None:
            return f"good: as near as the sample, poor: over {TIMES_AS_FAR:g} times as far"
        below, above = ("≤", ">") if self.figure.better == "lower" else ("≥", "<")
        bounds = [] if self.figure.good is None else [f"good {below} {self.figure.good:g}"]
        bounds += [] if self.figure.poor is None else [f"poor {above} {self.figure.poor:g}"]
        return ", ".join(bounds) if self.figure.better != "neither" else ""

    @property
    def is_judged(self) -> bool:
        """Whether there is a threshold, and a value beside it."""
        return self.verdict in JUDGED

    @property
    def fails(self) -> bool:
        """Whether it is poor and in the summary, or misses what the study wants."""
        is_missed = (
            bool(self.reach) and self.value is not None and not _reaches(self.value, self.reach)
        )
        return is_missed or (self.verdict == "poor" and self.figure.is_headline)

    @property
    def is_nearer(self) -> bool | None:
        """Whether it is nearer to perfect than a sample of the original; None where one of them is not there."""
        if self.value is None or self.scale is None or self.figure.perfect is None:
            return None
        return distance(self.figure, self.value) < distance(self.figure, self.scale)


def towards(figure: Figure, value: float) -> float:
    """Return a value, or perfect where it lies beyond that on the good side: nothing is nearer than perfect."""
    if figure.perfect is None or figure.better == "neither":
        return value
    return (max if figure.better == "lower" else min)(value, figure.perfect)


def distance(figure: Figure, value: float) -> float:
    return abs(towards(figure, value) - (figure.perfect or 0.0))


def lines(evaluation: Evaluation) -> list[Line]:
    """Lay out all figures of all subjects, in the order of the catalogue; headline figures of unmeasured ones too."""
    reaches = {row.measure: row.reach for row in reversed(evaluation.study.rows) if row.reach}
    ran = {name for one in evaluation.results for name in one.findings}
    is_attack = not any(one.scores for one in evaluation.results) and ran & STRONG
    catalogue = {
        name: figure
        for name, figure in FIGURES.items()
        for measure in [name.partition(".")[0]]
        if measure in ran or (measure in STRONG if is_attack else measure not in STRONG)
    }
    out = []
    for result in evaluation.results:
        # A figure has a line if its measure ran, or it is a headline.
        found = result.findings
        names = [n for n, f in catalogue.items() if f.is_headline or n.partition(".")[0] in found]
        names += [
            f"{measure}.{value}"
            for measure, one in found.items()
            for value in (*one.values, *one.why_not)
            if value != WHOLE
        ]
        for name in dict.fromkeys(names):
            title = name.partition(".")[2].replace("_", " ")
            unknown = Figure(name=name, title=title, words="", better="neither")
            out.append(_line_of(result, catalogue.get(name, unknown), reaches.get(name, "")))
    return out


def _line_of(result: Result, figure: Figure, reach: str) -> Line:
    measure, _, value = figure.name.partition(".")
    one = result.findings.get(measure)
    number, scale = (
        None if side is None or not isfinite(v := side.values.get(value, inf)) else v
        for side in (one, result.scale.get(measure))
    )
    why = NO_SECTION
    if one is not None:
        why = one.why_not.get(value) or one.why_not.get(WHOLE) or NO_REASON
    return Line(
        subject=result.subject.name,
        figure=figure,
        is_risk=measure in result.risks,
        value=number,
        scale=scale,
        reach=reach,
        verdict=verdict(figure, number, reach, scale=scale),
        why="" if number is not None else why,
        is_declared=one is not None,
        over=one.over if one is not None and figure.columns == "all" else 0,
    )


def verdict(
    figure: Figure, value: float | None, reach: str = "", *, scale: float | None = None
) -> Verdict:
    """Return what a figure is worth.

    What a study wants reached counts for good in the place of the catalogue's threshold. A figure without thresholds is
    compared with a sample of the original.
    """
    if value is None or not isfinite(value):
        return "not computed"
    if reach and _reaches(value, reach):
        return "good"
    if figure.better == "neither":
        return "poor" if reach else "only stated"
    if figure.good is None and figure.poor is None:
        by_threshold = _against_sample(figure, value, scale)
    elif figure.poor is not None and _is_worse(figure, value, figure.poor):
        by_threshold = "poor"
    else:
        by_threshold = (
            "fair" if figure.good is None or _is_worse(figure, value, figure.good) else "good"
        )
    if not reach:
        return by_threshold
    # It misses what the study wants: at best fair, and poor where nothing says how far is too far.
    has_limit = figure.poor is not None or figure.good is None
    return "fair" if has_limit and by_threshold in ("good", "fair") else "poor"


def _reaches(value: float, reach: str) -> bool:
    sign, _, bound = reach.partition(" ")
    return value <= float(bound) if sign == "<=" else value >= float(bound)


def _against_sample(figure: Figure, value: float, scale: float | None) -> Verdict:
    """As near to perfect as a sample of the original: good; over `TIMES_AS_FAR` times as far: poor."""
    if scale is None or figure.perfect is None:
        return "only stated"
    own, sampled = distance(figure, value), distance(figure, scale)
    if own <= sampled:
        return "good"
    if not sampled:
        return "only stated"
    return "fair" if own <= TIMES_AS_FAR * sampled else "poor"


def _is_worse(figure: Figure, value: float, threshold: float) -> bool:
    return value > threshold if figure.better == "lower" else value < threshold


# --- improvement factors


@dataclass(frozen=True, kw_only=True, slots=True)
class Improvement:
    """One figure of one subject compared with the first."""

    first: Line
    other: Line
    # At least 1: the first is so many times nearer to perfect; at most -1: the other is; infinite: one is
    # perfect. 0 where `why_not` says why there is none.
    factor: float
    why_not: str = ""  # Why the two cannot be compared; else empty

    @property
    def place(self) -> float:
        """Where it is marked on a log scale: above 1 the first is better; 0 and infinity are its ends."""
        return self.factor if self.factor >= 1 else -1 / self.factor

    @property
    def text(self) -> str:
        if self.why_not:
            return f"not comparable: {self.why_not}"
        if self.factor == 1:
            return "equal"
        if isinf(self.factor):
            return "∞: only the first is perfect" if self.factor > 0 else "−∞: only it is perfect"
        return f"{self.factor:,.2f}".replace("-", "−")


def factor(perfect: float, first: float, other: float) -> float:
    """Improvement factor of `first` over `other`.

    Distances from perfect: other / first where that of the other is the larger one, else -(first / other). Both
    perfect: 1; one perfect: infinite with its sign.
    """
    nearer, further = abs(perfect - first), abs(perfect - other)
    if nearer == further:
        return 1.0
    if further > nearer:
        return further / nearer if nearer else inf
    return -nearer / further if further else -inf


def improvements(all_lines: Sequence[Line]) -> list[Improvement]:
    """Hold every other subject against the first, in all figures that have a perfect value and that both have.

    Figures of tables that differ much in their number of columns have a reason in the place of a factor.
    """
    if not all_lines:
        return []
    name = all_lines[0].subject
    first = {line.figure.name: line for line in all_lines if line.subject == name}
    improved = []
    for other in all_lines:
        mine, figure = first.get(other.figure.name), other.figure
        if other.subject == name or mine is None or mine.value is None or other.value is None:
            continue
        if figure.perfect is None or figure.better == "neither":
            continue
        few, many = sorted((mine.over, other.over))
        if few and many > MOST_APART * few:
            why = f"{mine.over} columns against {other.over}"
            improved.append(Improvement(first=mine, other=other, factor=0.0, why_not=why))
        else:
            values = (towards(figure, value) for value in (mine.value, other.value))
            times = factor(figure.perfect, *values)
            improved.append(Improvement(first=mine, other=other, factor=times))
    return sorted(improved, key=lambda one: (one.other.is_risk, width(one.other.figure.columns)))


def width(columns: str) -> float:
    """Return the number of columns of a figure for ordering: "all" after all numbers, an empty one last."""
    if columns == "all":
        return 1e6
    return float(columns) if columns.isdigit() else inf


# Tables of a report as texts


MOST_ROWS = 200
MISSING = "–"
WORST_FIRST = (
    "composite_error", "s_pmse", "pmse", "distance", "difference", "error", "gap", "pi", "u_m",
    "records", "rmse",
)  # fmt: skip
_OF_CARDS = {
    "rows": "synthetic rows",
    "cells": "distinct rows",
    "noise_sd": "noise sd",
    "suppressed_share": "suppressed share",
    "rounding_gap": "rounding gap",
}
_OF_BREAKDOWNS = (
    ("margins", "gap", "gap to narrower"),
    ("propensity", "pmse", "pMSE (tree)"),
    ("tables", "pmse", "pMSE"),
    ("tables", "s_pmse", "S_pMSE"),
    ("tables", "df", "degrees of freedom"),
    ("marginals", "distance", "density distance"),
    ("one_way_from_wider", "rmse", "RMSE of its columns"),
    ("density_rmse", "rmse", "RMSE of densities"),
    ("ranges", "sd", "sd of ranges"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Grid:
    heads: tuple[str, ...]
    is_number: tuple[bool, ...]  # A column is numbers, and set to the right
    rows: tuple[tuple[str, ...], ...]
    rest: int = 0  # Rows that are not shown


def grid(frame: pd.DataFrame, *, most: int = MOST_ROWS, as_is: bool = False) -> Grid:
    """Return a frame as texts, at most so many rows; its columns' names as words, or (factors) as they are."""
    shown = frame.iloc[:most]
    columns = [[cell(v) for v in shown.iloc[:, i].tolist()] for i in range(shown.shape[1])]
    is_number = [_is_number(shown.iloc[:, i]) or (as_is and i > 1) for i in range(shown.shape[1])]
    return Grid(
        heads=tuple(
            # Names of data and symbols keep their underscores.
            c if as_is or not c.islower() else c.replace("_", " ")
            for c in map(plain, shown.columns)
        ),
        is_number=tuple(is_number),
        rows=tuple(zip(*columns, strict=True)),
        rest=len(frame) - len(shown),
    )


def worst_first(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a breakdown with its worst rows on top, where it has a column to rank them by."""
    by = next((c for c in WORST_FIRST if c in frame.columns), None)
    if by is None or not pd.api.types.is_numeric_dtype(frame[by]):
        return frame
    size = -np.nan_to_num(np.abs(np.asarray(frame[by], np.float64)), nan=-1.0)
    return frame.iloc[np.argsort(size, kind="stable")]


def _is_number(column: pd.Series) -> bool:
    if pd.api.types.is_bool_dtype(column):
        return False
    if pd.api.types.is_numeric_dtype(column):
        return True
    filled = [v for v in column if not _is_missing(v)]
    return bool(filled) and all(isinstance(v, int | float | np.number) for v in filled)


def _is_missing(value: Any) -> bool:
    return pd.api.types.is_scalar(value) and bool(pd.isna(value))


def cell(value: Any) -> str:
    """Return one value as text: whole numbers whole, others with four significant digits."""
    if _is_missing(value):
        return MISSING
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | np.integer):
        return f"{int(value):,}".replace("-", "−")
    if isinstance(value, float | np.floating):
        number = float(value)
        if not isfinite(number):
            return "∞" if number > 0 else "−∞"
        is_whole = number == round(number) and abs(number) < 1e15
        text = f"{number:,.1f}" if abs(number) >= 1_000 else f"{number:.4g}"
        return (f"{number:,.0f}" if is_whole else text).replace("-", "−")
    if isinstance(value, list | tuple):
        return ", ".join(plain(v) for v in value)
    return plain(value)


def shown(value: float | None, digits: int) -> str:
    """Return a figure with its digits; one that they would round to zero keeps two significant ones."""
    if value is None:
        return MISSING
    if not isfinite(value):
        return cell(value)
    text = f"{value:,.{digits}f}"
    if value and not any(c in "123456789" for c in text):
        text = f"{value:.2g}"
    return text.replace("-", "−")


def every_table(result: Result) -> pd.DataFrame:
    """Return one row a table of a subject, with what its card and the breakdowns say of it."""
    rows: dict[str, dict[str, Any]] = {}
    for columns, table in result.aligned.tables.items():
        row: dict[str, Any] = {"columns": ", ".join(columns), "width": len(columns)}
        card = result.subject.cards.get(columns, {})
        row |= {word: card[key] for key, word in _OF_CARDS.items() if key in card}
        if not card:
            row |= {"synthetic rows": table.total, "rows listed": len(table.n)}
        rows[row["columns"]] = row
    for measure, value, word in _OF_BREAKDOWNS:
        for name, figure in _largest_by_table(result, measure, value).items():
            if name in rows:
                rows[name][word] = figure
    for column, figure in _largest_by_table(
        result, "univariate", "absolute_error", ("column",)
    ).items():
        if column in rows:
            rows[column]["largest error of a count"] = figure
    return pd.DataFrame(list(rows.values()))


def _largest_by_table(
    result: Result, measure: str, value: str, keys: Sequence[str] = ("table", "columns")
) -> Mapping[str, float]:
    score = result.scores.get(measure)
    if score is None or value not in score.breakdown.columns:
        return {}
    key = next((k for k in keys if k in score.breakdown.columns), None)
    if key is None:
        return {}
    largest = score.breakdown.groupby(key)[value].max()
    return {str(name): figure for name, figure in largest.items()}


# Files


ENDINGS = (".html", ".htm")
ENDINGS_OF_FRAMES = (".csv", ".json")
_CSV = ",".join(FRAME).encode()
"""Beginning of a tidy frame as CSV; no other file that may be published begins so."""
_HEAD = 1 << 20
_LARGEST_JSON = 1 << 28
_MARKER = re.compile(rb"<meta\s+name=.tablepack.\s+content=.confidential.", re.IGNORECASE)


SIGNIFICANT = 2
"""Digits of a publishable figure."""
LEAST_PEOPLE = 10
"""A publishable share is no finer than so many people of the original."""
MOST_DIGITS_OF_COUNTS = 1
"""Figures without an upper bound that are shown with so few digits are counts, or expected ones."""


def check_target(path: Path, *, force: bool = False, inputs: Iterable[object] = ()) -> None:
    """Refuse a path that no report can be written to, before anything is measured."""
    if path.suffix.lower() not in ENDINGS:
        raise StoreError(f"{path}: a report ends in .html; JSON goes beside it")
    read = [what for what in inputs if isinstance(what, str | Path)]
    for file in (path, path.with_suffix(".json")):
        check_output(file, force=force, inputs=read)
    if not os.access(path.parent, os.W_OK):
        raise StoreError(f"{path}: its folder cannot be written to")


def as_json(evaluation: Evaluation, *, publishable: bool = False) -> str:
    """The figures of an evaluation as JSON, with a line break at its end."""
    all_lines, about = lines(evaluation), _about(evaluation)
    if publishable:
        rows = [
            (x.subject, x.figure.name, "", "", x.value, None, None, x.figure.better, x.verdict)
            for x in publishable_lines(all_lines, evaluation.n_rows)
        ]
        return json_of(pd.DataFrame(rows, columns=list(FRAME)), confidential=False, **about)
    about |= {"data": evaluation.data, "rows": evaluation.n_rows, "seed": evaluation.seed}
    return json_of(_with_verdicts(evaluation.frame(breakdowns=False), all_lines), **about)


def json_of(frame: pd.DataFrame, *, confidential: bool = True, **about: Any) -> str:
    """A tidy frame as JSON: what it is about, then a record a row, null where there is no number."""
    is_there = frame.notna() & ~frame.isin([inf, -inf])
    records = frame.astype(object).where(is_there, None).to_dict("records")
    return json_text({"confidential": confidential, **about, "frame": records})


def json_text(document: dict[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def check_frame(path: Path, *, force: bool = False, inputs: Iterable[object] = ()) -> None:
    """Refuse a path that no tidy frame can be written to, before anything is measured."""
    if path.suffix.lower() not in ENDINGS_OF_FRAMES:
        raise StoreError(f"{path}: a tidy table ends in .csv or .json")
    check_output(path, force=force, inputs=[w for w in inputs if isinstance(w, str | Path)])


def write_frame(evaluation: Evaluation, path: Path, *, force: bool = False) -> None:
    """Write all results as one tidy table, with breakdowns; see `Evaluation.frame`. CONFIDENTIAL, mode 0600.

    The verdict on a figure is its note.
    """
    frame = _with_verdicts(evaluation.frame(), lines(evaluation))
    if path.suffix.lower() == ".csv":
        text = frame.to_csv(index=False, lineterminator="\n")
    else:
        text = json_of(frame, **_about(evaluation))
    write_output(path, text, force=force, private=True)


def is_confidential(path: Path) -> bool:
    """Return whether a file says of itself that it is a confidential report, or its JSON; by content, not name."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
            if _MARKER.search(head) or head.startswith(_CSV):
                return True
            if not head.lstrip().startswith(b"{"):
                return False
            whole = head + file.read(_LARGEST_JSON)
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        parsed = json.loads(whole)
    except ValueError:
        return re.search(rb'"confidential"\s*:\s*true', head) is not None
    return isinstance(parsed, dict) and parsed.get("confidential") is True


def refuse_confidential(paths: Iterable[Path]) -> None:
    for given in paths:
        for path in sorted(given.rglob("*")) if given.is_dir() else [given]:
            if path.is_file() and is_confidential(path):
                raise PrivacyError(
                    f"{path}: is a confidential report: it holds the original beside the synthetic; "
                    "publish one written with --publishable"
                )


def write_both(
    path: Path, *, page: str, json: str, force: bool = False, private: bool = True
) -> tuple[Path, Path]:
    """Write a page, and its figures as JSON beside it, both of mode 0600 unless they may be public."""
    beside = path.with_suffix(".json")
    for file, text in {path: page, beside: json}.items():
        write_output(file, text, force=force, private=private)
    return path, beside


# --- what stands in the files


def _about(evaluation: Evaluation) -> dict[str, Any]:
    subjects = [one.subject for one in evaluation.results]
    return {
        "kind": "evaluation",
        "title": evaluation.title,
        "tablepack": evaluation.version,
        "subjects": [
            {"name": one.name, "kind": one.kind, "content_hash": one.content_hash}
            for one in subjects
        ],
    }


def _with_verdicts(frame: pd.DataFrame, all_lines: Sequence[Line]) -> pd.DataFrame:
    """A frame with the verdict on each figure, and its threshold, as its note."""
    verdicts = {
        (line.subject, line.figure.name): f"{line.verdict}: {line.threshold}".removesuffix(": ")
        for line in all_lines
        if line.value is not None
    }
    is_figure = (frame["columns"] == "") & (frame["by"] == "") & (frame["note"] == "")
    keys = zip(frame["subject"], frame["measure"], strict=True)
    notes = [
        verdicts.get(key, "") if own else note
        for key, own, note in zip(keys, is_figure, frame["note"], strict=True)
    ]
    return frame.assign(note=notes)


def publishable_lines(all_lines: Sequence[Line], n_rows: int) -> list[Line]:
    """What may be published of some lines, rounded."""
    return [
        replace(
            line,
            value=published(line.figure, line.value, n_rows),
            scale=published(line.figure, line.scale, n_rows),
            is_rounded=True,
        )
        for line in all_lines
        if is_publishable(line)
    ]


def is_publishable(line: Line) -> bool:
    """Whether a figure may be published, rounded: it is a score, no count of rows and no context."""
    figure = line.figure
    is_count = figure.digits <= MOST_DIGITS_OF_COUNTS and not isfinite(figure.high)
    return line.value is not None and figure.better != "neither" and not is_count


def published(figure: Figure, value: float | None, n_rows: int) -> float | None:
    """Return a figure as it may be published: two significant digits, and no share that would disclose a count."""
    if value is None:
        return None
    if figure.high in (1, 100):
        finest = min(LEAST_PEOPLE / max(n_rows, 1), 1.0) * figure.high
        value = round(value, -ceil(log10(finest) - 1e-9))
    return float(f"{value:.{SIGNIFICANT}g}") + 0.0  # never -0.0


# The summary


ARROWS = {"lower": "↓", "higher": "↑", "neither": ""}
KEY = (
    "↓ lower is better, ↑ higher is better; good/poor: good up to the first, poor beyond the second"
)
TITLE_ROOM = 28
"""Characters that the titles of figures keep, however narrow the screen."""
LONGEST_NAME = 16
MOST_NAMED = 4
"""Figures that a sentence names."""
Block = tuple[str, tuple[str, ...], list[tuple[str, ...]]]
"""One table of a summary: title, heads, rows."""


def sentence(own_lines: Sequence[Line], *, is_risk: bool) -> str:
    """Return what the headline figures of one subject come to: how many are good, and which are not."""
    mine = [
        line
        for line in own_lines
        if line.figure.is_headline and line.is_risk == is_risk and line.is_declared
    ]
    about = "Risk" if is_risk else "Utility"
    if not mine:
        return f"{about}: not measured, because the study does not declare it."
    judged = [line for line in mine if line.is_judged]
    n = len(judged)
    of = "the one figure that is judged" if n == 1 else f"{n} figures that are judged"
    worst = next((v for v in ("poor", "fair") if any(x.verdict == v for x in judged)), "")
    if not n:
        parts = [f"{about}: no figure is judged."]
    elif not worst:
        parts = [f"{about}: good in {of if n == 1 else f'all {of}'}."]
    else:
        bad = [line for line in judged if line.verdict == worst]
        named = [f"{line.title} ({line.text(line.value)})" for line in bad[:MOST_NAMED]]
        named += [f"{len(bad) - MOST_NAMED} more"] * (len(bad) > MOST_NAMED)
        among = of if n == 1 else f"{len(bad)} of {of}"
        parts = [f"{about}: {worst} in {among}: {'; '.join(named)}."]
    nearer = [line.is_nearer for line in mine if line.is_nearer is not None]
    if nearer and not is_risk:
        parts.append(
            f"Nearer to perfect than a sample of the original: {sum(nearer)} of {len(nearer)} figures."
        )
    for word in ("only stated", "not computed"):
        if n := sum(line.verdict == word for line in mine):
            parts.append(f"{word.capitalize()}: {n}.")
    return " ".join(parts)


def blocks(
    all_lines: Sequence[Line], names: Sequence[str], *, sample: str, width: int
) -> list[Block]:
    """Return the headline figures as tables that a screen of so many characters holds."""
    by_figure: dict[str, dict[str, Line]] = {}
    for line in all_lines:
        if line.figure.is_headline:
            by_figure.setdefault(line.figure.name, {})[line.subject] = line
    out: list[Block] = []
    for is_risk, title in ((False, "Utility"), (True, "Risk")):
        # A figure that is not declared for anyone belongs to neither side.
        rows = [
            row
            for row in by_figure.values()
            if any(line.is_risk for line in row.values()) == is_risk
            and any(line.value is not None for line in row.values())
        ]
        if rows and len(names) == 1:
            lines = [row[names[0]] for row in rows if names[0] in row]
            out.append(_of_one(title, lines, "" if is_risk else sample))
        elif rows:
            out += _of_several(title, rows, names, width)
    return out


def _of_one(title: str, lines: Sequence[Line], sample: str) -> Block:
    """One subject: value, scale, thresholds, verdict."""
    values = [line.text(line.value) for line in lines]
    room = max(map(len, values))  # Numbers below each other, whatever sign they begin with.
    rows = [
        (
            line.title,
            f"{value:>{room}}",
            ARROWS[line.figure.better],
            *(["" if line.scale is None else line.text(line.scale)] if sample else []),
            _threshold(line),
            line.verdict if line.is_judged else "",
        )
        for line, value in zip(lines, values, strict=True)
    ]
    heads = ("figure", "value", "", *([sample] if sample else []), "good/poor", "verdict")
    return title, heads, rows


def _of_several(
    title: str, rows: Sequence[dict[str, Line]], names: Sequence[str], width: int
) -> Iterator[Block]:
    """Subjects beside each other, as many to a table as fit."""
    cut = [short(name, LONGEST_NAME) for name in names]
    heads = [
        name if cut.count(name) == 1 else short(f"{i + 1}: {name}", LONGEST_NAME)
        for i, name in enumerate(cut)
    ]
    firsts = [next(iter(row.values())) for row in rows]
    cells = []
    for name in names:  # numbers below each other, the words after them too
        own = [row.get(name) for row in rows]
        values = [MISSING if one is None else one.text(one.value) for one in own]
        words = ["" if one is None or not one.is_judged else one.verdict for one in own]
        wide = [max(map(len, column)) for column in (values, words)]
        cells.append([f"{v:>{wide[0]}} {w:<{wide[1]}}" for v, w in zip(values, words, strict=True)])
    widest = max(len(text) for column in (heads, *cells) for text in column)
    at_once = max((width - TITLE_ROOM - 5) // (widest + 3), 1)
    for start in range(0, len(names), at_once):
        part = slice(start, start + at_once)
        yield (
            title,
            ("figure", "", *heads[part]),
            [
                (line.title, ARROWS[line.figure.better], *(column[k] for column in cells[part]))
                for k, line in enumerate(firsts)
            ],
        )


def _threshold(line: Line) -> str:
    if line.reach:
        return line.threshold.partition(" (")[0]
    figure = line.figure
    if figure.better == "neither" or (figure.good is None and figure.poor is None):
        return ""
    bounds = "/".join(MISSING if b is None else f"{b:g}" for b in (figure.good, figure.poor))
    return f"{'≤' if figure.better == 'lower' else '≥'} {bounds}"


def reasons(own_lines: Sequence[Line]) -> list[str]:
    """Return, for headline figures without a value, why: one text a reason, the figures that have it before it."""
    by_reason: dict[str, list[str]] = {}
    for line in own_lines:
        if line.figure.is_headline and line.value is None:
            by_reason.setdefault(line.why, []).append(line.title)
    return [f"not computed: {'; '.join(titles)}: {why}" for why, titles in by_reason.items()]
