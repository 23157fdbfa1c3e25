"""The commands `tablepack plan` and `tablepack build`: from a spec, what a release would hold, and the release.

In sticky mode a plan measures what a build would release and keeps sizes only; in mode dp it reads no data.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from engine.api import build as api
from engine.cli.console import (
    AsJson,
    SpecPath,
    notes,
    number,
    out,
    print_json,
    print_table,
    progress_bar,
)
from engine.cli.show import summary_of
from engine.release import Plan, PlanDP, build, noise_words
from engine.store import GeneratorCard, exposure_sentences, promises
from queries.release import open_release

commands = typer.Typer(rich_markup_mode="markdown")


@commands.command("plan", epilog="Example: `tablepack plan release.toml`")
def plan_command(spec: SpecPath, as_json: AsJson = False) -> None:
    """Say what a release would hold: tables, cells, noise, time, and what it would cost. Builds nothing."""
    with progress_bar(quiet=as_json or not sys.stderr.isatty()) as report:
        plan = api.plan(spec, progress=report)
    if as_json:
        print_json(plan.as_dict())
        return
    if isinstance(plan, PlanDP):
        _print_dp(plan)
    else:
        _print_sticky(plan)
    for warning in plan.warnings:
        notes().print(f"warning: {warning}", soft_wrap=True, markup=False)
    if isinstance(plan, Plan) and plan.refused:
        joined = "\n".join(plan.refused)
        notes().print(f"build would refuse: {joined}", soft_wrap=True, markup=False)


def _print_sticky(plan: Plan) -> None:
    """The plan of a build in sticky mode."""
    published = [t for t in plan.tables if t.is_published]
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
    helpers = len(plan.tables) - len(published)
    out().print(
        f"{number(len(published), 'table')} ({helpers} more are needed to lock them), about {plan.rows:,} rows, "
        f"about {max(plan.seconds, 1):.0f} s to build"
    )
    for line in plan.exposure.sentences():
        out().print(line, soft_wrap=True, markup=False)


def _print_dp(plan: PlanDP) -> None:
    """The plan of a build in mode dp."""
    rows = [(", ".join(t.columns), f"{t.cells:,}", noise_words(t)) for t in plan.tables]
    print_table("", ("table", "cells", "noise sd"), rows)
    price = "nothing is guaranteed"
    if plan.is_protected:
        price = f"costs epsilon {plan.cost.epsilon:g}; {plan.left:g} of {plan.budget:g} is left"
    out().print(
        f"{number(plan.margins, 'margin')} with {plan.counts:,} counts; {price}; fit: {plan.fit}",
        soft_wrap=True,
    )


@commands.command("build", epilog="Example: `tablepack build release.toml -o census.duckdb`")
def build_command(
    spec: SpecPath,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="Release file to make; by default named after the spec."
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="1: measure and fit take turns.")] = 2,
    as_json: AsJson = False,
) -> None:
    """Build a release. Run again after an interruption, it goes on where it stopped."""
    output = output or api.default_output(spec)
    with progress_bar(quiet=as_json or not sys.stderr.isatty()) as report:
        build(api.read(spec), output, jobs=jobs, progress=report)
    with open_release(output) as release:
        summary = summary_of(release)
        card = release.card(*release.tables[0]) if release.tables else None
    remarks = _remarks(card) if card is not None and card.dp else []
    if as_json:
        print_json({**summary, "remarks": remarks} if remarks else summary)
    else:
        notes().print(
            f"wrote {output} ({summary['bytes'] / 1e6:.1f} MB): {number(summary['tables'], 'table')}, content hash "
            f"{summary['content_hash']}",
            soft_wrap=True,
        )
        for remark in (*remarks, *(exposure_sentences(card.exposure) if card else ())):
            notes().print(remark, soft_wrap=True, markup=False)
    if card is not None and card.dp and not card.dp["converged"]:
        raise typer.Exit(4)


def _remarks(card: GeneratorCard) -> list[str]:
    """What a custodian must know of a finished release in mode dp."""
    remarks = list(promises(card.dp))
    if card.dp["uniform"]:
        remarks.append(
            f"warning: in no margin, so evenly frequent: {', '.join(card.dp['uniform'])}"
        )
    if not card.rows:
        remarks.append("warning: NO ROWS: the noisy total is 0 or below; spend more epsilon")
    if not card.dp["converged"]:
        remarks.append(
            "warning: the fit did NOT converge, and the cards say so: more max_cycles, or other margins, may help"
        )
    return remarks
