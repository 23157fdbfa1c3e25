"""Replicated uniques, apparent matches, attribution and identification: by hand, by slow twins, published figures."""

from __future__ import annotations

import json
from collections import Counter
from statistics import median

import numpy as np
import pandas as pd
import pytest
from fixtures.nist import NIST, needs_nist, nist_rows, nist_study
from fixtures.risk import against, holding, rng, told
from fixtures.utility import checked

from engine.evaluation.attacks.protocol import DECLARED, Attacker, readings
from engine.evaluation.attacks.records import (
    apparent_match,
    attribution,
    identification,
    model_baselines,
    uniques,
)
from engine.evaluation.data.aligned import align, distinct
from engine.evaluation.study import Study
from engine.schema import column_set

STUDY = Study(title="")


def uniques_of(aligned, *keys, **told):
    risk = uniques(
        holding(aligned), Attacker(quasi_identifiers=keys, **told), np.random.default_rng(1)
    )
    return checked(risk)


def drawn(n, seed, *, levels=(7, 5, 3)):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "a": rng.integers(0, levels[0], n).astype(float),
            "b": rng.choice([f"t{i}" for i in range(levels[1])], n),
            "c": np.where(rng.random(n) < 0.2, np.nan, rng.integers(0, levels[2], n)),
        }
    )


def test_uniques_by_hand():
    original = pd.DataFrame({"a": [1, 1, 2, 3, None, 4], "b": ["x", "x", "y", "z", "z", "w"]})
    synthetic = pd.DataFrame({"a": [1, 2, 3, 3, None], "b": ["x", "y", "z", "z", "v"]})
    got = uniques_of(against(original, synthetic), "a").values
    # On a: original has 1 twice, 2, 3, blank, 4 once; synthetic has 1, 2 and blank once, 3 twice.
    assert got["replicated"] == pytest.approx(100 * 2 / 6)
    assert got["replicated_of_synthetic"] == pytest.approx(100 * 2 / 5)
    assert got["in_original"] == pytest.approx(100 * 3 / 5)
    assert got["found_uniques"] == pytest.approx(100 * 3 / 6)
    assert got["unique_original"] == pytest.approx(100 * 4 / 6)
    assert got["unique_synthetic"] == pytest.approx(100 * 3 / 5)
    # Whole records: (2, y) is unique in both; (3, z) is unique in the original and there twice.
    assert got["exact_matches"] == 2
    assert got["exact_match"] == pytest.approx(100 * 2 / 6)
    assert got["exact_replicated"] == pytest.approx(100 * 1 / 6)


@pytest.mark.parametrize("seed", range(2))
def test_uniques_equal_a_slow_twin(seed):
    original, synthetic = drawn(70, seed), drawn(45, seed + 90, levels=(9, 4, 4))
    got = uniques_of(against(original, synthetic), "a", "c").values

    def counted(frame, columns):
        return Counter(tuple(r) for r in frame[columns].fillna(-1).itertuples(index=False))

    o, s = (counted(f, ["a", "c"]) for f in (original, synthetic))
    assert got["replicated"] == pytest.approx(100 * sum(o[k] == s[k] == 1 for k in o) / 70)
    assert got["in_original"] == pytest.approx(100 * sum(s[k] == 1 and k in o for k in s) / 45)
    o, s = (counted(f, ["a", "b", "c"]) for f in (original, synthetic))
    assert got["exact_matches"] == sum(o[k] == 1 and k in s for k in o)


def test_without_a_table_of_all_keys_the_worst_of_those_with_most_counts():
    original = pd.DataFrame({"a": [1, 2, 3, 4], "b": [1, 1, 2, 2], "c": [1, 1, 1, 2], "d": [0] * 4})
    ab, bc = original[["a", "b"]], original[["b", "c"]]
    aligned = against(original, ab, bc, original[["a", "d"]])
    read = readings(aligned.aligned, ("a", "b", "c"))
    assert [keys for keys, _ in read] == [("a", "b"), ("b", "c")]
    risk = uniques_of(aligned, "a", "b", "c", keys=(("a", "d"), ("c", "d")))
    assert risk.values["replicated"] == 100
    assert "exact_matches" in risk.why_not
    assert any("no table has all 3 quasi-identifiers" in note for note in risk.notes)
    assert any("c, d" in note for note in risk.notes)
    assert risk.breakdown["columns"].tolist()[:3] == ["a, b", "b, c", "a, d"]
    assert risk.breakdown["what"].tolist()[3] == "widest table"


