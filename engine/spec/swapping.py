"""Turns `swap = {...}` of the section `[privacy]` into `SwapParams`, and checks it against the columns.

Takes the checked values and the columns of the spec; gives the parameters, or sentences with their places.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.errors import SpecError
from engine.params import SwapParams
from engine.schema import Column, column_set
from engine.spec.model import SwapSection, did_you_mean


def swap_of(section: SwapSection, problems: list[str]) -> SwapParams | None:
    """Make the parameters of an exchange.

    Returns: None if there is anything wrong. Where the spec does not say what makes a record rare, it is what
    partners agree in.
    """
    lists = (section.columns, section.within, section.similar, section.rare)
    keys = ("columns", "within", "similar", "rare")
    twice = [
        f"privacy.swap.{key}: names a column twice"
        for key, names in zip(keys, lists, strict=True)
        if len({*names}) < len(names)
    ]
    problems += twice
    if twice:
        return None
    try:
        return SwapParams(
            columns=column_set(tuple(section.columns)),
            within=column_set(tuple(section.within)),
            similar=tuple(section.similar),
            rare=column_set(tuple(section.rare or {*section.within, *section.similar})),
            rate=section.rate,
            publish_rate=section.publish_rate,
        )
    except SpecError as error:
        problems.extend(error.problems)
        return None


def swap_problems(
    swap: SwapParams,
    columns: tuple[Column, ...],
    names: Sequence[str],
    entities: tuple[str, ...],
    *,
    is_dp: bool,
) -> list[str]:
    """Say what of an exchange does not go with the rest of the spec."""
    problems = [
        f"privacy.swap: no section [columns.{name}]{did_you_mean(name, names)}"
        for name in swap.named
        if name not in names
    ]
    problems += [
        f"privacy.swap: {name} names entities; records are exchanged, not people"
        for name in swap.named
        if name in entities
    ]
    if is_dp:
        problems.append(
            "privacy.swap: mode dp exchanges no records; what it guarantees follows from its noise alone"
        )
    return problems + _cut_links(swap, columns)


def _cut_links(swap: SwapParams, columns: tuple[Column, ...]) -> list[str]:
    """Columns that belong to one another, of which one would be exchanged and the other stay as it is."""
    links = [
        (c.name, c.universe.column, f"the universe of {c.name} is decided by {c.universe.column}")
        for c in columns
        if c.universe is not None
    ] + [(c.name, told, f"{c.name} determines {told}") for c in columns for told in c.determines]
    problems = []
    for one, other, why in links:
        ends = [name in swap.columns for name in (one, other)]
        stays = other if ends[0] else one
        if ends[0] != ends[1] and stays not in swap.within:
            problems.append(
                f"privacy.swap: {why}, so an exchange of one alone would make impossible records: name {stays} in "
                "columns too, or in within"
            )
    return problems
