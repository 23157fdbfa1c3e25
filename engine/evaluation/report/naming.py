"""What columns and values are called in a report.

Takes the labels of an `Evaluation`; gives texts. Invariant: a name that has no label is shown as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Names:
    """Labels of columns and values."""

    labels: Mapping[str, str]
    value_labels: Mapping[str, Mapping[str, str]]  # Column -> value as text -> label

    def column(self, name: str) -> str:
        """Return what a column is called: its name, and its label where it has another."""
        label = self.labels.get(name, "")
        return f"{name}: {label}" if label and label != name else name

    def value(self, column: str, value: object) -> str:
        """Return what a value is called: itself, and its label."""
        label = self.value_labels.get(column, {}).get(str(value), "")
        return f"{value} {label}" if label and label != str(value) else str(value)