@pytest.mark.ci
@needs_nist
@pytest.mark.parametrize(
    ("name", "matches", "percent"),
    [
        ("aindo", 10, 0.04),
        ("cart", 654, 2.40),
        ("mwem_pgm", 0, 0.00),
        ("sample40", 10_860, 39.85),
    ],
)
def test_published_exact_matches_are_met(name, matches, percent):
    """Seed study, Table 3, "Full Match": people unique on the columns that both have, and present in the synthetic."""
    rows = nist_rows(name)
    aligned = align(nist_rows(), {column_set(list(rows)): distinct(rows)}, nist_study())
    got = uniques_of(aligned, "EDU", "SEX", "RAC1P", "PUMA").values
    assert got["exact_matches"] == matches
    assert round(got["exact_match"], 2) == percent


QUASI = ("EDU", "SEX", "RAC1P", "PUMA", "OWN_RENT", "INDP_CAT", "HISP", "MSP")
HALF = {"x": 0.5, "y": 0.5, "t": 0.5}


def apparent_of(aligned, *keys, baselines=None, **told):
    told = Attacker(quasi_identifiers=keys, **told)
    risk = apparent_match(holding(aligned, **(baselines or {})), told, np.random.default_rng(1))
    return checked(risk)


def people(n, seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "a": rng.integers(0, 40, n),
            "b": rng.choice([f"t{i}" for i in range(9)], n),
            "x": rng.integers(0, 3, n),
            "y": np.where(rng.random(n) < 0.3, np.nan, rng.integers(0, 2, n)),
        }
    )


def test_apparent_matches_by_hand():
    original = pd.DataFrame(
        {"q": [1, 2, 3, 4, 5, 5], "x": list("aabbcc"), "y": [1, None, 3, 4, 5, 6]}
    )
    synthetic = pd.DataFrame(
        {"q": [1, 2, 3, 4, 4, 5], "x": list("abbbbc"), "y": [1, None, 9, 4, 4, 5]}
    )
    risk = apparent_of(against(original, synthetic), "q", baselines={"x": 0.5, "y": 0.2})
    # 1, 2 and 3 are unique on both sides. x is right for 1 and 3; y for 1 and 2, where a blank equals a blank.
    assert risk.breakdown["right"].tolist() == [2, 2]
    assert (risk.values["matches"], risk.values["coverage"]) == (3, 0.5)
    of_x, of_y = (2 / 3 - 0.5) / 0.5, (2 / 3 - 0.2) / 0.8
    assert risk.values["largest_pi"] == pytest.approx(of_y)
    assert risk.values["median_pi"] == risk.values["mean_pi"] == pytest.approx((of_x + of_y) / 2)
    assert (risk.rate.value, risk.rate.n) == (pytest.approx(4 / 6), 6)
    assert risk.baseline.value == pytest.approx(0.35)


def test_equals_the_public_tools_merge():
    original, synthetic = people(150, 0), people(90, 70)
    risk = apparent_of(against(original, synthetic), "a", "b", baselines=HALF)
    keys = ["a", "b"]
    both = original.drop_duplicates(keys, keep=False).merge(
        synthetic.drop_duplicates(keys, keep=False), on=keys
    )
    both = both.fillna(-1)
    shares = [(both[f"{c}_x"] == both[f"{c}_y"]).mean() for c in ("x", "y")]
    assert risk.values["matches"] == len(both) > 5
    assert risk.breakdown["precision"].tolist() == pytest.approx(shares)
    assert risk.values["median_pi"] == pytest.approx(median((s - 0.5) / 0.5 for s in shares))


