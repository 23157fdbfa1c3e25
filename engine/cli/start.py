"""The commands one begins with: `tablepack init` (a spec), `key new`, `simulate` (a census to try things on)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from engine.api.build import new_key
from engine.cli.console import Tables, Width, entries_of, notes, progress_bar
from engine.errors import SpecError
from engine.keys import read_key
from engine.outputs import SPEC, check_output, write_output
from engine.schema import MAX_WIDTH
from engine.spec import example_spec

commands = typer.Typer(rich_markup_mode="markdown")
key_commands = typer.Typer(help="Make keys.", no_args_is_help=True)
commands.add_typer(key_commands, name="key")


def _show_example(is_wanted: bool) -> None:
    """Print the commented spec, and nothing else."""
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
        str, typer.Argument(help="Text, workbook, Parquet (file or glob), DuckDB or SQLite file.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Spec to write.")] = Path(
        "release.toml"
    ),
    table: Annotated[
        str | None, typer.Option(help="Table of a database, or sheet of a workbook.")
    ] = None,
    entity: Annotated[
        list[str] | None, typer.Option(help="Column that names whom to protect; may be repeated.")
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(
            help="Key file that decides what is in doubt: the same data gives the same spec. Without it, chance does."
        ),
    ] = None,
    tables: Tables = None,
    width: Width = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the spec.")] = False,
    _example: Annotated[
        bool,
        typer.Option(
            "--example",
            help="Print a spec with every key, commented, and stop.",
            is_eager=True,
            callback=_show_example,
        ),
    ] = False,
) -> None:
    """Look at the data and write a commented spec to review."""
    _check_width(width)
    from engine.source import detection

    inputs = [Path(data), *([] if key is None else [key])]
    check_output(output, force=force, own=SPEC, inputs=inputs)
    with progress_bar() as report:
        source = detection.detect_source(
            data,
            table=table,
            entities=tuple(entity or ()),
            key=None if key is None else read_key(key),
            progress=report,
        )
    text = detection.spec_text(
        source, spec_path=output, tables=entries_of(tables, width), key_path=key
    )
    write_output(output, text, force=force, own=SPEC, inputs=inputs)
    then = f"tablepack key new {output.with_name(detection.key_name(output))}"
    if key is not None:
        then = f"tablepack plan {output}"
    notes().print(
        f"wrote {output}: review every column, then: {then}",
        soft_wrap=True,
        markup=False,
    )
    for remark in source.remarks:
        notes().print(f"  {remark}", soft_wrap=True, markup=False)


def _check_width(width: int | None) -> None:
    """Refuse what no table can have, before the data are looked at."""
    if width is not None and width > MAX_WIDTH:
        raise SpecError(
            f"--width {width}: at most {MAX_WIDTH}; a wider table is named by itself (--tables)"
        )


@key_commands.command("new", epilog="Example: `tablepack key new census.key`")
def new_command(
    file: Annotated[Path, typer.Argument(help="File to make; it must not exist.")],
) -> None:
    """Make a key: 32 random bytes that only you can read. Keep it; never publish it."""
    key_id = new_key(file)
    notes().print(
        f"wrote {file} (mode 0600), key id {key_id}. Keep a copy in a safe place, with the files beside it "
        "that begin with its name: they know what was released.",
        soft_wrap=True,
    )


@commands.command("simulate", epilog="Example: `tablepack simulate census/ --people 20000`")
def simulate_command(
    directory: Annotated[Path, typer.Argument(help="Folder to make.")],
    people: Annotated[int, typer.Option(help="1,000 to 100 million.")] = 20_000,
    seed: Annotated[int, typer.Option(help="Chooses the census.")] = 2021,
    csv: Annotated[bool, typer.Option("--csv", help="Write CSV beside Parquet.")] = False,
) -> None:
    """Simulate a census to try things on: people.parquet and events.parquet. No real person is in it."""
    from engine.simulation import simulate_census

    with progress_bar() as report:
        census = simulate_census(
            directory,
            people=people,
            seed=seed,
            csv=csv,
            progress=lambda done, total: report("people", done, total),
        )
    notes().print(
        f"wrote {census.people} ({census.n_people:,} people in {census.n_households:,} households) and "
        f"{census.events} ({census.n_events:,} visits)",
        soft_wrap=True,
    )
