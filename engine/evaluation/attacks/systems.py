"""Attacks that solve for one column of many people at once: small groups, everybody, and tables asked for one by one.

A released table (g, R, S) counts, for people of the group g who share the known values R, how many have each value of
the secret S. Each such count is one equation; the members' values of S are the unknowns. Invariant: of the secrets the
attacker reads published counts only. Sources: Dinur and Nissim 2003, doi:10.1145/773153.773173; Kasiviswanathan,
Rudelson and Smith 2013, arXiv:1210.2381; Cohen and Nissim 2020, arXiv:1810.05692 (linear program).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from engine.errors import SpecError
from engine.evaluation.attacks.inference import chances
from engine.evaluation.attacks.protocol import (
    UNRELEASED,
    Assumptions,
    Group,
    Held,
    View,
    excess,
    secrets_of,
)
from engine.evaluation.data.aligned import (
    Aligned,
    Coded,
    Flags,
    Floats,
    Numbers,
    covering,
    drawn,
    key_of,
    n_codes,
    row_ids,
    totals,
)
from engine.evaluation.findings import Finding, not_computed, optional, rate_of, wilson
from engine.schema import ColumnSet, column_set

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# Targets: which small groups, and which secrets of theirs, an attacker goes for


WIDEST_GROUP = 2
"""Columns that single a group out."""
MOST_OF_ONE = 4
"""Targets with one secret, or one set of columns that single them out."""
TOO_COMMON = 0.9
"""Share of the commonest value in a group beyond which there is little to find out."""
TOLD = 0.8
"""Share of what guessing gets wrong that another column sets right, beyond which it tells a secret."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """A group and a secret."""

    columns: ColumnSet  # Columns that single the group out
    codes: tuple[int, ...]  # Its codes in these
    secret: str

    def inside(self, table: Coded) -> Flags:
        """Rows of a table that are of the group."""
        inside = np.ones(len(table.n), np.bool_)
        for name, code in zip(self.columns, self.codes, strict=True):
            inside &= table.codes[name] == code
        return inside

    def name(self, aligned: Aligned) -> str:
        """What the group is called: its columns and values."""
        texts = []
        for name, code in zip(self.columns, self.codes, strict=True):
            values = aligned.values[name]
            texts.append(f"{name} = {_spelled(values[code]) if code < len(values) else 'blank'}")
        return ", ".join(texts)


def _spelled(value: object) -> str:
    """A value as a study spells it: whole numbers without a point."""
    is_whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(str(value).partition(".")[0])) if is_whole and abs(value) < 1e15 else str(value)  # type: ignore[arg-type]


def all_targets(held: Held, assumptions: Assumptions) -> list[Target]:
    """Targets that a study declares, then those about which the release says most; each once."""
    return list(
        dict.fromkeys([*declared_targets(held, assumptions), *chosen_targets(held, assumptions)])
    )


def declared_targets(held: Held, assumptions: Assumptions) -> list[Target]:
    """The targets that a study declares: its groups, with every secret."""
    wanted = secrets_of(held.aligned, assumptions.secrets)
    out = []
    for number, group in enumerate(assumptions.groups):
        columns, codes = _codes(held.aligned, group, number)
        out += [Target(columns=columns, codes=codes, secret=s) for s in wanted if s not in columns]
    return out


def _codes(aligned: Aligned, group: Group, number: int) -> tuple[ColumnSet, tuple[int, ...]]:
    """Columns and codes of a declared group."""
    place = f"attacks.groups.{number}.where"
    columns = column_set(list(group.where))
    if unknown := [c for c in columns if c not in aligned.values]:
        raise SpecError(f"{place}: no table and the data have {', '.join(unknown)} together")
    codes = []
    for name in columns:
        wanted = str(group.where[name])
        at = [i for i, v in enumerate(aligned.values[name]) if _spelled(v) == wanted]
        if not at and not wanted:
            at = [len(aligned.values[name])]  # the blank
        if not at:
            raise SpecError(f"{place}.{name}: neither the data nor a table has this value")
        codes.append(at[0])
    return columns, tuple(codes)


def chosen_targets(held: Held, assumptions: Assumptions) -> list[Target]:
    """The targets about which the release says most for their size, the most exposed first.

    A release singles a group out by a released bucket of one or two columns. The more released cells split it by a
    secret, for its size, the more is said of each member. Only what is published decides, never the truth.
    """
    aligned = held.aligned
    scored: list[tuple[float, Target]] = []
    for (columns, secret), keys in _splitting_cells(held, assumptions).items():
        # A secret of many values has more cells, but each says less of it.
        both, n = np.unique(keys, return_counts=True)
        cell, at, values = np.unique(
            both // n_codes(aligned, secret), return_inverse=True, return_counts=True
        )
        figures = np.bincount(at.reshape(-1), n) / values
        size = _sizes(aligned, columns, cell)
        fit = np.flatnonzero((size >= assumptions.smallest) & (size <= assumptions.largest))
        exposure = figures[fit] / size[fit]
        for i in np.argsort(-exposure, kind="stable")[:MOST_OF_ONE].tolist():
            shape = [n_codes(aligned, c) for c in columns]
            codes = tuple(int(c) for c in np.unravel_index(cell[fit[i]], shape))
            scored.append((float(exposure[i]), Target(columns=columns, codes=codes, secret=secret)))
    scored.sort(key=lambda one: (-one[0], one[1].columns, one[1].codes, one[1].secret))
    times: Counter[object] = Counter()
    out: list[Target] = []
    for _, target in scored:
        if len(out) >= assumptions.most_groups:
            break
        if max(times[target.secret], times[target.columns]) >= MOST_OF_ONE:
            continue
        if _commonest(aligned, target) <= TOO_COMMON:
            times.update([target.secret, target.columns])
            out.append(target)
    return out


def _splitting_cells(held: Held, assumptions: Assumptions) -> dict[tuple[ColumnSet, str], Numbers]:
    """For every set of columns and secret the group and value of each released cell that splits it further."""
    wanted = set(secrets_of(held.aligned, assumptions.secrets))
    if not assumptions.secrets:
        wanted -= settled(held.aligned)
    found: dict[tuple[ColumnSet, str], list[Numbers]] = defaultdict(list)
    for view in held.views:
        for secret in wanted & set(view.columns):
            rest = [c for c in view.columns if c != secret]
            for width in range(1, min(WIDEST_GROUP, len(rest) - 1) + 1):
                for columns in combinations(rest, width):
                    keys = key_of(held.aligned, view.table, (*columns, secret))
                    measured = view.table.measured
                    found[column_set(list(columns)), secret].append(
                        keys if measured is None else keys[measured]
                    )
    return {key: np.concatenate(parts) for key, parts in sorted(found.items())}


def _sizes(aligned: Aligned, columns: ColumnSet, cell: Numbers) -> Numbers:
    """Published size of groups."""
    table = covering(aligned, columns)
    if table is None:
        return np.zeros(len(cell), np.int64)
    known, at = np.unique(key_of(aligned, table, columns), return_inverse=True)
    n = totals(at.reshape(-1), table.n, len(known))
    place = np.minimum(np.searchsorted(known, cell), len(known) - 1)
    return np.where(known[place] == cell, n[place], 0)


def _commonest(aligned: Aligned, target: Target) -> float:
    """Published share of the commonest value of a secret in a group; 1 where there is none."""
    table = covering(aligned, {*target.columns, target.secret})
    if table is None:
        return 1.0
    inside = target.inside(table)
    n = totals(table.codes[target.secret][inside], table.n[inside])
    return float(n.max() / n.sum()) if n.sum() else 1.0


def settled(aligned: Aligned) -> set[str]:
    """The columns that another one determines for nearly everybody, as the tables of two columns show.

    There is nothing left to reconstruct of a decile of income where the income is known.
    """
    found = set()
    for columns, table in aligned.tables.items():
        if len(columns) == 2 and table.total:
            for known, secret in (columns, columns[::-1]):
                keys, at = np.unique(key_of(aligned, table, (known, secret)), return_inverse=True)
                n = totals(at.reshape(-1), table.n)
                of_known = np.flatnonzero(np.diff(keys // n_codes(aligned, secret), prepend=-1))
                told = float(np.maximum.reduceat(n, of_known).sum())
                commonest = float(totals(table.codes[secret], table.n).max())
                if told - commonest > TOLD * (table.total - commonest):
                    found.add(secret)
    return found


# The system of a group


MOST_TOLD = 8
"""Values of a secret that are told apart; rarer ones are one more."""
FIRMNESS = 0.2
"""How firmly chances beforehand hold, beside what their own variance says: counts of noise of sd 1 tell more."""
LEAST_CHANCE = 0.02
"""Chance below which a value is not taken to be for anybody beforehand."""
_FIRM = 3.0
"""People's worth that a model's mean is held by: a group's published shares are noisy."""
_STEPS = 300


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class System:
    """Equations about the secrets of a group."""

    matrix: csr_matrix  # shape (n_equations, n_people): 1 where a member is counted
    shown: Floats  # shape (n_equations, n_values): Published count of each value
    variance: Floats  # shape (n_equations, n_values): Of the error of these
    view: Numbers  # shape (n_equations,): Which view says it
    truth: Numbers  # shape (n_people,): Which value each member has
    share: Floats  # shape (n_values,): Share of each value in the group, as published
    values: (
        Numbers  # shape (n_told,): Codes of the values told apart; any further value is the last
    )
    members: Coded
    released: Numbers  # shape (n_equations,): Released cells in each equation

    def of_views(self, wanted: Flags) -> System:
        """The equations of some views."""
        kept = np.flatnonzero(wanted[self.view])
        names = ("matrix", "shown", "variance", "view", "released")
        return replace(self, **{name: getattr(self, name)[kept] for name in names})


