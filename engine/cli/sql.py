"""The command `tablepack sql`: one SELECT, answered from the smallest table that covers its columns.

Without a statement it opens an interactive prompt. Writes the answer as a table, CSV, JSON, Markdown, Parquet or a
workbook, and prints which table answered, how noisy it is, and warnings.
"""

from __future__ import annotations

import importlib
import re
import signal
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import duckdb
import typer

from engine.cli import signal_handler
from engine.cli.console import (
    Force,
    ReleasePath,
    Trust,
    notes,
    out,
    print_answer,
    print_line,
    print_note,
    write,
)
from engine.cli.options import Given, taking
from engine.errors import QueryRefused, SpecError
from engine.outputs import check_output, output_file
from engine.schema import literal
from engine.texts import figure_text, names_text, text_table
from queries.release import Release, open_release
from queries.sql import MARK, Result, Unreleased, workbook_of

Form = Literal["table", "csv", "json", "markdown", "parquet", "xlsx"]
FORMS: dict[str, Form] = {
    ".csv": "csv",
    ".json": "json",
    ".md": "markdown",
    ".parquet": "parquet",
    ".xlsx": "xlsx",
}
"""Default of --format by the suffix of --output."""
AS_TABLE = ("", ".txt")
"""Suffixes of files that contain the table as it is printed."""
MOST_ROWS = 200
"""Rows printed on a terminal; a file or a pipe gets all."""
MOST_IN_A_SHEET = 1_048_575
EXAMPLE = 'Example: `tablepack sql census.duckdb "SELECT sex, count(*) FROM data GROUP BY sex"`'
HELP = "End each statement with a semicolon. Commands: .tables, .columns, .notes; .quit or Ctrl-D to leave."
FIRST, NEXT = "> ", ". "
_QUIT = (".quit", ".exit", ".q")
commands = typer.Typer(rich_markup_mode="markdown")


