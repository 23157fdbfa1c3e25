"""Fixtures of the tests of the command line."""

from __future__ import annotations

import pytest
from fixtures.refused import write_census_spec


@pytest.fixture
def census_spec(tmp_path, census):
    return write_census_spec(tmp_path, census)
