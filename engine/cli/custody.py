"""What custodians look after: `tablepack budget`, the two ledgers beside a key; `tablepack requests`, tables asked for.

All of it may be shown: the ledgers hold no value of the data, requests only what askers wrote and what plans say.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from engine.api.amend import some
from engine.api.reading import read
from engine.api.requests import Price, approve, prices
from engine.cli.build import SpecBeside
from engine.cli.console import (
    AsJson,
    ReleasePath,
    notes,
    number,
    out,
    print_json,
    print_table,
    progress_bar,
)
from engine.errors import SpecError
from engine.keys import check_key_file
from engine.measure.dp import Balance, balance, ledger_path, set_budget
from engine.params import ExposureBounds
from engine.source import Charge, added_up, charges, charges_path, pinned_vintages
from queries.requests import TableRequest, read_requests, settle_request

EXAMPLE = "Example: `tablepack budget census.key --set 4`"
commands = typer.Typer(rich_markup_mode="markdown")
NOT_COUNTED = (
    "Sticky releases carry no epsilon: they have a ledger of their own. Neither counts builds with guarantee = false, "
    "which protect nobody, or with another key: the same people under two keys have the ledgers of both."
)
MOST_PRICED = 20
"""Requests whose tables are planned at once: each takes as long as a plan."""
_COUNTED = (
    "Wider tables are those of two and more columns, also the ones that are measured for wider ones and not shown; "
    "one of one column splits no group."
)
_HEADS = ("number", "asked", "table", "who", "reason", "cells shown", "suppressed", "exposure")


@commands.command("budget", epilog=EXAMPLE)
def budget_command(
    what: Annotated[
        Path, typer.Argument(help="Key file, or a spec (.toml) with one.", metavar="KEY_OR_SPEC")
    ],
    epsilon: Annotated[
        float | None,
        typer.Option("--set", help="Change the budget: the most epsilon ever spent with this key."),
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="With --set: the delta of every guarantee.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what was given away with a key: the budget of mode dp, and the exposure of sticky releases."""
    if delta is not None and epsilon is None:
        raise SpecError("--delta goes with --set")
    key_path = key_of(what)
    ledger = balance(key_path) if epsilon is None else set_budget(key_path, epsilon, delta)
    vintages = pinned_vintages(key_path)
    told = charges(key_path)
    bounds = read(what).bounds if told and what.suffix.lower() == ".toml" else None
    if as_json:
        print_json(as_dict(ledger, key_path, vintages) | exposure_of(told, bounds))
        return
    out().print(sentence(ledger, key_path), markup=False)
    if ledger.entries:
        _print_entries(ledger)
    _print_charges(told, key_path, bounds)
    known = f" This key's builds are of vintage {', '.join(vintages)}." if vintages else ""
    notes().print(f"{NOT_COUNTED}{known}", soft_wrap=True, markup=False)


def key_of(what: Path) -> Path:
    """The key file: the path itself, or the one that a spec names."""
    if what.suffix.lower() == ".toml":
        return read(what).key_path
    problems = check_key_file(what)
    if problems:
        raise SpecError(problems)
    return what


def sentence(ledger: Balance, key_path: Path) -> str:
    """Budget, what is spent and what is left, in one sentence."""
    if ledger.budget is None or ledger.left is None:
        return (
            f"Nothing was measured in mode dp with key {key_path} yet: there is no ledger. The first build pins its "
            f"epsilon as the budget; or set one: tablepack budget {key_path} --set 4"
        )
    at = f", at delta {ledger.delta:g}" if ledger.delta else ""
    return (
        f"{ledger_path(key_path)}: epsilon {ledger.spent:.6g} of {ledger.budget:.6g} is spent, "
        f"{ledger.left:.6g} is left{at}."
    )


def as_dict(ledger: Balance, key_path: Path, vintages: tuple[str, ...]) -> dict[str, Any]:
    """The balance as plain values; `vintages` are those of all builds with the key, sticky ones too."""
    return {
        "ledger": str(ledger_path(key_path)),
        "budget": ledger.budget,
        "delta": ledger.delta,
        "spent": ledger.spent,
        "left": ledger.left,
        "entries": [entry.public() for entry in ledger.entries],
        "vintages": list(vintages),
        "note": NOT_COUNTED,
    }


def exposure_of(told: tuple[Charge, ...], bounds: ExposureBounds | None) -> dict[str, Any]:
    """The ledger of exposure as plain values, without the sketches; `bounds` where a spec says them."""
    listed = [
        {
            "vintage": one.vintage,
            "draws": one.draws,
            "title": one.title,
            "tables": len(one.tables),
            "figures_a_person": one.worst,
            "accepted": one.accepted,
        }
        for one in told
    ]
    return {
        "exposure": listed,
        "exposure_together": round(added_up(told), 4),
        "exposure_refused_above": None if bounds is None else bounds.refuse_at,
    }


def _print_charges(told: tuple[Charge, ...], key_path: Path, bounds: ExposureBounds | None) -> None:
    """Every sticky build that told something new, one a line, and all together."""
    if not told:
        return
    bound = "" if bounds is None else f" (refused above {bounds.refuse_at:g})"
    where = "" if bounds else " What is refused, a spec says: give it in the place of the key file."
    out().print(
        f"{charges_path(key_path)}: figures a person that sticky builds told at most of a group; for the same people "
        f"they add up by group and column told, to at most {added_up(told):.2f}{bound}.{where}\n{_COUNTED}",
        soft_wrap=True,
        markup=False,
    )
    rows = [
        (
            one.vintage if one.draws == one.vintage else f"{one.vintage} (draws of {one.draws})",
            one.title,
            str(len(one.tables)),
            f"{one.worst:.2f}",
            one.accepted,
        )
        for one in told
    ]
    print_table(
        "", ("vintage", "title", "new wider tables", "figures a person", "accepted because"), rows
    )


