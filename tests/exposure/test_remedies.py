"""The ways out keep what they say: without the tables named, or with the threshold named, the bound holds."""

from __future__ import annotations

import numpy as np
from attacks.trials import trial_of_rows

from engine.exposure import Figures, Tally, all_worst, remedies
from engine.exposure.remedies import Remedies

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
    ways = remedies(tally, 0.4, {}, TABLES)
    assert ways.drop
    assert len(ways.drop) <= 4
    kept = [table for table in TABLES if table not in ways.drop]
    assert most(tally_of(kept)) <= 0.4
    assert ways.columns


def test_with_the_threshold_named_the_bound_holds():
    tally = tally_of(TABLES)
    ways = remedies(tally, 0.4, {}, TABLES)
    assert ways.threshold is not None
    assert most(tally.raised(ways.threshold)) <= 0.4


def test_what_was_told_before_counts():
    tally = tally_of(TABLES)
    before = {(("flag",), "bit"): 0.3}
    ways = remedies(tally, 0.4, before, TABLES)
    alone = remedies(tally, 0.4, {}, TABLES)
    assert len(ways.drop) > len(alone.drop)


def test_where_nothing_helps_it_says_so():
    ways = remedies(tally_of(TABLES[:1]), 0.4, {(("flag",), "bit"): 9.0}, TABLES)
    assert ways.threshold is None
    assert Remedies(drop=None, threshold=None, columns=()).sentences() == []


def test_few_and_many_tables_are_named():
    many = Remedies(drop=tuple((f"c{i}", "x") for i in range(7)), threshold=12, columns=("a", "b"))
    assert many.sentences() == [
        "leave out 7 tables: c0, x; c1, x; c2, x; c3, x; c4, x; and 2 more",
        "cap small cells: threshold_mean = 12 in [privacy] (fewer small groups are shown)",
        "give coarser values, or fewer tables, of a, b",
    ]
