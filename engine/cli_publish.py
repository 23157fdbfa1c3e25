"""The command `tablepack publish`: a folder that can be handed out, from a release and a pack.toml.

Takes what the command line says; writes the pack, says what is in it; or says what would be in it (`--dry-run`), or
what a pack.toml can say (`--example`). Refuses confidential reports, releases of `compare`, and releases that
guarantee nothing.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from engine.api_publish import preview_pack, publish_pack
from engine.console import notes, print_table, progress_bar
from queries.packs import STATUSES, Pack, example_spec

EXAMPLE = (
    "Example: `tablepack publish census.duckdb pack/ --spec pack.toml`; all keys of a pack.toml, with comments: "
    "`tablepack publish --example`"
)


def _show_example(is_wanted: bool) -> None:
    """Print the commented pack.toml, and nothing else."""
    if is_wanted:
        sys.stdout.write(example_spec())
        raise typer.Exit


_Directory = Annotated[
    Path | None, typer.Argument(help="Folder to make; empty or absent.", metavar="DIRECTORY")
]
_Spec = Annotated[
    Path | None,
    typer.Option(
        help="Titles, labels, languages, tables (pack.toml); without it, all tables of at most 3 columns."
    ),
]
_DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check the spec, list the tables; write nothing.")
]
_Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON; no progress bar.")]
_Unprotected = Annotated[
    bool, typer.Option("--unprotected", help="Publish a dp release that guarantees nothing.")
]
_Example = Annotated[
    bool,
    typer.Option(
        "--example",
        help="Print a pack.toml with every key, commented, and stop.",
        is_eager=True,
        callback=_show_example,
    ),
]


def publish_command(
    release: Annotated[Path, typer.Argument(help="Release file.", metavar="RELEASE")],
    directory: _Directory = None,
    spec: _Spec = None,
    dry_run: _DryRun = False,
    as_json: _Json = False,
    unprotected: _Unprotected = False,
    _example: _Example = False,
) -> None:
    """Write a pack: CSV, Parquet, workbook, web pages, SDMX, JSON-stat, PC-Axis, metadata, checksums."""
    if directory is None and not dry_run:
        raise typer.BadParameter("name the folder to make, or --dry-run", param_hint="DIRECTORY")
    with progress_bar(quiet=as_json or not sys.stderr.isatty()) as report:
        if directory is None or dry_run:
            told = preview_pack(release, spec=spec, unprotected=unprotected, progress=report)
            warnings = list(told.warnings)
        else:
            warnings = []
            files = publish_pack(
                release,
                directory,
                spec=spec,
                unprotected=unprotected,
                progress=report,
                warn=warnings.append,
            )
    if directory is None or dry_run:
        _tell_preview(told, as_json=as_json)
        handed_out = told.release["file"]
    else:
        handed_out = release.name if directory / release.name in files else ""
        _tell_files(directory, files, warnings, handed_out, as_json=as_json)
    if not as_json:
        _tell_release(handed_out)
    for warning in warnings if not as_json else ():
        notes().print(f"warning: {warning}", soft_wrap=True, markup=False)


def _tell_release(handed_out: str) -> None:
    """Say whether readers get the release itself: it answers more than the tables of the pack show."""
    told = (
        f"with {handed_out}, the release itself: all its tables can be read, not only these "
        "(release_file = false in [pack] keeps it back)"
        if handed_out
        else "without the release itself (release_file = true in [pack] adds it, with all its tables)"
    )
    notes().print(told, soft_wrap=True, markup=False)


def _tell_files(
    directory: Path, files: list[Path], warnings: list[str], handed_out: str, *, as_json: bool
) -> None:
    """Say what was written."""
    size = sum(f.stat().st_size for f in files)
    if as_json:
        told = {
            "directory": str(directory),
            "bytes": size,
            "release_file": handed_out,
            "files": [f.relative_to(directory).as_posix() for f in files],
            "warnings": warnings,
        }
        sys.stdout.write(json.dumps(told, indent=1) + "\n")
        return
    n_tables = sum(f.suffix == ".parquet" for f in files)
    notes().print(
        f"wrote {directory}: {n_tables:,} table{'' if n_tables == 1 else 's'}, {len(files):,} files, "
        f"{size / 1e6:.1f} MB; start with {directory / 'index.html'} or {directory / 'README.md'}",
        soft_wrap=True,
        markup=False,
    )


def _tell_preview(pack: Pack, *, as_json: bool) -> None:
    """Say what a pack would hold."""
    rows: list[dict[str, Any]] = []
    for t in pack.tables:
        counts = np.bincount(t.status, minlength=len(STATUSES)).tolist()
        statuses = dict(zip(STATUSES, counts, strict=True))
        rows.append(
            {
                "id": t.id,
                "title": t.titles[0],
                "answered_by": list(t.answered),
                "rows": len(t),
                "listed": "measured only" if t.is_listed else "all",
                "statuses": statuses,
            }
        )
    if as_json:
        told = {
            "tables": rows,
            "release_file": pack.release["file"],
            "warnings": list(pack.warnings),
        }
        sys.stdout.write(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
        return
    heads = ("table", "title", "from", "rows", "reliable", "not released")
    cells = [
        (
            r["id"],
            r["title"],
            ", ".join(r["answered_by"]),
            f"{r['rows']:,}" + ("" if r["listed"] == "all" else " measured"),
            f"{r['statuses']['reliable']:,}",
            f"{r['statuses']['not released']:,}",
        )
        for r in rows
    ]
    print_table("", heads, cells)
