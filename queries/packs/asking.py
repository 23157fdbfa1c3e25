"""What one table of a pack.toml asks of the release, and what it is called.

Takes a table of the spec and the pack's dimensions; gives a `Question`, titles and units in every language.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb

from engine.errors import SpecError
from queries.packs.figures import Question
from queries.packs.model import Dimension, Texts
from queries.packs.pack_spec import PackSpec, TableSpec
from queries.packs.words import texts
from queries.refusals import near_names
from queries.session import Release


def question_of(told: TableSpec, dimensions: dict[str, Dimension], release: Release) -> Question:
    """Return what a table asks of the release."""
    n, n_rows = len(told.names), len(told.rows)
    over = {
        "": (),
        "total": tuple(range(n)),
        "row": tuple(range(n_rows, n)),
        "column": tuple(range(n_rows)),
    }[told.percent]
    return Question(
        measure=told.measure,
        of=told.of,
        quantile=told.quantile,
        where={c: _typed(c, values, dimensions) for c, values in told.where.items()},
        over=over,
        has_negative=bool(over and told.of)
        and any(v is not None and v < 0 for v, *_ in release.values(told.of or "")),
    )


def _typed(column: str, given: list[Any], dimensions: dict[str, Dimension]) -> list[Any]:
    """The values of a filter, as the release types them."""
    items = [item for item in dimensions[column].items if item.kind == "value"]
    by_text = {item.code: item.value for item in items}
    by_text |= {item.value: item.value for item in items if isinstance(item.value, str)}
    out = []
    for value in given:
        same = [i.value for i in items if i.value == value and _is_bool(i.value) == _is_bool(value)]
        if not same and str(value) not in by_text:
            near = ", ".join(near_names(str(value), tuple(by_text))) or "none"
            raise SpecError(
                f"pack spec, where: {column} has no released value {value!r}. Near: {near}"
            )
        out.append(same[0] if same else by_text[str(value)])
    return out


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def label_of(told: TableSpec, con: duckdb.DuckDBPyConnection, spec: PackSpec) -> Texts | None:
    """Return the label of the column that is summed or averaged; None: people are counted."""
    if told.of is None:
        return None
    ((label,),) = con.execute(
        "SELECT label FROM catalog.columns WHERE name = ?", [told.of]
    ).fetchall()
    given = spec.columns[told.of].label if told.of in spec.columns else ""
    return texts(given, spec.pack.languages, label or told.of)


def units_of(told: TableSpec, of: Texts | None, spec: PackSpec, words: dict[str, Texts]) -> Texts:
    """Return what figures count: percent, people, or what a column holds."""
    if told.percent:
        return words["percent"]
    if of is not None and not told.unit:
        return of
    return texts(told.unit or spec.pack.unit, spec.pack.languages)


def titles_of(
    told: TableSpec,
    mine: Sequence[Dimension],
    dimensions: dict[str, Dimension],
    of: Texts | None,
    words: dict[str, Texts],
    languages: Sequence[str],
) -> Texts:
    """Return the title given; or what is measured, the columns by their labels, and whom it is about."""
    if told.title:
        return texts(told.title, languages)
    out = []
    for i in range(len(languages)):
        by = f" {words['by'][i]} "
        parts = [d.labels[i] for d in mine]
        title = by.join(parts) if len(parts) < 3 else f"{parts[0]}{by}{', '.join(parts[1:])}"
        if of is not None:
            title = f"{words[told.measure][i]} {of[i]}{by}{', '.join(parts)}"
        for column in told.where:
            kept = _typed(column, told.where[column], dimensions)
            labels = [it.labels[i] for it in dimensions[column].items if it.value in kept]
            title += f"; {dimensions[column].labels[i]}: {', '.join(labels)}"
        out.append(title)
    return tuple(out)
