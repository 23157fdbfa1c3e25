"""The release that most tests of the server only read, and a page of a browser."""

from __future__ import annotations

import pytest
from fixtures.serve import one_worker, served, small_release


@pytest.fixture(scope="session")
def path(tmp_path_factory, census):
    """1,500 simulated people in five tables; built once per run."""
    return small_release(tmp_path_factory.mktemp("served"), census)


@pytest.fixture(scope="session")
def client(path):
    """A client of a server of that release."""
    pytest.importorskip("fastapi")
    from queries.serve import app_of

    with served(app_of(path, limits=one_worker())) as client:
        yield client


@pytest.fixture
def sheet(browser):
    """A browser page that records its messages and requests."""
    opened = browser.new_page(viewport={"width": 1180, "height": 860})
    opened.messages, opened.requests = [], []
    opened.on("console", lambda message: opened.messages.append(message.text))
    opened.on("pageerror", lambda error: opened.messages.append(str(error)))
    opened.on("dialog", lambda dialog: opened.messages.append("a dialog"))
    opened.on("request", lambda request: opened.requests.append(request.url))
    yield opened
    opened.close()
