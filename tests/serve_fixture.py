"""A small release behind a real server on a free port of this machine."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from pipeline_fixture import CENSUS, write_spec

from engine.api import read
from engine.release import build

TABLES = (
    ("age", "sex"),
    ("income", "sex"),
    ("arrival_date", "sex"),
    ("education", "region", "sex"),
    ("carer", "rent_weekly"),
)


def small_release(folder: Path, census: Path) -> Path:
    """A release of 1,500 simulated people, for the whole run of a test module."""
    columns = {name: dict(values) for name, values in CENSUS.items()}
    columns["sex"]["labels"] = {"Female": "Women", "Male": "Men"}
    columns["age"]["label"] = "Age in years"
    spec = write_spec(folder, census / "people.parquet", columns, TABLES)
    build(read(spec), folder / "r.duckdb", jobs=1)
    return folder / "r.duckdb"


@dataclass(frozen=True)
class Got:
    """What a server answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


@dataclass(frozen=True)
class Client:
    """Asks one server."""

    port: int

    @property
    def address(self) -> str:
        return f"http://localhost:{self.port}/"

    def ask(self, path: str, *, method: str = "GET", body=None, **headers: str) -> Got:
        con = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None and not isinstance(body, bytes):
            body, sent = json.dumps(body).encode(), {"content-type": "application/json", **sent}
        con.request(method, path, body=body, headers=sent)
        answer = con.getresponse()
        got = Got(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        con.close()
        return got

    def sql(self, text: str, more: str = "") -> Got:
        return self.ask(f"/api/query?sql={quote(text)}{more}")


@contextmanager
def served(app, **settings) -> Iterator[Client]:
    """Run an application in a thread of its own, with settings of uvicorn."""
    import uvicorn

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, **settings))
    running = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    running.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield Client(listening.getsockname()[1])
    finally:
        server.should_exit = True
        running.join(20)
        listening.close()
