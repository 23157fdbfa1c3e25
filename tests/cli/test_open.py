"""`tablepack open`: the server of one's own machine, and the browser at its address."""

from __future__ import annotations

import re
import socket
import subprocess
import threading
from contextlib import closing, suppress

import pytest
from fixtures.pipeline import COMMAND, environment, tablepack
from fixtures.release import build_release

from engine.cli import serve

pytest.importorskip("fastapi")


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    return build_release(tmp_path_factory.mktemp("open") / "r.duckdb")


def test_it_serves_prints_the_address_and_opens_the_browser(release, scratch):
    """The browser is a command that writes its address; it is called once the server answers."""
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


def test_no_browser_is_opened_where_none_is_wanted(release, monkeypatch):
    served = []
    monkeypatch.setattr(serve, "serve_command", lambda path, **how: served.append((path, how)))
    monkeypatch.setattr(serve, "_browse", lambda _: served.append("browser"))
    done = tablepack("open", "r.duckdb", "--no-browser", cwd=release.parent)
    assert done.returncode == 0
    ((path, how),) = served
    assert path.name == "r.duckdb"
    assert set(how) == {"port", "trust"}


def test_another_port_where_the_usual_one_is_taken():
    with closing(serve._listening("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert serve._free_port(port) not in (0, port)
    assert serve._free_port(port) == port


def test_without_a_browser_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr(serve.webbrowser, "open", lambda _: False)
    monkeypatch.setattr(serve, "_STARTS_WITHIN_S", 0.2)
    with closing(socket.socket()) as bound:
        bound.bind(("127.0.0.1", 0))  # nobody listens
        serve._browse(bound.getsockname()[1])
    assert "no browser was found here: open the address yourself" in capsys.readouterr().err


def test_an_answer_that_is_none_is_not_told_in_a_traceback(monkeypatch, capsys):
    opened = []
    monkeypatch.setattr(serve.webbrowser, "open", lambda address: opened.append(address) or True)
    monkeypatch.setattr(serve, "_STARTS_WITHIN_S", 0.2)
    with closing(socket.create_server(("127.0.0.1", 0))) as other:

        def answer():
            with suppress(OSError):  # closed
                while True:
                    asked, _ = other.accept()
                    with closing(asked):
                        asked.recv(1000)
                        asked.sendall(b"220 mail.example.org\r\n")

        threading.Thread(target=answer, daemon=True).start()
        serve._browse(other.getsockname()[1])
    assert len(opened) == 1
    assert capsys.readouterr().err == ""


def test_what_is_no_release_is_refused(tmp_path):
    done = tablepack("open", "none.duckdb", "--no-browser", cwd=tmp_path)
    assert done.returncode != 0
    assert "none.duckdb" in done.stderr
