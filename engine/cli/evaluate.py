"""The commands `tablepack evaluate`, how good and safe a release is, and `compare`: modes, levers, or rivals.

Both write a page and JSON and print a summary. `evaluate --strict` ends with exit code 3 where an attack is beyond its
threshold, 4 where a measure of utility is. Reports are CONFIDENTIAL unless --publishable is given; `compare` keeps
nothing that it builds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from engine.api.compare import compare, compare_levers, compare_rivals
from engine.api.evaluate import evaluate
from engine.cli.console import Force, SpecPath, notes, out, print_table, progress_bar, write
from engine.errors import SpecError
from engine.evaluation.compare import Contest, LeverMap, ModeComparison
from engine.evaluation.report import (
    KEY,
    Line,
    as_json,
    blocks,
    comparison_json,
    contest_json,
    contest_table,
    lines,
    map_json,
    map_table,
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
_EPSILONS = "0.1,0.5,1,2,10"
NAMES, FIGURE = 22, 26
"""Characters that names of ways, and one figure, take on a screen."""

Strict = Annotated[
    bool,
    typer.Option(
        "--strict", help="Exit 3 (risk) or 4 (utility) if a figure of the summary is poor."
    ),
]
Attacks = Annotated[
    bool,
    typer.Option("--attacks", help="Run the strong attacks of `attack`, too; takes longer."),
]
Strangers = Annotated[
    str | None,
    typer.Option(
        help="People of the same population whom the data lack: what attacks are held against."
    ),
]
Original = Annotated[
    str,
    typer.Option(
        "--data",
        help="The original: CSV, Parquet or DuckDB file; with the spec of a release, any file of its source, which is "
        "then read as the spec says.",
    ),
]
OfData = Annotated[str | None, typer.Option(help="Table of --data, if a DuckDB file.")]
StudyOrSpec = Annotated[
    str | None,
    typer.Option(
        help="What is measured: a study (TOML), a preset such as nist-acs, or a release's spec."
    ),
]
Publishable = Annotated[
    bool, typer.Option("--publishable", help="Rounded scores only; nothing of the original.")
]
Together = Annotated[
    bool, typer.Option("--together", help="The tables are sets of one synthesis: take means.")
]
Full = Annotated[
    bool,
    typer.Option(
        "--full",
        help="With --together: each table is a sample of a synthetic population of its own.",
    ),
]
Epsilons = Annotated[
    str | None,
    typer.Option(help=f"Epsilons of the dp releases, with commas between; {_EPSILONS}."),
]
Seeds = Annotated[
    int | None,
    typer.Option(help="How many releases of each way are built; 3, or 1 with --levers or --with."),
]
Levers = Annotated[
    bool,
    typer.Option(
        "--levers",
        help="Compare settings of the sticky release instead: noise, threshold, fewer tables, swapping.",
    ),
]
Rivals = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="RIVAL,...",
        help="Hold both modes beside other generators: cart, pram80, sample40, a synthetic FILE.csv, or a command, "
        "NAME='cmd {in} {out}'. An unknown name lists all.",
    ),
]
Study = Annotated[
    str | None, typer.Option(help="With --with: what is measured, as --spec of evaluate.")
]
Jobs = Annotated[
    int | None,
    typer.Option(
        help="Processes that measure; one a processor, at most 4, as memory allows, and one where files are small."
    ),
]
Areas = Annotated[
    str | None,
    typer.Option(help="With --with swap: columns that records exchange, with commas between."),
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
    data: Original,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="HTML report to write; JSON goes beside it.")
    ] = Path("report.html"),
    spec: StudyOrSpec = None,
    control: Strangers = None,
    publishable: Publishable = False,
    together: Together = False,
    full: Full = False,
    attacks: Attacks = False,
    sample: Annotated[
        float, typer.Option(help="Percentage of the original sampled as a scale for the scores.")
    ] = 40,
    seed: Annotated[int, typer.Option(help="Fixes all that is drawn.")] = 2021,
    table: OfData = None,
    jobs: Jobs = None,
    strict: Strict = False,
    force: Force = False,
    as_json_: Annotated[bool, typer.Option("--json", help="Print the JSON; no summary.")] = False,
) -> None:
    """Say how good and how safe a release, or any synthetic table, is. Needs the original; CONFIDENTIAL."""
    if full and not together:
        raise SpecError("--full: says how several tables are combined; it goes with --together")
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
    verdicts = lines(evaluation)
    if as_json_:
        write(as_json(evaluation, publishable=publishable))
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
    epsilon: Epsilons = None,
    seeds: Seeds = None,
    levers: Levers = False,
    with_: Rivals = None,
    study: Study = None,
    areas: Areas = None,
    control: Strangers = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="HTML page to write; JSON goes beside it.")
    ] = Path("compare.html"),
    jobs: Annotated[int, typer.Option(help="As in build.")] = 2,
    force: Force = False,
    as_json_: Annotated[bool, typer.Option("--json", help="Print the JSON; no table.")] = False,
) -> None:
    """Compare sticky and dp releases of the same tables, --levers, or other generators (--with). CONFIDENTIAL.

    Keeps nothing that it builds.
    """
    _refuse_options_of_others(epsilon, levers=levers, with_=with_, study=study, areas=areas)
    with progress_bar(quiet=as_json_) as report:
        shared: Any = dict(control=control, out=output, jobs=jobs, force=force, progress=report)
        if with_:
            names = areas.split(",") if areas else ()
            contest = compare_rivals(
                spec,
                with_,
                epsilon=epsilon,
                study=study,
                areas=names,
                seeds=1 if seeds is None else seeds,
                **shared,
            )
        elif levers:
            n = 1 if seeds is None else seeds
            found = compare_levers(spec, seeds=n, **shared)
        else:
            n = 3 if seeds is None else seeds
            comparison = compare(spec, epsilon=epsilon or _EPSILONS, seeds=n, **shared)
    if with_:
        _print_contest(contest, as_json_=as_json_)
    elif levers:
        _print_map(found, as_json_=as_json_)
    else:
        _print_comparison(comparison, as_json_=as_json_)
    notes().print(
        f"wrote {output} and {output.with_suffix('.json')} (CONFIDENTIAL, mode 0600)",
        soft_wrap=True,
    )


def _refuse_options_of_others(
    epsilon: str | None,
    *,
    levers: bool,
    with_: list[str] | None,
    study: str | None,
    areas: str | None,
) -> None:
    """Refuse what belongs to another comparison than the one that is asked for."""
    if levers and (epsilon is not None or with_):
        other = "--with" if with_ else "--epsilon"
        raise SpecError(f"{other}: is for several generators; --levers compares sticky releases")
    if not with_ and (study or areas):
        raise SpecError(f"{'--study' if study else '--areas'}: is for rivals; name them: --with")


def _print_comparison(comparison: ModeComparison, *, as_json_: bool) -> None:
    """The table of a comparison of modes, or its JSON."""
    if as_json_:
        write(comparison_json(comparison))
        return
    heads, rows = table_of(comparison)
    at_once = max(1, (out().width - NAMES) // FIGURE)
    for start in range(0, len(rows), at_once):
        part = rows[start : start + at_once]
        # Ways below each other: a screen is not as wide as the page.
        ways = [[head, *(row[i] for row in part)] for i, head in enumerate(heads) if i]
        print_table("", ("", *(row[0] for row in part)), ways)
    own, beside = comparison.beside()
    if beside:
        out().print(f"Beside {own}:", markup=False, soft_wrap=True)
    for name, told in beside:
        out().print(f"{name}: {told}", markup=False, soft_wrap=True)
    for note in comparison.notes:
        notes().print(f"note: {note}", soft_wrap=True, markup=False)


def _print_map(found: LeverMap, *, as_json_: bool) -> None:
    """The table of a comparison of levers, and what each setting comes to; or its JSON."""
    if as_json_:
        write(map_json(found))
        return
    heads, rows = map_table(found)
    print_table("", heads, [list(row) for row in rows])
    for setting in found.settings():
        if told := found.verdict(setting):
            out().print(f"{setting.name}: {told}", markup=False, soft_wrap=True)
    for note in found.notes:
        notes().print(f"note: {note}", soft_wrap=True, markup=False)


def _print_contest(contest: Contest, *, as_json_: bool) -> None:
    """The table of a comparison with rivals, or its JSON."""
    if as_json_:
        write(contest_json(contest))
        return
    heads, rows = contest_table(contest)
    at_once = max(1, (out().width - NAMES) // FIGURE)
    for start in range(1, len(heads), at_once):
        part = range(start, min(start + at_once, len(heads)))
        lines = [[row[0], *(row[i] for i in part)] for row in rows]
        print_table("", ("", *(heads[i] for i in part)), lines)
    for note in contest.notes:
        notes().print(f"note: {note}", soft_wrap=True, markup=False)
