"""Hashes of what was evaluated, so that a report says which file, or frame, it is about."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import xxhash

_CHUNK = 1 << 22


def hash_of_file(path: Path) -> str:
    """Return the xxh3-128 of a file, hex."""
    digest = xxhash.xxh3_128()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def hash_of_frame(frame: pd.DataFrame) -> str:
    """Return the xxh3-128 of names and values, hex; rows in another order have another hash."""
    digest = xxhash.xxh3_128(json.dumps(list(map(str, frame.columns))).encode())
    for name in frame.columns:
        hashed = pd.util.hash_pandas_object(frame[name], index=False)
        digest.update(hashed.to_numpy("<u8").tobytes())
    return digest.hexdigest()