def system_of(held: Held, target: Target) -> System | None:
    """Write down what all views say of a group's secrets; None: nobody is in it, or no table shows the secret."""
    members = held.aligned.original.rows(np.flatnonzero(target.inside(held.aligned.original)))
    wanted = {*target.columns, target.secret}
    at = [i for i, view in enumerate(held.views) if wanted <= set(view.columns)]
    if not at or not len(members.n):
        return None
    # Values that the narrowest view shows most often in the group, and published shares.
    narrowest = min((held.views[i] for i in at), key=lambda one: len(one.columns)).table
    inside = target.inside(narrowest)
    size = n_codes(held.aligned, target.secret)
    n = totals(narrowest.codes[target.secret][inside], narrowest.n[inside], size)
    chosen = np.argsort(-n, kind="stable")[:MOST_TOLD]
    values = np.sort(chosen[n[chosen] > 0])
    if not len(values):
        return None
    told = np.append(n[values], n.sum() - n[values].sum()) + 0.5
    parts = [_equations(held.aligned, held.views[i], members, target, values) for i in at]
    matrices, shown, variances, released = zip(*parts, strict=True)
    return System(
        matrix=optional("scipy.sparse", "attacks").vstack(matrices).tocsr(),
        shown=np.concatenate(shown),
        variance=np.concatenate(variances),
        view=np.repeat(np.array(at, np.int64), [len(n) for n in shown]),
        truth=_place(values, members.codes[target.secret]),
        share=told / told.sum(),
        values=values,
        members=members,
        released=np.concatenate(released),
    )


