"""Section of a study about strong attackers: whom they look for, what they want, how many of them are tried.

An unknown key is a mistake, as in every section.
"""

from __future__ import annotations

from pydantic import Field

from engine.evaluation.score import Section


class Group(Section):
    """A group of people that an attacker looks at."""

    # Column -> value as the data spell it; one or several columns.
    where: dict[str, str | int | float] = Field(min_length=1)


class Assumptions(Section):
    """What strong attackers know and want."""

    # People of the data, and strangers, who are attacked; a sample where there are more.
    people: int = Field(default=2_000, ge=20)
    # Groups whose members' secrets are reconstructed, beside those that the release singles out.
    groups: tuple[Group, ...] = ()
    # Pairs of a group and a secret that are chosen beside those; 0: none.
    most_groups: int = Field(default=24, ge=0)
    # smallest, largest: Sizes of the groups that are chosen, in rows as published.
    smallest: int = Field(default=20, ge=2)
    largest: int = Field(default=2_000, ge=2)
    # Columns that attackers want; none: all that have 2 to 100 values.
    secrets: tuple[str, ...] = ()
