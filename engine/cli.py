"""The command line: `tablepack COMMAND`. The one module that may import everything.

Results go to standard output, all else to standard error. Exit codes: 0 ok, 1 our bug, 2 usage, spec or data,
3 privacy check failed, 4 quality threshold failed, 5 query refused or not covered, 6 release damaged or of another
format.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from engine import (
    api,
    cli_budget,
    cli_compare,
    cli_evaluate,
    cli_plan,
    cli_publish,
    cli_serve,
    cli_sql,
    doctor,
    keys,
)
from engine import detect as detection
from engine.card_dp import promises
from engine.console import notes, out, print_table, progress_bar
from engine.errors import StoreError, TablepackError
from engine.exits import run_and_exit
from engine.release import build as build_release
from engine.schema import column_set
from engine.simulation.census import simulate_census
from queries.exports import export as export_tables
from queries.session import Release, open_release

app = typer.Typer(
    help="Publish as many small synthetic tables from confidential microdata as analysts need, safely.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
key_app = typer.Typer(help="Make keys.", no_args_is_help=True)
app.add_typer(key_app, name="key")
app.command("plan", epilog=cli_plan.EXAMPLE)(cli_plan.plan_command)
app.command("budget", epilog=cli_budget.EXAMPLE)(cli_budget.budget_command)
app.command("evaluate", epilog=cli_evaluate.EXAMPLE)(cli_evaluate.evaluate_command)
app.command("compare", epilog=cli_compare.EXAMPLE)(cli_compare.compare_command)
app.command("sql", epilog=cli_sql.EXAMPLE)(cli_sql.sql_command)
app.command("serve", epilog=cli_serve.EXAMPLE)(cli_serve.serve_command)
app.command("publish", epilog=cli_publish.EXAMPLE)(cli_publish.publish_command)

SpecPath = Annotated[Path, typer.Argument(help="Spec (TOML).", metavar="SPEC")]
ReleasePath = Annotated[Path, typer.Argument(help="Release file.", metavar="RELEASE")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON; no progress bar.")]


def _table_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """What --table may be, for the shell: a release that cannot be opened has none."""
    given = (ctx.params.get("release"), *ctx.args)  # what stands before an unfinished option
    names: list[str] = []
    for path in [str(word) for word in given if word][:1]:
        with suppress(TablepackError), open_release(path) as opened:
            names = [",".join(columns) for columns in opened.tables]
    return [name for name in names if name.startswith(incomplete)]


TableName = Annotated[
    str | None,
    typer.Option(
        "--table",
        help="One table only: its columns, with commas between.",
        autocompletion=_table_names,
    ),
]


@app.command(epilog="Example: `tablepack init people.csv -o release.toml --entity person_id`")
def init(
    data: Annotated[str, typer.Argument(help="CSV, Parquet (file or glob) or DuckDB file.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Spec to write.")] = Path(
        "release.toml"
    ),
    table: Annotated[str | None, typer.Option(help="Table of a DuckDB file.")] = None,
    entity: Annotated[
        list[str] | None, typer.Option(help="Column that names whom to protect; may be repeated.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the spec.")] = False,
) -> None:
    """Look at the data and write a commented spec to review."""
    if output.exists() and not force:
        raise StoreError(f"{output} exists; give another -o, or --force")
    found = detection.detect_source(data, table=table, entities=tuple(entity or ()))
    text = detection.spec_text(found, spec_path=output)
    try:
        output.write_text(text)
    except OSError as error:
        raise StoreError(f"cannot write {output}: {error.strerror}") from None
    notes().print(
        f"wrote {output}: review every column, then: "
        f"tablepack key new {output.with_name(detection.key_name(output))}",
        soft_wrap=True,
        markup=False,
    )
    for remark in found.remarks:
        notes().print(f"  {remark}", soft_wrap=True, markup=False)


@key_app.command("new", epilog="Example: `tablepack key new census.key`")
def key_new(file: Annotated[Path, typer.Argument(help="File to make; it must not exist.")]) -> None:
    """Make a key: 32 random bytes that only you can read. Keep it; never publish it."""
    key_id = keys.new_key(file)
    notes().print(f"wrote {file} (mode 0600), key id {key_id}. Keep a copy in a safe place.")


@app.command(epilog="Example: `tablepack build release.toml -o census.duckdb`")
def build(
    spec: SpecPath,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="Release file to make; by default named after the spec."
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="1: measure and fit take turns.")] = 2,
    as_json: AsJson = False,
) -> None:
    """Build a release. Run again after an interruption, it goes on where it stopped."""
    output = output or api.default_output(spec)
    with progress_bar(quiet=as_json or not sys.stderr.isatty()) as report:
        build_release(api.read(spec), output, jobs=jobs, progress=report)
    with open_release(output) as release:
        summary, remarks = _summary(release, output), _remarks(release)
    if as_json:
        _print_json({**summary, "remarks": remarks} if remarks else summary)
    else:
        notes().print(
            f"wrote {output} ({summary['bytes'] / 1e6:.1f} MB): {_number(summary['tables'], 'table')}, content hash "
            f"{summary['content_hash']}",
            soft_wrap=True,
        )
        for remark in remarks:
            notes().print(remark, soft_wrap=True, markup=False)
    if UNMET in remarks:
        raise typer.Exit(4)


UNMET = "warning: the fit did NOT converge, and the cards say so: more max_cycles, or other margins, may help"


def _remarks(release: Release) -> list[str]:
    """What a custodian must know of a finished release in mode dp; nothing in sticky mode."""
    told = release.card(*release.tables[0]).dp if release.tables else {}
    if not told:
        return []
    out = list(promises(told))
    if told["uniform"]:
        out.append(f"warning: in no margin, so evenly frequent: {', '.join(told['uniform'])}")
    if not release.card(*release.tables[0]).rows:
        out.append("warning: NO ROWS: the noisy total came out at 0 or below; spend more epsilon")
    if not told["converged"]:
        out.append(UNMET)
    return out


@app.command(epilog="Example: `tablepack show census.duckdb --table age,sex`")
def show(release: ReleasePath, table: TableName = None, as_json: AsJson = False) -> None:
    """Show what is in a release; with --table the card of one table."""
    with open_release(release) as opened:
        if table is not None:
            card = opened.card(*_names(table))
            if as_json:
                _print_json(json.loads(card.to_json()))
            else:
                for sentence in card.sentences():
                    out().print(sentence, markup=False)
            return
        if as_json:
            tables = [json.loads(opened.card(*columns).to_json()) for columns in opened.tables]
            _print_json({**_summary(opened, release), "cards": tables})
            return
        _show_release(opened, release)


def _show_release(opened: Release, path: Path) -> None:
    """The contents of a release, for people."""
    summary = _summary(opened, path)
    out().print(
        f"{summary['title'] or path.name}: vintage {summary['vintage']}, key {summary['key_id']}, "
        f"{_number(summary['tables'], 'table')}, {summary['bytes'] / 1e6:.1f} MB",
        markup=False,
    )
    rows = []
    for columns in opened.tables:
        card = opened.card(*columns)
        rows.append(
            (
                ", ".join(columns),
                f"{card.rows:,}",
                f"{card.cells:,}",
                "–" if card.dp else f"{card.suppressed_share:.1%}",
                f"{card.noise_sd:.2f}",
                f"{card.rounding_gap}",
            )
        )
    print_table("", ("table", "rows", "distinct", "suppressed share", "noise sd", "gap"), rows)


@app.command(epilog="Example: `tablepack export census.duckdb csv/ --format csv`")
def export(
    release: ReleasePath,
    directory: Annotated[Path, typer.Argument(help="Folder to make.")],
    form: Annotated[
        Literal["csv", "parquet"], typer.Option("--format", help="csv or parquet.")
    ] = "csv",
    table: TableName = None,
) -> None:
    """Write one file a table, a row a synthetic person."""
    with (
        open_release(release) as opened,
        progress_bar(quiet=not sys.stderr.isatty()) as report,
    ):
        files = export_tables(
            opened,
            directory,
            format=form,
            tables=None if table is None else (column_set(_names(table)),),
            progress=lambda done, total: report("exporting", done, total),
        )
    notes().print(f"wrote {_number(len(files), 'file')} to {directory}", soft_wrap=True)


@app.command("doctor", epilog="Example: `tablepack doctor census.duckdb`")
def doctor_command(
    release: Annotated[
        Path | None, typer.Argument(help="Release to check to the last byte.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the installation, and a release: every byte against its manifest."""
    findings = doctor.examine(release)
    if as_json:
        _print_json([{"check": f.check, "ok": f.ok, "detail": f.detail} for f in findings])
    else:
        for finding in findings:
            out().print(
                f"{'ok  ' if finding.ok else 'BAD '} {finding.check}: {finding.detail}",
                markup=False,
            )
    worst = max((f.exit_code for f in findings), default=0)
    if worst:
        raise typer.Exit(worst)