def _place(values: Numbers, codes: Numbers | np.ndarray) -> Numbers:
    """Place of codes among some values; that after the last for any other."""
    at = np.minimum(np.searchsorted(values, codes), len(values) - 1)
    return np.where(values[at] == codes, at, len(values)).astype(np.int64)


def _equations(
    aligned: Aligned, view: View, members: Coded, target: Target, values: Numbers
) -> tuple[csr_matrix, Floats, Floats, Numbers]:
    """What one view says: who is counted, how many have each value, with which variance, from how many cells."""
    rows = view.table.rows(np.flatnonzero(target.inside(view.table)))
    rest = [c for c in view.columns if c not in (*target.columns, target.secret)]
    (person, row), _ = row_ids(aligned, [members, rows], rest)
    cells, person = np.unique(person, return_inverse=True)
    at = _place(cells, row)
    counted = at < len(cells)
    shape = (len(cells), len(values) + 1)
    flat = (at * shape[1] + _place(values, rows.codes[target.secret]))[counted]
    shown = totals(flat, rows.n[counted], shape[0] * shape[1]).astype(np.float64)
    is_released = np.ones(len(rows.n)) if rows.measured is None else rows.measured
    released = totals(flat, is_released[counted], len(shown))
    if np.isnan(view.noise_sd):
        variance = view.variance(shown)
    else:
        one = float(view.variance(np.ones(1))[0])
        variance = np.where(released > 0, released * one, UNRELEASED + one)
    people = np.arange(len(members.n))
    matrix = optional("scipy.sparse", "attacks").csr_matrix(
        (np.ones(len(people)), (person.reshape(-1), people)), (shape[0], len(people))
    )
    per_equation = released.reshape(shape).sum(axis=1)
    return matrix, shown.reshape(shape), variance.reshape(shape), per_equation


