"""Marginals of mode dp: what is drawn, kept, charged and used again, and in which order."""

from __future__ import annotations

import json
import stat
import threading
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from fixtures.margins import (
    AGE,
    COLUMNS,
    EXACT,
    FRAME,
    NAMES,
    PARAMS,
    SIZES,
    counted_slowly,
    counts_of,
    make_spec,
    measure,
)
from fixtures.measure import column

from engine.errors import BudgetError, InternalError, StoreError
from engine.levels import HALF
from engine.measure.dp import balance, ledger_path, set_budget
from engine.measure.dp import margins as marginals
from engine.measure.dp.ledger import measured_folder
from engine.measure.dp.margins import noisy
from engine.progress import silent
from engine.source import open_rows

pytest.importorskip("opendp")


@pytest.fixture
def spec(tmp_path, monkeypatch):
    return make_spec(tmp_path, monkeypatch)


def nobody_draws(*_):
    pytest.fail("noise was drawn")


def test_noise_is_added_to_every_count_and_its_variance_told(spec):
    found, exact = measure(spec, replace(PARAMS, epsilon=0.1)), measure(spec, EXACT)
    for noisy_, true in zip(
        (found.total, *found.margins), (exact.total, *exact.margins), strict=True
    ):
        assert noisy_.columns == true.columns
        assert noisy_.variance > 100
        assert true.variance == 0
        # The odds of no noise at all, or of 30 standard deviations, are below one in a million here.
        assert true.n.size < 6 or (noisy_.n != true.n).any()
        assert np.abs(noisy_.n - true.n).max() < 30 * noisy_.variance**0.5


def test_no_guarantee_is_exact_and_only_the_ledger_knows(spec):
    found = measure(spec, EXACT)
    assert found.entries == ()
    assert all(m.variance == 0 for m in (found.total, *found.margins))
    assert [e.state for e in balance(spec.key_path).entries] == ["exact"]
    assert not measured_folder(spec.key_path).exists()


def test_a_public_number_of_rows_is_exact_and_costs_nothing(spec):
    found = measure(spec, replace(PARAMS, epsilon=0.01, public_n=True))
    assert found.total.n == len(FRAME)
    assert found.total.variance == 0
    assert all(m.variance > 0 for m in found.margins)


def test_the_same_measurement_is_drawn_once(spec, monkeypatch):
    first = measure(spec, PARAMS)
    monkeypatch.setattr(marginals, "noised", nobody_draws)
    again = measure(spec, PARAMS, FRAME.sample(frac=1, random_state=1))
    assert (first.is_reused, again.is_reused) == (False, True)
    assert counts_of(first) == counts_of(again)
    assert [m.variance for m in first.margins] == [m.variance for m in again.margins]
    assert first.entries == again.entries
    assert [e["state"] for e in first.entries] == ["measured"]


UNIMPORTANT = {
    "post": "paper", "sample": "multinomial", "prior": 2.0, "tolerance": 0.1, "max_cycles": 3,
    "max_cells": 5000, "budget": None,
}  # fmt: skip


@pytest.mark.ci
def test_what_happens_to_the_counts_afterwards_does_not_matter(spec):
    two = replace(PARAMS, columns=("AGE", "SEX"), margins=(("AGE", "SEX"),))
    first = measure(spec, two)
    identified = replace(spec, source=replace(spec.source, identity=NAMES))
    wider = replace(identified, columns=(*COLUMNS, column("EXTRA")))
    for again in (
        *(measure(spec, replace(two, **{name: value})) for name, value in UNIMPORTANT.items()),
        measure(replace(spec, title="another"), two),
        measure(wider, two, FRAME.assign(EXTRA=1)),
    ):
        assert again.is_reused
        assert counts_of(first) == counts_of(again)


IMPORTANT = {
    "epsilon": 2.0, "margins": (("AGE",), ("HRS", "SEX")), "strata": ("REG",), "max_rows": 2,
    "total_share": 0.5, "public_n": True, "ranges": (("HRS", 2),),
}  # fmt: skip


@pytest.mark.ci
def test_what_decides_a_measurement_has_it_measured_anew_and_charged(spec):
    params = replace(PARAMS, margins=(("AGE",), ("HRS", "SEX"), ("HRS",)))
    measure(spec, params)
    other = replace(AGE, breaks=(3, 8))
    changed = [
        *((spec, replace(params, **{name: value}), FRAME) for name, value in IMPORTANT.items()),
        (spec, replace(params, noise="gaussian", delta=1e-6), FRAME),
        (replace(spec, columns=(other, *COLUMNS[1:])), params, FRAME),
        (replace(spec, vintage="2025"), params, FRAME),
        (replace(spec, vintage="2026"), params, FRAME.head(89)),
    ]
    for number, (of_spec, of_params, frame) in enumerate(changed, 2):
        again = measure(of_spec, of_params, frame)
        assert not again.is_reused
        assert [e["state"] for e in again.entries] == ["measured"] * number


