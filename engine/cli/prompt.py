"""The prompt of `tablepack sql RELEASE`: statements one after another, each ended by a semicolon.

A refusal is printed and the next statement read. Neither statements nor answers are written anywhere.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import suppress

import duckdb

from engine.cli import ending
from engine.cli.console import notes, out
from engine.errors import QueryRefused
from queries.release import Release

HELP = "A statement ends with a semicolon. What there is: .tables, .columns, .notes; to leave: .quit or Ctrl-D."
FIRST, NEXT = "> ", ". "
_LEAVE = (".quit", ".exit", ".q")


def prompt(
    release: Release, answer: Callable[[str], None], *, read: Callable[[str], str] = input
) -> None:
    """Read statements and answer them until the input ends."""
    with suppress(ImportError):
        importlib.import_module("readline")  # lines can be edited, and those before called back
    notes().print(
        f"Ask: SELECT ... FROM {release.logical_name};  {HELP}", soft_wrap=True, markup=False
    )
    lines: list[str] = []
    while True:
        try:
            lines.append(read(NEXT if lines else FIRST))
        except KeyboardInterrupt:
            _forget()
            lines = []
            notes().print()
            continue
        except EOFError:
            notes().print()
            return
        text = "\n".join(lines).strip()
        if text.lower() in _LEAVE:
            return
        if text.startswith(".") or _is_ended(text) or not text:
            lines = []
            _run(release, text, answer)


def _is_ended(text: str) -> bool:
    """Whether it ends with a semicolon that is no part of a text, a quoted name or a comment."""
    tokens = duckdb.tokenize(text) if text.endswith(";") else []
    return bool(tokens) and tokens[-1][1] == duckdb.token_type.operator


def _run(release: Release, text: str, answer: Callable[[str], None]) -> None:
    """Answer one statement, or one of the commands that begin with a dot."""
    commands = {
        ".tables": lambda: [", ".join(columns) for columns in release.tables],
        ".columns": lambda: [f"{c}  {t}  {release.labels[c]}" for c, t in release.columns.items()],
        ".notes": lambda: list(release.notes),
    }
    if text.startswith("."):
        for line in commands.get(text.lower(), lambda: [HELP])():
            out().print(line, soft_wrap=True, markup=False)
    elif text:
        try:
            answer(text)
        except QueryRefused as error:
            notes().print(f"error: {error}", soft_wrap=True, markup=False, style="red")
        except (Exception, KeyboardInterrupt) as error:
            # What waits for DuckDB turns Ctrl-C into an error of its own.
            if not _forget() and not isinstance(error, KeyboardInterrupt):
                raise
            notes().print("stopped", markup=False)


def _forget() -> bool:
    """Take a Ctrl-C as answered: a prompt goes on; whether there was one."""
    handler = ending()
    return handler is not None and handler.forget()