def least_squares(system: System, prior: Floats) -> Floats:
    """Estimate everybody's chances by least squares, drawn to what is believed beforehand.

    Chances lie between 0 and 1 and add up to 1, which says as much as the equations do where these are few.
    Solved by accelerated projected steps: Beck and Teboulle 2009, doi:10.1137/080716542.
    """
    own, noise = widths(system, prior)
    weight = 1 / noise[:, 0]
    # The largest eigenvalue of the weighted normal matrix, from above: its largest row sum.
    people = np.ones(system.matrix.shape[1])
    steep = float((system.matrix.T @ (weight * (system.matrix @ people))).max() + (1 / own).max())
    x = now = prior
    pace = 1.0
    for _ in range(_STEPS):
        off = (system.matrix @ now - system.shown) / noise
        after = _on_simplex(now - (system.matrix.T @ off + (now - prior) / own) / steep)
        faster = (1 + np.sqrt(1 + 4 * pace * pace)) / 2
        now = after + (pace - 1) / faster * (after - x)
        x, pace = after, faster
    return x


def widths(system: System, prior: Floats) -> tuple[Floats, Floats]:
    """The variances that least squares weighs by: of each member's chances, and of each equation."""
    own = np.maximum((prior * (1 - prior)).mean(axis=1), LEAST_CHANCE / 2) / FIRMNESS
    return own[:, None], np.asarray(system.variance.mean(axis=1)[:, None], np.float64)


def _on_simplex(x: Floats) -> Floats:
    """Nearest rows that are not negative and add up to 1 (Duchi et al. 2008, doi:10.1145/1390156.1390191)."""
    ordered = -np.sort(-x, axis=1)
    above = np.cumsum(ordered, axis=1) - 1
    last = (ordered - above / np.arange(1, x.shape[1] + 1) > 0).sum(axis=1)
    shift = above[np.arange(len(x)), last - 1] / last
    return np.asarray(np.maximum(x - shift[:, None], 0), np.float64)


def linear_program(system: System) -> Floats | None:
    """Estimate everybody's chances by a linear program: least sum of absolute errors, each between 0 and 1.

    None: the solver found no answer.
    """
    (n_equations, n_people), n_values = system.matrix.shape, system.shown.shape[1]
    n, m = n_people * n_values, n_equations * n_values
    sparse = optional("scipy.sparse", "attacks")
    one = sparse.eye_array(m)
    counts = sparse.hstack([sparse.kron(system.matrix, sparse.eye_array(n_values)), one, -one])
    each = sparse.kron(sparse.eye_array(n_people), np.ones((1, n_values)))
    whole = sparse.hstack([each, sparse.csr_matrix((n_people, 2 * m))])
    weight = 1 / np.sqrt(system.variance.reshape(-1))
    found = optional("scipy.optimize", "attacks").linprog(
        np.concatenate([np.zeros(n), weight, weight]),
        A_eq=sparse.vstack([counts, whole]).tocsc(),
        b_eq=np.concatenate([system.shown.reshape(-1), np.ones(n_people)]),
        bounds=[(0, 1)] * n + [(0, None)] * (2 * m),
        method="highs",
        options={"time_limit": 20.0},
    )
    return None if found.x is None else np.asarray(found.x[:n].reshape(n_people, n_values))


def prior_of(system: System, believed: Floats | None = None) -> Floats:
    """Chances beforehand: the group's published shares, or a model's moved towards them.

    Taken is what agrees better with the published counts, which an attacker can see.

    believed: What a model that does not read the group's own tables gives each member; above 0.
    """
    n = system.matrix.shape[1]
    plain = np.broadcast_to(system.share, (n, len(system.share))).copy()
    if believed is None:
        return plain
    moved = believed * (n * system.share + _FIRM) / (n * believed.mean(axis=0) + _FIRM)
    moved = np.asarray(moved / moved.sum(axis=1, keepdims=True), np.float64)

    def misfit(prior: Floats) -> float:
        """How far the published counts are from what chances lead one to expect: less their log-likelihood."""
        expected = system.matrix @ prior
        variance = system.variance + np.maximum(expected - system.matrix @ np.square(prior), 0)
        return float((np.square(system.shown - expected) / variance + np.log(variance)).sum())

    return min((moved, plain), key=misfit)


# Reconstruction: the secrets of all members of a small group, from all tables that split it


