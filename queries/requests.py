"""Requests for tables that a release does not have: a small file next to it, `RELEASE.requests.json`.

Untrusted users of a server leave requests; the custodian, who has source and key, reads them (`tablepack requests`).
The file contains only what users wrote. Invariant: its size is bounded, it is replaced atomically, and a lock
serialises writers.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from engine.errors import QueryRefused, StoreError, TooLarge
from engine.outputs import REQUESTS
from engine.schema import ColumnSet, column_set
from engine.texts import parsed_json, plain

State = Literal["waiting", "added", "declined"]
MOST_WAITING = 200
"""Most pending requests."""
MOST_PER_TABLE = 10
"""Most pending requests for one table."""
MOST_KEPT = 1_000
"""Most requests that are kept; the oldest settled ones are removed first."""
LONGEST_REASON, LONGEST_NAME = 1_000, 200
"""Most characters of a request's reason and name."""
_PATIENCE_S = 2.0
_LARGEST = 16 * 2**20
_FORMAT = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class TableRequest:
    """A request for one table."""

    number: int  # From 1, in order of arrival
    columns: ColumnSet
    # reason, who: As the user wrote them; who may be empty.
    reason: str
    who: str
    when: str  # Date and time in UTC, ISO 8601
    state: State = "waiting"  # "waiting", "added" or "declined"
    answer: str = ""  # What the custodian wrote


def requests_path(release: Path) -> Path:
    """Return the path of the requests file of a release."""
    return release.with_name(release.name + REQUESTS)


def read_requests(release: Path) -> tuple[TableRequest, ...]:
    """Return all requests for a release, in order of arrival."""
    path = requests_path(release)
    try:
        if path.stat().st_size > _LARGEST:
            raise ValueError
        raw = parsed_json(path.read_text(encoding="utf-8"))
        if not isinstance(raw, dict) or raw.get("format") != _FORMAT:
            raise ValueError
        return tuple(_request_of(one) for one in raw["requests"])
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError):
        raise StoreError(f"{path}: is not a valid requests file; move it away") from None


def leave_request(
    release: Path, columns: ColumnSet, *, reason: str, who: str = "", now: datetime | None = None
) -> TableRequest:
    """Add a request; return the pending one if the same user has already made it."""
    reason, who = plain(reason), plain(who)
    if not reason:
        raise QueryRefused("A request needs a reason: what the table is for")
    if len(reason) > LONGEST_REASON or len(who) > LONGEST_NAME:
        raise QueryRefused(
            f"A request can have a reason of at most {LONGEST_REASON:,} characters and a name of at most {LONGEST_NAME}"
        )
    with _locked(release):
        known = read_requests(release)
        waiting = [one for one in known if one.state == "waiting"]
        same = [one for one in waiting if one.columns == columns]
        for one in same:
            if (one.who, one.reason if not who else "") == (who, reason if not who else ""):
                return one
        if len(waiting) >= MOST_WAITING or len(same) >= MOST_PER_TABLE:
            raise TooLarge(
                f"There are already {len(same)} pending requests for this table"
                if len(same) >= MOST_PER_TABLE
                else f"There are already {len(waiting)} pending requests: try again later"
            )
        made = TableRequest(
            number=max((one.number for one in known), default=0) + 1,
            columns=columns,
            reason=reason,
            who=who,
            when=(now or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        )
        _write(release, (*known, made))
    return made


def settle_request(release: Path, number: int, state: State, answer: str = "") -> TableRequest:
    """Record the outcome of a pending request."""
    with _locked(release):
        known = read_requests(release)
        found = waiting_request(release, known, number)
        settled = replace(found, state=state, answer=plain(answer)[:LONGEST_REASON])
        _write(release, tuple(settled if one is found else one for one in known))
    return settled


def waiting_request(release: Path, known: tuple[TableRequest, ...], number: int) -> TableRequest:
    """Return the pending request with a number."""
    for one in known:
        if one.number == number and one.state == "waiting":
            return one
    waiting = ", ".join(str(one.number) for one in known if one.state == "waiting")
    raise StoreError(f"{release}: no pending request {number}; pending: {waiting or 'none'}")


def _request_of(raw: Any) -> TableRequest:
    """Return one request of the file, with every field checked."""
    texts = [raw[name] for name in ("reason", "who", "when", "state", "answer")]
    columns, number = raw["columns"], raw["number"]
    if not isinstance(columns, list) or not all(isinstance(t, str) for t in (*texts, *columns)):
        raise ValueError
    if not isinstance(number, int) or raw["state"] not in ("waiting", "added", "declined"):
        raise ValueError
    if not columns or len(set(columns)) < len(columns):
        raise ValueError
    return TableRequest(**{**raw, "columns": column_set(columns)})


@contextlib.contextmanager
def _locked(release: Path) -> Iterator[None]:
    """Hold the lock of a requests file."""
    path = requests_path(release)
    try:
        handle = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror})") from None
    try:
        until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise StoreError(f"{path}: locked by another process") from None
                time.sleep(0.02)
        yield
    finally:
        os.close(handle)


def _write(release: Path, requests: tuple[TableRequest, ...]) -> None:
    """Write all requests; if there are too many, without the oldest settled ones."""
    surplus = len(requests) - MOST_KEPT
    settled = [one.number for one in requests if one.state != "waiting"][: max(surplus, 0)]
    kept = [asdict(one) for one in requests if one.number not in settled]
    path = requests_path(release)
    part = path.with_name(path.name + ".part")
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump({"format": _FORMAT, "requests": kept}, file, ensure_ascii=False, indent=1)
            file.flush()
            os.fsync(handle)
        part.replace(path)
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror})") from None
