"""The command `tablepack attack`: what strong attackers get out of finished releases, each attack beside a control.

Writes the report and JSON, prints for each attack what it comes to in words. Both files are CONFIDENTIAL.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from engine.api.evaluate import attack
from engine.cli.console import Force, notes, out, print_table, progress_bar, write
from engine.evaluation.figures import TITLES
from engine.evaluation.report import KEY, as_json, blocks, lines, reasons, sentence
from engine.evaluation.result import Evaluation, Result

EXAMPLE = "Example: `tablepack attack census.duckdb --data people.csv --control strangers.csv -o attacks.html`"
commands = typer.Typer(rich_markup_mode="markdown")


@commands.command("attack", epilog=EXAMPLE)
def attack_command(
    synthetic: Annotated[
        list[str],
        typer.Argument(
            help="Releases, or synthetic tables of any tool (CSV, Parquet).",
            metavar="RELEASE_OR_CSV...",
        ),
    ],
    data: Annotated[
        str, typer.Option("--data", help="The data that they were made from: CSV, Parquet, DuckDB.")
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="HTML report to write; JSON goes beside it.")
    ] = Path("attacks.html"),
    spec: Annotated[
        str | None,
        typer.Option(
            help="Study (TOML) that says what attackers know and want, or a release's spec."
        ),
    ] = None,
    control: Annotated[
        str | None,
        typer.Option(help="People of the same population whom the release is not made from."),
    ] = None,
    together: Annotated[
        bool, typer.Option("--together", help="One attacker holds all the releases.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Fixes all that is drawn.")] = 2021,
    table: Annotated[str | None, typer.Option(help="Table of --data, if a DuckDB file.")] = None,
    force: Force = False,
    as_json_: Annotated[bool, typer.Option("--json", help="Print the JSON; no summary.")] = False,
) -> None:
    """Attack finished releases as strong attackers would, each beside a control. Needs the data; CONFIDENTIAL."""
    with progress_bar(quiet=as_json_) as report:
        evaluation = attack(
            *synthetic,
            data=data,
            spec=spec,
            control=control,
            out=output,
            seed=seed,
            together=together,
            table=table,
            force=force,
            progress=report,
        )
    if as_json_:
        write(as_json(evaluation))
    else:
        _print_summary(evaluation)
    notes().print(
        f"wrote {output} and {output.with_suffix('.json')} (CONFIDENTIAL, mode 0600)",
        soft_wrap=True,
    )


def _print_summary(evaluation: Evaluation) -> None:
    """What each attack comes to in words, and the headline figures."""
    verdicts = lines(evaluation)
    screen = out()
    for result in evaluation.results:
        own = [line for line in verdicts if line.subject == result.subject.name]
        screen.print(f"{result.subject.name}. {sentence(own, is_risk=True)}", markup=False)
        _print_words(result)
        for block in blocks(own, [result.subject.name], sample="", width=screen.width):
            print_table("", block.heads, block.rows)
        for why in reasons(own):
            screen.print(why, markup=False)
        for note in result.subject.notes:
            notes().print(f"{result.subject.name}: {note}", soft_wrap=True, markup=False)
        screen.print()
    screen.print(KEY, markup=False)
    for note in evaluation.notes:
        notes().print(f"note: {note}", soft_wrap=True, markup=False)


def _print_words(result: Result) -> None:
    """The verdicts of all attacks."""
    for name, risk in result.risks.items():
        if risk.verdict:
            out().print(f"  {TITLES[name]}: {risk.verdict}", markup=False)
