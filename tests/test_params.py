from __future__ import annotations

from dataclasses import replace

import pytest

from engine.errors import SpecError
from engine.params import PROFILES, PrivacyParams


def test_fingerprints_of_earlier_versions_are_unchanged():
    """Their journals contain these digests: a change would force a new vintage, an independent release."""
    assert {name: params.fingerprint() for name, params in PROFILES.items()} == {
        "standard": "561bd49ae3b117127b44df314f7de495",
        "strict": "5aaa26cb9165099543adcc24eb7fc663",
    }
    former = PrivacyParams(profile="strict", threshold_mean=6, layer_sd=2)  # until 0.3.0
    assert former.fingerprint() == "d2e496429995c7e6c4e16181d0d257e8"
    assert PrivacyParams(low_threshold=4).fingerprint() == "08e7bc155a4cba4cc1222b194cc39d7b"


def test_the_limit_of_rows_is_part_of_the_fingerprint():
    plain = PrivacyParams()
    assert replace(plain, max_rows=1).fingerprint() == plain.fingerprint()
    marked = replace(plain, max_rows=8, detected=("max_rows",))
    assert marked.fingerprint() == replace(plain, max_rows=8).fingerprint()
    found = {replace(plain, max_rows=n).fingerprint() for n in (None, 2, 4, 8)}
    assert len(found) == 4


@pytest.mark.parametrize("max_rows", [0, -4, 3, 1 << 21])
def test_the_limit_of_rows_is_a_power_of_two(max_rows):
    with pytest.raises(SpecError, match=r"privacy\.max_rows: "):
        PrivacyParams(max_rows=max_rows)
