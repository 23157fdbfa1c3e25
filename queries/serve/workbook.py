"""A workbook sheet with a cross table as on the page, with intervals and marks.

Numbers stay numbers: unreliable figures are marked by their number format, so that formulas over them still work.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.errors import TooLarge

MOST_COLUMNS = 16_384
"""Most columns of a sheet in common spreadsheet programs, which drop any more without a message."""
Rows = Sequence[Sequence[Any]]
_STATUS = {
    "low": ("low", "close to zero, within the noise"),
    "unreliable": ("unreliable", "the noise is large relative to the figure"),
    "not released": ("not released", "too few to show, or none: we do not say which"),
    "structural zero": ("impossible", "excluded by the definition of the variables"),
}
"""Word and meaning of each status that is shown."""
_PARTS = ("figure", "from", "to")
_TOO_WIDE = (
    f"The ends of the intervals are left out here, as a sheet can have at most {MOST_COLUMNS:,} columns; see the "
    "sheet Rows"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """An answer as shown on the page."""

    title: str
    body: Mapping[str, Any]  # Heads, cells and totals as plain values
    # Row order, as `down.0` or `up.all`; empty: as released.
    sort: str = ""
    has_intervals: bool = True  # Show the ends of the noise intervals next to the figures


def cross_table(shown: Shown, book: Any) -> None:
    """Add a sheet to a book: title, column and row heads, totals, and the meaning of marks."""
    body = shown.body
    left, depth = max(len(body["rows"]), 1), len(body["cols"])
    heads = [*body["col_heads"], *([["All"]] if _has_all(body) else [])]
    parts, words = _fitting(shown, left, len(heads)), body["words"]
    is_cut = shown.has_intervals and parts != _PARTS
    sheet = book.add_worksheet("Table")
    top = 1 + depth + (1 if depth else 0) + 1
    sheet.write_string(0, 0, shown.title, book.add_format({"bold": True, "font_size": 13}))
    _heads(book, sheet, body, heads, parts)
    write = _Cells(
        book=book, sheet=sheet, n_parts=len(parts), number=_format(body), is_share=_is_share(body)
    )
    bold = book.add_format({"bold": True, "valign": "top"})
    at = top
    for r in _order(body, shown.sort):
        for j, text in enumerate(body["row_heads"][r] or ["All"]):
            sheet.write_string(at, j, text)
        for c, (side, i) in enumerate(_row(body, r)):
            write.cell(at, left + c * len(parts), side, i)
        at += 1
    if (last := _last_row(body)) is not None:
        sheet.write_string(at, 0, "All", bold)
        for c, (side, i) in enumerate(last):
            write.cell(at, left + c * len(parts), side, i)
        at += 1
    sheet.freeze_panes(top, left)
    sheet.set_column(0, left - 1, 26)
    sheet.set_column(left, left + len(heads) * len(parts) - 1, 11)
    _marks(book, sheet, at + 1, write.seen, [*([_TOO_WIDE] if is_cut else []), words])


def _fitting(shown: Shown, left: int, n_heads: int) -> tuple[str, ...]:
    """The columns per figure: without interval ends if the sheet would be too wide."""
    for parts in (_PARTS, _PARTS[:1]) if shown.has_intervals else (_PARTS[:1],):
        if left + n_heads * len(parts) <= MOST_COLUMNS:
            return parts
    raise TooLarge(
        f"The table would be too wide for a workbook: {left + n_heads:,} columns, and a sheet can have at most "
        f"{MOST_COLUMNS:,}; move a variable to the rows, or use CSV"
    )


def _heads(
    book: Any, sheet: Any, body: Mapping[str, Any], heads: Rows, parts: Sequence[str]
) -> None:
    """The head rows: variables, their values, and the parts of each figure."""
    bold = book.add_format({"bold": True, "text_wrap": True, "valign": "bottom"})
    over = book.add_format({"bold": True, "align": "center", "text_wrap": True, "bottom": 1})
    quiet = book.add_format({"italic": True, "align": "right", "font_color": "#5b6470"})
    left, depth, wide = max(len(body["rows"]), 1), len(body["cols"]), len(parts)
    below = 1 + depth + (1 if depth else 0)
    for j, column in enumerate(body["rows"]):
        sheet.write_string(below, j, column["label"], bold)
    if depth:
        names = ", ".join(column["label"] for column in body["cols"])
        _across(sheet, 1, left, len(body["col_heads"]) * wide, names, over)
    for level in range(depth):
        keys = [tuple(h[: level + 1]) if len(h) > level else (*h, level) for h in heads]
        for _, run in itertools.groupby(range(len(heads)), key=keys.__getitem__):
            places = list(run)
            text = heads[places[0]][level] if len(heads[places[0]]) > level else ""
            _across(sheet, 2 + level, left + places[0] * wide, len(places) * wide, str(text), over)
    for c in range(len(heads)):
        for k, part in enumerate(parts):
            sheet.write_string(below, left + c * wide + k, part, quiet)


def _across(sheet: Any, i: int, j: int, wide: int, text: str, form: Any) -> None:
    """A head over one or more columns."""
    if wide > 1:
        sheet.merge_range(i, j, i, j + wide - 1, "", form)
    sheet.write_string(i, j, text, form)


@dataclass(kw_only=True)
class _Cells:
    """Writes figures with their intervals and records which statuses occur."""

    book: Any
    sheet: Any
    n_parts: int
    number: str
    is_share: bool

    def __post_init__(self) -> None:
        self.seen: dict[str, None] = {}
        self._formats: dict[tuple[str, bool], Any] = {}

    def cell(self, i: int, j: int, side: Mapping[str, Any] | None, at: int) -> None:
        """One figure; without a source, the 100 % that shares are of, or nothing."""
        if side is None:
            if self.is_share:
                self.sheet.write_number(i, j, 1, self._format("", is_end=False))
            return
        status, value = side["status"][at], side["value"][at]
        if status in _STATUS:
            self.seen[status] = None
        if value is None or status == "structural zero":
            word = _STATUS.get(status, ("",))[0]
            self.sheet.write_string(i, j, word, self._format(status, is_end=False))
            return
        self.sheet.write_number(i, j, value, self._format(status, is_end=False))
        for k, end in enumerate(("low", "high")[: self.n_parts - 1], 1):
            if side[end][at] is not None:
                self.sheet.write_number(i, j + k, side[end][at], self._format("", is_end=True))

    def _format(self, status: str, *, is_end: bool) -> Any:
        """The format of a number: marks are part of the format, not of the value."""
        if (status, is_end) not in self._formats:
            mark = f'{self.number} "({_STATUS[status][0]})"' if status in _STATUS else self.number
            options: dict[str, Any] = {"num_format": mark, "align": "right"}
            options |= {"font_color": "#5b6470"} if is_end else {}
            options |= {"bg_color": "#fbf0d4"} if status in ("low", "unreliable") else {}
            options |= {"font_color": "#5b6470", "italic": True} if status in _GREY else {}
            self._formats[status, is_end] = self.book.add_format(options)
        return self._formats[status, is_end]


_GREY = ("not released", "structural zero")


def _marks(book: Any, sheet: Any, at: int, seen: Mapping[str, None], words: Sequence[str]) -> None:
    """The meaning of the marks, and notes on accuracy."""
    quiet = book.add_format({"font_color": "#5b6470"})
    for k, text in enumerate([*(": ".join(_STATUS[s]) for s in seen), *filter(None, words)]):
        sheet.write_string(at + k, 0, text, quiet)


def _format(body: Mapping[str, Any]) -> str:
    """The number format of the figures."""
    if body["measure"] == "ratio":
        return "0.000"
    if body["percent"] != "none":
        return "0.0%"
    return "#,##0" if body["measure"] in ("count", "sum") else "#,##0.##"


def _is_share(body: Mapping[str, Any]) -> bool:
    return bool(body["measure"] != "ratio" and body["percent"] != "none")


def _has_all(body: Mapping[str, Any]) -> bool:
    """Whether the last column has row totals, as on the page."""
    if body["row_total"] is not None:
        return True
    is_whole = body["total"] is not None and not body["rows"]
    return bool(body["cols"]) and (is_whole or (_is_share(body) and body["percent"] == "row"))


def _row(body: Mapping[str, Any], r: int) -> Iterator[tuple[Mapping[str, Any] | None, int]]:
    """Source and index of each figure in a row."""
    width = len(body["col_heads"])
    for c in range(width):
        yield body["cells"], r * width + c
    if body["row_total"] is not None:
        yield body["row_total"], r
    elif _has_all(body):
        yield body["total"], 0


def _last_row(body: Mapping[str, Any]) -> list[tuple[Mapping[str, Any] | None, int]] | None:
    """Source and index of each figure in the total row; None if there is none."""
    width = len(body["col_heads"])
    side = body["col_total"]
    if side is None and body["rows"] and not body["cols"]:
        side = body["total"]
    is_hundred = (
        _is_share(body) and body["rows"] and (body["percent"] == "column" or not body["cols"])
    )
    if side is None and not is_hundred:
        return None
    line: list[tuple[Mapping[str, Any] | None, int]] = [(side, c) for c in range(width)]
    return [*line, (body["total"], 0)] if _has_all(body) else line


def _order(body: Mapping[str, Any], sort: str) -> list[int]:
    """The selected row order; rows without a figure come last."""
    rows = list(range(len(body["row_heads"])))
    way, _, at = sort.partition(".")
    width = len(body["col_heads"])
    side = body["row_total"] if at == "all" else body["cells"]
    if not sort or side is None or (at != "all" and int(at) >= width):
        return rows
    values = [side["value"][r if at == "all" else r * width + int(at)] for r in rows]
    sign = 1 if way == "up" else -1
    return sorted(rows, key=lambda r: (values[r] is None, sign * (values[r] or 0), r))
