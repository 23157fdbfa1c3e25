"""What tests of reports share."""

from __future__ import annotations

import os
import shutil

import pytest


@pytest.fixture(scope="module")
def browser():
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
