"""The commands `tablepack evaluate` (utility and risk of a release) and `compare` (modes, settings or generators).

Both write an HTML report and JSON and print a summary. `evaluate --strict` ends with exit code 3 if an attack exceeds
its threshold, 4 if a utility measure does. Reports are CONFIDENTIAL unless --publishable is given; `compare` keeps
none of the releases that it builds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from engine.api.compare import compare
from engine.api.evaluate import evaluate
from engine.cli.console import (
    Frame,
    JsonOnly,
    out,
    print_line,
    print_note,
    print_table,
    progress_bar,
    write,
)
from engine.cli.options import Given, taking
from engine.errors import SpecError
from engine.evaluation.compare import EPSILONS, Comparison
from engine.evaluation.report.page import comparison_json, comparison_table
from engine.evaluation.report.verdicts import (
    KEY,
    Line,
    as_json,
    blocks,
    check_frame,
    lines,
    publishable_lines,
    reasons,
    sentence,
    write_frame,
)
from engine.evaluation.runner import Evaluation

EXAMPLE = "Example: `tablepack evaluate census.duckdb --data people.csv -o report.html`"
commands = typer.Typer(rich_markup_mode="markdown")
POOR_UTILITY, POOR_RISK = 4, 3
EXAMPLE_OF_COMPARE = (
    "Example: `tablepack compare release.toml --epsilon 0.1,0.5,1,2,10 -o compare.html`"
)
NAMES, FIGURE = 22, 26
"""Width on the screen, in characters, of the names of the compared releases and of one figure."""

Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Exit with code 3 (risk) or 4 (utility) if a figure in the summary is poor.",
    ),
]
Full = Annotated[
    bool,
    typer.Option(
        "--full",
        help="With --together: combine as fully synthetic data, each table a sample of its own synthetic population.",
    ),
]


@commands.command("evaluate", epilog=EXAMPLE)
@taking(
    evaluate,
    out=Path("report.html"),
    leave=("combining",),
    like={
        "jobs": {
            "show_default": "one per processor, at most 4, fewer if memory is short, 1 for small files"
        },
    },
)
def evaluate_command(
    given: Given,
    full: Full = False,
    strict: Strict = False,
    frame: Frame = None,
    as_json_: JsonOnly = False,
) -> None:
    """Measure the utility and risk of a release or any synthetic table. Needs the original data; CONFIDENTIAL."""
    synthetic, output = given.pop("synthetic"), given["out"]
    publishable, force = given["publishable"], given["force"]
    if full and not given["together"]:
        raise SpecError("--full needs --together")
    if frame is not None:
        if publishable:
            raise SpecError("--frame holds everything and cannot be combined with --publishable")
        inputs = (*synthetic, given["data"], given["control"], output)
        check_frame(frame, force=force, inputs=inputs)
    with progress_bar(quiet=as_json_) as report:
        combining: Any = "full" if full else "partial"
        evaluation = evaluate(*synthetic, **given, combining=combining, progress=report)
    if frame is not None:
        write_frame(evaluation, frame, force=force)
    verdicts = lines(evaluation)
    if as_json_:
        write(as_json(evaluation, publishable=publishable))
    else:
        _print_summary(evaluation, verdicts, publishable=publishable)
    kind = "publishable: rounded scores only" if publishable else "CONFIDENTIAL, mode 0600"
    print_note(f"wrote {output} and {output.with_suffix('.json')} ({kind})")
    _end(verdicts, strict=strict)


def _print_summary(evaluation: Evaluation, verdicts: list[Line], *, publishable: bool) -> None:
    """Print the headline figures of all subjects, and the verdicts."""
    names = [result.subject.name for result in evaluation.results]
    told = publishable_lines(verdicts, evaluation.n_rows) if publishable else verdicts
    sample = f"{evaluation.share:.0%} sample"
    screen = out()
    for title, heads, rows in blocks(told, names, sample=sample, width=screen.width):
        screen.print(title, markup=False, style="bold")
        print_table("", heads, rows)
        screen.print()
    screen.print(KEY, markup=False)
    for name in names:
        before = f"{name}: " if len(names) > 1 else ""
        for is_risk in (False, True):
            verdict = sentence([line for line in told if line.subject == name], is_risk=is_risk)
            screen.print(f"{before}{verdict}", markup=False)
        for why in reasons([line for line in verdicts if line.subject == name]):
            screen.print(f"{before}{why}", markup=False)
    for result in evaluation.results:
        for note in result.subject.notes:
            print_note(f"{result.subject.name}: {note}")
    for note in evaluation.notes:
        print_note(f"note: {note}")


def _end(verdicts: list[Line], *, strict: bool) -> None:
    """With --strict, exit with the code for what is poor."""
    poor = {line.is_risk for line in verdicts if line.fails}
    if strict and poor:
        raise typer.Exit(POOR_RISK if True in poor else POOR_UTILITY)


@commands.command("compare", epilog=EXAMPLE_OF_COMPARE)
@taking(
    compare,
    out=Path("compare.html"),
    like={
        "generators": {"flags": ("--with",), "metavar": "GENERATOR,...", "type": list[str] | None},
        "sweep": {"flags": ("--sweep", "--levers")},
        "epsilon": {"show_default": ",".join(f"{epsilon:g}" for epsilon in EPSILONS)},
        "seeds": {"show_default": "3, or 1 with --levers or --with"},
    },
)
def compare_command(given: Given, as_json_: JsonOnly = False) -> None:
    """Compare sticky and dp releases of the same tables, settings (--levers) or generators (--with). CONFIDENTIAL.

    Keeps none of the releases that it builds.
    """
    given["generators"] = given["generators"] or None
    with progress_bar(quiet=as_json_) as report:
        found = compare(given.pop("what"), **given, progress=report)
    output = given["out"]
    _print_comparison(found, as_json_=as_json_)
    print_note(f"wrote {output} and {output.with_suffix('.json')} (CONFIDENTIAL, mode 0600)")


def _print_comparison(comparison: Comparison, *, as_json_: bool) -> None:
    """Print a comparison as a table with one line per generator, or as JSON."""
    if as_json_:
        write(comparison_json(comparison))
        return
    heads, rows = comparison_table(comparison)
    at_once = max(1, (out().width - NAMES) // FIGURE)
    for start in range(1, len(heads), at_once):
        part = range(start, min(start + at_once, len(heads)))
        lines = [[row[0], *(row[i] for i in part)] for row in rows]
        print_table("", ("", *(heads[i] for i in part)), lines)
    own, others = comparison.beside()
    if others:
        print_line(f"Compared with {own}:")
    for name, difference in others:
        print_line(f"{name}: {difference}")
    for note in comparison.notes:
        print_note(f"note: {note}")
