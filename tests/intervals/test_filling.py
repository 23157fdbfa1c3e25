"""What is not released: one bound for all of a table, that holds for 95 of 100 cells; how far filled ranges lean."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from fixtures.intervals import plain_rows, small_release

import engine
from engine.schema import column_set
from engine.source import begin_charges
from queries.intervals import noise_model, tabulate
from queries.intervals.estimates import Part, counts
from queries.intervals.extrapolation import lower_higher
from queries.intervals.filling import (
    AS_GOOD,
    LEANS,
    _at_most,
    bound_with_rows,
    may_lean,
    suppression_bound,
    untold_spread,
)
from queries.intervals.model import Groups
from queries.intervals.regions import region_of
from queries.intervals.sums import Z
from queries.intervals.tabulation import annotated

HEAPED = ("income",), ("region",), ("income", "region")


@pytest.fixture(scope="module")
def release(census, tmp_path_factory):
    with small_release(tmp_path_factory.mktemp("hidden"), census) as made:
        yield made


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


def test_cells_with_rows_are_expected_to_hold_as_many_as_their_values_have_in_the_box(release):
    """The mixture row by row, without rounding: of each value its share of filled rows in the range of the box."""
    model = noise_model(release, ("age", "region"))
    table, box_of = model.table, model.tree.row_bucket
    filled = [
        i
        for i in range(len(table.n))
        if not table.row_measured[i] and not table.measured[box_of[i]]
    ]
    assert filled
    expected = []
    for i in filled:
        box, of_it = box_of[i], table.size[box_of[i]] / model.tree.is_open[box_of[i]]
        for j in range(2):
            inside = [
                k for k in filled if table.first[box, j] <= table.rows[k, j] <= table.last[box, j]
            ]
            alike = [k for k in inside if table.rows[k, j] == table.rows[i, j]]
            of_it *= table.n[alike].sum() / table.n[inside].sum()
        expected.append(min(of_it, model.suppressed))
    share = _at_most(np.array(expected), model.suppressed).mean(axis=0)
    told = bound_with_rows(table, model.tree, model.suppressed)
    assert told == next(n for n, part in enumerate(share) if part >= 0.95 * share[-1])
    assert bound_with_rows(table, model.tree, 2) <= 2


def test_where_values_are_heaped_cells_with_rows_hold_more(census, people, tmp_path):
    """Two incomes of three in steps of 2,500: nearly all cells are empty, and those that rows are put into are not."""
    heaped = people.assign(
        income=np.where(people.index % 3 > 0, people.income // 2_500 * 2_500, people.income)
    )
    heaped.to_parquet(tmp_path / "people.parquet")
    with small_release(tmp_path, tmp_path, tables=HEAPED) as made:
        high, filled, true = hidden_cells(made, heaped, ["income", "region"])
        model = noise_model(made, ("income", "region"))
        assert model.suppression_bound < model.bound_with_rows
        some = filled > 0
        assert (true <= np.maximum(model.suppression_bound, filled))[some].mean() < 0.94
        assert (true <= high)[some].mean() >= 0.94
        said = f"at most {model.suppression_bound} people, of those with synthetic rows {model.bound_with_rows})"
        assert said in model.words


def test_tables_of_one_column_and_such_without_filled_rows_have_one_bound(release):
    for columns in (("income",), ("sex",)):
        model = noise_model(release, columns)
        assert bound_with_rows(model.table, model.tree, model.suppressed) == 0
        assert model.bound_with_rows == model.suppression_bound
        assert "synthetic rows" not in model.words


def test_values_in_single_units_hide_fewer_people_than_suppression_may(release):
    incomes = noise_model(release, ("income",))
    assert 1 <= incomes.suppression_bound < incomes.suppressed == 6
    assert f"95 of 100 such cells hold at most {incomes.suppression_bound} people" in incomes.words
    assert suppression_bound(incomes.table, incomes.tree, 1, 0) == 1


def test_combinations_in_no_box_are_as_many_as_there_are_and_count_as_empty(release):
    """With them all of twenty times as many cells are empty: 95 of 100 hold nothing, and the bound is the least one."""
    model = noise_model(release, ("age", "region", "sex"))
    n_all = np.prod([len(column.values) for column in model.table.released])
    told = suppression_bound(model.table, model.tree, model.suppressed, int(n_all))
    assert told == model.suppression_bound
    assert suppression_bound(model.table, model.tree, model.suppressed, int(20 * n_all)) == 1


def test_a_table_without_filled_rows_has_the_bound_of_suppression(release):
    sex = noise_model(release, ("sex",))
    assert sex.table.row_measured.all()
    assert sex.suppression_bound == sex.suppressed


@pytest.mark.parametrize("density", [0.2, 0.8, 3.0])
def test_what_a_cell_hides_follows_from_its_box_and_the_threshold(density):
    rng = np.random.default_rng(7)
    rows = rng.negative_binomial(density / 0.5, 1 / 1.5, 200_000)
    hidden = rows[rows < rng.normal(5, 1, len(rows))]
    told = _at_most(np.array([hidden.mean()]), 6)[0]
    assert told == pytest.approx([(hidden <= n).mean() for n in range(9)], abs=0.01)


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


def most_leaning(model) -> int:
    """Number of incomes, from the lowest, whose rows of the first sex lean the most."""
    income, sex = model.table.rows.T
    return int(np.argmax(np.abs(np.cumsum(np.bincount(income, model.lean * (sex == 0)))))) + 1


def test_ranges_of_a_much_filled_table_are_less_sure_by_what_their_rows_lean(release):
    model = noise_model(release, ("income", "sex"))
    income, sex = model.table.rows.T
    row = np.flatnonzero((income < most_leaning(model)) & (sex == 0))
    given = 1, np.zeros(len(row), dtype=np.int64), row, np.ones(len(row))
    upright = replace(model, lean=np.zeros(len(model.lean)))
    leans = model.lean[row].sum()
    assert abs(leans) > 1
    added = model.sd(*given) ** 2 - upright.sd(*given) ** 2
    assert added == pytest.approx([LEANS * leans**2])


def test_what_rows_lean_by_is_added_on_the_side_that_it_points_to(release):
    model = noise_model(release, ("income", "sex"))
    limits = {"income": list(model.table.released[0].values[: most_leaning(model)])}
    region = region_of(model.table, ["sex"], limits)
    own, upright = (
        counts(Groups(release=release, model=of, region=region))
        for of in (model, replace(model, lean=np.zeros(len(model.lean))))
    )
    row = np.flatnonzero(region.group >= 0)
    leans = np.bincount(region.group[row], model.lean[row])
    assert (np.abs(leans) > 1).any()
    lower, higher = upright.low - own.low, own.high - upright.high
    known, other = np.where(leans > 0, [lower, higher], [higher, lower])
    assert (known >= np.floor(np.abs(leans))).all()
    assert (other >= 0).all()  # how far the guess is off is noise of either side
    assert (other <= np.ceil(Z * LEANS**0.5 * np.abs(leans))).all()


def test_what_leans_leaves_the_other_side_as_it_is():
    shift = np.array([[0.0, 1.0, 0.0], [10.0, -10.0, 0.0], [-2.0, 3.0, 4.0]])
    less, more = lower_higher(shift)
    assert less.tolist() == [10.0, 4.0, 4.0]
    assert more.tolist() == [2.0, 10.0, 0.0]
    groups = SimpleNamespace(sd=lambda _row, _weight: np.ones(3))
    part = Part(value=np.full(3, 50.0), own=np.zeros(2), shift=shift)
    groups.region = groups.row = np.arange(2)
    groups.model = SimpleNamespace(sd=None)
    found = part.estimates(groups, np.ones(3, dtype=bool))
    assert found.low == pytest.approx([50 - Z - 10, 50 - Z - 4, 50 - Z - 4])
    assert found.high == pytest.approx([50 + Z + 2, 50 + Z + 10, 50 + Z])


def test_all_rows_of_a_value_of_the_short_column_do_not_lean(release):
    """Their number is the value's own."""
    model = noise_model(release, ("income", "sex"))
    of_sex = np.bincount(model.table.rows[:, 1], weights=model.lean)
    assert of_sex == pytest.approx(np.zeros(len(of_sex)), abs=1e-9)


