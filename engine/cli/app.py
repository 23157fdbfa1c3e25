"""The Typer application: `tablepack COMMAND` finds the command, runs it and exits with its code.

`tablepack --help` and shell completion import none of `COMMANDS`; a command's module is imported when the
command is called. Results go to standard output, everything else to standard error.

Exit codes: 0 ok, 1 bug in tablepack, 2 usage, spec or data, 3 privacy check failed, 4 quality threshold failed, 5 query
refused or not covered, 6 release damaged or in another format. The text of a foreign exception is never shown, because
it may contain a value of the data; its type and its place in our code are.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from engine.cli import loading, main, run_and_exit
from engine.version import ENGINE_VERSION

__all__ = ["COMMANDS", "app", "loaded", "main", "run_and_exit"]


COMMANDS = {
    "init": "start",
    "key": "start",
    "plan": "build",
    "draft": "build",
    "build": "build",
    "measure": "build",
    "fit": "build",
    "add": "amend",
    "drop": "amend",
    "choose": "choose",
    "budget": "custody",
    "show": "show",
    "sql": "sql",
    "serve": "serve",
    "requests": "custody",
    "open": "serve",
    "export": "show",
    "publish": "publish",
    "evaluate": "evaluate",
    "attack": "attack",
    "audit": "attack",
    "card": "attack",
    "compare": "evaluate",
    "doctor": "doctor",
    "sign": "doctor",
    "verify": "doctor",
    "simulate": "simulate",
}
"""The commands in their order, and the module here whose Typer `commands` has each."""


class Listed(TyperCommand):
    """A command that is not imported: its help is the first line of what its function says."""

    @property
    def help(self) -> str:
        text = Path(__file__).with_name(f"{COMMANDS[str(self.name)]}.py").read_text("utf-8")
        said = rf'command\(\s*"{self.name}".*?\n    """(.+?)(?:"""|\n)'
        found = re.search(said, text, re.DOTALL) or re.search(r'Typer\(help="(.+?)"', text)
        return found[1] if found else ""

    @help.setter
    def help(self, _: str | None) -> None:
        """It is read from the file."""


class LazyGroup(TyperGroup):
    """The commands of `COMMANDS`, each imported when it is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: Listed(name) for name in COMMANDS}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """Return the called command's name, the command and the remaining arguments; imports its module."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed and loaded(str(listed.name)), rest


def loaded(name: str) -> Any:
    """Import a command's module and return the command."""
    with loading():
        found = import_module(f"engine.cli.{COMMANDS[name]}")
    return get_group(found.commands).commands[name]


app = typer.Typer(
    cls=LazyGroup,
    help="Publish small synthetic tables from confidential microdata and measure their utility and risk.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _print_version(is_wanted: bool) -> None:
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
