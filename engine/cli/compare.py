"""The command `tablepack compare`: sticky and dp releases of the same tables, scored alike.

Writes a page and JSON, prints a table. CONFIDENTIAL; nothing built is kept.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from engine.api.compare import compare
from engine.cli.console import SpecPath, notes, out, print_table, progress_bar
from engine.evaluation.report import comparison_json, table_of

EXAMPLE = "Example: `tablepack compare release.toml --epsilon 0.1,0.5,1,2,10 -o compare.html`"
commands = typer.Typer(rich_markup_mode="markdown")

NAMES, FIGURE = 22, 26
"""Characters that names of ways, and one figure, take on a screen."""


@commands.command("compare", epilog=EXAMPLE)
def compare_command(
    spec: SpecPath,
    epsilon: Annotated[
        str, typer.Option(help="Epsilons of the dp releases, with commas between.")
    ] = "0.1,0.5,1,2,10",
    seeds: Annotated[int, typer.Option(help="How many releases of each way are built.")] = 3,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="HTML page to write; JSON goes beside it.")
    ] = Path("compare.html"),
    jobs: Annotated[int, typer.Option(help="As in build.")] = 2,
    as_json_: Annotated[bool, typer.Option("--json", help="Print the JSON; no table.")] = False,
) -> None:
    """Compare sticky and dp releases of the same tables. Builds in scratch and keeps nothing; CONFIDENTIAL."""
    with progress_bar(quiet=as_json_ or not sys.stderr.isatty()) as report:
        comparison = compare(
            spec, epsilon=epsilon, seeds=seeds, out=output, jobs=jobs, progress=report
        )
    if as_json_:
        sys.stdout.write(comparison_json(comparison))
    else:
        heads, rows = table_of(comparison)
        at_once = max(1, (out().width - NAMES) // FIGURE)
        for start in range(0, len(rows), at_once):
            part = rows[start : start + at_once]
            # Ways below each other: a screen is not as wide as the page.
            ways = [[head, *(row[i] for row in part)] for i, head in enumerate(heads) if i]
            print_table("", ("", *(row[0] for row in part)), ways)
        for note in comparison.notes:
            notes().print(f"note: {note}", soft_wrap=True, markup=False)
    notes().print(
        f"wrote {output} and {output.with_suffix('.json')} (CONFIDENTIAL, mode 0600)",
        soft_wrap=True,
    )
