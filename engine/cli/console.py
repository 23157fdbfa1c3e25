"""Shared by all commands: common options, output streams, a progress bar with the time left, tables, JSON.

Never shows confidential data: only stages, numbers of tables and the contents of releases.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.segment import Segment
from rich.text import Text

from engine.errors import SpecError
from engine.progress import Progress, silent
from engine.texts import names_from, shown

if TYPE_CHECKING:
    from rich.table import Table

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON; no progress bar.")]
ReleasePath = Annotated[Path, typer.Argument(help="Release file.", metavar="RELEASE")]
Trust = Annotated[
    Path | None,
    typer.Option(
        "--trust",
        help="Public key: refuse releases that are not signed by it.",
        envvar="TABLEPACK_TRUST",
        show_envvar=True,
    ),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Overwrite an existing file. Never overwrites a key or its ledgers, a release, a spec, or a data source "
        "named by a spec in the same or the current folder.",
    ),
]
Tables = Annotated[
    list[str] | None,
    typer.Option("--tables", help="Columns of one table, separated by commas; may be repeated."),
]
Width = Annotated[
    int | None,
    typer.Option("--width", min=1, help="Include all tables of this many columns."),
]
Frame = Annotated[
    Path | None,
    typer.Option(
        help="Also write all results as one tidy table, with breakdowns: .csv or .json. CONFIDENTIAL."
    ),
]
JsonOnly = Annotated[bool, typer.Option("--json", help="Print the JSON instead of a summary.")]

FIRST_LINE, NEXT_LINE = 2.0, 10.0
"""Seconds until the first progress line in a log, and between later ones."""
_UNBOUNDED = 1_000_000
STAGES = {
    "reading": "reading the source",
    "tokens": "assigning entity tokens",
    "digests": "checking the vintage",
    "compiling": "compiling, once per installation",
    "tables": "measuring and fitting tables",
    "wide table": "fitting a wide table",
    "columns": "profiling columns",
    "pairs": "comparing columns",
    "exposure": "computing exposure",
    "margins": "counting margins",
    "noise": "drawing noise",
    "fit": "fitting the joint distribution",
    "planning": "measuring tables",
    "people": "simulating people",
    "exporting": "exporting tables",
    "tabulating": "tabulating",
    "writing tables": "writing tables",
    "writing the workbook": "writing the workbook",
    "writing pages": "writing pages",
    "writing the report": "writing the report",
    "done": "done",
}


class PlainConsole(Console):
    r"""A console that shows control characters in texts as `\x1b`, so that no text can control the terminal."""

    def render(self, *given: Any, **how: Any) -> Iterator[Segment]:
        """Yield the segments to print, with control characters escaped except in Rich's own control segments."""
        for segment in super().render(*given, **how):
            text, style, control = segment
            yield segment if control else Segment(shown(text), style)


def write(text: str) -> None:
    """Write text to standard output unchanged; on a terminal, with control characters escaped."""
    sys.stdout.write(shown(text) if sys.stdout.isatty() else text)


def out() -> Console:
    """Console for results (standard output)."""
    return PlainConsole(highlight=False, soft_wrap=not sys.stdout.isatty())


def notes() -> Console:
    """Console for everything else (standard error)."""
    return PlainConsole(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())


@contextmanager
def progress_bar(*, quiet: bool = False) -> Iterator[Progress]:
    """Show a progress bar with the time left of a stage; without a terminal, a line every ten seconds."""
    if quiet:
        yield silent
        return
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=notes(),
        transient=True,
    )
    with bar:
        task, so_far = bar.add_task("starting", total=None), (0, 0)

        def report(stage: str, done: int, total: int) -> None:
            nonlocal so_far
            if done < so_far[0] or total != so_far[1]:
                bar.reset(task)  # each stage has a pace of its own
            so_far = done, total
            bar.update(
                task, description=STAGES.get(stage, stage), completed=done, total=total or None
            )

        yield report


def _spelled(seconds: float) -> str:
    """A duration in a readable unit."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5_400 else f"{seconds / 3_600:.1f} h"


def _lines() -> Progress:
    """Report progress as lines in a log: the first after `FIRST_LINE` seconds, then one every `NEXT_LINE` seconds."""
    due, begun, first, so_far = time.monotonic() + FIRST_LINE, time.monotonic(), 0, (0, 0)

    def report(stage: str, done: int, total: int) -> None:
        nonlocal due, begun, first, so_far
        now = time.monotonic()
        if done < so_far[0] or total != so_far[1]:  # each stage has a pace of its own
            begun, first = now, done
        so_far = done, total
        if now < due:
            return
        due = now + NEXT_LINE
        of = f": {done:,} of {total:,}" if total else ""
        left = ""
        if first < done < total:
            seconds = (now - begun) * (total - done) / (done - first)
            left = f", about {_spelled(seconds)} left"
        notes().print(f"{STAGES.get(stage, stage)}{of}{left} ...", soft_wrap=True, markup=False)

    return report


def entries_of(
    tables: Sequence[str] | None, width: int | None, option: str = "--tables"
) -> list[dict[str, Any]]:
    """The [[tables]] entries that options specify; empty if none was given."""
    entries: list[dict[str, Any]] = []
    for listed in tables or ():
        columns = names_from(listed)
        if not columns:
            raise SpecError(f"{option} {listed!r}: no column given; for example {option} age,sex")
        entries.append({"columns": columns})
    return entries + ([] if width is None else [{"all": width}])


def print_line(text: str) -> None:
    """Print a sentence of the result on standard output, without wrapping: paths and commands can be copied."""
    out().print(text, soft_wrap=True, markup=False)


def print_note(text: str) -> None:
    """Print a sentence that is not part of the result on standard error, without wrapping."""
    notes().print(text, soft_wrap=True, markup=False)


def print_table(title: str, headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; columns of texts that look like numbers are right-aligned."""
    out().print(_table(title, headers, list(rows)))


def print_answer(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows as a table; if it is wider than the screen, one line per value and a blank line between rows."""
    from rich.measure import Measurement

    console, rows = out(), list(rows)
    table = _table("", headers, rows)
    unbounded = console.options.update(max_width=_UNBOUNDED)
    if Measurement.get(console, unbounded, table).maximum <= console.width:
        console.print(table)
    elif rows:
        records = (
            "\n".join(f"{header}: {value}" for header, value in zip(headers, row, strict=True))
            for row in rows
        )
        console.print(Text("\n\n".join(records)), soft_wrap=True)
    else:
        console.print(Text(f"no rows; columns: {', '.join(headers)}"), soft_wrap=True)


def print_json(value: object) -> None:
    """Print JSON on standard output."""
    sys.stdout.write(json.dumps(value, indent=1, default=str) + "\n")


def number(n: int, noun: str) -> str:
    """Return a number with its noun: "1 table", "1,200 tables"."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _table(title: str, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Make a Rich table from rows of text."""
    from rich.table import Table

    table = Table(title=title or None, title_justify="left", show_edge=False, pad_edge=False)
    for position, header in enumerate(headers):
        numeric = all(row[position][:1].isdigit() or row[position][:1] in "-<" for row in rows)
        table.add_column(
            Text(shown(header)), justify="right" if numeric and rows else "left", overflow="fold"
        )
    for row in rows:
        # As Text: "[bold]" in a name is not markup.
        table.add_row(*(Text(shown(cell)) for cell in row))
    return table
