"""A simulated census to try tablepack with: people in households in areas, and their visits. No real people.

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
    """Resolve the public name when it is first used: importing only the columns must not need pandas."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from engine.simulation.census import simulate_census

    return simulate_census
