"""Prefixes of text: which beginnings of values may be shown, and codes among which each prefix is one snapped range.

Takes the cells of one text column; gives the values and prefixes that enough entities share, by code. A prefix is
measured, suppressed and noised as a range of numbers is, since its codes are a snapped range: 2**k codes from a
multiple of 2**k on. Values that too few share have the code of the longest prefix that covers them. Confidential.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

import numpy as np

from engine.mechanism import Cells, Draws, passing_runs
from engine.schema import NULL_CODE, Int64Array, Prefix

LONGEST = 64
"""Characters of the longest prefix. Values that begin with the same ones beyond it are told apart by nothing shorter
than themselves."""
MOST_CODES = 1 << 48
"""Codes of a column. Prefixes are cut shorter where they would take more."""
_AT_ONCE = 100_000
"""Values that are compared in one step: it takes 4 bytes a character."""


@dataclass(slots=True)
class _Node:
    """A prefix that enough entities share, or one value that they do: a run of values in their order."""

    first: int
    end: int
    children: list[_Node] = field(default_factory=list)
    size: int = 1  # Codes, a power of two
    code: int = 0

    @property
    def is_value(self) -> bool:
        return self.end - self.first == 1


def coded_prefixes(
    cells: Cells, dictionary: Sequence[str], draws: Draws
) -> dict[int, str | Prefix]:
    """The released values and prefixes of a column by code, ascending.

    cells: Of the column alone; codes are positions in `dictionary`, which is sorted by code point.
    """
    order = np.argsort(cells.codes[:, 0])
    codes = cells.codes[order, 0]
    n_null = int(np.count_nonzero(codes == NULL_CODE))
    texts = [dictionary[code] for code in codes[n_null:]]
    parts = np.zeros(len(codes), dtype=np.int64)
    parts[n_null + 1 :] = _shared(texts) + 1
    longest = LONGEST
    while (root := _released(cells, order, parts, n_null, draws, longest)) is not None:
        if _laid_out(root, texts) <= MOST_CODES:
            return _by_code(root, texts)
        longest //= 2
    return {}


def _shared(texts: Sequence[str]) -> Int64Array:
    """How many characters each text shares with the one before it, at most `LONGEST`; without the first."""
    out = np.zeros(max(len(texts) - 1, 0), dtype=np.int64)
    for start in range(0, len(out), _AT_ONCE):
        some = [text[:LONGEST] for text in texts[start : start + _AT_ONCE + 1]]
        letters = np.array(some, dtype=f"U{LONGEST}").view(np.uint32).reshape(len(some), LONGEST)
        differs = letters[1:] != letters[:-1]
        where = differs.argmax(axis=1)
        where[~differs.any(axis=1)] = LONGEST
        out[start : start + len(where)] = where
    return out


def _released(
    cells: Cells, order: Int64Array, parts: Int64Array, n_null: int, draws: Draws, longest: int
) -> _Node | None:
    """The tree of all prefixes and values that pass with everything that they lie in; None if not even all do.

    A prefix that all values of a shorter one begin with takes its place.
    """
    root: _Node | None = None
    above: list[_Node | None] = []
    # Beyond the longest prefix every value stands by itself.
    for first, end, parent in passing_runs(cells, order, np.minimum(parts, longest + 1), draws):
        nodes: list[_Node | None] = []
        for run_first, run_end, of in zip(
            (first - n_null).tolist(), (end - n_null).tolist(), parent.tolist(), strict=True
        ):
            holder = above[of] if of >= 0 else None
            node: _Node | None
            if run_first < 0:  # null
                node = None
            elif holder is None:
                node = root = _Node(run_first, run_end)
            elif holder.end - holder.first == run_end - run_first:
                node = holder
            else:
                node = _Node(run_first, run_end)
                holder.children.append(node)
            nodes.append(node)
        above = nodes
    return root


def _laid_out(root: _Node, texts: Sequence[str]) -> int:
    """Give every node its codes, in the order of the values, the hidden ones last; returns how many the root has."""
    nodes = [root]
    for node in nodes:
        nodes += node.children
    for node in reversed(nodes):
        if not node.is_value:
            taken = 0
            for child in node.children:
                taken += -taken % child.size
                child.code = taken  # so far within its parent
                taken += child.size
            node.size = 1 << max(taken + _has_rest(node, texts) - 1, 0).bit_length()
    for node in nodes:
        for child in node.children:
            child.code += node.code
    return root.size


def _by_code(root: _Node, texts: Sequence[str]) -> dict[int, str | Prefix]:
    """What each code stands for."""
    out: dict[int, str | Prefix] = {}
    nodes = [root]
    for node in nodes:
        nodes += node.children
        if node.is_value:
            out[node.code] = texts[node.first]
        elif _has_rest(node, texts):
            last = node.children[-1] if node.children else None
            code = node.code if last is None else last.code + last.size
            out[code] = Prefix(_common(node, texts))
    return dict(sorted(out.items()))


def _has_rest(node: _Node, texts: Sequence[str]) -> bool:
    """Whether values are hidden behind a prefix and no longer one."""
    n_covered = sum(child.end - child.first for child in node.children)
    return not node.is_value and n_covered < node.end - node.first and _common(node, texts) != ""


def _common(node: _Node, texts: Sequence[str]) -> str:
    """What all texts of a run begin with."""
    first, last = texts[node.first][:LONGEST], texts[node.end - 1]
    same = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    return "".join(letter for letter, _ in same)
