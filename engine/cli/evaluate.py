"""The commands `tablepack evaluate`, how good and how safe a release is, and `compare`, sticky against dp releases.

Both write a page and JSON and print a summary. `evaluate --strict` ends with exit code 3 where an attack is beyond its
threshold, 4 where a measure of utility is. Reports are CONFIDENTIAL unless --publishable is given; `compare` keeps
nothing that it builds.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from engine.api.compare import compare
from engine.api.evaluate import evaluate
from engine.cli.console import SpecPath, notes, out, print_table, progress_bar
from engine.evaluation.report import (
    KEY,
    Line,
    as_json,
    blocks,
    comparison_json,
    lines,
    reasons,
    sentence,
    table_of,
)
from engine.evaluation.result import Evaluation

EXAMPLE = "Example: `tablepack evaluate census.duckdb --data people.csv -o report.html`"
commands = typer.Typer(rich_markup_mode="markdown")
POOR_UTILITY, POOR_RISK = 4, 3
EXAMPLE_OF_COMPARE = (
    "Example: `tablepack compare release.toml --epsilon 0.1,0.5,1,2,10 -o compare.html`"
)
NAMES, FIGURE = 22, 26
"""Characters that names of ways, and one figure, take on a screen."""

Strict = Annotated[
    bool,
    typer.Option(
        "--strict", help="Exit 3 (risk) or 4 (utility) if a figure of the summary is poor."
    ),
]


@commands.command("evaluate", epilog=EXAMPLE)
def evaluate_command(
    synthetic: Annotated[
        list[str],
        typer.Argument(
            help="Releases, or synthetic tables of any tool (CSV, Parquet); the others are compared with the first.",
            metavar="RELEASE_OR_CSV...",
        ),
    ],
    data: Annotated[str, typer.Option("--data", help="The original: CSV, Parquet or DuckDB file.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="HTML report to write; JSON goes beside it.")
    ] = Path("report.html"),
    spec: Annotated[
        str | None,
        typer.Option(
            help="What is measured: a study (TOML), a preset such as nist-acs, or a release's spec."
        ),
    ] = None,
    control: Annotated[
        str | None,
        typer.Option(help="People of the same population whom the release is not made from."),
    ] = None,
    publishable: Annotated[
        bool, typer.Option("--publishable", help="Rounded scores only; nothing of the original.")
    ] = False,
    together: Annotated[
        bool, typer.Option("--together", help="The tables are sets of one synthesis: take means.")
    ] = False,
    sample: Annotated[
        float, typer.Option(help="Percentage of the original sampled as a scale for the scores.")
    ] = 40,
    seed: Annotated[int, typer.Option(help="Fixes all that is drawn.")] = 2021,
    table: Annotated[str | None, typer.Option(help="Table of --data, if a DuckDB file.")] = None,
    strict: Strict = False,
    as_json_: Annotated[bool, typer.Option("--json", help="Print the JSON; no summary.")] = False,
) -> None:
    """Say how good and how safe a release, or any synthetic table, is. Needs the original; CONFIDENTIAL."""
    with progress_bar(quiet=as_json_ or not sys.stderr.isatty()) as report:
        evaluation = evaluate(
            *synthetic,
            data=data,
            spec=spec,
            control=control,
            out=output,
            publishable=publishable,
            sample=sample,
            seed=seed,
            together=together,
            table=table,
            progress=report,
        )
    verdicts = lines(evaluation)
    if as_json_:
        sys.stdout.write(as_json(evaluation, publishable=publishable))
    else:
        _print_summary(evaluation, verdicts, publishable=publishable)
    kind = "publishable: rounded scores only" if publishable else "CONFIDENTIAL, mode 0600"
    notes().print(f"wrote {output} and {output.with_suffix('.json')} ({kind})", soft_wrap=True)
    _end(verdicts, strict=strict)


def _print_summary(evaluation: Evaluation, verdicts: list[Line], *, publishable: bool) -> None:
    """Headline figures of all subjects, and the verdicts."""
    names = [result.subject.name for result in evaluation.results]
    rows = evaluation.n_rows if publishable else None
    sample = f"{evaluation.share:.0%} sample"
    screen = out()
    for block in blocks(verdicts, names, sample=sample, width=screen.width, rows_published=rows):
        screen.print(f"{block.title}", markup=False, style="bold")
        print_table("", block.heads, block.rows)
        screen.print()
    screen.print(KEY, markup=False)
    for name in names:
        own = [line for line in verdicts if line.subject == name]
        before = f"{name}: " if len(names) > 1 else ""
        for is_risk in (False, True):
            verdict = sentence(own, is_risk=is_risk, rows_published=rows)
            screen.print(f"{before}{verdict}", markup=False)
        for why in reasons(own):
            screen.print(f"{before}{why}", markup=False)
    for result in evaluation.results:
        for note in result.subject.notes:
            notes().print(f"{result.subject.name}: {note}", soft_wrap=True, markup=False)
    for note in evaluation.notes:
        notes().print(f"note: {note}", soft_wrap=True, markup=False)


def _end(verdicts: list[Line], *, strict: bool) -> None:
    """Exit with the code of what is poor, if --strict."""
    poor = {line.is_risk for line in verdicts if line.fails}
    if strict and poor:
        raise typer.Exit(POOR_RISK if True in poor else POOR_UTILITY)


@commands.command("compare", epilog=EXAMPLE_OF_COMPARE)
def compare_command(
    spec: SpecPath,
    epsilon: Annotated[
        str, typer.Option(help="Epsilons of the dp releases, with commas between.")
    ] = "0.1,0.5,1,2,10",
    seeds: Annotated[int, typer.Option(help="How many releases of each way are built.")] = 3,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="HTML page to write; JSON goes beside it.")
    ] = Path("compare.html"),
    jobs: Annotated[int, typer.Option(help="As in build.")] = 2,
    as_json_: Annotated[bool, typer.Option("--json", help="Print the JSON; no table.")] = False,
) -> None:
    """Compare sticky and dp releases of the same tables. Builds in scratch and keeps nothing; CONFIDENTIAL."""
    with progress_bar(quiet=as_json_ or not sys.stderr.isatty()) as report:
        comparison = compare(
            spec, epsilon=epsilon, seeds=seeds, out=output, jobs=jobs, progress=report
        )
    if as_json_:
        sys.stdout.write(comparison_json(comparison))
    else:
        heads, rows = table_of(comparison)
        at_once = max(1, (out().width - NAMES) // FIGURE)
        for start in range(0, len(rows), at_once):
            part = rows[start : start + at_once]
            # Ways below each other: a screen is not as wide as the page.
            ways = [[head, *(row[i] for row in part)] for i, head in enumerate(heads) if i]
            print_table("", ("", *(row[0] for row in part)), ways)
        for note in comparison.notes:
            notes().print(f"note: {note}", soft_wrap=True, markup=False)
    notes().print(
        f"wrote {output} and {output.with_suffix('.json')} (CONFIDENTIAL, mode 0600)",
        soft_wrap=True,
    )
