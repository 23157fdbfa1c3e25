"""The commands `tablepack evaluate` (utility and risk of a release) and `compare` (modes, settings or generators).

Both write an HTML report and JSON and print a summary. `evaluate --strict` ends with exit code 3 if an attack exceeds
its threshold, 4 if a utility measure does. Reports are CONFIDENTIAL unless --publishable is given; `compare` keeps
none of the releases that it builds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from engine.api.compare import compare, compare_levers, compare_rivals
from engine.api.evaluate import evaluate
from engine.cli.console import (
    DataTable,
    Force,
    Frame,
    Jobs,
    JsonOnly,
    Report,
    Seed,
    SpecPath,
    out,
    print_line,
    print_note,
    print_table,
    progress_bar,
    write,
)
from engine.errors import SpecError
from engine.evaluation.compare import Comparison
from engine.evaluation.report import (
    KEY,
    Line,
    as_json,
    blocks,
    check_frame,
    comparison_json,
    comparison_table,
    lines,
    reasons,
    sentence,
    write_frame,
)
from engine.evaluation.result import Evaluation
from engine.texts import names_from

EXAMPLE = "Example: `tablepack evaluate census.duckdb --data people.csv -o report.html`"
commands = typer.Typer(rich_markup_mode="markdown")
POOR_UTILITY, POOR_RISK = 4, 3
EXAMPLE_OF_COMPARE = (
    "Example: `tablepack compare release.toml --epsilon 0.1,0.5,1,2,10 -o compare.html`"
)
_EPSILONS = "0.1,0.5,1,2,10"
NAMES, FIGURE = 22, 26
"""Width on the screen, in characters, of the names of the compared releases and of one figure."""

Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Exit with code 3 (risk) or 4 (utility) if a figure in the summary is poor.",
    ),
]
Attacks = Annotated[
    bool,
    typer.Option(
        "--attacks", help="Also run the strong attacks of `tablepack attack`; takes longer."
    ),
]
Control = Annotated[
    str | None,
    typer.Option(
        help="Holdout: people from the same population who are not in the data; the control for attacks."
    ),
]
Original = Annotated[
    str,
    typer.Option(
        "--data",
        help="Original data: CSV, Parquet or DuckDB file. With a release's spec, any file of its source, read as the "
        "spec defines.",
    ),
]
StudyOrSpec = Annotated[
    str | None,
    typer.Option(
        help="What to measure: a study (TOML), a preset such as nist-acs, or a release's spec."
    ),
]
Publishable = Annotated[
    bool,
    typer.Option(
        "--publishable", help="Report only rounded scores, nothing else about the original data."
    ),
]
Together = Annotated[
    bool,
    typer.Option(
        "--together", help="The tables are replicates of one synthesis: average their results."
    ),
]
Full = Annotated[
    bool,
    typer.Option(
        "--full",
        help="With --together: combine as fully synthetic data, each table a sample of its own synthetic population.",
    ),
]
Epsilons = Annotated[
    str | None,
    typer.Option(help="Epsilons of the dp releases, separated by commas.", show_default=_EPSILONS),
]
Seeds = Annotated[
    int | None,
    typer.Option(
        help="Number of releases built of each kind.",
        show_default="3, or 1 with --levers or --with",
    ),
]
Levers = Annotated[
    bool,
    typer.Option(
        "--sweep",
        "--levers",
        help="Parameter sweep: compare settings of the sticky release (noise, threshold, fewer tables, swapping).",
    ),
]
Generators = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="GENERATOR,...",
        help="Compare both modes with other generators: cart, pram80, sample40, a synthetic FILE.csv, or a command, "
        "NAME='cmd {in} {out}'. An unknown name prints the list.",
    ),
]
Study = Annotated[
    str | None,
    typer.Option(help="With --with: what to measure, as --spec of `tablepack evaluate`."),
]
Processes = Annotated[
    int | None,
    typer.Option(
        help="Number of processes.",
        show_default="one per processor, at most 4, fewer if memory is short, 1 for small files",
    ),
]
Areas = Annotated[
    str | None,
    typer.Option(help="With --with swap: columns that records exchange, separated by commas."),
]


@commands.command("evaluate", epilog=EXAMPLE)
def evaluate_command(
    synthetic: Annotated[
        list[str],
        typer.Argument(
            help="Releases, or synthetic tables of any tool (CSV, Parquet); the first is the reference for the others.",
            metavar="RELEASE_OR_CSV...",
        ),
    ],
    data: Original,
    output: Report = Path("report.html"),
    spec: StudyOrSpec = None,
    control: Control = None,
    publishable: Publishable = False,
    together: Together = False,
    full: Full = False,
    attacks: Attacks = False,
    sample: Annotated[
        float,
        typer.Option(help="Percentage of the original data sampled as a reference for the scores."),
    ] = 40,
    seed: Seed = 2021,
    table: DataTable = None,
    jobs: Processes = None,
    strict: Strict = False,
    frame: Frame = None,
    force: Force = False,
    as_json_: JsonOnly = False,
) -> None:
    """Measure the utility and risk of a release or any synthetic table. Needs the original data; CONFIDENTIAL."""
    if full and not together:
        raise SpecError("--full needs --together")
    if frame is not None:
        if publishable:
            raise SpecError("--frame holds everything and cannot be combined with --publishable")
        check_frame(frame, force=force, inputs=(*synthetic, data, control, output))
    with progress_bar(quiet=as_json_) as report:
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
            combining="full" if full else "partial",
            attacks=attacks,
            table=table,
            jobs=jobs,
            force=force,
            progress=report,
        )
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
            print_note(f"{result.subject.name}: {note}")
    for note in evaluation.notes:
        print_note(f"note: {note}")


def _end(verdicts: list[Line], *, strict: bool) -> None:
    """With --strict, exit with the code for what is poor."""
    poor = {line.is_risk for line in verdicts if line.fails}
    if strict and poor:
        raise typer.Exit(POOR_RISK if True in poor else POOR_UTILITY)


@commands.command("compare", epilog=EXAMPLE_OF_COMPARE)
def compare_command(
    spec: SpecPath,
    epsilon: Epsilons = None,
    seeds: Seeds = None,
    levers: Levers = False,
    with_: Generators = None,
    study: Study = None,
    areas: Areas = None,
    control: Control = None,
    output: Report = Path("compare.html"),
    jobs: Jobs = 2,
    force: Force = False,
    as_json_: JsonOnly = False,
) -> None:
    """Compare sticky and dp releases of the same tables, settings (--levers) or generators (--with). CONFIDENTIAL.

    Keeps none of the releases that it builds.
    """
    if levers and (epsilon is not None or with_):
        other = "--with" if with_ else "--epsilon"
        raise SpecError(f"{other} cannot be combined with --levers, which compares sticky releases")
    if not with_ and (study or areas):
        raise SpecError(f"{'--study' if study else '--areas'} needs --with")
    if seeds is None:
        seeds = 1 if levers or with_ else 3
    with progress_bar(quiet=as_json_) as report:
        shared: Any = dict(
            control=control, out=output, seeds=seeds, jobs=jobs, force=force, progress=report
        )
        if with_:
            names = names_from(areas or "")
            found = compare_rivals(spec, with_, epsilon=epsilon, study=study, areas=names, **shared)
        elif levers:
            found = compare_levers(spec, **shared)
        else:
            found = compare(spec, epsilon=epsilon or _EPSILONS, **shared)
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