SUREST = 0.05
"""Share of claims, the surest, that is looked at apart."""
MOST_UNKNOWN = 1_500
"""Unknowns of a linear program; larger ones are left out."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Solved:
    """One target, attacked."""

    target: Target
    # shape (n_people,): "squares" and, where it was run, "program"; "guess": everybody has the group's
    # commonest value; "model": from tables that do not split the group.
    right: dict[str, Flags]
    surety: Floats  # shape (n_people,): How far the likeliest value is ahead, of least squares
    figures: int  # Released counts that split the group

    @property
    def control(self) -> Flags:
        """What the better of the attackers without the group's own tables gets right."""
        return max(self.right["guess"], self.right["model"], key=lambda right: float(right.mean()))


def reconstruction(held: Held, assumptions: Assumptions, rng: np.random.Generator) -> Finding:
    """Reconstruct secrets of the groups that the release says most about, and of those declared.

    `rate`: least squares; `baseline`: the group's commonest value as published; `control`: the better of that and a
    model from the tables that do not split the group, group by group.
    """
    del rng
    solved = [
        one for target in all_targets(held, assumptions) if (one := solve(held, target)) is not None
    ]
    if not solved:
        why = (
            f"no bucket of one or two columns holds {assumptions.smallest} to {assumptions.largest:,} rows and is "
            "split by a column that an attacker could want"
        )
        return not_computed("reconstruction", why)
    right = np.concatenate([one.right["squares"] for one in solved])
    unguided = np.concatenate([one.control for one in solved])
    surety = np.concatenate([one.surety for one in solved])
    surest = np.argsort(-surety, kind="stable")[: max(round(SUREST * len(surety)), 1)]
    squares, control, sure = rate_of(right), rate_of(unguided), rate_of(right[surest])
    rows = []
    for one in solved:
        shares = {name: float(found.mean()) for name, found in one.right.items()}
        rows.append(
            {
                "group": one.target.name(held.aligned),
                "secret": one.target.secret,
                "people": len(one.surety),
                "counts_a_person": one.figures / len(one.surety),
                "right": shares["squares"],
                "program": shares.get("program", float("nan")),
                "guess": shares["guess"],
                "model": shares["model"],
                "gain": excess(rate_of(one.right["squares"]), rate_of(one.control)),
            }
        )
    table = pd.DataFrame(rows).sort_values("gain", ascending=False, kind="stable")
    values = {
        "right": squares.value,
        "gain": excess(squares, control),
        "surest": sure.value,
        "surest_gain": sure.value - rate_of(unguided[surest]).value,
        "groups": float(len(solved)),
        "worst": float(table["gain"].max()),
    }
    why_not = {}
    if programs := [one.right["program"] for one in solved if "program" in one.right]:
        values["program"] = float(np.concatenate(programs).mean())
    else:
        why_not["program"] = f"every group has more than {MOST_UNKNOWN:,} unknowns"
    groups = "a small group" if len(solved) == 1 else f"{len(solved)} small groups"
    return Finding(
        measure="reconstruction",
        rate=squares,
        baseline=rate_of(np.concatenate([one.right["guess"] for one in solved])),
        control=control,
        values=values,
        breakdown=table,
        why_not=why_not,
        control_note=(
            "control: the better, group by group, of the group's commonest value and a model from the tables that do "
            "not split the group"
        ),
        notes=(
            f"{len(solved)} pairs of a group and a secret, {len(right):,} secrets: those with most released counts a "
            "person, a few of each secret and set of columns, beside those declared",
            "the interval takes members of a group as independent, which they are not",
        ),
        verdict=(
            f"Who knows everything but one column of {groups} gets {squares.value:.0%} of that column right "
            f"({squares.low:.0%} to {squares.high:.0%}); without the tables that split the group it is "
            f"{control.value:.0%}. Of the surest {SUREST:.0%} of claims {sure.value:.0%} are right."
        ),
    )


def solve(held: Held, target: Target) -> Solved | None:
    """Attack one target; None where no table splits it."""
    system = system_of(held, target)
    if system is None:
        return None
    guessed = np.full(len(system.truth), int(system.share.argmax()))
    believed = _believed(held, target, system)
    estimate = least_squares(system, prior_of(system, believed))
    claims = {
        "squares": estimate.argmax(axis=1),
        "guess": guessed,
        "model": guessed if believed is None else believed.argmax(axis=1),
    }
    if estimate.size <= MOST_UNKNOWN and (found := linear_program(system)) is not None:
        claims["program"] = found.argmax(axis=1)
    ordered = np.sort(estimate, axis=1)
    return Solved(
        target=target,
        right={name: claim == system.truth for name, claim in claims.items()},
        surety=ordered[:, -1] - ordered[:, -2],
        figures=int(system.released.sum()),
    )


