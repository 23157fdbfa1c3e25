from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from fixtures.page import needed
from fixtures.page_tasks import FLAGS
from fixtures.pipeline import make_census
from hypothesis import settings

# No test is timed: a busy machine is no failure.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


TESTS = Path(__file__).parent
LONGEST = (
    "release/test_exposing.py",
    "release/test_amended.py",
    "store/test_forged.py",
    "source/test_thresholds.py",
    "test_equivalence.py",
    "fit/test_locking.py",
    "release/test_entities.py",
    "test_papers.py",
    "spark/test_spark.py",
    "cli/test_cli.py",
    "evaluation/test_processes.py",
    "release/test_golden.py",
    "test_isolation.py",
    "test_attacks.py",
    "measure/test_guarantee.py",
)
"""The longest files start first, so that no process is left with one when the others have ended."""


def pytest_collection_modifyitems(items):
    """The longest files first, then those of most tests; the tests of a file stay together, in their order."""
    rank = {TESTS / name: number for number, name in enumerate(LONGEST)}
    many = Counter(item.path for item in items)
    items.sort(key=lambda item: (rank.get(item.path, len(rank)), -many[item.path], item.path))


@pytest.fixture(scope="session")
def census(tmp_path_factory):
    """A folder with a simulated census of 1,500 people."""
    return make_census(tmp_path_factory.mktemp("census") / "census", csv=True)


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """A folder for temporary files that no other test uses."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    return folder


@pytest.fixture(scope="module")
def client(path):
    """Asks a server of the release at the module's `path`."""
    pytest.importorskip("fastapi")
    from fixtures.serve import served

    from queries.serve import app_of

    with served(app_of(path)) as client:
        yield client


@pytest.fixture(scope="module")
def browser():
    """Chromium; not for the whole session, as its event loop would block `asyncio.run` in other modules."""
    api = needed("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        if os.environ.get("CI") == "true":
            pytest.fail("Chromium is not installed: ./scripts/browser installs it")
        pytest.skip("Chromium is not installed")
    with api.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=chromium, args=FLAGS)
        yield opened
        opened.close()
