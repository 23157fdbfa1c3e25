"""What tests of evaluations share."""

from __future__ import annotations

import os
import shutil

import pytest
from fixtures.evaluate import World, make_world


@pytest.fixture(scope="session")
def world(census, tmp_path_factory) -> World:
    """A release of the census and the files of its custodian; nothing is written among them."""
    return make_world(tmp_path_factory.mktemp("world"), census)


@pytest.fixture(scope="module")
def browser():
    """Chromium; not for the whole session, as its event loop would block Playwright and `asyncio.run` elsewhere."""
    api = pytest.importorskip("playwright.sync_api") if os.environ.get("CI") != "true" else None
    if api is None:
        import playwright.sync_api as api
    found = shutil.which("chromium")
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("Chromium is not installed: ./scripts/browser installs it")
        pytest.skip("Chromium is not installed")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with api.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=found, args=flags)
        yield opened
        opened.close()
