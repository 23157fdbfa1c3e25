"""An evaluation as plain data: what the JSON beside a report holds.

Takes an `Evaluation`; gives dicts, lists, texts and numbers. Invariants: no NaN and no infinity, null with a reason in
their place; a publishable document holds rounded figures only: no count, no breakdown, nothing of the original.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, isfinite, log10
from typing import Any

from engine.evaluation.findings import Figure, Finding, Rate
from engine.evaluation.report.improvement import Improvement, improvements
from engine.evaluation.report.verdicts import Catalogue, Line, lines
from engine.evaluation.result import Evaluation, Result

FORMAT = 1
SIGNIFICANT = 2
"""Digits of a publishable figure."""
LEAST_PEOPLE = 10
"""A publishable share is no finer than so many people of the original."""
MOST_DIGITS_OF_COUNTS = 1
"""Figures without an upper bound that are shown with so few digits are counts, or expected ones."""


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
    measures: dict[str, Finding | Finding] = {**result.scores, **result.risks}
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
            name: list(n) for name, one in measures.items() if (n := notes_of(one))
        },
    }


def notes_of(one: Finding | Finding) -> tuple[str, ...]:
    """Return what a reader must know of a measure, or an attack: its notes, and who its control is."""
    return one.all_notes


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
