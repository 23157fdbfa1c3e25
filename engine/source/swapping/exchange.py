"""Exchange: the rows in which a vintage's counts are taken, with the values of some pairs of records exchanged.

Takes the table of rows with tokens; changes it in place. What is exchanged follows from the key, the vintage's draws,
the columns that the exchange names and the people, and from nothing else: no table, no other column, no order of
rows. How often any values of the exchanged columns stand beside any values of the group stays exactly as it was.
CONFIDENTIAL.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from engine.errors import DataError
from engine.keys import MasterKey
from engine.params import SwapParams
from engine.schema import Int64Array, UInt64Array, entity_name
from engine.source.entities import ROWS_WITH_TOKENS, EntityColumn
from engine.source.ingest import Ingested
from engine.source.relation import assigned
from engine.source.swapping.partners import joined, partners, rarity_of
from engine.sticky_prf import siphash128

ENOUGH, CHANGING = 0.9, 0.1
"""Share of the wanted pairs that must be found, and share of these whose records differ in what they exchange: a
release says that records were exchanged."""


def exchange(
    ingested: Ingested,
    entities: tuple[EntityColumn, ...],
    swap: SwapParams,
    key: MasterKey,
    vintage: str,
) -> None:
    """Exchange values between pairs of records in the table `rows_with_tokens`."""
    several = [
        entity_name(ingested.entity_names[e.number]) for e in entities if e.tokens is not None
    ]
    if several:
        raise DataError(
            f"privacy.swap: column {several[0]!r} names entities with several rows; records can be exchanged only "
            "where each entity has one"
        )
    rows = _read(ingested, entities[0], swap)
    n_rows = len(rows.ids)
    codes = {name: joined((code,), n_rows) for name, code in rows.codes.items()}
    secret = key.derive("swapping", vintage)
    n_pairs = max(int(swap.rate * n_rows) // 2, 1)
    pairs = partners(
        groups=[
            joined([codes[name] for name in (*swap.within, *swap.similar[:n])], n_rows)
            for n in range(len(swap.similar), -1, -1)
        ],
        rarity=rarity_of([(codes[a], codes[b]) for a, b in product(swap.columns, swap.rare)]),
        draws=siphash128(secret, list(rows.lanes.T)),
        n_pairs=n_pairs,
        key=secret[16:],
    )
    values = joined([codes[name] for name in swap.columns], n_rows)[pairs]
    n_changed = int((values[:, 0] != values[:, 1]).sum())
    if len(pairs) < ENOUGH * n_pairs or n_changed < CHANGING * n_pairs:
        agree = f"agree in {', '.join(swap.within)} and " if swap.within else ""
        raise DataError(
            f"privacy.swap: too few records {agree}differ in {', '.join(swap.columns)} to exchange as many as the "
            "rate says; name fewer columns in within, more in columns, or a smaller rate"
        )
    _write(ingested, swap, rows, pairs)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Rows:
    """What is read of the rows."""

    ids: Int64Array  # shape (n_rows,): Their numbers in the table
    codes: dict[str, Int64Array]  # shape (n_rows,): By column
    # shape (n_rows, 2): Of the token of the row's first entity, which has no other row.
    lanes: UInt64Array


def _read(ingested: Ingested, entity: EntityColumn, swap: SwapParams) -> _Rows:
    """Read the columns that an exchange names."""
    lanes = [f"l{entity.number}_{lane}" for lane in (0, 1)]
    names = [ingested.sql_names[name] for name in swap.named]
    found = ingested.con.execute(
        f"SELECT rowid AS id, {', '.join([*names, *lanes])} FROM {ROWS_WITH_TOKENS}"
    ).fetchnumpy()
    return _Rows(
        ids=np.asarray(found["id"], dtype=np.int64),
        codes={n: np.asarray(found[ingested.sql_names[n]], dtype=np.int64) for n in swap.named},
        lanes=np.column_stack([np.asarray(found[lane], dtype=np.uint64) for lane in lanes]),
    )


def _write(ingested: Ingested, swap: SwapParams, rows: _Rows, pairs: Int64Array) -> None:
    """Give each record of a pair the values of the other."""
    here, there = pairs.ravel(), pairs[:, ::-1].ravel()
    sql = [ingested.sql_names[name] for name in swap.columns]
    own = {c: rows.codes[name][there] for name, c in zip(swap.columns, sql, strict=True)}
    ingested.con.register("exchanged", {"id": rows.ids[here], **own})
    changed = assigned(ingested.con, ROWS_WITH_TOKENS, sql, "exchanged")
    ingested.con.execute(
        f"UPDATE {ROWS_WITH_TOKENS} SET {changed} "
        f"FROM exchanged WHERE {ROWS_WITH_TOKENS}.rowid = exchanged.id"
    )
    ingested.con.unregister("exchanged")
