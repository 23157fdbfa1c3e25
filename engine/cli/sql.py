"""The command `tablepack sql`: one SELECT, answered from the smallest table that covers it.

Without a statement it reads many from a prompt. Writes the answer as a table, CSV, JSON, Markdown or Parquet, and notes
which table answered, how noisy it is, and warnings.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

import duckdb
import typer

from engine.cli.console import ReleasePath, notes, out, print_answer
from engine.cli.prompt import prompt
from engine.errors import SpecError, StoreError
from engine.schema import literal
from queries.release import open_release
from queries.sql import Result, text_table

Form = Literal["table", "csv", "json", "markdown", "parquet"]
FORMS: dict[str, Form] = {
    ".csv": "csv",
    ".json": "json",
    ".md": "markdown",
    ".parquet": "parquet",
}
"""Default of --format by the ending of --output."""
MANY, TOO_MANY = 1e5, 1e15
"""Between these, numbers with a fraction have one decimal place; others six digits."""
MOST_ROWS = 200
"""Rows printed on a terminal; a file or a pipe gets all."""
EXAMPLE = 'Example: `tablepack sql census.duckdb "SELECT sex, count(*) FROM data GROUP BY sex"`'
commands = typer.Typer(rich_markup_mode="markdown")


@commands.command("sql", epilog=EXAMPLE)
def sql_command(
    release: ReleasePath,
    statement: Annotated[
        str | None,
        typer.Argument(
            help="One SELECT; `-` reads it from standard input. Without one, a terminal has a prompt."
        ),
    ] = None,
    form: Annotated[
        Form | None,
        typer.Option(
            "--format",
            help="By default what the name of --output ends in, else table.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the answer to a file.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say which table would answer; run nothing.")
    ] = False,
    own: Annotated[
        list[str] | None,
        typer.Option("--with", help="NAME=FILE: a public table of yours to join; may be repeated."),
    ] = None,
    intervals: Annotated[
        bool, typer.Option("--intervals", help="Add noise intervals and statuses where known.")
    ] = False,
) -> None:
    """Ask a release anything in SQL; the smallest table that covers the columns answers."""
    if form == "parquet" and output is None:
        raise SpecError("--format parquet needs --output FILE")
    chosen = form or _form_of(output)
    with open_release(release) as opened:

        def answer(text: str) -> None:
            if explain:
                out().print(str(opened.explain(text, tables=_own_tables(own))), markup=False)
                return
            result = opened.sql(text, tables=_own_tables(own), intervals=intervals)
            _write_result(result, chosen, output)
            notes().print(result.source, soft_wrap=True, markup=False)
            for warning in result.warnings:
                notes().print(f"warning: {warning}", soft_wrap=True, markup=False)

        if statement is None and sys.stdin.isatty():
            if output is not None:
                raise SpecError("--output is for one statement: give it as an argument")
            prompt(opened, answer)
        else:
            answer(sys.stdin.read() if statement in (None, "-") else str(statement))


def _form_of(output: Path | None) -> Form:
    """The form of a file with this name."""
    suffix = "" if output is None else output.suffix.lower()
    return FORMS.get(suffix, "table")


def _own_tables(given: list[str] | None) -> dict[str, Path]:
    """Tables of --with options, by name."""
    tables = {}
    for pair in given or []:
        name, is_pair, file = pair.partition("=")
        if not (name and is_pair and file):
            raise SpecError(f"--with {pair}: write NAME=FILE, such as areas=areas.csv")
        tables[name] = Path(file)
    return tables


def _write_result(result: Result, form: str, output: Path | None) -> None:
    """Write an answer in one form, to a file or to standard output."""
    texts = {"csv": result.to_csv, "json": result.to_json, "markdown": lambda: _markdown(result)}
    text = texts.get(form)
    if output is not None:
        with _written(output) as part:
            if form == "parquet":
                _write_parquet(result, part)
            else:
                whole = text() if text is not None else _whole(result)
                part.write_text(whole, encoding="utf-8", newline="")
    elif text is not None:
        sys.stdout.write(text())
    else:
        hidden = len(result.rows) - MOST_ROWS if sys.stdout.isatty() else 0
        rows = result.rows[:MOST_ROWS] if hidden > 0 else result.rows
        print_answer(result.columns, [[_text(v) for v in row] for row in rows])
        if hidden > 0:
            notes().print(f"... and {hidden:,} more rows: --format csv has all", markup=False)


def _whole(result: Result) -> str:
    """An answer as text, all rows of it."""
    rows = [[_text(v) for v in row] for row in result.rows]
    return text_table(result.columns, rows, [result.source]) + "\n"


def _markdown(result: Result) -> str:
    """An answer as a table of Markdown, numbers to the right."""
    rows = [[_text(v) for v in row] for row in result.rows]
    numeric = [
        any(v is not None for v in column)
        and all(v is None or isinstance(v, int | float | Decimal) for v in column)
        for column in zip(*result.rows, strict=True)
    ] or [False] * len(result.columns)
    marks = ["--:" if is_number else "---" for is_number in numeric]
    lines = [list(result.columns), marks, *rows]
    escaped = [[re.sub(r"([|\\])", r"\\\1", v).replace("\n", " ") for v in row] for row in lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in escaped)


def _write_parquet(result: Result, path: Path) -> None:
    """Write an answer as Parquet."""
    with duckdb.connect() as con:
        con.register("answer", result.df())
        con.execute(f"COPY answer TO {literal(str(path))} (FORMAT parquet)")


@contextmanager
def _written(output: Path) -> Iterator[Path]:
    """Lend a file beside the one to write, which takes its place when it is whole; pipes are written as they are."""
    is_pipe = output.exists() and not output.is_file() and not output.is_dir()
    target = output.resolve()
    part = output if is_pipe else target.parent / f".{target.name[:60]}.{os.getpid()}.part"
    try:
        yield part
        if not is_pipe:
            part.replace(target)
    except (OSError, duckdb.IOException) as error:
        why = getattr(error, "strerror", None) or "disk full, or no such folder"
        raise StoreError(f"{output}: cannot be written ({why})") from None
    finally:
        if not is_pipe:
            with suppress(OSError):
                part.unlink(missing_ok=True)


def _text(value: object) -> str:
    """A value for people."""
    if value is None:
        return "NULL"
    if isinstance(value, float):
        # Six digits, but never 1.23457e+06 for a sum of incomes.
        return f"{value:.1f}" if MANY <= abs(value) < TOO_MANY else f"{value:g}"
    return str(value)
