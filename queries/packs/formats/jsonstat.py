"""JSON-stat 2.0: a table as a cube, one file per language.

JSON-stat requires every combination, so a listed table has no file. Interval limits accompany the figures as a
dimension with three codes (value, low, high).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.store import unused_name
from queries.packs.files import (
    FIGURES,
    JSON,
    File,
    Format,
    as_json,
    in_language,
    rounded,
    text_file,
)
from queries.packs.model import STATUSES, Dimension, Pack, PackTable


def jsonstat(table: PackTable, pack: Pack, language: int) -> str:
    """Return a table, a full cube, as JSON-stat 2.0 with labels in one language."""
    words = pack.words_in(language)
    figure = unused_name("figure", [d.name for d in table.dimensions])
    dimension: dict[str, Any] = {
        d.name: _dimension(d, used, language)
        for d, used in zip(table.dimensions, table.used, strict=True)
    }
    category = {
        "index": list(FIGURES),
        "label": {f: words[f] for f in FIGURES},
        "unit": {f: {"label": table.units[language]} for f in FIGURES},
    }
    dimension[figure] = {"label": words["figure"], "category": category}
    figures = np.stack([table.value, table.low, table.high], axis=1).ravel()
    numbers, is_known = rounded(figures, table.is_whole)
    pairs = zip(numbers.tolist(), is_known.tolist(), strict=True)
    out: dict[str, Any] = {
        "version": "2.0",
        "class": "dataset",
        "label": table.titles[language],
        "source": pack.info.publisher or pack.release["title"],
        "id": [*(d.name for d in table.dimensions), figure],
        "size": [*table.shape, len(FIGURES)],
        "role": {"metric": [figure]},
        "dimension": dimension,
        "value": [number if known else None for number, known in pairs],
        "status": [STATUSES[s] for s in table.status.tolist() for _ in FIGURES],
        "note": [table.words, *(note[language] for note in table.footnotes)],
        "extension": {"status": {s: words[f"about {s}"] for s in STATUSES}},
    }
    if pack.info.issued:
        out["updated"] = pack.info.issued.isoformat()
    return as_json(out, compact=True)


def _dimension(dimension: Dimension, used: npt.NDArray[np.int64], language: int) -> dict[str, Any]:
    """A dimension with its categories and their hierarchy."""
    items = dimension.items
    places: list[int] = used.tolist()
    displayed = set(places)
    children: dict[str, list[str]] = {}
    for p in places:
        if items[p].parent in displayed:
            children.setdefault(items[items[p].parent].code, []).append(items[p].code)
    category: dict[str, Any] = {
        "index": [items[p].code for p in places],
        "label": {items[p].code: items[p].labels[language] for p in places},
    }
    if children:
        category["child"] = children
    return {"label": dimension.labels[language], "category": category}


def _files(pack: Pack) -> Iterator[File]:
    for t in pack.cubes:
        for i, language in enumerate(pack.languages):
            path = f"jsonstat/{in_language(t.id, language, i)}.json"
            yield text_file(path, partial(jsonstat, t, pack, i), media_type=JSON, table=t.id)


JSON_STAT = Format(name="JSON-stat", path="jsonstat/", about="JSON-stat 2.0", files=_files)
