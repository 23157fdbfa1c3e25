"""The ways out keep what they say: without the tables named, or with the threshold named, the bound holds."""

from __future__ import annotations

import numpy as np
import pytest
from attacks.trials import trial_of_rows

from engine.exposure import Figures, Tally, all_worst, remedies
from engine.exposure.remedies import Remedies
from engine.relations import NO_RELATIONS, Relation, Relations

TABLES = [("bit", f"c{i}", "flag") for i in range(6)]


def tally_of(tables, rows=3_000) -> Tally:
    rng = np.random.default_rng(8)
    codes = {f"c{i}": rng.integers(0, 8, rows) for i in range(6)}
    codes |= {"flag": (np.arange(rows) < 150).astype(np.int64), "bit": rng.integers(0, 2, rows)}
    tally = Tally(5)
    for measurement in trial_of_rows(codes, tables, 4).measurements.values():
        tally.add(measurement)
    return tally


def most(tally: Tally) -> float:
    return max(one.exposure for one in all_worst(Figures(tally)))


def test_without_the_tables_named_the_bound_holds():
    tally = tally_of(TABLES)
    assert most(tally) > 0.4
    ways = remedies(tally, 0.4, {}, TABLES, NO_RELATIONS)
    assert ways.drop
    assert len(ways.drop) <= 4
    kept = [table for table in TABLES if table not in ways.drop]
    assert most(tally_of(kept)) <= 0.4
    assert ways.columns


def test_with_the_threshold_named_the_bound_holds():
    tally = tally_of(TABLES)
    ways = remedies(tally, 0.4, {}, TABLES, NO_RELATIONS)
    assert ways.threshold is not None
    assert most(tally.raised(ways.threshold)) <= 0.4


def test_what_was_told_before_counts():
    tally = tally_of(TABLES)
    before = {(("flag",), "bit"): 0.3}
    ways = remedies(tally, 0.4, before, TABLES, NO_RELATIONS)
    alone = remedies(tally, 0.4, {}, TABLES, NO_RELATIONS)
    assert len(ways.drop) > len(alone.drop)


@pytest.mark.ci
def test_tables_of_a_coarser_column_go_with_those_that_need_them():
    """Of coarser values tables are measured that nobody listed: what is left out is the listed one locked to them."""
    rng = np.random.default_rng(8)
    codes = {name: rng.integers(0, 30, 3_000) ** 2 // 30 for name in ("edu", "income")}
    codes |= {"age": rng.integers(0, 600, 3_000), "sex": rng.integers(0, 2, 3_000)}
    codes["agegr"] = codes["age"] // 100
    of = np.arange(600, dtype=np.int64)
    relations = Relations(relations=(Relation(finer="age", coarser="agegr", of=of, to=of // 100),))
    published = [("age", "sex"), ("age", "edu", "income", "sex")]
    tally = Tally(5)
    for measurement in trial_of_rows(
        codes, list(relations.needed(published)), 4
    ).measurements.values():
        tally.add(measurement)
    bound = 0.98 * most(tally)
    ways = remedies(tally, bound, {}, published, relations)
    assert ways.drop == (published[1],)
    assert most_of(tally, relations.needed(published[:1])) <= bound


def most_of(tally: Tally, kept) -> float:
    """Most figures a person, of some tables of a tally."""
    others = {table.columns for table in tally.tables} - {*kept}
    return max(one.exposure for one in all_worst(Figures(tally).without(others)))


def test_where_nothing_helps_it_says_so():
    ways = remedies(tally_of(TABLES[:1]), 0.4, {(("flag",), "bit"): 9.0}, TABLES, NO_RELATIONS)
    assert ways.threshold is None
    assert Remedies(drop=None, threshold=None, columns=()).sentences() == []


def test_few_and_many_tables_are_named():
    many = Remedies(drop=tuple((f"c{i}", "x") for i in range(7)), threshold=12, columns=("a", "b"))
    assert many.sentences() == [
        "leave out 7 tables: c0, x; c1, x; c2, x; c3, x; c4, x; and 2 more",
        "cap small cells: threshold_mean = 12 in [privacy] (fewer small groups are shown)",
        "give coarser values, or fewer tables, of a, b",
    ]
