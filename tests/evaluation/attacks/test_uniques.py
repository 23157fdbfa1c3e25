"""Replicated uniques and exact matches: by hand, by a slow twin, bad input, controls, published figures."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from fixtures.nist import needs_nist, nist_rows, nist_study
from fixtures.risk import against, checked, holding

from engine.evaluation.attacks.protocol import Attacker, usable
from engine.evaluation.attacks.records import uniques
from engine.evaluation.data.aligned import align, distinct
from engine.evaluation.findings import WHOLE
from engine.evaluation.study import Study
from engine.schema import column_set

STUDY = Study(title="")


def attack(aligned, *keys, **told):
    risk = uniques(
        holding(aligned), Attacker(quasi_identifiers=keys, **told), np.random.default_rng(1)
    )
    return checked(risk)


def people(n, seed, *, levels=(7, 5, 3)):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "a": rng.integers(0, levels[0], n).astype(float),
            "b": rng.choice([f"t{i}" for i in range(levels[1])], n),
            "c": np.where(rng.random(n) < 0.2, np.nan, rng.integers(0, levels[2], n)),
        }
    )


def test_by_hand():
    original = pd.DataFrame({"a": [1, 1, 2, 3, None, 4], "b": ["x", "x", "y", "z", "z", "w"]})
    synthetic = pd.DataFrame({"a": [1, 2, 3, 3, None], "b": ["x", "y", "z", "z", "v"]})
    got = attack(against(original, synthetic), "a").values
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
def test_equals_a_slow_twin(seed):
    original, synthetic = people(70, seed), people(45, seed + 90, levels=(9, 4, 4))
    got = attack(against(original, synthetic), "a", "c").values

    def counted(frame, columns):
        return Counter(tuple(r) for r in frame[columns].fillna(-1).itertuples(index=False))

    o, s = (counted(f, ["a", "c"]) for f in (original, synthetic))
    assert got["replicated"] == pytest.approx(100 * sum(o[k] == s[k] == 1 for k in o) / 70)
    assert got["in_original"] == pytest.approx(100 * sum(s[k] == 1 and k in o for k in s) / 45)
    o, s = (counted(f, ["a", "b", "c"]) for f in (original, synthetic))
    assert got["exact_matches"] == sum(o[k] == 1 and k in s for k in o)


def test_the_original_published_as_it_is_loses_and_others_do_not():
    everybody = people(900, 7, levels=(40, 20, 8))
    original, non_members, sample = everybody[:300], everybody[300:600], everybody[600:]
    lost = attack(against(original, original, control=non_members), "a", "b")
    assert lost.values["replicated"] == lost.values["unique_original"] > 40
    assert lost.values["exact_matches"] == (~original.duplicated(keep=False)).sum()
    assert lost.rate.low > lost.control.high
    safe = attack(against(original, sample, control=non_members), "a", "b")
    assert safe.rate.low <= safe.control.high
    assert safe.control.low <= safe.rate.high


def test_without_a_table_of_all_keys_the_worst_of_those_with_most_counts():
    original = pd.DataFrame({"a": [1, 2, 3, 4], "b": [1, 1, 2, 2], "c": [1, 1, 1, 2], "d": [0] * 4})
    ab, bc = original[["a", "b"]], original[["b", "c"]]
    aligned = against(original, ab, bc, original[["a", "d"]])
    assert usable(aligned.aligned, ("a", "b", "c")) == [("a", "b"), ("b", "c")]
    risk = attack(aligned, "a", "b", "c", keys=(("a", "d"), ("c", "d")))
    assert risk.values["replicated"] == 100
    assert "exact_matches" in risk.why_not
    assert any("no table has all 3 quasi-identifiers" in note for note in risk.notes)
    assert any("c, d" in note for note in risk.notes)
    assert risk.breakdown["columns"].tolist()[:3] == ["a, b", "b, c", "a, d"]
    assert risk.breakdown["what"].tolist()[3] == "widest table"


def test_bad_input_says_why():
    original = people(20, 8)
    nothing = attack(against(original, original.iloc[:0]), "a")
    assert not nothing.values
    assert "no rows" in nothing.why_not[WHOLE]
    assert attack(against(original.iloc[:0], original), "a").why_not.keys() == {WHOLE}
    assert attack(align(original, {}, STUDY), "a").why_not.keys() == {WHOLE}
    elsewhere = attack(against(original, original[["b", "c"]]), "a", "zz")
    assert "replicated" in elsewhere.why_not
    assert elsewhere.values["exact_matches"] >= 0  # of the columns that both have
    partly = attack(against(original, original[["b", "c"]]), "a", "b")
    assert any("no table shows a" in note for note in partly.notes)
    one = attack(against(original.iloc[:1], original.iloc[:1]), "a")
    assert one.values["replicated"] == 100


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
    got = attack(aligned, "EDU", "SEX", "RAC1P", "PUMA").values
    assert got["exact_matches"] == matches
    assert round(got["exact_match"], 2) == percent
