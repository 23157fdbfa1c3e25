"""What tests of evaluations share."""

from __future__ import annotations

import pytest
from fixtures.evaluate import World, make_world


@pytest.fixture(scope="session")
def world(census, tmp_path_factory) -> World:
    """A release of the census and the files of its custodian; nothing is written among them."""
    return make_world(tmp_path_factory.mktemp("world"), census)
