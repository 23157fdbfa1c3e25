"""The release that most tests of the server only read."""

from __future__ import annotations

import pytest
from fixtures.serve import small_release


@pytest.fixture(scope="session")
def path(tmp_path_factory, census):
    """1,500 simulated people in five tables; built once a run."""
    return small_release(tmp_path_factory.mktemp("served"), census)
