"""The command `tablepack requests`: which tables were asked for, what each would cost, and what becomes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
from queries.requests import TableRequest, read_requests, settle_request

commands = typer.Typer(rich_markup_mode="markdown")
MOST_PRICED = 20
"""Requests whose tables are planned at once: each takes as long as a plan."""
_HEADS = ("number", "asked", "table", "who", "reason", "cells shown", "suppressed", "exposure")


@commands.command("requests", epilog="Example: `tablepack requests census.duckdb --approve 3`")
def requests_command(
    release: ReleasePath,
    approved: Annotated[
        int | None, typer.Option("--approve", help="Add the table of this request.")
    ] = None,
    declined: Annotated[int | None, typer.Option("--decline", help="Decline this request.")] = None,
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
    if approved is not None and declined is not None:
        raise SpecError("--approve and --decline: give one of them")
    if answer and declined is None:
        raise SpecError("--answer: goes with --decline")
    if declined is not None:
        settled = settle_request(release, declined, "declined", answer)
        notes().print(f"declined: {', '.join(settled.columns)}", soft_wrap=True, markup=False)
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
        made = approve(release, number, spec=spec, progress=report)
    notes().print(
        f"added; {release} has {len(made.tables):,} tables now: start its server again",
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
