from __future__ import annotations

import math

import numpy as np
import pytest
from fixtures.measure import chi_square_z, gaussian_bins
from hypothesis import given
from hypothesis import strategies as st
from oracles.siphash_oracle import siphash24

from engine.sticky_prf import (
    CHUNK,
    MAX_TABLE_LOG2_SD,
    gaussian_table,
    integer_gaussian,
    passes_threshold,
    siphash,
    siphash128,
)

SIP_KEY = bytes(range(16))
TOP = np.uint64(2**64 - 1)
word = st.integers(min_value=0, max_value=2**64 - 1)


def words_of(message: bytes) -> list[np.ndarray]:
    return [np.frombuffer(message[i : i + 8], dtype="<u8") for i in range(0, len(message), 8)]


def test_the_oracle_gives_the_published_vectors():
    assert siphash24(SIP_KEY, bytes(range(15)))[::-1].hex() == "a129ca6149be45e5"
    assert siphash24(SIP_KEY, b"", wide=True).hex() == "a3817f04ba25a8e66df67214c7550293"
    # vectors.h of the reference code, as bytes: lengths 0, 8, 16 and 63
    assert siphash24(SIP_KEY, b"").hex() == "310e0edd47db6f72"
    assert siphash24(SIP_KEY, bytes(range(8))).hex() == "6224939a79f5f593"
    assert siphash24(SIP_KEY, bytes(range(16))).hex() == "db9bc2577fcc2a3f"
    assert siphash24(SIP_KEY, bytes(range(63))).hex() == "724506eb4c328a95"


@pytest.mark.parametrize("length", [8, 16, 24, 32, 248, 256, 264])
def test_siphash_known_answers(length):
    message = bytes(i & 0xFF for i in range(length))
    words = words_of(message)
    assert siphash(SIP_KEY, words).astype("<u8").tobytes() == siphash24(SIP_KEY, message)
    assert siphash128(SIP_KEY, words).astype("<u8").tobytes() == siphash24(
        SIP_KEY, message, wide=True
    )


@given(
    st.lists(st.tuples(word, word, word), min_size=1, max_size=5),
    st.binary(min_size=16, max_size=40),
)
def test_siphash_equals_the_oracle(messages, key):
    columns = [np.array(part, dtype=np.uint64) for part in zip(*messages, strict=True)]
    fast, fast_wide = siphash(key, columns), siphash128(key, columns)
    for i, message in enumerate(messages):
        raw = b"".join(part.to_bytes(8, "little") for part in message)
        assert fast[i : i + 1].astype("<u8").tobytes() == siphash24(key[:16], raw)
        assert fast_wide[i].astype("<u8").tobytes() == siphash24(key[:16], raw, wide=True)


def test_siphash_is_independent_of_other_messages_and_leaves_its_input_unchanged():
    rng = np.random.default_rng(3)
    words = [rng.integers(0, 2**64, size=CHUNK + 5, dtype=np.uint64) for _ in range(3)]
    before = [w.copy() for w in words]
    whole, wide = siphash(SIP_KEY, words), siphash128(SIP_KEY, words)
    for at in (0, 1, CHUNK - 1, CHUNK, CHUNK + 4):
        alone = [w[at : at + 1] for w in words]
        assert siphash(SIP_KEY, alone)[0] == whole[at]
        assert siphash128(SIP_KEY, alone)[0].tolist() == wide[at].tolist()
    assert all((a == b).all() for a, b in zip(before, words, strict=True))
    nothing = [w[:0] for w in words]
    assert siphash(SIP_KEY, nothing).shape == (0,)
    assert siphash128(SIP_KEY, nothing).shape == (0, 2)


def test_one_flipped_bit_changes_half_of_the_output():
    rng = np.random.default_rng(4)
    words = [rng.integers(0, 2**64, size=20_000, dtype=np.uint64) for _ in range(2)]
    base = siphash(SIP_KEY, words)
    for which, bit in ((0, 0), (0, 63), (1, 31)):
        other = [w.copy() for w in words]
        other[which] ^= np.uint64(1 << bit)
        changed = np.bitwise_count(base ^ siphash(SIP_KEY, other)).mean() / 64
        assert abs(changed - 0.5) < 0.01