def test_tables_of_one_or_three_columns_and_those_hardly_filled_do_not_lean(release):
    for columns in (("income",), ("age", "region", "sex")):
        assert not noise_model(release, columns).lean.any()
    table = noise_model(release, ("age", "sex")).table
    assert may_lean(table)
    assert not may_lean(replace(table, card=table.card | {"suppressed_share": 0.01}))


def slow_untold(table, tree, numbers, rows) -> float:
    """Of one group, box by box."""
    boxes: dict[int, list[int]] = {}
    for row in rows:
        boxes.setdefault(int(tree.row_bucket[row]), []).append(row)
    missing = filled = 0.0
    for box, inside in boxes.items():
        if box < 0 or table.measured[box]:
            continue
        n, x = table.n[inside], numbers[inside]
        filled += n.sum()
        spreads = []
        for j in range(len(table.columns)):
            low, high = table.first[box, j], table.last[box, j]
            if low < high:
                like = (table.rows[:, j] >= low) & (table.rows[:, j] <= high) & np.isfinite(numbers)
                mean = np.average(numbers[like], weights=table.n[like])
                spreads.append(np.average((numbers[like] - mean) ** 2, weights=table.n[like]))
        own = (n * (x - np.average(x, weights=n)) ** 2).sum()
        missing += n.sum() * min(spreads, default=0.0) - own
    blind = 1.0 if len(table.columns) < 3 else 1.5
    return blind * max(missing, 0.0) * AS_GOOD / (filled + AS_GOOD)


