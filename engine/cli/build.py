"""The commands `tablepack plan`, `build`, `draft`, `measure` and `fit`.

In sticky mode a plan measures what a build would release and keeps only the sizes; in mode dp it reads no data.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.api.build import build, default_output, estimate, fit_release, measure_release, plan
from engine.api.draft import default_draft, draft, remove_drafts
from engine.api.reading import read
from engine.cli.console import (
    AsJson,
    Tables,
    Width,
    entries_of,
    number,
    out,
    print_json,
    print_line,
    print_note,
    print_table,
    progress_bar,
)
from engine.cli.options import Given, taking
from engine.cli.summary import is_signed, print_built
from engine.errors import SpecError
from engine.spec import ReleaseSpec, Workload, warning_of_many
from engine.texts import N_SHOWN

if TYPE_CHECKING:
    from engine.release import Plan, PlanDP

commands = typer.Typer(rich_markup_mode="markdown")
Top = Annotated[
    int | None,
    typer.Option(min=1, help="Number of tables to show, worst first.", show_default=str(N_SHOWN)),
]
All = Annotated[bool, typer.Option("--all", help="Show every table, worst first.")]
Quick = Annotated[
    bool, typer.Option("--quick", help="Estimate only time and memory, from one table in ten.")
]
Clean = Annotated[
    bool,
    typer.Option("--clean", help="Delete all drafts beside the spec, or in the working folder."),
]


@commands.command("plan", epilog="Example: `tablepack plan release.toml --top 10`")
@taking(plan)
def plan_command(
    given: Given,
    top: Top = None,
    is_all: All = False,
    tables: Tables = None,
    width: Width = None,
    is_quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """Show what a release would contain and cost: tables, cells, noise, exposure, time. Builds nothing.

    Tables given as options replace those of the spec.

    If the spec names a file of SQL statements (`file = "queries.sql"` under `[[tables]]`, or a query log: `.jsonl`,
    `.csv`, `.txt`, `.log`), the plan also shows which table answers each statement and which statements cannot be
    answered. A table derived from these statements is left out if another has the same columns and one more: that one
    gives the same counts, up to its rounding gap, with noise intervals two to three times as wide. Tables of one column
    are always kept.
    """
    from engine.release import PlanDP

    if is_all and top is not None:
        raise SpecError("--all and --top cannot be combined")
    if is_quick and (is_all or top is not None or given["further"] or given["accuracy"]):
        raise SpecError(
            "--quick shows no tables; it cannot be combined with --all, --top, --further or --accuracy"
        )
    spec = given.pop("what")
    wanted = _spec(spec, tables, width)
    shown = None if is_all else top or N_SHOWN
    if is_quick:
        _print_estimate(wanted, shown, as_json=as_json)
        return
    with progress_bar(quiet=as_json) as report:
        planned = plan(wanted, **given, progress=report)
    if as_json:
        print_json(planned.as_dict())
        return
    _print_plan(planned, shown)
    _print_workload(wanted.workload, shown)
    for warning in planned.warnings:
        print_note(f"warning: {warning}")
    if not isinstance(planned, PlanDP):
        _print_advice(planned, wanted, spec)


def _spec(
    path: Path, tables: list[str] | None, width: int | None, *, check_key: bool = True
) -> ReleaseSpec:
    """Read a spec with the tables given as options; warn before measuring if it has thousands of them."""
    spec = read(path, tables=entries_of(tables, width), check_key=check_key)
    warning = warning_of_many(len(spec.tables)) if spec.mode == "sticky" else None
    if warning:
        print_note(f"warning: {warning}")
    return spec


def _print_advice(plan: Plan, wanted: ReleaseSpec, spec: Path) -> None:
    """Print which tables could be added, why a build would be refused, and what to do next."""
    from engine.release import further_tables

    if plan.further:
        print_note(
            "further tables, and how often a secret of the most exposed would be guessed right with each:"
        )
        for table in plan.further:
            print_line(f"  {table}")
    elif n := len(further_tables(wanted)):
        print_note(
            f"{number(n, 'usual table')} {'is' if n == 1 else 'are'} not in the spec; what each would reveal: --further"
        )
    if plan.refused:
        joined = "\n".join(plan.refused)
        print_note(f"a build would be refused: {joined}")
    print_note(f"to look at the tables first: tablepack draft {spec} spends nothing of the key")


def _print_estimate(wanted: ReleaseSpec, top: int | None, *, as_json: bool) -> None:
    """Print the time and memory that a build would take."""
    with progress_bar(quiet=as_json) as report:
        found = estimate(wanted, progress=report)
    workload = wanted.workload
    if as_json:
        print_json(found.as_dict() | ({"workload": workload.as_dict()} if workload else {}))
        return
    for line in found.sentences():
        print_line(line)
    _print_workload(workload, top)


def _print_plan(plan: Plan | PlanDP, top: int | None) -> None:
    """Print the worst tables of a plan, a summary by width if not all are shown, and the totals."""
    from engine.release import PlanDP

    rows = plan.rows_of()
    print_table("", plan.heads, rows[:top])
    hidden = 0 if top is None else len(rows) - top
    if hidden > 0:
        print_line(
            f"... and {number(hidden, 'more table')} with less suppressed (--all shows them)\n"
        )
        if not isinstance(plan, PlanDP):
            print_table("", plan.width_heads, plan.by_width())
    for line in plan.sentences():
        print_line(line)


def _print_workload(workload: Workload | None, top: int | None) -> None:
    """Print which table answers each statement of the workload, most frequent first, and what is not answered."""
    if workload is None:
        return
    out().print()
    print_table("", workload.heads, workload.rows_of(top))
    hidden = 0 if top is None else len(workload.asked) - top
    if hidden > 0:
        print_line(
            f"... and {number(hidden, 'more combination')}, less frequent (--all shows them)"
        )
    for line in workload.sentences(top):
        print_line(line)


def _print_unanswered(spec: ReleaseSpec) -> None:
    """Print how many statements of the workload the release will not answer."""
    lost = sum(len(one.places) for one in spec.workload.unanswered) if spec.workload else 0
    if lost:
        print_note(
            f"{number(lost, 'statement')} of the workload cannot be answered: see tablepack plan for the reasons"
        )


@commands.command("build", epilog="Example: `tablepack build release.toml -o census.duckdb`")
@taking(build)
def build_command(
    given: Given, tables: Tables = None, width: Width = None, as_json: AsJson = False
) -> None:
    """Build a release. After an interruption, the same command resumes where it stopped.

    Tables given as options replace those of the spec.
    """
    from engine.release import unpublishable

    spec = given.pop("what")
    given["out"] = given["out"] or default_output(spec)
    wanted = _spec(spec, tables, width)
    _print_unanswered(wanted)
    was_signed = is_signed(given["out"])
    with progress_bar(quiet=as_json) as report:
        made = build(wanted, **given, progress=report)
    if wanted.mode == "dp" and not as_json:
        _print_remarks(wanted)
    print_built(made, was_signed=was_signed, as_json=as_json)
    for warning in () if as_json else unpublishable(wanted):
        print_note(f"warning: {warning}")


@commands.command(
    "draft", epilog="Examples: `tablepack draft release.toml`; `tablepack draft --clean`"
)
@taking(draft, like={"what": {"type": Path | None}}, what=None)
def draft_command(
    given: Given,
    is_clean: Clean = False,
    tables: Tables = None,
    width: Width = None,
    as_json: AsJson = False,
) -> None:
    """Try a spec out: build under a throw-away key. Nothing is charged or pinned; not for publication.

    A draft shows what a spec gives, with other noise than the release will have. Keep it as confidential as the data:
    one that leaks counts as one more independent release of the same people. It is marked in its title, `tablepack
    publish` and `sign` refuse it, and a new draft replaces it.
    """
    spec = given.pop("what")
    if is_clean:
        removed = remove_drafts(Path() if spec is None else spec.absolute().parent)
        print_note(f"deleted {number(len(removed), 'draft')}")
        return
    if spec is None:
        raise SpecError("give a SPEC to draft, or --clean")
    given["out"] = given["out"] or default_draft(spec)
    wanted = _spec(spec, tables, width, check_key=False)
    with progress_bar(quiet=as_json) as report:
        made = draft(wanted, **given, progress=report)
    print_built(made, was_signed=False, as_json=as_json)


@commands.command("measure", epilog="Example: `tablepack measure release.toml -o measured`")
@taking(
    measure_release,
    like={"folder": {"flags": ("-o", "--output"), "metavar": "FOLDER"}},
)
def measure_command(given: Given, tables: Tables = None, width: Width = None) -> None:
    """Measure a release into a folder: noisy counts and how to fit them, for another machine or an auditor.

    The folder holds no rows, no true counts and no key, and all that `tablepack fit` needs; its README.txt says what
    each file is. It tells more than the release (noisy counts before they are fitted), so it is of mode 0700. What the
    release tells is charged to the ledger of the key, as by `tablepack build`, which is both commands in one. After an
    interruption, the same command resumes where it stopped. `tablepack add` takes releases of `tablepack build` only.
    """
    wanted = _spec(given.pop("what"), tables, width)
    with progress_bar() as report:
        measure_release(wanted, **given, progress=report)
    if wanted.mode == "dp":
        _print_remarks(wanted)
    folder = given["folder"]
    print_note(f"wrote {folder}; next: tablepack fit {folder} -o RELEASE")


@commands.command("fit", epilog="Example: `tablepack fit measured -o census.duckdb`")
@taking(fit_release)
def fit_command(given: Given, as_json: AsJson = False) -> None:
    """Make a release of a measurement folder. Needs neither the data nor the key.

    The result has the content hash of a release that `tablepack build` makes at once.
    """
    was_signed = is_signed(given["out"])
    with progress_bar(quiet=as_json) as report:
        made = fit_release(**given, progress=report)
    print_built(made, was_signed=was_signed, as_json=as_json)


def _print_remarks(spec: ReleaseSpec) -> None:
    """Say where the custodian finds what was not as declared: always the same, whatever there is."""
    from engine.measure.dp import measured_folder

    if spec.dp is not None and spec.dp.is_protected:
        print_note(
            f"rows left out, values outside the domains and changes of the source: see the remarks in "
            f"{measured_folder(spec.key_path)}, which are exact, so confidential"
        )