def test_without_a_table_of_all_that_is_known_the_matches_of_several_are_pooled():
    original = pd.DataFrame({"a": [1, 2, 3, 3], "b": [7, 8, 8, 9], "x": list("pqpq")})
    shown = [
        pd.DataFrame({"a": [1, 2, 3, 3], "x": list("ppqq")}),  # 1: p, 2: p
        pd.DataFrame({"b": [7, 8, 8, 9], "x": list("pqqp")}),  # the first: p, the last: p
    ]
    risk = apparent_of(against(original, *shown), "a", "b", baselines={"x": 0.5})
    # Three people are matched by either; the first is right in both tables and counts once, the others are wrong.
    assert risk.breakdown[["table", "matches", "right"]].values.tolist() == [
        ["2 tables pooled", 3, 1]
    ]
    assert any("pooled" in note for note in risk.notes)
    assert "largest_gain" in risk.values or "largest_gain" in risk.why_not


# Baselines.


def guessed(original, *keys, **told):
    told = Attacker(quasi_identifiers=keys, **told)
    return model_baselines(against(original, original).aligned, told, np.random.default_rng(3))


def test_a_baseline_is_what_the_known_columns_tell_of_others():
    pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(4)
    n = 4_000
    a, b = rng.integers(0, 5, n), rng.integers(0, 3, n)
    frame = pd.DataFrame({"a": a, "b": b, "copy": a, "coin": rng.random(n) < 0.7, "id": range(n)})
    got = guessed(frame, "a", "b")
    assert got["copy"].value == 1
    assert got["coin"].low < 0.7 < got["coin"].high
    assert got["id"].value == 0  # no value has 5 training rows: every guess is a miss
    assert got["copy"].n == 1_200
    assert guessed(frame, "a", "b", model_rows=200)["copy"].value == 1


# Published.


@pytest.fixture(scope="module")
def read():
    def one(name):
        rows = nist_rows(name)
        return align(nist_rows(), {column_set(list(rows)): distinct(rows)}, nist_study())

    return one, json.loads((NIST / "inference_baselines.json").read_text("utf-8"))


@needs_nist
@pytest.mark.parametrize(
    ("name", "mean", "largest", "coverage", "matches"),
    [
        pytest.param("aindo", -0.34, 0.21, 0.060, 1_625, marks=pytest.mark.slow),
        ("cart", -0.31, 0.49, 0.066, 1_797),
        pytest.param("mwem_pgm", -0.26, 0.58, 0.042, 1_135, marks=pytest.mark.slow),
        ("sample40", 0.94, 1.00, 0.153, 4_169),
    ],
)
def test_published_figures_are_met(read, name, mean, largest, coverage, matches):
    """Seed study, Table 3, "QI Match". Its "med PI" is the mean, with 0 for the column whose baseline is 1."""
    one, baselines = read
    got = apparent_of(one(name), *QUASI, baselines=baselines).values
    assert round(got["mean_pi"], 2) == mean
    assert round(got["largest_pi"], 2) == largest
    assert round(got["coverage"], 3) == coverage
    assert got["matches"] == matches


@needs_nist
@pytest.mark.slow
def test_published_baselines_are_met(read):
    """On 4,000 rows instead of 19,077; within 0.02 of the published precision."""
    pytest.importorskip("sklearn.linear_model")
    one, baselines = read
    targets = ("PINCP_DECILE", "NPF", "WGTP", "DREM", "DENSITY", "NOC")
    told = Attacker(quasi_identifiers=QUASI, targets=targets, model_rows=4_000)
    got = model_baselines(one("sample40"), told, np.random.default_rng(1))
    assert got.keys() == set(targets)
    for name, rate in got.items():
        assert rate.value == pytest.approx(baselines[name], abs=0.02)


def attribution_of(aligned, *keys, **told):
    risk = attribution(
        holding(aligned), Attacker(quasi_identifiers=keys, **told), np.random.default_rng(1)
    )
    return checked(risk)


