"""Reference pages: the API from its docstrings, in HTML by pdoc; the spec from its models, in Markdown (--spec).

Run by ./scripts/reference. The page of the spec describes every key, from the pydantic models and constants of
`engine.spec`.
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

if TYPE_CHECKING:
    from pydantic import BaseModel

ROOT = Path(__file__).resolve().parents[1]
USERS = ("engine", "queries")
DEFAULT = "releases/reference"
SPEC = "engine/spec/REFERENCE.md"
_TYPES = {str: "text", int: "whole number", float: "number", bool: "`true`, `false`"}


def api(folder: Path) -> None:
    pdoc = import_module("pdoc")
    for package in USERS:
        module = import_module(package)
        # They are resolved when first used; pdoc looks into the module as it is.
        vars(module).update({name: getattr(module, name) for name in module.__all__})
    pdoc.render.configure(docformat="numpy")
    pdoc.pdoc(*USERS, *(f"!{package}\\..*" for package in USERS), output_directory=folder)


def spec_reference() -> str:
    model = import_module("engine.spec.model")
    heads = {"columns": "[columns.NAME]", "tables": "[[tables]]"}
    parts = [
        "# Spec reference",
        "Written by `./scripts/reference --spec` from `engine/spec/model.py`: do not edit. A spec is a TOML file; an "
        "unknown key is an error. `tablepack init DATA` writes a spec for your data, and `tablepack init --example` "
        "prints [one with every key](example.toml). Keys without a default may be left out unless they are required.",
    ]
    for name, section in model.SECTIONS.items():
        parts += [f"## `{heads.get(name, f'[{name}]')}`", *_section(name, section)]
        for key, nested in model.NESTED.items():
            if key in section.model_fields:
                parts += [f"### `{key} = {{ ... }}`", *_section(key, nested)]
    return "\n\n".join([*parts, *_formats(model.SUFFIXES)]) + "\n"


def _section(name: str, section: type[BaseModel]) -> Iterator[str]:
    from engine.spec.model import shape_of

    yield inspect.getdoc(section) or ""
    rows = ["| key | value | default | meaning |", "| --- | --- | --- | --- |"]
    for key, field in section.model_fields.items():
        if not field.description:
            raise SystemExit(f"{name}.{key} has no description")
        value = shape_of(name, key) or held(field.annotation)
        default = "required" if field.is_required() else default_text(field.default)
        rows.append(f"| `{key}` | {value} | {default} | {field.description.rstrip('.')} |")
    yield "\n".join(rows)


def held(kind: Any) -> str:
    from engine.spec.model import NESTED, Scalar

    arms = [one for one in get_args(kind) or (kind,) if one is not NoneType]
    if kind == Scalar or {*get_args(Scalar)} <= {*arms}:
        return "any value"
    if kind in NESTED.values() or any(one in NESTED.values() for one in arms):
        return "section, see below"
    if get_origin(kind) is Literal:
        return ", ".join(f"`{json.dumps(one)}`" for one in get_args(kind))
    if get_origin(kind) is list:
        (inner,) = get_args(kind)
        return f"list of {held(inner).replace('any value', 'values')}"
    if get_origin(kind) is dict:
        return f"table of {held(get_args(kind)[1])}"
    if len(arms) > 1:
        return " or ".join(held(one) for one in arms)
    return _TYPES[arms[0]] if arms[0] in _TYPES else held(arms[0])


def default_text(value: Any) -> str:
    """A default as TOML writes it; nothing for none."""
    if value is None:
        return ""
    return (
        f"`{value:_}`" if isinstance(value, int) and value >= 10_000 else f"`{json.dumps(value)}`"
    )


def _formats(suffixes: dict[str, str]) -> Iterator[str]:
    yield "## Formats by file name"
    rows = ["| format | suffixes |", "| --- | --- |"]
    for form in dict.fromkeys(suffixes.values()):
        listed = ", ".join(f"`{suffix}`" for suffix, of in suffixes.items() if of == form)
        rows.append(f"| `{form}` | {listed} |")
    yield "\n".join(rows)


def main() -> None:
    """Write one of the references."""
    parser = argparse.ArgumentParser(prog="./scripts/reference", description=__doc__)
    parser.add_argument("--spec", action="store_true", help=f"the spec, by default in {SPEC}")
    parser.add_argument("place", nargs="?", type=Path, help=f"folder (default {DEFAULT}), or file")
    given = parser.parse_args()
    place: Path = given.place or ROOT / (SPEC if given.spec else DEFAULT)
    sys.path.insert(0, str(ROOT))
    place.write_text(spec_reference(), encoding="utf-8") if given.spec else api(place)
    print(f"wrote {place}")


if __name__ == "__main__":
    main()
