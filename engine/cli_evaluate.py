"""The command `tablepack evaluate`: how good and how safe a release is, before it is published.

Takes what the command line says; writes the report, prints a summary. Exit codes: 3 an attack, 4 a measure of utility
is beyond its threshold (with --strict only). The report is CONFIDENTIAL unless --publishable is given.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from engine.api_evaluate import evaluate
from engine.console import notes, out, print_table, progress_bar
from engine.evaluation import Evaluation
from engine.report.files import as_json
from engine.report.summary import KEY, blocks, reasons, sentence
from engine.report.verdicts import Line, lines

EXAMPLE = "Example: `tablepack evaluate census.duckdb --data people.csv -o report.html`"
POOR_UTILITY, POOR_RISK = 4, 3

Strict = Annotated[
    bool,
    typer.Option(
        "--strict", help="Exit 3 (risk) or 4 (utility) if a figure of the summary is poor."
    ),
]


def evaluate_command(
    synthetic: Annotated[
        list[str],
        typer.Argument(
            help="Releases, or synthetic tables of any tool (CSV, Parquet); the others are held against the first.",
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
        found = evaluate(
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
    told = lines(found)
    if as_json_:
        sys.stdout.write(as_json(found, publishable=publishable))
    else:
        _print_summary(found, told, publishable=publishable)
    kind = "publishable: rounded scores only" if publishable else "CONFIDENTIAL, mode 0600"
    notes().print(f"wrote {output} and {output.with_suffix('.json')} ({kind})", soft_wrap=True)
    _end(told, strict=strict)


def _print_summary(found: Evaluation, told: list[Line], *, publishable: bool) -> None:
    """Headline figures of all subjects, and what they come to."""
    names = [result.subject.name for result in found.results]
    rows = found.n_rows if publishable else None
    sample = f"{found.share:.0%} sample"
    screen = out()
    for block in blocks(told, names, sample=sample, width=screen.width, rows_published=rows):
        screen.print(f"{block.title}", markup=False, style="bold")
        print_table("", block.heads, block.rows)
        screen.print()
    screen.print(KEY, markup=False)
    for name in names:
        mine = [line for line in told if line.subject == name]
        before = f"{name}: " if len(names) > 1 else ""
        for is_risk in (False, True):
            words = sentence(mine, is_risk=is_risk, rows_published=rows)
            screen.print(f"{before}{words}", markup=False)
        for why in reasons(mine):
            screen.print(f"{before}{why}", markup=False)
    for result in found.results:
        for note in result.subject.notes:
            notes().print(f"{result.subject.name}: {note}", soft_wrap=True, markup=False)
    for note in found.notes:
        notes().print(f"note: {note}", soft_wrap=True, markup=False)


def _end(told: list[Line], *, strict: bool) -> None:
    """Exit with a code that says what is poor, if asked to."""
    poor = {line.is_risk for line in told if line.fails}
    if strict and poor:
        raise typer.Exit(POOR_RISK if True in poor else POOR_UTILITY)