def leaning(n, seed):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 4, n), rng.integers(0, 5, n)
    target = np.where(rng.random(n) < 0.6, (a + b) % 3, rng.integers(0, 3, n)).astype(float)
    target[rng.random(n) < 0.1] = np.nan
    return pd.DataFrame({"a": a, "b": [f"t{v}" for v in b], "t": target})


def test_attribution_by_hand():
    original = pd.DataFrame(
        {"k": ["p", "p", "q", "q", "r", "r", "s", "s"], "t": [1, 1, 1, 2, 2, 2, 1, 2]}
    )
    synthetic = pd.DataFrame({"k": ["p", "p", "p", "q", "q", "r"], "t": [1, 1, 2, 1, 1, 1]})
    got = attribution_of(against(original, synthetic), "k").values
    # Chance that a record with the same k has the same t: p 2/3 and 2/3, q 1 and 0, r 0 and 0, s nobody.
    assert got["dcap"] == pytest.approx((2 / 3 + 2 / 3 + 1) / 8)
    assert got["cap"] == pytest.approx((2 / 3 + 2 / 3 + 1) / 6)
    assert got["matched"] == 6 / 8
    assert got["cap_original"] == pytest.approx((2 * 1 + 2 * 0.5 + 2 * 1 + 2 * 0.5) / 8)
    assert got["baseline"] == pytest.approx(0.5)  # four of each
    # q and r have one value: claims about 4 people, right about the first of q.
    assert got["tcap"] == 1 / 4
    assert got["disco"] == got["disco_small"] == 1 / 8
    assert got["dorig"] == 4 / 8  # p and r
    assert got["largest_gain"] == pytest.approx((got["dcap"] - 0.5) / 0.5)


def attribution_slowly(original, synthetic, keys, target):
    """CAP of every person by a loop; -1 where nobody matches."""
    rows = list(synthetic[[*keys, target]].fillna(-1).itertuples(index=False, name=None))
    caps, claims, right = [], 0, 0
    for *key, value in original[[*keys, target]].fillna(-1).itertuples(index=False, name=None):
        same = [row[-1] for row in rows if list(row[:-1]) == key]
        caps.append(same.count(value) / len(same) if same else -1)
        claims += len(set(same)) == 1
        right += len(set(same)) == 1 and same[0] == value
    return np.array(caps), claims, right


@pytest.mark.parametrize("seed", range(2))
def test_attribution_equals_a_slow_twin(seed):
    original, synthetic = leaning(60, seed), leaning(25, seed + 40)
    risk = attribution_of(against(original, synthetic), "a", "b")
    caps, claims, right = attribution_slowly(original, synthetic, ["a", "b"], "t")
    own, _, _ = attribution_slowly(original, original, ["a", "b"], "t")
    _, known, known_right = attribution_slowly(original, original, ["a", "b"], "t")
    assert risk.values["cap"] == pytest.approx(caps[caps >= 0].mean())
    assert risk.values["dcap"] == pytest.approx(np.maximum(caps, 0).mean())
    assert risk.values["cap_original"] == pytest.approx(own.mean())
    assert risk.values["disco"] == right / 60
    assert risk.values["dorig"] == known_right / 60 == known / 60
    assert (risk.rate.n, risk.rate.value) == (claims, right / claims)


