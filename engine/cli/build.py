"""The commands `tablepack plan` and `tablepack build`: from a spec, what a release would hold, and the release.

In sticky mode a plan measures what a build would release and keeps sizes only; in mode dp it reads no data.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.api import amend
from engine.api.reading import read
from engine.cli.console import (
    AsJson,
    ReleasePath,
    SpecPath,
    Tables,
    Width,
    entries_of,
    notes,
    number,
    out,
    print_json,
    print_table,
    progress_bar,
)
from engine.errors import SpecError
from engine.params import MOST_CHOSEN
from engine.spec import ReleaseSpec, Workload, warning_of_many
from engine.store import (
    GeneratorCard,
    bound_sentences,
    exposure_sentences,
    promises,
    read_signature,
    signature_path,
)
from engine.texts import N_SHOWN, spec_entry

if TYPE_CHECKING:
    from engine.api.choose import Choice
    from engine.release import Made, Plan, PlanDP

commands = typer.Typer(rich_markup_mode="markdown")
Changed = Annotated[
    list[str] | None,
    typer.Option("--columns", help="Columns of one table, with commas between; may be repeated."),
]
SpecBeside = Annotated[
    Path | None,
    typer.Option(
        "--spec",
        help="What the release was built from; by default the spec beside it, r.toml of r.duckdb. It is kept in line.",
    ),
]


@commands.command("plan", epilog="Example: `tablepack plan release.toml --top 10`")
def plan_command(
    spec: SpecPath,
    top: Annotated[
        int | None,
        typer.Option(min=1, help="Show so many tables, worst first.", show_default=str(N_SHOWN)),
    ] = None,
    is_all: Annotated[bool, typer.Option("--all", help="Show every table, worst first.")] = False,
    tables: Tables = None,
    width: Width = None,
    is_quick: Annotated[
        bool, typer.Option("--quick", help="Time and memory only, from one table in ten.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say what a release would hold: tables, cells, noise, time, and what it would cost. Builds nothing.

    Tables named here stand in the place of the spec's.

    Where the spec names a file of statements (`file = "queries.sql"` under `[[tables]]`, or a query log: `.jsonl`,
    `.csv`, `.txt`, `.log`), it also says which table answers which of them, and which get no answer. Of what these
    statements ask, a table is left out where another has its columns and one more: that one shows the same counts, up
    to its rounding gap, with noise intervals two to three times as wide. Tables of one column are always kept.
    """
    if is_all and top is not None:
        raise SpecError("--all and --top: give one of them")
    if is_quick and (is_all or top is not None):
        raise SpecError("--quick shows no tables: give it without --all and --top")
    from engine.api.build import plan as planned
    from engine.release import PlanDP

    wanted = read(spec, tables=entries_of(tables, width))
    _warn_of_many(wanted)
    shown = None if is_all else top or N_SHOWN
    if is_quick:
        _print_estimate(wanted, shown, as_json=as_json)
        return
    with progress_bar(quiet=as_json) as report:
        plan = planned(wanted, progress=report)
    if as_json:
        print_json(plan.as_dict())
        return
    _print_plan(plan, shown)
    _print_workload(wanted.workload, shown)
    for warning in plan.warnings:
        notes().print(f"warning: {warning}", soft_wrap=True, markup=False)
    if not isinstance(plan, PlanDP) and plan.refused:
        joined = "\n".join(plan.refused)
        notes().print(f"build would refuse: {joined}", soft_wrap=True, markup=False)


def _print_estimate(wanted: ReleaseSpec, top: int | None, *, as_json: bool) -> None:
    """What a build would cost."""
    from engine.api.build import estimate

    with progress_bar(quiet=as_json) as report:
        found = estimate(wanted, progress=report)
    workload = wanted.workload
    if as_json:
        print_json(found.as_dict() | ({"workload": workload.as_dict()} if workload else {}))
        return
    for line in found.sentences():
        out().print(line, soft_wrap=True, markup=False)
    _print_workload(workload, top)


def _warn_of_many(spec: ReleaseSpec) -> None:
    """Say beforehand what thousands of tables cost."""
    warning = warning_of_many(len(spec.tables)) if spec.mode == "sticky" else None
    if warning:
        notes().print(f"warning: {warning}", soft_wrap=True, markup=False)


def _print_plan(plan: Plan | PlanDP, top: int | None) -> None:
    """The worst tables of a plan; where not all are shown, what there is of each width; what all are together."""
    from engine.release import PlanDP

    rows = plan.rows_of()
    print_table("", plan.heads, rows[:top])
    hidden = 0 if top is None else len(rows) - top
    if hidden > 0:
        out().print(
            f"... and {number(hidden, 'more table')}, better than these (--all shows them)\n",
            soft_wrap=True,
        )
        if not isinstance(plan, PlanDP):
            print_table("", plan.width_heads, plan.by_width())
    for line in plan.sentences():
        out().print(line, soft_wrap=True, markup=False)


