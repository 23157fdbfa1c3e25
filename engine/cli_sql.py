"""The command `tablepack sql`: one SELECT, answered from the smallest table that covers it.

Takes a release and a statement; writes the answer as a table, CSV, JSON or Parquet, and says which table answered, how
noisy it is, and what of the statement means nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Literal

import duckdb
import typer

from engine.console import notes, out, print_answer
from engine.errors import SpecError, StoreError
from engine.schema import literal
from queries.result import Result
from queries.session import open_release

EXAMPLE = 'Example: `tablepack sql census.duckdb "SELECT sex, count(*) FROM data GROUP BY sex"`'


def sql_command(
    release: Annotated[Path, typer.Argument(help="Release file.", metavar="RELEASE")],
    statement: Annotated[str, typer.Argument(help="One SELECT; `-` reads it from standard input.")],
    form: Annotated[
        Literal["table", "csv", "json", "parquet"],
        typer.Option("--format", help="parquet needs --output."),
    ] = "table",
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
    text = sys.stdin.read() if statement == "-" else statement
    with open_release(release) as opened:
        if explain:
            out().print(str(opened.explain(text, tables=_own_tables(own))), markup=False)
            return
        result = opened.sql(text, tables=_own_tables(own), intervals=intervals)
        _write_result(result, form, output)
        notes().print(result.source, soft_wrap=True, markup=False)
        for warning in result.warnings:
            notes().print(f"warning: {warning}", soft_wrap=True, markup=False)


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
    """Write an answer in the form asked for, to a file or to standard output."""
    text = {"csv": result.to_csv, "json": result.to_json}.get(form)
    if output is not None:
        with _written(output) as part:
            if form == "parquet":
                _write_parquet(result, part)
            elif text is not None:
                text(part)
            else:
                part.write_text(f"{result!r}\n", encoding="utf-8")
    elif text is not None:
        sys.stdout.write(text())
    else:
        print_answer(result.columns, [[_shown(v) for v in row] for row in result.rows])


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


def _shown(value: object) -> str:
    """A value for people."""
    if value is None:
        return "NULL"
    return f"{value:g}" if isinstance(value, float) else str(value)
