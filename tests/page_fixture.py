"""A browser, a small release served to it, and pages that remember what they said and asked for."""

from __future__ import annotations

import os
import shutil
import sys

import pytest
from pipeline_fixture import ROOT
from serve_fixture import CENSUS, served, small_release

sys.path.insert(0, str(ROOT / "scripts"))
from serve_tasks import FLAGS, User

IN_CI = os.environ.get("CI") == "true"
HOSTILE = "<img src=x onerror=alert(1)>"


def needed(module: str):
    """A module that only some tests need: there in CI, else a reason to skip."""
    return __import__(module, fromlist=["_"]) if IN_CI else pytest.importorskip(module)


@pytest.fixture(scope="module")
def browser():
    api = needed("playwright.sync_api")
    found = shutil.which("chromium")
    if found is None:
        if IN_CI:
            pytest.fail("Chromium is not installed: ./scripts/browser installs it")
        pytest.skip("Chromium is not installed")
    with api.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=found, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def path(tmp_path_factory, census):
    """The release; built once for all modules that serve it."""
    folder = tmp_path_factory.getbasetemp() / "served-page"
    if (folder / "r.duckdb").exists():
        return folder / "r.duckdb"
    folder.mkdir(exist_ok=True)
    before = dict(CENSUS["carer"])
    CENSUS["carer"]["label"] = HOSTILE
    try:
        return small_release(folder, census)
    finally:
        CENSUS["carer"] = before


@pytest.fixture(scope="module")
def client(path):
    needed("fastapi")
    needed("uvicorn")
    from queries.server import app_of

    with served(app_of(path)) as client:
        yield client


@pytest.fixture
def sheet(browser):
    """A page that remembers what it said and asked for."""
    opened = browser.new_page(viewport={"width": 1180, "height": 860})
    opened.said, opened.asked = [], []
    opened.on("console", lambda message: opened.said.append(message.text))
    opened.on("pageerror", lambda error: opened.said.append(str(error)))
    opened.on("dialog", lambda dialog: opened.said.append("a dialog"))
    opened.on("request", lambda request: opened.asked.append(request.url))
    yield opened
    opened.close()


def shown(sheet, address: str) -> User:
    """Open an address, and wait for its table or its refusal."""
    sheet.goto(address)
    sheet.wait_for_selector("#table table, #problem p")
    user = User(sheet)
    user.wait()
    return user


FIXTURES = (browser, client, path, sheet)
"""For a test module to name; imported by name, their use would hide the import."""