def _print_entries(ledger: Balance) -> None:
    """Every entry, one a line."""
    heads = ("", "state", "vintage", "title", "noise", "margins", "epsilon", "delta", "budget")
    rows = [
        (
            str(entry.number),
            entry.state,
            entry.vintage,
            entry.title,
            entry.noise,
            str(entry.margins),
            f"{entry.epsilon:.6g}",
            f"{entry.delta:g}",
            f"{entry.budget:.6g}",
        )
        for entry in ledger.entries
    ]
    print_table("", heads, rows)


@commands.command("requests", epilog="Example: `tablepack requests census.duckdb --approve 3`")
def requests_command(
    release: ReleasePath,
    approved: Annotated[
        int | None, typer.Option("--approve", help="Add the table of this request.")
    ] = None,
    declined: Annotated[
        list[int] | None,
        typer.Option("--decline", help="Decline this request; may be repeated."),
    ] = None,
    answer: Annotated[
        str, typer.Option(help="With --decline: why; whoever asked can read it.")
    ] = "",
    is_quick: Annotated[
        bool, typer.Option("--quick", help="Do not say what tables would cost: needs no data.")
    ] = False,
    is_all: Annotated[bool, typer.Option("--all", help="Those that were settled, too.")] = False,
    spec: SpecBeside = None,
    as_json: AsJson = False,
) -> None:
    """List the tables that were asked for (`tablepack serve --requests`), and what each would cost; or settle one."""
    if approved is not None and declined:
        raise SpecError("--approve and --decline: give one of them")
    if answer and not declined:
        raise SpecError("--answer: goes with --decline")
    for wanted in declined or ():
        settled = settle_request(release, wanted, "declined", answer)
        notes().print(f"declined: {', '.join(settled.columns)}", soft_wrap=True, markup=False)
    if declined:
        return
    if approved is not None:
        _approve(release, approved, spec)
        return
    known = read_requests(release)
    listed = known if is_all else tuple(one for one in known if one.state == "waiting")
    priced = [] if is_quick else _priced(release, listed, spec, is_quiet=as_json)
    costs = {request.number: price for request, price in priced}
    if as_json:
        print_json([_as_dict(one, costs.get(one.number)) for one in listed])
        return
    if not listed:
        out().print("no request waits")
        return
    print_table("", _HEADS, [_row(one, costs.get(one.number)) for one in listed])
    waiting = sum(one.state == "waiting" for one in listed)
    if not is_quick and waiting > MOST_PRICED:
        out().print(f"of {number(waiting, 'request')} the first {MOST_PRICED} were planned")
    for request, price in priced:
        said = price if isinstance(price, str) else price.refused and f"refused: {price.refused}"
        if said:
            out().print(f"{request.number}: {said}", soft_wrap=True, markup=False)


def _approve(release: Path, number: int, spec: Path | None) -> None:
    """Add the table of a request, and say so."""
    with progress_bar() as report:
        made, tables = approve(release, number, spec=spec, progress=report)
    notes().print(
        f"added: {some(tables) or 'nothing, it was there'}; {release} has {len(made.tables):,} tables now: start its "
        "server again",
        soft_wrap=True,
        markup=False,
    )
    made.close()


def _priced(
    release: Path, listed: tuple[TableRequest, ...], spec: Path | None, *, is_quiet: bool
) -> list[tuple[TableRequest, Price | str]]:
    """What the tables of those that wait would cost."""
    waiting = tuple(one for one in listed if one.state == "waiting")[:MOST_PRICED]
    if not waiting:
        return []
    with progress_bar(quiet=is_quiet) as report:
        return list(zip(waiting, prices(release, waiting, spec=spec, progress=report), strict=True))


def _row(one: TableRequest, price: Price | str | None) -> tuple[str, ...]:
    """A request as texts under `_HEADS`."""
    cost = ("", "", "") if one.state == "waiting" else (one.state, "", "")
    if isinstance(price, Price):
        cost = (
            f"{price.cells:,}",
            f"{price.suppressed_share:.1%}",
            f"{price.exposure_now:.2f} to {price.exposure:.2f}",
        )
    return (str(one.number), one.when[:10], ", ".join(one.columns), one.who, one.reason, *cost)


def _as_dict(one: TableRequest, price: Price | str | None) -> dict[str, object]:
    """A request in plain values."""
    plain: dict[str, object] = {
        "number": one.number,
        "columns": list(one.columns),
        "when": one.when,
        "who": one.who,
        "reason": one.reason,
        "state": one.state,
        "answer": one.answer,
    }
    if isinstance(price, Price):
        plain["price"] = {
            "cells": price.cells,
            "suppressed_share": round(price.suppressed_share, 4),
            "exposure_now": round(price.exposure_now, 4),
            "exposure": round(price.exposure, 4),
            "refused": price.refused,
        }
    elif price is not None:
        plain["cannot"] = price
    return plain
