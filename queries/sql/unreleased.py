"""What a statement asks for but the release does not contain: values, such as a misspelt one, and figures.

Takes a plan; gives the constants that columns of the logical table are compared with, and a remark, with similar
values, on each that equals no released value. Only released values are compared, so a remark reveals nothing about
people. Takes statuses of figures, as computed by `queries.intervals`; gives marks and footnotes. A
mark replaces them in displayed answers, and nothing (None) where programs read them and do not ask for the imputed
numbers.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb

from engine.periods import PERIODS
from engine.schema import Column, quoted
from engine.store import ATTACHED
from engine.units import Unit
from queries.sql.refusals import near_names

NOT_RELEASED = "not released"
MARK = "[c]"
"""Symbol for confidential in the harmonised list of UK government statistics."""
_COLUMN = r'(?P<{0}>"(?:[^"]|"")+"|\w+)'
_NUMBER = r"-?\d{0,30}\.?\d{1,30}(?![\w.+-])"
_CONSTANT = rf"(?:CAST\()?(?P<constant>'(?:[^']|'')*'|{_NUMBER})(?: AS [A-Z]+(?:\(\d+, ?\d+\))?\))?"
_BARE = re.sub(r"\?P<.*?>", "", _CONSTANT)
_WIDENED = re.compile(
    r'CAST\(("(?:[^"]|"")+"|\w+) AS (?:DOUBLE|HUGEINT|TIMESTAMP|DECIMAL\(\d+, ?\d+\))\)'
)
"""A column as DuckDB compares it with a finer constant."""


def _comparison(operators: str) -> re.Pattern[str]:
    """Matches comparisons of a column with constants."""
    operator = f" (?:{operators}) "
    return re.compile(
        f"{_COLUMN.format('left')}{operator}(?P<right>{_BARE})"
        f"|(?P<first>{_BARE}){operator}{_COLUMN.format('second')}"
        rf"|{_COLUMN.format('among')} IN \((?P<listed>{_BARE}(?:, {_BARE})*)\)"
    )


_EQUALS = "=|!=|IS (?:NOT )?DISTINCT FROM"
_EQUAL, _ORDERED = _comparison(_EQUALS), _comparison(f"<|<=|>|>=|{_EQUALS}")
_EACH = re.compile(_CONSTANT)
MOST_REMARKS = 3
"""Most remarks on one statement, and most similar values in each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Released:
    """The released values of a column."""

    labels: Mapping[str, str | None]  # Released values as text, in order, with their labels
    is_category: bool  # Categories; otherwise numbers or dates


def compared(
    plan: list[dict[str, Any]], is_logical: Callable[[str], bool], *, is_ordered: bool = False
) -> tuple[tuple[str, str], ...]:
    """Return the columns that a plan compares with constants, with the constants as text, without duplicates.

    is_logical: Whether a scanned table is the logical table; expressions over others are ignored.
    is_ordered: Not only for equality.
    """
    pairs: dict[tuple[str, str], None] = {}
    for text in _expressions(plan, is_logical):
        plain = _WIDENED.sub(r"\1", text) if is_ordered else text
        for match in (_ORDERED if is_ordered else _EQUAL).finditer(plain):
            column = match["left"] or match["second"] or match["among"]
            listed = match["right"] or match["first"] or match["listed"]
            for constant in _EACH.finditer(listed):
                pairs[_bare(column, '"'), _bare(constant["constant"], "'")] = None
    return tuple(pairs)


def casts(
    plan: list[dict[str, Any]], is_logical: Callable[[str], bool], columns: Collection[str]
) -> list[str]:
    """Return which of some columns a plan casts to another type; `is_logical`: as in `compared`."""
    text = "\n".join(_expressions(plan, is_logical))
    return [c for c in columns if f"CAST({c} AS " in text or f"CAST({quoted(c)} AS " in text]


def _bare(text: str, quote: str) -> str:
    """Return a name or a text without its quotes."""
    return text[1:-1].replace(2 * quote, quote) if text.startswith(quote) else text


def released(con: duckdb.DuckDBPyConnection, column: str) -> Released:
    """Return the released values of a column, over a connection that has the release attached."""
    kind = con.execute(
        f"SELECT kind FROM {ATTACHED}.catalog.columns WHERE name = ?", [column]
    ).fetchall()[0][0]
    labels = con.execute(
        f"SELECT value, label FROM {ATTACHED}.catalog.codes WHERE column_name = ? AND value IS NOT NULL "
        "ORDER BY position",
        [column],
    ).fetchall()
    return Released(labels=dict(labels), is_category=kind == "category")


