"""The commands `tablepack show` and `tablepack export`: the contents of a release, printed and as files."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from engine.cli.console import (
    AsJson,
    ReleasePath,
    Trust,
    number,
    out,
    print_json,
    print_line,
    print_note,
    print_table,
    progress_bar,
)
from engine.cli.options import Given, taking
from engine.cli.summary import summary_of
from engine.errors import TablepackError
from engine.schema import column_set
from engine.store import exposure_sentences, said_of
from engine.texts import names_from, names_text
from queries.release import Release, open_release
from queries.sql import export

commands = typer.Typer(rich_markup_mode="markdown")


def _table_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Shell completion of --table; empty if the release cannot be opened."""
    given = (ctx.params.get("release"), *ctx.args)  # the arguments before an unfinished option
    names: list[str] = []
    for path in [str(word) for word in given if word][:1]:
        with suppress(TablepackError), open_release(path) as release:
            names = [names_text(columns, ",") for columns in release.tables]
    return [name for name in names if name.startswith(incomplete)]


TableName = Annotated[
    str | None,
    typer.Option(
        "--table",
        help="Only the table with these columns, separated by commas.",
        autocompletion=_table_names,
    ),
]


@commands.command("show", epilog="Example: `tablepack show census.duckdb --table age,sex`")
def show_command(
    release: ReleasePath,
    table: TableName = None,
    as_json: AsJson = False,
    trust: Trust = None,
) -> None:
    """Show what a release contains; with --table, the card of one table."""
    with open_release(release, trust=trust) as opened:
        if table is not None:
            card = opened.card(*names_from(table, opened.columns))
            if as_json:
                print_json(json.loads(card.to_json()))
            else:
                for sentence in card.sentences():
                    out().print(sentence, markup=False)
            return
        if as_json:
            cards = [json.loads(opened.card(*columns).to_json()) for columns in opened.tables]
            print_json({**summary_of(opened, opened, opened.signature), "cards": cards})
            return
        _print_release(opened)


def _print_release(release: Release) -> None:
    summary = summary_of(release, release, release.signature)
    out().print(
        f"{release.title or release.path.name}: vintage {release.vintage}, key {release.key_id}, "
        f"{number(summary['tables'], 'table')}, {summary['bytes'] / 1e6:.1f} MB",
        markup=False,
    )
    print_line(said_of(release.signature))
    rows = []
    for columns in release.tables:
        card = release.card(*columns)
        rows.append(
            (
                names_text(columns),
                f"{card.rows:,}",
                f"{card.cells:,}",
                "–" if card.dp or card.wide else f"{card.suppressed_share:.1%}",
                "modelled" if card.wide else f"{card.noise_sd:.2f}",
                f"{card.rounding_gap}",
            )
        )
    print_table(
        "",
        (
            "table",
            release.unit.many,
            "combinations",
            "suppressed share",
            "noise sd",
            "rounding gap",
        ),
        rows,
    )
    for columns in release.tables[
        :1
    ]:  # every card has the same exposure, that of the whole release
        for sentence in exposure_sentences(release.card(*columns).exposure):
            print_line(sentence)


@commands.command("export", epilog="Example: `tablepack export census.duckdb csv/ --format csv`")
@taking(export, leave=("tables",), like={"release": {"type": Path, "help": "Release file."}})
def export_command(given: Given, table: TableName = None, trust: Trust = None) -> None:
    """Write one file per table, one row per synthetic record."""
    with (
        open_release(given.pop("release"), trust=trust) as opened,
        progress_bar() as report,
    ):
        if table is not None:
            given["tables"] = (column_set(names_from(table, opened.columns)),)
        files = export(
            opened, **given, progress=lambda done, total: report("exporting", done, total)
        )
    print_note(f"wrote {number(len(files), 'file')} to {given['directory']}")
