"""How long jobs report progress: builds, evaluations, comparisons, packs."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with the stage, and how much of how much is done."""


def silent(_stage: str, _done: int, _total: int) -> None:
    """Report nothing."""
