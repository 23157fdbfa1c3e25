"""Audits: honest generators pass, planted faults are found; the test and its power by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from audit import Mixed, raked_generator
from fixtures.mechanism import fixed_noise
from scipy import stats

from engine.evaluation.audit import (
    NO_ROOM,
    SPANNED,
    Cells,
    Extremal,
    Settings,
    audit_page,
    domain_of,
    holm,
    joint_generator,
    power_of,
    run_audit,
    safe_statistics,
    sticky_generator,
    two_sample,
)
from engine.params import PROFILES, DPParams

PAIRS = (("a", "b"), ("a", "c"), ("b", "c"))
WHOLE = (("a", "b", "c"),)


@pytest.fixture(scope="module")
def audited():
    """Domain, codes and safe pairs of three columns that hang together."""
    rng = np.random.default_rng(1)
    n = 1500
    hidden = rng.integers(0, 3, n)
    frame = pd.DataFrame(
        {
            "a": (rng.poisson(1.5, n) + hidden) % 5,
            "b": (rng.poisson(1, n) + 2 * hidden) % 4,
            "c": (hidden + rng.integers(0, 2, n)) % 2,
        }
    ).astype(str)
    domain = domain_of(frame, ["a", "b", "c"])
    return domain, domain.coded(frame, "it"), safe_statistics(domain, PAIRS)


def sticky(domain, tables):
    return sticky_generator(domain, tables, PROFILES["standard"])


def p_of(audited, generator, **more):
    _domain, codes, safe = audited
    more = {"rows": 3000, "least": 14} | more
    return run_audit(codes, safe, generator, Settings(**more))


@pytest.mark.ci
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_honest_generators_are_not_refuted(audited, seed):
    domain = audited[0]
    for honest in (sticky(domain, PAIRS), raked_generator(domain, PAIRS)):
        found = p_of(audited, honest, seed=seed)
        assert found.verdict == "not refuted"  # fixed by the seed
        assert abs(found.tests[0].copied) < 0.02


@pytest.mark.slow
def test_an_honest_release_of_mode_dp_is_not_refuted(audited, monkeypatch):
    monkeypatch.setattr("engine.measure.dp.margins.noised", fixed_noise(3))
    found = p_of(audited, joint_generator(audited[0], DPParams(epsilon=1.0, margins=PAIRS)))
    assert found.verdict == "not refuted"  # fixed by the seeds
    assert abs(found.tests[0].copied) < 0.02


@pytest.mark.parametrize("kind", ["sticky", "ipf", pytest.param("dp", marks=pytest.mark.slow)])
def test_a_generator_that_uses_all_three_columns_is_refuted(audited, kind):
    domain = audited[0]
    cheat = {
        "sticky": sticky(domain, WHOLE),
        "dp": joint_generator(domain, DPParams(epsilon=1.0, margins=WHOLE)),
        "ipf": raked_generator(domain, WHOLE),
    }[kind]
    found = p_of(audited, cheat)
    assert found.is_refuted
    assert found.p < 1e-10
    assert found.tests[0].copied == pytest.approx(1, abs=0.1)


@pytest.mark.slow
def test_a_tenth_of_a_cheat_is_found(audited):
    domain = audited[0]
    for honest, cheat in (
        (sticky(domain, PAIRS), sticky(domain, WHOLE)),
        (raked_generator(domain, PAIRS), raked_generator(domain, WHOLE)),
    ):
        found = p_of(audited, Mixed(honest, cheat, 0.1))
        assert found.p < 1e-4
        assert found.tests[0].copied == pytest.approx(0.1, abs=0.04)


def test_noise_keyed_by_what_is_secret_is_not_seen_but_suppression_by_it_is(audited):
    """A planted fault in suppression: a cell of three columns is dropped from the pairs where it is small."""
    domain, _, _ = audited

    honest = raked_generator(domain, PAIRS)

    def peeping(data, rng):
        held = data.n >= np.median(data.n)
        return honest.draw(Cells(codes=data.codes[held], n=data.n[held]), rng)

    assert p_of(audited, replace(honest, draw=peeping)).is_refuted


def test_a_generator_that_copies_exactly_or_not_at_all(audited):
    class Same:
        words = "a constant"

        def draw(self, data, rng):
            return Cells(codes=np.zeros((1, 3), dtype=np.int64), n=np.array([7]))

    class Copy:
        words = "a copy"

        def draw(self, data, rng):
            return data

    still = p_of(audited, Same())
    assert (still.p, still.tests[0].t, still.verdict) == (1.0, None, "not refuted")
    assert "draws nothing anew" in still.notes[-1]
    copied = p_of(audited, Copy())
    assert (copied.p, copied.verdict) == (0.0, "refuted")
    assert copied.tests[0].copied == pytest.approx(1)
    assert "0 (exactly" in copied.sentences()[1]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_audit(audited):
    one, other = (p_of(audited, sticky(audited[0], PAIRS), runs=3, seed=5) for _ in range(2))
    assert one.tests == other.tests
    assert one.tests != p_of(audited, sticky(audited[0], PAIRS), runs=3, seed=6).tests


@pytest.mark.ci
def test_nothing_to_test(audited):
    domain, codes, _ = audited
    spanned = run_audit(
        codes, safe_statistics(domain, WHOLE), raked_generator(domain, WHOLE), Settings()
    )
    assert (spanned.verdict, spanned.why_nothing, spanned.p) == ("nothing to test", SPANNED, None)
    assert "nothing to test" in spanned.sentences()[1].lower()
    assert "nothing to test" in audit_page(spanned).lower()
    alike = np.zeros((50, 3), dtype=np.int64)
    stuck = run_audit(alike, audited[2], raked_generator(domain, PAIRS), Settings(rows=50))
    assert (stuck.verdict, stuck.why_nothing) == ("nothing to test", NO_ROOM)


def test_the_t_test_is_scipys():
    plus, minus = [1.0, 2.0, 4.0], [0.5, 0.7, 1.2]
    nobody = Cells(codes=np.zeros((0, 1), np.int64), n=np.zeros(0, np.int64))
    ends = Extremal(plus=nobody, minus=nobody, put_back=0, smallest=9)
    found = two_sample(plus, minus, (5.0, 1.0), ends, level=0.05)
    want = stats.ttest_ind(plus, minus)
    assert found.t == pytest.approx(want.statistic)
    assert found.p == pytest.approx(want.pvalue)
    assert found.copied == pytest.approx((7 / 3 - 0.8) / 4)
    low, high = want.confidence_interval(0.95)
    assert (found.copied_low, found.copied_high) == pytest.approx((low / 4, high / 4))


@pytest.mark.parametrize(("difference", "runs"), [(0.0, 10), (1.5, 3)])
def test_power_is_how_often_the_test_finds_it(difference, runs):
    rng = np.random.default_rng(3)
    lots = rng.normal(size=(2, 20_000, runs))
    p = stats.ttest_ind(lots[0] + difference, lots[1], axis=1).pvalue
    error = np.sqrt(2 / runs)
    assert power_of(difference, error, runs, 0.05) == pytest.approx((p < 0.05).mean(), abs=0.015)
    assert power_of(1e6, error, runs, 0.05) == 1


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
