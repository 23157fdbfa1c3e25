"""Functional dependencies: bases of column sets and tables they are locked to, by hand and by closure."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from engine.fit import related
from engine.relations import Relation


def relation(finer, coarser, *, is_copy=False, of=(1, 2, 3), to=None) -> Relation:
    to = (of if is_copy else [0] * len(of)) if to is None else to
    return Relation(finer=finer, coarser=coarser, of=np.array(of), to=np.array(to), is_copy=is_copy)


NAMES = ("area", "code", "county", "state", "sex", "zone")
RELATIONS = related(
    [
        relation("area", "code", is_copy=True, of=(1, 2, 3, 4), to=(8, 6, 7, 5)),
        relation("code", "county", of=(5, 6, 7, 8), to=(1, 1, 2, 3)),
        relation("county", "state", of=(1, 2, 3), to=(0, 0, 1)),
        relation("state", "zone", is_copy=True, of=(0, 1), to=(20, 10)),
    ],
    NAMES,
)


@pytest.mark.parametrize(
    ("columns", "base"),
    [
        (("area",), ("area",)),
        (("code",), ("area",)),
        (("area", "code"), ("area",)),
        (("code", "county", "sex"), ("area", "sex")),
        (("county", "zone"), ("county",)),
        (("sex", "zone"), ("sex", "state")),
        (("area", "county", "sex", "state"), ("area", "sex")),
        (("sex",), ("sex",)),
    ],
)
def test_the_base_of_a_column_set(columns, base):
    assert RELATIONS.base(columns) == base


def test_the_source_of_each_implied_column():
    sources = {
        ("code", ("area", "sex")): ("area", [8, 6, 7, 5]),
        ("county", ("area", "sex")): ("area", [3, 1, 2, 1]),
        ("state", ("area",)): ("area", [1, 0, 0, 0]),
        ("zone", ("area",)): ("area", [10, 20, 20, 20]),
        ("zone", ("sex", "state")): ("state", [20, 10]),
        ("state", ("county",)): ("county", [0, 0, 1]),
    }
    for (name, base), (finer, to) in sources.items():
        one = RELATIONS.source(name, base)
        assert (one.finer, one.coarser, list(one.to)) == (finer, name, to)
    assert RELATIONS.source("sex", ("area", "sex")) is None


def test_tables_are_locked_to_the_next_coarser():
    coarse = {
        columns: {c for _, c in RELATIONS.coarsened(columns)}
        for columns in [
            ("area", "sex"),
            ("county", "sex"),
            ("sex", "state"),
        ]
    }
    assert coarse == {
        ("area", "sex"): {("county", "sex")},
        ("county", "sex"): {("sex", "state")},
        ("sex", "state"): set(),
    }


def test_what_a_table_is_locked_to_comes_before_it():
    for width in (1, 2, 3):
        for published in combinations(NAMES, width):
            needed = RELATIONS.needed([published])
            assert len(set(needed)) == len(needed)
            for at, columns in enumerate(needed):
                assert RELATIONS.base(columns) == columns
                before = {*needed[:at], *((name,) for name in NAMES)}
                assert before.issuperset(combinations(columns, len(columns) - 1))
                assert before.issuperset(c for _, c in RELATIONS.coarsened(columns))
            base = RELATIONS.base(published)
            assert len(base) < 2 or needed[-1] == base


def test_the_first_by_precedence_represents_its_one_to_one_columns():
    copies = [
        relation("b", "a", is_copy=True, of=(1, 2), to=(4, 3)),
        relation("c", "b", is_copy=True, of=(7, 8), to=(2, 1)),
    ]
    one = related(copies, ("c", "a", "b"))
    assert {name: (r.finer, list(r.of), list(r.to)) for name, r in one.copies.items()} == {
        "a": ("c", [7, 8], [3, 4]),
        "b": ("c", [7, 8], [2, 1]),
    }
    other = related(copies, ("a", "b", "c"))
    assert {name: (r.finer, list(r.of), list(r.to)) for name, r in other.copies.items()} == {
        "b": ("a", [3, 4], [2, 1]),
        "c": ("a", [3, 4], [7, 8]),
    }


def test_a_table_is_wide_by_its_base():
    """Implied columns need nothing but the tables to which those of the finer column are locked."""
    names = ("area", "code", "county", "sex", "state", "zone")
    assert RELATIONS.base(names) == ("area", "sex")
    assert ("area", "sex") in RELATIONS.needed([names])
    assert max(map(len, RELATIONS.needed([names]))) == 2
