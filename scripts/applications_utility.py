"""What an analyst gets of each application: errors of tables, accuracy of a regression and of a forest, importances.

Takes the real data and a synthetic one as combinations of codes; gives the figures of tables 1 to 3 of Houssiau et al.
2022 (arXiv:2211.11540, section 4.3). Models read codes; the real ones are split once, three quarters and one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder

from engine.evaluation.audit import Cells, Domain
from engine.schema import FloatArray, Int64Array

TRAINED = 0.75
FOREST = {"n_estimators": 30, "min_samples_leaf": 50, "random_state": 1, "n_jobs": 1}
MOST_TRAINED, MOST_PERMUTED, PERMUTATIONS = 50_000, 20_000, 3
"""Rows that a forest is grown on, and tested on; and that importance is measured on, so often."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """Real rows: those that the real model is trained on, and those that every model is tested on."""

    train: Int64Array
    test: Int64Array


def split_of(rows: Int64Array, rng: np.random.Generator) -> Split:
    """Split rows at random."""
    order = rng.permutation(len(rows))
    cut = int(TRAINED * len(rows))
    return Split(train=rows[order[:cut]], test=rows[order[cut:]])


def rows_of(cells: Cells, n_rows: int, rng: np.random.Generator) -> Int64Array:
    """Rows of cells that have whole numbers of them, shuffled; else so many drawn by their shares."""
    if np.issubdtype(cells.n.dtype, np.integer):
        return cells.rows(rng)
    drawn = rng.multinomial(n_rows, cells.n / cells.n.sum())
    return Cells(codes=cells.codes, n=drawn).rows(rng)


def table_of(cells: Cells, sizes: Sequence[int]) -> FloatArray:
    """Shares of all combinations, one axis a column."""
    place = np.ravel_multi_index(tuple(cells.codes.T), tuple(sizes))
    return np.bincount(place, cells.n / cells.n.sum(), int(np.prod(sizes))).reshape(tuple(sizes))


def gender_gaps(table: FloatArray, domain: Domain, active: Sequence[str]) -> FloatArray:
    """Share of women less that of men among the active of each occupation; nan where there are none."""
    names = domain.names
    at = {column.name: column for column in domain.columns}
    chosen = [at["activity"].values.index(value) for value in active]
    found = np.moveaxis(
        table, [names.index(n) for n in ("activity", "occupation", "sex")], (0, 1, 2)
    )
    women, men = (
        found[chosen].sum(axis=0)[:, at["sex"].values.index(s)] for s in ("Female", "Male")
    )
    with np.errstate(invalid="ignore"):
        return np.asarray((women - men) / (women + men))


def gap_errors(real: Cells, made: Cells, domain: Domain, active: Sequence[str]) -> dict[str, float]:
    """Table 1: root mean squared errors of the shares of all combinations, and of the gender gaps."""
    tables = [table_of(cells, domain.sizes) for cells in (real, made)]
    gaps = [gender_gaps(table, domain, active) for table in tables]
    return {
        "3-way RMSE": _rmse(tables[1] - tables[0]),
        "gender gap RMSE": _rmse((gaps[1] - gaps[0])[~np.isnan(gaps[0])]),
    }


def _rmse(errors: FloatArray) -> float:
    return float(np.sqrt(np.mean(np.nan_to_num(errors, nan=1.0) ** 2)))


def regression_accuracy(
    real: Split, made: Int64Array, sizes: Sequence[int], target: int
) -> dict[str, float]:
    """Table 2: a multinomial regression of three quarters of the synthetic rows, on real rows and on the others."""
    cut = int(TRAINED * len(made))
    others = [axis for axis in range(len(sizes)) if axis != target]
    coder = OneHotEncoder(categories=[np.arange(sizes[a]) for a in others], handle_unknown="ignore")
    rows, n = np.unique(made[:cut], axis=0, return_counts=True)
    model = LogisticRegression(C=1e6, max_iter=2_000)
    model.fit(coder.fit_transform(rows[:, others]), rows[:, target], sample_weight=n)
    return {
        where: float(model.score(coder.transform(x[:, others]), x[:, target]))
        for where, x in (("on real", real.test), ("on synthetic", made[cut:]))
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class Forest:
    """What a forest came to: accuracies, and the importance of each feature on real rows."""

    on_real: float
    on_synthetic: float
    importance: FloatArray

    def order(self, among: Sequence[int] | None = None) -> str:
        """Features, or some of them, from the most important one, a letter each."""
        ranked = np.argsort(-self.importance, kind="stable")
        return "".join(chr(ord("a") + i) for i in ranked if among is None or i in among)


def forest_of(real: Split, made: Int64Array, target: int) -> Forest:
    """Table 3: a forest grown on synthetic rows, three quarters but for a limit; importance by permutation."""
    cut = int(TRAINED * len(made))
    others = [axis for axis in range(made.shape[1]) if axis != target]
    grown = made[: min(cut, MOST_TRAINED)]
    model = RandomForestClassifier(**FOREST).fit(grown[:, others], grown[:, target])
    shown = real.test[:MOST_PERMUTED]
    found = permutation_importance(
        model, shown[:, others], shown[:, target], n_repeats=PERMUTATIONS, random_state=1
    )
    real_rest, rest = real.test[:MOST_TRAINED], made[cut:][:MOST_TRAINED]
    return Forest(
        on_real=float(model.score(real_rest[:, others], real_rest[:, target])),
        on_synthetic=float(model.score(rest[:, others], rest[:, target])),
        importance=np.asarray(found.importances_mean),
    )


def forest_figures(real: Forest, made: Forest, chance: float) -> dict[str, float]:
    """A forest beside that of the real rows.

    Parameters
    ----------
    chance : float
        Importance of the real forest up to which a feature's place is chance.
    """
    sure = np.flatnonzero(real.importance > chance).tolist()
    return {
        "on real": made.on_real,
        "on synthetic": made.on_synthetic,
        "importance, largest difference": float(np.abs(made.importance - real.importance).max()),
        "order": jaro(real.order(), made.order()),
        "order of those above chance": jaro(real.order(sure), made.order(sure)),
        "so many": len(sure),
    }


def jaro(one: str, other: str) -> float:
    """Jaro's similarity of two words (1989, doi:10.1080/01621459.1989.10478785)."""
    if not one or not other:
        return float(one == other)
    reach = max(max(len(one), len(other)) // 2 - 1, 0)
    free, kept = list(other), []
    for i, letter in enumerate(one):
        for j in range(max(0, i - reach), min(len(other), i + reach + 1)):
            if free[j] == letter:
                kept.append((i, j))
                free[j] = ""
                break
    if not kept:
        return 0.0
    matched = sorted(j for _, j in kept)
    moved = sum(one[i] != other[j] for (i, _), j in zip(kept, matched, strict=True)) / 2
    m = len(kept)
    return (m / len(one) + m / len(other) + (m - moved) / m) / 3


def means(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Means of figures over several syntheses."""
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}
