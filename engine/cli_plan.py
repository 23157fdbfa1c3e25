"""The command `tablepack plan`: what a release would hold, before anything is built.

Takes a spec; prints a table and warnings. In sticky mode it measures what a build would release and keeps sizes only;
in mode dp it reads no data.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from engine import api
from engine.console import notes, out, print_table, progress_bar
from engine.planner import Plan
from engine.planner_dp import PlanDP, noise_words

EXAMPLE = "Example: `tablepack plan release.toml`"


def plan_command(
    spec: Annotated[Path, typer.Argument(help="Spec (TOML).", metavar="SPEC")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON; no progress bar.")
    ] = False,
) -> None:
    """Say what a release would hold: tables, cells, noise, time, and what it would cost. Builds nothing."""
    with progress_bar(quiet=as_json or not sys.stderr.isatty()) as report:
        planned = api.plan(spec, progress=report)
    if as_json:
        sys.stdout.write(json.dumps(planned.as_dict(), indent=1, default=str) + "\n")
        return
    if isinstance(planned, PlanDP):
        _print_dp(planned)
    else:
        _print_sticky(planned)
    for warning in planned.warnings:
        notes().print(f"warning: {warning}", soft_wrap=True, markup=False)


def _print_sticky(planned: Plan) -> None:
    """The plan of a build in sticky mode."""
    published = [t for t in planned.tables if t.is_published]
    print_table(
        "",
        ("table", "cells shown", "suppressed share", "noise sd", "seconds"),
        [
            (
                ", ".join(t.columns),
                f"{t.cells:,}",
                f"{t.suppressed_share:.1%}",
                f"{t.noise_sd:.2f}",
                f"{t.seconds:.2f}",
            )
            for t in published
        ],
    )
    helpers = len(planned.tables) - len(published)
    out().print(
        f"{_number(len(published), 'table')} ({helpers} more are needed to lock them), about {planned.rows:,} rows, "
        f"about {max(planned.seconds, 1):.0f} s to build"
    )


def _print_dp(planned: PlanDP) -> None:
    """The plan of a build in mode dp."""
    rows = [(", ".join(t.columns), f"{t.cells:,}", noise_words(t)) for t in planned.tables]
    print_table("", ("table", "cells", "noise sd"), rows)
    price = "nothing is guaranteed"
    if planned.is_protected:
        price = f"costs epsilon {planned.cost.epsilon:g}; {planned.left:g} of {planned.budget:g} is left"
    out().print(
        f"{_number(planned.margins, 'margin')} with {planned.counts:,} counts; {price}; fit: {planned.fit}",
        soft_wrap=True,
    )


def _number(n: int, noun: str) -> str:
    """How many of what."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
