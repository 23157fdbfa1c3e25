"""Partners of an exchange found one record after the other: the slow twin of engine.source.swapping.partners."""

from __future__ import annotations

import struct
from collections import Counter

from oracles.siphash_oracle import siphash24

from engine.source.swapping.partners import ATTEMPTS


def rarity(pairs) -> list[int]:
    """With how many records each shares two values, at the fewest."""
    found = [Counter(zip(one, other, strict=True)) for one, other in pairs]
    return [
        min(seen[one[i], other[i]] for seen, (one, other) in zip(found, pairs, strict=True))
        for i in range(len(pairs[0][0]))
    ]


def drawn(key: bytes, draws, attempt: int) -> int:
    message = struct.pack("<QQQ", int(draws[0]), int(draws[1]), attempt)
    return int.from_bytes(siphash24(key[:16], message), "little") >> 32


def partners(groups, rarity, draws, n_pairs: int, key: bytes) -> list[tuple[int, int]]:
    """Pairs, in the order in which they are made."""
    n = len(rarity)
    order = sorted(range(n), key=lambda i: ((int(draws[i][0]) >> 32) * rarity[i], int(draws[i][1])))
    taken: set[int] = set()
    pairs: list[tuple[int, int]] = []
    at_once = n_pairs
    while order and len(pairs) < n_pairs:
        seekers, order, at_once = order[:at_once], order[at_once:], 2 * at_once
        for level, group in enumerate(groups):
            stood = [i for i in range(n) if i not in taken]
            stood.sort(key=lambda i: int(draws[i][0]))
            for attempt in range(ATTEMPTS):
                asked = []
                for i in seekers:
                    others = [j for j in stood if group[j] == group[i] and j != i]
                    if i in taken or not others:
                        continue
                    number = drawn(key, draws[i], level * ATTEMPTS + attempt)
                    asked.append((i, others[(number * len(others)) >> 32]))
                asked = [(i, j) for i, j in asked if j not in taken]
                first = {}
                for place, pair in enumerate(asked):
                    for i in pair:
                        first.setdefault(i, place)
                for place, pair in enumerate(asked):
                    if len(pairs) < n_pairs and all(first[i] == place for i in pair):
                        pairs.append(pair)
                        taken |= {*pair}
    return pairs
