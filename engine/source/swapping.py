"""CONFIDENTIAL. Swapping: some records exchange values before anything is counted, as a spec declares.

Takes the table of rows with tokens; changes it in place. What is exchanged follows from the key, the vintage's draws,
the columns that the exchange names and the people, and from nothing else: no table, no other column, no order of
rows. How often any values of the exchanged columns stand beside any values of the group stays exactly as it was.

Rare records are likelier to go first, each with a partner of its group, whatever that one holds: if partners had to
differ, a small group most of whose members exchange a yes or no would show the opposite of the truth.

Sources: targeted record swapping with matching variables that give way one by one, as the Office for National
Statistics does for the censuses of 2011 and 2021 (methodology of statistical disclosure control for Census 2021);
who goes first is drawn by sequential Poisson sampling (Ohlsson 1998, Journal of Official Statistics 14(2)).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from engine.errors import DataError
from engine.keys import MasterKey
from engine.params import SwapParams
from engine.schema import BoolArray, Int64Array, UInt64Array, entity_name
from engine.source.entities import ROWS_WITH_TOKENS, EntityColumn
from engine.source.ingest import Ingested
from engine.source.relation import assigned, lent
from engine.sticky_prf import siphash, siphash128

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
    con, names = ingested.con, ingested.sql_names
    lanes = [f"l{entities[0].number}_{lane}" for lane in (0, 1)]
    found = con.execute(
        f"SELECT rowid AS id, {', '.join([*map(names.__getitem__, swap.named), *lanes])} FROM {ROWS_WITH_TOKENS}"
    ).fetchnumpy()
    n_rows = len(found["id"])
    held = {name: np.asarray(found[names[name]], dtype=np.int64) for name in swap.named}
    codes = {name: joined((code,), n_rows) for name, code in held.items()}
    secret = key.derive("swapping", vintage)
    n_pairs = max(int(swap.rate * n_rows) // 2, 1)
    pairs = partners(
        groups=[
            joined([codes[name] for name in (*swap.within, *swap.similar[:n])], n_rows)
            for n in range(len(swap.similar), -1, -1)
        ],
        rarity=rarity_of([(codes[a], codes[b]) for a, b in product(swap.columns, swap.rare)]),
        # Of the token of the row's first entity, which has no other row.
        draws=siphash128(secret, [np.asarray(found[lane], dtype=np.uint64) for lane in lanes]),
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
    # Each record of a pair gets the values of the other.
    here, there = pairs.ravel(), pairs[:, ::-1].ravel()
    own = {names[name]: held[name][there] for name in swap.columns}
    with lent(con, "exchanged", {"id": np.asarray(found["id"], dtype=np.int64)[here], **own}):
        changed = assigned(con, ROWS_WITH_TOKENS, [*own], "exchanged")
        con.execute(
            f"UPDATE {ROWS_WITH_TOKENS} SET {changed} "
            f"FROM exchanged WHERE {ROWS_WITH_TOKENS}.rowid = exchanged.id"
        )


ATTEMPTS = 8
"""Partners that a record asks in a group before it asks in a wider one: others may have taken them."""
_COMMON = (1 << 31) - 1
"""Largest rarity that is told from larger ones, so that its product with 32 bits fits into 64."""


def rarity_of(pairs: Sequence[tuple[Int64Array, Int64Array]]) -> Int64Array:
    """With how many records each shares two values, in the pair of columns in which these are fewest.

    pairs: Codes of two columns each, 0 and above; at least one pair.
    """
    fewest = np.full(len(pairs[0][0]), _COMMON, dtype=np.int64)
    for one, other in pairs:
        both = one * (other.max(initial=0) + 1) + other
        _, place, count = np.unique(both, return_inverse=True, return_counts=True)
        np.minimum(fewest, count[place], out=fewest)
    return fewest


def joined(codes: Sequence[Int64Array], n_records: int) -> Int64Array:
    """One number a record for its combination of codes, from 0 without gaps, ordered as the combinations are.

    codes: None: all records have the same combination.
    """
    out = np.zeros(n_records, dtype=np.int64)
    for code in codes:
        _, dense = np.unique(code, return_inverse=True)
        # Both are below the number of records, whose square is far below 2**63.
        _, out = np.unique(out * (dense.max(initial=0) + 1) + dense, return_inverse=True)
    return out


def partners(
    *,
    groups: Sequence[Int64Array],
    rarity: Int64Array,
    draws: UInt64Array,
    n_pairs: int,
    key: bytes,
) -> Int64Array:
    """Pair records of a group.

    groups: The group of each record, the finest grouping first. A wider one is asked where a finer one has no
        partner.
    key: Of the choice of partners; at least 16 bytes.

    Returns: Positions; no record is in two pairs. Fewer than wanted where groups have nobody to exchange
    with.
    """
    ranked = (draws[:, 0] >> np.uint64(32)) * np.minimum(rarity, _COMMON).astype(np.uint64)
    order = np.lexsort((draws[:, 1], ranked))
    free = np.ones(len(rarity), dtype=np.bool_)
    found = [np.zeros((0, 2), dtype=np.int64)]
    n_found, asked, at_once = 0, 0, n_pairs
    while n_found < n_pairs and asked < len(order):
        # Twice as many each time: where nearly nobody finds a partner, few rounds see everybody.
        seekers = order[asked : asked + at_once]
        asked, at_once = asked + len(seekers), 2 * at_once
        pairs = _paired(seekers[free[seekers]], groups, draws, free, key, n_pairs - n_found)
        found.append(pairs)
        n_found += len(pairs)
    return np.concatenate(found)


def _paired(
    seekers: Int64Array,
    groups: Sequence[Int64Array],
    draws: UInt64Array,
    free: BoolArray,
    key: bytes,
    most: int,
) -> Int64Array:
    """Find partners for some records, given in the order in which they go first; marks who is taken."""
    found = [np.zeros((0, 2), dtype=np.int64)]
    for level, group in enumerate(groups):
        pool = _Pool(group, draws, free)
        for attempt in range(ATTEMPTS):
            seekers = seekers[free[seekers]]
            number = np.uint64(level * ATTEMPTS + attempt)
            pairs = _first_come(pool.asked(seekers, number, key), free)
            pairs = pairs[: most - sum(map(len, found))]
            free[pairs.ravel()] = False
            found.append(pairs)
    return np.concatenate(found)


class _Pool:
    """Free records by group, within it in the order of their draws."""

    def __init__(self, group: Int64Array, draws: UInt64Array, free: BoolArray) -> None:
        self._group = group
        self._draws = draws
        members = np.flatnonzero(free)
        self._sorted = members[np.lexsort((draws[members, 0], group[members]))]
        self._place = np.full(len(group), -1, dtype=np.int64)
        self._place[self._sorted] = np.arange(len(self._sorted))

    def asked(self, seekers: Int64Array, attempt: np.uint64, key: bytes) -> Int64Array:
        """Pairs of a record and the partner that it asks; none for who is alone in a group."""
        by_group = self._group[self._sorted]
        first, last = (
            np.searchsorted(by_group, self._group[seekers], s) for s in ("left", "right")
        )
        others = last - first - 1
        has = others > 0
        seekers, first, others = seekers[has], first[has], others[has]
        words = [self._draws[seekers, 0], self._draws[seekers, 1]]
        drawn = siphash(key, [*words, np.full(len(seekers), attempt)]) >> np.uint64(32)
        place = first + ((drawn * others.astype(np.uint64)) >> np.uint64(32)).astype(np.int64)
        place += place >= self._place[seekers]  # all but itself
        return np.column_stack([seekers, self._sorted[place]])


def _first_come(pairs: Int64Array, free: BoolArray) -> Int64Array:
    """Those of some pairs, the first ones first, whose both records are free and in no pair before."""
    pairs = pairs[free[pairs].all(axis=1)]
    place = np.arange(len(pairs))
    earliest = np.full(len(free), len(pairs), dtype=np.int64)
    for side in (0, 1):
        np.minimum.at(earliest, pairs[:, side], place)
    is_first: BoolArray = (earliest[pairs] == place[:, None]).all(axis=1)
    return pairs[is_first]
