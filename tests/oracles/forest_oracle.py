"""The forest, grown slowly: a recursion over lists of rows and dicts of entities. No sort, no Morton order.

A row is (codes, entities): one int a column, one entity number a kind of entity.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from engine.mechanism import Draws, EntitySets

NULL_CODE, OTHER_CODE = -(2**63), -(2**63) + 1
NULL, NEGATIVE, NONNEGATIVE, OTHER = 0, 1, 2, 3
MASK = (1 << 64) - 1


def place(code: int, level: int) -> tuple[int, int, int]:
    """(kind, level, index) of the range that holds a code."""
    if code == NULL_CODE:
        return NULL, 0, 0
    if code == OTHER_CODE:
        return OTHER, 0, 0
    if code < 0:
        return NEGATIVE, level, (-1 - code) >> level
    return NONNEGATIVE, level, code >> level


def one_set(tokens, members) -> EntitySets:
    sums = [sum(int(tokens[e][lane]) for e in members) & MASK for lane in (0, 1)]
    return EntitySets(
        size=np.array([len(members)], dtype=np.int64), lanes=np.array([sums], dtype=np.uint64)
    )


def bound_at(depth: int, tops, columns, bounds) -> int:
    """Rows of one entity that count in a bucket of this depth."""
    most = bounds.most or 1
    for name, top in zip(columns, tops, strict=True):
        if name in bounds.of_values:
            most = min(most, bounds.of_values[name] * 2 ** max(top - depth, 0))
    return most


class Node:
    """A passing node: its label, who is in it, where it hangs."""

    def __init__(self, label, parent, kinds):
        self.label, self.parent, self.kinds = label, parent, kinds


def grow_slowly(rows, tops, tokens, draws: Draws, columns, bounds) -> dict:
    """All released nodes.

    `tokens[k][e]` are the two lanes of entity e of kind k.
    Returns {(depth, ((kind, level, index), ...)): (n, parent's ranges or None, scale)}.
    """
    depths = max(tops, default=0)
    at_depth: dict[int, list[Node]] = defaultdict(list)

    def visit(inside, depth, parent):
        parts = defaultdict(list)
        for codes, entities in inside:
            label = tuple(place(c, max(top - depth, 0)) for c, top in zip(codes, tops, strict=True))
            parts[label].append((codes, entities))
        for label, members in parts.items():
            kinds, passes = [], True
            for k, of_kind in enumerate(tokens):
                rows_of = defaultdict(int)
                for _, entities in members:
                    rows_of[entities[k]] += 1
                sets = one_set(of_kind, rows_of)
                passes = passes and bool(draws.passes(sets)[0])
                most = bound_at(depth, tops, columns, bounds)
                kinds.append((sets, sum(min(n, most) for n in rows_of.values())))
            if passes:
                at_depth[depth].append(Node(label, parent, kinds))
                if depth < depths:
                    visit(members, depth + 1, label)

    visit(rows, 0, None)
    out = {}
    for depth, nodes in at_depth.items():
        scale = bound_at(depth, tops, columns, bounds)
        for node in nodes:
            n_kinds = len(tokens) if bounds.most else 1
            size = sum(sets.size for sets, _ in node.kinds[:n_kinds])
            lanes = sum(sets.lanes for sets, _ in node.kinds[:n_kinds])
            noise = noise_of(node, EntitySets(size=size, lanes=lanes), scale, draws, columns)
            n = min(counted for _, counted in node.kinds) + noise
            out[depth, node.label] = (n, node.parent, scale)
    return out


def noise_of(node: Node, sets: EntitySets, scale: int, draws: Draws, columns) -> int:
    """Both layers."""
    log2 = scale.bit_length() - 1
    parts = np.array(node.label, dtype=np.int64).reshape(1, len(node.label), 3)
    kind, level = parts[..., 0].astype(np.uint8), parts[..., 1].astype(np.uint8)
    label = draws.label_noise(columns, kind, level, parts[..., 2], log2)
    return int(draws.set_noise(sets, log2)[0]) + int(label[0])
