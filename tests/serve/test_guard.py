"""Access: hosts, tokens, sizes; and the command that starts the server."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
import typer
from fixtures.pipeline import environment
from fixtures.serve import one_worker, served
from typer.testing import CliRunner

from engine.cli import serve as cli_serve
from engine.errors import SpecError, StoreError

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

import queries.serve
from queries.serve import Limits, app_of

TOKEN = "a-token-of-some-length"
START = "from engine.cli import run_and_exit; from engine.cli.serve import commands; run_and_exit(commands)"


@pytest.fixture(scope="module")
def guarded(path):
    with served(app_of(path, token=TOKEN, limits=one_worker())) as client:
        yield client


@pytest.mark.ci
def test_data_needs_the_token_and_the_page_does_not(guarded):
    for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": TOKEN}):
        got = guarded.ask("/api/variables", **headers)
        assert (got.status, got.json["error"]) == (401, "NoToken")
        assert got.headers["www-authenticate"] == "Bearer"
    for address in ("/api/openapi.json", "/api/px/v2/config", "/api/sdmx/dataflow"):
        assert guarded.ask(address).status == 401
    assert guarded.ask("/api/variables", authorization=f"Bearer {TOKEN}").status == 200
    assert guarded.ask("/").status == 200
    assert b"census" not in guarded.ask("/").body


def test_every_answer_has_the_headers_and_no_cross_origin_ones(guarded):
    for address in ("/", "/app.js", "/api/variables", "/api/px/v2/config", "/api/sdmx/x", "/none"):
        headers = guarded.ask(address).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert not [h for h in headers if h.startswith("access-control")]


@pytest.mark.ci
def test_other_host_names_and_other_sites_are_refused(path):
    with served(app_of(path, limits=one_worker())) as client:
        assert client.ask("/api/tables").status == 200
        for host in ("localhost:99", "127.0.0.1", "[::1]:8"):
            assert client.ask("/api/tables", host=host).status == 200
        for host in ("evil.example", "localhost.evil.example", ""):
            for address in ("/api/tables", "/api/px/v2/tables", "/api/sdmx/dataflow"):
                assert client.ask(address, host=host).status == 403
        assert client.ask("/api/tables", sec_fetch_site="cross-site").status == 403
        assert client.ask("/api/tables", sec_fetch_site="same-origin").status == 200


@pytest.mark.ci
def test_large_and_malformed_requests_are_refused(path):
    with served(app_of(path, limits=one_worker(body_bytes=2000))) as client:
        large = client.ask("/api/query", method="POST", body={"sql": "SELECT 1 --" + "x" * 3000})
        assert (large.status, "2,000 bytes" in large.json["message"]) == (413, True)
        assert client.ask("/api/query?sql=SELECT%201--" + "x" * 3000).status == 413
        assert client.ask("/api/query", method="POST", body=b"{nonsense").status in (400, 422)
        assert client.ask("/api/tables", method="DELETE").status == 405


@pytest.mark.ci
def test_a_fault_of_ours_shows_nothing_of_its_text(path, monkeypatch):
    def broken(*_, **__):
        raise ValueError("a secret value")

    monkeypatch.setattr("queries.serve.service.answer", broken)
    with served(app_of(path, limits=one_worker())) as client:
        got = client.ask("/api/tabulate?rows=sex")
        assert (got.status, got.json["error"]) == (500, "InternalError")
        assert b"secret" not in got.body
        assert "service.py" in got.json["message"]


# The command.


def test_a_port_in_use_is_reported(path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(StoreError, match=rf"port {port} .*in use.*--port {port + 1}"):
            started(path, "--port", port)


def started(*words):
    app = typer.Typer()
    app.command()(cli_serve.serve_command)
    done = CliRunner().invoke(app, [str(w) for w in words])
    if done.exception:
        raise done.exception
    return done


@pytest.mark.parametrize("proxy", ["", "*", "localhost", "10.0.0.0/99", "1.2.3"])
def test_a_proxy_is_an_address(path, proxy):
    with pytest.raises(SpecError, match=r"--proxy .*127\.0\.0\.1"):
        started(path, "--proxy", proxy)


def test_sizes_of_queues_and_shares_are_options(path, monkeypatch):
    asked = {}

    def app_of(release, **settings):
        asked.update(settings)
        raise StoreError("enough")

    monkeypatch.setattr(queries.serve, "app_of", app_of)
    sizes = ("--places", 3, "--share", 2, "--waiting", 7, "--waiting-each", 0, "--wait", 2.5)
    for words, limits, formulas in (
        ((), Limits(), "quote"),
        (
            (*sizes, "--formulas", "keep"),
            Limits(places=3, share=2, waiting=7, waiting_each=0, wait_s=2.5),
            "keep",
        ),
    ):
        with pytest.raises(StoreError, match="enough"):
            started(path, "--port", 0, *words)
        assert (asked["limits"], asked["formulas"]) == (limits, formulas)
    for wrong in (("--places", 0), ("--share", 0), ("--waiting", 201), ("--formulas", "run")):
        with pytest.raises(SystemExit) as refused:
            started(path, *wrong)
        assert refused.value.code == 2


def test_a_token_file_is_checked(path, tmp_path):
    with pytest.raises(SpecError, match="cannot be read"):
        started(path, "--token-file", tmp_path / "none")
    for text in ("short", "has a blank inside the token"):
        (tmp_path / "token").write_text(text)
        with pytest.raises(SpecError, match="at least 16"):
            started(path, "--token-file", tmp_path / "token")
    (tmp_path / "token").write_bytes(b"\xff" * 20)
    with pytest.raises(SpecError, match="plain text"):
        started(path, "--token-file", tmp_path / "token")


@pytest.mark.ci
@pytest.mark.parametrize("host", [pytest.param("127.0.0.1", marks=pytest.mark.slow), "0.0.0.0"])
def test_the_command_serves_until_it_is_stopped(path, tmp_path, host):
    command = [sys.executable, "-c", START, "serve", str(path), "--port", "0", "--host", host]
    with subprocess.Popen(
        command,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        line = running.stdout.readline()
        address = re.match(rf"serving at http://{re.escape(host)}:(\d+)/(?:#token=(\S+))?", line)
        assert address, line + running.stderr.read()
        assert bool(address[2]) == (host == "0.0.0.0")
        got = tables_from(int(address[1]), address[2])
        if address[2]:
            with pytest.raises(urllib.error.HTTPError, match="401"):
                tables_from(int(address[1]), None)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=30)
    assert b'"tables"' in got
    assert "GET /api/tables 200" in err
    assert (address[2] or "no token") not in out + err
    assert "Traceback" not in err
    assert running.returncode in (0, 130)


def tables_from(port: int, token: str | None) -> bytes:
    """Ask once the server listens."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/api/tables", headers=headers)
    for _ in range(200):
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.read()
        except urllib.error.HTTPError:
            raise
        except OSError:
            time.sleep(0.05)
    pytest.fail(f"no answer on port {port} in process {os.getpid()}")
