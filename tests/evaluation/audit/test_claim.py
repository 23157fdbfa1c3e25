"""The columns that an audit chooses by itself: against looking at every set, and among many."""

from __future__ import annotations

from itertools import combinations
from math import prod

from hypothesis import given
from hypothesis import strategies as st

from engine.evaluation.audit import open_sets

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
