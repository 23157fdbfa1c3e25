"""The command `tablepack serve`: the table builder and the JSON API of one release, until Ctrl-C.

Takes a release file; prints where to open it. On any host but this one a token is needed and requests are limited.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import secrets
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.console import ReleasePath, notes, out
from engine.errors import MissingPackage, SpecError, StoreError

if TYPE_CHECKING:
    from queries.serve import Limits

EXAMPLE = "Example: `tablepack serve census.duckdb --port 8765`"
commands = typer.Typer(rich_markup_mode="markdown")
LOCAL = ("127.0.0.1", "localhost", "::1")
_RATE = re.compile(r"(\d+)/(s|min|h)")
_SECONDS = {"s": 1, "min": 60, "h": 3600}
_SHORTEST_TOKEN = 16
_GIVE_WAY_S = 0.0005  # a thread that computes soon gives way to the one that answers


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
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds a statement may run.")] = 10.0,
    max_rows: Annotated[int, typer.Option(min=1, help="Rows of one answer.")] = 10_000,
    memory: Annotated[str, typer.Option(help="Memory of all statements together.")] = "1GB",
) -> None:
    """Serve a release: tables in the browser, and the same as JSON. Read only."""
    is_local = host in LOCAL
    token = _token(token_file) if token_file is not None else None
    is_new = token is None and not is_local
    if is_new:
        token = secrets.token_urlsafe(24)
    limits = _limits(rate or (None if is_local else "600/min"), max_rows)
    try:
        import uvicorn

        from queries.serve import CONNECTIONS, LOCAL_HOSTS, app_of
    except ImportError:
        raise MissingPackage(
            "`tablepack serve` needs fastapi: pip install 'tablepack[serve]'"
        ) from None
    listening = _listening(host, port)
    try:
        app = app_of(
            release, token=token, limits=limits, hosts=LOCAL_HOSTS, timeout_s=timeout, memory=memory
        )
        _print_address(host, listening.getsockname()[1], token if is_new else None)
        _log_to_stderr()
        sys.setswitchinterval(_GIVE_WAY_S)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # what a client says of its address is not believed
            ws="none",
            timeout_graceful_shutdown=5,
            **CONNECTIONS,
        )
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        listening.close()


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