def _print_workload(workload: Workload | None, top: int | None) -> None:
    """Which table answers which statements of files, what is asked most first; which statements get no answer."""
    if workload is None:
        return
    out().print()
    print_table("", workload.heads, workload.rows_of(top))
    hidden = 0 if top is None else len(workload.asked) - top
    if hidden > 0:
        out().print(
            f"... and {number(hidden, 'more combination')}, asked less often (--all shows them)",
            soft_wrap=True,
        )
    for line in workload.sentences(top):
        out().print(line, soft_wrap=True, markup=False)


def _say_unanswered(spec: ReleaseSpec) -> None:
    """How many statements of files a release will not answer."""
    lost = sum(len(one.places) for one in spec.workload.unanswered) if spec.workload else 0
    if lost:
        notes().print(
            f"{number(lost, 'statement')} of the workload will have no answer: tablepack plan says which and why",
            soft_wrap=True,
        )


@commands.command("build", epilog="Example: `tablepack build release.toml -o census.duckdb`")
def build_command(
    spec: SpecPath,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="Release file to make; by default named after the spec."
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="1: measure and fit take turns.")] = 2,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Replace a release that is there, once the new one is whole; its signature goes, so sign it again.",
        ),
    ] = False,
    tables: Tables = None,
    width: Width = None,
    as_json: AsJson = False,
) -> None:
    """Build a release. Run again after an interruption, it goes on where it stopped.

    Tables named here stand in the place of the spec's.
    """
    from engine.api.build import default_output
    from engine.release import build

    output = output or default_output(spec)
    wanted = read(spec, tables=entries_of(tables, width))
    _warn_of_many(wanted)
    _say_unanswered(wanted)
    was_signed = signature_path(output).exists()
    with progress_bar(quiet=as_json) as report:
        build(wanted, output, jobs=jobs, force=force, progress=report)
    _print_built(output, was_signed=was_signed, as_json=as_json)


@commands.command("add", epilog="Example: `tablepack add census.duckdb --columns age,sex,region`")
def add_command(
    release: ReleasePath,
    columns: Changed = None,
    spec: SpecBeside = None,
    jobs: Annotated[int, typer.Option(min=1, help="1: measure and fit take turns.")] = 2,
    as_json: AsJson = False,
) -> None:
    """Add tables to a release; only what is new is fitted. The result is what a build of all would be.

    Without --columns: the tables that the spec lists and the release has not.
    """
    change = amend.addition(release, _column_sets(columns), spec)
    _print_changed(change, jobs=jobs, as_json=as_json)


@commands.command("drop", epilog="Example: `tablepack drop census.duckdb --columns age,sex,region`")
def drop_command(
    release: ReleasePath,
    columns: Changed = None,
    spec: SpecBeside = None,
    jobs: Annotated[int, typer.Option(min=1, help="1: measure and fit take turns.")] = 2,
    as_json: AsJson = False,
) -> None:
    """Take tables out of a release; the others stay as they are. What was told is told, and stays in the ledger.

    Without --columns: the tables that the release has and the spec no longer lists.
    """
    change = amend.removal(release, _column_sets(columns), spec)
    _print_changed(change, jobs=jobs, as_json=as_json)


@commands.command(
    "choose", epilog="Example: `tablepack choose census.duckdb --most 12 --target income --add`"
)
def choose_command(
    release: ReleasePath,
    most: Annotated[
        int | None,
        typer.Option(
            "--most",
            help="So many tables at most.",
            show_default=f"what max_added of the spec leaves, or {MOST_CHOSEN}",
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            help="The wide table, with commas between; needed where there are several.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", help="Tables with this column first; by default the spec's."),
    ] = None,
    spec: SpecBeside = None,
    is_added: Annotated[
        bool, typer.Option("--add", help="Add them to the release and its spec.")
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, help="1: measure and fit take turns.")] = 2,
    as_json: AsJson = False,
) -> None:
    """Choose tables of three columns that help a wide table most, from what the release shows of pairs.

    Prints what a spec says of them. None is chosen that would bring the release over its owner's bound.
    """
    from engine.api.choose import choose

    listed = _column_sets(None if columns is None else [columns])
    with progress_bar(quiet=as_json) as report:
        choice = choose(
            release,
            most,
            columns=listed[0] if listed else None,
            target=target,
            spec=spec,
            progress=report,
        )
    if not as_json:
        _print_choice(choice, is_added=is_added)
    if is_added and choice.tables:
        change = amend.addition(release, choice.tables, spec)
        _print_changed(change, jobs=jobs, as_json=as_json)
    elif as_json:
        print_json(choice.as_dict())