def _believed(held: Held, target: Target, system: System) -> Floats | None:
    """What a model gives each member that reads only tables which do not split the group; None: no table tells."""
    aligned = held.aligned
    wanted = {*target.columns, target.secret}
    others = {c: t for c, t in aligned.tables.items() if not wanted <= set(c)}
    known = [c for c in aligned.values if c != target.secret]
    found = chances(replace(aligned, tables=others), system.members, target.secret, known)
    if found is None:
        return None
    out = np.zeros((len(system.truth), len(system.share)))
    for value, place in enumerate(_place(system.values, found.values).tolist()):
        out[:, place] += found.worth[:, value]
    mixed = out + LEAST_CHANCE * system.share
    return np.asarray(mixed / mixed.sum(axis=1, keepdims=True), np.float64)


# Adaptive: one released table asked for after the other, each time the one that would tell most of a small group


MOST_GROUPS = 6
MOST_ASKED = 20
"""Tables that are asked for one by one; then come all the others at once."""
LARGEST = 1_200
"""Members of a group; larger ones are left out."""
STEPS = (1, 2, 3, 5, 10, 20)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Asked:
    """What was learnt of one group, by the number of tables asked for; 0: by none."""

    target: Target
    right: dict[int, Flags]  # shape (n_people,)
    random: dict[int, Flags]  # The same of tables asked for in an order drawn


def adaptive(held: Held, assumptions: Assumptions, rng: np.random.Generator) -> Finding:
    """Ask for the tables that split groups, one after the other.

    The variance that is left in the members' secrets is known from the questions alone (not from the answers), so the
    next table is the one that lowers it most: greedy design of experiments by A-optimality (Kalman update of a Gaussian
    model of the secrets). `rate`: with all tables; `control`: without any that splits the group further.
    """
    asked: list[Asked] = []
    for target in all_targets(held, assumptions):
        if len(asked) < MOST_GROUPS and (one := ask(held, target, rng)) is not None:
            asked.append(one)
    if not asked:
        why = f"no group of at most {LARGEST:,} people is split by two tables"
        return not_computed("adaptive", why)

    def until(n: int, side: str = "right") -> Flags:
        """What was right with at most so many tables; groups that fewer tables split stay where they ended."""
        found = [getattr(one, side) for one in asked]
        return np.concatenate([right[max(k for k in right if k <= n)] for right in found])

    curve = []
    for n in sorted({n for one in asked for n in one.right}):
        rate = rate_of(until(n))
        step = {"tables": n, "right": rate.value, "low": rate.low, "high": rate.high}
        curve.append({**step, "random": float(until(n, "random").mean()), "people": rate.n})
    last, none = rate_of(until(len(held.views) + MOST_ASKED)), rate_of(until(0))
    few = float(until(5).mean())
    groups = "; ".join(f"{one.target.name(held.aligned)} ({one.target.secret})" for one in asked)
    return Finding(
        measure="adaptive",
        rate=last,
        control=none,
        values={
            "right": last.value,
            "gain": excess(last, none),
            "few": few,
            "random": float(until(5, "random").mean()),
            "groups": float(len(asked)),
        },
        breakdown=pd.DataFrame(curve),
        control_note="control: the group's commonest value, from the table that does not split it",
        notes=(
            f"groups: {groups}",
            f"a group that fewer tables split counts with all of them; after {MOST_ASKED} tables come all others",
        ),
        verdict=(
            f"Who asks for tables about a small group, the most telling first, gets {few:.0%} of a secret column "
            f"right with 5 tables and {last.value:.0%} with all ({none.value:.0%} by the commonest value)."
        ),
    )


def ask(held: Held, target: Target, rng: np.random.Generator) -> Asked | None:
    """Ask about one group; None where it is too large, or fewer than two tables split it."""
    system = system_of(held, target)
    if system is None or len(system.truth) > LARGEST:
        return None
    # Equations that count some of the group only.
    splits = np.asarray(system.matrix.sum(axis=1)).reshape(-1) < len(system.truth)
    splitting = np.unique(system.view[splits])
    if len(splitting) < 2:
        return None
    is_open = np.ones(int(system.view.max()) + 1, np.bool_)
    is_open[splitting] = False

    def right(views: Sequence[int]) -> Flags:
        wanted = is_open.copy()
        wanted[list(views)] = True
        part = system.of_views(wanted)
        guessed = least_squares(part, prior_of(part)).argmax(axis=1)
        return np.asarray(guessed == system.truth, np.bool_)

    orders = order_of(system, splitting.tolist()), rng.permutation(splitting).tolist()
    known = sorted({*[s for s in STEPS if s < len(splitting)], len(splitting)})
    guessed = np.full(len(system.truth), int(system.share.argmax())) == system.truth
    found = [{0: guessed, **{n: right(order[:n]) for n in known}} for order in orders]
    return Asked(target=target, right=found[0], random=found[1])


