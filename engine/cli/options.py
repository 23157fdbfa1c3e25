"""The options of a command, from the public function that it calls: names, types and defaults from the signature, help
from the docstring.

So an option is declared once. The first paragraph that a docstring has on a parameter is the help of the option; what
follows is for Python only.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_type_hints

import typer

Given = dict[str, Any]
"""Arguments of the public function, by name."""
_PARAMETER = re.compile(r"^\*?(\w+) : .*\n((?: {4}.+\n?)+)", re.MULTILINE)
_FLAGS = {"out": ("-o", "--output")}
_NOT_OF_COMMANDS = ("progress", "frame", "build")


def taking(
    function: Callable[..., Any],
    *,
    leave: Collection[str] = (),
    like: Mapping[str, Mapping[str, Any]] | None = None,
    **defaults: Any,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the parameters of a public function, which it gets as its first argument.

    leave: Those that the command says in its own way.
    like: Words for Typer, by parameter, such as metavar or show_default.
    defaults: Of parameters that have another default in the command.
    """
    help_of, like = helps(function), like or {}
    hints, taken = get_type_hints(function), list[inspect.Parameter]()
    for name, parameter in inspect.signature(function).parameters.items():
        if name in leave or name in _NOT_OF_COMMANDS:
            continue
        more = dict(like.get(name, {}))
        default = defaults.get(name, parameter.default)
        type_ = more.pop("type", None) or _of_command(name, hints[name], parameter, default)
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_OR_KEYWORD) and (
            name not in _FLAGS
        ):
            said: Any = typer.Argument(help=help_of[name], **more)
        else:
            flag = "--" + name.replace("_", "-")
            said = typer.Option(*_FLAGS.get(name, (flag,)), help=help_of[name], **more)
        taken.append(
            inspect.Parameter(
                name, parameter.KEYWORD_ONLY, default=default, annotation=Annotated[type_, said]
            )
        )

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        _, *own = inspect.signature(command).parameters.values()
        own_hints = get_type_hints(command, include_extras=True)

        @wraps(command)
        def run(**arguments: Any) -> None:
            command({p.name: arguments.pop(p.name) for p in taken}, **arguments)

        mine = [p.replace(annotation=own_hints[p.name], kind=p.KEYWORD_ONLY) for p in own]
        every = [*taken, *mine]
        run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in every}
        del run.__wrapped__  # its hints are others
        return run

    return decorate


def helps(function: Callable[..., Any]) -> dict[str, str]:
    """The first paragraph that the docstring of a function has on each of its parameters."""
    doc = inspect.cleandoc(function.__doc__ or "")
    section = doc.partition("\nParameters\n----------\n")[2].partition("\n\nReturns\n")[0]
    return {name: " ".join(text.split()) for name, text in _PARAMETER.findall(section)}


def _of_command(name: str, hint: Any, parameter: inspect.Parameter, default: Any) -> Any:
    """The type of a parameter on the command line: files are paths, whatever else Python takes is a text."""
    if parameter.kind == parameter.VAR_POSITIONAL:
        return list[str]
    kinds = [one for one in get_args(hint) or (hint,) if one is not NoneType]
    type_: Any = kinds[0] if len(kinds) == 1 and kinds[0] in (bool, int, float, str) else str
    if name in ("out", "release"):
        type_ = Path
    return type_ | None if default is None else type_
