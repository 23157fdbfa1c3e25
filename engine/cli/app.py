"""The Typer application: `tablepack COMMAND` finds the command, runs it and exits with its code.

`tablepack --help` and shell completion read only `COMMANDS`; a command's module is imported when the command is called.
Results go to standard output, everything else to standard error.

Exit codes: 0 ok, 1 bug in tablepack, 2 usage, spec or data, 3 privacy check failed, 4 quality threshold failed, 5 query
refused or not covered, 6 release damaged or in another format. The text of a foreign exception is never shown, because
it may contain a value of the data; its type and its place in our code are.
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
    """A command, the module whose Typer `commands` has it, and the first line of its help."""

    name: str
    module: str
    help: str


COMMANDS = (
    Command(
        "init", "engine.cli.start", "Inspect the data and write a commented spec for you to review."
    ),
    Command("key", "engine.cli.start", "Create keys."),
    Command(
        "plan",
        "engine.cli.build",
        "Show what a release would contain and cost: tables, cells, noise, exposure, time. Builds nothing.",
    ),
    Command(
        "draft",
        "engine.cli.build",
        "Try a spec out: build under a throw-away key. Nothing is charged or pinned; not for publication.",
    ),
    Command(
        "build",
        "engine.cli.build",
        "Build a release. After an interruption, the same command resumes where it stopped.",
    ),
    Command(
        "measure",
        "engine.cli.build",
        "Measure a release into a folder: noisy counts and how to fit them, for another machine or an auditor.",
    ),
    Command(
        "fit",
        "engine.cli.build",
        "Make a release of a measurement folder. Needs neither the data nor the key.",
    ),
    Command(
        "add",
        "engine.cli.build",
        "Add tables to a release. Only new tables are fitted; the result equals a build of all tables together.",
    ),
    Command(
        "drop",
        "engine.cli.build",
        "Remove tables from a release. The others are unchanged, and the ledger still counts what was disclosed.",
    ),
    Command(
        "choose",
        "engine.cli.build",
        "Choose the tables of three columns that improve a wide table most, judged by the released pairs.",
    ),
    Command(
        "budget",
        "engine.cli.custody",
        "Show what has been disclosed with a key: the budget of mode dp and the exposure of sticky releases.",
    ),
    Command(
        "show",
        "engine.cli.show",
        "Show what a release contains; with --table, the card of one table.",
    ),
    Command(
        "sql",
        "engine.cli.sql",
        "Query a release in SQL; the smallest table that covers the columns answers.",
    ),
    Command(
        "serve",
        "engine.cli.serve",
        "Serve a release, or a folder of releases: table builder in the browser and JSON API. Never changes one.",
    ),
    Command(
        "requests",
        "engine.cli.custody",
        "List the tables that users have requested (`tablepack serve --requests`) with their cost; approve or decline.",
    ),
    Command(
        "open",
        "engine.cli.serve",
        "Open a release in the browser, served on this machine for you alone until Ctrl-C.",
    ),
    Command("export", "engine.cli.show", "Write one file per table, one row per synthetic record."),
    Command(
        "publish",
        "engine.cli.publish",
        "Write a pack: CSV, Parquet, workbook, web pages, SDMX, JSON-stat, PC-Axis, metadata, checksums.",
    ),
    Command(
        "evaluate",
        "engine.cli.evaluate",
        "Measure the utility and risk of a release or any synthetic table. Needs the original data; CONFIDENTIAL.",
    ),
    Command(
        "attack",
        "engine.cli.attack",
        "Run all attacks on finished releases, each compared with a control. Needs the original data; CONFIDENTIAL.",
    ),
    Command(
        "audit",
        "engine.cli.attack",
        "Test whether a generator uses more of the data than its card states; exit code 3 if so. CONFIDENTIAL.",
    ),
    Command(
        "card",
        "engine.cli.attack",
        "Write the generator card of a release: what was measured, how, and the results. As public as the release.",
    ),
    Command(
        "compare",
        "engine.cli.evaluate",
        "Compare sticky and dp releases of the same tables, settings (--levers) or generators (--with). CONFIDENTIAL.",
    ),
    Command(
        "doctor",
        "engine.cli.doctor",
        "Check the installation and a release: every byte against its manifest, every row against its content hash.",
    ),
    Command(
        "sign",
        "engine.cli.doctor",
        "Sign a release with an organisation's private key, or create a key pair. The signature is a separate file.",
    ),
    Command(
        "verify",
        "engine.cli.doctor",
        "Check every byte of a release and its signature by an organisation's key.",
    ),
    Command(
        "simulate",
        "engine.cli.start",
        "Simulate a census to try things out: people.parquet and events.parquet. It contains no real person.",
    ),
)


class LazyGroup(TyperGroup):
    """The commands of `COMMANDS`, each imported when it is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {c.name: TyperCommand(c.name, help=c.help) for c in COMMANDS}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """Return the called command's name, the command and the remaining arguments; imports its module."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed and loaded(str(listed.name)), rest


def loaded(name: str) -> Any:
    """Import a command's module and return the command."""
    (module,) = {c.module for c in COMMANDS if c.name == name}
    with loading():
        found = import_module(module)
    return get_group(found.commands).commands[name]


app = typer.Typer(
    cls=LazyGroup,
    help="Publish small synthetic tables from confidential microdata and measure their utility and risk.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _print_version(is_wanted: bool) -> None:
    """Print the version and exit."""
    if is_wanted:
        sys.stdout.write(f"tablepack {ENGINE_VERSION}\n")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    pass
