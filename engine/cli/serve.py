"""The command `tablepack serve`: the table builder and the JSON API of one release, until Ctrl-C.

Takes a release file; prints where to open it. On any host but this one a token is needed and requests are limited.
"""

from __future__ import annotations

import errno
import ipaddress
import logging
import os
import re
import secrets
import socket
import sys
import threading
import time
import webbrowser
from contextlib import closing, suppress
from dataclasses import replace
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from engine.cli import loading
from engine.cli.console import ReleasePath, Trust, notes, out
from engine.errors import MissingPackage, SpecError, StoreError

if TYPE_CHECKING:
    from queries.serve import Limits

EXAMPLE = "Example: `tablepack serve census.duckdb --port 8765`"
commands = typer.Typer(rich_markup_mode="markdown")
LOCAL = ("127.0.0.1", "localhost", "::1")
_RATE = re.compile(r"(\d+)/(s|min|h)")
_SECONDS = {"s": 1, "min": 60, "h": 3600}
_SHORTEST_TOKEN = 16
_STARTS_WITHIN_S = 60.0
_GIVE_WAY_S = 0.0005  # a thread that computes soon gives way to the one that answers

MaxRows = Annotated[int, typer.Option(min=1, max=10_000_000, help="Rows of one answer.")]
Proxy = Annotated[
    str | None,
    typer.Option(
        help="Address of a proxy before this server: who asks is then told by its X-Forwarded-For."
    ),
]
Places = Annotated[
    int,
    typer.Option(
        min=1, max=64, help="Statements answered at once, and as many tables; see --memory."
    ),
]
Share = Annotated[int, typer.Option(min=1, max=64, help="How many of these may be one client's.")]
Waiting = Annotated[
    int, typer.Option(min=0, max=200, help="Questions of each kind that may wait for a place.")
]
WaitingEach = Annotated[
    int, typer.Option(min=0, max=100, help="How many of these may be one client's.")
]
Wait = Annotated[float, typer.Option(min=0.1, max=600, help="Seconds a question may wait.")]
Formulas = Annotated[
    Literal["quote", "keep"],
    typer.Option(
        help="Text in CSV files that a spreadsheet would run (it begins with =, +, - or @): quote puts ' before it."
    ),
]

Requests = Annotated[
    bool,
    typer.Option(
        "--requests",
        help="Whoever asks may leave requests for tables that are not released, in a file beside the release; see "
        "tablepack requests.",
    ),
]


@commands.command("serve", epilog=EXAMPLE)
def serve_command(
    release: ReleasePath,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but this machine's own needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.")] = 8765,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the token to ask for; a new one is printed once if not given."
        ),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(help="Requests a client may make, as 600/min; off on this machine."),
    ] = None,
    proxy: Proxy = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds a statement may run.")] = 10.0,
    max_rows: MaxRows = 10_000,
    memory: Annotated[str, typer.Option(help="Memory of all statements together.")] = "1GB",
    places: Places = 3,
    share: Share = 2,
    waiting: Waiting = 200,
    waiting_each: WaitingEach = 50,
    wait: Wait = 10.0,
    formulas: Formulas = "quote",
    takes_requests: Requests = False,
    trust: Trust = None,
) -> None:
    """Serve a release, or all of a folder: tables in the browser, and the same as JSON. Read only."""
    try:
        with loading():
            import uvicorn

            from queries.serve import StoppingServer, app_of, front_of
    except ImportError:
        raise MissingPackage(
            "`tablepack serve` needs fastapi: pip install 'tablepack[serve]'"
        ) from None
    is_local = host in LOCAL
    token = _token(token_file) if token_file is not None else None
    new_token = None if token is not None or is_local else secrets.token_urlsafe(24)
    limits = replace(
        _limits(rate or (None if is_local else "600/min"), max_rows),
        workers=places,
        share=share,
        waiting=waiting,
        waiting_each=waiting_each,
        wait_s=wait,
    )
    settings = _settings(None if proxy is None else _network(proxy))
    asked: dict[str, Any] = {"limits": limits, "memory": memory, "trust": trust}
    asked |= {"formulas": formulas, "timeout_s": timeout, "takes_requests": takes_requests}
    with closing(_listening(host, port)) as listening:
        make = front_of if release.is_dir() else app_of
        app = make(release, token=token or new_token, **asked)
        _print_address(host, listening.getsockname()[1], new_token)
        _log_to_stderr()
        sys.setswitchinterval(_GIVE_WAY_S)
        StoppingServer(app, uvicorn.Config(app, **settings)).run(sockets=[listening])


