"""The command `tablepack choose`: tables that would improve a wide table."""

from __future__ import annotations

from typing import Annotated

import typer

from engine.api import amend
from engine.api.choose import Choice, choose
from engine.cli.amend import print_changed
from engine.cli.console import AsJson, print_json, print_line, print_note, progress_bar
from engine.cli.options import Given, help_of, taking
from engine.params import MOST_CHOSEN
from engine.texts import spec_entry

commands = typer.Typer(rich_markup_mode="markdown")
Add = Annotated[bool, typer.Option("--add", help="Add them to the release and its spec.")]
Jobs = Annotated[int, typer.Option(min=1, help=help_of(amend.add, "jobs"))]


@commands.command(
    "choose", epilog="Example: `tablepack choose census.duckdb --most 12 --target income --add`"
)
@taking(
    choose,
    like={
        "most": {
            "flags": ("--most",),
            "show_default": f"what max_added of the spec allows, or {MOST_CHOSEN}",
        }
    },
)
def choose_command(
    given: Given, is_added: Add = False, jobs: Jobs = 2, as_json: AsJson = False
) -> None:
    """Choose the tables of three columns that improve a wide table most, judged by the released counts.

    Prints the entries for the spec. No table is chosen that would take the exposure above the bound in the spec.
    """
    with progress_bar(quiet=as_json) as report:
        choice = choose(**given, progress=report)
    if not as_json:
        _print_choice(choice, is_added=is_added)
    if is_added and choice.tables:
        change = amend.addition(given["release"], choice.tables, given["spec"])
        print_changed(change, jobs=jobs, as_json=as_json)
    elif as_json:
        print_json(choice.as_dict())


def _print_choice(choice: Choice, *, is_added: bool) -> None:
    """Print the chosen tables as spec entries, and which were left out."""
    if not is_added:
        for table in choice.tables:
            print_line(f"{spec_entry(table)}\n")
    for sentence in choice.sentences():
        print_note(sentence)
