"""Commands for custodians: `tablepack budget` (the two ledgers of a key) and `tablepack requests` (requested tables).

Nothing printed here is confidential: ledgers contain no values of the data, requests only what users wrote and what
plans report.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.api.amend import add, some
from engine.api.reading import read
from engine.api.requests import Price, approve, prices
from engine.cli.console import (
    AsJson,
    ReleasePath,
    number,
    out,
    print_json,
    print_line,
    print_note,
    print_table,
    progress_bar,
)
from engine.cli.options import help_of
from engine.errors import SpecError
from engine.guarantee import NOT_COUNTED, Guarantee
from engine.key_files import check_key_file
from engine.measure.dp import Balance, balance, ledger_path, set_budget
from engine.params import ExposureBounds
from engine.source import Charge, added_up, charges, charges_path, pinned_vintages
from queries.requests import TableRequest, read_requests, settle_request

EXAMPLE = "Example: `tablepack budget census.key --set 4`"
commands = typer.Typer(rich_markup_mode="markdown")
MOST_PRICED = 20
"""Most requests that are planned at once: each takes as long as a plan."""
_COUNTED = (
    "Wider tables have two or more columns, including those measured only to lock wider ones and not released; a "
    "table of one column splits no group."
)
_HEADS = (
    "number",
    "date",
    "table",
    "requested by",
    "reason",
    "cells shown",
    "suppressed share",
    "exposure",
)


@commands.command("budget", epilog=EXAMPLE)
def budget_command(
    what: Annotated[
        Path,
        typer.Argument(help="Key file, or spec (.toml) that names one.", metavar="KEY_OR_SPEC"),
    ],
    epsilon: Annotated[
        float | None,
        typer.Option(
            "--set", help="Set the budget: the total epsilon that builds with this key may spend."
        ),
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="With --set: the delta of every guarantee with this key.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what has been disclosed with a key: the budget of mode dp and the exposure of sticky releases."""
    if delta is not None and epsilon is None:
        raise SpecError("--delta needs --set")
    key_path = key_of(what)
    ledger = balance(key_path) if epsilon is None else set_budget(key_path, epsilon, delta)
    measured = {entry.vintage for entry in ledger.entries if entry.vintage}
    vintages = tuple(sorted({*pinned_vintages(key_path), *measured}))
    charged = charges(key_path)
    bounds = read(what).bounds if charged and what.suffix.lower() == ".toml" else None
    if as_json:
        print_json(as_dict(ledger, key_path, vintages) | exposure_of(charged, bounds))
        return
    out().print(sentence(ledger, key_path), markup=False)
    for line in _guarantee(ledger).together():
        print_line(line)
    if ledger.entries:
        _print_entries(ledger)
    _print_charges(charged, key_path, bounds)
    plural = "" if len(vintages) == 1 else "s"
    known = f" Builds with this key: vintage{plural} {', '.join(vintages)}." if vintages else ""
    print_note(f"{NOT_COUNTED}{known}")


def key_of(what: Path) -> Path:
    """The key file: the path itself, or the key that a spec names."""
    if what.suffix.lower() == ".toml":
        return read(what).key_path
    problems = check_key_file(what)
    if problems:
        raise SpecError(problems)
    return what


def sentence(ledger: Balance, key_path: Path) -> str:
    """Budget, epsilon spent and epsilon left, in one sentence."""
    if ledger.budget is None or ledger.left is None:
        return (
            f"Nothing has been measured in mode dp with key {key_path}, so there is no ledger. The first build sets "
            f"its own epsilon as the budget, unless you set one before: tablepack budget {key_path} --set 4"
        )
    at = f", at delta {ledger.delta:g}" if ledger.delta else ""
    return (
        f"{ledger_path(key_path)}: epsilon {ledger.spent:.6g} of {ledger.budget:.6g} spent, "
        f"{ledger.left:.6g} left{at}."
    )


def _guarantee(ledger: Balance) -> Guarantee:
    """What all that was measured with the key comes to."""
    told = ledger.public()
    epsilon = told["spent"] if told["builds"] else None
    return Guarantee.of(
        {"epsilon": epsilon, "delta": told["delta"], "total": "noisy", "with_key": told}
    )


def as_dict(ledger: Balance, key_path: Path, vintages: tuple[str, ...]) -> dict[str, Any]:
    """The balance as plain values; `vintages` are those of all builds with the key, including sticky ones."""
    return {
        "ledger": str(ledger_path(key_path)),
        "budget": ledger.budget,
        "delta": ledger.delta,
        "spent": ledger.spent,
        "left": ledger.left,
        "entries": [entry.public() for entry in ledger.entries],
        "guarantee": _guarantee(ledger).together(),
        "vintages": list(vintages),
        "note": NOT_COUNTED,
    }


