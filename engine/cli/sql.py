"""The command `tablepack sql`: one SELECT, answered from the smallest table that covers it.

Without a statement it reads many from a prompt. Writes the answer as a table, CSV, JSON, Markdown, Parquet or a
workbook, and notes which table answered, how noisy it is, and warnings.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import duckdb
import typer

from engine.cli.console import Force, ReleasePath, Trust, notes, out, print_answer, write
from engine.cli.prompt import prompt
from engine.errors import SpecError
from engine.outputs import check_output, output_file
from engine.schema import literal
from engine.texts import figure_text, text_table
from queries.release import open_release
from queries.sql import Result, workbook_of

Form = Literal["table", "csv", "json", "markdown", "parquet", "xlsx"]
FORMS: dict[str, Form] = {
    ".csv": "csv",
    ".json": "json",
    ".md": "markdown",
    ".parquet": "parquet",
    ".xlsx": "xlsx",
}
"""Default of --format by the ending of --output."""
AS_TABLE = ("", ".txt")
"""Endings of files that hold a table as it is printed."""
MOST_ROWS = 200
"""Rows printed on a terminal; a file or a pipe gets all."""
MOST_IN_A_SHEET = 1_048_575
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
            help="By default what the name of --output ends in (.txt or nothing: table).",
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
    status: Annotated[
        bool,
        typer.Option("--status", help="Add columns <name>_status: which figures are released."),
    ] = False,
    force: Force = False,
    trust: Trust = None,
) -> None:
    """Ask a release anything in SQL; the smallest table that covers the columns answers."""
    if form in ("parquet", "xlsx") and output is None:
        raise SpecError(f"--format {form} needs --output FILE")
    chosen = form or _form_of(output)
    tables = _own_tables(own)
    put = partial(_write_result, form=chosen, output=output, force=force, inputs=tables.values())
    if output is not None:
        check_output(output, force=force, inputs=tables.values())
    with open_release(release, trust=trust) as opened:

        def answer(text: str) -> None:
            if explain:
                out().print(str(opened.explain(text, tables=tables)), markup=False)
                return
            result = opened.sql(text, tables=tables, intervals=intervals, status=status)
            put(result)
            for line in _remarks(result, chosen):
                notes().print(line, soft_wrap=True, markup=False)

        if statement is None and sys.stdin.isatty():
            if output is not None:
                raise SpecError("--output is for one statement: give it as an argument")
            prompt(opened, answer)
        else:
            answer(_read() if statement in (None, "-") else str(statement))


def _remarks(result: Result, form: Form) -> list[str]:
    """What to say of an answer: what of it is not released, where it is from, what it does not mean."""
    unreleased = result.marks.notes(result.entity, is_marked=_is_shown(form))
    return [*unreleased, result.source, *(f"warning: {warning}" for warning in result.warnings)]


def _read() -> str:
    """The statement on standard input."""
    try:
        text = sys.stdin.read()
        text.encode("utf-8")
    except UnicodeError as error:
        at = getattr(error, "start", 0) + 1
        raise SpecError(f"standard input: is not UTF-8 (at place {at})") from None
    return text


def _form_of(output: Path | None) -> Form:
    """The form of a file with this name."""
    suffix = "" if output is None else output.suffix.lower()
    if suffix not in FORMS and suffix not in AS_TABLE:
        raise SpecError(
            f"{output}: answers are not written as {suffix}; end its name in {', '.join(FORMS)} or .txt, "
            "or say what it is to hold with --format"
        )
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


def _write_result(
    result: Result, form: str, output: Path | None, *, force: bool, inputs: Iterable[Path]
) -> None:
    """Write an answer in one form, to a file or to standard output."""
    texts = {"csv": result.to_csv, "json": result.to_json, "markdown": lambda: _markdown(result)}
    text = texts.get(form)
    if output is not None:
        with output_file(output, force=force, inputs=inputs) as part:
            if form == "parquet":
                _write_parquet(result, part)
            elif form == "xlsx":
                part.write_bytes(_workbook(result))
            else:
                whole = text() if text is not None else _whole(result)
                part.write_text(whole, encoding="utf-8", newline="")
    elif text is not None:
        write(text())
    else:
        hidden = len(result.rows) - MOST_ROWS if sys.stdout.isatty() else 0
        rows = result.shown(MOST_ROWS if hidden > 0 else None)
        print_answer(result.columns, [[figure_text(v) for v in row] for row in rows])
        if hidden > 0:
            notes().print(f"... and {hidden:,} more rows: --format csv has all", markup=False)


def _is_shown(form: str) -> bool:
    """Whether a form is for people, with marks in the place of figures; else for programs, which get the figures."""
    return form in ("table", "markdown", "xlsx")


def _whole(result: Result) -> str:
    """An answer as text, all rows of it."""
    notes = result.marks.notes(result.entity, is_marked=True)
    return text_table(result.columns, result.shown(), [*notes, result.source]) + "\n"


def _markdown(result: Result) -> str:
    """An answer as a table of Markdown, numbers to the right."""
    rows = [[figure_text(v) for v in row] for row in result.shown()]
    numeric = [
        any(v is not None for v in column)
        and all(v is None or isinstance(v, int | float | Decimal) for v in column)
        for column in zip(*result.rows, strict=True)
    ] or [False] * len(result.columns)
    marks = ["--:" if is_number else "---" for is_number in numeric]
    lines = [list(result.columns), marks, *rows]
    escaped = [[re.sub(r"([|\\])", r"\\\1", v).replace("\n", " ") for v in row] for row in lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in escaped)


def _workbook(result: Result) -> bytes:
    """An answer as a workbook, with a sheet that says where it is from."""
    if len(result) > MOST_IN_A_SHEET:
        raise SpecError(
            f"{len(result):,} rows: a worksheet holds {MOST_IN_A_SHEET:,}; write .csv or .parquet, or ask for fewer"
        )
    warned = [("Warning", warning) for warning in result.warnings]
    unreleased = [("How sure", line) for line in result.marks.notes(result.entity, is_marked=True)]
    origin = [("How sure", result.source), *unreleased, *warned]
    return workbook_of(result.columns, result.shown(), origin)


def _write_parquet(result: Result, path: Path) -> None:
    """Write an answer as Parquet."""
    with duckdb.connect() as con:
        con.register("answer", result.df())
        con.execute(f"COPY answer TO {literal(str(path))} (FORMAT parquet)")
