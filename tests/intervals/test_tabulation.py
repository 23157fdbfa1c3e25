"""Tabulations: the right figures, intervals and statuses; refusals; what is locked is counted once."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from fixtures.intervals import plain_rows, small_release, twin_variance
from fixtures.release_dp import spec_in

from engine.errors import NotAnswerable, QueryRefused
from engine.release import build
from queries.intervals import noise_model, regions, tabulate
from queries.intervals.buckets import read_buckets
from queries.intervals.estimates import _end
from queries.intervals.sums import covered_variance, sums_of
from queries.intervals.tree import are_single, noise_tree, variance_of_sums
from queries.release import open_release


@pytest.fixture(scope="module")
def release(census, tmp_path_factory):
    with small_release(tmp_path_factory.mktemp("uncertainty"), census) as made:
        yield made


def test_counts_are_those_of_the_table_and_unreleased_cells_say_nothing(release):
    got = tabulate(release, ["age", "sex"])
    counted = plain_rows(release, "age", "sex").value_counts().to_dict()
    shown = ~np.isnan(got.value)
    assert 0 < shown.sum() < len(got)
    assert all(counted[k] == v for k, v in zip(got.keys, got.value, strict=True) if v == v)
    hidden = [s == "not released" for s in got.status]
    assert hidden == (~shown).tolist()
    assert (got.low[hidden] == 0).all()
    # One bound for all without rows, one for all with some, unless the rows that SQL shows there are more.
    high = got.high[hidden]
    counted_there = np.array(
        [counted.get(k, 0) for k, h in zip(got.keys, hidden, strict=True) if h]
    )
    has_rows = counted_there > 0
    bound, with_rows = high[~has_rows].min(), high[has_rows].min()
    assert bound <= with_rows <= 6
    assert (
        f"hold at most {bound:.0f} people, of those with synthetic rows {with_rows:.0f})"
        in got.words
    )
    assert (high == np.where(has_rows, np.maximum(with_rows, counted_there), bound)).all()
    assert set(got.keys) == {(a, s) for a, *_ in release.values("age") for s in ("Female", "Male")}
    assert got.table == ("age", "sex")
    assert "confidence" not in got.words


def test_groups_stand_in_the_order_asked_for(release):
    got = tabulate(release, ["sex", "age"], where={"age": (30, 31)})
    assert got.keys == (("Female", 30), ("Female", 31), ("Male", 30), ("Male", 31))
    back = tabulate(release, ["age", "sex"], where={"age": [30, 31]})
    assert dict(zip(back.keys, back.value, strict=True)) == {
        (a, s): v for (s, a), v in zip(got.keys, got.value, strict=True)
    }


@pytest.mark.parametrize("measure", ["sum", "mean", "median", "quantile"])
def test_measures_of_a_column_are_those_of_its_rows(release, measure):
    rows = plain_rows(release, "income", "sex").groupby("sex")["income"]
    right = {"sum": rows.sum(), "mean": rows.mean(), "median": rows.median()}
    right["quantile"] = rows.quantile(0.9)
    got = tabulate(release, ["sex"], measure=measure, of="income", quantile=0.9)
    assert [k for (k,) in got.keys] == right[measure].index.tolist()
    assert got.value == pytest.approx(right[measure].to_numpy(dtype=float))
    assert (got.low < got.value).all()
    assert (got.value < got.high).all()


def test_shares_and_ratios_are_those_of_the_counts(release):
    n = tabulate(release, ["region", "sex"], where={"age": (20, 70)})
    share = tabulate(
        release, ["region", "sex"], where={"age": (20, 70)}, measure="share", over=["region"]
    )
    ratio = tabulate(
        release, ["region", "sex"], where={"age": (20, 70)}, measure="ratio", over=["region"]
    )
    pairs = n.value.reshape(-1, 2)
    right = (pairs / pairs.sum(axis=1, keepdims=True)).ravel()
    assert share.value == pytest.approx(right)
    assert ratio.value == pytest.approx(right / (1 - right))
    assert ratio.low == pytest.approx(share.low / (1 - share.low))
    # Both shares of a region are off by the same amount.
    half = ((share.high - share.low) / 2).reshape(-1, 2)
    assert half[:, 0] == pytest.approx(half[:, 1])


def test_a_margin_has_the_noise_of_the_narrow_table_however_wide_the_one_that_answers(release):
    whole = (0, 1000)
    narrow = tabulate(release, ["sex"])
    wide = tabulate(release, ["sex"], where={"age": whole})
    assert wide.table == ("age", "sex")
    assert wide.value.tolist() == narrow.value.tolist()
    assert wide.low.tolist() == narrow.low.tolist()
    assert wide.high.tolist() == narrow.high.tolist()
    most = tabulate(release, ["sex"], where={"age": (1, 1000)})
    assert ((most.high - most.low) <= (wide.high - wide.low) + 4).all()


def test_the_noise_of_a_range_does_not_grow_with_its_width(release):
    # Independent cells: 2 * 1.4 * sqrt(width), up to 26. (1, 90) cuts three filled boxes, at whose limits people may
    # be heaped: without room for that (EDGE) it were 6, and ranges over filled boxes would hold too seldom.
    for low, high, most in ((3, 66, 6), (10, 80, 6), (1, 90, 8), (20, 41, 5)):
        got = tabulate(release, [], where={"age": (low, high)})
        assert 2 <= (got.high[0] - got.low[0]) / 2 <= most
        assert got.status == ("reliable",)


def test_the_file_says_how_deep_each_bucket_lies_and_what_was_measured(release):
    """Depth, levels and scale are stored facts; a row was measured where its bucket was, and nowhere else."""
    cells = (
        "SELECT c.depth, c.scale, c.measured, c.n, t.tops, len(t.scale) AS depths, c.kind, c.low, c.high "
        "FROM catalog.cells AS c JOIN catalog.tables AS t USING (table_id)"
    )
    with release.cursor() as con:
        buckets = con.execute(f"{cells} WHERE c.depth IS NOT NULL").fetchall()
        rows = {
            table: con.execute(
                f"SELECT sum(n) FILTER (measured), sum(n) FROM tables.{physical}"
            ).fetchall()[0]
            for table, physical in con.execute(
                "SELECT name, physical FROM catalog.tables"
            ).fetchall()
        }
        sums = con.execute(
            "SELECT name, sum(n) FILTER (measured), sum(n) FROM catalog.cells GROUP BY name"
        )
        assert {name: tuple(of) for name, *of in sums.fetchall()} == rows
    for depth, scale, measured, _, tops, depths, kinds, lows, highs in buckets:
        assert scale == 1
        assert measured == (depth == depths - 1)
        for top, kind, low, high in zip(tops, kinds, lows, highs, strict=True):
            if kind == 2:  # 0 and above: aligned to its size, which the depth gives
                size = 2 ** max(top - depth, 0)
                assert (high - low + 1, low % size) == (size, 0)
    for columns in release.tables:
        model = noise_model(release, columns)
        held = model.tree.row_bucket >= 0
        of_bucket = model.table.measured[model.tree.row_bucket[held]]
        assert (of_bucket == model.table.row_measured[held]).all()
        assert not model.table.row_measured[~held].any()


def test_noise_reaches_sums_as_node_by_node(release):
    rng = np.random.default_rng(3)
    for columns in (("age",), ("income",), ("age", "region"), ("age", "region", "sex")):
        table = read_buckets(release, columns)
        tree = noise_tree(table)
        held = np.bincount(tree.row_bucket, weights=table.n, minlength=len(table.size))
        assert held.tolist() == table.size.tolist()  # every row in its own bucket
        for _ in range(3):
            chosen = np.flatnonzero(rng.random(len(table.size)) < 0.3)
            weight = rng.uniform(-1, 2, len(chosen))
            fast = variance_of_sums(tree, 1, np.zeros(len(chosen), dtype=np.int64), chosen, weight)
            slow = twin_variance(tree, dict(zip(chosen.tolist(), weight.tolist(), strict=True)))
            assert fast[0] == pytest.approx(slow)


def with_single_level(tree, at, rng):
    """The same tree with a level put in before one, of whose nodes each has one child, in another order."""
    after = tree.levels[at]
    child_parent, own = rng.permutation(after.n_nodes), rng.random(after.n_nodes)
    none, nobody = np.zeros(0), np.zeros(0, dtype=np.int64)
    order = np.argsort(child_parent)  # the child of each new node
    single = replace(
        after,
        child_parent=child_parent,
        rest_node=nobody,
        rest_bucket=nobody,
        part_child=np.ones(after.n_nodes),
        part_rest=none,
        own_child=own,
        own_rest=none,
        own_sum=own[order],
        unreleased=np.ones(after.n_nodes),
        is_single=True,
    )
    above = tree.levels[at - 1]
    moved = {
        name: getattr(above, name)[order] for name in ("child_parent", "part_child", "own_child")
    }
    levels = (*tree.levels[: at - 1], replace(above, **moved), single, *tree.levels[at:])
    level_of = tree.level_of + (tree.level_of >= at)
    return replace(tree, levels=levels, level_of=level_of)


@pytest.mark.parametrize("share", [0.02, 0.9])
def test_noise_of_several_sums_is_that_of_each_and_single_levels_add_nothing(release, share):
    """Few buckets of each, or most, by which sums are held otherwise."""
    rng = np.random.default_rng(4)
    for columns in (("income",), ("age", "region")):
        tree = noise_tree(read_buckets(release, columns))
        longer = with_single_level(tree, len(tree.levels) // 2, rng)
        assert len(longer.levels) == len(tree.levels) + 1
        chosen = rng.random((5, len(tree.level_of))) < share
        of_sum, bucket = np.nonzero(chosen)
        weight = rng.uniform(-1, 2, len(bucket))
        slow = [
            twin_variance(tree, dict(zip(bucket[of_sum == i], weight[of_sum == i], strict=True)))
            for i in range(5)
        ]
        for one in (tree, longer):
            fast = variance_of_sums(one, 5, of_sum, bucket, weight)
            np.testing.assert_allclose(fast, slow, rtol=1e-9)


def test_a_level_is_single_where_each_node_has_one_child_and_no_remainder():
    some, none = np.array([1]), np.zeros(0, dtype=np.int64)
    assert are_single(3, np.array([2, 0, 1]), none)
    assert not are_single(3, np.array([2, 0, 1]), some)
    assert not are_single(3, np.array([2, 0, 0]), none)
    assert not are_single(3, np.array([2, 0]), none)
    assert not are_single(3, np.array([2, 0, 1, 1]), none)


def test_a_row_in_no_bucket_is_blind_by_itself(release):
    """What rounding left over may lie where no box is: it must neither crash nor count as known."""
    model = noise_model(release, ("age", "sex"))
    row = np.arange(len(model.table.n))
    of_sum, weight = np.zeros(len(row), dtype=np.int64), np.full(len(row), 2.0)
    lost = model.tree.row_bucket.copy()
    lost[:2] = -1
    counted = []
    for tree in (model.tree, replace(model.tree, row_bucket=lost)):
        _, bucket, mean, blind = sums_of(model.table, tree, 1, of_sum, row, weight)
        counted.append((mean * model.table.size[bucket]).sum() / 2.0)
    assert blind[0] >= 4.0 * model.table.n[:2].sum()
    assert counted[1] == pytest.approx(counted[0] - model.table.n[:2].sum())


def test_everything_together_has_the_noise_of_the_total(release):
    table = read_buckets(release, ("age", "region"))
    tree, n = noise_tree(table), len(table.size)
    all_of_it = variance_of_sums(tree, 1, np.zeros(n, dtype=np.int64), np.arange(n), np.ones(n))
    assert all_of_it[0] == pytest.approx(tree.total_variance)


def test_statuses_follow_the_thresholds(release):
    for asked in ({"columns": ["age", "sex"]}, {"columns": ["income"]}, {"columns": ["region"]}):
        got = tabulate(release, **asked)
        for i, status in enumerate(got.status):
            half = (got.high[i] - got.low[i]) / 2
            if status == "reliable":
                assert half <= got.value[i] / 3
            if status == "unreliable":
                assert half > got.value[i] / 3
            if status == "low":
                assert got.value[i] <= 4
    assert set(tabulate(release, ["region"]).status) == {"reliable"}


def test_only_declared_universes_make_structural_zeros(census, tmp_path):
    declared = {"universe": {"column": "age", "min": 16, "complete": False}}
    tables = [("age",), ("income",), ("age", "income")]
    with small_release(tmp_path, census, tables=tables, income=declared) as made:
        got = tabulate(made, ["age", "income"], where={"age": [5, 40]})
        zero = {k for k, s in zip(got.keys, got.status, strict=True) if s == "structural zero"}
        assert zero == {k for k in got.keys if k[0] == 5 and k[1] is not None}
        assert (got.value[[k in zero for k in got.keys]] == 0).all()


def test_without_a_declaration_nothing_is_a_structural_zero(release):
    assert "structural zero" not in tabulate(release, ["age", "sex"]).status


@pytest.mark.parametrize(
    ("asked", "error", "said"),
    [
        ({"columns": ["agee"]}, NotAnswerable, "age"),
        ({"columns": ["sex"], "where": {"regoin": ["R1"]}}, NotAnswerable, "region"),
        ({"columns": ["income", "region"]}, NotAnswerable, "income, region"),
        ({"columns": ["sex", "sex"]}, QueryRefused, "twice"),
        ({"columns": ["sex"], "measure": "mode"}, QueryRefused, "allowed is count"),
        ({"columns": ["sex"], "measure": "mean"}, QueryRefused, "needs a column"),
        ({"columns": ["sex"], "of": "age"}, QueryRefused, "has no column"),
        (
            {"columns": ["sex"], "measure": "share", "over": ["age"]},
            QueryRefused,
            "columns to group by",
        ),
        (
            {"columns": ["sex"], "measure": "quantile", "of": "age", "quantile": 2},
            QueryRefused,
            "0 to 1",
        ),
        ({"columns": ["age"], "measure": "sum", "of": "sex"}, QueryRefused, "only numbers"),
        ({"columns": ["sex"], "where": {"age": (1, 2, 3)}}, QueryRefused, "(low, high)"),
        ({"columns": ["sex"], "where": {"age": ("a", "b")}}, QueryRefused, "cannot be compared"),
        ({"columns": ["sex"], "where": {"age": (10, 5)}}, QueryRefused, "10 is above 5"),
        ({"columns": ["sex"], "where": {"age": "16"}}, QueryRefused, "a list of values"),
        ({"columns": ["sex"], "where": {"age": 16}}, QueryRefused, "a list of values"),
        ({"columns": ["age"], "where": {"sex": ["female"]}}, QueryRefused, "near: Female"),
        ({"columns": ["sex"], "where": {"age": ["16"]}}, QueryRefused, "near: 16"),
        ({"columns": ["sex"], "where": {"age": [[16]]}}, QueryRefused, "not among its released"),
    ],
)
def test_a_question_without_an_answer_is_refused(release, asked, error, said):
    with pytest.raises(error) as refused:
        tabulate(release, **asked)
    assert said in str(refused.value)


def test_too_many_groups_are_refused(release, monkeypatch):
    monkeypatch.setattr(regions, "MOST_GROUPS", 10)
    with pytest.raises(QueryRefused, match="limit a column"):
        tabulate(release, ["age", "sex"])


def test_a_limit_that_nothing_meets_gives_no_group(release):
    assert len(tabulate(release, ["age"], where={"age": (200, 300)})) == 0
    nobody = tabulate(release, [], where={"age": (200, 300)})
    assert nobody.status == ("not released",)
    assert (nobody.low[0], nobody.high[0]) == (
        0,
        6,
    )  # what suppression hides, as nothing near tells more


def test_a_tabulation_is_a_frame_and_a_table_of_html(release):
    got = tabulate(release, ["age", "sex"])
    frame = got.df()
    assert frame.columns.tolist() == ["age", "sex", "value", "low", "high", "status"]
    assert list(zip(frame["age"], frame["sex"], strict=True)) == list(got.keys)
    assert frame["high"].tolist() == got.high.tolist()
    assert frame["value"].isna().tolist() == [s == "not released" for s in got.status]
    page = got._repr_html_()
    assert page.count("<tr>") == 21
    assert "more groups" in page
    assert "not told which" in page
    nothing = tabulate(release, ["age"], where={"age": (200, 300)})
    assert len(nothing.df()) == 0
    assert nothing.df().columns.tolist() == ["age", "value", "low", "high", "status"]
    assert tabulate(release, []).df()["value"].tolist() == tabulate(release, []).value.tolist()
    mean = tabulate(release, ["sex"], measure="mean", of="age")
    assert f"{mean.value[0]:,.6g}" in mean._repr_html_()


def test_mode_dp_has_intervals_only_where_a_margin_covers(tmp_path):
    spec = spec_in(tmp_path)
    build(spec, tmp_path / "dp.duckdb")
    with open_release(tmp_path / "dp.duckdb") as made:
        covered = [t for t in made.tables if made.card(*t).dp["covered"]]
        modelled = [t for t in made.tables if not made.card(*t).dp["covered"]]
        assert covered
        assert modelled
        for table in modelled:
            got = tabulate(made, list(table))
            assert set(got.status) <= {"unreliable", "structural zero"}
            assert "MODELLED" in got.words
        sure = tabulate(made, ["region"])
        assert np.isfinite(sure.low).all()
        assert set(sure.status) == {"reliable"}
        single = tabulate(made, ["age"])  # ages were counted in groups only
        assert np.isnan(single.low).any()


def test_in_mode_dp_a_row_that_is_most_of_a_value_has_the_error_of_the_value():
    """Four cells of noise variance 4, in values whose counts have variances of 9 and 16."""
    table = SimpleNamespace(
        columns=("a", "b"),
        card={"noise_sd": 2.0},
        n=np.array([90, 10, 50, 50]),
        rows=np.array([[0, 0], [0, 1], [1, 0], [1, 1]]),
    )
    of_margins = np.array([9.0, 16.0])
    # The first cell is 9/10 of its value of a: 4 (1/10)^2 + 4 (9/10)^2 + 9 (9/10)^2. The second: its own noise.
    # All of the first value of a: its count's own variance, which is more than that of two cells.
    got = covered_variance(
        table, of_margins, 3, np.array([0, 1, 2, 2]), np.array([0, 1, 0, 1]), np.ones(4)
    )
    assert got[0] == pytest.approx(10.57)
    assert got[1] == pytest.approx(4.0)
    of_b = [(90 / 140, 2), (10 / 60, 2)]
    by_b = sum(4 * (1 - 2 * part + cells * part**2) + 16 * part**2 for part, cells in of_b)
    assert got[2] == pytest.approx(max(9.0, 8.0, by_b))


def test_quantiles_of_a_few_rows_may_lie_beyond_the_last_one_as_far_as_rows_are_apart():
    numbers, upto = np.array([1.0, 2.0, 3.0, 10.0, 20.0, 30.0]), np.arange(1.0, 7.0)
    place, value = np.array([1.8, 4.8]), np.array([2.8, 28.0])
    first, last = np.array([0.0, 3.0]), np.array([2.0, 5.0])
    high = _end(numbers, upto, place, np.array([4.0, 7.0]), last, value)
    assert high == pytest.approx([3.4, 30.0])  # 2 ranks of 0.2; and no further than any row
    low = _end(numbers, upto, place, np.array([0.5, -1.0]), first, value)
    assert low == pytest.approx([1.5, 1.0])