def remark(column: str, constant: str, values: Released) -> str | None:
    """Return a remark on a constant that a column is compared with; None if it may be a released value.

    values: For numbers, any value between the smallest and the largest is accepted.
    """
    names, is_category = values.labels, values.is_category
    if constant in names or not names or not (is_category or _is_outside(constant, names)):
        return None
    head = f"{column} has no released value {constant!r}, so no row matches it"
    labelled = [value for value, label in names.items() if label == constant]
    if labelled:
        return f"{head}: it is the label of {labelled[0]!r}."
    if not is_category:
        numbers = sorted(map(float, names))
        return f"{head}: released values range from {numbers[0]:g} to {numbers[-1]:g}."
    near = near_names(constant, names)[:MOST_REMARKS] or list(names)[:MOST_REMARKS]
    some = ", ".join(map(repr, near))
    if len(near) == len(names):
        return f"{head}: released values are {some}."
    return f"{head}: released values include {some} (complete list: {column} in catalog.codes)."


def finer(column: Column, constant: str) -> str | None:
    """Return a remark on a constant that is finer than the column it is compared with; None: it is not."""
    step = column.resolution
    try:
        if step is None or step.holds(_read(constant, column.kind)):
            return None
    except ValueError:  # of another type, as in a comparison of texts
        return None
    how = f"by {step}" if step.period else f"rounded to multiples of {float(step.step):g}"
    return f"{column.name} is released {how}, so what is compared with {constant} is not its exact value."


def _read(constant: str, kind: str) -> Any:
    """Read a number, date, timestamp or time of day."""
    if kind in PERIODS:
        of_day = datetime.time if kind == "time" else datetime.datetime
        return of_day.fromisoformat(constant)
    if re.fullmatch(_NUMBER, constant):
        return constant
    raise ValueError(constant)


def _is_outside(constant: str, names: Mapping[str, str | None]) -> bool:
    """Whether a number is outside the range of released ones; False if any is not a number."""
    try:
        numbers, number = [float(name) for name in names], float(constant)
    except ValueError:
        return False
    return not min(numbers) <= number <= max(numbers)


def _expressions(plan: list[dict[str, Any]], is_logical: Callable[[str], bool]) -> Iterator[str]:
    """Yield the expressions of all operators with input from the logical table."""
    for node in plan:
        children = node.get("children") or []
        if any(map(is_logical, _below(node))):
            for key, value in (node.get("extra_info") or {}).items():
                if key not in ("Table", "CTE Name"):
                    yield from value if isinstance(value, list) else (str(value),)
        yield from _expressions(children, is_logical)


def _below(node: Mapping[str, Any]) -> Iterator[str]:
    """Yield the tables that are scanned at or below an operator."""
    yield str((node.get("extra_info") or {}).get("Table", ""))
    for child in node.get("children") or []:
        yield from _below(child)


@dataclass(frozen=True, kw_only=True, slots=True)
class Marks:
    """Statuses of the figures in an answer."""

    # Status of every row, by position of the figure's column.
    statuses: Mapping[int, Sequence[str]] = field(default_factory=dict)
    # Reasons why the status of some or all figures is unknown.
    unknown: tuple[str, ...] = ()

    @property
    def n_figures(self) -> int:
        """Number of figures whose status is known."""
        return sum(map(len, self.statuses.values()))

    @property
    def n_unreleased(self) -> int:
        """Number of figures that are not released."""
        return sum(status == NOT_RELEASED for of in self.statuses.values() for status in of)

    def marked(self, rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
        """Return rows, starting with the first, with a mark for each figure that is not released."""
        return marked(rows, self.places())

    def places(self) -> list[tuple[int, int]]:
        """Row and column of each figure that is not released, in row order."""
        return sorted(
            (i, at)
            for at, of in self.statuses.items()
            for i, status in enumerate(of)
            if status == NOT_RELEASED
        )

    def notes(self, entity: Unit, *, instead: str = MARK) -> list[str]:
        """Footnotes of an answer.

        instead: What stands for unreleased figures: a mark, "missing" (nothing) or "imputed" (the imputed numbers).
        """
        lines = []
        if self.n_unreleased:
            n, of = self.n_unreleased, self.n_figures
            figures = "figure is" if of == 1 else "figures are"
            why = f"too few {entity.many}, or none: we do not say which"
            given = {
                "missing": " and left empty",
                "imputed": "; the numbers given were imputed without reference to the data",
            }.get(instead, "")
            mark = "" if given else f"{instead}: "
            lines.append(
                f"{mark}{n:,} of {of:,} {figures} not released ({why}){given}. Totals "
                "include them, so the figures shown may add up to less."
            )
        lines += [f"It is not known which figures are released: {why}" for why in self.unknown]
        return lines


def marked(
    rows: Sequence[Sequence[Any]], places: Collection[tuple[int, int]], mark: str | None = MARK
) -> list[tuple[Any, ...]]:
    """Return rows with a mark, or nothing (None), at some positions."""
    hidden = set(places)
    return [
        tuple(mark if (i, at) in hidden else value for at, value in enumerate(row))
        for i, row in enumerate(rows)
    ]
