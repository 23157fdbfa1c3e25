"""Fixtures of the tests of the command line."""

from __future__ import annotations

import pytest
from fixtures.evaluate import World, make_world
from fixtures.refused import write_census_spec


@pytest.fixture
def census_spec(tmp_path, census):
    return write_census_spec(tmp_path, census)


@pytest.fixture(scope="session")
def world(census, tmp_path_factory) -> World:
    """A release, its source and other synthetic tables of it: to be read only."""
    return make_world(tmp_path_factory.mktemp("world"), census)