def named(spec):
    """The same spec with entities of several rows."""
    columns = (*COLUMNS, column("id"))
    return replace(spec, source=replace(spec.source, entities=("id",)), columns=columns)


TWO_ROWS = {"AGE": [1, 8, 4], "SEX": list("fmf"), "REG": list("nsn"), "HRS": [1, 5, 3], "id": [1, 1, 2]}  # fmt: skip


@pytest.mark.ci
@pytest.mark.parametrize(
    ("rows", "is_changed"), [([5, 1, 3], True), ([2, 4, 3], True), ([1, 5, 3], False)]
)
def test_a_source_that_changed_is_told_in_writing_and_changes_nothing_else(spec, rows, is_changed):
    """Two rows of one entity change places, or change while their sum does not: no column by itself tells."""
    two = replace(PARAMS, max_rows=2)
    first = measure(named(spec), two, pd.DataFrame(TWO_ROWS))
    order = [1, 2, 0]
    again = measure(named(spec), two, pd.DataFrame(TWO_ROWS | {"HRS": rows}).iloc[order])
    assert (first.is_reused, again.is_reused) == (False, True)
    assert counts_of(first) == counts_of(again)
    assert len(balance(spec.key_path).entries) == 1
    told = json.loads(again.remarks.read_text())
    assert told["source changed since it was measured"] == is_changed


def test_it_is_charged_before_the_draw_and_a_build_that_dies_stays_charged(spec, monkeypatch):
    seen = []

    def dies(*_):
        seen.append([e.state for e in balance(spec.key_path).entries])
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(marginals, "noised", dies)
        with pytest.raises(KeyboardInterrupt):
            measure(spec, PARAMS)
    assert seen == [["charged"]]
    found = measure(spec, PARAMS)
    assert [e["state"] for e in found.entries] == ["charged", "measured"]
    assert balance(spec.key_path).spent == 2


