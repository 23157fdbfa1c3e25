"""CAP, DCAP, TCAP and DiSCO: by hand, by a slow twin, bad input, controls."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fixtures.risk import against, checked, holding

from engine.evaluation.attacks.protocol import Attacker
from engine.evaluation.attacks.records import attribution
from engine.evaluation.data.aligned import align
from engine.evaluation.findings import WHOLE
from engine.evaluation.study import Study

STUDY = Study(title="")


def attack(aligned, *keys, **told):
    risk = attribution(
        holding(aligned), Attacker(quasi_identifiers=keys, **told), np.random.default_rng(1)
    )
    return checked(risk)


def people(n, seed):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 4, n), rng.integers(0, 5, n)
    target = np.where(rng.random(n) < 0.6, (a + b) % 3, rng.integers(0, 3, n)).astype(float)
    target[rng.random(n) < 0.1] = np.nan
    return pd.DataFrame({"a": a, "b": [f"t{v}" for v in b], "t": target})


def test_by_hand():
    original = pd.DataFrame(
        {"k": ["p", "p", "q", "q", "r", "r", "s", "s"], "t": [1, 1, 1, 2, 2, 2, 1, 2]}
    )
    synthetic = pd.DataFrame({"k": ["p", "p", "p", "q", "q", "r"], "t": [1, 1, 2, 1, 1, 1]})
    got = attack(against(original, synthetic), "k").values
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


def slow(original, synthetic, keys, target):
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
def test_equals_a_slow_twin(seed):
    original, synthetic = people(60, seed), people(25, seed + 40)
    risk = attack(against(original, synthetic), "a", "b")
    caps, claims, right = slow(original, synthetic, ["a", "b"], "t")
    own, _, _ = slow(original, original, ["a", "b"], "t")
    _, known, known_right = slow(original, original, ["a", "b"], "t")
    assert risk.values["cap"] == pytest.approx(caps[caps >= 0].mean())
    assert risk.values["dcap"] == pytest.approx(np.maximum(caps, 0).mean())
    assert risk.values["cap_original"] == pytest.approx(own.mean())
    assert risk.values["disco"] == right / 60
    assert risk.values["dorig"] == known_right / 60 == known / 60
    assert (risk.rate.n, risk.rate.value) == (claims, right / claims)


def test_the_original_published_as_it_is_loses_and_independent_columns_do_not():
    rng = np.random.default_rng(3)
    everybody = pd.DataFrame(
        {
            "a": rng.integers(0, 60, 1_200),
            "b": rng.integers(0, 60, 1_200),
            "t": rng.integers(0, 4, 1_200),
        }
    )
    original, non_members = everybody[:600], everybody[600:]
    lost = attack(against(original, original, control=non_members), "a", "b")
    assert lost.values["tcap"] == 1
    assert lost.values["disco"] == lost.values["dorig"] > 0.8
    assert lost.values["dcap"] == lost.values["cap_original"] > 0.9
    assert lost.control.high < 0.5
    mixed = original.assign(t=rng.permutation(original["t"]))
    safe = attack(against(original, mixed, control=non_members), "a", "b")
    assert safe.rate.low < safe.baseline.value < safe.rate.high
    assert safe.values["largest_gain"] < 0.1
    fresh = attack(against(original, non_members), "a", "b")
    assert fresh.rate.low < fresh.baseline.value < fresh.rate.high


def test_what_everybody_knows_is_flagged_as_synthpop_does():
    n = 200
    sex = np.array(["m", "f"] * (n // 2))
    birth = np.where(sex == "m", "none", np.where(np.arange(n) % 4 == 1, "one", "two"))
    original = pd.DataFrame({"sex": sex, "birth": birth})
    flagged = attack(against(original, original), "sex")
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
        not attack(against(small, small), "sex").breakdown["one_way"].any()
    )  # 40 people are too few


def test_bad_input_says_why():
    original = people(30, 8)
    assert "no rows" in attack(against(original, original[:0]), "a").why_not[WHOLE]
    assert attack(against(original[:0], original), "a").why_not.keys() == {WHOLE}
    assert attack(align(original, {}, STUDY), "a").why_not.keys() == {WHOLE}
    assert attack(against(original, original[["b", "t"]]), "a").why_not.keys() == {WHOLE}
    assert attack(against(original, original[["a"]]), "a").why_not.keys() == {WHOLE}
    constant = attack(against(original.assign(t=1), original), "a", "b")
    assert "always the same" in constant.why_not[WHOLE]
    blank = original.assign(t=np.nan)
    assert attack(against(blank, blank), "a", "b").why_not.keys() == {WHOLE}
    one = original[:1]
    assert attack(against(one, one), "a").why_not.keys() == {WHOLE}