def test_what_everybody_knows_is_flagged_as_synthpop_does():
    n = 200
    sex = np.array(["m", "f"] * (n // 2))
    birth = np.where(sex == "m", "none", np.where(np.arange(n) % 4 == 1, "one", "two"))
    original = pd.DataFrame({"sex": sex, "birth": birth})
    flagged = attribution_of(against(original, original), "sex")
    row = flagged.breakdown.iloc[0]
    # All 100 men have none: one value makes up all that is disclosed, and it goes with one value of a key.
    assert (row["right"], row["largest_cell"], row["one_way"], row["two_way"]) == (
        100,
        100,
        True,
        1,
    )
    assert flagged.values["flagged"] == 1
    assert flagged.values["disco"] == 0.5
    assert flagged.values["disco_small"] == 0
    small = original[:80]
    assert (
        not attribution_of(against(small, small), "sex").breakdown["one_way"].any()
    )  # 40 people are too few


PEOPLE = pd.DataFrame({"a": [1, 1, 1, 2, 3], "b": ["x", "x", "y", "y", "z"], "s": [7, 8, 7, 9, 7]})


def test_identification_by_hand_for_rows_of_nobody():
    """c: 2, 2, 1, 1, 0; the own record is there for the 1st and 4th."""
    rows = pd.DataFrame(
        {"a": [1, 1, 1, 2, 4], "b": ["x", "x", "y", "y", "z"], "s": [7, 7, 8, 9, 7]}
    )
    found = checked(identification(against(PEOPLE, rows), told("a", "b"), rng()))
    assert found.values["expected_match_risk"] == 1.5
    assert found.values["expected_match_share"] == 0.3
    assert found.values["true_match_rate"] == 0.2
    assert found.values["false_match_rate"] == 0.5
    assert found.values["uniquely_matched"] == 0.4
    assert found.values["matched"] == 0.8
    assert found.rate.value == 0.2
    assert found.rate.n == 5
    # Records equal to each: 2, 0, 0, 1, 0 of 5.
    assert found.baseline.value == pytest.approx(3 / 25)
    assert found.breakdown["people"].tolist() == [1, 2, 2, 0, 0, 0]
    assert found.breakdown["own_among_them"].tolist() == [0, 1, 1, 0, 0, 0]


def test_identification_by_hand_for_rows_of_known_people():
    """Row i is of person i: s is changed, b of the 2nd and 3rd swapped."""
    rows = pd.DataFrame(
        {"a": [1, 1, 1, 2, 3], "b": ["x", "y", "x", "y", "z"], "s": [0, 0, 0, 0, 0]}
    )
    found = checked(identification(against(PEOPLE, rows), told("a", "b", aligned=True), rng()))
    # c: 2, 2, 1, 1, 1; own among them: 1st, 4th, 5th.
    assert found.values["expected_match_risk"] == 2.5
    assert found.values["true_match_rate"] == 0.4
    assert found.values["false_match_rate"] == pytest.approx(1 / 3)
    assert found.baseline.value == pytest.approx(1 / 5)
    assert found.control is None
    assert "blind draw" in found.control_note
    assert found.values["excess_over_control"] == 0  # 2 of 5 and 1 of 5: chance may explain it


def test_identification_equals_a_slow_twin():
    source = rng()
    for n_people, n_rows in ((37, 23), (23, 61)):
        original, rows = (
            pd.DataFrame({c: source.integers(0, 4, n) for c in "abcd"}) for n in (n_people, n_rows)
        )
        found = checked(identification(against(original, rows), told("d", "b"), rng())).values
        risk, unique, true = 0.0, 0, 0
        for person in original.itertuples():
            agreeing = rows[(rows["b"] == person.b) & (rows["d"] == person.d)]
            own = ((agreeing["a"] == person.a) & (agreeing["c"] == person.c)).any()
            risk += own / len(agreeing) if len(agreeing) else 0
            unique += len(agreeing) == 1
            true += own and len(agreeing) == 1
        assert found["expected_match_risk"] == pytest.approx(risk)
        assert found["true_match_rate"] == pytest.approx(true / n_people)
        assert found["uniquely_matched"] == pytest.approx(unique / n_people)
        assert found["false_match_rate"] == pytest.approx(1 - true / unique)


def crowd(n: int, seed: int) -> pd.DataFrame:
    source = np.random.default_rng(seed)
    return pd.DataFrame({c: source.integers(0, 12, n) for c in "abcst"})


def test_control_rows_are_attacked_where_given():
    original, others = crowd(400, 1), crowd(300, 2)
    found = identification(against(original, original, control=others), told("a", "b", "c"), rng())
    assert found.control.n == 300
    assert DECLARED in found.control_note
    lacking = identification(
        against(original, original, control=others[["a"]]), told("a", "b", "c"), rng()
    )
    assert checked(lacking).control is None
    assert "b" in lacking.why_not["excess_over_control"]
