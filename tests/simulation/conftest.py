from __future__ import annotations

import pytest
from fixtures.simulation import N_PEOPLE

from engine.simulation import simulate_census


@pytest.fixture(scope="session")
def census(tmp_path_factory):
    """A census of 20,000 people."""
    return simulate_census(tmp_path_factory.mktemp("census"), people=N_PEOPLE, seed=11)
