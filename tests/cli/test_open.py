"""`tablepack open`: a server for one's own machine, and the browser at its address."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import urllib.request

import pytest
from fixtures.pipeline import COMMAND, environment, tablepack
from fixtures.release import build_release

pytest.importorskip("fastapi")


@pytest.mark.ci
def test_it_serves_and_opens_the_browser_once_it_answers(tmp_path, scratch):
    """The browser is a command that writes its address, then stops the server."""
    release = build_release(tmp_path / "r.duckdb")
    opened = scratch / "opened"
    command = f"sh -c 'echo %s > {opened}; kill -INT $PPID'"
    with subprocess.Popen(
        [*COMMAND, "open", str(release)],
        env=environment(scratch, BROWSER=command),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as server:  # fmt: skip
        address = re.search(r"http://127\.0\.0\.1:\d+/", server.stdout.readline())[0]
        server.communicate(timeout=60)
    assert server.returncode == 130
    assert opened.read_text().strip() == address


@pytest.mark.ci
@pytest.mark.parametrize(
    ("options", "taken"),
    [((), True), (("--no-requests",), False), (("--proxy", "127.0.0.1"), False)],
    ids=["local", "refused", "behind a proxy"],
)
def test_requests_are_taken_on_ones_own_machine(tmp_path, scratch, options, taken):
    release = build_release(tmp_path / "r.duckdb")
    with subprocess.Popen(
        [*COMMAND, "serve", str(release), "--port", "0", *options],
        env=environment(scratch),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as server:  # fmt: skip
        address = re.search(r"http://127\.0\.0\.1:\d+/", server.stdout.readline())[0]
        with urllib.request.urlopen(f"{address}api/variables", timeout=60) as reply:
            about = json.load(reply)
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=60)
    assert about["takes_requests"] is taken


def test_a_missing_release_is_refused(tmp_path):
    done = tablepack("open", "none.duckdb", "--no-browser", cwd=tmp_path)
    assert done.returncode == 2
    assert "none.duckdb" in done.stderr
