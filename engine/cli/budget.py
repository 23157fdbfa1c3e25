"""The command `tablepack budget`: shows the two ledgers beside a key, or changes the budget of mode dp.

All of it may be shown: the ledgers hold no value of the data.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from engine.api.reading import read
from engine.cli.console import AsJson, notes, out, print_json, print_table
from engine.errors import SpecError
from engine.keys import check_key_file
from engine.measure.dp import Balance, balance, ledger_path, set_budget
from engine.source import Charge, charges, charges_path, pinned_vintages

EXAMPLE = "Example: `tablepack budget census.key --set 4`"
commands = typer.Typer(rich_markup_mode="markdown")
NOT_COUNTED = (
    "Sticky releases carry no epsilon: they have a ledger of their own. Neither counts builds with guarantee = false, "
    "which protect nobody, or with another key: the same people under two keys have the ledgers of both."
)


@commands.command("budget", epilog=EXAMPLE)
def budget_command(
    what: Annotated[
        Path, typer.Argument(help="Key file, or a spec (.toml) with one.", metavar="KEY_OR_SPEC")
    ],
    epsilon: Annotated[
        float | None,
        typer.Option("--set", help="Change the budget: the most epsilon ever spent with this key."),
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="With --set: the delta of every guarantee.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what was given away with a key: the budget of mode dp, and the exposure of sticky releases."""
    if delta is not None and epsilon is None:
        raise SpecError("--delta goes with --set")
    key_path = key_of(what)
    ledger = balance(key_path) if epsilon is None else set_budget(key_path, epsilon, delta)
    vintages = pinned_vintages(key_path)
    told = charges(key_path)
    if as_json:
        print_json(as_dict(ledger, key_path, vintages) | {"exposure": exposed(told)})
        return
    out().print(sentence(ledger, key_path), markup=False)
    if ledger.entries:
        _print_entries(ledger)
    _print_charges(told, key_path)
    known = f" This key's builds are of vintage {', '.join(vintages)}." if vintages else ""
    notes().print(f"{NOT_COUNTED}{known}", soft_wrap=True, markup=False)


def key_of(what: Path) -> Path:
    """The key file: the path itself, or the one that a spec names.

    Raises
    ------
    SpecError
        If the spec has mistakes, or the file is no key.
    """
    if what.suffix.lower() == ".toml":
        return read(what).key_path
    problems = check_key_file(what)
    if problems:
        raise SpecError(problems)
    return what


def sentence(ledger: Balance, key_path: Path) -> str:
    """Budget, what is spent and what is left, in one sentence."""
    if ledger.budget is None or ledger.left is None:
        return (
            f"Nothing was measured in mode dp with key {key_path} yet: there is no ledger. The first build pins its "
            f"epsilon as the budget; or set one: tablepack budget {key_path} --set 4"
        )
    at = f", at delta {ledger.delta:g}" if ledger.delta else ""
    return (
        f"{ledger_path(key_path)}: epsilon {ledger.spent:.6g} of {ledger.budget:.6g} is spent, "
        f"{ledger.left:.6g} is left{at}."
    )


def as_dict(ledger: Balance, key_path: Path, vintages: tuple[str, ...]) -> dict[str, Any]:
    """The balance as plain values; `vintages` are those of all builds with the key, sticky ones too."""
    return {
        "ledger": str(ledger_path(key_path)),
        "budget": ledger.budget,
        "delta": ledger.delta,
        "spent": ledger.spent,
        "left": ledger.left,
        "entries": [entry.public() for entry in ledger.entries],
        "vintages": list(vintages),
        "note": NOT_COUNTED,
    }


def exposed(told: tuple[Charge, ...]) -> list[dict[str, Any]]:
    """The ledger of exposure as plain values, without the sketches."""
    return [
        {
            "vintage": one.vintage,
            "draws": one.draws,
            "title": one.title,
            "tables": len(one.tables),
            "figures_a_person": one.worst,
            "accepted": one.accepted,
        }
        for one in told
    ]


def _print_charges(told: tuple[Charge, ...], key_path: Path) -> None:
    """Every sticky build that told something new, one a line."""
    if not told:
        return
    out().print(
        f"{charges_path(key_path)}: figures a person that sticky builds told at most of a group (they add up for the "
        "same people)",
        soft_wrap=True,
        markup=False,
    )
    rows = [
        (
            one.vintage if one.draws == one.vintage else f"{one.vintage} (draws of {one.draws})",
            one.title,
            str(len(one.tables)),
            f"{one.worst:.2f}",
            one.accepted,
        )
        for one in told
    ]
    print_table(
        "", ("vintage", "title", "new tables", "figures a person", "accepted because"), rows
    )


def _print_entries(ledger: Balance) -> None:
    """Every entry, one a line."""
    heads = ("", "state", "vintage", "title", "noise", "margins", "epsilon", "delta", "budget")
    rows = [
        (
            str(entry.number),
            entry.state,
            entry.vintage,
            entry.title,
            entry.noise,
            str(entry.margins),
            f"{entry.epsilon:.6g}",
            f"{entry.delta:g}",
            f"{entry.budget:.6g}",
        )
        for entry in ledger.entries
    ]
    print_table("", heads, rows)
