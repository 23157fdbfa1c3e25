"""The command `tablepack evaluate`: how good and how safe a release is, before it is published.

Writes the report, prints a summary. With --strict, exit code 3: an attack is beyond its threshold; 4: a measure of
utility is. The report is CONFIDENTIAL unless --publishable is given.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from engine.api.evaluate import evaluate
from engine.cli.console import notes, out, print_table, progress_bar
from engine.evaluation.report import KEY, Line, as_json, blocks, lines, reasons, sentence
from engine.evaluation.result import Evaluation

EXAMPLE = "Example: `tablepack evaluate census.duckdb --data people.csv -o report.html`"
commands = typer.Typer(rich_markup_mode="markdown")
POOR_UTILITY, POOR_RISK = 4, 3

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
