"""Safe statistics, directions, extremal data and the columns chosen: against slow obvious twins."""

from __future__ import annotations

from itertools import combinations, product
from math import prod

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import SpecError
from engine.evaluation.audit import (
    Direction,
    candidates_of,
    component,
    domain_of,
    extremal_data,
    open_sets,
    safe_statistics,
    start_of,
    subspace_of,
)


def domain(sizes):
    """Columns a, b, ... of so many values."""
    names = "abcdefgh"[: len(sizes)]
    most = max(sizes)
    return domain_of(
        pd.DataFrame(
            {n: [f"{i % s:02d}" for i in range(most)] for n, s in zip(names, sizes, strict=True)}
        ),
        list(names),
    )


def data(sizes, n=400, seed=1):
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 3, n)
    return np.column_stack([(rng.integers(0, s, n) + hidden) % s for s in sizes])


def basis_of(safe):
    """Orthonormal rows that span all tables that margins tell; by brute force."""
    sizes = safe.domain.sizes
    cells = np.array(list(product(*map(range, sizes))))
    rows = []
    for axes in safe.axes:
        for value in product(*(range(sizes[a]) for a in axes)):
            rows.append((cells[:, axes] == value).all(axis=1).astype(float))
    _, s, vt = np.linalg.svd(np.array(rows), full_matrices=False)
    return vt[s > 1e-9]


@pytest.mark.parametrize(
    ("sizes", "margins", "dimension"),
    [
        ((10, 10, 2), ["ab", "ac", "bc"], 81),  # application 1 of the paper
        ((6, 3, 7, 5), ["abc", "ad", "bd", "cd"], 448),  # application 2 of the paper
        ((2, 2, 2), ["a", "b", "c"], 4),  # its example 2
        ((3, 4), ["ab"], 0),
        ((3, 4, 2), ["ab"], 12),  # a column that no margin names: still (3 * 4 * 2) - 12
    ],
)
def test_dimensions_are_those_of_the_paper(sizes, margins, dimension):
    safe = safe_statistics(domain(sizes), margins)
    assert safe.dimension() == dimension
    assert len(basis_of(safe)) == np.prod(sizes) - dimension


@pytest.mark.parametrize("margins", [["ab", "ac", "bc"], ["ab", "c"], ["a"], ["abc"], ["ac", "b"]])
def test_the_unsafe_part_is_what_margins_do_not_tell(margins):
    sizes = (3, 4, 2)
    safe = safe_statistics(domain(sizes), margins)
    table = np.random.default_rng(0).normal(size=sizes)
    known = basis_of(safe)
    want = table.ravel() - known.T @ (known @ table.ravel())
    found = sum((component(table, axes) for axes in safe.uncovered), np.zeros(sizes))
    np.testing.assert_allclose(found.ravel(), want, atol=1e-12)


def test_narrow_margins_inside_others_are_left_out():
    safe = safe_statistics(domain((3, 4, 2)), ["a", "ab", "xyc", "b", "zz"])
    assert safe.margins == (("c",), ("a", "b"))
    with pytest.raises(SpecError, match="no margin is about"):
        safe_statistics(domain((3, 4)), ["xy"])


@settings(max_examples=15, deadline=None)
@given(
    sizes=st.tuples(*[st.integers(2, 4)] * 4),
    margins=st.lists(
        st.sets(st.sampled_from("abcd"), min_size=1, max_size=3), min_size=1, max_size=5
    ),
    n=st.integers(1, 60),
    seed=st.integers(0, 10_000),
)
def test_safe_margins_are_the_same_integers(sizes, margins, n, seed):
    safe = safe_statistics(domain(sizes), margins)
    rng = np.random.default_rng(seed)
    start = start_of(data(sizes, n=n, seed=seed), safe, rows=n, least=1, rng=rng)
    direction = subspace_of(safe, rng).random(rng)
    found = extremal_data(start, safe, direction, candidates_of(start, safe, rng))
    if found is None:
        return
    for one, other in zip(safe.counts(found.plus), safe.counts(found.minus), strict=True):
        assert one.dtype == np.int64
        assert (one == other).all()
    assert (found.plus.n > 0).all()
    assert (found.minus.n > 0).all()
    assert direction.mean(found.plus) > direction.mean(found.minus)
    if not found.put_back:  # nothing was rounded: the margins are those of the start, repeated
        ratio = found.plus.n.sum() // start.cells.n.sum()
        for one, own in zip(safe.counts(found.plus), safe.counts(start.cells), strict=True):
            assert (one == ratio * own).all()


def test_extremal_data_is_as_far_apart_as_can_be():
    """Two columns of two values with equal margins: everybody on one diagonal, or on the other."""
    safe = safe_statistics(domain((2, 2)), ["a", "b"])
    codes = np.array([[0, 0], [0, 1], [1, 0], [1, 1]]).repeat(5, axis=0)
    start = start_of(codes, safe, rows=20, least=1, rng=np.random.default_rng(0))
    direction = Direction(parts=(((0, 1), np.array([[1.0, -1.0], [-1.0, 1.0]])),))
    found = extremal_data(
        start, safe, direction, candidates_of(start, safe, np.random.default_rng(0))
    )
    assert found.plus.codes.tolist() == [[0, 0], [1, 1]]
    assert found.minus.codes.tolist() == [[0, 1], [1, 0]]
    assert found.plus.n.tolist() == found.minus.n.tolist() == [10, 10]


def test_no_room():
    safe = safe_statistics(domain((2, 2)), ["a", "b"])
    codes = np.zeros((7, 2), dtype=np.int64)  # everybody alike: no other data has these margins
    start = start_of(codes, safe, rows=7, least=1, rng=np.random.default_rng(0))
    rng = np.random.default_rng(1)
    direction = subspace_of(safe, rng).random(rng)
    assert extremal_data(start, safe, direction, candidates_of(start, safe, rng)) is None


NAMES = tuple("abcdefg")


def slowly(sizes, margins, width, most):
    """By definition."""

    def is_held(part):
        return any(set(part) <= set(margin) for margin in margins)

    return {
        (prod(sizes[n] for n in names), names)
        for names in combinations(sorted(sizes), width)
        if prod(sizes[n] for n in names) <= most
        and not is_held(names)
        and all(is_held(part) for part in combinations(names, width - 1))
    }


@given(
    sizes=st.fixed_dictionaries({name: st.integers(1, 9) for name in NAMES}),
    margins=st.lists(
        st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True).map(
            lambda names: tuple(sorted(names))
        ),
        max_size=24,
    ),
    width=st.integers(2, 5),
    most=st.sampled_from([1, 30, 200, 10**6]),
)
def test_open_sets_are_those_by_definition(sizes, margins, width, most):
    found = list(open_sets(sizes, margins, width, most))
    assert len(found) == len(set(found))
    assert set(found) == slowly(sizes, margins, width, most)
