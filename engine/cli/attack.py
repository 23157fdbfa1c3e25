"""The commands `tablepack attack`, `audit` and `card`: what attackers get, whether a card is true, and what it says.

Write reports and JSON, print what they come to in words. The files of the first two are CONFIDENTIAL.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from engine.api.audit import audit, card
from engine.api.evaluate import attack
from engine.cli.console import Force, ReleasePath, notes, out, print_table, progress_bar, write
from engine.errors import SpecError
from engine.evaluation.audit import HEADS, Audit, audit_json, audit_rows
from engine.evaluation.figures import TITLES
from engine.evaluation.report import KEY, as_json, blocks, lines, reasons, sentence
from engine.evaluation.result import Evaluation, Result

EXAMPLE = "Example: `tablepack attack census.duckdb --data people.csv --control strangers.csv -o attacks.html`"
Output = Annotated[
    Path, typer.Option("-o", "--output", help="HTML report to write; JSON goes beside it.")
]
Command = Annotated[
    str | None,
    typer.Option(
        "--generator",
        help="Command of another generator: reads the CSV file {in}, writes {out}.",
    ),
]
Safe = Annotated[
    list[str] | None,
    typer.Option(
        "--safe",
        help="Columns of a margin that may be used, with commas between; may be repeated. Or a width: all of so "
        "many of --columns.",
    ),
]
REFUTED = 3
"""Exit code: a privacy check failed."""
AUDIT_EXAMPLE = (
    "Example: `tablepack audit release.toml -o audit.html`, or `tablepack audit --generator 'cart {in} {out}' "
    "--data people.csv --safe age,sex --safe age,region`"
)
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
    output: Output = Path("attacks.html"),
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


@commands.command("audit", epilog=AUDIT_EXAMPLE)
def audit_command(
    what: Annotated[
        str | None,
        typer.Argument(help="Spec (TOML) or release of ours.", metavar="SPEC_OR_RELEASE"),
    ] = None,
    generator: Command = None,
    data: Annotated[
        str | None, typer.Option("--data", help="The data; by default the source of the spec.")
    ] = None,
    safe: Safe = None,
    columns: Annotated[
        str | None, typer.Option("--columns", help="Columns to audit, with commas between.")
    ] = None,
    output: Output = Path("audit.html"),
    runs: Annotated[int, typer.Option(help="Runs on each data set, twice.")] = 10,
    directions: Annotated[
        int, typer.Option(help="Random directions to begin with; p-values are corrected.")
    ] = 1,
    rows: Annotated[int, typer.Option(help="Rows of the data sets compared, about.")] = 10_000,
    level: Annotated[float, typer.Option(help="The card is refuted below it.")] = 0.01,
    seed: Annotated[int, typer.Option(help="Fixes all that the audit draws.")] = 2021,
    seconds: Annotated[float, typer.Option(help="Time that one run of a command may take.")] = 600,
    table: Annotated[str | None, typer.Option(help="Table of --data, if a DuckDB file.")] = None,
    force: Force = False,
    as_json_: Annotated[bool, typer.Option("--json", help="Print the JSON; no summary.")] = False,
) -> None:
    """Test whether a generator uses more of the data than its card says; if so, exit 3. CONFIDENTIAL."""
    if (what is None) == (generator is None):
        raise SpecError("audit: give a spec or a release, or --generator with a command")
    with progress_bar(quiet=as_json_) as report:
        found = audit(
            what or generator,
            data=data,
            safe=_margins(safe),
            columns=None if columns is None else _names(columns),
            runs=runs,
            directions=directions,
            rows=rows,
            level=level,
            seed=seed,
            seconds=seconds,
            out=output,
            table=table,
            force=force,
            progress=report,
        )
    if as_json_:
        write(audit_json(found))
    else:
        _print_audit(found)
    notes().print(
        f"wrote {output} and {output.with_suffix('.json')} (CONFIDENTIAL, mode 0600)",
        soft_wrap=True,
    )
    if found.is_refuted:
        raise typer.Exit(REFUTED)


@commands.command("card", epilog="Example: `tablepack card census.duckdb -o card.html`")
def card_command(
    release: ReleasePath,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="HTML page to write; JSON goes beside it.")
    ] = Path("card.html"),
    force: Force = False,
) -> None:
    """Write the generator card of a release: what was measured, what it came to, how. Public, as the release is."""
    page, beside = card(release, output, force=force)
    notes().print(f"wrote {page} and {beside}", soft_wrap=True)


def _print_audit(found: Audit) -> None:
    """The verdict in words, and the tests."""
    for words in found.sentences():
        out().print(words, markup=False)
    if found.tests:
        print_table("", HEADS, audit_rows(found))
    for note in found.notes:
        notes().print(f"note: {note}", soft_wrap=True, markup=False)


def _names(text: str) -> list[str]:
    """Names with commas between."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _margins(given: list[str] | None) -> list[list[str]] | int | None:
    """Margins of --safe, or a width."""
    if not given:
        return None
    if len(given) == 1 and given[0].strip().isdigit():
        return int(given[0])
    return [_names(text) for text in given]
