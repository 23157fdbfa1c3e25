"""Reference pages in Markdown: the API from its docstrings, and the spec from its models. Run by ./scripts/reference.

The API page has the packages that users import (`engine`, `queries`), then the public names (`__all__`) of every
package below them. Numpydoc sections become bold lines with lists. A public name without a docstring is an error.
With --spec the page describes every key of a spec, from the pydantic models and constants of `engine.spec`.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType, NoneType
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

if TYPE_CHECKING:
    from pydantic import BaseModel

ROOT = Path(__file__).resolve().parents[1]
USERS = ("engine", "queries")
DEFAULT = "releases/reference.md"
SPEC = "engine/spec/REFERENCE.md"
_TYPES = {str: "text", int: "whole number", float: "number", bool: "`true`, `false`"}


def packages() -> list[str]:
    """Names of all packages: those that users import first, then by name."""
    found = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for package in USERS
        for path in (ROOT / package).rglob("__init__.py")
    }
    return [*USERS, *sorted(found - {*USERS, "engine.tablepack"})]


def members(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The public names of a package with their values, errors last."""
    held = [(name, getattr(module, name)) for name in getattr(module, "__all__", ())]
    return iter(sorted(held, key=lambda one: (is_error(one[1]), one[0].lower())))


def is_error(value: object) -> bool:
    """Whether it is an exception class."""
    return isinstance(value, type) and issubclass(value, BaseException)


def signature(name: str, value: Any) -> str:
    """A name with its signature, if it has one."""
    if not callable(value) or is_error(value) or not hasattr(value, "__module__"):
        return name
    try:
        parameters = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    shown = re.sub(r"<[^<>]*>", "...", f"{name}{parameters}")
    # Annotations are strings: drop their quotes.
    return re.sub(r"(: |-> )(['\"])(.*?)\2", r"\1\3", shown)


def page_of(text: str) -> str:
    """A docstring in Markdown: sections bold, their entries a list."""
    out: list[str] = []
    in_section = False
    lines = text.splitlines()
    for i, line in enumerate(lines):
        following = lines[i + 1] if i + 1 < len(lines) else ""
        if re.fullmatch(r"-{3,}", following) and line.strip():
            in_section = True
            out += [f"**{line.strip()}**", ""]
        elif re.fullmatch(r"-{3,}", line):
            continue
        elif in_section and line and not line.startswith(" "):
            name, colon, kind = line.partition(" : ")
            out.append(f"- `{name}`" + (f" : {kind}" if colon else ""))
        elif in_section and line:
            out.append(f"  {line.strip()}")
        else:
            out.append(line)
    return "\n".join(out).strip()


def is_documented(value: Any) -> bool:
    """Whether a value has a docstring of its own, not that of its type."""
    return inspect.isroutine(value) or isinstance(value, type) or isinstance(value, ModuleType)


def entry(package: str, name: str, value: Any) -> str:
    """The entry of one public name."""
    if not is_documented(value):
        return f"### `{package}.{name}`\n\n`{value!r}`" if len(repr(value)) < 100 else ""
    text = inspect.getdoc(value) if value.__doc__ else None
    if not text:
        raise SystemExit(f"{package}.{name} has no docstring")
    parts = [f"### `{package}.{signature(name, value)}`", page_of(text)]
    if package in USERS and isinstance(value, type) and not is_error(value):
        parts += methods(value)
    return "\n\n".join(parts)


def methods(of: type) -> Iterator[str]:
    """The public methods and properties of a class, with those it inherits from our own classes."""
    for name in sorted(n for n in dir(of) if not n.startswith("_")):
        value = inspect.getattr_static(of, name)
        target = value.fget if isinstance(value, property) else getattr(of, name)
        text = inspect.getdoc(target) if callable(target) else None
        if text:
            called = name if isinstance(value, property) else signature(name, target)
            yield f"#### `.{called.replace('(self, ', '(').replace('(self)', '()')}`\n\n{page_of(text)}"


def reference() -> str:
    """The page of the API."""
    parts = [
        "# API reference",
        "Written by `./scripts/reference` from the docstrings: do not edit.",
    ]
    for package in packages():
        module = import_module(package)
        parts += [f"## {package}", page_of(inspect.getdoc(module) or "")]
        parts += [text for name, value in members(module) if (text := entry(package, name, value))]
    return "\n\n".join(parts) + "\n"


def spec_reference() -> str:
    """The page of the spec: every section with its keys."""
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
    """The help of a section, and the table of its keys."""
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
    """What a key of a type holds, in words."""
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
    """Which format a file name implies."""
    yield "## Formats by file name"
    rows = ["| format | suffixes |", "| --- | --- |"]
    for form in dict.fromkeys(suffixes.values()):
        listed = ", ".join(f"`{suffix}`" for suffix, of in suffixes.items() if of == form)
        rows.append(f"| `{form}` | {listed} |")
    yield "\n".join(rows)


def main() -> None:
    """Write one of the pages."""
    parser = argparse.ArgumentParser(prog="./scripts/reference", description=__doc__)
    parser.add_argument("--spec", action="store_true", help=f"the spec, by default in {SPEC}")
    parser.add_argument("file", nargs="?", type=Path, help=f"file to write (default {DEFAULT})")
    given = parser.parse_args()
    file: Path = given.file or ROOT / (SPEC if given.spec else DEFAULT)
    sys.path.insert(0, str(ROOT))
    file.write_text(spec_reference() if given.spec else reference(), encoding="utf-8")
    print(f"wrote {file}")


if __name__ == "__main__":
    main()