def test_gaussian_table_is_the_discrete_gaussian():
    for log2_sd in (0, 2, 5):
        first, thresholds = gaussian_table(log2_sd)
        sd = 2.0**log2_sd
        ks = np.arange(first, -first + 1)
        share = np.exp(-(ks**2) / (2 * sd * sd))
        edges = np.cumsum(share / share.sum())[:-1]
        assert len(thresholds) == 2 * -first
        assert np.all(np.diff(thresholds.astype(object)) >= 0)
        np.testing.assert_allclose(
            thresholds.astype(float) / 2.0**64, edges, rtol=1e-11, atol=2**-63
        )


def test_gaussian_known_answers():
    assert gaussian_table(0)[0] == -9
    assert [int(t) for t in gaussian_table(0)[1][6:12]] == [
        84249442284977801,
        1080206978517033880,
        5543778983169066799,
        12902965090540484816,
        17366537095192517735,
        18362494631424573814,
    ]
    assert int(gaussian_table(10)[1][9216]) == 9226965389465492264


@pytest.mark.parametrize("log2_sd", [0, 3, MAX_TABLE_LOG2_SD, MAX_TABLE_LOG2_SD + 1, 12, 20])
def test_gaussians_are_symmetric_monotone_and_bounded(log2_sd):
    bits = np.array([0, 2**62, 2**63 - 1, 2**63, 2**63 + 2**62, 2**64 - 1], dtype=np.uint64)
    drawn = integer_gaussian(bits, log2_sd)
    assert drawn.dtype == np.int64
    sd = 2**log2_sd
    assert -9.1 * sd <= drawn[0] <= -8 * sd
    assert 8 * sd <= drawn[-1] <= 9.1 * sd
    assert abs(drawn[1] + 0.6745 * sd) <= 0.002 * sd + 1  # the quartiles
    assert abs(drawn[4] - 0.6745 * sd) <= 0.002 * sd + 1


@pytest.mark.parametrize("log2_sd", [0, 2, 8, MAX_TABLE_LOG2_SD + 2])
def test_gaussians_of_random_bits(log2_sd):
    bits = np.random.default_rng(log2_sd).integers(0, 2**64, size=100_000, dtype=np.uint64)
    drawn, sd = integer_gaussian(bits, log2_sd), 2.0**log2_sd
    assert abs(chi_square_z(*gaussian_bins(drawn, sd))) < 4.89
    assert abs(drawn.mean()) < 5 * sd / math.sqrt(len(drawn)) + (0.5 if log2_sd > 10 else 0)
    assert abs(drawn.var() / sd**2 - 1) < 6 * math.sqrt(2 / len(drawn))
    assert abs(((drawn / sd) ** 4).mean() - 3) < 6 * math.sqrt(96 / len(drawn))
    for wrong in (0.7, 1.3):
        assert chi_square_z(*gaussian_bins(drawn, sd * wrong)) > 50


def test_large_scales_fill_their_low_bits_evenly():
    spare = 3
    bits = np.random.default_rng(9).integers(0, 2**64, size=80_000, dtype=np.uint64)
    drawn = integer_gaussian(bits, MAX_TABLE_LOG2_SD + spare)
    seen = np.bincount(drawn % 2**spare, minlength=2**spare)
    assert abs(chi_square_z(seen, np.full(2**spare, len(drawn) / 2**spare))) < 4.89


def test_the_threshold_is_a_normal_one():
    edge = {z: 0.5 * math.erfc(-z / math.sqrt(2)) for z in range(-9, 10)}
    for z, phi in edge.items():
        n = np.array([20 + z, 20 + z], dtype=np.int64)
        below, above = phi * (1 - 1e-9) - 2**-64, phi * (1 + 1e-9) + 2**-64
        around = np.array([below, min(above, 1 - 2**-53)]) * 2.0**64
        passed = passes_threshold(n, around.astype(np.uint64), 20)
        assert passed.tolist() == [True, z == 9]


def test_the_threshold_far_from_its_mean():
    n = np.array([0, -5, 40, 29, 10**12], dtype=np.int64)
    assert passes_threshold(n, np.full(5, TOP), 20).tolist() == [False, False, True, True, True]
    assert passes_threshold(n[:2], np.full(2, np.uint64(1000)), 20).tolist() == [False, False]
