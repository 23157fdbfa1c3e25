"""The commands to start with: `tablepack init` (write a spec) and `key new`."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Annotated

import typer

from engine.api.build import new_key
from engine.api.propose import fitting
from engine.cli.console import (
    Tables,
    Width,
    entries_of,
    print_note,
    progress_bar,
)
from engine.cli.options import Given, taking
from engine.errors import SpecError
from engine.key_files import read_key
from engine.outputs import SPEC, check_output, write_output
from engine.schema import MAX_WIDTH, as_entities
from engine.spec import example_spec

commands = typer.Typer(rich_markup_mode="markdown")
key_commands = typer.Typer(help="Create keys.", no_args_is_help=True)
commands.add_typer(key_commands, name="key")


def _show_example(is_wanted: bool) -> None:
    """Print the commented spec and exit."""
    if is_wanted:
        sys.stdout.write(example_spec())
        raise typer.Exit


@commands.command(
    "init",
    epilog="Example: `tablepack init people.csv -o release.toml --entity person_id --tables age,sex`; "
    "all keys of a spec, with comments: `tablepack init --example`",
)
def init_command(
    data: Annotated[
        str,
        typer.Argument(
            help="CSV or other text file, workbook, Parquet (file or glob), DuckDB or SQLite file, file of SPSS, Stata "
            "or SAS."
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Spec file to write.")] = Path(
        "release.toml"
    ),
    table: Annotated[
        str | None, typer.Option(help="Table of a database or sheet of a workbook.")
    ] = None,
    entity: Annotated[
        list[str] | None,
        typer.Option(
            help="Column that identifies the protected person or other entity, or columns that do together, as a "
            "line of CSV (site,patient); may be repeated."
        ),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(
            help="Key file that seeds the noise of detection, so that the same data give the same spec."
        ),
    ] = None,
    count_column: Annotated[
        str | None,
        typer.Option(
            help="Of a table of frequencies: the column of counts; each row is then read as so many units. "
            'Empty (""): each row is one unit.'
        ),
    ] = None,
    tables: Tables = None,
    width: Width = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing spec.")] = False,
    _example: Annotated[
        bool,
        typer.Option(
            "--example",
            help="Print a commented spec with every key and exit.",
            is_eager=True,
            callback=_show_example,
        ),
    ] = False,
) -> None:
    """Inspect the data and write a commented spec for you to review."""
    _check_width(width)
    from engine.source import detection

    inputs = [Path(data), *([] if key is None else [key])]
    check_output(output, force=force, own=SPEC, inputs=inputs)
    with progress_bar() as report:
        source = detection.detect_source(
            data,
            table=table,
            entities=as_entities(next(csv.reader([one])) or [""] for one in entity or ()),
            key=None if key is None else read_key(key),
            count_column=count_column,
            progress=report,
        )
        entries, left_out = entries_of(tables, width), 0
        if not entries:
            entries, left_out = fitting(source, key, report)
    text = detection.spec_text(source, spec_path=output, tables=entries, key_path=key)
    write_output(output, text, force=force, own=SPEC, inputs=inputs)
    then = f"tablepack key new {output.with_name(detection.key_name(output))}"
    if key is not None:
        then = f"tablepack plan {output}"
    print_note(f"wrote {output}: review every column, then run: {then}")
    for remark in source.remarks:
        print_note(f"  {remark}")
    if left_out:
        print_note(
            f"  {left_out} pairs of columns are left out of the tables: nearly all cells would be suppressed, or a "
            "secret of the most exposed would be guessed more often than a build allows; what each would reveal: "
            f"tablepack plan {output} --further"
        )


def _check_width(width: int | None) -> None:
    """Refuse a width that no table can have, before the data are read."""
    if width is not None and width > MAX_WIDTH:
        raise SpecError(
            f"--width {width}: at most {MAX_WIDTH}; list wider tables by name (--tables)"
        )


@key_commands.command("new", epilog="Example: `tablepack key new census.key`")
@taking(new_key, like={"path": {"metavar": "FILE"}})
def new_command(given: Given) -> None:
    """Create a key: 32 random bytes in a file that only you can read. Keep it safe; never publish it."""
    key_id = new_key(**given)
    print_note(
        f"wrote {given['path']} (mode 0600), key id {key_id}. Back it up in a safe place, together with the ledgers "
        "next to it, whose names begin with the key's: they record what has been disclosed."
    )
