"""Prefixes of text: which beginnings of values may be shown, and codes among which each prefix is one snapped range.

Takes the cells of one text column; gives the values and prefixes that enough entities share, by code. A prefix is
measured, suppressed and noised as a range of numbers is, since its codes are a snapped range: 2**k codes from a
multiple of 2**k on. Values that too few share have the code of the longest prefix that covers them. Confidential.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile

import numpy as np

from engine.mechanism import Cells, Draws, grouped, passing, passing_runs
from engine.schema import LONGEST_PREFIX, NULL_CODE, Int64Array, Prefix

MOST_CODES = 1 << 48
"""Codes of a column. Prefixes are cut shorter where they would take more."""
_AT_ONCE = 100_000
"""Values that are compared in one step: it takes 4 bytes a character."""


@dataclass(slots=True)
class _Node:
    """A prefix, or one value, that enough entities share: a run of values in their order."""

    first: int
    end: int
    children: list[_Node] = field(default_factory=list)
    has_hidden: bool = False  # It has a code for values that no longer prefix covers
    size: int = 1  # Codes, a power of two
    code: int = 0

    @property
    def is_value(self) -> bool:
        return self.end - self.first == 1

    def take_place_of(self, other: _Node) -> None:
        """Be another node, which is the only part of this one."""
        self.first, self.end, self.children = other.first, other.end, other.children
        self.has_hidden, self.size = other.has_hidden, other.size


def coded_prefixes(
    cells: Cells,
    dictionary: Sequence[str],
    draws: Draws,
    lengths: Sequence[int] = (),
    tree: Mapping[str, tuple[str, ...]] | None = None,
) -> dict[int, str | Prefix]:
    """The released values and prefixes of a column by code, ascending.

    cells: Of the column alone; codes are positions in `dictionary`, which is sorted by code point.
    lengths: Of the prefixes that there may be, ascending; empty: all.
    tree: In the place of prefixes, of each value its ancestors from the top on, and itself.
    """
    order = np.argsort(cells.codes[:, 0])
    n_null = int(np.count_nonzero(cells.codes == NULL_CODE))
    texts = [dictionary[code] for code in cells.codes[order[n_null:], 0]]
    # At depth d values part whose prefixes of that depth differ; below the deepest ones each stands by itself.
    paths: list[tuple[str, ...]] = []
    if tree:
        paths = [tree.get(text, (text,)) for text in texts]
        by_path = sorted(range(len(paths)), key=paths.__getitem__)
        order[n_null:] = order[n_null:][by_path]
        texts, paths = [texts[at] for at in by_path], [paths[at] for at in by_path]
        alike = [_n_alike(one, other) for one, other in pairwise(paths)]
        apart, deepest = np.array(alike, dtype=np.int64) + 1, max(map(len, paths), default=0)
    else:
        lengths = lengths or range(1, LONGEST_PREFIX + 1)
        apart = np.searchsorted(np.array(lengths), _shared(texts), side="right") + 1
        deepest = len(lengths)

    def prefix_of(at: int, depth: int) -> str:
        return paths[at][depth - 1] if tree else texts[at][: lengths[depth - 1]]

    while True:
        parts = np.zeros(len(order), dtype=np.int64)
        parts[n_null + 1 :] = np.minimum(apart, deepest + 1)
        root = _tree(cells, order, parts, n_null, draws)
        if root is None:
            return {}
        _lay_out(root, cells, order[n_null:], parts[n_null:], draws)
        if root.size <= MOST_CODES:
            return _by_code(root, texts, parts[n_null:], prefix_of)
        deepest //= 2


def _n_alike(one: Sequence[str], other: Sequence[str]) -> int:
    """How many ancestors two values have in common, from the top on."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return sum(1 for _ in same)


def _shared(texts: Sequence[str]) -> Int64Array:
    """How many characters each text shares with the one before it, at most `LONGEST_PREFIX`; without the first."""
    out = np.zeros(max(len(texts) - 1, 0), dtype=np.int64)
    for start in range(0, len(out), _AT_ONCE):
        some = [text[:LONGEST_PREFIX] for text in texts[start : start + _AT_ONCE + 1]]
        letters = (
            np.array(some, dtype=f"U{LONGEST_PREFIX}")
            .view(np.uint32)
            .reshape(len(some), LONGEST_PREFIX)
        )
        differs = letters[1:] != letters[:-1]
        where = differs.argmax(axis=1)
        where[~differs.any(axis=1)] = LONGEST_PREFIX
        out[start : start + len(where)] = where
    return out


