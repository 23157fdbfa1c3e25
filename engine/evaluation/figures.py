"""The catalogue of figures: what each one says, which direction is good, what it can be, and who says so.

Read from `figures.toml` beside it, which says how it is written. Invariant: every figure that a measure or an attack
returns is there.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib.resources import files
from itertools import groupby
from typing import Any

from engine.evaluation.score import Figure

WIDTHS = {1: "one column", 2: "two columns", 3: "three columns", 4: "four columns"}


def _read() -> tuple[dict[str, Figure], dict[str, str], frozenset[str]]:
    """Figures by `measure.value`, and titles of measures and attacks, both in the order of reports; strong attacks."""
    text = files("engine.evaluation").joinpath("figures.toml").read_text(encoding="utf-8")
    figures, titles, strong = {}, {}, set()
    for measure, entry in tomllib.loads(text).items():
        titles[measure] = entry.pop("title")
        if entry.pop("is_strong", False):
            strong.add(measure)
        shared = {key: value for key, value in entry.items() if not isinstance(value, dict)}
        own = [(key, value) for key, value in entry.items() if isinstance(value, dict)]
        for name, fields in _of_each_width(own):
            is_context = fields.get("better") == "neither"
            inherited = {k: v for k, v in shared.items() if not is_context or k == "columns"}
            full_name = f"{measure}.{name}"
            figures[full_name] = Figure(name=full_name, **inherited | fields)
    return figures, titles, frozenset(strong)


def _of_each_width(
    entries: list[tuple[str, dict[str, Any]]],
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Entries, those of several widths as one for each, neighbours of the same widths together."""
    for widths, group in groupby(entries, key=lambda entry: entry[1].pop("of_width", None)):
        several = list(group)
        for width in widths or ():
            for name, fields in several:
                words = {k: fields[k].format(columns=WIDTHS[width]) for k in ("title", "words")}
                more = {k: v for k, v in fields.items() if k != "headline_widths"}
                is_headline = width in fields.get("headline_widths", ())
                whole = more | words | {"columns": str(width), "is_headline": is_headline}
                yield f"{name}_{width}", whole
        if not widths:
            yield from several


FIGURES, TITLES, STRONG = _read()
"""`STRONG`: attacks that `tablepack attack` runs, and `evaluate` does not."""


def figures_of(*measures: str) -> tuple[Figure, ...]:
    """Return the figures of some measures or attacks, in their order."""
    return tuple(f for name, f in FIGURES.items() if name.partition(".")[0] in measures)