def test_a_build_that_dies_when_all_is_kept_is_not_charged_again(spec, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(
            marginals, "mark_measured", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            measure(spec, PARAMS)
    found = measure(spec, PARAMS)
    assert found.is_reused
    assert [e["state"] for e in found.entries] == ["measured"]


def test_overspending_draws_and_keeps_nothing(spec, monkeypatch):
    measure(spec, replace(PARAMS, budget=1.5))
    before = ledger_path(spec.key_path).read_text()
    monkeypatch.setattr(marginals, "noised", nobody_draws)
    with pytest.raises(BudgetError, match=r"0\.5 is left; this build asks for 0\.75"):
        measure(spec, replace(PARAMS, budget=None, epsilon=0.75))
    assert ledger_path(spec.key_path).read_text() == before
    assert len(list(measured_folder(spec.key_path).glob("*.npz"))) == 1


def test_two_builds_at_once_draw_once(spec):
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(measure(spec, PARAMS))) for _ in (1, 2, 3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(balance(spec.key_path).entries) == 1
    assert counts_of(found[0]) == counts_of(found[1]) == counts_of(found[2])
    assert sorted(f.is_reused for f in found) == [False, True, True]


@pytest.mark.ci
@pytest.mark.parametrize("how", ["a flipped bit", "empty", "another measurement"])
def test_damaged_counts_are_refused_until_they_are_removed(spec, how):
    measure(spec, PARAMS)
    (file,) = measured_folder(spec.key_path).glob("*.npz")
    data = bytearray(file.read_bytes())
    if how == "a flipped bit":
        data[len(data) // 2] ^= 1
    elif how == "another measurement":
        measure(spec, replace(PARAMS, epsilon=2.0))
        (other,) = set(measured_folder(spec.key_path).glob("*.npz")) - {file}
        data = bytearray(other.read_bytes())
    file.write_bytes(data[: {"empty": 0}.get(how)])
    with pytest.raises(StoreError, match="are damaged: restore the file; or remove it"):
        measure(spec, PARAMS)
    n_charged = len(balance(spec.key_path).entries)
    file.unlink()
    assert not measure(spec, PARAMS).is_reused
    assert len(balance(spec.key_path).entries) == n_charged + 1


def test_what_cannot_be_read_or_made(spec):
    measured_folder(spec.key_path).touch()
    with pytest.raises(StoreError, match="cannot read the measured counts"):
        measure(spec, PARAMS)
    with pytest.raises(StoreError, match="cannot make the folder"):
        marginals.make_folder(measured_folder(spec.key_path))
    assert not balance(spec.key_path).entries


def test_a_ledger_older_than_what_is_kept_is_refused(spec):
    set_budget(spec.key_path, 9)
    older = ledger_path(spec.key_path).read_text()
    measure(spec, replace(PARAMS, budget=9.0))
    ledger_path(spec.key_path).write_text(older)
    with pytest.raises(StoreError, match="restore the newest"):
        measure(spec, replace(PARAMS, budget=9.0))


def test_only_we_may_open_what_is_kept(spec):
    folder = measured_folder(spec.key_path)
    folder.mkdir(mode=0o755)
    measure(spec, PARAMS)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(p.stat().st_mode) for p in folder.iterdir()} == {0o600}


def test_a_margin_or_depth_that_nobody_paid_for_is_never_drawn(spec):
    tree = replace(PARAMS, ranges=(("HRS", 2),))
    planned = marginals.shares(tree, {"HRS": 7})
    found = measure(spec, replace(EXACT, ranges=tree.ranges))
    exact = (found.total, *found.margins)
    assert len(noisy(exact, planned, tree, silent)) == 5
    for wrong in (
        planned[:-1],
        (*planned[:-1], planned[0]),
        tuple(replace(s, depths=1) for s in planned),
    ):
        with pytest.raises(InternalError, match=r"paid for|shared out"):
            noisy(exact, wrong, tree, silent)


def kept(spec, name):
    """What a measurement drew."""
    with open_rows(spec, FRAME, silent) as opened:
        secret = opened.key.derive("fingerprint", spec.vintage)
    return marginals.read_margins(measured_folder(spec.key_path) / f"{name}.npz", name, secret)


def test_a_later_build_takes_means_with_what_was_kept_before(spec):
    """Means by precision, at no cost; the earlier build, made again, stays as it was."""
    params = replace(PARAMS, margins=(("AGE",), ("HRS", "SEX")), ranges=(("HRS", 2),))
    more = replace(params, margins=(("AGE",), ("SEX",)), epsilon=2.0)
    first, later = measure(spec, params), measure(spec, more)
    before = {m.columns: m for m in (first.total, *first.margins)}
    alone = kept(spec, balance(spec.key_path).entries[-1].id)
    for got, own in zip((later.total, *later.margins), alone, strict=True):
        if own.columns == ("SEX",):  # measured for the first time
            assert (got.variance, got.n.tolist()) == (own.variance, own.n.tolist())
            continue
        old = before[own.columns]
        a, b = 1 / own.variance, 1 / old.variance
        assert got.variance == pytest.approx(1 / (a + b) + 1 / 12)
        assert got.variance < own.variance
        depths = zip((got.n, *got.tree), (own.n, *own.tree), (old.n, *old.tree), strict=True)
        for mean, one, other in depths:
            assert np.abs(mean - (a * one + b * other) / (a + b)).max() <= 0.5 + 1e-9
    assert (first.spent.epsilon, later.spent.epsilon) == (1, 3)  # what the counts rest on
    gaussian = measure(spec, replace(more, noise="gaussian", delta=1e-6))
    assert (gaussian.spent.delta, gaussian.spent.rho) == (1e-6, 0)
    assert gaussian.spent.epsilon == pytest.approx(5, rel=1e-6)
    assert counts_of(measure(spec, params)) == counts_of(first)
    assert counts_of(measure(spec, more)) == counts_of(later)
    assert len(balance(spec.key_path).entries) == 3


@pytest.mark.ci
@pytest.mark.parametrize(
    "what", ["vintage", "stability", "rows of an entity", "columns", "a public number"]
)
def test_counts_of_other_rows_are_left_alone(spec, what):
    measure(spec, PARAMS)
    params = replace(PARAMS, epsilon=0.5)
    if what == "rows of an entity":
        params = replace(params, max_rows=2)
    if what == "stability":
        params = replace(params, stability=1)
    if what == "columns":
        params = replace(params, columns=("AGE", "SEX"), margins=(("AGE",), ("AGE", "SEX")))
    if what == "a public number":
        params = replace(params, public_n=True)
    found = measure(replace(spec, vintage="2025") if what == "vintage" else spec, params)
    planned = marginals.shares(params, {})
    if what == "a public number":
        assert found.total.n == len(FRAME)
        assert all(
            m.variance < share.variance for m, share in zip(found.margins, planned, strict=True)
        )
    else:
        margins = (found.total, *found.margins)
        assert [m.variance for m in margins] == [share.variance for share in planned]


def test_counts_kept_by_a_version_that_did_not_note_the_rows_are_used_for_their_own_build_only(
    spec,
):
    first = measure(spec, PARAMS)
    (file,) = measured_folder(spec.key_path).glob("*.npz")
    with open_rows(spec, FRAME, silent) as opened:
        secret = opened.key.derive("fingerprint", spec.vintage)
    marginals.write_margins(file, kept(spec, file.stem), file.stem, secret, "")
    assert counts_of(measure(spec, PARAMS)) == counts_of(first)
    other = replace(PARAMS, epsilon=0.5)
    assert measure(spec, other).total.variance == marginals.shares(other, {})[0].variance


def test_one_entity_changes_a_score_by_no_more_than_its_rows(monkeypatch):
    """Scores see true counts: whatever they are compared with, they change as little as a count does."""
    rng, seen = np.random.default_rng(5), []
    pairs = (("AGE", "HRS"), ("HRS", "SEX"), ("AGE", "SEX"))
    params = replace(
        PARAMS, margins=(("AGE",), ("HRS",), ("SEX",)), candidates=pairs, allocation="equal"
    )
    estimates = {one: rng.random([SIZES[name] for name in one]) * 9 for one in pairs}

    def no_noise(counts, _noise, _scale):
        seen.append(counts)
        return counts

    monkeypatch.setattr(marginals, "noised", no_noise)
    for max_rows in (1, 3):
        for _ in range(30):
            frame = FRAME.sample(40, random_state=int(rng.integers(1000)))
            scores = []
            for rows in (frame, frame[max_rows:]):
                seen.clear()
                exact = [marginals.Margin(columns=(), n=np.array(len(rows)), variance=0.0)]
                exact += [
                    marginals.Margin(columns=one, n=counted_slowly(rows, one), variance=0.0)
                    for one in (*params.margins, *pairs)
                ]
                marginals.drawn(
                    tuple(exact), params, SIZES, lambda _m, _n, one: estimates[one], silent
                )
                scores.append(seen[4])  # after the total and three columns
            assert np.abs(scores[0] - scores[1]).max() <= max_rows


def test_margins_are_chosen_once_and_charged_as_declared(spec):
    """The choice is kept with the counts; what is chosen is never charged beyond the build's epsilon."""
    pairs = (("AGE", "HRS"), ("AGE", "SEX"), ("HRS", "SEX"))
    params = replace(PARAMS, margins=(("AGE",), ("HRS",), ("SEX",)), candidates=pairs)

    def even(margins, total, columns):
        shape = [SIZES[name] for name in columns]
        return np.full(shape, float(total.n) / np.prod(shape))

    first = measure(spec, params, expected=even)
    chosen = {one.columns for one in first.margins if len(one.columns) == 2}
    assert chosen
    assert chosen <= {*pairs}
    assert {one.columns for one in first.margins} - chosen == {*params.margins}
    again = measure(spec, params, expected=even)
    assert counts_of(again) == counts_of(first)
    assert [entry.epsilon for entry in balance(spec.key_path).entries] == [1.0]
    with pytest.raises(InternalError):
        measure(spec, replace(params, epsilon=2.0))


def test_sums_by_hand_and_what_one_entity_changes(spec):
    """AGE has groups 0-2, 3-6 and 7-9; half of the widest, 1.5 years, is HALF."""
    sums = (("AGE", ()), ("AGE", ("REG",)))

    def exact(frame):
        found = measure(spec, replace(EXACT, sum_tables=sums), frame)
        return {m.measured: m.n for m in found.margins if m.sum_of}

    middle = {**dict.fromkeys(range(3), 1), **dict.fromkeys(range(3, 7), 4.5)}
    above = [
        0 if pd.isna(age) else round(HALF * (age - middle.get(age, 8)) / 1.5)
        for age in FRAME["AGE"]
    ]
    by_region = FRAME.assign(above=above).groupby("REG")["above"].sum()
    got = exact(FRAME)
    assert got[(), "AGE"].tolist() == sum(above)
    assert got[("REG",), "AGE"].tolist() == by_region.tolist()
    for without in range(1, 30, 7):
        less = exact(FRAME.drop(index=without))
        changed = {name: np.abs(less[name] - got[name]) for name in got}
        assert all(one.sum() <= HALF for one in changed.values())


def test_sums_are_drawn_once_and_kept(spec):
    params = replace(PARAMS, sum_tables=(("AGE", ()), ("AGE", ("REG",))))
    first, again = measure(spec, params), measure(spec, params)
    assert [m.measured for m in first.margins if m.sum_of] == [((), "AGE"), (("REG",), "AGE")]
    assert [m.n.tolist() for m in first.margins] == [m.n.tolist() for m in again.margins]
    assert len(first.counts) == len(PARAMS.margins)
    assert [entry.epsilon for entry in balance(spec.key_path).entries] == [1.0]
    measure(spec, PARAMS)  # without sums it is another measurement
    assert len(balance(spec.key_path).entries) == 2
