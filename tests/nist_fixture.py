"""The NIST excerpt, read by pandas alone: a slow twin of `engine.utility.reading`; tests skip without it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pandas as pd
import pytest
from pipeline_fixture import ROOT

from engine.study import Study, read_study

NIST = ROOT.parent / "shared" / "nist"
PEERS = ("aindo", "cart", "mwem_pgm", "sample40")
ORIGINAL = "national2019"
NEEDS_NIST = [
    pytest.mark.nist,
    pytest.mark.skipif(
        not (NIST / "peers").exists(),
        reason="the NIST excerpt is not beside the checkout (../shared/nist)",
    ),
]


def needs_nist(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that reads the excerpt."""
    for mark in NEEDS_NIST:
        test = mark(test)
    return test


@cache
def nist_study() -> Study:
    """The preset."""
    return read_study(ROOT / "releases" / "nist-acs.study.toml", beside=[NIST])


@cache
def nist_rows(name: str = ORIGINAL) -> pd.DataFrame:
    """The original, or a peer's columns that the original has: numbers as floats, PUMA as text, N as a blank."""
    folder = NIST if name == ORIGINAL else NIST / "peers"
    frame = pd.read_csv(folder / f"{name}.csv", dtype=str, keep_default_na=False)
    if name != ORIGINAL:
        frame = frame[[c for c in frame if c in nist_rows()]]
    return pd.DataFrame({c: frame[c] if c == "PUMA" else numbers(frame[c]) for c in frame})


def numbers(texts: pd.Series) -> pd.Series:
    """Texts as floats."""
    return pd.to_numeric(texts.where(~texts.isin(["N", ""]), np.nan))
