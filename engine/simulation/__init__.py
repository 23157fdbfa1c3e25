"""A simulated census to try tablepack on: people in households in areas, and their visits. No real person in it.

`engine.simulation.census.simulate_census` draws it; `columns` says what is in it, `rules` what never occurs.
"""
