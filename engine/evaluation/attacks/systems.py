"""Linear systems of a small group: what all tables that split it say of its members' secrets.

A released table (g, R, S) counts, for people of the group g who share the known values R, how many have each value of
the secret S. Each such count is one equation; the members' values of S are the unknowns.
Sources: Dinur and Nissim 2003, doi:10.1145/773153.773173; Cohen and Nissim 2020, arXiv:1810.05692 (linear program).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from engine.evaluation.attacks.sights import UNRELEASED, Attacked, Bools, Floats, Sight, summed
from engine.evaluation.data.paired import Coded, Numbers, Paired
from engine.evaluation.data.sampling import rows_of
from engine.evaluation.risk.records import row_ids
from engine.evaluation.score import optional
from engine.schema import ColumnSet

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

MOST_TOLD = 8
"""Values of a secret that are told apart; rarer ones are one more."""
FIRMNESS = 0.2
"""How firmly chances beforehand hold, beside what their own variance says: counts of noise of sd 1 tell more."""
_STEPS = 300
LEAST_CHANCE = 0.02
"""Chance below which a value is not taken to be for anybody beforehand."""

_FIRM = 3.0
"""People's worth that a model's mean is held by: a group's published shares are noisy."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """A group and a secret."""

    columns: ColumnSet  # Columns that single the group out
    codes: tuple[int, ...]  # Its codes in these
    secret: str


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class System:
    """Equations about the secrets of a group."""

    matrix: csr_matrix  # shape (n_equations, n_people): 1 where a member is counted
    # shown, variance: shape (n_equations, n_values): Published count of each value, and the variance of its
    # error.
    shown: Floats
    variance: Floats
    sight: Numbers  # shape (n_equations,): Which sight says it; as large as there are sights
    truth: Numbers  # shape (n_people,): Which value each member has
    share: Floats  # shape (n_values,): Share of each value in the group, as published
    # shape (n_told,): Codes of the values told apart; any further value is the last.
    values: Numbers
    members: Coded
    released: Numbers  # shape (n_equations,): Released cells in each equation

    def of_sights(self, wanted: Bools) -> System:
        """Return the equations of some sights."""
        kept = wanted[self.sight]
        return replace(
            self,
            matrix=self.matrix[np.flatnonzero(kept)],
            shown=self.shown[kept],
            variance=self.variance[kept],
            sight=self.sight[kept],
            released=self.released[kept],
        )


def holding(sights: Sequence[Sight], target: Target) -> list[int]:
    """Return the positions of the sights that split a group by the secret."""
    wanted = {*target.columns, target.secret}
    return [i for i, sight in enumerate(sights) if wanted <= set(sight.columns)]


def members_of(people: Coded, target: Target) -> Coded:
    """Return the people of a group."""
    return rows_of(people, np.flatnonzero(_inside(people, target)))


def system_of(attacked: Attacked, target: Target) -> System | None:
    """Write down what all sights say of a group's secrets.

    Returns: None: nobody is in the group, or no table shows the secret in it.
    """
    members = members_of(attacked.paired.original, target)
    at = holding(attacked.sights, target)
    values, share = _values(attacked, [attacked.sights[i] for i in at], target)
    if not len(members.n) or not at or not len(values):
        return None
    parts = [_equations(attacked.paired, attacked.sights[i], members, target, values) for i in at]
    matrices, shown, variances, released = zip(*parts, strict=True)
    place = np.minimum(np.searchsorted(values, members.codes[target.secret]), len(values) - 1)
    known = values[place] == members.codes[target.secret]
    return System(
        matrix=optional("scipy.sparse", "attacks").vstack(matrices).tocsr(),
        shown=np.concatenate(shown),
        variance=np.concatenate(variances),
        sight=np.repeat(np.array(at, np.int64), [len(n) for n in shown]),
        truth=np.where(known, place, len(values)).astype(np.int64),
        share=share,
        values=values,
        members=members,
        released=np.concatenate(released),
    )


def _inside(table: Coded, target: Target) -> Bools:
    """Rows of a table that are of the group."""
    inside = np.ones(len(table.n), np.bool_)
    for name, code in zip(target.columns, target.codes, strict=True):
        inside &= table.codes[name] == code
    return inside


def _values(attacked: Attacked, sights: Sequence[Sight], target: Target) -> tuple[Numbers, Floats]:
    """Values of the secret that the narrowest of some sights shows most often in the group, and published shares."""
    if not sights:
        return np.empty(0, np.int64), np.empty(0)
    sight = min(sights, key=lambda one: len(one.columns))
    kept = _inside(sight.table, target)
    n = np.bincount(
        sight.table.codes[target.secret][kept],
        sight.table.n[kept].astype(np.float64),
        minlength=len(attacked.paired.values[target.secret]) + 1,
    )
    chosen = np.argsort(-n, kind="stable")[:MOST_TOLD]
    values = np.sort(chosen[n[chosen] > 0]).astype(np.int64)
    told = np.append(n[values], n.sum() - n[values].sum())
    return values, (told + 0.5) / (told + 0.5).sum()


