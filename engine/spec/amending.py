"""Add tables to a spec, or remove them: in its text, or in a spec made in Python.

Takes column sets; gives the text, or the spec, with more or fewer `[[tables]]`. Invariant: nothing else in the text
changes.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.errors import SpecError
from engine.schema import MAX_WIDTH, ColumnSet, column_set
from engine.spec.model import TableEntry
from engine.spec.reading import ReleaseSpec
from engine.spec.tables import TableContext, expanded, with_each, with_weight
from engine.texts import spec_entry

_ENTRY = re.compile(r"^[ \t]*\[\[[ \t]*tables[ \t]*\]\]", re.MULTILINE)
_HEAD = re.compile(r"^[ \t]*\[", re.MULTILINE)


def with_entries(text: str, tables: Iterable[ColumnSet]) -> str:
    """The text of a spec with one more entry for each table."""
    end = "\r\n" if "\r\n" in text else "\n"
    wanted = [*tables]
    added = "".join(f"\n{spec_entry(columns)}\n" for columns in wanted).replace("\n", end)
    longer = f"{text.rstrip()}{end}{added}"
    was, now = _read(text), _read(longer)
    entries = [{"columns": [*columns]} for columns in wanted]
    if was is None or now != was | {"tables": [*was.get("tables", []), *entries]}:
        raise SpecError(
            "the spec does not list its tables in [[tables]] entries: add the new ones by hand"
        )
    return longer


def without_entries(text: str, tables: Iterable[ColumnSet], *, each: str | None = None) -> str:
    """The text of a spec without the entries that name exactly these tables.

    each: A column that every table has, named or not (`release.each`).
    """
    for columns in tables:
        entries = (_read(text) or {}).get("tables", [])
        more = () if each is None else (each,)
        own = [
            i
            for i, one in enumerate(entries)
            if "columns" in one and column_set([*{*one["columns"], *more}]) == columns
        ]
        if not own:
            raise SpecError(
                f"{', '.join(columns)}: no [[tables]] entry names exactly this table; it belongs to a family (all, "
                "sql, file). List the tables of the family one by one, or narrow it, then run drop without columns"
            )
        shorter = _without(text, own[0])
        if shorter is None:
            raise SpecError(
                f"{', '.join(columns)}: its entry in the spec cannot be removed safely; remove tables[{own[0] + 1}] "
                "by hand, then run drop without columns"
            )
        text = shorter
    return text


def amended(
    spec: ReleaseSpec,
    *,
    more: Sequence[Sequence[str]] = (),
    fewer: Sequence[Sequence[str]] = (),
) -> ReleaseSpec:
    """A spec with more tables, or fewer."""
    problems: list[str] = []
    names = tuple(c.name for c in spec.columns if c.name not in spec.source.entity_columns)
    context = TableContext(
        folder=Path(),
        names=names,
        entities=spec.source.entity_columns,
        columns=None,
        logical_name=spec.logical_name,
        sql=None,
        max_width=None if spec.mode == "dp" else MAX_WIDTH,
    )
    entries = [
        (f"tables[{i}]", TableEntry.model_validate({"columns": list(columns)}))
        for i, columns in enumerate(more, 1)
    ]
    tables, _ = expanded(entries, context, problems)
    added = with_weight(with_each(tables, spec.each, problems), spec.weight)
    gone = {column_set(tuple(columns)) for columns in fewer}
    problems += [
        f"{', '.join(c)}: the spec has no such table" for c in sorted(gone - {*spec.tables})
    ]
    left = ({*spec.tables} | {*added}) - gone
    if not left:
        problems.append("tables: no table would be left")
    if problems:
        raise SpecError(problems)
    options = {table: one for table, one in spec.wide_options.items() if table in left}
    return replace(
        spec, tables=tuple(sorted(left, key=lambda t: (len(t), t))), wide_options=options
    )


def _without(text: str, index: int) -> str | None:
    """The text without one entry; None if that would change anything else."""
    was, end = tomllib.loads(text), "\r\n" if "\r\n" in text else "\n"
    heads = [found.span() for found in _ENTRY.finditer(text)]
    if index >= len(heads):
        return None
    start, inside = heads[index]
    after = _HEAD.search(text, inside)
    lines = text[start : after.start() if after else len(text)].splitlines(keepends=True)
    while len(lines) > 1 and lines[-1].strip()[:1] in ("", "#"):
        lines.pop()  # trailing comments may belong to what follows
    before, rest = text[:start].rstrip(), text[start + len("".join(lines)) :].lstrip("\r\n")
    shorter = f"{before}{end}{end}{rest}" if rest else f"{before}{end}"
    left = [one for i, one in enumerate(was["tables"]) if i != index]
    wanted = {key: value for key, value in was.items() if key != "tables"}
    return shorter if _read(shorter) == wanted | ({"tables": left} if left else {}) else None


def _read(text: str) -> dict[str, Any] | None:
    """What a text of TOML holds; None if it is not TOML."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
