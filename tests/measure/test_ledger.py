"""The ledger beside the key: pinned, charged before the draw, never overspent, never taken for empty."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from hashlib import blake2b

import pytest

from engine.errors import BudgetError, InternalError, SpecError, StoreError
from engine.key_files import new_key
from engine.measure.dp import balance, ledger_path, set_budget
from engine.measure.dp.ledger import charge, mark_measured, measured_folder, note_exact
from engine.params import DPParams
from engine.source import begin_ledger
from engine.source.journal import journal_path

pytest.importorskip("opendp")

PURE = DPParams(epsilon=0.25, columns=("A", "B"), margins=(("A", "B"),))
ROUND = replace(PURE, noise="gaussian", delta=1e-6)


@pytest.fixture
def key(tmp_path):
    new_key(tmp_path / "my.key")
    begin_ledger(tmp_path / "my.key")
    return tmp_path / "my.key"


def spend(key, params=PURE, id="m1", **more):
    told = {"vintage": "2024", "title": "a census", "margins": 1}
    return charge(key, params, id=id, **told | more)


def test_the_first_build_pins_its_own_epsilon(key):
    entry = spend(key)
    assert (entry.number, entry.state, entry.budget, entry.epsilon) == (1, "charged", 0.25, 0.25)
    found = balance(key)
    assert (found.budget, found.spent, found.left) == (0.25, 0.25, 0)
    assert found.entries == (entry,)
    assert ledger_path(key).name == "my.key.ledger.json"


def test_it_composes_over_vintages_titles_and_measurements_and_stops_at_the_budget(key):
    told = replace(PURE, budget=1.0)
    for number in range(4):
        spend(key, told, id=f"m{number}", vintage=str(2020 + number), title=f"t{number}")
    before = ledger_path(key).read_text()
    with pytest.raises(BudgetError) as caught:
        spend(key, replace(told, epsilon=0.01), id="m9", vintage="2030")
    assert caught.value.exit_code == 3
    for said in ("epsilon 1,", "1 is spent", "0 is left", "asks for 0.01", "--set 1.01"):
        assert said in str(caught.value)
    assert ledger_path(key).read_text() == before
    assert balance(key).spent == 1


@pytest.mark.parametrize(("n", "epsilon", "budget"), [(3, 0.1, 0.3), (10, 0.1, 1.0), (7, 0.7, 4.9)])
def test_rounding_neither_refuses_nor_gives_away(key, n, epsilon, budget):
    told = replace(PURE, epsilon=epsilon, budget=budget)
    for _ in range(n):
        spend(key, told)
    assert balance(key).left == 0
    with pytest.raises(BudgetError):
        spend(key, replace(told, epsilon=1e-9))


def test_a_budget_below_the_first_build_is_refused_and_pins_nothing(key):
    with pytest.raises(BudgetError, match="would be overspent"):
        spend(key, replace(PURE, budget=0.2))
    assert not balance(key).entries


def test_another_budget_in_a_later_spec_is_refused(key):
    spend(key, replace(PURE, budget=1.0))
    with pytest.raises(BudgetError, match=r"dp\.budget is 4, .* pinned to 1\..*--set 4"):
        spend(key, replace(PURE, budget=4.0))
    spend(key)  # a spec that tells none falls under the pinned one
    spend(key, replace(PURE, budget=1.0))
    assert balance(key).spent == 0.75


def test_the_custodian_sets_the_budget_and_that_is_written_down(key):
    spend(key)
    found = set_budget(key, 0.5)
    assert (found.budget, found.spent, found.left) == (0.5, 0.25, 0.25)
    assert [e.state for e in balance(key).entries] == ["charged", "budget set"]
    assert balance(key) == found
    spend(key)
    with pytest.raises(BudgetError, match=r"epsilon 0\.5 is spent already"):
        set_budget(key, 0.49)
    assert balance(key).budget == 0.5
    assert set_budget(key, 0.5).left == 0


def test_a_budget_may_be_set_before_any_build(key):
    assert set_budget(key, 2).left == 2
    spend(key)
    assert balance(key).budget == 2


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf")])
def test_no_budget(key, bad):
    with pytest.raises(SpecError, match="above 0"):
        set_budget(key, bad)
    with pytest.raises(SpecError, match="delta"):
        set_budget(key, 1, bad if bad else 1.0)
    assert not balance(key).entries


def test_gaussian_builds_add_up_in_zcdp_and_are_converted_once(key):
    set_budget(key, 1.0)
    spend(key, ROUND)
    alone = balance(key)
    assert alone.delta == 1e-6
    assert 0.2499 < alone.spent <= 0.25
    for number in range(5):
        spend(key, ROUND, id=f"m{number}")
    assert balance(key).spent < 0.7  # the epsilons alone sum to 1.5
    pure = balance(key).spent
    spend(key)  # Laplace on top: its epsilon adds
    assert balance(key).spent == pytest.approx(pure + 0.25, rel=1e-12)


def test_the_first_build_that_needs_a_delta_pins_it(key):
    set_budget(key, 9.0)
    spend(key)
    assert balance(key).delta == 0
    spend(key, ROUND)
    spend(key, replace(ROUND, delta=1e-9))  # told at the pinned one, where it costs less
    assert balance(key).delta == 1e-6
    before = ledger_path(key).read_text()
    with pytest.raises(BudgetError, match=r"stated at delta 1e-06: give dp\.delta that"):
        spend(key, replace(ROUND, delta=1e-3))
    assert ledger_path(key).read_text() == before
    assert set_budget(key, 9, 1e-3).spent < 0.7
    spend(key, replace(ROUND, delta=1e-3))


def test_a_smaller_delta_must_still_fit_what_is_spent(key):
    spend(key, ROUND)
    with pytest.raises(BudgetError, match="at delta 1e-12 is spent already"):
        set_budget(key, 0.25, 1e-12)


def test_measured_marks_the_last_charge_of_a_measurement(key):
    spend(key, replace(PURE, budget=1.0))
    spend(key)  # the first build died before its counts were kept
    mark_measured(key, "m1")
    assert [e.state for e in balance(key).entries] == ["charged", "measured"]
    before = ledger_path(key).stat().st_mtime_ns
    mark_measured(key, "m1")
    assert ledger_path(key).stat().st_mtime_ns == before
    with pytest.raises(InternalError, match="nobody paid for"):
        mark_measured(key, "m2")


def test_what_is_public_is_told_without_the_id(key):
    told = spend(key).public()
    assert told == {
        "number": 1, "state": "charged", "vintage": "2024", "title": "a census", "noise": "laplace",
        "margins": 1, "epsilon": 0.25, "delta": 0.0, "rho": 0.0, "budget": 0.25, "budget_delta": 0.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["", "{", "null", "[]", "7", "{}", '{"format": 1}', '{"format": 1, "entries": [], "digest": ""}',
     '{"format": 2, "entries": [], "digest": "x"}'],
)  # fmt: skip
def test_a_ledger_that_cannot_be_read_is_never_taken_for_an_empty_one(key, text):
    ledger_path(key).write_text(text)
    for attempt in (
        lambda: balance(key),
        lambda: spend(key),
        lambda: set_budget(key, 3),
        lambda: mark_measured(key, "m1"),
    ):
        with pytest.raises(StoreError, match="cannot be read, or was changed by hand"):
            attempt()
    assert ledger_path(key).read_text() == text


@pytest.mark.parametrize("how", ["epsilon", "budget", "dropped", "another field"])
def test_an_edited_ledger_is_refused(key, how):
    spend(key, replace(PURE, budget=1.0))
    spend(key)
    raw = json.loads(ledger_path(key).read_text())
    if how == "dropped":
        raw["entries"].pop()
    else:
        raw["entries"][0][how] = 0.001
    ledger_path(key).write_text(json.dumps(raw))
    with pytest.raises(StoreError, match=r"changed by hand|lacks entries"):
        balance(key)


def test_a_ledger_older_than_what_is_kept_is_refused_whatever_is_asked(key):
    """Rolled back, it would give spent epsilon away: to a new measurement, too."""
    spend(key, replace(PURE, budget=0.5))
    older = ledger_path(key).read_text()
    spend(key, id="m2")
    measured_folder(key).mkdir()
    (measured_folder(key) / "m2.npz").touch()
    assert balance(key).left == 0
    ledger_path(key).write_text(older)
    for attempt in (lambda: balance(key), lambda: spend(key, id="m3"), lambda: set_budget(key, 3)):
        with pytest.raises(StoreError, match="not the newest one; restore the newest"):
            attempt()
    assert ledger_path(key).read_text() == older


@pytest.mark.parametrize("mask", [0, 0o77])
def test_only_we_may_read_it(key, mask):
    before = os.umask(mask)
    try:
        spend(key)
    finally:
        os.umask(before)
    assert {stat.S_IMODE(p.stat().st_mode) for p in key.parent.iterdir()} == {0o600}


def test_it_is_on_disk_before_the_charge_returns(key, monkeypatch):
    synced = []
    real = os.fsync

    def note(handle):
        synced.append(stat.S_ISDIR(os.fstat(handle).st_mode))
        real(handle)

    monkeypatch.setattr(os, "fsync", note)
    spend(key)
    assert synced == [False, True] * 2  # the ledger and its folder, then the journal and its folder


def test_a_full_disk_leaves_the_old_ledger_and_ends_the_build(key, monkeypatch):
    spend(key, replace(PURE, budget=1.0))
    before = ledger_path(key).read_text()

    def full(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="cannot write the ledger"):
        spend(key)
    assert ledger_path(key).read_text() == before


def test_a_key_without_a_ledger_is_refused_until_its_custodian_begins_one(key):
    """A renamed key, a link to it, a key that lost everything beside it."""
    spend(key)
    other = key.with_name("renamed.key")
    os.link(key, other)
    for attempt in (
        lambda: spend(other),
        lambda: note_exact(other, id="x", vintage="v", title="t", margins=1),
    ):
        with pytest.raises(StoreError, match="has no ledger"):
            attempt()
    set_budget(other, 2)
    spend(other)
    assert (balance(key).is_whole, balance(other).is_whole) == (True, False)


@pytest.mark.parametrize("lost", ["the ledger", "the journal", "an older ledger", "another key's"])
def test_what_was_spent_is_never_regained(key, lost):
    spend(key, replace(PURE, budget=1.0))
    older = ledger_path(key).read_bytes()
    spend(key)
    spend(key)
    if lost == "the ledger":
        ledger_path(key).unlink()
    elif lost == "the journal":
        journal_path(key).unlink()
    elif lost == "an older ledger":
        ledger_path(key).write_bytes(older)
    else:
        new_key(key.with_name("b.key"))
        begin_ledger(key.with_name("b.key"))
        ledger_path(key).write_bytes(ledger_path(key.with_name("b.key")).read_bytes())
    for attempt in (lambda: balance(key), lambda: spend(key), lambda: set_budget(key, 9)):
        with pytest.raises(StoreError):
            attempt()


def test_a_ledger_of_the_first_form_is_read_and_then_sealed(key):
    spend(key, replace(PURE, budget=1.0))
    rows = json.loads(ledger_path(key).read_text())["entries"]
    for row in rows:
        del row["seal"]
    digest = blake2b(json.dumps(rows, sort_keys=True).encode(), digest_size=16).hexdigest()
    first = json.dumps({"format": 1, "entries": rows, "digest": digest})
    ledger_path(key).write_text(first)
    with pytest.raises(StoreError):  # the journal knows that it was sealed
        balance(key)
    journal_path(key).unlink()
    assert balance(key).spent == 0.25
    spend(key)
    assert json.loads(ledger_path(key).read_text())["format"] == 2
    assert balance(key).spent == 0.5


def test_exact_counts_are_written_down_once_and_pin_no_budget(key):
    for _ in range(2):
        note_exact(key, id="x", vintage="v", title="t", margins=1)
    assert (balance(key).exact, balance(key).budget) == (1, None)
    spend(key)
    assert (balance(key).exact, balance(key).budget, balance(key).spent) == (1, 0.25, 0.25)
