"""Columns of hierarchical codes are recognised, and nothing else is taken for one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from engine.keys import MasterKey
from engine.source.detection import detect_source, spec_text

N = 3_000
RNG = np.random.default_rng(5)
LETTERS = list("abcdefghiklmnoprstu")


def drawn(values):
    return RNG.choice(values, size=N)


def words(n, least=3, most=9):
    return ["".join(RNG.choice(LETTERS, RNG.integers(least, most))).title() for _ in range(n)]


ICD = [f"{c}{i:02}{dot}" for c in "EIJKM" for i in range(0, 90, 7) for dot in ("", ".1", ".9")]
NACE = [f"{i:02}.{j}{k}" for i in range(1, 90, 5) for j in range(1, 4) for k in (1, 2)]
ISCO = [f"{i}" for i in range(1111, 9600, 83)]
NUTS = [f"{c}{i}{j}" for c in ("DE", "FR", "AT") for i in range(1, 6) for j in "0123AB"]
ZIPS = [f"{i:05}" for i in range(1000, 99000, 1313)]


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("diagnosis", ICD, "ICD-10"), ("main", [v.replace(".", "") for v in ICD], "ICD-10"), ("nace", NACE, "NACE"),
        ("occupation", ISCO, "ISCO"), ("nuts3", NUTS, "NUTS"), ("zip_code", ZIPS, "postal"),
        ("income", ISCO, ""), ("first_name", words(120), ""), ("town", words(80), ""),
        ("comment", [" ".join(words(4)) for _ in range(150)], ""), ("amount", ZIPS, ""),
        ("grade", ["A1", "B2", "C3"], ""),
        ("airport", ["LHR", "CDG", "JFK", "FRA", "AMS", "MAD", "FCO", "VIE", "ZRH", "OSL"] * 4, ""),
    ],
)  # fmt: skip
def test_codes_are_recognised_and_nothing_else(tmp_path, name, values, expected):
    pd.DataFrame({name: drawn(values), "sex": drawn(["f", "m"])}).to_csv(
        tmp_path / "d.csv", index=False
    )
    for number in range(3):
        text = spec_text(detect_source(tmp_path / "d.csv", key=MasterKey(bytes([number]) * 32)))
        assert (f"looks like {expected} codes" in text) if expected else "looks like " not in text