@commands.command("open", epilog="Example: `tablepack open census.duckdb`")
def open_command(
    release: ReleasePath,
    has_browser: Annotated[
        bool,
        typer.Option("--browser/--no-browser", help="Open the browser, or only print the address."),
    ] = True,
    trust: Trust = None,
) -> None:
    """Open a release in the browser: serve it on this machine, for you alone, until Ctrl-C."""
    port = _free_port(8765)
    if has_browser:
        threading.Thread(target=_browse, args=(port,), daemon=True).start()
    serve_command(release, port=port, trust=trust)


def _free_port(wanted: int) -> int:
    """A port of this machine that is free: the one that is wanted, or any other."""
    for port in (wanted, 0):
        with suppress(StoreError), closing(_listening("127.0.0.1", port)) as listening:
            return int(listening.getsockname()[1])
    raise StoreError("no port of this machine is free")


def _browse(port: int) -> None:
    """Open the browser as soon as the server answers."""
    until = time.monotonic() + _STARTS_WITHIN_S
    while time.monotonic() < until:
        try:
            with closing(HTTPConnection("127.0.0.1", port, timeout=_STARTS_WITHIN_S)) as asked:
                asked.request("GET", "/")
                asked.getresponse().read()
            break
        except (OSError, HTTPException):  # not there yet, or not ours: a port may change hands
            time.sleep(0.1)
    if not webbrowser.open(f"http://127.0.0.1:{port}/"):
        notes().print("no browser was found here: open the address yourself", soft_wrap=True)


def _token(path: Path) -> str:
    """Read the token from a file."""
    try:
        token = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not plain text"
        raise SpecError(f"{path}: the token cannot be read ({why})") from None
    if len(token) < _SHORTEST_TOKEN or not token.isprintable() or " " in token:
        raise SpecError(
            f"{path}: a token has at least {_SHORTEST_TOKEN} letters, digits or signs and no blank; for example: "
            "openssl rand -hex 24"
        )
    return token


def _settings(proxy: str | None) -> dict[str, Any]:
    """Settings of uvicorn that are ours."""
    from queries.serve import CONNECTIONS

    return CONNECTIONS | {
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "proxy_headers": proxy is not None,  # what anyone else says of an address is not believed
        "forwarded_allow_ips": proxy,
        "ws": "none",
        "timeout_graceful_shutdown": 5,
    }


def _network(text: str) -> str:
    """An address, or a network of them, as it is written; refused where it is none."""
    try:
        return str(ipaddress.ip_network(text, strict=False))
    except ValueError:
        raise SpecError(
            f"--proxy {text}: give the address from which the proxy asks, as 127.0.0.1 or 10.0.0.0/24"
        ) from None


def _limits(rate: str | None, max_rows: int) -> Limits:
    """The limits that the options mean."""
    from queries.serve import Limits

    if rate is None:
        return Limits(rows=max_rows)
    parts = _RATE.fullmatch(rate)
    if parts is None or int(parts[1]) == 0:
        raise SpecError(
            f"--rate {rate}: give a number a second, minute or hour, as 10/s, 600/min or 5000/h"
        )
    n = int(parts[1])
    return Limits(rows=max_rows, rate=n / _SECONDS[parts[2]], burst=max(20, min(n, 100)))


def _listening(host: str, port: int) -> socket.socket:
    """Take the port, before the release is opened."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # or no TCP_NODELAY
    try:
        if os.name == "posix":  # elsewhere this would let two servers share a port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(128)
    except (OSError, UnicodeError) as error:  # a name that is no name cannot be encoded
        listening.close()
        why = (getattr(error, "strerror", None) or str(error)).lower()
        raise StoreError(
            f"cannot listen on {host}, port {port} ({why}){_hint(error, port)}"
        ) from None
    return listening


def _hint(error: Exception, port: int) -> str:
    """What to try where a port cannot be had."""
    code = getattr(error, "errno", None)
    if code == errno.EADDRINUSE:
        return f": another server may be there; try --port {port + 1 if port < 65535 else 0}"
    if code == errno.EACCES and 0 < port < 1024:
        return ": ports below 1024 are the system's own; try --port 8765"
    return ": --host is an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all of them"


def _print_address(host: str, port: int, new_token: str | None) -> None:
    """Print where to open it; a new token is printed this once."""
    name = f"[{host}]" if ":" in host else host
    address = f"http://{name}:{port}/"
    if new_token is None:
        out().print(f"serving at {address} (stop with Ctrl-C)", markup=False, soft_wrap=True)
    else:
        out().print(f"serving at {address}#token={new_token}", markup=False, soft_wrap=True)
        notes().print(
            "The token is printed this once. Programs send it as `Authorization: Bearer TOKEN`. What travels is not "
            "encrypted: put a proxy with TLS before it on any network you do not trust.",
            markup=False,
            soft_wrap=True,
        )
    sys.stdout.flush()


def _log_to_stderr() -> None:
    """Send the log of requests, and the server's own, to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    for name, level in (("tablepack.serve", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
