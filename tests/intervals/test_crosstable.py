"""Cross tables of values, groups and totals: every figure is one of `tabulate`, every share one of its definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from fixtures.pack import shared_release

from queries.intervals import EACH, TOTAL, CrossTable, Slice, Tabulation, adding_up, tabulate
from queries.intervals.crosstable import shares_of
from queries.release import open_release

YOUNG, OLD = Slice(key="young", limits=(0, 39)), Slice(key="old", limits=(40, 105))


@pytest.fixture(scope="module")
def release(census, tmp_path_factory):
    with open_release(shared_release(tmp_path_factory, census)) as opened:
        yield opened


def table_of(release, slices, columns=(), **more):
    return CrossTable(release=release, columns=columns, slices=slices, where={}, **more)


def test_parts_add_up_to_their_totals(release):
    """Counts of one table: its totals are sums of its own rows, not those of narrower tables."""
    for columns in (("region", "sex"), ("region",)):
        slices = {c: [TOTAL, EACH] for c in columns}
        got = by_key(table_of(release, slices, columns).figures(columns))
        for key, (value, *_) in got.items():
            if TOTAL.key in key:
                parts = [
                    v
                    for other, (v, *_) in got.items()
                    if TOTAL.key not in other
                    and all(w in (o, TOTAL.key) for o, w in zip(other, key, strict=True))
                ]
                assert sum(parts) == value


def by_key(table):
    figures = zip(
        table.value.tolist(), table.low.tolist(), table.high.tolist(), table.status, strict=True
    )
    return dict(zip(table.keys, figures, strict=True))


def test_every_slice_is_what_tabulate_says_of_it(release):
    slices = {"age": [TOTAL, YOUNG, OLD], "sex": [TOTAL, EACH]}
    got = by_key(table_of(release, slices).figures(("age", "sex")))
    wheres = {TOTAL.key: {}, "young": {"age": (0, 39)}, "old": {"age": (40, 105)}}
    want = {}
    for key, where in wheres.items():
        for (sex,), figures in by_key(tabulate(release, ["sex"], where=where)).items():
            want[key, sex] = figures
        want[key, TOTAL.key] = by_key(tabulate(release, [], where=where))[()]
    assert got == want


def test_each_of_some_values_beside_a_group_of_the_others(release):
    first, *rest = (v for v, *_ in release.values("region"))
    slices = {"region": [Slice(key="others", limits=rest), Slice(limits=[first], is_each=True)]}
    got = by_key(table_of(release, slices).figures(("region",)))
    assert got[first,] == by_key(tabulate(release, ["region"], where={"region": [first]}))[first,]
    assert got["others",] == by_key(tabulate(release, [], where={"region": rest}))[()]


def test_shares_without_groups_are_those_of_tabulate(release):
    got = table_of(release, {}).figures(("region", "sex"), ("region",))
    want = tabulate(release, ["region", "sex"], measure="share", over=["region"])
    assert (got.keys, got.status) == (want.keys, want.status)
    for name in ("value", "low", "high"):
        assert np.array_equal(getattr(got, name), getattr(want, name), equal_nan=True)
    assert "intervals of both" not in got.words


def test_shares_of_groups_are_of_the_whole_and_hold_both_ends(release):
    table = table_of(release, {"age": [YOUNG, OLD]})
    got, counts = table.figures(("age", "sex"), ("sex",)), table.figures(("age", "sex"))
    whole = by_key(tabulate(release, ["sex"]))
    for i, (_, sex) in enumerate(got.keys):
        total, least, most, _ = whole[sex,]
        assert got.value[i] == pytest.approx(counts.value[i] / total)
        assert got.low[i] == pytest.approx(counts.low[i] / most)
        assert got.high[i] == pytest.approx(min(counts.high[i] / least, 1))
    assert "intervals of both" in got.words
    ratios = table_of(release, {"age": [YOUNG, OLD]}, measure="ratio").figures(("age",), ())
    shares = table.figures(("age",), ())
    assert ratios.value.tolist() == pytest.approx((shares.value / (1 - shares.value)).tolist())


def test_a_total_is_all_of_itself_without_noise(release):
    got = table_of(release, {"sex": [TOTAL, EACH]}).figures(("sex",), ())
    assert by_key(got)[TOTAL.key,][:3] == (1.0, 1.0, 1.0)


def made(value, low, high, status="reliable", n=1):
    ends = (np.full(n, float(x)) for x in (value, low, high))
    fields = dict(zip(("value", "low", "high"), ends, strict=True))
    return Tabulation(
        columns=(), keys=((),) * n, measure="sum", of="n", status=(status,) * n, table=("n",), words="", **fields
    )  # fmt: skip


def share(part, whole, *, is_part):
    got = shares_of(part, whole, [], is_part=is_part)
    return got.value[0], got.low[0], got.high[0]


def test_shares_of_sums_with_negative_parts():
    whole = made(10, 8, 20)
    assert share(made(-15, -16, -12), whole, is_part=False) == (-1.5, -2.0, -0.6)
    assert share(made(25, 24, 26), whole, is_part=False) == (2.5, 1.2, 3.25)
    value, low, high = share(made(5, 4, 6), made(10, -1, 20), is_part=False)
    assert (value, math.isnan(low), math.isnan(high)) == (0.5, True, True)
    assert share(made(0, 0, 0), made(3, 0, 6), is_part=True)[1:] == (0, 0)


def test_shares_of_unknown_noise_have_no_interval():
    value, low, high = share(made(5, np.nan, np.nan), made(10, 8, 20), is_part=True)
    assert (value, math.isnan(low), math.isnan(high)) == (0.5, True, True)
    assert share(made(1, 0, 2), made(4, 0, 8), is_part=True) == (0.25, 0, 1)


def test_a_share_of_what_cannot_be_cannot_be():
    none = made(0, 0, 0, "structural zero")
    got = shares_of(none, none, [], is_part=True)
    assert got.status == ("structural zero",)
    assert np.isnan(got.value).all()


def test_a_share_of_what_is_not_released_is_not_released():
    got = shares_of(made(3, 2, 4), made(np.nan, 0, 9, "not released"), [], is_part=True)
    assert got.status == ("not released",)
    assert np.isnan([*got.value, *got.low, *got.high]).all()


def test_parts_that_do_not_add_up_say_why():
    def figures(values, *, measure="count", status="reliable"):
        value = np.array(values, dtype=float)
        return Tabulation(
            columns=("a",), keys=tuple((i,) for i in range(len(value))), measure=measure, of=None,
            value=value, low=value, high=value, status=(status,) * len(value), table=("a",), words="",
        )  # fmt: skip

    assert adding_up(figures([4, 5])) == ""
    assert "not released, too" in adding_up(figures([4, 5], status="not released"))
    assert adding_up(figures([4, 4], measure="mean", status="not released")) == ""


def test_a_table_with_rows_and_columns(release):
    table = release.tabulate(rows=["region"], columns=["sex"])
    long, wide = table.df(), table.df(across=["sex"])
    assert table.columns == ("region", "sex")
    assert wide.shape == (long["region"].nunique(), long["sex"].nunique())
    for region, sex, value in zip(long["region"], long["sex"], long["value"], strict=True):
        assert wide.loc[region, sex] == value
