"""The command `tablepack publish`: a folder for distribution, from a release and a pack.toml.

Writes the pack and prints its contents; with `--dry-run` only lists them; `--example` prints a commented pack.toml.
Refuses confidential reports, releases made by `compare`, and releases without any guarantee.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.api.publish import preview_pack, publish_pack
from engine.cli.console import (
    AsJson,
    number,
    print_note,
    print_table,
    progress_bar,
    write,
)
from engine.cli.options import Given, taking
from queries.packs import Pack, example_spec, files_by_format

EXAMPLE = (
    "Example: `tablepack publish census.duckdb pack/ --spec pack.toml`; all keys of a pack.toml, with comments: "
    "`tablepack publish --example`"
)
commands = typer.Typer(rich_markup_mode="markdown")


def _show_example(is_wanted: bool) -> None:
    """Print the commented pack.toml and exit."""
    if is_wanted:
        sys.stdout.write(example_spec())
        raise typer.Exit


_DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check the pack.toml and list the tables; write nothing.")
]
_Example = Annotated[
    bool,
    typer.Option(
        "--example",
        help="Print a commented pack.toml with every key and exit.",
        is_eager=True,
        callback=_show_example,
    ),
]


@commands.command("publish", epilog=EXAMPLE)
@taking(
    publish_pack,
    leave=("warn",),
    directory=None,
)
def publish_command(
    given: Given, dry_run: _DryRun = False, as_json: AsJson = False, _example: _Example = False
) -> None:
    """Write a pack: CSV, Parquet, workbook, web pages, SDMX, JSON-stat, PC-Axis, metadata, checksums."""
    release, directory = given.pop("release"), given.pop("directory")
    if directory is None and not dry_run:
        raise typer.BadParameter("give the folder to create, or --dry-run", param_hint="DIRECTORY")
    with progress_bar(quiet=as_json) as given["progress"]:
        if directory is None or dry_run:
            pack = preview_pack(release, **given)
            warnings, handed_out = list(pack.warnings), pack.release["file"]
        else:
            pack, warnings = None, []
            files = publish_pack(release, directory, warn=warnings.append, **given)
            handed_out = release.name if directory / release.name in files else ""
    common = {"release_file": handed_out, "warnings": warnings}
    if pack is not None:
        _print_preview(pack, common, as_json=as_json)
    elif directory is not None:
        _print_files(directory, files, common, as_json=as_json)
    if not as_json:
        _print_release(handed_out)
        for warning in warnings:
            print_note(f"warning: {warning}")


def _print_release(handed_out: str) -> None:
    """Print whether the pack includes the release file, which has more tables than the pack."""
    text = (
        f"includes the release file {handed_out}: readers can read all its tables, not only those above "
        "(release_file = false in [pack] leaves it out)"
        if handed_out
        else "does not include the release file (release_file = true in [pack] adds it, with all its tables)"
    )
    print_note(text)


def _print_files(
    directory: Path, files: list[Path], common: dict[str, Any], *, as_json: bool
) -> None:
    size = sum(f.stat().st_size for f in files)
    if as_json:
        paths = [f.relative_to(directory).as_posix() for f in files]
        _print_json({"directory": str(directory), "bytes": size, "files": paths, **common})
        return
    n_tables = sum(f.suffix == ".parquet" for f in files)
    print_note(
        f"wrote {directory}: {number(n_tables, 'table')}, {number(len(files), 'file')}, {size / 1e6:.1f} MB; "
        f"start with {directory / 'index.html'} or {directory / 'README.md'}"
    )


def _print_preview(pack: Pack, common: dict[str, Any], *, as_json: bool) -> None:
    """Print what a pack would contain."""
    formats = {name: len(paths) for name, paths in files_by_format(pack).items()}
    if as_json:
        tables = [
            {
                "id": t.id,
                "title": t.titles[0],
                "answered_by": list(t.answered),
                "rows": len(t),
                "listed": "measured only" if t.is_listed else "all",
                "statuses": t.n_by_status,
            }
            for t in pack.tables
        ]
        _print_json({"tables": tables, "formats": formats, **common})
        return
    heads = ("table", "title", "from", "rows", "reliable", "not released")
    rows = [
        (
            t.id,
            t.titles[0],
            ", ".join(t.answered),
            f"{len(t):,}" + (" measured" if t.is_listed else ""),
            f"{t.n_by_status['reliable']:,}",
            f"{t.n_by_status['not released']:,}",
        )
        for t in pack.tables
    ]
    print_table("", heads, rows)
    files = ", ".join(f"{name} {n:,}" for name, n in formats.items())
    print_note(f"files: {files}; web pages and metadata")


def _print_json(value: dict[str, Any]) -> None:
    write(json.dumps(value, indent=1, ensure_ascii=False) + "\n")
