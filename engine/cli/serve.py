"""The commands `tablepack serve` and `open`: the table builder and JSON API of a release, until Ctrl-C.

Prints the address. On any address but the loopback ones a token is required.
"""

from __future__ import annotations

import errno
import ipaddress
import logging
import os
import secrets
import socket
import sys
import threading
import time
import webbrowser
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from engine.cli import loading
from engine.cli.console import (
    ReleasePath,
    Trust,
    print_line,
    print_note,
)
from engine.cli.options import Given, taking
from engine.errors import MissingPackage, SpecError, StoreError
from queries.serve.limits import Limits

EXAMPLE = "Example: `tablepack serve census.duckdb --port 8765`"
commands = typer.Typer(rich_markup_mode="markdown")
LOCAL = ("127.0.0.1", "localhost", "::1")
_SHORTEST_TOKEN = 16
_STARTS_WITHIN_S = 60.0
_GIVE_WAY_S = 0.0005  # a computing thread soon yields to the one that answers

Host = Annotated[
    str, typer.Option(help="Address to listen on; all but loopback addresses require a token.")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any free one.")]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        help="File with the access token; by default a new token is created and printed once."
    ),
]
Proxy = Annotated[
    str | None,
    typer.Option(
        help="Address of a reverse proxy: clients are then identified by its X-Forwarded-For header."
    ),
]
Formulas = Annotated[
    Literal["quote", "keep"],
    typer.Option(
        help="Text in CSV files that a spreadsheet would run as a formula (starting with =, +, - or @): quote puts ' "
        "before it."
    ),
]

Requests = Annotated[
    bool | None,
    typer.Option(
        "--requests/--no-requests",
        help="Let users request tables that are not released. Requests are kept in a file next to the release; see "
        "tablepack requests. By default only on a loopback address without a proxy.",
    ),
]


@commands.command("serve", epilog=EXAMPLE)
@taking(Limits)
def serve_command(
    given: Given,
    release: ReleasePath,
    host: Host = "127.0.0.1",
    port: Port = 8765,
    token_file: TokenFile = None,
    proxy: Proxy = None,
    formulas: Formulas = "quote",
    takes_requests: Requests = None,
    trust: Trust = None,
) -> None:
    """Serve a release, or a folder of releases: table builder in the browser and JSON API. Never changes one."""
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
    settings = _settings(None if proxy is None else _network(proxy))
    if takes_requests is None:
        takes_requests = is_local and proxy is None and _can_note(release)
    with closing(_listening(host, port)) as listening:
        make = front_of if release.is_dir() else app_of
        app = make(
            release,
            token=token or new_token,
            limits=Limits(**given),
            trust=trust,
            formulas=formulas,
            takes_requests=takes_requests,
        )
        _print_address(host, listening.getsockname()[1], new_token)
        _log_to_stderr()
        sys.setswitchinterval(_GIVE_WAY_S)
        StoppingServer(app, uvicorn.Config(app, **settings)).run(sockets=[listening])


@commands.command("open", epilog="Example: `tablepack open census.duckdb`")
def open_command(
    release: ReleasePath,
    has_browser: Annotated[
        bool,
        typer.Option("--browser/--no-browser", help="Open the browser or only print the address."),
    ] = True,
    trust: Trust = None,
) -> None:
    """Open a release in the browser, served on this machine for you alone until Ctrl-C."""
    port = _free_port(8765)
    if has_browser:
        threading.Thread(target=_browse, args=(port,), daemon=True).start()
    serve_command(release=release, port=port, trust=trust)


def _free_port(wanted: int) -> int:
    """A free port on this machine: the wanted one if possible."""
    for port in (wanted, 0):
        with suppress(StoreError), closing(_listening("127.0.0.1", port)) as listening:
            return int(listening.getsockname()[1])
    raise StoreError("no free port on this machine")


def _browse(port: int) -> None:
    """Open the browser once the server answers."""
    until = time.monotonic() + _STARTS_WITHIN_S
    while time.monotonic() < until:
        try:
            with closing(HTTPConnection("127.0.0.1", port, timeout=_STARTS_WITHIN_S)) as asked:
                asked.request("GET", "/")
                asked.getresponse().read()
            break
        except (OSError, HTTPException):  # not started yet, or another server has taken the port
            time.sleep(0.1)
    if not webbrowser.open(f"http://127.0.0.1:{port}/"):
        print_note("No browser found: open the address yourself")


def _can_note(release: Path) -> bool:
    """Whether requests can be kept beside a release, or the releases of a folder."""
    folder = release if release.is_dir() else release.parent
    noted = [*folder.glob("*.requests.json")]
    return os.access(folder, os.W_OK) and all(os.access(p, os.R_OK | os.W_OK) for p in noted)


def _token(path: Path) -> str:
    """Read the token from a file."""
    try:
        token = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not plain text"
        raise SpecError(f"{path}: the token cannot be read ({why})") from None
    if len(token) < _SHORTEST_TOKEN or not token.isprintable() or " " in token:
        raise SpecError(
            f"{path}: a token needs at least {_SHORTEST_TOKEN} printable characters and no spaces; for example: "
            "openssl rand -hex 24"
        )
    return token


def _settings(proxy: str | None) -> dict[str, Any]:
    """Our settings for uvicorn."""
    from queries.serve import CONNECTIONS

    return CONNECTIONS | {
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "proxy_headers": proxy is not None,  # forwarded addresses are trusted from the proxy only
        "forwarded_allow_ips": proxy,
        "ws": "none",
        "timeout_graceful_shutdown": 5,
    }


def _network(text: str) -> str:
    """Validate an IP address or network."""
    try:
        return str(ipaddress.ip_network(text, strict=False))
    except ValueError:
        raise SpecError(
            f"--proxy {text}: expected the IP address or network of the proxy, for example 127.0.0.1 or 10.0.0.0/24"
        ) from None


def _listening(host: str, port: int) -> socket.socket:
    """Bind the port, before the release is opened."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(
        family, socket.SOCK_STREAM, socket.IPPROTO_TCP
    )  # needed for TCP_NODELAY
    try:
        if os.name == "posix":  # elsewhere this would let two servers share a port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(128)
    except (OSError, UnicodeError) as error:  # UnicodeError: an invalid host name
        listening.close()
        why = (getattr(error, "strerror", None) or str(error)).lower()
        raise StoreError(
            f"cannot listen on {host}, port {port} ({why}){_hint(error, port)}"
        ) from None
    return listening


def _hint(error: Exception, port: int) -> str:
    """What to try if a port cannot be bound."""
    code = getattr(error, "errno", None)
    if code == errno.EADDRINUSE:
        return f": the port is in use; try --port {port + 1 if port < 65535 else 0}"
    if code == errno.EACCES and 0 < port < 1024:
        return ": ports below 1024 are reserved for the system; try --port 8765"
    return (
        ": --host must be an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all of them"
    )


def _print_address(host: str, port: int, new_token: str | None) -> None:
    """Print the address and, once, a new token."""
    name = f"[{host}]" if ":" in host else host
    address = f"http://{name}:{port}/"
    if new_token is None:
        print_line(f"serving at {address} (stop with Ctrl-C)")
    else:
        print_line(f"serving at {address}#token={new_token}")
        print_note(
            "The token is printed once. Programs send it as `Authorization: Bearer TOKEN`. Traffic is not encrypted: "
            "on untrusted networks put a TLS proxy in front of this server."
        )
    sys.stdout.flush()


def _log_to_stderr() -> None:
    """Send the request log and the server log to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    for name, level in (("tablepack.serve", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
