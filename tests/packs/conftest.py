"""One release and one pack for all tests of packs that only read them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from fixtures.pack import shared_pack, shared_release
from fixtures.pack_hostile import make_hostile

from queries.release import open_release


@pytest.fixture(scope="session")
def release(census, tmp_path_factory) -> Path:
    return shared_release(tmp_path_factory, census)


@pytest.fixture(scope="session")
def opened(release):
    """The shared release, open; its noise models are computed once."""
    with open_release(release) as opened:
        yield opened


@pytest.fixture(scope="session")
def pack(release) -> Path:
    for package in ("pyarrow", "xlsxwriter", "jinja2"):
        pytest.importorskip(package)
    return shared_pack(release)


@pytest.fixture
def altered(pack, tmp_path) -> Path:
    """A copy of the pack, to plant faults in."""
    return shutil.copytree(pack, tmp_path / "altered")


@pytest.fixture(scope="session")
def hostile(tmp_path_factory):
    """An open release with odd names and values."""
    with open_release(make_hostile(tmp_path_factory.mktemp("hostile"))) as opened:
        yield opened
