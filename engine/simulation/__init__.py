"""A simulated census to try tablepack on: people in households in areas, and their visits. No real person in it.

Takes a number of people and a seed.
Gives Parquet (and CSV) files; the columns as a spec declares them.
May import the engine's root.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.simulation.census import simulate_census

__all__ = ["simulate_census"]


def __getattr__(name: str) -> Any:
    """Resolve the public name when it is used: who wants the columns only needs no pandas."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from engine.simulation.census import simulate_census

    return simulate_census