@app.command(epilog="Example: `tablepack simulate census/ --people 20000`")
def simulate(
    directory: Annotated[Path, typer.Argument(help="Folder to make.")],
    people: Annotated[int, typer.Option(help="1,000 to 100 million.")] = 20_000,
    seed: Annotated[int, typer.Option(help="Chooses the census.")] = 2021,
    csv: Annotated[bool, typer.Option("--csv", help="Write CSV beside Parquet.")] = False,
) -> None:
    """Simulate a census to try things on: people.parquet and events.parquet. No real person is in it."""
    with progress_bar(quiet=not sys.stderr.isatty()) as report:
        made = simulate_census(
            directory,
            people=people,
            seed=seed,
            csv=csv,
            progress=lambda done, total: report("people", done, total),
        )
    notes().print(
        f"wrote {made.people} ({made.n_people:,} people in {made.n_households:,} households) and "
        f"{made.events} ({made.n_events:,} visits)",
        soft_wrap=True,
    )


def _names(table: str) -> list[str]:
    """Column names of a --table option."""
    return [name.strip() for name in table.split(",") if name.strip()]


def _number(n: int, noun: str) -> str:
    """How many of what."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _summary(release: Release, path: Path) -> dict[str, Any]:
    """What `build` and `show` say of a release."""
    return {
        "path": str(path),
        "bytes": path.stat().st_size,
        "title": release.title,
        "vintage": release.vintage,
        "key_id": release.key_id,
        "tables": len(release.tables),
        "content_hash": release.content_hash,
    }


def _print_json(what: object) -> None:
    """Print JSON on standard output."""
    sys.stdout.write(json.dumps(what, indent=1, default=str) + "\n")


def main() -> None:
    """Run the command line; every error becomes one message and an exit code."""
    run_and_exit(app)
