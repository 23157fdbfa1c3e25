"""The ledger beside the key: what was ever measured in mode dp, and what may still be.

Takes what a build is about to spend; writes it down, synced to disk, before anything is drawn, or refuses. A key
stands for one population of entities: everything measured with it composes, of whatever vintage, table or source.
A build that dies after it was charged stays charged, and is charged again when it measures again; a measurement
that was kept is used again at no cost (`engine.measure.dp.margins`). Sticky releases carry no epsilon and do not
stand here.

The budget is a pair (epsilon, delta). Its epsilon is pinned by the first build: the `budget` of its spec, or its own
epsilon. Its delta is pinned by the first build that needs one. Afterwards only the custodian changes them, by
`set_budget`, which is written down like a build. A build with a smaller delta is composed at the pinned one, a
build with a larger one is refused. Builds with Gaussian noise add up in zCDP and are converted once.

The file is JSON, mode 0600, replaced in one step; its digest tells a damaged or edited ledger, not one that the
owner of the key forged. One that cannot be read, or is gone or older while measurements that it paid for are there,
is refused. People measured with two keys are protected by the sum of two ledgers, and neither knows of the other.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

from engine.errors import BudgetError, InternalError, SpecError, StoreError
from engine.measure.dp.accounting import Cost, composed, cost, decimal
from engine.params import DPParams
from engine.source import locked, read_json, replace_file

FORMAT = 1
"""Version of the ledger's form."""
State = Literal["charged", "measured", "budget set"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One line of the ledger: a build that was charged, or a budget that was set."""

    number: int  # From 1, in the order of writing
    # "charged": before the draw. "measured": the noisy counts are kept. "budget set": nothing was spent.
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


def ledger_path(key_path: Path) -> Path:
    """The ledger of a key file."""
    return key_path.with_name(key_path.name + ".ledger.json")


def measured_folder(key_path: Path) -> Path:
    """Where the noisy counts of a key file are kept."""
    return key_path.with_name(key_path.name + ".measured")


def balance(key_path: Path) -> Balance:
    """Where the ledger of a key stands; an empty balance if nothing was ever measured or set."""
    return _balance_of(_read(key_path))


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
        entries = _read(key_path)
        last = entries[-1] if entries else None
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
        known = entries[-1].budget_delta if entries else 0.0
        at = known if delta is None else delta
        spent = spent_by(entries, at)
        if not spent <= epsilon:
            raise BudgetError(
                f"epsilon {decimal_text(spent)}{_at(at)} is spent already: the budget cannot be less"
            )
        entry = Entry(
            number=len(entries) + 1, state="budget set", budget=float(epsilon), budget_delta=at
        )
        _write(key_path, (*entries, entry))
    return _balance_of((*entries, entry))


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
    builds = (e for e in entries if e.state != "budget set")
    return composed(
        [*(Cost(epsilon=e.epsilon, delta=e.delta, rho=e.rho) for e in builds), *more], delta
    )


def _balance_of(entries: Sequence[Entry]) -> Balance:
    """The balance of some entries."""
    if not entries:
        return Balance(budget=None, delta=0.0, spent=0.0, left=None, entries=())
    budget, delta = entries[-1].budget, entries[-1].budget_delta
    spent = spent_by(entries, delta)
    return Balance(
        budget=budget,
        delta=delta,
        spent=spent,
        left=max(float(decimal(budget) - decimal(spent)), 0.0),
        entries=tuple(entries),
    )


def _read(key_path: Path) -> tuple[Entry, ...]:
    """All entries; none if there is no ledger yet."""
    path = ledger_path(key_path)
    # Listed before the ledger is read: what another build keeps meanwhile was written down before.
    stored = {file.stem for file in measured_folder(key_path).glob("*.npz")}
    try:
        raw = read_json(path)
    except FileNotFoundError:
        if stored:
            raise StoreError(
                f"the ledger {path} is gone, but measurements are kept: restore it"
            ) from None
        return ()
    entries = _entries(path, raw)
    if stored - {entry.id for entry in entries}:
        raise StoreError(
            f"the ledger {path} lacks a measurement that is kept: it is not the newest one; restore the newest"
        )
    return entries


def _entries(path: Path, raw: Any) -> tuple[Entry, ...]:
    """What the file holds."""
    # Whatever cannot be read is refused: taken for an empty ledger, it would free the whole budget.
    try:
        if raw["format"] == FORMAT and raw["digest"] == _digest(raw["entries"]):
            return tuple(Entry(**entry) for entry in raw["entries"])
    except (TypeError, KeyError):
        pass
    raise StoreError(
        f"the ledger {path} cannot be read, or was changed by hand; restore it, or use a new key"
    )


def _write(key_path: Path, entries: Sequence[Entry]) -> None:
    """Replace the ledger."""
    rows = [asdict(entry) for entry in entries]
    text = json.dumps({"format": FORMAT, "entries": rows, "digest": _digest(rows)}, indent=1)
    replace_file(ledger_path(key_path), text.encode(), "the ledger")


def _digest(rows: Any) -> str:
    """Digest of all entries."""
    return blake2b(json.dumps(rows, sort_keys=True).encode(), digest_size=16).hexdigest()