def _tree(
    cells: Cells, order: Int64Array, parts: Int64Array, n_null: int, draws: Draws
) -> _Node | None:
    """All prefixes and values that pass with every shorter prefix, as a tree; None if not even all values do."""
    root: _Node | None = None
    above: list[_Node | None] = []
    for first, end, parent in passing_runs(cells, order, parts, draws):
        nodes: list[_Node | None] = []
        runs = ((first - n_null).tolist(), (end - n_null).tolist(), parent.tolist())
        for begin, stop, of in zip(*runs, strict=True):
            holder = above[of] if of >= 0 else None
            if begin < 0:  # null
                nodes.append(None)
            elif holder is None:
                root = _Node(begin, stop)
                nodes.append(root)
            elif (holder.first, holder.end) == (begin, stop):
                nodes.append(holder)  # nothing parts here
            else:
                holder.children.append(_Node(begin, stop))
                nodes.append(holder.children[-1])
        above = nodes
    return root


def _lay_out(root: _Node, cells: Cells, order: Int64Array, parts: Int64Array, draws: Draws) -> None:
    """Leave out prefixes of which nothing but one longer part passes, and give the others their codes.

    The codes of a prefix are those of its parts, in the order of the values, and one for values that no part covers,
    where enough entities have such values or a power of two leaves one free. Otherwise they count as the next shorter
    prefix. So tree and codes follow from what passes alone: whether few people more begin so cannot be seen.
    """
    nodes, above, depth = [root], [-1], [0]
    for number, node in enumerate(nodes):
        nodes += node.children
        above += [number] * len(node.children)
        depth += [depth[number] + 1] * len(node.children)
    hidden_in = np.full(len(cells.codes), len(nodes))
    for number, node in enumerate(nodes):  # the longest prefix comes last
        hidden_in[order[node.first : node.end]] = number
    is_prefix = len(parts) > 1 and int(parts[1:].min()) > 1  # what all values begin with
    for level in range(max(depth), -1, -1):
        hidden = grouped(cells, hidden_in)
        enough = {*hidden.codes[passing(hidden, draws), 0].tolist()}
        goes_on = np.arange(len(nodes) + 1)
        for number, node in enumerate(nodes):
            if depth[number] != level or node.is_value:
                continue
            taken = 0
            for child in node.children:
                taken += -taken % child.size
                child.code = taken  # so far within its parent
                taken += child.size
            node.size = 1 << max(taken - 1, 0).bit_length()
            may_hide = level > 0 or is_prefix
            node.has_hidden = may_hide and (number in enough or taken < node.size)
            node.size = 1 << max(taken + node.has_hidden - 1, 0).bit_length()
            if not node.has_hidden and level > 0:
                goes_on[number] = above[number]
            if not node.has_hidden and len(node.children) == 1:
                node.take_place_of(node.children[0])
        hidden_in = goes_on[hidden_in]
    for node in _all_nodes(root):
        for child in node.children:
            child.code += node.code


def _all_nodes(root: _Node) -> list[_Node]:
    """The nodes of a tree, each before those below it."""
    nodes = [root]
    for node in nodes:
        nodes += node.children
    return nodes


def _by_code(
    root: _Node, texts: Sequence[str], parts: Int64Array, prefix_of: Callable[[int, int], str]
) -> dict[int, str | Prefix]:
    """What each code stands for.

    parts: The depth at which each text parts from the one before it.
    prefix_of: The prefix of the value at a place, at depth 1, 2, ...
    """
    out: dict[int, str | Prefix] = {}
    for node in _all_nodes(root):
        if node.is_value:
            out[node.code] = texts[node.first]
            continue
        # All of a run begin alike down to the depth where the first two of them part.
        alike = int(parts[node.first + 1 : node.end].min()) - 1
        if node.has_hidden:
            last = node.children[-1] if node.children else None
            code = node.code if last is None else last.code + last.size
            out[code] = Prefix(prefix_of(node.first, alike))
    return dict(sorted(out.items()))
