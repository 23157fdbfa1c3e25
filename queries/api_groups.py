r"""Groups of values that people make themselves: a name and its members, in links, as values and in SQL.

In a link: `group.age=Working age|16..64&group.age=Older|65..`: a name, then released values or, of a column that has
an order, ranges (an end may be left open). A backslash makes the next sign a letter: `\|`, `\\`.
Values in no group stay by themselves, after the groups.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from engine.errors import QueryRefused
from engine.schema import literal, quoted
from queries.api_values import Value, Variable, bound_of, values_of

Group = tuple[str, tuple[str, ...]]
"""A name, and members: keys of values, or `low..high`."""
_PARTS = re.compile(r"((?:[^\\|]|\\.)*)(\||\Z)", re.DOTALL)
_RANGE = ".."
_TURNING = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


def group_of(text: str) -> Group:
    """Return the group that a link spells.

    Raises
    ------
    QueryRefused
        It has no name or no member, or ends in a lone backslash.
    """
    parts: list[str] = []
    at = 0
    while at <= len(text):
        found = _PARTS.match(text, at)
        if found is None:
            raise QueryRefused(f"group {text!r}: nothing follows the last backslash")
        parts.append(re.sub(r"\\(.)", r"\1", found[1], flags=re.DOTALL))
        if not found[2]:
            break
        at = found.end()
    return parts[0], tuple(parts[1:])


def text_of(group: Group) -> str:
    """Return a group as a link spells it; the same group gives the same text."""
    name, members = group
    return "|".join(re.sub(r"([\\|])", r"\\\1", part) for part in (name, *sorted(set(members))))


def members_of(about: Variable, members: Iterable[str]) -> list[Any]:
    """Return the released values of a group, in no particular order.

    Raises
    ------
    QueryRefused
        A member is no released value, or no range with such a value in it.
    """
    keys, found = [], []
    for member in members:
        ends = _ends(about, member)
        if ends is None:
            keys.append(member)
            continue
        inside = [v for v in about.known if ends[0] <= v <= ends[1]]
        if not inside:
            raise QueryRefused(f"{about.name}: no released value lies in the range {member!r}")
        found += inside
    return list(dict.fromkeys([*found, *values_of(about, keys)]))


def checked(about: Variable, groups: Sequence[Group]) -> None:
    """Refuse groups that do not go together.

    Raises
    ------
    QueryRefused
        A group has no name or no member, or a sign in its name that steers how text is shown; a value stands in
        two; two have one name, or a name is that of a value in no group.
    """
    names: set[str] = set()
    of: dict[Any, str] = {}
    for name, members in groups:
        if not name.strip() or not members or any(map(_is_control, name)):
            raise QueryRefused(
                f"{about.name}: group {name!r} needs a name that can be read, and at least one value"
            )
        if name in names:
            raise QueryRefused(f"{about.name}: two groups are called {name!r}")
        names.add(name)
        for value in members_of(about, members):
            if value in of:
                raise QueryRefused(
                    f"{about.name}: {_label(about, value)} stands in two groups, {of[value]!r} and {name!r}"
                )
            of[value] = name
    for value in about.values:
        if value.value not in of and names & {value.label, value.key}:
            raise QueryRefused(
                f"{about.name}: a group is called {value.label!r}, as a value outside of it is"
            )


def grouped(about: Variable, groups: Sequence[Group]) -> Variable:
    """Return a variable whose values are groups, then the values in none."""
    pieces = {name: members_of(about, members) for name, members in groups}
    number = {v.value: v.n for v in about.values}
    held = {v for values in pieces.values() for v in values}
    heads = [
        Value(key=name, value=name, label=name, n=sum(number[v] for v in values))
        for name, values in pieces.items()
    ]
    rest = [v for v in about.values if v.value not in held]
    return replace(about, values=(*heads, *rest))


def case_of(about: Variable, groups: Sequence[Group]) -> str:
    """Return SQL for the group of a value; one in no group is itself, as text."""
    column = quoted(about.name)
    whens = [
        f"WHEN {condition_of(about, members)} THEN {literal(name)}" for name, members in groups
    ]
    return f"CASE {' '.join(whens)} ELSE CAST({column} AS VARCHAR) END"


def condition_of(about: Variable, members: Iterable[str]) -> str:
    """Return SQL that holds for values and ranges."""
    tests, keys = [], []
    for member in sorted(set(members)):
        ends = _ends(about, member)
        if ends is None:
            keys.append(member)
        else:
            low, high = (constant(about, end) for end in ends)
            tests.append(f"{quoted(about.name)} BETWEEN {low} AND {high}")
    if keys:
        tests.insert(0, held_in(about, values_of(about, keys)))
    return tests[0] if len(tests) == 1 else f"({' OR '.join(tests)})"


def held_in(about: Variable, values: Sequence[Any]) -> str:
    """Return SQL that holds for single values, the blank perhaps among them."""
    column = quoted(about.name)
    known = ", ".join(constant(about, v) for v in values if v is not None)
    tests = [f"{column} IN ({known})"] if known else []
    if None in values:
        tests.append(f"{column} IS NULL")
    return tests[0] if len(tests) == 1 else f"({' OR '.join(tests)})"


def constant(about: Variable, value: Any) -> str:
    """Return a value in SQL."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if about.is_numeric or isinstance(value, int | float) else literal(str(value))


def inside(values: Iterable[Any], kept: Any) -> list[Any]:
    """Return the values that a filter leaves: a list of values, the ends of a range, or None for all."""
    if kept is None:
        return list(values)
    if isinstance(kept, tuple):
        return [v for v in values if v is not None and kept[0] <= v <= kept[1]]
    wanted = set(kept)
    return [v for v in values if v in wanted]


def _ends(about: Variable, member: str) -> tuple[Any, Any] | None:
    """Both ends of a range; None where the member is a single value."""
    if about.step is None or _RANGE not in member:
        return None
    low, _, high = member.partition(_RANGE)
    return bound_of(about, low, is_high=False), bound_of(about, high, is_high=True)


def _is_control(sign: str) -> bool:
    """Whether a sign steers, or turns round what stands beside it; those that join letters may stay."""
    turns = unicodedata.bidirectional(sign) in _TURNING
    return unicodedata.category(sign) in ("Cc", "Cs") or turns


def _label(about: Variable, value: Any) -> str:
    return next(v.label for v in about.values if v.value == value)
