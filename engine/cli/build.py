"""The commands `tablepack plan`, `build`, `measure`, `fit`, `add`, `drop` and `choose`.

In sticky mode a plan measures what a build would release and keeps only the sizes; in mode dp it reads no data.
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
    Jobs,
    ReleasePath,
    SpecPath,
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
from engine.errors import SpecError
from engine.guarantee import Guarantee, bound_sentences
from engine.params import MOST_CHOSEN
from engine.spec import ReleaseSpec, Workload, warning_of_many
from engine.store import (
    GeneratorCard,
    exposure_sentences,
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
    typer.Option("--columns", help="Columns of one table, separated by commas; may be repeated."),
]
SpecBeside = Annotated[
    Path | None,
    typer.Option(
        "--spec",
        help="Spec that the release was built from; by default r.toml next to r.duckdb. It is updated too.",
    ),
]


@commands.command("plan", epilog="Example: `tablepack plan release.toml --top 10`")
def plan_command(
    spec: SpecPath,
    top: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of tables to show, worst first.", show_default=str(N_SHOWN)
        ),
    ] = None,
    is_all: Annotated[bool, typer.Option("--all", help="Show every table, worst first.")] = False,
    tables: Tables = None,
    width: Width = None,
    is_quick: Annotated[
        bool, typer.Option("--quick", help="Estimate only time and memory, from one table in ten.")
    ] = False,
    is_further: Annotated[
        bool,
        typer.Option(
            "--further",
            help="Also show what each usual table that is not in the spec would reveal: pairs of columns, "
            "and age or place by sex with each other column.",
        ),
    ] = False,
    accuracy: Annotated[
        str | None,
        typer.Option(
            help='Mode dp: say which epsilon an accuracy needs, such as "region, sex: +-50" (95 of 100 cells off by at '
            "most 50)."
        ),
    ] = None,
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
    if is_all and top is not None:
        raise SpecError("--all and --top cannot be combined")
    if is_quick and (is_all or top is not None or is_further or accuracy):
        raise SpecError(
            "--quick shows no tables; it cannot be combined with --all, --top, --further or --accuracy"
        )
    from engine.api.build import plan as planned
    from engine.release import PlanDP, further_tables

    wanted = read(spec, tables=entries_of(tables, width))
    _warn_of_many(wanted)
    shown = None if is_all else top or N_SHOWN
    if is_quick:
        _print_estimate(wanted, shown, as_json=as_json)
        return
    with progress_bar(quiet=as_json) as report:
        plan = planned(wanted, further=is_further, accuracy=accuracy, progress=report)
    if as_json:
        print_json(plan.as_dict())
        return
    _print_plan(plan, shown)
    _print_workload(wanted.workload, shown)
    for warning in plan.warnings:
        print_note(f"warning: {warning}")
    if not isinstance(plan, PlanDP) and plan.further:
        print_note(
            "further tables, and how often a secret of the most exposed would be guessed right with each:"
        )
        for table in plan.further:
            print_line(f"  {table}")
    elif not isinstance(plan, PlanDP) and (n := len(further_tables(wanted))):
        print_note(
            f"{number(n, 'usual table')} {'is' if n == 1 else 'are'} not in the spec; what each would reveal: --further"
        )
    if not isinstance(plan, PlanDP) and plan.refused:
        joined = "\n".join(plan.refused)
        print_note(f"a build would be refused: {joined}")
    if not isinstance(plan, PlanDP):
        print_note(f"to look at the tables first: tablepack draft {spec} spends nothing of the key")


def _print_estimate(wanted: ReleaseSpec, top: int | None, *, as_json: bool) -> None:
    """Print the time and memory that a build would take."""
    from engine.api.build import estimate

    with progress_bar(quiet=as_json) as report:
        found = estimate(wanted, progress=report)
    workload = wanted.workload
    if as_json:
        print_json(found.as_dict() | ({"workload": workload.as_dict()} if workload else {}))
        return
    for line in found.sentences():
        print_line(line)
    _print_workload(workload, top)


def _warn_of_many(spec: ReleaseSpec) -> None:
    """Warn before measuring if the spec has thousands of tables."""
    warning = warning_of_many(len(spec.tables)) if spec.mode == "sticky" else None
    if warning:
        print_note(f"warning: {warning}")


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
def build_command(
    spec: SpecPath,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="Release file to write; by default named after the spec."
        ),
    ] = None,
    jobs: Jobs = 2,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Replace an existing release once the new one is complete. Its signature is removed: sign it again.",
        ),
    ] = False,
    tables: Tables = None,
    width: Width = None,
    as_json: AsJson = False,
) -> None:
    """Build a release. After an interruption, the same command resumes where it stopped.

    Tables given as options replace those of the spec.
    """
    from engine.api.build import default_output
    from engine.release import build, unpublishable

    output = output or default_output(spec)
    wanted = read(spec, tables=entries_of(tables, width))
    _warn_of_many(wanted)
    _print_unanswered(wanted)
    was_signed = signature_path(output).exists()
    with progress_bar(quiet=as_json) as report:
        build(wanted, output, jobs=jobs, force=force, progress=report)
    if wanted.mode == "dp" and not as_json:
        _print_remarks(wanted)
    _print_built(output, was_signed=was_signed, as_json=as_json)
    for warning in () if as_json else unpublishable(wanted):
        print_note(f"warning: {warning}")


@commands.command(
    "draft", epilog="Examples: `tablepack draft release.toml`; `tablepack draft --clean`"
)
def draft_command(
    spec: Annotated[Path | None, typer.Argument(help="Spec file.", metavar="SPEC")] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="Draft to write; by default census.draft.duckdb for census.toml."
        ),
    ] = None,
    is_clean: Annotated[
        bool,
        typer.Option(
            "--clean", help="Delete all drafts beside the spec, or in the working folder."
        ),
    ] = False,
    jobs: Jobs = 2,
    tables: Tables = None,
    width: Width = None,
    as_json: AsJson = False,
) -> None:
    """Try a spec out: build under a throw-away key. Nothing is charged or pinned; not for publication.

    A draft shows what a spec gives, with other noise than the release will have. Keep it as confidential as the data:
    one that leaks counts as one more independent release of the same people. It is marked in its title, `tablepack
    publish` and `sign` refuse it, and a new draft replaces it.
    """
    from engine.api.draft import default_draft, draft, remove_drafts

    if is_clean:
        removed = remove_drafts(Path() if spec is None else spec.absolute().parent)
        print_note(f"deleted {number(len(removed), 'draft')}")
        return
    if spec is None:
        raise SpecError("give a SPEC to draft, or --clean")
    target = output or default_draft(spec)
    with progress_bar(quiet=as_json) as report:
        wanted = read(spec, tables=entries_of(tables, width), check_key=False)
        draft(wanted, out=target, jobs=jobs, progress=report).close()
    _print_built(target, was_signed=False, as_json=as_json)


@commands.command("measure", epilog="Example: `tablepack measure release.toml -o measured`")
def measure_command(
    spec: SpecPath,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", help="Measurement folder to write.", metavar="FOLDER"),
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Replace a measurement that is there.")
    ] = False,
    tables: Tables = None,
    width: Width = None,
) -> None:
    """Measure a release into a folder: noisy counts and how to fit them, for another machine or an auditor.

    The folder holds no rows, no true counts and no key, and all that `tablepack fit` needs; its README.txt says what
    each file is. It tells more than the release (noisy counts before they are fitted), so it is of mode 0700. What the
    release tells is charged to the ledger of the key, as by `tablepack build`, which is both commands in one. After an
    interruption, the same command resumes where it stopped. `tablepack add` takes releases of `tablepack build` only.
    """
    from engine.release import measure

    wanted = read(spec, tables=entries_of(tables, width))
    _warn_of_many(wanted)
    with progress_bar() as report:
        measure(wanted, output, force=force, progress=report)
    if wanted.mode == "dp":
        _print_remarks(wanted)
    print_note(f"wrote {output}; next: tablepack fit {output} -o RELEASE")


@commands.command("fit", epilog="Example: `tablepack fit measured -o census.duckdb`")
def fit_command(
    folder: Annotated[Path, typer.Argument(help="Folder of tablepack measure.", metavar="FOLDER")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Release file to write.")],
    jobs: Jobs = 2,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Replace an existing release once the new one is complete. Its signature is removed: sign it again.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make a release of a measurement folder. Needs neither the data nor the key.

    The result has the content hash of a release that `tablepack build` makes at once.
    """
    from engine.release import fit

    was_signed = signature_path(output).exists()
    with progress_bar(quiet=as_json) as report:
        fit(folder, output, jobs=jobs, force=force, progress=report)
    _print_built(output, was_signed=was_signed, as_json=as_json)