def exposure_of(charged: tuple[Charge, ...], bounds: ExposureBounds | None) -> dict[str, Any]:
    """The exposure ledger as plain values, without the sketches; `bounds` are those of a spec, if given."""
    listed = [
        {
            "vintage": one.vintage,
            "draws": one.draws,
            "title": one.title,
            "tables": len(one.tables),
            "figures_a_person": one.worst,
            "accepted": one.accepted,
        }
        for one in charged
    ]
    return {
        "exposure": listed,
        "exposure_together": round(added_up(charged), 4),
        "exposure_refused_above": None if bounds is None else bounds.refuse_at,
    }


def _print_charges(
    charged: tuple[Charge, ...], key_path: Path, bounds: ExposureBounds | None
) -> None:
    """Print every sticky build that disclosed something new, one per line, and the total."""
    if not charged:
        return
    bound = "" if bounds is None else f" (refused above {bounds.refuse_at:g})"
    where = (
        ""
        if bounds
        else " The bound is set in the spec: give the spec instead of the key file to see it."
    )
    print_line(
        f"{charges_path(key_path)}: how much more often than wrong an even secret of the most exposed people is "
        "guessed right, by what each sticky build added. For the same people and column builds add up, to at most "
        f"{added_up(charged):.2f}{bound}.{where}\n{_COUNTED}"
    )
    rows = [
        (
            one.vintage if one.draws == one.vintage else f"{one.vintage} (draws of {one.draws})",
            one.title,
            str(len(one.tables)),
            f"{one.worst:.2f}",
            one.accepted,
        )
        for one in charged
    ]
    print_table("", ("vintage", "title", "new wider tables", "exposure", "accepted because"), rows)


def _print_entries(ledger: Balance) -> None:
    """Print the entries of the dp ledger, one per line."""
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
        int | None, typer.Option("--approve", help="Add the requested table to the release.")
    ] = None,
    declined: Annotated[
        list[int] | None,
        typer.Option("--decline", help="Decline this request; may be repeated."),
    ] = None,
    answer: Annotated[
        str, typer.Option(help="With --decline: reason, shown to the requester.")
    ] = "",
    is_quick: Annotated[
        bool,
        typer.Option("--quick", help="Omit the cost of the tables; needs no access to the data."),
    ] = False,
    is_all: Annotated[
        bool, typer.Option("--all", help="Include approved and declined requests.")
    ] = False,
    spec: Annotated[Path | None, typer.Option(help=help_of(add, "spec"))] = None,
    as_json: AsJson = False,
) -> None:
    """List the tables that users have requested (`tablepack serve --requests`) with their cost; approve or decline."""
    if approved is not None and declined:
        raise SpecError("--approve and --decline cannot be combined")
    if answer and not declined:
        raise SpecError("--answer needs --decline")
    for wanted in declined or ():
        settled = settle_request(release, wanted, "declined", answer)
        print_note(f"declined: {', '.join(settled.columns)}")
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
        out().print("No pending requests")
        return
    print_table("", _HEADS, [_row(one, costs.get(one.number)) for one in listed])
    waiting = sum(one.state == "waiting" for one in listed)
    if not is_quick and waiting > MOST_PRICED:
        out().print(f"Only the first {MOST_PRICED} of {waiting:,} pending requests were planned")
    for request, price in priced:
        remark = price if isinstance(price, str) else price.refused and f"refused: {price.refused}"
        if remark:
            print_line(f"{request.number}: {remark}")


def _approve(release: Path, request: int, spec: Path | None) -> None:
    """Add the table of a request and print the result."""
    with progress_bar() as report:
        made, tables = approve(release, request, spec=spec, progress=report)
    print_note(
        f"added: {some(tables) or 'nothing, the table exists'}; {release} now has {number(len(made.tables), 'table')}: "
        "restart its server"
    )
    made.close()


def _priced(
    release: Path, listed: tuple[TableRequest, ...], spec: Path | None, *, is_quiet: bool
) -> list[tuple[TableRequest, Price | str]]:
    """What the tables of the pending requests would cost."""
    waiting = tuple(one for one in listed if one.state == "waiting")[:MOST_PRICED]
    if not waiting:
        return []
    with progress_bar(quiet=is_quiet) as report:
        return list(zip(waiting, prices(release, waiting, spec=spec, progress=report), strict=True))


def _row(one: TableRequest, price: Price | str | None) -> tuple[str, ...]:
    """A request as a row under `_HEADS`."""
    cost = ("", "", "") if one.state == "waiting" else (one.state, "", "")
    if isinstance(price, Price):
        cost = (
            f"{price.cells:,}",
            f"{price.suppressed_share:.1%}",
            f"{price.exposure_now:.2f} to {price.exposure:.2f}",
        )
    return (str(one.number), one.when[:10], ", ".join(one.columns), one.who, one.reason, *cost)


def _as_dict(one: TableRequest, price: Price | str | None) -> dict[str, object]:
    """A request as plain values."""
    if isinstance(price, Price):
        cost = {n: round(v, 4) if isinstance(v, float) else v for n, v in asdict(price).items()}
        return asdict(one) | {"price": cost}
    return asdict(one) | ({} if price is None else {"cannot": price})
