"""The ledger beside the key: what was ever measured with it, and what may still be.

Takes what a build is about to spend; writes it down, synced to disk, before anything is drawn, or refuses. A key
stands for one population of entities: everything measured with it composes, of whatever vintage, table or source.
A build that dies after it was charged stays charged, and is charged again when it measures again; a measurement
that was kept is used again at no cost (`engine.measure.dp.margins`). Exact counts (`guarantee = false`) stand here,
too; sticky releases stand in the ledger of exposure, and are counted from there. Neither has an epsilon, so a balance
tells them beside what was spent.

The budget is a pair (epsilon, delta). Its epsilon is pinned by the first build: the `budget` of its spec, or its own
epsilon. Its delta is pinned by the first build that needs one. Afterwards only the custodian changes them, by
`set_budget`, which is written down like a build. A build with a smaller delta is composed at the pinned one, a
build with a larger one is refused. Builds with Gaussian noise add up in zCDP and are converted once.

The file is sealed with the key (`engine.source.sealed`). One that is gone, older or another key's is refused; so is a
key without one, until its custodian begins a ledger by `set_budget`, and then every release says that nobody knows what
was spent before. People measured with two keys are protected by the sum of two ledgers, and neither knows of the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from engine.errors import BudgetError, InternalError, SpecError, StoreError
from engine.measure.dp.accounting import Cost, composed, cost, decimal
from engine.params import DPParams
from engine.source import charges, ledger_path, locked, read_entries, write_entries

State = Literal["charged", "measured", "exact", "budget set", "begun"]
_FREE = ("exact", "budget set", "begun")
"""States of entries that have no epsilon."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One line of the ledger: a build that was charged, or a budget that was set."""

    number: int  # From 1, in the order of writing
    # "charged": before the draw. "measured": the noisy counts are kept. "exact": counted without noise, and without a
    # guarantee. "budget set": nothing was spent. "begun": the same, on a key that had no ledger.
    state: State
    id: str = ""  # Name of the measurement, a keyed digest
    vintage: str = ""
    title: str = ""
    noise: str = ""
    margins: int = 0  # Number of margins, without the total
    # epsilon, delta, rho: What the build cost by itself; rho is 0 with Laplace noise.
    epsilon: float = 0.0
    delta: float = 0.0
    rho: float = 0.0
    # budget, budget_delta: The budget as it stands from here on.
    budget: float
    budget_delta: float

    def public(self) -> dict[str, Any]:
        """Plain values for a release: all but the id, which follows from the data."""
        return {name: value for name, value in asdict(self).items() if name != "id"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Balance:
    """Where a ledger stands."""

    budget: float | None  # Epsilon that may be spent in all; None: no ledger yet
    delta: float  # At which everything is stated; 0: no build needed one yet
    spent: float  # Epsilon of everything together, at `delta`
    # What a build with Laplace noise may still cost; one with Gaussian noise may fit although its own
    # epsilon is larger.
    left: float | None
    entries: tuple[Entry, ...]
    # exact, sticky: Builds with this key that have no epsilon: of exact counts, and of mode sticky.
    exact: int = 0
    sticky: int = 0
    is_whole: bool = True  # The ledger was there from the key's first day

    def public(self, *more: Cost) -> dict[str, Any]:
        """What all builds with the key come to, with more that are not written down yet; in plain values."""
        builds = sum(entry.state not in _FREE for entry in self.entries) + len(more)
        delta = max([self.delta, *(cost.delta for cost in more)])
        return {
            "spent": spent_by(self.entries, delta, *more),
            "delta": delta,
            "builds": builds,
            "exact": self.exact,
            "sticky": self.sticky,
            "is_whole": self.is_whole,
        }


def measured_folder(key_path: Path) -> Path:
    """Where the noisy counts of a key file are kept."""
    return key_path.with_name(key_path.name + ".measured")


def balance(key_path: Path) -> Balance:
    """Where the ledger of a key stands; an empty balance if nothing was ever measured or set."""
    return _balance_of(_read(key_path), key_path)


def note_exact(key_path: Path, *, id: str, vintage: str, title: str, margins: int) -> None:
    """Write down that counts are used without noise; once for the same counts."""
    with locked(ledger_path(key_path)):
        entries = _read(key_path, must_be_there=True)
        if any(entry.id == id and entry.state == "exact" for entry in entries):
            return
        last = entries[-1] if entries else None
        entry = Entry(
            number=len(entries) + 1,
            state="exact",
            id=id,
            vintage=vintage,
            title=title,
            margins=margins,
            budget=last.budget if last else 0.0,
            budget_delta=last.budget_delta if last else 0.0,
        )
        _write(key_path, (*entries, entry))


def charge(
    key_path: Path, params: DPParams, *, id: str, vintage: str, title: str, margins: int
) -> Entry:
    """Write down what a build is about to spend, synced to disk; to be called before anything is drawn.

    params: Say what it costs; their budget, where given, must be the pinned one.
    """
    if not params.is_protected:
        raise InternalError("what guarantees nothing is never charged")
    spends = cost(params)
    with locked(ledger_path(key_path)):
        entries = _read(key_path, must_be_there=True)
        last = _last_pinned(entries)
        budget, delta = _pinned(key_path, last, params, spends)
        entry = Entry(
            number=len(entries) + 1,
            state="charged",
            id=id,
            vintage=vintage,
            title=title,
            noise=params.noise,
            margins=margins,
            epsilon=spends.epsilon,
            delta=spends.delta,
            rho=spends.rho,
            budget=budget,
            budget_delta=delta,
        )
        _refuse_overspending(key_path, entries, entry)
        _write(key_path, (*entries, entry))
    return entry


def mark_measured(key_path: Path, id: str) -> None:
    """Note that the noisy counts of a measurement are kept: its last entry is no longer merely charged."""
    with locked(ledger_path(key_path)):
        entries = list(_read(key_path))
        paid = [place for place, entry in enumerate(entries) if entry.id == id]
        if not paid:
            raise InternalError("a measurement that nobody paid for is never marked as kept")
        if entries[paid[-1]].state == "charged":
            entries[paid[-1]] = replace(entries[paid[-1]], state="measured")
            _write(key_path, entries)


def set_budget(key_path: Path, epsilon: float, delta: float | None = None) -> Balance:
    """Change the budget by the custodian's own act, and write that down."""
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise SpecError("the budget must be a number above 0")
    if delta is not None and not 0 < delta < 1:
        raise SpecError("the budget's delta must lie between 0 and 1")
    with locked(ledger_path(key_path)):
        entries = _read(key_path)
        is_begun = bool(entries) or read_entries(key_path) is not None
        known = entries[-1].budget_delta if entries else 0.0
        at = known if delta is None else delta
        spent = spent_by(entries, at)
        if not spent <= epsilon:
            raise BudgetError(
                f"epsilon {decimal_text(spent)}{_at(at)} is spent already: the budget cannot be less"
            )
        entry = Entry(
            number=len(entries) + 1,
            state="budget set" if is_begun else "begun",
            budget=float(epsilon),
            budget_delta=at,
        )
        _write(key_path, (*entries, entry))
    return _balance_of((*entries, entry), key_path)


def _last_pinned(entries: Sequence[Entry]) -> Entry | None:
    """The last entry if there is a budget: exact counts alone pin none."""
    return entries[-1] if entries and entries[-1].budget > 0 else None


def _pinned(
    key_path: Path, last: Entry | None, params: DPParams, spends: Cost
) -> tuple[float, float]:
    """The budget that a build falls under, and its delta; pinned now where they are not yet."""
    if last is None:
        return params.budget or spends.epsilon, spends.delta
    if params.budget is not None and params.budget != last.budget:
        raise BudgetError(
            f"dp.budget is {decimal_text(params.budget)}, but the ledger {ledger_path(key_path)} is pinned to "
            f"{decimal_text(last.budget)}. Leave dp.budget out, or change the ledger: "
            f"tablepack budget {key_path} --set {decimal_text(params.budget)}"
        )
    if spends.delta > last.budget_delta > 0:
        raise BudgetError(
            f"dp.delta is {spends.delta:g}, but the ledger {ledger_path(key_path)} is stated at delta "
            f"{last.budget_delta:g}: give dp.delta that, or less"
        )
    return last.budget, last.budget_delta or spends.delta


def _refuse_overspending(key_path: Path, entries: Sequence[Entry], entry: Entry) -> None:
    """Raise if an entry does not fit into the budget that it stands under."""
    before = spent_by(entries, entry.budget_delta)
    after = spent_by((*entries, entry), entry.budget_delta)
    if not after <= entry.budget:  # NaN never fits; ten times 0.1 is 1: see `composed`
        raise BudgetError(
            f"the budget of key {key_path} would be overspent: of epsilon {entry.budget:.6g}"
            f"{_at(entry.budget_delta)}, {before:.6g} is spent and {max(entry.budget - before, 0):.6g} is left; this "
            f"build asks for {after - before:.6g}. Nothing was measured. Ask for less, or raise the budget: "
            f"tablepack budget {key_path} --set {decimal_text(after)}"
        )


def decimal_text(number: float) -> str:
    """A number to be typed in again: short where nothing is lost by it, else in full."""
    short = f"{number:g}"
    return short if float(short) == number else repr(number)


def _at(delta: float) -> str:
    """The delta, where there is one."""
    return f" at delta {delta:g}" if delta else ""


def spent_by(entries: Sequence[Entry], delta: float, *more: Cost) -> float:
    """Epsilon of all builds together, and of more that are not written down yet."""
    builds = (e for e in entries if e.state not in _FREE)
    return composed([*map(cost_of, builds), *more], delta)


def cost_of(entry: Entry) -> Cost:
    """What one build was charged."""
    return Cost(epsilon=entry.epsilon, delta=entry.delta, rho=entry.rho)


def _balance_of(entries: Sequence[Entry], key_path: Path) -> Balance:
    """The balance of some entries."""
    others: dict[str, Any] = {
        "exact": sum(entry.state == "exact" for entry in entries),
        "sticky": len(charges(key_path)),
        "is_whole": all(entry.state != "begun" for entry in entries),
    }
    last = _last_pinned(entries)
    if last is None:
        return Balance(
            budget=None, delta=0.0, spent=0.0, left=None, entries=tuple(entries), **others
        )
    spent = spent_by(entries, last.budget_delta)
    return Balance(
        budget=last.budget,
        delta=last.budget_delta,
        spent=spent,
        left=max(float(decimal(last.budget) - decimal(spent)), 0.0),
        entries=tuple(entries),
        **others,
    )


def _read(key_path: Path, *, must_be_there: bool = False) -> tuple[Entry, ...]:
    """All entries; none if there is no ledger yet."""
    path = ledger_path(key_path)
    # Listed before the ledger is read: what another build keeps meanwhile was written down before.
    stored = {file.stem for file in measured_folder(key_path).glob("*.npz")}
    rows = read_entries(key_path)
    if rows is None:
        if stored:
            raise StoreError(f"the ledger {path} is gone, but measurements are kept: restore it")
        if must_be_there:
            raise StoreError(
                f"the key {key_path} has no ledger, so it was renamed, moved or linked without the files beside it, or "
                f"made by an older version. Put {path.name} back beside it; or use a new key. If it was never used in "
                f"mode dp, begin a ledger (every release will say that it was begun late): tablepack budget {key_path} "
                "--set EPSILON"
            )
        return ()
    entries = _entries(path, rows)
    if stored - {entry.id for entry in entries}:
        raise StoreError(
            f"the ledger {path} lacks a measurement that is kept: it is not the newest one; restore the newest"
        )
    return entries


def _entries(path: Path, rows: Sequence[Any]) -> tuple[Entry, ...]:
    """What the file holds."""
    try:
        return tuple(Entry(**row) for row in rows)
    except TypeError:
        raise StoreError(
            f"the ledger {path} was written by another version; use that, or a new key"
        ) from None


def _write(key_path: Path, entries: Sequence[Entry]) -> None:
    """Replace the ledger."""
    write_entries(key_path, [asdict(entry) for entry in entries])