@pytest.mark.parametrize("columns", [("income", "sex"), ("age", "region", "sex")])
def test_few_filled_rows_are_as_spread_as_all_values_of_their_range(release, columns):
    model = noise_model(release, columns)
    table, bucket = model.table, model.tree.row_bucket
    numbers = table.released[0].numbers()[table.rows[:, 0]]
    filled = np.flatnonzero((bucket >= 0) & ~table.measured[bucket] & np.isfinite(numbers))
    rng = np.random.default_rng(2)
    groups = [np.sort(rng.choice(filled, size, replace=False)) for size in (1, 4, 40)]
    known = np.flatnonzero(table.row_measured & np.isfinite(numbers))
    groups.append(known[:50])  # what was measured needs no guess
    group = np.repeat(np.arange(4), [len(rows) for rows in groups])
    told = untold_spread(table, model.tree, 4, group, np.concatenate(groups), numbers)
    assert told == pytest.approx([slow_untold(table, model.tree, numbers, rows) for rows in groups])
    assert told[0] > 0
    assert told[3] == 0
    far = untold_spread(table, model.tree, 4, group, np.concatenate(groups), numbers + 2.0**50)
    assert far == pytest.approx(told, rel=1e-6)


def test_groups_that_were_hardly_filled_need_no_guess(release):
    model = noise_model(release, ("income", "sex"))
    table, bucket = model.table, model.tree.row_bucket
    numbers = table.released[0].numbers()[table.rows[:, 0]]
    is_known = table.row_measured & np.isfinite(numbers)
    few = np.flatnonzero((bucket >= 0) & ~table.measured[bucket] & np.isfinite(numbers))[:3]
    row = np.concatenate([np.flatnonzero(is_known)[:60], few])
    told = untold_spread(table, model.tree, 1, np.zeros(len(row), dtype=int), row, numbers)
    assert told.tolist() == [0.0]


@pytest.mark.parametrize("figure", ["sum", "avg"])
def test_sums_and_means_are_less_sure_by_it_within_their_limits(release, monkeypatch, figure):
    seen = []

    def untold(table, _tree, n_groups, _group, _row, numbers):
        income = table.released[0].numbers()[table.rows[:, 0]]
        with np.errstate(invalid="ignore"):
            inside = (income >= 20_000) & (income <= 60_000)
        assert (np.isfinite(numbers) == inside).all()
        seen.append(n_groups)
        return np.full(n_groups, 1e14)

    limits = "income BETWEEN 20000 AND 60000"
    text = f"SELECT sex, {figure}(income) AS f, count(*) AS n FROM data WHERE {limits} GROUP BY sex"
    before = annotated(release, text)
    monkeypatch.setattr("queries.intervals.estimates.untold_spread", untold)
    release.models.clear()
    after = annotated(release, text)
    for rows in zip(before.rows, after.rows, strict=True):
        old, new = (dict(zip(after.columns, row, strict=True)) for row in rows)
        of, both = 1, 0.0
        if figure == "avg":  # a quotient has what both its errors make together on top
            of = new["n"]
            both = max(new["n_high"] - of, of - new["n_low"]) / of
        # What rows lean by makes one side longer by as much before and after: the other one tells.
        ends = [min(one["f_high"] - one["f"], one["f"] - one["f_low"]) for one in (new, old)]
        more = ends[0] ** 2 - ends[1] ** 2
        assert more == pytest.approx((1.96e7 / of) ** 2 * (1 + both**2), rel=0.05)
    assert seen


@pytest.mark.parametrize(("measured", "is_told"), [(1, True), (3, False)])
def test_groups_of_which_half_was_filled_are_told_on_either_side_of_it(release, measured, is_told):
    """Two filled rows next to fewer and to more measured ones."""
    model = noise_model(release, ("income", "sex"))
    numbers = model.table.released[0].numbers()[model.table.rows[:, 0]]
    bucket = model.tree.row_bucket
    known = np.isfinite(numbers)
    filled = np.flatnonzero((bucket >= 0) & ~model.table.measured[bucket] & known)
    sure = np.flatnonzero((bucket >= 0) & model.table.measured[bucket] & known)
    row = np.concatenate([filled[[0, -1]], sure[:measured]])
    assert len(row) == 2 + measured
    table = replace(model.table, n=np.ones_like(model.table.n))
    told = untold_spread(table, model.tree, 1, np.zeros(len(row), dtype=int), row, numbers)
    assert (told[0] > 0) == is_told
    # Rows that lie in no bucket were left over: nothing is known of where they could be.
    nowhere = SimpleNamespace(row_bucket=np.full(len(bucket), -1))
    assert untold_spread(table, nowhere, 1, np.zeros(len(row), dtype=int), row, numbers) == [0.0]


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
    for number in range(1, 7):
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
