"""The ways out keep what they say: without the tables named, or with the noise named, the bound holds."""

from __future__ import annotations

import numpy as np
import pytest
from fixtures.exposure import few, seen

from engine.exposure import Estimator, Remedies, remedies
from engine.relations import NO_RELATIONS, Relation, Relations

BOUND = 0.7


def ways_of(codes, tables, published, relations=NO_RELATIONS, bound=BOUND, before=None):
    people = seen(codes, tables)
    estimator, times = Estimator(people, people.columns), dict.fromkeys(people.tables, 1)
    found = estimator.exposures(times, before)
    given = remedies(estimator, found, bound, times, before or {}, published, relations)
    return estimator, times, given


def test_without_the_tables_named_or_with_the_noise_named_the_bound_holds():
    codes, tables = few(10)
    estimator, times, ways = ways_of(codes, tables, tables)
    assert estimator.exposure("bit", times, most_right=BOUND).most > BOUND
    assert ways.drop
    assert len(ways.drop) < 8
    kept = {table: 1 for table in times if table not in ways.drop}
    assert estimator.exposure("bit", kept, most_right=BOUND).most <= BOUND
    assert ways.noise_factor is not None
    more = estimator.exposure("bit", times, noise_factor=ways.noise_factor, most_right=BOUND)
    assert more.most <= BOUND
    assert ways.columns


def test_what_was_told_before_counts():
    codes, tables = few(10)
    *_, alone = ways_of(codes, tables, tables)
    *_, more = ways_of(codes, tables, tables, before={"bit": 0.15})
    assert len(more.drop) > len(alone.drop)


def test_tables_of_a_coarser_column_go_with_those_that_need_them():
    """Of coarser values tables are measured that nobody listed: what is left out is the listed one locked to them."""
    rng = np.random.default_rng(8)
    codes = {"age": rng.integers(0, 600, 6_000), "sex": rng.integers(0, 2, 6_000)}
    codes |= {"agegr": codes["age"] // 10, "edu": rng.integers(0, 9, 6_000)}
    of = np.arange(600, dtype=np.int64)
    relations = Relations(relations=(Relation(finer="age", coarser="agegr", of=of, to=of // 10),))
    published = [("edu", "sex"), ("age", "sex")]
    needed = relations.needed(published)
    _, _, ways = ways_of(codes, needed, published, relations, bound=0.51)
    assert ("age", "sex") in ways.drop


def test_where_nothing_helps_it_says_so():
    codes, tables = few(2)
    *_, ways = ways_of(codes, tables, tables, before={"bit": 4.0})
    assert (ways.drop, ways.noise_factor) == (None, None)
    assert Remedies(drop=None, noise_factor=None, columns=()).sentences(1) == []


@pytest.mark.parametrize("is_pinned", [False, True])
def test_few_and_many_tables_are_named(is_pinned):
    many = Remedies(
        drop=tuple((f"c{i}", "x") for i in range(7)), noise_factor=2, columns=("a", "b")
    )
    lines = [
        "leave out 7 tables: c0, x; c1, x; c2, x; c3, x; c4, x; and 2 more",
        "add more noise: layer_sd = 4 in [privacy] (2 times the noise)",
        "give coarser values, or fewer tables, of a, b",
    ]
    assert many.sentences(2, is_pinned=is_pinned) == (lines[:1] if is_pinned else lines)
