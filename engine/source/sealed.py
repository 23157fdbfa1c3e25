"""The ledger file beside the key: entries in their order, each sealed with the key and bound to the one before it.

Takes plain entries; gives them back, or refuses. It belongs to the key, not to a path: a file of another key, an edited
or shortened one, or none where the journal knows of one, is never taken for an empty ledger. `tablepack key new` begins
it, so that a key which has none was used elsewhere, was renamed, or lost it. What files cannot tell is a full copy of
the key and everything beside it that was made before and put back: guard against that with one place, permissions, and
copies elsewhere of the releases, each of which holds the ledger as it was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from hmac import compare_digest
from pathlib import Path
from typing import Any

from engine.errors import StoreError
from engine.key_files import read_key
from engine.source.files import read_json, replace_file
from engine.source.journal import note_entries, read_journal

FORMAT = 2
"""Version of the ledger's form; the first one had an unkeyed digest in the place of seals."""
_Row = Mapping[str, Any]


def ledger_path(key_path: Path) -> Path:
    """The ledger of a key file."""
    return key_path.with_name(key_path.name + ".ledger.json")


def begin_ledger(key_path: Path) -> None:
    """Begin the ledger of a new key."""
    if not ledger_path(key_path).exists():
        _write(key_path, ())


def read_entries(key_path: Path) -> tuple[dict[str, Any], ...] | None:
    """All entries, as they were written; None if there is no ledger and nothing shows that there was one."""
    path = ledger_path(key_path)
    n_noted = read_journal(
        key_path
    ).ledger  # before the ledger is read: what is noted was written before
    try:
        raw = read_json(path)
    except FileNotFoundError:
        if n_noted:
            raise StoreError(
                f"the ledger {path} is gone, but the journal knows it: restore it"
            ) from None
        return None
    rows = _unsealed(key_path, path, raw, n_noted)
    if len(rows) < n_noted:
        raise StoreError(
            f"the ledger {path} lacks entries that the journal knows: it is not the newest one; restore the newest"
        )
    if len(rows) > n_noted + 1 and raw["format"] == FORMAT:
        raise StoreError(
            f"the journal beside {path} knows fewer entries than the ledger has: it is gone, or not the newest one; "
            "restore the newest"
        )
    return rows


def write_entries(key_path: Path, rows: Sequence[_Row]) -> None:
    """Replace the ledger, synced to disk; then the journal notes how many entries it has."""
    _write(key_path, rows)
    note_entries(key_path, len(rows))


def _write(key_path: Path, rows: Sequence[_Row]) -> None:
    """Replace the ledger."""
    head, *seals = _seals(key_path, rows)
    sealed = [{**row, "seal": seal} for row, seal in zip(rows, seals, strict=True)]
    text = json.dumps({"format": FORMAT, "begun": head, "entries": sealed}, indent=1)
    replace_file(ledger_path(key_path), text.encode(), "the ledger")


def _unsealed(key_path: Path, path: Path, raw: Any, n_noted: int) -> tuple[dict[str, Any], ...]:
    """What the file holds."""
    # Whatever cannot be read is refused: taken for an empty ledger, it would free the whole budget.
    try:
        if raw["format"] == 1 and not n_noted and raw["digest"] == _first_digest(raw["entries"]):
            return tuple(raw["entries"])
        rows = tuple({k: v for k, v in row.items() if k != "seal"} for row in raw["entries"])
        told = [raw["begun"], *(row["seal"] for row in raw["entries"])]
        if raw["format"] == FORMAT and compare_digest(
            "".join(told), "".join(_seals(key_path, rows))
        ):
            return rows
    except (TypeError, KeyError, AttributeError):
        pass
    raise StoreError(
        f"the ledger {path} cannot be read, or was changed by hand, or belongs to another key; restore it, or use a "
        "new key"
    )


def _seals(key_path: Path, rows: Sequence[_Row]) -> list[str]:
    """The seal of an empty ledger, then that of each entry, which covers all before it."""
    secret = read_key(key_path).derive("ledger", "")
    seals = [blake2b(b"begun", key=secret, digest_size=16).hexdigest()]
    for row in rows:
        message = json.dumps([seals[-1], row], sort_keys=True).encode()
        seals.append(blake2b(message, key=secret, digest_size=16).hexdigest())
    return seals


def _first_digest(rows: Any) -> str:
    """Digest of all entries in the first form."""
    return blake2b(json.dumps(rows, sort_keys=True).encode(), digest_size=16).hexdigest()