def _print_choice(choice: Choice, *, is_added: bool) -> None:
    """The entries of a spec, and what was left out."""
    if not is_added:
        for table in choice.tables:
            out().print(f"{spec_entry(table)}\n", soft_wrap=True, markup=False, highlight=False)
    for sentence in choice.sentences():
        notes().print(sentence, soft_wrap=True, markup=False)


def _column_sets(listed: list[str] | None) -> list[list[str]]:
    """The tables that options name."""
    return [entry["columns"] for entry in entries_of(listed, None, "--columns")]


def _print_changed(change: amend.Change, *, jobs: int, as_json: bool) -> None:
    """Make a change, and say what was made."""
    output = change.before.path
    was_signed = signature_path(output).exists()
    with progress_bar(quiet=as_json) as report:
        made = amend.carry_out(change, jobs=jobs, progress=report)
    if not as_json:
        notes().print(
            f"{'added' if change.is_more else 'taken out'}: {amend.some(change.tables) or 'nothing'}"
            + (f"; {change.spec_path} says so" if change.edited and change.spec_path else ""),
            soft_wrap=True,
            markup=False,
        )
    if made is None:
        _print_built(output, was_signed=was_signed, as_json=as_json)
    else:
        _warn_of_signature(output, was_signed=was_signed)
        exposed = exposure_sentences(made.exposure)
        _print_summary(_summary_of(made, change.spec), exposed, as_json=as_json)


def _summary_of(made: Made, spec: ReleaseSpec) -> dict[str, Any]:
    """What `engine.cli.show.summary_of` says of a release: that was just written here, and need not be opened."""
    signature = read_signature(made.path)
    return {
        "path": str(made.path),
        "bytes": made.path.stat().st_size,
        "title": spec.title,
        "vintage": spec.vintage,
        "key_id": made.key_id,
        "unit": spec.unit.as_dict(),
        "entity": spec.entity.as_dict(),
        "tables": len(spec.tables),
        "content_hash": made.content_hash,
        "signed_by": None if signature is None else signature.fingerprint,
        "signature_checked": False,
    }


def _warn_of_signature(output: Path, *, was_signed: bool) -> None:
    """Say that a file lost its signature."""
    if was_signed and not signature_path(output).exists():
        notes().print(
            f"{output} is another file now: its signature was removed; sign it again",
            soft_wrap=True,
            markup=False,
        )


def _print_built(output: Path, *, was_signed: bool, as_json: bool) -> None:
    """Open a finished release, and say what it is; exit code 4 where a fit did not converge."""
    from engine.cli.show import summary_of
    from queries.release import open_release

    _warn_of_signature(output, was_signed=was_signed)
    with open_release(output) as release:
        summary = summary_of(release)
        card = release.card(*release.tables[0]) if release.tables else None
    remarks = _remarks(card) if card is not None and card.dp else []
    told = [*remarks, *(_told(card) if card else ())]
    _print_summary({**summary, "remarks": remarks} if remarks else summary, told, as_json=as_json)
    if card is not None and card.dp and not card.dp["converged"]:
        raise typer.Exit(4)


def _print_summary(summary: dict[str, Any], told: Sequence[str], *, as_json: bool) -> None:
    """A finished release in one line, and what its owner must know of it."""
    if as_json:
        print_json(summary)
        return
    notes().print(
        f"wrote {summary['path']} ({summary['bytes'] / 1e6:.1f} MB): {number(summary['tables'], 'table')}, content "
        f"hash {summary['content_hash']}",
        soft_wrap=True,
    )
    for sentence in told:
        notes().print(sentence, soft_wrap=True, markup=False)


def _told(card: GeneratorCard) -> list[str]:
    """What a custodian must know of a finished release in mode sticky."""
    if card.dp:
        return []
    return [*bound_sentences(card.scale, card.words), *exposure_sentences(card.exposure)]


def _remarks(card: GeneratorCard) -> list[str]:
    """What a custodian must know of a finished release in mode dp."""
    remarks = list(promises(card.dp))
    if card.dp["uniform"]:
        remarks.append(
            f"warning: in no margin, so evenly frequent: {', '.join(card.dp['uniform'])}"
        )
    if not card.rows:
        remarks.append("warning: NO ROWS: the noisy total is 0 or below; spend more epsilon")
    if not card.dp["converged"]:
        remarks.append(
            "warning: the fit did NOT converge, and the cards say so: more max_cycles, or other margins, may help"
        )
    return remarks
