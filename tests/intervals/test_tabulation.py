"""Tabulations: the right figures, intervals and statuses; refusals; what is locked is counted once."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fixtures.intervals import plain_rows, small_release
from fixtures.pipeline import ACCEPTED, write_spec
from fixtures.release_dp import spec_in

import engine
from engine.errors import NotAnswerable, QueryRefused
from engine.release import build
from queries.intervals import regions, tabulate
from queries.release import open_release


@pytest.fixture(scope="module")
def release(small):
    return small


@pytest.mark.ci
def test_counts_are_those_of_the_table_and_unreleased_cells_say_nothing(release):
    got = tabulate(release, ["age", "sex"])
    counted = plain_rows(release, "age", "sex").value_counts().to_dict()
    shown = ~np.isnan(got.value)
    assert 0 < shown.sum() < len(got)
    assert all(counted[k] == v for k, v in zip(got.keys, got.value, strict=True) if v == v)
    hidden = [s == "not released" for s in got.status]
    assert hidden == (~shown).tolist()
    assert (got.low[hidden] == 0).all()
    counted_there = np.array(
        [counted.get(k, 0) for k, h in zip(got.keys, hidden, strict=True) if h]
    )
    assert (got.high[hidden] >= np.maximum(counted_there, 6)).all()
    assert "95 of 100 such cells hold at most 6 people" in got.words
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
    # Of a total that holds an unreleased count, shares are known where that hardly matters; ratios are not where rows
    # of few imputed people may be on one side alone.
    both = np.isfinite(right)
    assert both.sum() >= 12
    assert share.value[both] == pytest.approx(right[both])
    shown = np.isfinite(ratio.value)
    assert {*np.array(ratio.status)[~shown]} <= {"not released"}
    assert (shown & both).sum() >= 12
    assert ratio.value[shown & both] == pytest.approx((right / (1 - right))[shown & both])
    for got in (share, ratio):
        assert (got.low <= got.value)[shown].all()
        assert (got.value <= got.high)[shown].all()
        # From nothing to what suppression hides.
        assert (got.low[~np.isfinite(got.value)] == 0).all()
    # Both shares of a region are off by the same amount.
    half = ((share.high - share.low) / 2).reshape(-1, 2)
    are_shown = shown.reshape(-1, 2).all(axis=1)
    assert half[are_shown, 0] == pytest.approx(half[are_shown, 1])


def test_a_margin_has_the_noise_of_the_narrow_table_however_wide_the_one_that_answers(release):
    whole = (0, 1000)
    narrow = tabulate(release, ["sex"])
    wide = tabulate(release, ["sex"], where={"age": whole})
    assert wide.table == ("age", "sex")
    assert wide.value.tolist() == narrow.value.tolist()
    # Replays of another table: an end may be rounded to the next whole number.
    assert np.abs(wide.low - narrow.low).max() <= 1
    assert np.abs(wide.high - narrow.high).max() <= 1
    most = tabulate(release, ["sex"], where={"age": (1, 1000)})
    assert ((most.high - most.low) <= (wide.high - wide.low) + 4).all()


def test_the_noise_of_a_range_does_not_grow_with_its_width(release):
    # Independent cells: 2 * 1.4 * sqrt(width), up to 26.
    for low, high in ((3, 66), (10, 80), (20, 41)):
        got = tabulate(release, [], where={"age": (low, high)})
        assert 2 <= (got.high[0] - got.low[0]) / 2 <= 9
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


def test_statuses_follow_the_thresholds(release):
    for asked in ({"columns": ["age", "sex"]}, {"columns": ["income"]}, {"columns": ["region"]}):
        got = tabulate(release, **asked)
        for i, status in enumerate(got.status):
            half = (got.high[i] - got.low[i]) / 2
            if status == "reliable":
                assert half <= got.value[i] / 10
            if status == "unreliable":
                assert half > got.value[i] / 10
            if status == "low":
                assert got.value[i] <= half * 2 / 1.9
    assert set(tabulate(release, ["sex"]).status) == {"reliable"}


@pytest.mark.ci
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
    assert "do not say which" in page
    nothing = tabulate(release, ["age"], where={"age": (200, 300)})
    assert len(nothing.df()) == 0
    assert nothing.df().columns.tolist() == ["age", "value", "low", "high", "status"]
    assert tabulate(release, []).df()["value"].tolist() == tabulate(release, []).value.tolist()
    mean = tabulate(release, ["sex"], measure="mean", of="age")
    assert f"{mean.value[0]:,.6g}" in mean._repr_html_()


@pytest.mark.ci
def test_every_table_of_mode_dp_has_intervals(tmp_path):
    spec = spec_in(tmp_path)
    build(spec, tmp_path / "dp.duckdb")
    with open_release(tmp_path / "dp.duckdb") as made:
        assert len({made.card(*table).dp["covered"] for table in made.tables}) == 2
        for table in made.tables:
            got = tabulate(made, list(table))
            assert np.isfinite(got.low).all()
            assert (got.low < got.high).any()
            assert "not released" not in got.status
        assert set(tabulate(made, ["region"]).status) == {"reliable"}


@pytest.mark.ci
def test_a_mean_of_a_column_without_an_end_is_reliable_once_bounds_are_declared(tmp_path):
    """40 people in 20,000 are far from the others, and nobody knows how far further ones are."""
    rng = np.random.default_rng(3)
    x = np.r_[rng.integers(0, 60, 19_960), np.arange(9_961, 10_001)]
    frame = pd.DataFrame({"id": range(20_000), "x": x})
    statuses = []
    for domain in ({}, {"domain": {"min": 0, "max": 10_000}}):
        folder = tmp_path / str(len(domain))
        folder.mkdir()
        frame.to_csv(folder / "d.csv", index=False)
        columns = {"id": {"kind": "integer"}, "x": {"kind": "integer", **domain}}
        spec = write_spec(folder, "d.csv", columns, [("x",)], entities=("id",), privacy=ACCEPTED)
        with engine.build(spec, out=folder / "r.duckdb", jobs=1) as made:
            statuses += tabulate(made, [], measure="mean", of="x").status
    assert statuses == ["unreliable", "reliable"]


def test_answers_say_where_measured_sums_clip(tmp_path):
    """Small groups show less of a heavy tail than all: who lies beyond counts as the end of the group's range."""
    rng = np.random.default_rng(3)
    group = (np.arange(3_000) % 15).astype(str)
    turnover = np.round(np.exp(rng.normal(6, 1.2, len(group)))).astype(np.int64)
    engine.new_key(tmp_path / "a.key")
    engine.build(
        pd.DataFrame({"group": group, "turnover": turnover}),
        tables=[["group", "turnover"]],
        key=tmp_path / "a.key",
        out=tmp_path / "r.duckdb",
    )
    with open_release(tmp_path / "r.duckdb") as release:
        ends = release.card("group", "turnover").sums["turnover"]
        least, most = map(int, ends["high"])
        assert least < most < turnover.max()
        rows = plain_rows(release, "group", "turnover")
        some, all_ = ((rows["turnover"] - e).clip(lower=0).sum() for e in (most, least))
        assert (
            0.01 < some / rows["turnover"].sum() <= ends["beyond"] <= all_ / rows["turnover"].sum()
        )
        said = f"above {least} to {most} (by group) count as these ends"
        mean = tabulate(release, ["group"], measure="mean", of="turnover")
        assert said in mean.words
        by_group = f'SELECT "group", avg(turnover) AS m FROM {release.logical_name} GROUP BY ALL'
        assert any(said in text for text in release.sql(by_group, intervals=True).warnings)
        assert "count as these ends" not in tabulate(release, ["group"]).words
        counted = f"SELECT count(*) AS n FROM {release.logical_name} WHERE turnover > 9"
        warnings = release.sql(counted, intervals=True).warnings
        assert not any("count as these ends" in text for text in warnings)
