"""The command `tablepack simulate`: a census to try things out."""

from __future__ import annotations

import typer

from engine.cli.console import print_note, progress_bar
from engine.cli.options import Given, taking
from engine.simulation import simulate_census

commands = typer.Typer(rich_markup_mode="markdown")


@commands.command("simulate", epilog="Example: `tablepack simulate census/ --people 20000`")
@taking(simulate_census)
def simulate_command(given: Given) -> None:
    """Simulate a census to try things out: people.parquet and events.parquet. It contains no real person."""
    with progress_bar() as report:
        census = simulate_census(
            **given, progress=lambda done, total: report("people", done, total)
        )
    print_note(
        f"wrote {census.people} ({census.n_people:,} people in {census.n_households:,} households) and "
        f"{census.events} ({census.n_events:,} visits)"
    )
