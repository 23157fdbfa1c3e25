"""The API reference as one Markdown page, from signatures and docstrings. Called by ./scripts/reference.

First what users import (`engine`, `queries`), then the face of every package below them: what its `__init__.py` lists
in `__all__`. Numpydoc sections become bold lines with lists. A public name without a docstring ends the run.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
USERS = ("engine", "queries")
DEFAULT = "releases/reference.md"


def packages() -> list[str]:
    """Names of all packages: those of users first, then by name."""
    found = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for package in USERS
        for path in (ROOT / package).rglob("__init__.py")
    }
    return [*USERS, *sorted(found - {*USERS, "engine.tablepack"})]


def members(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The names of a face with what they stand for, errors last."""
    held = [(name, getattr(module, name)) for name in getattr(module, "__all__", ())]
    return iter(sorted(held, key=lambda one: (is_error(one[1]), one[0].lower())))


def is_error(value: object) -> bool:
    """Whether it is a class of errors."""
    return isinstance(value, type) and issubclass(value, BaseException)


def signature(name: str, value: Any) -> str:
    """A name as it is called; bare where it has no signature of its own."""
    if not callable(value) or is_error(value) or not hasattr(value, "__module__"):
        return name
    try:
        parameters = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    shown = re.sub(r"<[^<>]*>", "...", f"{name}{parameters}")
    # Annotations are texts: their quotes say nothing.
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
    """Whether a docstring is its own, not that of a plain value's type."""
    return inspect.isroutine(value) or isinstance(value, type) or isinstance(value, ModuleType)


def entry(package: str, name: str, value: Any) -> str:
    """One name of a face."""
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
    """What users call on an object, by name, with what it inherits from our own classes."""
    for name in sorted(n for n in dir(of) if not n.startswith("_")):
        value = inspect.getattr_static(of, name)
        target = value.fget if isinstance(value, property) else getattr(of, name)
        text = inspect.getdoc(target) if callable(target) else None
        if text:
            called = name if isinstance(value, property) else signature(name, target)
            yield f"#### `.{called.replace('(self, ', '(').replace('(self)', '()')}`\n\n{page_of(text)}"


def reference() -> str:
    """The whole page."""
    parts = [
        "# API reference",
        "Written by `./scripts/reference` from the docstrings: do not edit.",
    ]
    for package in packages():
        module = import_module(package)
        parts += [f"## {package}", page_of(inspect.getdoc(module) or "")]
        parts += [text for name, value in members(module) if (text := entry(package, name, value))]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(prog="./scripts/reference", description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=ROOT / DEFAULT)
    file: Path = parser.parse_args().file
    sys.path.insert(0, str(ROOT))
    file.write_text(reference(), encoding="utf-8")
    print(f"wrote {file}")


if __name__ == "__main__":
    main()
