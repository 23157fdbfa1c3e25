"""Progress of long jobs (builds, evaluations, comparisons, packs)."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with the stage, the work done and the total."""


def silent(_stage: str, _done: int, _total: int) -> None:
    """Report nothing."""


def stages_only(report: Progress) -> Progress:
    """Report each stage once, as it begins: how many steps it has, and how long they are, depends on the rows."""
    seen = set[str]()

    def begun(stage: str, _done: int, _total: int) -> None:
        if stage not in seen:
            seen.add(stage)
            report(stage, 0, 0)

    return begun