def _print_remarks(spec: ReleaseSpec) -> None:
    """Say where the custodian finds what was not as declared: always the same, whatever there is."""
    from engine.measure.dp import measured_folder

    if spec.dp is not None and spec.dp.is_protected:
        print_note(
            f"rows left out, values outside the domains and changes of the source: see the remarks in "
            f"{measured_folder(spec.key_path)}, which are exact, so confidential"
        )


@commands.command("add", epilog="Example: `tablepack add census.duckdb --columns age,sex,region`")
def add_command(
    release: ReleasePath,
    columns: Changed = None,
    spec: SpecBeside = None,
    jobs: Jobs = 2,
    as_json: AsJson = False,
) -> None:
    """Add tables to a release. Only new tables are fitted; the result equals a build of all tables together.

    Without --columns: the tables that the spec lists and the release does not have.
    """
    change = amend.addition(release, _column_sets(columns), spec)
    _print_changed(change, jobs=jobs, as_json=as_json)


@commands.command("drop", epilog="Example: `tablepack drop census.duckdb --columns age,sex,region`")
def drop_command(
    release: ReleasePath,
    columns: Changed = None,
    spec: SpecBeside = None,
    jobs: Jobs = 2,
    as_json: AsJson = False,
) -> None:
    """Remove tables from a release. The others are unchanged, and the ledger still counts what was disclosed.

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
            help="Maximum number of tables.",
            show_default=f"what max_added of the spec allows, or {MOST_CHOSEN}",
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            help="Columns of the wide table, separated by commas; needed if there are several.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target", help="Prefer tables with this column; by default the target in the spec."
        ),
    ] = None,
    spec: SpecBeside = None,
    is_added: Annotated[
        bool, typer.Option("--add", help="Add them to the release and its spec.")
    ] = False,
    jobs: Jobs = 2,
    as_json: AsJson = False,
) -> None:
    """Choose the tables of three columns that improve a wide table most, judged by the released counts.

    Prints the entries for the spec. No table is chosen that would take the exposure above the bound in the spec.
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
    """Print the chosen tables as spec entries, and which were left out."""
    if not is_added:
        for table in choice.tables:
            print_line(f"{spec_entry(table)}\n")
    for sentence in choice.sentences():
        print_note(sentence)