def _equations(
    paired: Paired, sight: Sight, members: Coded, target: Target, values: Numbers
) -> tuple[csr_matrix, Floats, Floats, Numbers]:
    """What one sight says: who is counted, how many have each value, with which variance, from how many cells."""
    rows = rows_of(sight.table, np.flatnonzero(_inside(sight.table, target)))
    rest = [c for c in sight.columns if c not in (*target.columns, target.secret)]
    person, row = row_ids(paired, [members, rows], rest)
    cells, person = np.unique(person, return_inverse=True)
    at = np.minimum(np.searchsorted(cells, row), len(cells) - 1)
    counted = cells[at] == row
    place = np.minimum(np.searchsorted(values, rows.codes[target.secret]), len(values) - 1)
    place = np.where(values[place] == rows.codes[target.secret], place, len(values))
    flat = (at * (len(values) + 1) + place)[counted]
    shape = (len(cells), len(values) + 1)
    shown = summed(flat, rows.n[counted], shape[0] * shape[1])
    is_released = np.ones(len(rows.n)) if rows.measured is None else rows.measured
    released = summed(flat, is_released[counted], len(shown))
    if np.isnan(sight.noise_sd):
        variance = sight.variance(shown)
    else:
        one = float(sight.variance(np.ones(1))[0])
        variance = np.where(released > 0, released * one, UNRELEASED + one)
    people = np.arange(len(members.n))
    matrix = optional("scipy.sparse", "attacks").csr_matrix(
        (np.ones(len(people)), (person.reshape(-1), people)), (shape[0], len(people))
    )
    per_equation = released.reshape(shape).sum(axis=1).astype(np.int64)
    return (
        matrix,
        shown.reshape(shape),
        np.asarray(variance.reshape(shape), np.float64),
        per_equation,
    )


def least_squares(system: System, prior: Floats) -> Floats:
    """Estimate everybody's chances by least squares, drawn to what is believed beforehand.

    Chances lie between 0 and 1 and add up to 1, which says as much as the equations do where these are few.
    Solved by accelerated projected steps: Beck and Teboulle 2009, doi:10.1137/080716542.
    """
    own, noise = widths(system, prior)
    steep = _steepness(system.matrix, 1 / noise[:, 0]) + float((1 / own).max())
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
    """Return the variances that least squares weighs by: of each member's chances, and of each equation."""
    own = np.maximum((prior * (1 - prior)).mean(axis=1), LEAST_CHANCE / 2) / FIRMNESS
    return own[:, None], np.asarray(system.variance.mean(axis=1)[:, None], np.float64)


def _steepness(matrix: csr_matrix, weight: Floats) -> float:
    """Largest eigenvalue of the weighted normal matrix, from above: its largest row sum."""
    people = np.ones(matrix.shape[1])
    return float((matrix.T @ (weight * (matrix @ people))).max())


def _on_simplex(x: Floats) -> Floats:
    """Nearest rows that are not negative and add up to 1 (Duchi et al. 2008, doi:10.1145/1390156.1390191)."""
    ordered = -np.sort(-x, axis=1)
    above = np.cumsum(ordered, axis=1) - 1
    places = np.arange(1, x.shape[1] + 1)
    last = (ordered - above / places > 0).sum(axis=1)
    shift = above[np.arange(len(x)), last - 1] / last
    return np.asarray(np.maximum(x - shift[:, None], 0), np.float64)


def linear_program(system: System) -> Floats | None:
    """Estimate everybody's chances by a linear program: least sum of absolute errors, each between 0 and 1.

    Returns: None: the solver found no answer.
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
    if found.x is None:
        return None
    return np.asarray(found.x[:n].reshape(n_people, n_values), np.float64)


def prior_of(system: System, believed: Floats | None = None) -> Floats:
    """Return chances beforehand: the group's published shares, or a model's moved towards them.

    Taken is what agrees better with the published counts, which an attacker can see.

    believed: What a model that does not read the group's own tables gives each member; above 0.
    """
    n = system.matrix.shape[1]
    plain = np.broadcast_to(system.share, (n, len(system.share))).copy()
    if believed is None:
        return plain
    moved = believed * (n * system.share + _FIRM) / (n * believed.mean(axis=0) + _FIRM)
    moved = np.asarray(moved / moved.sum(axis=1, keepdims=True), np.float64)
    return min((moved, plain), key=lambda prior: _misfit(system, prior))


def _misfit(system: System, prior: Floats) -> float:
    """How far the published counts are from what chances lead one to expect: less their log-likelihood."""
    expected = system.matrix @ prior
    variance = system.variance + np.maximum(expected - system.matrix @ np.square(prior), 0)
    return float((np.square(system.shown - expected) / variance + np.log(variance)).sum())
