"""Probes of the server, one file per kind: no internal error, nothing revealed, headers set, and it keeps answering."""

from __future__ import annotations

import re
import socket
import sys
import tomllib
from pathlib import Path

import duckdb
import pytest
from fixtures.pipeline import ROOT
from fixtures.serve import one_worker, served, small_release

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from queries.serve import CONNECTIONS, app_of
from queries.serve.guard import HEADERS

pytestmark = pytest.mark.hostile
KINDS = sorted((Path(__file__).parent / "http").glob("*.toml"))
LONG = ("oversized", "queries")
LEAST = 120
FOLDER = "canary-folder-93bc"
_REPEATED = re.compile(r"⟦(.+?)\*(\d+)⟧", re.DOTALL)
_UVICORNS_OWN = (b"Invalid HTTP request received.", b"Unsupported upgrade request.")


def probes(path):
    return tomllib.loads(path.read_text("utf-8"))["probe"]


@pytest.fixture(scope="module")
def path(tmp_path_factory, census):
    folder = tmp_path_factory.mktemp("http") / FOLDER
    folder.mkdir()
    return small_release(folder, census)


@pytest.fixture(scope="module")
def client(path):
    app = app_of(path, limits=one_worker(body_s=1.0, timeout_s=3))
    with served(app, **CONNECTIONS, server_header=False, ws="none") as client:
        yield client


def repeated(text):
    """Expand ⟦x*3⟧ to xxx."""
    return _REPEATED.sub(lambda m: m[1] * int(m[2]), text)


def bytes_of(probe):
    """The bytes of a probe: Latin-1, or UTF-8 if it has other characters."""
    if "raw" in probe:
        return encoded(repeated(probe["raw"]))
    lines = [probe["line"], *([] if probe.get("bare") else ["host: localhost"])]
    lines += [*probe.get("headers", ()), "connection: close"]
    if "upgrade: " in "".join(lines):
        lines.remove("connection: close")
    body = encoded(repeated(probe.get("body", "")))
    if "body" in probe:
        lines.append(f"content-length: {len(body)}")
    return encoded(repeated("\r\n".join(lines) + "\r\n\r\n")) + body


def encoded(text):
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def answer_to(client, raw, first_s=60.0):
    """Everything until the server closes the connection or, after its first bytes, sends nothing for two seconds."""
    with socket.create_connection(("127.0.0.1", client.port), timeout=20) as con:
        got = b""
        try:
            con.sendall(raw)
        except (BrokenPipeError, ConnectionResetError):  # refused before all of it was sent
            pass
        con.settimeout(first_s)
        try:
            while part := con.recv(65_536):
                got += part
                con.settimeout(2.0)
                if b"connection: close" not in raw.lower() and _is_whole(got):
                    break
        except (TimeoutError, ConnectionResetError):
            pass
    return got


def _is_whole(got):
    """Whether a first answer is complete."""
    head, _, body = got.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    return length is not None and len(body) >= int(length[1])


def revealed(got, path):
    """Server internals in an answer."""
    facts = (
        FOLDER,
        str(path.parent.parent),
        str(ROOT),
        str(Path(sys.executable).parent),
        "site-packages",
    )
    words = (
        *facts,
        "Traceback",
        'File "',
        "MiB",
        f"v{duckdb.__version__}",
        "uvicorn",
        "this is a bug",
        "root:x:",
    )
    return [word for word in words if word.encode() in got]


@pytest.mark.parametrize(
    "kind",
    [pytest.param(p, marks=[pytest.mark.slow] * (p.stem in LONG), id=p.stem) for p in KINDS],
)
def test_probes(kind, client, path):
    wrong = {}
    for probe in probes(kind):
        got = answer_to(client, bytes_of(probe), 60.0 if probe.get("status", [0]) else 2.0)
        found = faults(probe, got, path)
        if client.ask("/api/tables").status != 200:
            found.append("nothing else is answered afterwards")
        if found:
            wrong[probe["name"]] = (found, got[:200])
    assert not wrong, "\n".join(f"{name}: {found}" for name, found in wrong.items())


def faults(probe, got, path):
    """What is wrong with an answer."""
    allowed = probe.get("status", [200, 400, 403, 404, 405, 413])
    status = int(got[9:12]) if got.startswith(b"HTTP/1.1 ") else None
    if status is None:
        return [] if not allowed and not got else ["no answer"]
    found = [f"reveals {word}" for word in revealed(got, path)]
    if status not in allowed or status == 500:
        found.append(f"status {status}")
    head = got.partition(b"\r\n\r\n")[0].lower()
    if not any(words in got for words in _UVICORNS_OWN):
        found += [
            f"no {name.decode()}"
            for name, value in HEADERS
            if name + b": " + value.lower() not in head
        ]
    for name in (b"access-control-", b"set-cookie", b"server: ", b"x-powered-by"):
        if b"\n" + name in head:
            found.append(f"sends {name.decode()}")
    return found


def test_the_corpus_is_large_and_has_no_duplicates():
    names = [(path.stem, probe["name"]) for path in KINDS for probe in probes(path)]
    assert len(names) >= LEAST
    assert len(set(names)) == len(names)
    sent = [bytes_of(probe) for path in KINDS for probe in probes(path)]
    assert len(set(sent)) > len(sent) - 5


def test_a_fault_would_be_found(path):
    probe = {"line": "GET / HTTP/1.1", "status": [200]}
    good = b"HTTP/1.1 200 OK\r\n" + b"".join(n + b": " + v + b"\r\n" for n, v in HEADERS) + b"\r\nx"
    assert faults(probe, good, path) == []
    assert faults(probe, good.replace(b"200 OK", b"500 Oh"), path) == ["status 500"]
    assert faults(probe, good.replace(b"nosniff", b"sniff"), path) == ["no x-content-type-options"]
    assert faults(probe, good + str(path.parent).encode(), path) != []
    assert faults(probe, b"", path) == ["no answer"]
    assert repeated("a⟦bc*2⟧d") == "abcbcd"
