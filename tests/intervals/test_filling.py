"""What is not released: one bound for all of a table, that holds for 95 of 100 cells; how far filled ranges lean."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fixtures.intervals import plain_rows

import engine
from engine.schema import column_set
from engine.source import begin_charges
from queries.intervals import noise_model, tabulate
from queries.intervals.tabulation import annotated


@pytest.fixture(scope="module")
def release(small):
    return small


@pytest.fixture(scope="module")
def people(census):
    return pd.read_parquet(census / "people.parquet")


def hidden_cells(release, people, columns):
    """Upper ends of a table's hidden cells, the rows that the fill put there, and those that they hold in truth."""
    got = tabulate(release, columns)
    keys = [key if len(columns) > 1 else key[0] for key in got.keys]
    hidden = np.array([s == "not released" for s in got.status])
    filled, true = (
        frame.groupby(columns, dropna=False).size().to_dict()
        for frame in (plain_rows(release, *columns), people)
    )
    return got.high[hidden], *(
        np.array([counts.get(key, 0) for key in keys])[hidden] for counts in (filled, true)
    )


@pytest.mark.parametrize("columns", [["age", "sex"], ["age", "region"], ["age", "region", "sex"]])
def test_the_bounds_of_a_table_hold_for_its_hidden_cells(release, people, columns):
    """One for all without rows, one for all with some; the fill itself may show more there."""
    high, filled, true = hidden_cells(release, people, columns)
    model = noise_model(release, column_set(columns))
    bound = np.where(filled > 0, model.bound_with_rows, model.suppression_bound)
    assert (high == np.maximum(bound, filled)).all()
    assert (true <= high).mean() >= 0.94
    assert (true <= high)[filled > 0].mean() >= 0.94


def test_empty_cells_are_told_from_small_ones_by_no_end(release, people):
    """Ends reckoned cell by cell would hand out the guess which cells are empty. That the fill has rows all can see."""
    high, filled, true = hidden_cells(release, people, ["age", "region", "sex"])
    for some in (filled == 0, filled > 0):
        plain = high == high[some].min()
        assert plain[some & (true == 0)].mean() > 0.9
        assert plain[some & (true > 0)].mean() > 0.9


def test_tables_that_are_much_filled_say_so(release):
    assert "of the people were filled in" in tabulate(release, ["income", "sex"]).words
    assert "filled in" not in tabulate(release, ["income"]).words
    assert "filled in" not in tabulate(release, ["sex"]).words


def test_a_part_of_arithmetic_that_is_hidden_is_anywhere_in_its_interval(release):
    """A count of nobody shown is not nobody for sure, whatever is added to it or divided by."""
    got = annotated(
        release,
        "SELECT count(*) FILTER (WHERE age > 200) AS a, count(*) FILTER (WHERE age > 200) / count(*) AS b, "
        "count(*) AS n, count(*) - count(*) FILTER (WHERE age > 200) AS c FROM data",
    )
    row = dict(zip(got.columns, got.rows[0], strict=True))
    assert (row["a"], row["a_low"], row["a_high"]) == (0, 0, 6)
    assert row["b_high"] == pytest.approx(6 / row["n"])
    assert row["c_low"] <= row["n"] - 6


@pytest.mark.ci
def test_what_the_fill_alone_tells_begins_at_nothing_and_has_no_mean(tmp_path):
    """Two of 2,000 who do not smoke say how much: too few, and the fill takes both columns for independent."""
    smoke = np.repeat(["no", "yes"], [2000, 1200])
    much = np.where(smoke == "yes", np.arange(3200) % 40 + 1, -1)
    much[:2] = 21
    frame = pd.DataFrame({"id": np.arange(3200), "smoke": smoke, "much": much})
    frame["much"] = frame["much"].astype("Int64").mask(frame["much"] < 0)
    frame.to_parquet(tmp_path / "d.parquet")
    (tmp_path / "s.toml").write_text(SMOKERS)
    text = "SELECT smoke, count(much) AS n, avg(much) AS m, median(much) AS k, sum(much) AS s FROM data GROUP BY smoke"
    for number in (1, 4):
        for old in tmp_path.glob("k.key*"):
            old.unlink()
        (tmp_path / "k.key").touch(mode=0o600)
        (tmp_path / "k.key").write_bytes(number.to_bytes(32, "little"))
        begin_charges(tmp_path / "k.key")
        with engine.build(
            tmp_path / "s.toml", out=tmp_path / f"{number}.duckdb", jobs=1
        ) as release:
            no, yes = sorted(release.sql(text, intervals=True).rows, key=lambda row: row[0])[-2:]
            other = sorted(release.sql(IN_OTHER_WORDS, intervals=True).rows)[-2:]
            totals = sorted(release.sql(TOTALS, intervals=True).rows)[-2:]
        assert (no[0], no[2]) == ("no", 0)
        assert no[3] >= 2
        assert {no[at] for at in (8, 12, 16)} == {"not released"}
        assert {yes[at] for at in (4, 8, 12, 16)} == {"reliable"}
        for group, status in zip(other, ("not released", "reliable"), strict=True):
            assert {group[at] for at in (4, 8, 12, 16)} == {status}
            assert (group[2] is None) == (status == "not released")
        for group, status in zip(totals, ("not released", "reliable"), strict=True):
            assert [group[at] for at in (4, 8, 12, 16)] == ["reliable", "reliable", status, status]
            assert 0 <= group[18] <= group[17] <= group[19] <= 100


IN_OTHER_WORDS = """
SELECT smoke, sum(coalesce(much, 0)) AS a, sum(CASE WHEN much > 0 THEN much ELSE 0 END) AS b,
    avg(coalesce(much, 0)) AS c, sum(greatest(much, 0)) / count(*) AS d
FROM data GROUP BY smoke
"""
"""A sum, and a mean over all, in which rows without a number count as 0."""
TOTALS = """
SELECT smoke, sum(count(much)) OVER () AS a, sum(sum(much)) OVER () AS b,
    sum(count(much)) OVER (PARTITION BY smoke) AS c, sum(sum(much)) OVER (PARTITION BY smoke) AS d,
    100.0 * count(much) / sum(count(much)) OVER () AS e
FROM data GROUP BY smoke
"""
SMOKERS = """
[release]
title = "t"
vintage = "1"
key = "k.key"
[source]
path = "d.parquet"
entities = ["id"]
[columns.id]
kind = "integer"
[columns.smoke]
kind = "category"
[columns.much]
kind = "integer"
[[tables]]
columns = ["smoke", "much"]
[[tables]]
columns = ["much"]
[[tables]]
columns = ["smoke"]
"""