@commands.command("sql", epilog=EXAMPLE)
@taking(Release.sql, leave=("text", "tables"))
def sql_command(
    given: Given,
    release: ReleasePath,
    statement: Annotated[
        str | None,
        typer.Argument(
            help="One SELECT; `-` reads it from standard input. Without a statement, a terminal opens a prompt."
        ),
    ] = None,
    form: Annotated[
        Form | None,
        typer.Option(
            "--format",
            help="Output format; by default from the suffix of --output (none or .txt: table).",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the answer to a file.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show which table would answer; run nothing.")
    ] = False,
    own: Annotated[
        list[str] | None,
        typer.Option("--with", help="NAME=FILE: your own public table to join; may be repeated."),
    ] = None,
    is_imputed: Annotated[
        bool,
        typer.Option(
            "--imputed",
            help="CSV, JSON and Parquet: write imputed numbers for figures that are not released, instead of "
            "nothing, and a column NAME_status.",
        ),
    ] = False,
    force: Force = False,
    trust: Trust = None,
) -> None:
    """Query a release in SQL; the smallest table that covers the columns answers."""
    if form in ("parquet", "xlsx") and output is None:
        raise SpecError(f"--format {form} needs --output FILE")
    chosen = form or _form_of(output)
    tables = _own_tables(own)
    unreleased: Unreleased = "imputed" if is_imputed else "missing"
    put = partial(
        _write_result,
        form=chosen,
        output=output,
        unreleased=unreleased,
        force=force,
        inputs=tables.values(),
    )
    if output is not None:
        check_output(output, force=force, inputs=tables.values())
    with open_release(release, trust=trust) as opened:

        def answer(text: str) -> None:
            if explain:
                out().print(str(opened.explain(text, tables=tables)), markup=False)
                return
            result = opened.sql(text, tables=tables, **given)
            put(result)
            for line in _remarks(result, MARK if _is_shown(chosen) else unreleased):
                print_note(line)

        if statement is None and sys.stdin.isatty():
            if output is not None:
                raise SpecError(
                    "--output needs a statement as an argument; the prompt writes no files"
                )
            prompt(opened, answer)
        else:
            answer(_read() if statement in (None, "-") else str(statement))


def _remarks(result: Result, instead: str) -> list[str]:
    """The notes on an answer: which figures are not released, which table it is from, warnings."""
    return [
        *result.marks.notes(result.entity, instead=instead),
        result.source,
        *(f"warning: {warning}" for warning in result.warnings),
    ]


def _read() -> str:
    """Read the statement from standard input."""
    try:
        text = sys.stdin.read()
        text.encode("utf-8")
    except UnicodeError as error:
        at = getattr(error, "start", 0) + 1
        raise SpecError(f"standard input: not valid UTF-8 at position {at}") from None
    return text


def _form_of(output: Path | None) -> Form:
    """The output format for a file of this name."""
    suffix = "" if output is None else output.suffix.lower()
    if suffix not in FORMS and suffix not in AS_TABLE:
        raise SpecError(
            f"{output}: answers cannot be written as {suffix}; use {', '.join(FORMS)} or .txt, or set the format with "
            "--format"
        )
    return FORMS.get(suffix, "table")


def _own_tables(given: list[str] | None) -> dict[str, Path]:
    """The tables given with --with, by name."""
    tables = {}
    for pair in given or []:
        name, is_pair, file = pair.partition("=")
        if not (name and is_pair and file):
            raise SpecError(f"--with {pair}: expected NAME=FILE, for example areas=areas.csv")
        tables[name] = Path(file)
    return tables


def _write_result(
    result: Result,
    form: str,
    output: Path | None,
    *,
    unreleased: Unreleased,
    force: bool,
    inputs: Iterable[Path],
) -> None:
    """Write an answer in one format, to a file or to standard output."""
    texts = {
        "csv": lambda: result.to_csv(unreleased=unreleased),
        "json": lambda: result.to_json(unreleased=unreleased),
        "markdown": lambda: _markdown(result),
    }
    text = texts.get(form)
    if output is not None:
        with output_file(output, force=force, inputs=inputs) as part:
            if form == "parquet":
                _write_parquet(result, part, unreleased)
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
            print_note(
                f"... and {hidden:,} more {'row' if hidden == 1 else 'rows'}; --format csv prints all"
            )


def _is_shown(form: str) -> bool:
    """Whether a format is read by people and shows marks instead of unreleased figures; programs get the figures."""
    return form in ("table", "markdown", "xlsx")


def _whole(result: Result) -> str:
    """An answer as text, with all rows."""
    notes = result.marks.notes(result.entity)
    return text_table(result.columns, result.shown(), [*notes, result.source]) + "\n"


def _markdown(result: Result) -> str:
    """An answer as a Markdown table, numbers right-aligned."""
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
    """An answer as a workbook, with a sheet on its origin and accuracy."""
    if len(result) > MOST_IN_A_SHEET:
        raise SpecError(
            f"{len(result):,} rows: a worksheet holds at most {MOST_IN_A_SHEET:,}; write .csv or .parquet, or "
            "select fewer rows"
        )
    warned = [("Warning", warning) for warning in result.warnings]
    unreleased = [("Accuracy", line) for line in result.marks.notes(result.entity)]
    origin = [("Accuracy", result.source), *unreleased, *warned]
    return workbook_of(result.columns, result.shown(), origin)


def _write_parquet(result: Result, path: Path, unreleased: Unreleased) -> None:
    with duckdb.connect() as con:
        con.register("answer", result.df(unreleased=unreleased))
        con.execute(f"COPY answer TO {literal(str(path))} (FORMAT parquet)")


def prompt(
    release: Release, answer: Callable[[str], None], *, read: Callable[[str], str] = input
) -> None:
    """Read and answer statements until the input ends."""
    with suppress(ImportError):
        importlib.import_module("readline")  # line editing and history
    print_note(f"Example: SELECT count(*) FROM {release.logical_name};  {HELP}")
    lines: list[str] = []
    while True:
        try:
            lines.append(read(NEXT if lines else FIRST))
        except KeyboardInterrupt:
            _clear_interrupt()
            lines = []
            notes().print()
            continue
        except EOFError:
            notes().print()
            return
        text = "\n".join(lines).strip()
        if text.lower() in _QUIT:
            return
        if text.startswith(".") or _is_ended(text) or not text:
            lines = []
            _run(release, text, answer)


def _is_ended(text: str) -> bool:
    """Whether the text ends with a semicolon outside of strings, quoted names and comments."""
    tokens = duckdb.tokenize(text) if text.endswith(";") else []
    return bool(tokens) and tokens[-1][1] == duckdb.token_type.operator


def _run(release: Release, text: str, answer: Callable[[str], None]) -> None:
    """Run one statement or dot command."""
    commands = {
        ".tables": lambda: [names_text(columns) for columns in release.tables],
        ".columns": lambda: [f"{c}  {t}  {release.labels[c]}" for c, t in release.columns.items()],
        ".notes": lambda: list(release.notes),
    }
    if text.startswith("."):
        for line in commands.get(text.lower(), lambda: [HELP])():
            print_line(line)
    elif text:
        try:
            answer(text)
        except QueryRefused as error:
            notes().print(f"error: {error}", soft_wrap=True, markup=False, style="red")
        except (Exception, KeyboardInterrupt) as error:
            # While DuckDB runs, Ctrl-C arrives as a DuckDB error.
            if not _clear_interrupt() and not isinstance(error, KeyboardInterrupt):
                raise
            print_note("stopped")


def _clear_interrupt() -> bool:
    """Mark a Ctrl-C as dealt with, so that the prompt continues; whether there was one."""
    handler = signal_handler()
    if handler is None or handler.received != signal.SIGINT:
        return False
    handler.received = 0
    return True