def order_of(system: System, views: Sequence[int]) -> list[int]:
    """Views in the order in which an attacker asks for them: each lowers the variance left the most."""
    noise = system.variance.mean(axis=1)
    variance = max(float((system.share * (1 - system.share)).mean()), 1e-3)
    left = np.diag(np.full(len(system.truth), variance))
    open_views = list(views)
    order: list[int] = []
    while open_views and len(order) < MOST_ASKED:
        updates = []
        for view in open_views:
            rows = np.flatnonzero(system.view == view)
            told = np.asarray(system.matrix[rows] @ left, np.float64)
            inner = np.asarray(system.matrix[rows] @ told.T) + np.diag(noise[rows])
            updates.append((told, np.asarray(np.linalg.solve(inner, told), np.float64)))
        best = int(np.argmax([float((told * gained).sum()) for told, gained in updates]))
        told, gained = updates[best]
        left = left - told.T @ gained
        order.append(open_views.pop(best))
    return [*order, *open_views]


# Linear: one column of everybody at once, from all tables that show it


FEWEST_SHOWN = 10
"""People of a cell of whom both halves of a secret are likely shown."""
SUREST_LINEAR = 0.01
ROUNDS = 3
"""Times that secrets of its own are drawn."""
MOST_PEOPLE = 50_000
"""People of the data; more would not be whole cells."""
_SOLVER_STEPS = 100


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Linear:
    """Equations of one column, each divided by the sd of its noise."""

    matrix: csr_matrix  # shape (n_equations, n_people)
    non_members: csr_matrix | None  # shape (n_equations, n_non_members): Where non-members would be
    shown: Floats  # shape (n_equations,): Published count of one half less that of the other
    bit: Floats  # shape (n_people,): True half of each person, -1 or 1
    bit_of_non_members: Floats
    share: float  # Mean of the bit, as published


def linear(held: Held, assumptions: Assumptions, rng: np.random.Generator) -> Finding:
    """Solve for each column of everybody.

    First its values are replaced by even secrets of the attack's own, with noise as the release states it: how often
    these are guessed right is what the tables reveal, whatever the column. Then the column itself, in two halves;
    non-members with the same other columns are the control, for what the population reveals about anybody is no
    secret. `rate`: own secrets of the column that is revealed most.
    """
    aligned, n_people = held.aligned, len(held.aligned.original.n)
    if n_people > MOST_PEOPLE:
        why = (
            f"the data have more than {MOST_PEOPLE:,} rows, and a part of them makes no whole cell"
        )
        return not_computed("linear", why)
    control = aligned.control
    if control is not None and len(control.n) > assumptions.people:
        control = drawn(control, assumptions.people, rng)
    rows = []
    for secret in secrets_of(aligned, assumptions.secrets):
        system = _linear_system(held, secret, control)
        if system is not None:
            rows.append({"column": secret, **_solved_linearly(system, rng)})
    if not rows:
        why = (
            "no table of two and more columns shows a column of 2 to 100 values among enough people"
        )
        return not_computed("linear", why)
    table = pd.DataFrame(rows).sort_values("surest", ascending=False, kind="stable")
    worst, gains = table.iloc[0], table["gain"].dropna()
    values = {name: float(table[name].max()) for name in ("right", "surest")}
    why_not = {}
    if len(gains):
        values["gain"] = float(gains.max())
    else:
        none = "no control rows were given: what the population reveals about anybody is not known"
        why_not["gain"] = none
    return Finding(
        measure="linear",
        rate=wilson(float(worst["right"]) * ROUNDS * n_people, ROUNDS * n_people),
        values=values,
        breakdown=table,
        why_not=why_not,
        verdict=(
            f"Who knows all other columns of everybody gets an even secret in the place of {worst['column']} right for "
            f"{worst['right']:.0%} of all and for {worst['surest']:.0%} of the surest 1 %; a coin is right in 50%"
        ),
    )


