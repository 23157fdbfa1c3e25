"""A small release made by hand, with everything in names and values that files and programs trip over."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from release_fixture import HEADER, make_alphabet, make_card, make_table

from engine.schema import KIND_NEGATIVE, KIND_NONNEGATIVE, KIND_NULL, Column, Resolution
from engine.store import Staging

DAY = '_day "x".y'
WORDS = (
    *("=1+1", "external:c:\\x.xlsx", "https://x.example", "internal:'Cover'!A1", "{=1+1}", "-1+1"),
    *('a"b', "a'b", "a;b", "a,b", "_T", "", "***", "two\nlines", "<b>bold</b>"),
)
TABLES = (
    *((DAY,), ("n",), ("status",), ("value",), (DAY, "status"), ("n", "status"), ("n", "value")),
    ("status", "value"),
)


def make_hostile(folder: Path) -> Path:
    """Columns: value (text), status (boolean), a date with a name to quote, n (real, also negative)."""
    columns = (
        Column(name="value", kind="text", value_type="text", nulls=("N",), placeholder="(other)"),
        Column(name="status", kind="category", value_type="boolean", domain=(False, True)),
        Column(name=DAY, kind="date", value_type="date"),
        Column(
            name="n", kind="real", value_type="real", resolution=Resolution(base=10, exponent=-1)
        ),
    )
    value, status, day, n = columns
    letters = [(KIND_NONNEGATIVE, i) for i in range(len(WORDS))]
    alphabets = {
        "value": make_alphabet(value, [(KIND_NULL, 0), *letters], values=WORDS),
        "status": make_alphabet(status, letters[:2], values=(False, True)),
        DAY: make_alphabet(day, [(KIND_NONNEGATIVE, 3), (KIND_NONNEGATIVE, 400)]),
        "n": make_alphabet(n, [(KIND_NEGATIVE, -25), *((KIND_NONNEGATIVE, c) for c in (0, 3, 10))]),
    }
    path = folder / "hostile.duckdb"
    header = replace(HEADER, columns=columns, tables=TABLES)
    with Staging.open(path, header, build_id="hostile") as staging:
        for alphabet in alphabets.values():
            staging.put_alphabet(alphabet)
        for names in TABLES:
            table = make_table(names, alphabets)
            rows = np.arange(len(table.n))
            amount = (10 + 10 * rows).astype(np.int64)
            every = np.ones(len(rows), dtype=np.bool_)
            groups = replace(table.groups, n=amount, high=table.groups.low, measured=every)
            table = replace(table, n=amount, measured=every, groups=groups)
            staging.put_table(table, make_card(table))
        staging.finish()
    return path
