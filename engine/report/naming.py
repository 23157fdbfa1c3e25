"""What columns and values are called in a report.

Takes the labels of an `Evaluation`; gives texts. Invariant: a name that has no label is shown as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from engine.evaluation import Evaluation
from engine.report.drawing import short
from engine.utility.comparison import Comparison


@dataclass(frozen=True, kw_only=True, slots=True)
class Names:
    """Labels of columns and values.

    Attributes
    ----------
    labels : dict of str to str
    value_labels : dict of str to dict
        Column -> value as text -> label.
    slope : tuple of (str, str)
        Columns of the study's regression, x and y; empty where it has none.
    """

    labels: Mapping[str, str]
    value_labels: Mapping[str, Mapping[str, str]]
    slope: tuple[str, str] = ("", "")

    def column(self, name: str) -> str:
        """Return what a column is called: its name, and its label where it has another."""
        label = self.labels.get(name, "")
        return f"{name}: {label}" if label and label != name else name

    def value(self, column: str, value: object) -> str:
        """Return what a value is called: itself, and its label."""
        text = value_text(value)
        label = self.value_labels.get(column, {}).get(text, "")
        return f"{text} {label}" if label and label != text else text


def names_of(evaluation: Evaluation) -> Names:
    """Return the labels of an evaluation."""
    line = evaluation.study.regression
    return Names(
        labels=evaluation.labels,
        value_labels=evaluation.value_labels,
        slope=("", "") if line is None else (line.x, line.y),
    )


def value_text(value: object) -> str:
    """Return a value as text: whole numbers without a point, days without a time."""
    if isinstance(value, float | np.floating):
        return "blank" if np.isnan(value) else f"{value:.12g}"
    if isinstance(value, np.datetime64):
        return str(value).removesuffix("T00:00:00.000000")
    return str(value)


def key_text(comparison: Comparison, column: str, key: int) -> str:
    """Return what a code, or group, of one column stands for: "blank", a value, or "lowest to highest"."""
    values = comparison.values.get(column)
    if values is None:
        return str(key)
    if column not in comparison.groupings:
        return value_text(values[key]) if key < len(values) else "blank"
    inside = np.flatnonzero(comparison.groupings[column].group == key)
    if not len(inside) or inside[-1] >= len(values):
        return "blank"
    ends = dict.fromkeys(value_text(values[i]) for i in (inside[0], inside[-1]))
    return " to ".join(ends)


def key_label(names: Names, comparison: Comparison, column: str, key: int) -> str:
    """Return a short label of a code, or group, of one column."""
    return short(names.value(column, key_text(comparison, column, key)))
