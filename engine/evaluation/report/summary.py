"""The summary of an evaluation: a sentence about utility and one about risk, and tables for a screen of few columns.

Takes lines of figures; gives texts. Invariant: every headline figure is named: it has a row, or a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from engine.evaluation.report.charts import short
from engine.evaluation.report.files import is_publishable, published
from engine.evaluation.report.grids import MISSING, cell, shown
from engine.evaluation.report.verdicts import Line

ARROWS = {"lower": "↓", "higher": "↑", "neither": ""}
KEY = (
    "↓ lower is better, ↑ higher is better; good/poor: good up to the first, poor beyond the second"
)
TITLE_ROOM = 28
"""Characters that the titles of figures keep, however narrow the screen."""
LONGEST_NAME = 16
MOST_NAMED = 4
"""Figures that a sentence names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """One table of a summary."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def sentence(own_lines: Sequence[Line], *, is_risk: bool, rows_published: int | None = None) -> str:
    """Return what the headline figures of one subject come to: how many are good, and which are not."""
    mine = [
        line
        for line in own_lines
        if line.figure.is_headline
        and line.is_risk == is_risk
        and line.is_declared
        and (rows_published is None or is_publishable(line))
    ]
    about = "Risk" if is_risk else "Utility"
    if not mine:
        return f"{about}: not measured, because the study does not declare it."
    judged = [line for line in mine if line.is_judged]
    parts = [_judged(about, judged, rows_published)]
    nearer = [line.is_nearer for line in mine if line.is_nearer is not None]
    if nearer and not is_risk:
        parts.append(
            f"Nearer to perfect than a sample of the original: {sum(nearer)} of {len(nearer)} figures."
        )
    for verdict, words in (
        ("only stated", "Only stated"),
        ("not computed", "Not computed"),
    ):
        if n := sum(line.verdict == verdict for line in mine):
            parts.append(f"{words}: {n}.")
    return " ".join(parts)


def _judged(about: str, judged: Sequence[Line], rows_published: int | None) -> str:
    """What figures with a threshold come to."""
    n = len(judged)
    if not n:
        return f"{about}: no figure is judged."
    of = "the one figure that is judged" if n == 1 else f"{n} figures that are judged"
    for verdict in ("poor", "fair"):
        with_verdict = [line for line in judged if line.verdict == verdict]
        if with_verdict:
            named = [
                f"{line.title} ({_value(line, rows_published)})"
                for line in with_verdict[:MOST_NAMED]
            ]
            if len(with_verdict) > MOST_NAMED:
                named.append(f"{len(with_verdict) - MOST_NAMED} more")
            among = of if n == 1 else f"{len(with_verdict)} of {of}"
            return f"{about}: {verdict} in {among}: {'; '.join(named)}."
    return f"{about}: good in {of if n == 1 else f'all {of}'}."


def blocks(
    own_lines: Sequence[Line],
    names: Sequence[str],
    *,
    sample: str,
    width: int,
    rows_published: int | None = None,
) -> list[Block]:
    """Return the headline figures as tables that a screen of so many characters holds.

    rows_published: Rows of the original, where figures are rounded as in a publishable report.
    """
    out: list[Block] = []
    mine = [line for line in own_lines if rows_published is None or is_publishable(line)]
    for is_risk, title in ((False, "Utility"), (True, "Risk")):
        rows = list(_by_figure(mine, is_risk=is_risk))
        if not rows:
            continue
        if len(names) == 1:
            lines = [row[names[0]] for row in rows if names[0] in row]
            out.append(_of_one(title, lines, "" if is_risk else sample, rows_published))
        else:
            out += _of_several(title, rows, names, width, rows_published)
    return out


def _by_figure(all_lines: Iterable[Line], *, is_risk: bool) -> Iterator[dict[str, Line]]:
    """Headline figures that any subject has: its lines by subject."""
    by_figure: dict[str, dict[str, Line]] = {}
    for line in all_lines:
        if line.figure.is_headline:
            by_figure.setdefault(line.figure.name, {})[line.subject] = line
    for row in by_figure.values():
        # A figure that is not declared for anyone belongs to neither side.
        if any(line.is_risk for line in row.values()) == is_risk and any(
            line.value is not None for line in row.values()
        ):
            yield row


def _of_one(title: str, lines: Sequence[Line], sample: str, rows_published: int | None) -> Block:
    """One subject: value, scale, thresholds, verdict."""
    values = [_value(line, rows_published) for line in lines]
    room = max(map(len, values))  # Numbers below each other, whatever sign they begin with.
    rows = [
        (
            line.title,
            f"{value:>{room}}",
            ARROWS[line.figure.better],
            *([_number(line, line.scale, rows_published)] if sample else []),
            _threshold(line),
            line.verdict if line.is_judged else "",
        )
        for line, value in zip(lines, values, strict=True)
    ]
    heads = ("figure", "value", "", *([sample] if sample else []), "good/poor", "verdict")
    return Block(title=title, heads=heads, rows=tuple(rows))


def _of_several(
    title: str,
    rows: Sequence[dict[str, Line]],
    names: Sequence[str],
    width: int,
    rows_published: int | None,
) -> Iterator[Block]:
    """Subjects beside each other, as many to a table as fit."""
    heads = _heads(names)
    cells = [_aligned([_cell(row.get(name), rows_published) for row in rows]) for name in names]
    for chosen in _fitting(heads, cells, width - TITLE_ROOM - 5):
        cells_of_rows = [
            (
                next(iter(row.values())).title,
                ARROWS[next(iter(row.values())).figure.better],
                *(cells[i][k] for i in chosen),
            )
            for k, row in enumerate(rows)
        ]
        yield Block(
            title=title,
            heads=("figure", "", *(heads[i] for i in chosen)),
            rows=tuple(cells_of_rows),
        )


def _heads(names: Sequence[str]) -> list[str]:
    """Names that fit over a column; each its own."""
    cut = [short(name, LONGEST_NAME) for name in names]
    return [
        name if cut.count(name) == 1 else short(f"{i + 1}: {name}", LONGEST_NAME)
        for i, name in enumerate(cut)
    ]


def _fitting(
    heads: Sequence[str], cells: Sequence[Sequence[str]], room: int
) -> Iterator[list[int]]:
    """Subjects in groups that are no wider than there is room; at least one a group."""
    group: list[int] = []
    left = room
    for i, (head, column) in enumerate(zip(heads, cells, strict=True)):
        needed = 3 + max(len(head), *map(len, column))
        if group and needed > left:
            yield group
            group, left = [], room
        group.append(i)
        left -= needed
    if group:
        yield group


def _aligned(cells: Sequence[str]) -> list[str]:
    """Cells with their numbers below each other, the words after them too."""
    split = [cell.partition(" ") for cell in cells]
    wide = [max((len(part[i]) for part in split), default=0) for i in (0, 2)]
    return [f"{number:>{wide[0]}} {word:<{wide[1]}}" for number, _, word in split]


def _cell(line: Line | None, rows_published: int | None) -> str:
    """Value and verdict."""
    if line is None:
        return MISSING
    return f"{_value(line, rows_published)} {line.verdict if line.is_judged else ''}".rstrip()


def _value(line: Line, rows_published: int | None) -> str:
    """A value with the digits of its figure, or rounded."""
    return MISSING if line.value is None else _number(line, line.value, rows_published)


def _number(line: Line, value: float | None, rows_published: int | None) -> str:
    """A number of a figure."""
    if value is None:
        return ""
    if rows_published is not None:
        return cell(published(line.figure, value, rows_published))
    return shown(value, line.figure.digits)


def _threshold(line: Line) -> str:
    """Thresholds, briefly."""
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
