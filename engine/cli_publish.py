"""The command `tablepack publish`: a folder that can be handed out, from a release and a pack.toml.

Takes what the command line says; writes the pack, says what is in it. Refuses confidential reports, releases of
`compare`, and releases that guarantee nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from engine.api_publish import publish_pack
from engine.console import notes, progress_bar

EXAMPLE = "Example: `tablepack publish census.duckdb pack/ --spec pack.toml`"


def publish_command(
    release: Annotated[Path, typer.Argument(help="Release file.", metavar="RELEASE")],
    directory: Annotated[Path, typer.Argument(help="Folder to make; empty or absent.")],
    spec: Annotated[
        Path | None,
        typer.Option(
            help="Titles, labels, languages, tables (TOML); without it, all tables of at most 3 columns."
        ),
    ] = None,
    unprotected: Annotated[
        bool,
        typer.Option("--unprotected", help="Publish a dp release that guarantees nothing."),
    ] = False,
) -> None:
    """Write a pack: CSV, Parquet, workbook, web pages, SDMX, JSON-stat, PC-Axis, metadata, checksums."""
    with progress_bar(quiet=not sys.stderr.isatty()) as report:
        files = publish_pack(
            release, directory, spec=spec, unprotected=unprotected, progress=report
        )
    size = sum(f.stat().st_size for f in files)
    n_tables = sum(f.suffix == ".parquet" for f in files)
    notes().print(
        f"wrote {directory}: {n_tables:,} table{'' if n_tables == 1 else 's'}, {len(files):,} files, "
        f"{size / 1e6:.1f} MB; start with {directory / 'index.html'} or {directory / 'README.md'}",
        soft_wrap=True,
        markup=False,
    )
