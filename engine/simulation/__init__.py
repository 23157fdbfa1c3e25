"""A simulated census to try tablepack on: people in households in areas, and their visits. No real person in it.

Takes a number of people and a seed.
Gives Parquet (and CSV) files; the columns as a spec declares them.
May import the engine's root.
"""

from __future__ import annotations

from engine.simulation.census import simulate_census

__all__ = ["simulate_census"]
