"""Targets: which small groups, and which secrets of theirs, an attacker goes for.

A release singles a group out by a released bucket of one or two columns. The more released cells split it by a secret,
for its size, the more is said of each member: such targets come first. Only what is published decides, never the truth.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import combinations

import numpy as np

from engine.errors import SpecError
from engine.evaluation.attacks.assumptions import Assumptions, Group
from engine.evaluation.attacks.sights import Attacked, Floats, Sight, secrets_of
from engine.evaluation.attacks.systems import Target
from engine.evaluation.data.paired import Numbers, Paired, covering, key_of, n_codes
from engine.schema import ColumnSet, column_set

WIDEST_GROUP = 2
"""Columns that single a group out."""
MOST_OF_ONE = 4
"""Targets with one secret, or one set of columns that single them out."""
TOO_COMMON = 0.9
"""Share of the commonest value in a group beyond which there is little to find out."""
TOLD = 0.8
"""Share of what guessing gets wrong that another column sets right, beyond which it tells a secret."""


def declared_targets(attacked: Attacked, assumptions: Assumptions) -> list[Target]:
    """Return the targets that a study declares: its groups, with every secret."""
    wanted = secrets_of(attacked.paired, assumptions.secrets)
    out = []
    for number, group in enumerate(assumptions.groups):
        columns, codes = _codes(attacked.paired, group, number)
        out += [Target(columns=columns, codes=codes, secret=s) for s in wanted if s not in columns]
    return out


def chosen_targets(attacked: Attacked, assumptions: Assumptions) -> list[Target]:
    """Return the targets about which the release says most for their size, the most exposed first."""
    scored: list[tuple[float, Target]] = []
    for (columns, secret), keys in _figures(attacked, assumptions).items():
        cell, figures = _a_value(attacked.paired, keys, secret)
        size = _sizes(attacked.paired, columns, cell)
        fit = np.flatnonzero((size >= assumptions.smallest) & (size <= assumptions.largest))
        exposure = figures[fit] / size[fit]
        for at in np.argsort(-exposure, kind="stable")[:MOST_OF_ONE].tolist():
            codes = _decoded(attacked.paired, columns, int(cell[fit[at]]))
            target = Target(columns=columns, codes=codes, secret=secret)
            scored.append((float(exposure[at]), target))
    scored.sort(key=lambda one: (-one[0], one[1].columns, one[1].codes, one[1].secret))
    return _varied(attacked, [target for _, target in scored], assumptions.most_groups)


def _a_value(paired: Paired, keys: Numbers, secret: str) -> tuple[Numbers, Floats]:
    """Groups, and the released cells of each, for each value of the secret that they show.

    A secret of many values has more cells, but each says less of it.
    """
    both, n = np.unique(keys, return_counts=True)
    cell, at, values = np.unique(
        both // n_codes(paired, secret), return_inverse=True, return_counts=True
    )
    return cell, np.bincount(at.reshape(-1), n) / values


def _varied(attacked: Attacked, ordered: list[Target], most: int) -> list[Target]:
    """The first of some targets, of one secret or one set of columns only a few, and none without a secret."""
    secrets: Counter[str] = Counter()
    sets: Counter[ColumnSet] = Counter()
    out: list[Target] = []
    for target in ordered:
        if len(out) >= most:
            break
        if max(secrets[target.secret], sets[target.columns]) >= MOST_OF_ONE:
            continue
        if _commonest(attacked.paired, target) > TOO_COMMON:
            continue
        secrets[target.secret] += 1
        sets[target.columns] += 1
        out.append(target)
    return out


def _figures(attacked: Attacked, assumptions: Assumptions) -> dict[tuple[ColumnSet, str], Numbers]:
    """For every set of columns and secret the group and value of each released cell that splits it further."""
    wanted = set(secrets_of(attacked.paired, assumptions.secrets))
    if not assumptions.secrets:
        wanted -= settled(attacked.paired)
    found: dict[tuple[ColumnSet, str], list[Numbers]] = defaultdict(list)
    for sight in attacked.sights:
        for secret in wanted & set(sight.columns):
            rest = [c for c in sight.columns if c != secret]
            for width in range(1, min(WIDEST_GROUP, len(rest) - 1) + 1):
                for columns in combinations(rest, width):
                    found[column_set(list(columns)), secret].append(
                        _released(attacked.paired, sight, (*columns, secret))
                    )
    return {key: np.concatenate(parts) for key, parts in sorted(found.items())}


def _released(paired: Paired, sight: Sight, columns: tuple[str, ...]) -> Numbers:
    """Combination of some columns in each released cell of a sight."""
    keys = key_of(paired, sight.table, columns)
    return keys if sight.table.measured is None else keys[sight.table.measured]


def _sizes(paired: Paired, columns: ColumnSet, cell: Numbers) -> Numbers:
    """Published size of groups."""
    table = covering(paired, columns)
    if table is None:
        return np.zeros(len(cell), np.int64)
    known, at = np.unique(key_of(paired, table, columns), return_inverse=True)
    n = np.bincount(at.reshape(-1), table.n, minlength=len(known)).astype(np.int64)
    place = np.minimum(np.searchsorted(known, cell), len(known) - 1)
    return np.where(known[place] == cell, n[place], 0)


def _commonest(paired: Paired, target: Target) -> float:
    """Published share of the commonest value of a secret in a group; 1 where there is none."""
    table = covering(paired, {*target.columns, target.secret})
    if table is None:
        return 1.0
    inside = np.ones(len(table.n), np.bool_)
    for name, code in zip(target.columns, target.codes, strict=True):
        inside &= table.codes[name] == code
    n = np.bincount(table.codes[target.secret][inside], table.n[inside])
    return float(n.max() / n.sum()) if n.sum() else 1.0


def settled(paired: Paired) -> set[str]:
    """Return the columns that another one tells of nearly anybody, as the tables of two columns show.

    There is nothing left to reconstruct of a decile of income where the income is known.
    """
    found = set()
    for columns, table in paired.tables.items():
        if len(columns) == WIDEST_GROUP and table.total:
            for known, secret in (columns, columns[::-1]):
                keys, at = np.unique(key_of(paired, table, (known, secret)), return_inverse=True)
                n = np.bincount(at.reshape(-1), table.n)
                of_known = np.flatnonzero(np.diff(keys // n_codes(paired, secret), prepend=-1))
                told = float(np.maximum.reduceat(n, of_known).sum())
                commonest = float(np.bincount(table.codes[secret], table.n).max())
                if told - commonest > TOLD * (table.total - commonest):
                    found.add(secret)
    return found


def _decoded(paired: Paired, columns: ColumnSet, key: int) -> tuple[int, ...]:
    """Codes of a combination."""
    codes = []
    for name in reversed(columns):
        key, code = divmod(key, n_codes(paired, name))
        codes.append(code)
    return tuple(reversed(codes))


def _codes(paired: Paired, group: Group, number: int) -> tuple[ColumnSet, tuple[int, ...]]:
    """Columns and codes of a declared group."""
    place = f"attacks.groups.{number}.where"
    columns = column_set(list(group.where))
    if unknown := [c for c in columns if c not in paired.values]:
        raise SpecError(f"{place}: no table and the data have {', '.join(unknown)} together")
    codes = []
    for name in columns:
        wanted = str(group.where[name])
        at = [i for i, v in enumerate(paired.values[name]) if _spelled(v) == wanted]
        if not at and not wanted:
            at = [len(paired.values[name])]  # the blank
        if not at:
            raise SpecError(f"{place}.{name}: neither the data nor a table has this value")
        codes.append(at[0])
    return columns, tuple(codes)


def _spelled(value: object) -> str:
    """A value as a study spells it: whole numbers without a point."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def name_of(paired: Paired, target: Target) -> str:
    """Return what a group is called: its columns and values."""
    texts = []
    for name, code in zip(target.columns, target.codes, strict=True):
        values = paired.values[name]
        texts.append(f"{name} = {_spelled(values[code]) if code < len(values) else 'blank'}")
    return ", ".join(texts)
