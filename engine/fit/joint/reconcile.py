"""From noisy margins to targets that a joint distribution can have: consistent, never negative, of one total.

`wls`, the default: weighted least squares in the residual basis. Every margin falls apart into orthogonal components,
one for each subset of its columns, and noise that is the same in every cell stays the same in every component; so each
component is the weighted mean of what the margins say of it, in closed form. Components that are mostly noise are
shrunk (positive-part James-Stein), and margins are projected on what counts can be, in turn with further means.
`paper` and `synthpop` treat every margin on its own, as published; such targets contradict each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from engine.errors import InternalError
from engine.fit.joint.hierarchy import leaves, nonnegative_leaves, root_of
from engine.fit.joint.shrinkage import Components, assembled, mean_components, shrunk
from engine.fit.joint.target import Target
from engine.levels import Margin, StructuralZero
from engine.params import Post
from engine.schema import BoolArray, ColumnSet, FloatArray

ROUNDS = 5
"""Projections, with a mean between two of them."""
SMALLEST = 1e-6
"""What `paper` puts in place of a smaller count."""
WIDEST = 14
"""Columns of a margin that is taken apart (into 2**14 components); wider ones are brought to counts by themselves."""


def reconcile(
    margins: Sequence[Margin],
    total: Margin,
    *,
    post: Post,
    prior: float = 0.0,
    zeros: Sequence[StructuralZero] = (),
) -> tuple[Target, ...]:
    """Make targets of noisy margins.

    margins: Of one column and more; each column set once or, flat and as a tree, twice.
    total: Of no column; variance 0 where the number of rows is public or nothing is protected.

    Returns: One a column set, in the order of `margins`; all of one sum, 0 if the total is not above 0.

    Source: Xiao, He, Zhang, Kifer (2023), "An optimal and scalable matrix mechanism for noisy marginals under
    convex loss
    functions", arXiv:2305.08175 (the residual basis). James and Stein (1961), "Estimation with quadratic loss". Raab
    (2022), "Utility and disclosure risk for differentially private synthetic categorical data", section 2.2.3
    (`paper`). synthpop 1.9, function `makepos` (`synthpop`).
    """
    if not margins:
        raise InternalError("a joint distribution needs at least one margin")
    possible = {m.columns: _possible(m, zeros) for m in margins}
    if post == "wls":
        return _by_least_squares(margins, total, prior, possible)
    rows = max(float(total.n), 0.0)
    targets_by_columns = {}
    for margin in margins:
        can_be = possible[margin.columns]
        n = with_prior(np.where(can_be, margin.n, 0.0), can_be, prior)
        if post == "paper":
            n = clipped(n, rows)
        elif margin.variance > 0:  # synthpop leaves exact counts as they are
            n = thresholded(n, rows + prior)
        targets_by_columns[margin.columns] = _scaled(np.where(can_be, n, 0.0), rows, can_be)
    return tuple(Target(columns=columns, n=n) for columns, n in targets_by_columns.items())


def with_prior(n: FloatArray, possible: BoolArray, prior: float) -> FloatArray:
    """Spread the prior rows evenly over the cells that are possible."""
    return n + np.where(possible, prior / max(int(possible.sum()), 1), 0.0)


def clipped(n: FloatArray, rows: float) -> FloatArray:
    """Post-processing `paper`: nothing below a millionth, then all scaled to the number of rows."""
    return _scaled(np.maximum(n, SMALLEST), rows, np.ones(n.shape, dtype=bool))


def thresholded(n: FloatArray, rows: float) -> FloatArray:
    """Post-processing `synthpop`: the largest counts until their sizes add up to the rows; all others nothing."""
    flat = n.ravel()
    order = np.argsort(-flat, kind="stable")
    dropped = order[np.cumsum(np.abs(flat[order])) >= rows]
    counts = np.abs(flat)
    counts[dropped] = 0.0
    return counts.reshape(n.shape)


def on_simplex(n: FloatArray, possible: BoolArray, rows: float) -> FloatArray:
    """The nearest counts that are not negative, add up to the rows and are nothing where nothing is possible.

    Source: Duchi, Shalev-Shwartz, Singer, Chandra (2008), DOI 10.1145/1390156.1390191, figure 1.
    """
    inside = n[possible]
    out = np.zeros_like(n)
    if not len(inside) or rows <= 0:
        return out
    falling = np.sort(inside)[::-1]
    excess = (np.cumsum(falling) - rows) / np.arange(1, len(falling) + 1)
    last = np.flatnonzero(falling > excess)[-1]
    out[possible] = np.maximum(inside - excess[last], 0.0)
    return out


def _by_least_squares(
    margins: Sequence[Margin], total: Margin, prior: float, possible: Mapping[ColumnSet, BoolArray]
) -> tuple[Target, ...]:
    """Post-processing `wls`."""
    trees = {m.columns: m for m in margins if m.branching}
    known = [(m.columns, *_flat(m)) for m in margins]
    # Impossible cells carry no noise, so components have that much less of it.
    noisy = [(c, np.where(possible[c], n, 0.0), v * _share(possible[c])) for c, n, v in known]
    smallest = min((v for _, _, v in noisy if v > 0), default=1.0)
    # Exact counts weigh as if nearly exact: they decide, and no weight is infinite.
    weighed = [(c, n, v if v > 0 else smallest * 1e-6) for c, n, v in noisy]
    wholes = [(float(total.n), float(total.variance)), *map(root_of, trees.values())]
    sums = [((), np.array(n), v or smallest * 1e-9) for n, v in wholes]
    means, variances = mean_components([*_narrow(weighed), *sums])
    rows = float(total.n) if total.variance == 0 else float(means[()])
    rows = max(rows, 0.0)
    if any(v > 0 for _, _, v in noisy):
        means = shrunk(means, variances, fixed=trees)
    tables = _counts(means, weighed, possible, rows)
    tables = _with_trees(tables, trees, possible, rows)
    return tuple(
        Target(columns=c, n=_scaled(with_prior(n, possible[c], prior), rows, possible[c]))
        for c, n in tables.items()
    )


def _counts(
    means: Components,
    weighed: Sequence[tuple[ColumnSet, FloatArray, float]],
    possible: Mapping[ColumnSet, BoolArray],
    rows: float,
) -> dict[ColumnSet, FloatArray]:
    """Margins put together from their components and brought to what counts can be."""
    # Cut at 0, a margin with few possible cells is not as much better as its noise alone would make it.
    weight = {c: v / _share(possible[c]) for c, _, v in weighed}
    sizes = {c: n.shape for c, n, _ in weighed}
    tables = {c: n for c, n, _ in weighed}
    narrow = [c for c, _, _ in _narrow(weighed)]
    tables |= {c: assembled(means, sizes[c], c) for c in narrow}
    for left in reversed(range(ROUNDS)):
        tables = {c: on_simplex(n, possible[c], rows) for c, n in tables.items()}
        if left and len(narrow) > 1:
            means, _ = mean_components([(c, tables[c], weight[c]) for c in narrow])
            tables |= {c: assembled(means, sizes[c], c) for c in narrow}
    return tables


def _share(possible: BoolArray) -> float:
    """Share of a margin's cells that are possible; above 0."""
    return max(float(possible.mean()), 1.0 / possible.size)


