"""What all commands share: arguments, two streams, a progress bar with the time left, tables, JSON.

Never shows anything of the data: only stages, numbers of tables, and what a release holds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON; no progress bar.")]
ReleasePath = Annotated[Path, typer.Argument(help="Release file.", metavar="RELEASE")]
SpecPath = Annotated[Path, typer.Argument(help="Spec (TOML).", metavar="SPEC")]

Report = Callable[[str, int, int], None]
"""Called with a stage, the number done, the number in all."""
_UNBOUNDED = 1_000_000
STAGES = {
    "reading": "reading the source",
    "tokens": "naming the entities",
    "tables": "measuring and fitting tables",
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
    "writing the report": "drawing and writing the report",
    "done": "done",
}


def out() -> Console:
    """Console for results (standard output)."""
    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


def notes() -> Console:
    """Console for everything that is not a result (standard error)."""
    return Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())


@contextmanager
def progress_bar(*, quiet: bool) -> Iterator[Report]:
    """Show a progress bar with the time left while a long run reports; nothing if `quiet`."""
    if quiet:
        yield lambda _stage, _done, _total: None
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=notes(),
        transient=True,
    )
    with bar:
        task = bar.add_task("starting", total=None)

        def report(stage: str, done: int, total: int) -> None:
            bar.update(
                task, description=STAGES.get(stage, stage), completed=done, total=total or None
            )

        yield report


def print_table(title: str, headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table for people; numbers are given as text, right-aligned where they look like numbers."""
    out().print(_table(title, headers, list(rows)))


def print_answer(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows as a table; where that is wider than the screen, one line a value, a blank line between rows."""
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
        console.print(Text(f"no rows of: {', '.join(headers)}"), soft_wrap=True)


def print_json(value: object) -> None:
    """Print JSON on standard output."""
    sys.stdout.write(json.dumps(value, indent=1, default=str) + "\n")


def number(n: int, noun: str) -> str:
    """Return a number with its noun, such as "1 table" or "1,200 tables"."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _table(title: str, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Make a table of rows of text."""
    table = Table(title=title or None, title_justify="left", show_edge=False, pad_edge=False)
    for position, header in enumerate(headers):
        numeric = all(row[position][:1].isdigit() or row[position][:1] in "-<" for row in rows)
        table.add_column(
            Text(header), justify="right" if numeric and rows else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*map(Text, row))  # as they are: "[bold]" in a name is no markup
    return table
