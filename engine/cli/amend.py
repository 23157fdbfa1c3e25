"""The commands `tablepack add` and `drop`: tables of a release that is there already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from engine.api import amend
from engine.cli.console import AsJson, entries_of, print_note, progress_bar
from engine.cli.options import Given, taking
from engine.cli.summary import is_signed, print_built, print_summary, summary_of
from engine.store import exposure_sentences, read_signature

commands = typer.Typer(rich_markup_mode="markdown")
Columns = Annotated[
    list[str] | None,
    typer.Option("--columns", help="Columns of one table, separated by commas; may be repeated."),
]


@commands.command("add", epilog="Example: `tablepack add census.duckdb --columns age,sex,region`")
@taking(amend.add, leave=("tables",))
def add_command(given: Given, columns: Columns = None, as_json: AsJson = False) -> None:
    """Add tables to a release. Only new tables are fitted; the result equals a build of all tables together.

    Without --columns: the tables that the spec lists and the release does not have.
    """
    change = amend.addition(given["release"], _column_sets(columns), given["spec"])
    print_changed(change, jobs=given["jobs"], as_json=as_json)


@commands.command("drop", epilog="Example: `tablepack drop census.duckdb --columns age,sex,region`")
@taking(amend.add, leave=("tables",))
def drop_command(given: Given, columns: Columns = None, as_json: AsJson = False) -> None:
    """Remove tables from a release. The others are unchanged, and the ledger still counts what was disclosed.

    Without --columns: the tables that the release has and the spec no longer lists.
    """
    change = amend.removal(given["release"], _column_sets(columns), given["spec"])
    print_changed(change, jobs=given["jobs"], as_json=as_json)


def _column_sets(listed: Sequence[str] | None) -> list[list[str]]:
    """The tables given by options."""
    return [entry["columns"] for entry in entries_of(listed, None, "--columns")]


def print_changed(change: amend.Change, *, jobs: int, as_json: bool) -> None:
    """Carry out a change and print the result."""
    path = change.before.path
    was_signed = is_signed(path)
    with progress_bar(quiet=as_json) as report:
        made = amend.carry_out(change, jobs=jobs, progress=report)
    if not as_json:
        print_note(
            f"{'added' if change.is_more else 'removed'}: {amend.some(change.tables) or 'nothing'}"
            + (f"; updated {change.spec_path}" if change.edited and change.spec_path else "")
        )
    if made is None:
        from queries.release import open_release

        print_built(open_release(path), was_signed=was_signed, as_json=as_json)
        return
    print_summary(
        summary_of(change.spec, made, read_signature(made.path)),
        exposure_sentences(made.exposure),
        was_signed=was_signed,
        as_json=as_json,
    )