def _narrow(
    margins: Sequence[tuple[ColumnSet, FloatArray, float]],
) -> list[tuple[ColumnSet, FloatArray, float]]:
    """Margins that are taken apart."""
    return [margin for margin in margins if len(margin[0]) <= WIDEST]


def _with_trees(
    tables: dict[ColumnSet, FloatArray],
    trees: Mapping[ColumnSet, Margin],
    possible: Mapping[ColumnSet, BoolArray],
    rows: float,
) -> dict[ColumnSet, FloatArray]:
    """Margins measured as trees by themselves, from the root down, so that wide ranges stay right; others follow."""
    out = dict(tables)
    for columns, tree in trees.items():
        wanted = np.where(possible[columns], nonnegative_leaves(tree, rows), 0.0)
        wanted = _scaled(wanted, rows, possible[columns])
        for other, n in out.items():
            if columns[0] in other and other != columns:
                out[other] = _raked(n, other.index(columns[0]), wanted, possible[other])
        out[columns] = wanted
    return out


def _raked(n: FloatArray, axis: int, wanted: FloatArray, possible: BoolArray) -> FloatArray:
    """Bring the sums along one axis to what is wanted; where nothing was, as all other sums are made up."""
    others = tuple(k for k in range(n.ndim) if k != axis)
    have = np.expand_dims(n.sum(axis=others), others)
    like_all = np.where(possible, n.sum(axis=axis, keepdims=True), 0.0)
    filled = np.where(have > 0, n, like_all)
    sums = filled.sum(axis=others, keepdims=True)
    ratio = np.divide(np.expand_dims(wanted, others), sums, out=np.zeros_like(sums), where=sums > 0)
    out: FloatArray = filled * ratio
    return out


def _flat(margin: Margin) -> tuple[FloatArray, float]:
    """Counts of a margin and their variance; of one measured as a tree the estimates of its leaves."""
    if margin.branching:
        return leaves(margin, None)
    return margin.n.astype(np.float64), margin.variance


def _possible(margin: Margin, zeros: Sequence[StructuralZero]) -> BoolArray:
    """Cells of a margin that no rule declares impossible."""
    possible = np.ones(margin.n.shape, dtype=bool)
    for zero in zeros:
        if set(zero.columns) <= set(margin.columns):
            shape = [
                s if c in zero.columns else 1
                for c, s in zip(margin.columns, margin.n.shape, strict=True)
            ]
            possible &= ~zero.cells.reshape(shape)
    return possible


def _scaled(n: FloatArray, rows: float, possible: BoolArray) -> FloatArray:
    """Bring counts to a sum; where there are none, all that are possible alike."""
    sums = float(n.sum())
    if sums <= 0:
        like_all = possible if possible.any() else np.ones(n.shape, dtype=bool)
        return np.where(like_all, rows / max(int(like_all.sum()), 1), 0.0)
    return n * (rows / sums)