def _column_sets(listed: list[str] | None) -> list[list[str]]:
    """The tables given by options."""
    return [entry["columns"] for entry in entries_of(listed, None, "--columns")]


def _print_changed(change: amend.Change, *, jobs: int, as_json: bool) -> None:
    """Carry out a change and print the result."""
    output = change.before.path
    was_signed = signature_path(output).exists()
    with progress_bar(quiet=as_json) as report:
        made = amend.carry_out(change, jobs=jobs, progress=report)
    if not as_json:
        print_note(
            f"{'added' if change.is_more else 'removed'}: {amend.some(change.tables) or 'nothing'}"
            + (f"; updated {change.spec_path}" if change.edited and change.spec_path else "")
        )
    if made is None:
        _print_built(output, was_signed=was_signed, as_json=as_json)
    else:
        _warn_of_signature(output, was_signed=was_signed)
        exposed = exposure_sentences(made.exposure)
        _print_summary(_summary_of(made, change.spec), exposed, as_json=as_json)


def _summary_of(made: Made, spec: ReleaseSpec) -> dict[str, Any]:
    """The same as `engine.cli.show.summary_of`, without opening the release that was just written."""
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
    """Warn that a release lost its signature."""
    if was_signed and not signature_path(output).exists():
        print_note(f"{output} was replaced, so its signature was removed; sign it again")


def _print_built(output: Path, *, was_signed: bool, as_json: bool) -> None:
    """Open a finished release and print a summary; exit code 4 if the fit did not converge."""
    from engine.cli.show import summary_of
    from queries.release import open_release

    _warn_of_signature(output, was_signed=was_signed)
    with open_release(output) as release:
        summary = summary_of(release)
        card = release.card(*release.tables[0]) if release.tables else None
    remarks = _remarks(card) if card is not None and card.dp else []
    sentences = [*remarks, *(_exposure_of(card) if card else ())]
    _print_summary(
        {**summary, "remarks": remarks} if remarks else summary, sentences, as_json=as_json
    )
    if card is not None and card.dp and not card.dp["converged"]:
        raise typer.Exit(4)


def _print_summary(summary: dict[str, Any], sentences: Sequence[str], *, as_json: bool) -> None:
    """Print one line about a finished release, and what its custodian must know."""
    if as_json:
        print_json(summary)
        return
    print_note(
        f"wrote {summary['path']} ({summary['bytes'] / 1e6:.1f} MB): {number(summary['tables'], 'table')}, content "
        f"hash {summary['content_hash']}"
    )
    for sentence in sentences:
        print_note(sentence)


def _exposure_of(card: GeneratorCard) -> list[str]:
    """What a custodian must know about a finished sticky release."""
    if card.dp:
        return []
    return [*bound_sentences(card.scale, card.words), *exposure_sentences(card.exposure)]


def _remarks(card: GeneratorCard) -> list[str]:
    """What a custodian must know about a finished release in mode dp."""
    remarks = Guarantee.of(card.dp).sentences()
    if card.dp["uniform"]:
        remarks.append(
            f"warning: in no margin, so released as uniform: {', '.join(card.dp['uniform'])}"
        )
    if not card.rows:
        remarks.append("warning: NO ROWS: the noisy total is 0 or less; use a larger epsilon")
    if not card.dp["converged"]:
        remarks.append(
            "warning: the fit did NOT converge; the cards state this. Try a larger max_cycles or other margins"
        )
    return remarks
