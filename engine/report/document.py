"""An evaluation as plain data: what the JSON beside a report holds.

Takes an `Evaluation`; gives dicts, lists, texts and numbers. Invariants: no NaN and no infinity, null with a reason in
their place; a publishable document holds rounded figures only: no count, no breakdown, nothing of the original.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from engine.evaluation import Evaluation, Result
from engine.report.improvement import Improvement, improvements
from engine.report.verdicts import Catalogue, Line, lines
from engine.score import Rate, Risk, Score

FORMAT = 1
SIGNIFICANT = 2
"""Digits of a publishable figure."""


def document(
    evaluation: Evaluation, *, publishable: bool = False, catalogue: Catalogue | None = None
) -> dict[str, Any]:
    """Return an evaluation as plain data.

    Parameters
    ----------
    evaluation : Evaluation
    publishable : bool
        Rounded figures only.
    catalogue : dict of str to Figure, optional
        As for `engine.report.verdicts.lines`.
    """
    told = lines(evaluation, catalogue)
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
                _public_subject(r, [line for line in told if line.subject == r.subject.name])
                for r in evaluation.results
            ]
        }
    return head | {
        "data": evaluation.data,
        "rows": evaluation.n_rows,
        "seed": evaluation.seed,
        "notes": list(evaluation.notes),
        "subjects": [
            _subject(r, [line for line in told if line.subject == r.subject.name])
            for r in evaluation.results
        ],
        "improvements": [_improvement(one) for one in improvements(told)],
    }


def _subject(result: Result, told: Sequence[Line]) -> dict[str, Any]:
    """All that was found about a subject, without breakdowns."""
    subject = result.subject
    found: dict[str, Score | Risk] = {**result.scores, **result.risks}
    return {
        "name": subject.name,
        "kind": subject.kind,
        "content_hash": subject.content_hash,
        "tables": len(result.comparison.tables),
        "notes": list(subject.notes),
        "figures": [_figure(line) for line in told],
        "attacks": {
            name: {
                "words": risk.words,
                "rate": _rate(risk.rate),
                "baseline": _rate(risk.baseline),
                "control": _rate(risk.control),
            }
            for name, risk in result.risks.items()
        },
        "notes_of_measures": {name: list(one.notes) for name, one in found.items() if one.notes},
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
        "factor": finite(one.factor),
        "words": one.text,
    }


def finite(value: float | None) -> float | None:
    """Return a number, or None where it is none or infinite."""
    return value if value is not None and isfinite(value) else None


def is_publishable(line: Line) -> bool:
    """Whether a figure may be published, rounded: it is a score, no count of rows and no context."""
    figure = line.figure
    is_count = figure.digits == 0 and not isfinite(figure.high)
    return line.value is not None and figure.better != "neither" and not is_count


def rounded(value: float | None) -> float | None:
    """Return a number with two significant digits."""
    return None if value is None else float(f"{value:.{SIGNIFICANT}g}")


def _public_subject(result: Result, told: Sequence[Line]) -> dict[str, Any]:
    """Rounded scores of a subject."""
    return {
        "name": result.subject.name,
        "kind": result.subject.kind,
        "content_hash": result.subject.content_hash,
        "figures": [
            _meaning(line)
            | {
                "value": rounded(line.value),
                "scale": rounded(line.scale),
                "verdict": line.verdict,
            }
            for line in told
            if is_publishable(line)
        ],
    }
