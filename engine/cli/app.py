"""The command line's door: `tablepack COMMAND` finds the command, runs it, and ends with its exit code.

`COMMANDS` is all that `tablepack --help` and the shell's completion read; a command's module is imported when it is
called. Results go to standard output, all else to standard error. Exit codes: 0 ok, 1 our bug, 2 usage, spec or data,
3 privacy check failed, 4 quality threshold failed, 5 query refused or not covered, 6 release damaged or of another
format. The text of an error that is not one of our own is never shown, for it may hold a value of the data: its kind
and its place in our code are.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from engine.cli import loading, main, run_and_exit
from engine.version import ENGINE_VERSION

__all__ = ["COMMANDS", "app", "loaded", "main", "run_and_exit"]


class Command(NamedTuple):
    """A command: its module, whose Typer `commands` holds it, and the first line of its help."""

    name: str
    module: str
    help: str


COMMANDS = (
    Command("init", "engine.cli.start", "Look at the data and write a commented spec to review."),
    Command("key", "engine.cli.start", "Make keys."),
    Command(
        "plan",
        "engine.cli.build",
        "Say what a release would hold: tables, cells, noise, time, and what it would cost. Builds nothing.",
    ),
    Command(
        "build",
        "engine.cli.build",
        "Build a release. Run again after an interruption, it goes on where it stopped.",
    ),
    Command(
        "add",
        "engine.cli.build",
        "Add tables to a release; only what is new is fitted. The result is what a build of all would be.",
    ),
    Command(
        "drop",
        "engine.cli.build",
        "Take tables out of a release; the others stay as they are. What was told is told, and stays in the ledger.",
    ),
    Command(
        "choose",
        "engine.cli.build",
        "Choose tables of three columns that help a wide table most, from what the release shows of pairs.",
    ),
    Command(
        "budget",
        "engine.cli.custody",
        "Show what was given away with a key: the budget of mode dp, and the exposure of sticky releases.",
    ),
    Command(
        "show",
        "engine.cli.show",
        "Show what is in a release; with --table the card of one table.",
    ),
    Command(
        "sql",
        "engine.cli.sql",
        "Ask a release anything in SQL; the smallest table that covers the columns answers.",
    ),
    Command(
        "serve",
        "engine.cli.serve",
        "Serve a release, or all of a folder: tables in the browser, and the same as JSON. Read only.",
    ),
    Command(
        "requests",
        "engine.cli.custody",
        "List the tables that were asked for (`tablepack serve --requests`), and what each would cost; or settle one.",
    ),
    Command(
        "open",
        "engine.cli.serve",
        "Open a release in the browser: serve it on this machine, for you alone, until Ctrl-C.",
    ),
    Command("export", "engine.cli.show", "Write one file a table, a row a synthetic record."),
    Command(
        "publish",
        "engine.cli.publish",
        "Write a pack: CSV, Parquet, workbook, web pages, SDMX, JSON-stat, PC-Axis, metadata, checksums.",
    ),
    Command(
        "evaluate",
        "engine.cli.evaluate",
        "Say how good and how safe a release, or any synthetic table, is. Needs the original; CONFIDENTIAL.",
    ),
    Command(
        "attack",
        "engine.cli.attack",
        "Attack finished releases as strong attackers would, each beside a control. Needs the data; CONFIDENTIAL.",
    ),
    Command(
        "audit",
        "engine.cli.attack",
        "Test whether a generator uses more of the data than its card says; if so, exit 3. CONFIDENTIAL.",
    ),
    Command(
        "card",
        "engine.cli.attack",
        "Write the generator card of a release: what was measured, what it came to, how. Public, as the release is.",
    ),
    Command(
        "compare",
        "engine.cli.evaluate",
        "Compare sticky and dp releases of the same tables, --levers, or other generators (--with). CONFIDENTIAL.",
    ),
    Command(
        "doctor",
        "engine.cli.doctor",
        "Check the installation, and a release: every byte against its manifest, every row against its content hash.",
    ),
    Command(
        "sign",
        "engine.cli.doctor",
        "Sign a release with an office's key; the signature lies beside it. Or make the key pair.",
    ),
    Command(
        "verify",
        "engine.cli.doctor",
        "Check every byte of a release, and that an office's key signed it.",
    ),
    Command(
        "simulate",
        "engine.cli.start",
        "Simulate a census to try things on: people.parquet and events.parquet. No real person is in it.",
    ),
)


class LazyGroup(TyperGroup):
    """The commands of `COMMANDS`: listed by the table, imported when one is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {c.name: TyperCommand(c.name, help=c.help) for c in COMMANDS}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """Return name, command and further words of what is called; imports its module."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed and loaded(str(listed.name)), rest


def loaded(name: str) -> Any:
    """Return a command of the table, its module imported."""
    (module,) = {c.module for c in COMMANDS if c.name == name}
    with loading():
        found = import_module(module)
    return get_group(found.commands).commands[name]


app = typer.Typer(
    cls=LazyGroup,
    help="Publish small synthetic tables from confidential microdata, and say how good and how safe they are.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _print_version(is_wanted: bool) -> None:
    """Print the version, and nothing else."""
    if is_wanted:
        sys.stdout.write(f"tablepack {ENGINE_VERSION}\n")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    pass
