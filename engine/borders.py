"""Borders that declared universes draw: which letters lie inside, and which combinations cannot be.

A letter of a column is marked, for each universe, as of rows inside (1), outside (-1), or of either (0). Two letters
one of which is inside and the other outside never meet in a row: a structural zero by rule. And a column that is null
exactly outside has as many nulls as the deciding column has rows outside, so that the tables of both can agree.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.alphabet import largest_remainder
from engine.candidates import Letters
from engine.errors import SpecError
from engine.schema import KIND_NULL, KIND_OTHER, Alphabet, BoolArray, FloatArray
from engine.universe import CodedUniverse

Marks = dict[tuple[Any, ...], NDArray[np.int8]]
"""By universe (its condition): the mark of each letter of a column."""
TOLERATED, SURE = 0.01, 8.0
"""A declaration is refused if it is off by more than this share of the rows and so many standard deviations."""
Universes = dict[str, CodedUniverse]
"""By name of the column that has the universe."""


def marks_of(alphabet: Alphabet, universes: Universes) -> Marks:
    """Mark the letters of a column in every universe that it decides or has.

    Parameters
    ----------
    alphabet : Alphabet
    universes : dict

    Returns
    -------
    dict
    """
    name = alphabet.column.name
    marks: Marks = {}
    for universe in universes.values():
        if universe.declared.column == name:
            marks[universe.declared.condition] = _sides(alphabet, universe)
    own = universes.get(name)
    if own is None:
        return marks
    outside, unknown = _says_outside(alphabet, own), _may_say_outside(alphabet, own)
    not_inside = -1 if own.declared.complete else 0
    mark = np.where(unknown, 0, np.where(outside, not_inside, 1)).astype(np.int8)
    marks[own.declared.condition] = mark
    above = universes.get(own.declared.column)
    while above is not None and above.declared.outside is None:
        # Whoever is inside has a value in the deciding column, so is inside that one's universe too.
        marks[above.declared.condition] = np.maximum(mark, 0)
        above = universes.get(above.declared.column)
    return marks


def possible(letters: Letters, marks: tuple[Marks, ...]) -> BoolArray:
    """Whether no universe rules a combination out.

    Parameters
    ----------
    letters : ndarray of int32, shape (n_cells, n_columns)
    marks : tuple of dict
        One entry a column.

    Returns
    -------
    ndarray of bool, shape (n_cells,)
    """
    out = np.ones(len(letters), dtype=bool)
    for condition in {c for of_column in marks for c in of_column}:
        lowest = np.ones(len(letters), dtype=np.int8)
        highest = -lowest
        for j, of_column in enumerate(marks):
            if condition in of_column:
                mark = of_column[condition][letters[:, j]]
                lowest, highest = np.minimum(lowest, mark), np.maximum(highest, mark)
        out &= (lowest >= 0) | (highest <= 0)
    return out


def with_rows_outside(
    alphabet: Alphabet, universe: CodedUniverse, decider: Alphabet, variance: float
) -> Alphabet:
    """Give a column as many nulls as there are rows outside its universe; at least, where it may be null inside.

    The other letters share the difference, each by its noise variance.

    Parameters
    ----------
    alphabet : Alphabet
    universe : CodedUniverse
        Of this column.
    decider : Alphabet
        Of the column that decides it.
    variance : float
        Noise variance of a released bucket.

    Returns
    -------
    Alphabet
        With the same total.

    Raises
    ------
    SpecError
        If the noisy counts contradict the declaration by far more than noise can.
    """
    sides = _sides(decider, universe)
    if (sides == 0).any() or _may_say_outside(alphabet, universe).any():
        return alphabet  # unreleased values hide who is outside
    alphabet = _with_letter_for_outside(alphabet, universe)
    says = _says_outside(alphabet, universe)
    wanted, have = int(decider.n[sides < 0].sum()), int(alphabet.n[says].sum())
    if not universe.declared.complete:
        wanted = max(wanted, have)
    total = int(alphabet.n.sum())
    parts = _widest_cover(int(np.count_nonzero(sides < 0)))
    doubt = parts * decider.noise_sd**2 + alphabet.noise_sd**2
    if not says.any() or abs(wanted - have) > TOLERATED * total + SURE * doubt**0.5:
        raise SpecError(
            [
                f"columns.{alphabet.column.name}.universe: the released counts contradict it: about {have:,} rows "
                f"say that they are outside, but about {wanted:,} should"
            ]
        )
    n = alphabet.n.copy()
    n[says] = wanted
    n[~says] = _shared(alphabet.n[~says].astype(np.float64), total - wanted, variance)
    # The rows outside are a sum over the deciding column: its letters' errors add up.
    squares = alphabet.noise_sd**2 * (len(n) - 1) + parts * decider.noise_sd**2
    kept = n > 0
    return replace(
        alphabet,
        kind=alphabet.kind[kept],
        code=alphabet.code[kept],
        n=n[kept],
        measured=alphabet.measured[kept],
        noise_sd=max(alphabet.noise_sd, (squares / len(n)) ** 0.5),
    )


def _with_letter_for_outside(alphabet: Alphabet, universe: CodedUniverse) -> Alphabet:
    """A column without nulls gets a letter for them: there may be rows outside all the same."""
    if universe.declared.outside is not None or (alphabet.kind == KIND_NULL).any():
        return alphabet
    return replace(
        alphabet,
        kind=np.concatenate([np.array([KIND_NULL], dtype=np.uint8), alphabet.kind]),
        code=np.concatenate([[0], alphabet.code]),
        n=np.concatenate([[0], alphabet.n]),
        measured=np.concatenate([[False], alphabet.measured]),
    )


def _widest_cover(letters: int) -> int:
    """Most ranges of a tree that it takes to cover so many neighbouring letters."""
    return min(max(2 * letters.bit_length() - 2, 1), letters)


def _shared(n: FloatArray, total: int, variance: float) -> NDArray[np.int64]:
    """Bring counts to a total; each gives way by its variance, none by more than it has."""
    weight = np.minimum(n, variance)
    sums = float(np.cumsum(weight)[-1])
    moved = np.maximum(n + weight * ((total - float(np.cumsum(n)[-1])) / max(sums, 1e-9)), n / 4)
    return largest_remainder(
        np.zeros(len(n), dtype=np.int64), moved, np.array([total], dtype=np.int64)
    )


def _sides(alphabet: Alphabet, universe: CodedUniverse) -> NDArray[np.int8]:
    """Letters of the deciding column: 1 inside, -1 outside, 0 where unreleased values may be either."""
    inside = _is_value(alphabet)
    if universe.low is not None:
        inside &= alphabet.code >= universe.low
    if universe.high is not None:
        inside &= alphabet.code <= universe.high
    values = universe.declared.values
    if values is not None:
        inside &= _is_one_of(alphabet, values)
    out = np.where(inside, 1, -1).astype(np.int8)
    folded = alphabet.kind == KIND_OTHER
    if values is None:
        out[folded] = 1  # any value will do, an unreleased one too
    elif not set(values) <= set(alphabet.values or ()):
        out[folded] = 0
    return out


def _may_say_outside(alphabet: Alphabet, universe: CodedUniverse) -> BoolArray:
    """The placeholder of a column whose value for outside was not released."""
    outside = universe.declared.outside
    hidden = outside is not None and outside not in (alphabet.values or ())
    folded: BoolArray = (alphabet.kind == KIND_OTHER) & hidden
    return folded


def _says_outside(alphabet: Alphabet, universe: CodedUniverse) -> BoolArray:
    """Letters of a column that say that a row is outside its universe."""
    outside = universe.declared.outside
    if outside is not None:
        return _is_value(alphabet) & _is_one_of(alphabet, (outside,))
    null: BoolArray = alphabet.kind == KIND_NULL
    return null


def _is_value(alphabet: Alphabet) -> BoolArray:
    """Letters that are neither null nor the placeholder."""
    valued: BoolArray = (alphabet.kind != KIND_NULL) & (alphabet.kind != KIND_OTHER)
    return valued


def _is_one_of(alphabet: Alphabet, values: tuple[Any, ...]) -> BoolArray:
    """Letters of a column with a list of values that are some of these."""
    ranks = [rank for rank, value in enumerate(alphabet.values or ()) if value in values]
    found: BoolArray = np.isin(alphabet.code, ranks)
    return found