def _solved_linearly(system: _Linear, rng: np.random.Generator) -> dict[str, float]:
    """Both attacks on one column."""
    # Least squares, regularised by the variance of a secret, which is -1 or 1.
    lsqr = optional("scipy.sparse.linalg", "attacks").lsqr
    n_people, n_sure = system.matrix.shape[1], max(int(SUREST_LINEAR * system.matrix.shape[1]), 30)
    own, surest = [], []
    for _ in range(ROUNDS):
        secret = rng.choice([-1.0, 1.0], n_people)
        noise = rng.normal(size=system.matrix.shape[0])
        shown = system.matrix @ secret + noise
        guess = lsqr(system.matrix, shown, damp=1.0, iter_lim=_SOLVER_STEPS)[0]
        own.append(np.sign(guess) == secret)
        surest.append(own[-1][np.argsort(-np.abs(guess), kind="stable")[:n_sure]])
    off = system.shown - system.share * np.asarray(system.matrix.sum(axis=1)).ravel()
    guess = lsqr(system.matrix, off, damp=1.0, iter_lim=_SOLVER_STEPS)[0]
    real = np.sign(system.share + guess) == system.bit
    out = {
        "right": float(np.concatenate(own).mean()),
        "surest": float(np.concatenate(surest).mean()),
        "real": float(real.mean()),
        "non_members": float("nan"),
        "gain": float("nan"),
    }
    if system.non_members is not None:
        # What the equations say of a non-member in the same cells: the weights are those of the solution.
        weights = off - system.matrix @ guess
        told = np.sign(system.share + system.non_members.T @ weights)
        other = told == system.bit_of_non_members
        out |= {"non_members": float(other.mean()), "gain": excess(rate_of(real), rate_of(other))}
    return out


def _linear_system(held: Held, secret: str, control: Coded | None) -> _Linear | None:
    """Write down what all tables say of a column; None: none does among enough people."""
    aligned, people = held.aligned, held.aligned.original
    views = [view for view in held.views if secret in view.columns]
    if not views:
        return None
    narrowest = min(views, key=lambda view: len(view.columns)).table
    # Which half each value is of, -1 or 1, so that both have about as many people, as published.
    n = totals(narrowest.codes[secret], narrowest.n, n_codes(aligned, secret))
    half, balance = np.ones(len(n)), 0.0
    for value in np.argsort(-n, kind="stable").tolist():
        half[value] = -1.0 if balance > 0 else 1.0
        balance += half[value] * n[value]
    parts = [
        _linear_equations(aligned, view, secret, half, people, control)
        for view in views
        if len(view.columns) > 1
    ]
    parts = [part for part in parts if part[0].shape[0]]
    if not parts:
        return None
    stack = optional("scipy.sparse", "attacks").vstack
    return _Linear(
        matrix=stack([part[0] for part in parts]).tocsr(),
        non_members=None if control is None else stack([part[1] for part in parts]).tocsr(),
        shown=np.concatenate([part[2] for part in parts]),
        bit=half[people.codes[secret]],
        bit_of_non_members=np.empty(0) if control is None else half[control.codes[secret]],
        share=float(half @ n / max(n.sum(), 1)),
    )


def _linear_equations(
    aligned: Aligned, view: View, secret: str, half: Floats, people: Coded, control: Coded | None
) -> tuple[csr_matrix, csr_matrix, Floats]:
    """What one table says: who is counted, which non-members would be, and the difference of the halves."""
    table, rest = view.table, [c for c in view.columns if c != secret]
    given = [table, people, *([] if control is None else [control])]
    ids, size = row_ids(aligned, given, rest)
    n, own = table.n.astype(np.float64), half[table.codes[secret]]
    counts = np.bincount(ids[0], own * n, minlength=size)
    variance = np.bincount(ids[0], view.variance(n), minlength=size)
    # Both halves are shown, among enough people.
    shown = [np.bincount(ids[0], own == side, minlength=size) > 0 for side in (-1, 1)]
    enough = np.bincount(ids[1], minlength=size) >= FEWEST_SHOWN
    kept = np.flatnonzero(shown[0] & shown[1] & enough)
    scale = 1 / np.sqrt(variance[kept])
    place = np.full(size, -1)
    place[kept] = np.arange(len(kept))
    sparse = optional("scipy.sparse", "attacks").csr_matrix

    def who(cell: Numbers) -> csr_matrix:
        of = place[cell]
        there = np.flatnonzero(of >= 0)
        return sparse((scale[of[there]], (of[there], there)), shape=(len(kept), len(cell)))

    return who(ids[1]), who(ids[2] if control is not None else ids[1][:0]), counts[kept] * scale
