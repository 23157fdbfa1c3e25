"""The commands `tablepack attack`, `audit` and `card`: attacks on releases, and audits and pages of generator cards.

They write reports and JSON and print a summary. Reports of `attack` and `audit` are CONFIDENTIAL.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from engine.api.audit import audit, card
from engine.api.evaluate import attack
from engine.cli.console import (
    Frame,
    JsonOnly,
    out,
    print_note,
    print_table,
    progress_bar,
    write,
)
from engine.cli.options import Given, taking
from engine.errors import SpecError
from engine.evaluation.audit import HEADS, Audit, audit_json, audit_rows
from engine.evaluation.findings import TITLES
from engine.evaluation.report.verdicts import (
    KEY,
    as_json,
    blocks,
    check_frame,
    lines,
    reasons,
    sentence,
    write_frame,
)
from engine.evaluation.runner import Evaluation
from engine.texts import names_from

EXAMPLE = "Example: `tablepack attack census.duckdb --data people.csv --control holdout.csv -o attacks.html`"
Command = Annotated[
    str | None,
    typer.Option(
        "--generator",
        help="Command that runs another generator: reads the CSV file {in}, writes {out}.",
    ),
]
Safe = Annotated[
    list[str] | None,
    typer.Option(
        "--safe",
        help="Columns of a margin that the generator may use, separated by commas; may be repeated. Or a number: all "
        "margins of that many of --columns.",
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
@taking(attack, out=Path("attacks.html"))
def attack_command(given: Given, frame: Frame = None, as_json_: JsonOnly = False) -> None:
    """Run all attacks on finished releases, each compared with a control. Needs the original data; CONFIDENTIAL."""
    synthetic, output = given.pop("synthetic"), given["out"]
    if frame is not None:
        inputs = (*synthetic, given["data"], given["control"], output)
        check_frame(frame, force=given["force"], inputs=inputs)
    with progress_bar(quiet=as_json_) as report:
        evaluation = attack(*synthetic, **given, progress=report)
    if frame is not None:
        write_frame(evaluation, frame, force=given["force"])
    if as_json_:
        write(as_json(evaluation))
    else:
        _print_summary(evaluation)
    print_note(f"wrote {output} and {output.with_suffix('.json')} (CONFIDENTIAL, mode 0600)")


def _print_summary(evaluation: Evaluation) -> None:
    """Print the results of each attack in words, and the headline figures."""
    verdicts = lines(evaluation)
    screen = out()
    for result in evaluation.results:
        own = [line for line in verdicts if line.subject == result.subject.name]
        screen.print(f"{result.subject.name}. {sentence(own, is_risk=True)}", markup=False)
        for name, risk in result.risks.items():
            if risk.verdict:
                screen.print(f"  {TITLES[name]}: {risk.verdict}", markup=False)
        for _, heads, rows in blocks(own, [result.subject.name], sample="", width=screen.width):
            print_table("", heads, rows)
        for why in reasons(own):
            screen.print(why, markup=False)
        for note in result.subject.notes:
            print_note(f"{result.subject.name}: {note}")
        screen.print()
    screen.print(KEY, markup=False)
    for note in evaluation.notes:
        print_note(f"note: {note}")


@commands.command("audit", epilog=AUDIT_EXAMPLE)
@taking(audit, out=Path("audit.html"), leave=("generator", "safe"))
def audit_command(
    given: Given,
    what: Annotated[
        str | None,
        typer.Argument(help="Spec (TOML) or release made by tablepack.", metavar="SPEC_OR_RELEASE"),
    ] = None,
    generator: Command = None,
    safe: Safe = None,
    as_json_: JsonOnly = False,
) -> None:
    """Test whether a generator uses more of the data than its card states; exit code 3 if so. CONFIDENTIAL."""
    if (what is None) == (generator is None):
        raise SpecError("audit: give either a spec or release, or --generator with a command")
    with progress_bar(quiet=as_json_) as report:
        found = audit(what or generator, safe=_margins(safe), **given, progress=report)
    if as_json_:
        write(audit_json(found))
    else:
        _print_audit(found)
    output = given["out"]
    print_note(f"wrote {output} and {output.with_suffix('.json')} (CONFIDENTIAL, mode 0600)")
    if found.is_refuted:
        raise typer.Exit(REFUTED)


@commands.command("card", epilog="Example: `tablepack card census.duckdb -o card.html`")
@taking(card, out=Path("card.html"))
def card_command(given: Given) -> None:
    """Write the generator card of a release: what was measured, how, and the results. As public as the release."""
    page, data = card(**given)
    print_note(f"wrote {page} and {data}")


def _print_audit(found: Audit) -> None:
    """Print the verdict in words, and the tests."""
    for words in found.sentences():
        out().print(words, markup=False)
    if found.tests:
        print_table("", HEADS, audit_rows(found))
    for note in found.notes:
        print_note(f"note: {note}")


def _margins(given: list[str] | None) -> list[list[str]] | int | None:
    """The margins given with --safe, or a width."""
    if not given:
        return None
    if len(given) == 1 and given[0].strip().isdigit():
        return int(given[0])
    return [names_from(text) for text in given]
