"""The documented proxy in front of a server: answers pass, and what the server leaves to the proxy is refused by it."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from fixtures.serve import one_worker, served

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

import queries.serve
from queries.serve import app_of

CONFIGURATION = Path(queries.serve.__file__).parent / "proxy" / "nginx.conf"
HASTE = {"client_header_timeout 10s": "client_header_timeout 1s", "burst=60": "burst=5"}

pytestmark = pytest.mark.slow


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


@pytest.fixture
def proxied(path, tmp_path):
    """The port of nginx with our configuration, less TLS and with shorter times, in front of a server with a token."""
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin")
    if nginx is None:
        pytest.skip("nginx is not installed")
    with served(app_of(path, limits=one_worker(), token="secret")) as client:
        port, text = free_port(), CONFIGURATION.read_text()
        text = re.sub(r" *ssl_certificate.*\n", "", text)
        for old, new in {
            **HASTE, "listen 443 ssl": f"listen 127.0.0.1:{port}", ":8765": f":{client.port}",
        }.items():  # fmt: skip
            assert old in text
            text = text.replace(old, new)
        temporary = "".join(
            f"{kind}_temp_path {tmp_path}/{kind};"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        (tmp_path / "nginx.conf").write_text(
            f"daemon off; pid {tmp_path}/pid; error_log {tmp_path}/error.log;\nevents {{}}\n"
            f"http {{ access_log off; {temporary}\n{text}\n}}\n"
        )
        child = subprocess.Popen([nginx, "-c", tmp_path / "nginx.conf", "-p", tmp_path])
        try:
            for _ in range(100):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            yield port
        finally:
            child.terminate()
            child.wait(20)


def status_of(port, address, **headers):
    try:
        with urlopen(Request(f"http://127.0.0.1:{port}{address}", headers=headers)) as got:
            return got.status
    except HTTPError as error:
        return error.code


def test_answers_pass_and_what_is_left_to_the_proxy_is_refused_there(proxied):
    known = {"Authorization": "Bearer secret"}
    assert status_of(proxied, "/api/tables", **known) == 200
    assert status_of(proxied, "/api/tables") == 401
    time.sleep(1)
    with socket.create_connection(("127.0.0.1", proxied), timeout=20) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\n")
        assert slow.recv(100) == b""  # closed, as no head came
    assert status_of(proxied, "/api/tables", **known) == 200
    time.sleep(1)
    many = [status_of(proxied, "/api/tables", **known) for _ in range(40)]
    assert set(many) == {200, 429}
    assert many[:5] == [200] * 5
