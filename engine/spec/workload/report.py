"""What becomes of a workload: which tables answer which statements, and which statements get no answer.

Takes questions and tables; gives a frozen `Workload` with rows for a screen, sentences and plain values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from engine.schema import ColumnSet

Place = tuple[str, int]
"""Name of a file, and the line in which a statement begins."""
LINES_SHOWN = 6
"""Lines that people read of what is asked often."""
SETS_SHOWN = 8
"""Combinations that a sentence names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What statements of a file ask, each time that they stand there."""

    columns: ColumnSet  # What they read. None: as `SELECT count(*)`, which any table answers.
    places: tuple[Place, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Unanswered:
    """Statements that the release could not answer, all for one reason."""

    reason: str
    places: tuple[Place, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """Statements that read the same columns."""

    columns: ColumnSet
    places: tuple[Place, ...]
    # The narrowest tables with these columns; of several, the one of fewest rows answers.
    tables: tuple[ColumnSet, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """The statements of all files of a spec."""

    asked: tuple[Asked, ...]  # Most often asked first
    unanswered: tuple[Unanswered, ...]  # Most frequent first
    tables: tuple[ColumnSet, ...]  # Tables that are in the release for these statements alone
    # Those of them whose columns a wider table has, too: alone they are far more exact.
    kept: tuple[ColumnSet, ...]
    heads: ClassVar[tuple[str, ...]] = ("columns read", "asked", "lines", "answered from")

    @property
    def left_out(self) -> tuple[ColumnSet, ...]:
        """Combinations asked for that have no table of their own."""
        return tuple(a.columns for a in self.asked if a.columns and a.columns not in a.tables)

    def rows_of(self, top: int | None = None) -> list[tuple[str, ...]]:
        """What is asked as texts under `heads`, most often first; the first ones, or all."""
        return [
            (
                ", ".join(one.columns) or "none",
                f"{len(one.places):,}",
                self._lines(one.places),
                " or ".join(", ".join(table) for table in one.tables) or "any table",
            )
            for one in self.asked[:top]
        ]

    def sentences(self, top: int | None = None) -> list[str]:
        """What tables and statements are together; what gets no answer, the first ones or all."""
        n_asked = sum(len(one.places) for one in self.asked)
        n_all = n_asked + sum(len(one.places) for one in self.unanswered)
        n, sets = len(self.tables), len(self.asked)
        out = [
            f"{n_asked:,} of {n_all:,} statements have an answer; they read {sets:,} combination{_s(sets)} of columns, "
            f"and {n:,} table{_s(n)} {'is' if n == 1 else 'are'} in the release for them"
        ]
        if self.left_out:
            out.append(
                f"no table of their own: {_sets(self.left_out)}; one with a column more shows the same counts up to "
                "its rounding gap, with noise intervals two to three times as wide"
            )
        if self.kept:
            out.append(
                f"kept although a wider table has their columns: {_sets(self.kept)}; from that one noise intervals "
                "would be five times as wide or more"
            )
        for one in self.unanswered[:top]:
            times = len(one.places)
            out.append(
                f"no answer to {times:,} statement{_s(times)} (line {self._lines(one.places)}): {one.reason}"
            )
        hidden = 0 if top is None else len(self.unanswered) - top
        if hidden > 0:
            out.append(f"... and {hidden:,} more kinds of statements without an answer (--all)")
        return out

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "asked": [
                {
                    "columns": list(one.columns),
                    "times": len(one.places),
                    "lines": [list(place) for place in one.places],
                    "answered_from": [list(table) for table in one.tables],
                }
                for one in self.asked
            ],
            "unanswered": [
                {"reason": one.reason, "lines": [list(place) for place in one.places]}
                for one in self.unanswered
            ],
            "tables": [list(table) for table in self.tables],
            "left_out": [list(table) for table in self.left_out],
            "kept": [list(table) for table in self.kept],
        }

    def _lines(self, places: Sequence[Place]) -> str:
        """Lines as people read them: numbers, after the file's name where there are several files."""
        listed = [*(one.places for one in self.asked), *(one.places for one in self.unanswered)]
        files = {file for held in listed for file, _ in held}
        named, last = [], ""
        for file, line in places[:LINES_SHOWN]:
            named.append(f"{line}" if len(files) == 1 or file == last else f"{file} {line}")
            last = file
        more = len(places) - LINES_SHOWN
        return ", ".join(named) + (f" and {more:,} more" if more > 0 else "")


def workload_of(
    questions: Sequence[Question],
    unanswered: Sequence[Unanswered],
    *,
    added: Collection[ColumnSet],
    tables: Collection[ColumnSet],
) -> Workload:
    """Say which of the tables answers what.

    questions: Of all files; what reads the same columns becomes one.
    """
    by_columns: dict[ColumnSet, list[Place]] = {}
    for question in questions:
        by_columns.setdefault(question.columns, []).extend(question.places)
    by_reason: dict[str, list[Place]] = {}
    for one in unanswered:
        by_reason.setdefault(one.reason, []).extend(one.places)
    holding: dict[str, set[ColumnSet]] = {}
    for table in tables:
        for name in table:
            holding.setdefault(name, set()).add(table)
    asked = [
        Asked(columns=columns, places=_by_line(places), tables=_narrowest(columns, holding))
        for columns, places in by_columns.items()
    ]
    return Workload(
        asked=tuple(sorted(asked, key=lambda one: (-len(one.places), one.columns))),
        unanswered=tuple(
            Unanswered(reason=reason, places=_by_line(places))
            for reason, places in sorted(by_reason.items(), key=lambda item: -len(item[1]))
        ),
        tables=_in_order(added),
        kept=_in_order(t for t in added if len(_covering(t, holding)) > 1),
    )


def _by_line(places: Sequence[Place]) -> tuple[Place, ...]:
    """Places by line, files in the order in which they were read."""
    files = list(dict.fromkeys(file for file, _ in places))
    return tuple(sorted(places, key=lambda place: (files.index(place[0]), place[1])))


def _covering(columns: ColumnSet, holding: Mapping[str, set[ColumnSet]]) -> set[ColumnSet]:
    """The tables that have all of some columns."""
    return set.intersection(*(holding[name] for name in columns)) if columns else set()


def _narrowest(columns: ColumnSet, holding: Mapping[str, set[ColumnSet]]) -> tuple[ColumnSet, ...]:
    """The tables of fewest columns among them."""
    covering = _covering(columns, holding)
    least = min(map(len, covering), default=0)
    return _in_order(table for table in covering if len(table) == least)


def _in_order(tables: Iterable[ColumnSet]) -> tuple[ColumnSet, ...]:
    """By width, then name."""
    return tuple(sorted(tables, key=lambda table: (len(table), table)))


def _sets(tables: Sequence[ColumnSet]) -> str:
    """Combinations in a sentence."""
    named = "; ".join(", ".join(table) for table in tables[:SETS_SHOWN])
    more = len(tables) - SETS_SHOWN
    return named + (f" and {more:,} more" if more > 0 else "")


def _s(n: int) -> str:
    """The ending of a plural."""
    return "" if n == 1 else "s"
