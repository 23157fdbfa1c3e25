"""Files that a study names beside its own: a schema, a dictionary, baselines.

Gives the study with what the schema adds, labels for people, and baselines for attacks. What the study itself says
goes first. All are public: none is made from the data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.errors import SpecError
from engine.evaluation.study.model import Study, find_file
from engine.texts import parsed_json

BLANK_LABEL = ""
"""Key, among the labels of a column's values, of the blank."""


def with_files(study: Study, folders: Sequence[Path]) -> Study:
    """Return the study with orders, texts and spellings of blanks that its schema file says.

    study: Its `schema_file` has the form of NIST's schema.json: column -> dtype, values in their order,
        null_value.
    """
    if study.schema_file is None:
        return study
    path = find_file(study.schema_file, folders)
    schema = _columns(path, key="schema")
    order, texts, nulls = dict(study.order), list(study.texts), list(study.nulls)
    for name, entry in schema.items():
        null = entry.get("null_value")
        nulls += [str(null)] if null is not None else []
        values = [str(v) for v in _list(entry.get("values", []), path) if v != null]
        if entry.get("dtype") == "object" and not all(map(_is_number, values)):
            texts.append(name)
            order.setdefault(name, values)
    changed = {"order": order, "texts": _once(texts), "nulls": _once(nulls)}
    return study.model_copy(update=changed)


def labels_of(
    study: Study,
    folders: Sequence[Path],
    *,
    labels: Mapping[str, str] | None = None,
    value_labels: Mapping[str, Mapping[str, str]] | None = None,
) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Return what columns, and their values as text, are called.

    study: Its `dictionary` has the form of NIST's data_dictionary.json: column -> description, values.
    labels, value_labels: Those that a release carries count where neither the study nor its dictionary says
        any.

    Returns: Column -> value as text (whole numbers without a point; `BLANK_LABEL`: the blank) -> label.
    """
    named = dict(labels or {})
    values = {name: dict(of_values) for name, of_values in (value_labels or {}).items()}
    if study.dictionary is not None:
        path = find_file(study.dictionary, folders)
        blanks = {"", *with_files(study, folders).nulls}
        for name, entry in _columns(path).items():
            if entry.get("description"):
                named[name] = str(entry["description"])
            listed = entry.get("values", {})
            if not isinstance(listed, dict):
                raise SpecError(f"dictionary {path}: {name}.values is not an object")
            # "min" and "max" are limits, not values: what they have are numbers.
            texts = {
                BLANK_LABEL if str(value) in blanks else str(value): text
                for value, text in listed.items()
                if isinstance(text, str)
            }
            if texts:
                values[name] = texts
    return {**named, **study.labels}, values


def read_baselines(study: Study, folders: Sequence[Path]) -> dict[str, float] | None:
    """Return the declared precisions of a model on people outside the data, by column; None: none are declared."""
    if study.risks is None or study.risks.baselines is None:
        return None
    path = find_file(study.risks.baselines, folders)
    content = _json(path)
    if not isinstance(content, dict) or not all(_is_share(v) for v in content.values()):
        raise SpecError(f"baselines {path}: is not a JSON object of numbers from 0 to 1")
    return {str(name): float(value) for name, value in content.items()}


def _columns(path: Path, *, key: str | None = None) -> Mapping[str, Mapping[str, Any]]:
    """An object of one object a column, in a JSON file."""
    content = _json(path)
    if key is not None:
        content = content.get(key) if isinstance(content, dict) else None
    if not isinstance(content, dict) or not all(isinstance(v, dict) for v in content.values()):
        where = f" under {key!r}" if key else ""
        raise SpecError(f"{path}: is not a JSON object of one object a column{where}")
    return content


def _json(path: Path) -> Any:
    """Content of a JSON file."""
    try:
        return parsed_json(path.read_text(encoding="utf-8"))
    except ValueError:
        raise SpecError(f"{path}: is not JSON") from None


def _list(listed: Any, path: Path) -> list[Any]:
    """A list of values in a schema."""
    if not isinstance(listed, list):
        raise SpecError(f"schema {path}: values are not a list")
    return listed


def _once(names: Sequence[str]) -> tuple[str, ...]:
    """Names without repetitions, in their order."""
    return tuple(dict.fromkeys(names))


def _is_number(text: str) -> bool:
    """Whether a text reads as a number."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _is_share(value: Any) -> bool:
    """Whether something is a number from 0 to 1."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
