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
from queries.packs.files import JSON, File, Format, as_json, in_language, numbers_of, text_file
from queries.packs.model import STATUSES, Contents, Dimension, Pack, PackTable


def jsonstat(table: PackTable, pack: Pack, language: int) -> str:
    """Return a table, a full cube, as JSON-stat 2.0 with labels in one language."""
    return as_json(dataset(table, pack, language, table.contents(pack.words)), compact=True)


def dataset(table: PackTable, pack: Pack, language: int, contents: Contents) -> dict[str, Any]:
    """Return a table, a full cube, and what is shown of it, as JSON-stat 2.0 in plain values."""
    words = pack.words_in(language)
    name = unused_name(contents.name, [d.name for d in table.dimensions])
    dimension: dict[str, Any] = {
        d.name: _dimension(d, used, language)
        for d, used in zip(table.dimensions, table.used, strict=True)
    }
    items = contents.items
    category = {
        "index": [c.code for c in items],
        "label": {c.code: c.labels[language] for c in items},
        "unit": {c.code: {"label": c.units[language], "decimals": c.decimals} for c in items},
    }
    dimension[name] = {"label": contents.labels[language], "category": category}
    columns = [numbers_of(c.figures, c.is_whole) for c in items]
    statuses = [[STATUSES[s] for s in c.status.tolist()] for c in items]
    out: dict[str, Any] = {
        "version": "2.0",
        "class": "dataset",
        "label": table.titles[language],
        "source": pack.info.publisher or pack.release["title"],
        "id": [*(d.name for d in table.dimensions), name],
        "size": [*table.shape, len(items)],
        "role": {"metric": [name]},
        "dimension": dimension,
        "value": [number for row in zip(*columns, strict=True) for number in row],
        "status": [status for row in zip(*statuses, strict=True) for status in row],
        "note": [table.words, *(note[language] for note in table.footnotes)],
        "extension": {"status": {s: words[f"about {s}"] for s in STATUSES}},
    }
    if pack.info.issued:
        out["updated"] = pack.info.issued.isoformat()
    return out


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
