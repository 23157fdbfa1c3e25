"""OpenAPI 3.1 descriptions of query parameters and answers; validation itself is in `queries.serve.question`."""

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
    "rows": ("Columns whose values label the rows; repeat for several.", _TEXTS),
    "cols": ("Columns whose values label the columns; repeat for several.", _TEXTS),
    "band.COLUMN": (
        "band.COLUMN=10: group values in bands of this width; for dates, years, or month, quarter or year; for times "
        "of day, minutes.",
        _TEXT,
    ),
    "group.COLUMN": (
        "group.COLUMN=Working age|16..64|70: a custom group, its name and members; repeat for several. A backslash "
        "escapes the next character. Values outside the groups stay separate.",
        _TEXTS,
    ),
    "only.COLUMN": ("only.COLUMN=KEY: a value to keep; repeat for several; ~ is a blank.", _TEXTS),
    "from.COLUMN": ("from.COLUMN=16: the lowest value to include.", _TEXT),
    "to.COLUMN": ("to.COLUMN=64: the highest value to include.", _TEXT),
    "measure": ("The measure; ratio: rows divided by the other rows of their total.", None),
    "of": ("The numeric column to summarise.", None),
    "quantile": ("The quantile, between 0 and 1.", None),
    "percent": ("Base of the percentages; for a ratio, its total.", None),
}
"""Description and schema of each; None: the schema from `Question`."""


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties}


_CELLS = {
    **_object(value=_NUMBERS, low=_NUMBERS, high=_NUMBERS, status=_TEXTS),
    "description": "Figures row by row; low and high are the ends of the noise interval. Null: not released.",
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
    400: "Invalid or contradictory query",
    404: "No released table covers the query",
    413: "Request or answer too large",
}


def parameters() -> list[dict[str, Any]]:
    """Return the query parameters; all are optional."""
    fields = Question.model_json_schema()["properties"]
    out = []
    for name, (text, given) in _PARAMETERS.items():
        parts = ("type", "enum", "anyOf", "default")
        schema = given or {k: v for k, v in fields[name].items() if k in parts}
        place = {"name": name, "in": "query", "required": False}
        out.append({**place, "description": text, "schema": schema})
    return out


def answers(kind: str) -> dict[int | str, dict[str, Any]]:
    """Return the responses for one kind of answer: table, plan or page."""
    shapes = {200: ("Success", _ANSWERS[kind])}
    shapes |= {status: (text, _ERROR) for status, text in _ERRORS.items()}
    return {
        status: {"description": text, "content": {"application/json": {"schema": schema}}}
        for status, (text, schema) in shapes.items()
    }


def without_422(document: dict[str, Any]) -> None:
    """Remove the framework's status 422 from a document: invalid requests get 400."""
    for path in document["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
    for name in ("HTTPValidationError", "ValidationError"):
        document.get("components", {}).get("schemas", {}).pop(name, None)
