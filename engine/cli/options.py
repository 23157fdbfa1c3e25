"""The options of a command, from the public function that it calls, or from a model of settings.

So an option is declared once. Of a function, names, types and defaults are those of its signature; the help is the
first paragraph that the docstring has on a parameter, what follows is for Python only. "As in `build`." stands for what
that public function says. Of a pydantic model, everything is in its fields.
"""

from __future__ import annotations

import builtins
import inspect
import os
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from pathlib import Path
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer

import engine
from engine.texts import names_from

Given = dict[str, Any]
"""Arguments of the public function, by name."""
_PARAMETER = re.compile(r"^(\*?\w+(?:, \w+)*)(?: : .*)?\n((?: {4}.+\n?)+)", re.MULTILINE)
_AS_IN = re.compile(r"As in `(\w+)`\.")
_FLAGS = {"out": ("-o", "--output")}
_NOT_OF_COMMANDS = ("progress", "frame", "build")
_WORDS: dict[str, dict[str, Any]] = {
    "what": {"metavar": "SPEC", "type": Path},
    "synthetic": {"metavar": "RELEASE_OR_CSV..."},
    "jobs": {"min": 1},
    "trust": {"envvar": "TABLEPACK_TRUST", "show_envvar": True},
}
"""Words for Typer, by parameter of any function."""
_BOUNDS = {"ge": "min", "le": "max"}


def taking(
    declared: Callable[..., Any],
    *,
    leave: Collection[str] = (),
    like: Mapping[str, Mapping[str, Any]] | None = None,
    **defaults: Any,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the parameters of a public function, or of a model, which it gets as its first argument.

    leave: Those that the command says in its own way.
    like: Words for Typer, by parameter, such as metavar or show_default; flags: those of an option.
    defaults: Of parameters that have another default in the command.
    """
    hints, taken, listed = _hints(declared), list[inspect.Parameter](), set[str]()
    for name, parameter in inspect.signature(declared).parameters.items():
        # Without a hint are `self` and the settings of a source without a spec: commands have a spec.
        is_left = name in leave or name in _NOT_OF_COMMANDS or name not in hints
        if is_left or parameter.kind is parameter.VAR_KEYWORD:
            continue
        words = {**_words(declared, name), **(like or {}).get(name, {})}
        flags = words.pop("flags", _FLAGS.get(name))
        default = defaults.get(name, parameter.default)
        type_, is_list = _of_command(hints[name], parameter, default)
        type_ = words.pop("type", type_)
        if is_list:
            listed.add(name)
            words["help"] += " Separated by commas."
        if flags or parameter.kind is parameter.KEYWORD_ONLY:
            flag = "--" + name.removesuffix("_s").replace("_", "-")
            said: Any = typer.Option(*(flags or (flag,)), **words)
        else:
            said = typer.Argument(**{"metavar": name.upper()} | words)
        taken.append(
            parameter.replace(
                kind=parameter.KEYWORD_ONLY, default=default, annotation=Annotated[type_, said]
            )
        )

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        _, *own = inspect.signature(command).parameters.values()
        own_hints = get_type_hints(command, include_extras=True)

        @wraps(command)
        def run(**arguments: Any) -> None:
            arguments = {p.name: p.default for p in every} | arguments
            for name in listed:
                text = arguments[name]
                arguments[name] = None if text is None else names_from(text)
            command({p.name: arguments.pop(p.name) for p in taken}, **arguments)

        mine = [p.replace(annotation=own_hints[p.name], kind=p.KEYWORD_ONLY) for p in own]
        # Settings of a model are details: after what the command says itself.
        every = [*mine, *taken] if isinstance(declared, type) else [*taken, *mine]
        run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in every}
        del run.__wrapped__  # its hints are others
        return run

    return decorate


def help_of(declared: Callable[..., Any], name: str) -> str:
    """What a docstring says first of a parameter of a function, or what a model says of a field."""
    if fields := getattr(declared, "model_fields", None):
        return str(fields[name].description)
    if not declared.__doc__:  # python -OO
        return ""
    doc = inspect.cleandoc(declared.__doc__)
    section = doc.partition("\nParameters\n----------\n")[2].partition("\n\nReturns\n")[0]
    for names, text in _PARAMETER.findall(section):
        if name in names.removeprefix("*").split(", "):
            other = _AS_IN.match(text.strip())
            return help_of(getattr(engine, other[1]), name) if other else " ".join(text.split())
    raise KeyError(f"{declared.__qualname__} does not describe {name}")


def _words(declared: Callable[..., Any], name: str) -> dict[str, Any]:
    """Arguments for Typer: the help of a parameter, and the bounds of a field."""
    fields = getattr(declared, "model_fields", {})
    bounds = [] if name not in fields else fields[name].metadata
    limits = {of: getattr(b, by) for b in bounds for by, of in _BOUNDS.items() if hasattr(b, by)}
    return {"help": help_of(declared, name)} | limits | _WORDS.get(name, {})


def _hints(declared: Callable[..., Any]) -> dict[str, Any]:
    """The types of parameters; those that are imported for type checking only are any object.

    Of a model: of the fields that are described.
    """
    if fields := getattr(declared, "model_fields", None):
        return {name: field.annotation for name, field in fields.items() if field.description}
    own = {name: hint for name, hint in declared.__annotations__.items() if name != "return"}
    known = defaultdict(lambda: object, vars(builtins) | declared.__globals__)
    return get_type_hints(SimpleNamespace(__annotations__=own), known, known)


def _of_command(hint: Any, parameter: inspect.Parameter, default: Any) -> tuple[Any, bool]:
    """The type of a parameter on the command line, and whether Python takes a list of names for the text.

    Whatever can be a path is one; whatever else Python takes is a text.
    """
    if parameter.kind == parameter.VAR_POSITIONAL:
        return list[str], False
    arms = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    arms = tuple(one for one in arms if one is not NoneType)
    kinds = {get_origin(one) or one for one in arms}
    type_: Any = str
    if kinds & {Path, os.PathLike}:
        type_ = Path
    elif len(arms) == 1 and kinds <= {bool, int, float, Literal}:
        (type_,) = arms
    is_list = kinds <= {Sequence, list, tuple}
    return type_ | None if default is None else type_, is_list
