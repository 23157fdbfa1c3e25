"""What the OpenAPI document says of questions that a link asks: their parameters, and the shape of the answers.

Plain values in the words of OpenAPI 3.1; nothing here decides what is accepted (`queries.serve.question` does).
"""

from __future__ import annotations

from typing import Any

from queries.serve.question import Question

Schema = dict[str, Any]
_TEXT: Schema = {"type": "string"}
_INTEGER: Schema = {"type": "integer"}
_BOOLEAN: Schema = {"type": "boolean"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_NUMBERS: Schema = {"type": "array", "items": {"type": ["number", "null"]}}
_HEADS: Schema = {"type": "array", "items": _TEXTS}
_PARAMETERS = {
    "rows": ("Columns whose values label the rows; several: repeat it.", _TEXTS),
    "cols": ("Columns whose values label the columns; several: repeat it.", _TEXTS),
    "band.COLUMN": (
        "band.COLUMN=10: values in bands of that width; of dates, years, or month or quarter.",
        _TEXT,
    ),
    "group.COLUMN": (
        "group.COLUMN=Working age|16..64|70: an own group, a name and its members; several: repeat it. A backslash "
        "makes the next sign a letter. Values in no group stay by themselves.",
        _TEXTS,
    ),
    "only.COLUMN": ("only.COLUMN=KEY: values to keep, several: repeat it; ~ is a blank.", _TEXTS),
    "from.COLUMN": ("from.COLUMN=16: the lowest value to keep.", _TEXT),
    "to.COLUMN": ("to.COLUMN=64: the highest value to keep.", _TEXT),
    "measure": ("What is displayed; ratio: rows over the other rows of their total.", None),
    "of": ("The column of numbers that is summed, averaged ...", None),
    "quantile": ("Which quantile, between 0 and 1.", None),
    "percent": ("Counts as shares of this total; for a ratio, which total.", None),
}
"""Description and shape of each; None: the shape that `Question` has."""


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties}


_CELLS = {
    **_object(value=_NUMBERS, low=_NUMBERS, high=_NUMBERS, status=_TEXTS),
    "description": "Figures row by row; low and high are the noise interval. Null: nothing is released.",
}
_MARGIN = {**_CELLS, "type": ["object", "null"]}
_ERROR = {
    **_object(error=_TEXT, message=_TEXT, missing=_TEXTS, nearest=_HEADS),
    "required": ["error", "message"],
}
_ANSWERS = {
    "table": _object(
        **{"measure": _TEXT, "percent": _TEXT, "row_heads": _HEADS, "col_heads": _HEADS},
        **{"cells": _CELLS, "row_total": _MARGIN, "col_total": _MARGIN, "total": _MARGIN},
        **{"table": _TEXTS, "words": _TEXT, "card": _TEXTS, "link": _TEXT},
    ),
    "plan": _object(
        **{"is_answerable": _BOOLEAN, "table": _TEXTS, "sql": _TEXT, "link": _TEXT},
        others={"type": "array", "items": {"type": "object"}},
        **{"message": _TEXT, "nearest": _HEADS, "spec": _TEXT},
    ),
    "page": _object(
        **{"columns": _TEXTS, "types": _TEXTS, "table": {**_TEXTS, "type": ["array", "null"]}},
        **{"source": _TEXT, "warnings": _TEXTS, "n_rows": _INTEGER, "is_cut": _BOOLEAN},
        **{"answer": _TEXT, "page": _INTEGER, "size": _INTEGER, "n_pages": _INTEGER},
        footnotes=_TEXTS,
        not_released={"type": "array", "items": {"type": "array", "items": _INTEGER}},
        rows={"type": "array", "items": {"type": "array"}},
    ),
}
_ERRORS = {
    400: "Not understood, or its parts do not go together",
    404: "No released table covers it",
    413: "Too large",
}


def parameters() -> list[dict[str, Any]]:
    """Return the parameters of a link that asks a question; none is needed."""
    fields = Question.model_json_schema()["properties"]
    out = []
    for name, (text, given) in _PARAMETERS.items():
        parts = ("type", "enum", "anyOf", "default")
        schema = given or {k: v for k, v in fields[name].items() if k in parts}
        place = {"name": name, "in": "query", "required": False}
        out.append({**place, "description": text, "schema": schema})
    return out


def answers(kind: str) -> dict[int | str, dict[str, Any]]:
    """Return what the document says of the answers of one kind: table, plan or page."""
    shapes = {200: ("As asked", _ANSWERS[kind])}
    shapes |= {status: (text, _ERROR) for status, text in _ERRORS.items()}
    return {
        status: {"description": text, "content": {"application/json": {"schema": schema}}}
        for status, (text, schema) in shapes.items()
    }


def without_422(document: dict[str, Any]) -> None:
    """Take from a document the status that the framework foresees: a mistake is answered with 400."""
    for path in document["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
    for name in ("HTTPValidationError", "ValidationError"):
        document.get("components", {}).get("schemas", {}).pop(name, None)
