"""Files of a report: one HTML file and JSON beside it, confidential unless asked otherwise.

Takes an `Evaluation`; gives files, or dicts, lists, texts and numbers. Invariants: a confidential file has mode 0600
from its first byte, also where it replaces a wider one; a file is there whole or not at all; a marker in it says what
it is, and `publish` reads it. JSON has no NaN and no infinity, null with a reason in their place; a publishable
document holds rounded figures only: no count, no breakdown, nothing of the original.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from math import ceil, inf, isfinite, log10
from pathlib import Path
from typing import Any

from engine.errors import PrivacyError, StoreError
from engine.evaluation.findings import FRAME, Figure, Finding, Rate
from engine.evaluation.report.verdicts import Catalogue, Improvement, Line, improvements, lines
from engine.evaluation.result import Evaluation, Result
from engine.outputs import check_output, write_output

ENDINGS = (".html", ".htm")
ENDINGS_OF_FRAMES = (".csv", ".json")
_CSV = ",".join(FRAME).encode()
"""Beginning of a tidy frame as CSV; no other file that may be published begins so."""
_HEAD = 1 << 20
_LARGEST_JSON = 1 << 28
_MARKER = re.compile(rb"<meta\s+name=.tablepack.\s+content=.confidential.", re.IGNORECASE)


FORMAT = 1
SIGNIFICANT = 2
"""Digits of a publishable figure."""
LEAST_PEOPLE = 10
"""A publishable share is no finer than so many people of the original."""
MOST_DIGITS_OF_COUNTS = 1
"""Figures without an upper bound that are shown with so few digits are counts, or expected ones."""


def check_target(path: Path, *, force: bool = False, inputs: Iterable[object] = ()) -> None:
    """Refuse a path that no report can be written to, before anything is measured.

    inputs: What is read to make it; paths among them are never replaced.
    """
    if path.suffix.lower() not in ENDINGS:
        raise StoreError(f"{path}: a report ends in .html; JSON goes beside it")
    read = [what for what in inputs if isinstance(what, str | Path)]
    for file in (path, path.with_suffix(".json")):
        check_output(file, force=force, inputs=read)
    if not os.access(path.parent, os.W_OK):
        raise StoreError(f"{path}: its folder cannot be written to")


def as_json(
    evaluation: Evaluation, *, publishable: bool = False, catalogue: Catalogue | None = None
) -> str:
    """Return the JSON document, with a line break at its end."""
    return json_text(document(evaluation, publishable=publishable, catalogue=catalogue))


def json_text(document: dict[str, Any]) -> str:
    """Return a JSON document with a line break at its end."""
    return json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def check_frame(path: Path, *, force: bool = False, inputs: Iterable[object] = ()) -> None:
    """Refuse a path that no tidy frame can be written to, before anything is measured."""
    if path.suffix.lower() not in ENDINGS_OF_FRAMES:
        raise StoreError(f"{path}: a tidy table ends in .csv or .json")
    check_output(path, force=force, inputs=[w for w in inputs if isinstance(w, str | Path)])


def write_frame(evaluation: Evaluation, path: Path, *, force: bool = False) -> None:
    """Write all results as one tidy table, with breakdowns; see `Evaluation.frame`. CONFIDENTIAL, mode 0600."""
    frame = evaluation.frame()
    if path.suffix.lower() == ".csv":
        text = frame.to_csv(index=False, lineterminator="\n")
    else:
        is_there = frame.notna() & ~frame.isin([inf, -inf])
        records = frame.astype(object).where(is_there, None).to_dict("records")
        text = json_text({"confidential": True, "kind": "frame", "frame": records})
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
    """Refuse to let confidential reports out; folders are looked through."""
    for given in paths:
        for path in sorted(given.rglob("*")) if given.is_dir() else [given]:
            if path.is_file() and is_confidential(path):
                raise PrivacyError(
                    f"{path}: is a confidential report: it holds the original beside the synthetic; "
                    "publish one written with --publishable"
                )


def write_both(
    path: Path, *, page: str, document: dict[str, Any], force: bool = False, private: bool = True
) -> tuple[Path, Path]:
    """Write a page, and its JSON document beside it, both of mode 0600 unless they may be public."""
    beside = path.with_suffix(".json")
    for file, text in {path: page, beside: json_text(document)}.items():
        write_output(file, text, force=force, private=private)
    return path, beside


# --- an evaluation as plain data


def document(
    evaluation: Evaluation, *, publishable: bool = False, catalogue: Catalogue | None = None
) -> dict[str, Any]:
    """Return an evaluation as plain data.

    publishable: Rounded figures only.
    """
    all_lines = lines(evaluation, catalogue)
    head: dict[str, Any] = {
        "confidential": not publishable,
        "format": FORMAT,
        "title": evaluation.title,
        "tablepack": evaluation.version,
        "sampled_share": evaluation.share,
    }
    if publishable:
        return head | {
            "subjects": [
                _public_subject(
                    r,
                    [line for line in all_lines if line.subject == r.subject.name],
                    evaluation.n_rows,
                )
                for r in evaluation.results
            ]
        }
    return head | {
        "data": evaluation.data,
        "rows": evaluation.n_rows,
        "seed": evaluation.seed,
        "notes": list(evaluation.notes),
        "subjects": [
            _subject(r, [line for line in all_lines if line.subject == r.subject.name])
            for r in evaluation.results
        ],
        "improvements": [_improvement(one) for one in improvements(all_lines)],
    }


def _subject(result: Result, own_lines: Sequence[Line]) -> dict[str, Any]:
    """All results of a subject, without breakdowns."""
    subject = result.subject
    measures: dict[str, Finding] = {**result.scores, **result.risks}
    return {
        "name": subject.name,
        "kind": subject.kind,
        "content_hash": subject.content_hash,
        "tables": len(result.aligned.tables),
        "notes": list(subject.notes),
        "figures": [_figure(line) for line in own_lines],
        "attacks": {
            name: {
                "words": risk.entry.words,
                "verdict": risk.verdict,
                "rate": _rate(risk.rate),
                "baseline": _rate(risk.baseline),
                "control": _rate(risk.control),
            }
            for name, risk in result.risks.items()
        },
        "notes_of_measures": {
            name: list(n) for name, one in measures.items() if (n := one.all_notes)
        },
    }


def _figure(line: Line) -> dict[str, Any]:
    """One figure."""
    return _meaning(line) | {
        "value": line.value,
        "scale": line.scale,
        "verdict": line.verdict,
        "why_not": line.why or None,
    }


def _meaning(line: Line) -> dict[str, Any]:
    """What a figure means."""
    figure = line.figure
    return {
        "name": figure.name,
        "title": figure.title,
        "words": figure.words,
        "about": "risk" if line.is_risk else "utility",
        "better": figure.better,
        "low": finite(figure.low),
        "high": finite(figure.high),
        "perfect": figure.perfect,
        "columns": figure.columns,
        "good": figure.good,
        "poor": figure.poor,
        "reach": line.reach or None,
        "source": figure.source,
        "headline": figure.is_headline,
    }


def _rate(rate: Rate | None) -> dict[str, Any] | None:
    """A share with its interval."""
    if rate is None:
        return None
    return {
        "value": finite(rate.value),
        "low": finite(rate.low),
        "high": finite(rate.high),
        "n": rate.n,
    }


def _improvement(one: Improvement) -> dict[str, Any]:
    """One improvement factor."""
    return {
        "figure": one.other.figure.name,
        "first": one.first.subject,
        "other": one.other.subject,
        "factor": None if one.why_not else finite(one.factor),
        "words": one.text,
    }


def finite(value: float | None) -> float | None:
    """Return a number, or None where it is none or infinite."""
    return value if value is not None and isfinite(value) else None


def is_publishable(line: Line) -> bool:
    """Whether a figure may be published, rounded: it is a score, no count of rows and no context."""
    figure = line.figure
    is_count = figure.digits <= MOST_DIGITS_OF_COUNTS and not isfinite(figure.high)
    return line.value is not None and figure.better != "neither" and not is_count


def rounded(value: float | None) -> float | None:
    """Return a number with two significant digits."""
    return None if value is None else float(f"{value:.{SIGNIFICANT}g}") + 0.0  # never -0.0


def published(figure: Figure, value: float | None, n_rows: int) -> float | None:
    """Return a figure as it may be published: two significant digits, and no share that would give away a count.

    figure: Shares are known by their upper bound, 1 or 100: they are rounded to the power of ten that is
        worth ten people at least.
    """
    if value is None or figure.high not in (1, 100):
        return rounded(value)
    finest = min(LEAST_PEOPLE / max(n_rows, 1), 1.0) * figure.high
    return rounded(round(value, -ceil(log10(finest) - 1e-9)))


def _public_subject(result: Result, own_lines: Sequence[Line], n_rows: int) -> dict[str, Any]:
    """Rounded scores of a subject."""
    return {
        "name": result.subject.name,
        "kind": result.subject.kind,
        "content_hash": result.subject.content_hash,
        "figures": [
            _meaning(line)
            | {
                "value": published(line.figure, line.value, n_rows),
                "scale": published(line.figure, line.scale, n_rows),
                "verdict": line.verdict,
            }
            for line in own_lines
            if is_publishable(line)
        ],
    }
