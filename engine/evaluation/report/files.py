"""Files of a report: one HTML file and its figures as JSON beside it, confidential unless asked otherwise.

JSON and CSV hold the tidy frame. Invariants: a confidential file has mode 0600
from its first byte, also where it replaces a wider one; a file is there whole or not at all; a marker in it says what
it is, and `publish` reads it. JSON has no NaN and no infinity; a publishable file holds rounded figures
only: no count, no breakdown, nothing of the original.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from math import ceil, inf, isfinite, log10
from pathlib import Path
from typing import Any

import pandas as pd

from engine.errors import PrivacyError, StoreError
from engine.evaluation.findings import FRAME, Figure
from engine.evaluation.report.verdicts import Catalogue, Line, lines
from engine.evaluation.result import Evaluation
from engine.outputs import check_output, write_output

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
    """The figures of an evaluation as JSON, with a line break at its end.

    publishable: Rounded scores only.
    """
    all_lines = lines(evaluation, catalogue)
    if publishable:
        return json_of(
            _public(all_lines, evaluation.n_rows), confidential=False, **_about(evaluation)
        )
    whole = _with_verdicts(evaluation.frame(), all_lines)
    return json_of(
        whole[(whole["columns"] == "") & (whole["by"] == "")],
        **_about(evaluation),
        data=evaluation.data,
        rows=evaluation.n_rows,
        seed=evaluation.seed,
    )


def json_of(frame: pd.DataFrame, *, confidential: bool = True, **about: Any) -> str:
    """A tidy frame as JSON: what it is about, then a record a row, null where there is no number."""
    is_there = frame.notna() & ~frame.isin([inf, -inf])
    records = frame.astype(object).where(is_there, None).to_dict("records")
    return json_text({"confidential": confidential, **about, "frame": records})


def json_text(document: dict[str, Any]) -> str:
    """A JSON document with a line break at its end."""
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
    """Refuse to let confidential reports out; folders are looked through."""
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
    """What a file of an evaluation is about."""
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
    told = {
        (line.subject, line.figure.name): f"{line.verdict}: {line.threshold}".removesuffix(": ")
        for line in all_lines
        if line.value is not None
    }
    is_figure = (frame["columns"] == "") & (frame["by"] == "") & (frame["note"] == "")
    keys = zip(frame["subject"], frame["measure"], strict=True)
    notes = [
        told.get(key, "") if own else note
        for key, own, note in zip(keys, is_figure, frame["note"], strict=True)
    ]
    return frame.assign(note=notes)


def _public(all_lines: Sequence[Line], n_rows: int) -> pd.DataFrame:
    """Rounded scores."""
    rows = []
    for line in all_lines:
        if is_publishable(line):
            value = published(line.figure, line.value, n_rows)
            told = (value, None, None, line.figure.better, line.verdict)
            rows.append((line.subject, line.figure.name, "", "", *told))
    return pd.DataFrame(rows, columns=list(FRAME))


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
