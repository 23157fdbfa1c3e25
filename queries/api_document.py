"""What the OpenAPI document says of questions that a link asks: their parameters, and the shape of the answers.

Plain values in the words of OpenAPI 3.1; nothing here decides what is accepted (`queries.api_question` does).
"""

from __future__ import annotations

from typing import Any

from queries.api_question import Question

_LISTS = {
    "rows": "Columns whose values label the rows; several: repeat it.",
    "cols": "Columns whose values label the columns; several: repeat it.",
}
_NAMED = {
    "band": "band.COLUMN=10: values in bands of that width; years for dates.",
    "group": "group.COLUMN=Working age|16..64|70: an own group, a name and its members; several: repeat it. A "
    "backslash makes the next sign a letter. Values in no group stay by themselves.",
    "only": "only.COLUMN=KEY: values to keep, several: repeat it; ~ is a blank.",
    "from": "from.COLUMN=16: the lowest value to keep.",
    "to": "to.COLUMN=64: the highest value to keep.",
}
_PLAIN = {
    "measure": "What is shown; ratio: rows over the other rows of their total.",
    "of": "The column of numbers that is summed, averaged ...",
    "quantile": "Which quantile, between 0 and 1.",
    "percent": "Counts as shares of this total; for a ratio, which total.",
}
_NUMBERS = {"type": "array", "items": {"type": ["number", "null"]}}
_TEXTS = {"type": "array", "items": {"type": "string"}}
_HEADS = {"type": "array", "items": _TEXTS}
_CELLS = {
    "type": "object",
    "description": "Figures row by row; low and high are the noise interval. Null: nothing is released.",
    "properties": {"value": _NUMBERS, "low": _NUMBERS, "high": _NUMBERS, "status": _TEXTS},
}
_SIDE = {**_CELLS, "type": ["object", "null"]}
_ERROR = {
    "type": "object",
    "required": ["error", "message"],
    "properties": {
        "error": {"type": "string"},
        "message": {"type": "string"},
        "missing": _TEXTS,
        "nearest": _HEADS,
    },
}
_TABLE = {
    "type": "object",
    "properties": {
        "measure": {"type": "string"},
        "percent": {"type": "string"},
        "row_heads": _HEADS,
        "col_heads": _HEADS,
        "cells": _CELLS,
        "row_total": _SIDE,
        "col_total": _SIDE,
        "total": _SIDE,
        "table": _TEXTS,
        "words": {"type": "string"},
        "card": _TEXTS,
        "link": {"type": "string"},
    },
}
_PLANNED = {
    "type": "object",
    "properties": {
        "is_answerable": {"type": "boolean"},
        "table": _TEXTS,
        "sql": {"type": "string"},
        "link": {"type": "string"},
        "others": {"type": "array", "items": {"type": "object"}},
        "message": {"type": "string"},
        "nearest": _HEADS,
        "spec": {"type": "string"},
    },
}
_PAGE = {
    "type": "object",
    "properties": {
        "columns": _TEXTS,
        "types": _TEXTS,
        "table": {**_TEXTS, "type": ["array", "null"]},
        "source": {"type": "string"},
        "warnings": _TEXTS,
        "n_rows": {"type": "integer"},
        "is_cut": {"type": "boolean"},
        "answer": {"type": "string"},
        "page": {"type": "integer"},
        "size": {"type": "integer"},
        "n_pages": {"type": "integer"},
        "rows": {"type": "array", "items": {"type": "array"}},
    },
}


def parameters() -> list[dict[str, Any]]:
    """Return the parameters of a link that asks a question."""
    fields = Question.model_json_schema()["properties"]
    said: list[dict[str, Any]] = [_parameter(n, text, _TEXTS) for n, text in _LISTS.items()]
    for name, text in _NAMED.items():
        kind = _TEXTS if name in ("group", "only") else {"type": "string"}
        said.append(_parameter(f"{name}.COLUMN", text, kind))
    for name, text in _PLAIN.items():
        schema = {
            k: v for k, v in fields[name].items() if k in ("type", "enum", "anyOf", "default")
        }
        said.append(_parameter(name, text, schema))
    return said


def answers(kind: str) -> dict[int | str, dict[str, Any]]:
    """Return what the document says of the answers of one kind: table, plan or page."""
    shape = {"table": _TABLE, "plan": _PLANNED, "page": _PAGE}[kind]
    return {
        200: {"description": "As asked", "content": {"application/json": {"schema": shape}}},
        **{
            status: {"description": text, "content": {"application/json": {"schema": _ERROR}}}
            for status, text in (
                (400, "Not understood, or its parts do not go together"),
                (404, "No released table covers it"),
                (413, "Too large"),
            )
        },
    }


def without_422(document: dict[str, Any]) -> None:
    """Take from a document the status that the framework foresees: a mistake is told with 400."""
    for path in document["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
    for name in ("HTTPValidationError", "ValidationError"):
        document.get("components", {}).get("schemas", {}).pop(name, None)


def _parameter(name: str, text: str, schema: dict[str, Any]) -> dict[str, Any]:
    """One parameter; none is needed."""
    return {"name": name, "in": "query", "required": False, "description": text, "schema": schema}
