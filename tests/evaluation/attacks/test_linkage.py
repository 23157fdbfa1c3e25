"""Record linkage: EM on pairs whose truth is known, pairs against a slow twin, links by hand, tables of two columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fixtures.risk import against, rng, told
from fixtures.utility import checked

from engine.evaluation.attacks.linkage import (
    EQUAL,
    NEAR,
    Sides,
    by_chance,
    counted,
    estimate,
    levels_of,
    linkage,
    n_pairs,
    nearness,
)
from engine.evaluation.attacks.protocol import Attacker, Linkage
from engine.evaluation.data.aligned import Distinct
from engine.evaluation.findings import WHOLE


def linking(*known: str, block=(), columns=(), people=2_000, **more) -> Attacker:
    linked = Linkage(block=block, columns=columns, targets=people)
    return Attacker(quasi_identifiers=known, linkage=linked, **more)


# EM.
M = np.array([[0.05, 0.0, 0.95], [0.1, 0.1, 0.8], [0.3, 0.0, 0.7], [0.02, 0.0, 0.98]])
U = np.array([[0.9, 0.0, 0.1], [0.7, 0.2, 0.1], [0.5, 0.0, 0.5], [0.95, 0.0, 0.05]])
SHARE = 0.04


def every_pattern():
    grid = np.meshgrid([0, 2], [0, 1, 2], [0, 2], [0, 2], indexing="ij")
    levels = np.stack([g.ravel() for g in grid], axis=1)
    at = np.arange(4)
    of_match, of_other = M[at, levels].prod(axis=1), U[at, levels].prod(axis=1)
    return levels, SHARE * of_match + (1 - SHARE) * of_other, SHARE * of_match


def test_em_finds_what_pairs_were_made_from():
    levels, n, _ = every_pattern()
    found = estimate(levels, n * 1e6, np.full(4, 3))
    assert found.converged
    assert found.share == pytest.approx(SHARE, rel=1e-3)
    assert found.m == pytest.approx(M, abs=2e-3)
    assert found.u == pytest.approx(U, abs=2e-3)


# Pairs.


def drawn_frame(n: int, seed: int) -> pd.DataFrame:
    source = np.random.default_rng(seed)
    frame = pd.DataFrame({c: source.integers(0, 4, n) for c in "abst"})
    frame["x"] = source.integers(0, 60, n).astype(float)
    frame.loc[source.random(n) < 0.2, "x"] = np.nan
    return frame


def sides_of(original: pd.DataFrame, given: Distinct, compared, secrets) -> tuple[Sides, dict]:
    aligned = against(original, given).aligned
    (table,) = aligned.tables.values()
    sides = Sides(
        people=aligned.original,
        table=table,
        rows=np.arange(len(original)),
        compared=compared,
        secrets=secrets,
        near=nearness(aligned, compared),
    )
    return sides, {c: len(aligned.values[c]) for c in aligned.values}


def slow_level(left: float, right: float, near: dict) -> int:
    if left == right or (np.isnan(left) and np.isnan(right)):
        return EQUAL
    close = abs(near.get(left, 10**6) - near.get(right, -(10**6))) <= 1
    return NEAR if close else 0


def test_pairs_agree_with_a_slow_twin():
    original, rows = drawn_frame(11, 1), drawn_frame(7, 2)
    n = np.array([1, 3, 2, 1, 1, 5, 2])
    sides, n_values = sides_of(original, Distinct(frame=rows, n=n), ("a", "b", "x"), ("s", "t"))
    assert sides.near == {"a": 0, "b": 0, "x": 0}  # fewer than 20 values
    sides.near["x"] = 1
    filled = pd.concat([original["x"], rows["x"]]).dropna()
    places = {v: i for i, v in enumerate(sorted(filled.unique()))}
    for block in ((), ("a",), ("b", "a")):
        found = counted(sides, block, n_values=n_values)
        expected: dict = {}
        for i, person in original.iterrows():
            for j, row in rows.iterrows():
                if any(person[c] != row[c] for c in block):
                    continue
                level = [2 * (person[c] == row[c]) for c in "ab"]
                level.append(slow_level(person["x"], row["x"], places))
                same = [person[c] == row[c] for c in "st"]
                sums = np.array([1, i == j, all(same), np.mean(same)], float) * n[j]
                key = (i, *map(int, level))
                expected[key] = expected.get(key, 0) + sums
        levels = levels_of(found.pattern, 3)
        got = {
            (int(found.person[k]), *map(int, levels[k])): np.array(
                [found.n[k], found.own[k], found.all_equal[k], found.share_equal[k]]
            )
            for k in range(len(found.n))
        }
        assert got.keys() == expected.keys()
        assert all(got[k] == pytest.approx(expected[k]) for k in got)
        if not block:
            total = levels_share(levels, found.n)
            assert by_chance(sides, n_values) == pytest.approx(total)
        if block:
            agree = original.merge(rows, on=list(block))
            assert n_pairs(sides, block) == len(agree)


def levels_share(levels, n):
    """Share of pairs at each level of each column."""
    return np.array([[n[levels[:, c] == k].sum() for k in range(3)] for c in range(3)]) / n.sum()


# Links.


def crowd(n: int, seed: int, times: int = 1) -> pd.DataFrame:
    source = np.random.default_rng(seed)
    sizes = {"a": 12, "b": 9, "c": 15, "d": 7, "s": 6, "t": 8}
    return pd.DataFrame({c: source.integers(0, k * times, n) for c, k in sizes.items()})


KNOWN = ("a", "b", "c", "d")


def noisy(original: pd.DataFrame, share: float) -> pd.DataFrame:
    """Rows of the same people, in the same order, each known value replaced with some probability."""
    source = np.random.default_rng(8)
    out = original.copy()
    for c in KNOWN:
        replaced = source.random(len(out)) < share
        out.loc[replaced, c] = source.permutation(out.loc[replaced, c])
    return out


def test_links_are_found_through_errors_and_m_is_found():
    original = crowd(1_500, 3, times=3)
    rows = noisy(original, 0.1)
    found = checked(linkage(against(original, rows), linking(*KNOWN, aligned=True), rng()))
    truth = original[list(KNOWN)] == rows[list(KNOWN)]
    assert truth.all(axis=1).mean() < 0.7
    assert found.values["correct_all"] > 0.9
    assert found.rate.value > 0.95
    assert found.control is None
    assert "blind draw" in found.control_note
    assert found.values["excess_over_control"] > 0.5
    by_column = found.breakdown.set_index("column")
    assert by_column["m"].to_dict() == pytest.approx(truth.mean().to_dict(), abs=0.03)
    by_chance = {"a": 1 / 36, "b": 1 / 27, "c": 1 / 45, "d": 1 / 21}
    assert by_column["u"].to_dict() == pytest.approx(by_chance, abs=0.003)


def test_one_link_by_hand():
    """The 1st has two records that agree, one with the secret; the 2nd one that has not; the 3rd none in its block."""
    people = pd.DataFrame({"a": [1, 2, 3], "b": [1, 2, 3], "s": [1, 2, 3]})
    rows = pd.DataFrame({"a": [1, 1, 2, 4], "b": [1, 1, 2, 3], "s": [1, 5, 5, 3]})
    found = checked(linkage(against(people, rows), linking("a", "b", block=("a",)), rng()))
    assert found.values["linked"] == pytest.approx(2 / 3)
    assert found.values["correct_all"] == pytest.approx(0.5 / 3)
    assert found.values["secrets_equal"] == pytest.approx(0.25)
    assert found.values["pairs"] == 3


PEOPLE = pd.DataFrame({"a": [1, 2, 2], "b": [1, 1, 2], "s": [3, 4, 5]})


@pytest.mark.parametrize(
    ("original", "rows", "risks", "why"),
    [
        (PEOPLE, PEOPLE[["a", "b"]], linking("a", "b"), "no table has a compared column"),
        (PEOPLE, PEOPLE[["a", "s"]], linking("a", "b"), "two compared columns"),
        (PEOPLE, PEOPLE[:0], linking("a", "b"), "synthetic table has no rows"),
        (PEOPLE[:0], PEOPLE, linking("a", "b"), "original has no rows"),
        (PEOPLE, PEOPLE, linking("a", "b", block=("s",)), "not compared ones"),
        (PEOPLE, PEOPLE, linking("a", "b", block=("a", "b")), "outside the block"),
        (
            PEOPLE,
            PEOPLE.assign(a=[7, 8, 9]),
            linking("a", "b", block=("a",)),
            "agrees in the block",
        ),
    ],
)
def test_what_cannot_be_linked_says_why(original, rows, risks, why):
    found = checked(linkage(against(original, rows), risks, rng()))
    assert why in found.why_not[WHOLE]
    assert found.rate is None


def test_rows_that_count_nothing_are_no_records():
    original, rows = drawn_frame(60, 1), drawn_frame(40, 2)
    n = (rows["a"] != 3).to_numpy(int)
    attacker = linking("a", "b", block=("a",))
    found = linkage(against(original, Distinct(frame=rows, n=n)), attacker, rng())
    assert found.values["linked"] == pytest.approx((original["a"] != 3).mean())
    assert all(np.isfinite(list(checked(found).values.values())))


ABC = ("a", "b", "c")


def people(n: int, seed: int, *, values: int = 6) -> pd.DataFrame:
    """Three known columns, a secret independent of them, and one that is `a` for most."""
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame({name: draw.integers(0, values, n) for name in ABC})
    frame["s"] = draw.integers(0, 3, n)
    frame["t"] = np.where(draw.random(n) < 0.8, frame["a"] % 3, draw.integers(0, 3, n))
    return frame


def two_way(frame: pd.DataFrame, *secrets: str) -> list[pd.DataFrame]:
    """Every pair of a known column and a secret, as they are."""
    return [frame[[k, s]] for k in ABC for s in secrets]


def test_by_hand_each_table_with_one_known_column_has_its_weight():
    """P(s | a) is .9 for 1 of a 0; b tells nothing; nobody is alike in two columns of one table."""
    rows = pd.DataFrame({"a": [0] * 10 + [1] * 10, "b": [0, 1] * 10, "s": [1] * 9 + [0] * 10 + [1]})
    asked = rows.iloc[[0, 9, 10]]
    found = checked(
        linkage(against(asked, rows[["a", "s"]], rows[["b", "s"]]), told("a", "b"), rng())
    )
    assert found.values["correct_all"] == pytest.approx(
        2 / 3
    )  # the 2nd is the one of a 0 without it
    assert found.values["linked"] == 1
    assert found.breakdown[["column", "right", "baseline"]].to_numpy().tolist() == [
        ["s", pytest.approx(2 / 3), pytest.approx(0.5)]
    ]
    assert "no pairs" in found.why_not["pairs"]


def test_people_of_the_data_are_told_from_strangers_where_tables_give_them_away():
    """A planted leak: known columns that single out everybody, in tables as they are."""
    data, others = people(400, 1, values=100_000), people(400, 2, values=100_000)
    found = checked(linkage(against(data, *two_way(data, "s"), control=others), told(*ABC), rng()))
    assert found.values["correct"] > 0.95
    assert found.control is not None
    assert found.control.value < 0.5
    assert found.values["excess_over_control"] > 0.4


def test_what_strangers_show_too_is_no_excess():
    data, others = people(3_000, 1), people(3_000, 2)
    for control in (others, None):
        aligned = against(data, *two_way(data, "t"), control=control)
        found = checked(linkage(aligned, told(*ABC), rng()))
        assert 0.75 < found.values["correct"] < 0.95
        assert found.baseline is not None
        assert found.baseline.value < 0.45
        assert abs(found.values["excess_over_control"]) < 0.05
