"""What synthetic rows are worth to a learner: trained on them, tested on real ones, beside one trained on real ones.

Train on synthetic, test on real: Esteban, Hyland and Raetsch, arXiv:1706.02633; with logistic regression, random forest
and the agreement of permutation importances it is applications 2 and 3 of Houssiau et al., arXiv:2211.11540. Models and
marks are scikit-learn's. Invariant: rows are put into one order before anything is drawn or fitted, so that a table of
distinct rows with their number learns the same as the rows themselves. Features are made from the training rows alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field

from engine.evaluation.data.aligned import Aligned, Coded, Codes, Floats, Numbers
from engine.evaluation.findings import Finding, Section, not_computed, optional

FEW = 20
"""Numbers of at most so many values are read as levels."""
MOST_LEVELS = 50
"""So many of the commonest levels of a column are a feature each."""
LEARNERS = ("logistic", "forest")
LEAF = 5
"""Fewest rows in a leaf of the forest: smaller ones give no useful probabilities."""
FEWEST = 10
"""An original of fewer rows is not split."""
MOST_CLASSES = 20
"""Of a text: the commonest; others are one class together."""
_TESTED, _REPEATS = 2_000, 3
_SIDES = ("synthetic", "original")
_LARGEST = 1e100
"""Numbers beyond are infinite when squared and summed."""


class Learning(Section):
    """A task for learners: predict `target` from `features`, trained on synthetic rows, tested on real ones."""

    target: str
    # None: all other columns of the smallest table that has the target and most columns.
    features: tuple[str, ...] = ()
    # Share of the original that is tested on; the rest trains for comparison.
    test_share: float = Field(default=0.3, gt=0, lt=1)
    trees: int = Field(default=100, ge=1)  # Of the random forest
    # Rows of each training set that are used; a sample where there are more.
    rows: int = Field(default=20_000, ge=10)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Sample:
    """Rows with a class, in the order of their values."""

    codes: NDArray[np.int32]  # shape (n_rows, n_columns)
    classes: Numbers  # shape (n_rows,)

    @property
    def n(self) -> int:
        return len(self.classes)


def sample_of(
    codes: Mapping[str, Codes], classes: Numbers, n: Numbers, most: int, rng: np.random.Generator
) -> Sample:
    """Repeat each row n times, and draw `most` of them without replacement where there are more."""
    stack = np.stack([classes, *(c.astype(np.int64) for c in codes.values())])
    order = np.lexsort(stack)
    at = np.repeat(order, n[order])
    if len(at) > most:
        at = at[np.sort(rng.choice(len(at), most, replace=False))]
    return Sample(codes=stack[1:, at].T.astype(np.int32), classes=stack[0, at])


class Encoder:
    """Columns of codes as numbers: levels as indicators, or numbers standardised with a mark for blanks."""

    def __init__(self, values: Sequence[NDArray[np.generic]], sample: Sample) -> None:
        self._columns: list[tuple[Codes, Floats | None]] = []  # levels; scaled number of each code
        for value, code in zip(values, sample.codes.T, strict=True):
            size = np.bincount(code, minlength=len(value) + 1)
            if value.dtype == object or len(value) <= FEW:
                commonest = np.argsort(-size, kind="stable")[:MOST_LEVELS]
                levels = np.sort(commonest[size[commonest] > 0]).astype(np.int32)
                self._columns.append((levels if len(levels) > 1 else levels[:0], None))
                continue
            numbers, n = np.clip(value.astype(np.float64), -_LARGEST, _LARGEST), size[:-1]
            mean = float(np.average(numbers, weights=n)) if n.any() else 0.0
            spread = float(np.sqrt(np.average((numbers - mean) ** 2, weights=n))) if n.any() else 0
            blank = np.array([len(value)] if size[-1] and n.any() else [], np.int32)
            scaled = np.append((numbers - mean) / spread, 0.0) if spread > 0 else None
            self._columns.append((blank, scaled))

    def __call__(self, codes: NDArray[np.int32]) -> NDArray[np.float32]:
        parts = []
        for code, (levels, scaled) in zip(codes.T, self._columns, strict=True):
            parts.append((code[:, None] == levels).astype(np.float32))
            if scaled is not None:
                parts.append(scaled[code].astype(np.float32)[:, None])
        return np.concatenate(parts, axis=1)


class Learner:
    """A model on codes; with one class only, or nothing to learn from, it predicts the shares of the classes."""

    def __init__(
        self,
        kind: str,
        values: Sequence[NDArray[np.generic]],
        sample: Sample,
        n_classes: int,
        *,
        trees: int,
        seed: int,
    ) -> None:
        self._encoder = Encoder(values, sample)
        self._shares = np.bincount(sample.classes, minlength=n_classes) / sample.n
        table = self._encoder(sample.codes)
        self._model: Any = None
        if np.count_nonzero(self._shares) < 2 or not table.shape[1]:
            return
        if kind == "forest":
            forest = optional("sklearn.ensemble", "learners").RandomForestClassifier
            self._model = forest(trees, min_samples_leaf=LEAF, random_state=seed)
        else:
            regression = optional("sklearn.linear_model", "learners").LogisticRegression
            self._model = regression(max_iter=300, tol=1e-3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a fit that is not quite finished predicts as well
            self._model.fit(table, sample.classes)

    def __call__(self, codes: NDArray[np.int32]) -> Floats:
        """Probability of each class, shape (n_rows, n_classes)."""
        if self._model is None:
            return np.tile(self._shares, (len(codes), 1))
        out = np.zeros((len(codes), len(self._shares)))
        # Equal rows are asked about once. OpenBLAS may flag a product of finite numbers as invalid (numpy issue 24067).
        rows, back = np.unique(codes, axis=0, return_inverse=True)
        with np.errstate(invalid="ignore"):
            found = self._model.predict_proba(self._encoder(rows))
        out[:, self._model.classes_] = found[back.reshape(-1)]
        return out


def marks(probabilities: Floats, classes: Numbers) -> dict[str, float]:
    """How good class probabilities are for rows whose class is known.

    `balanced_accuracy` is the mean over the classes that are there of the share found; `auc` the mean over the classes
    of the area under the curve of this class against the rest, NaN where only one class is there.
    """
    metrics = optional("sklearn.metrics", "learners")
    there, guess = np.unique(classes), probabilities.argmax(axis=1)
    areas = [
        metrics.roc_auc_score(classes == c, probabilities[:, c]) for c in there[len(there) < 2 :]
    ]
    right = guess == classes
    return {
        "accuracy": float(right.mean()),
        "balanced_accuracy": float(np.mean([right[classes == c].mean() for c in there])),
        "auc": float(np.mean(areas)) if len(there) > 1 else float("nan"),
    }


def importances(learner: Learner, tested: Sample, seed: int) -> Floats:
    """How much is lost on known rows when a column's values are shuffled (Breiman 2001, section 10).

    What is lost is probability of the true class, mean of 3 shuffles over at most 2,000 rows: the order of the columns
    by lost accuracy, which moves in steps, is mostly noise where columns matter little. The seed draws the rows and
    shuffles; it is the same for models that are compared.
    """
    rng = np.random.default_rng(seed)
    at = np.arange(tested.n)
    if len(at) > _TESTED:
        at = np.sort(rng.choice(len(at), _TESTED, replace=False))
    codes, classes = tested.codes[at], tested.classes[at]
    n_columns = codes.shape[1]
    shuffled = np.tile(codes, (1 + n_columns * _REPEATS, 1, 1))
    for i in range(1, len(shuffled)):
        column = (i - 1) // _REPEATS
        shuffled[i, :, column] = rng.permutation(codes[:, column])
    guessed = learner(shuffled.reshape(-1, n_columns))
    sure = guessed[np.arange(len(guessed)), np.tile(classes, len(shuffled))]
    means = sure.reshape(len(shuffled), -1).mean(axis=1)
    return np.asarray((means[0] - means[1:].reshape(n_columns, _REPEATS)).mean(axis=1), np.float64)


def agreement(first: Floats, second: Floats) -> float:
    """Spearman's correlation of two lists of importances; NaN of less than 3, or where one is constant."""
    sides = [np.round(side, 12) for side in (first, second)]
    if len(first) < 3 or any(len(np.unique(side)) < 2 for side in sides):
        return float("nan")
    return float(optional("scipy.stats", "learners").spearmanr(*sides).statistic)


def learning(aligned: Aligned, options: Sequence[Learning], rng: np.random.Generator) -> Finding:
    """Compare learners trained on synthetic rows with such trained on real ones, on the same real rows held out.

    Each task reads the table with its target and most of its features, of several the narrowest; where none is named,
    the widest table with the target, of several the one with most distinct rows. Rows held out are drawn from the
    original, so a release made from it has seen them; a ratio above 1 can be a sign of copied rows. Figures are means
    over the tasks.
    """
    marked: list[dict[str, object]] = []
    weights: list[pd.DataFrame] = []
    whys: list[str] = []
    notes: list[str] = []
    for number, one in enumerate(options, 1):
        task = _task(aligned, one, rng, notes)
        if isinstance(task, str):
            whys.append(f"predicting {one.target}: {task}")
            continue
        table, features, n_classes, samples = task
        few = ", ".join(features) if len(features) <= 5 else f"{len(features)} columns"
        name = f"{number}: {one.target} from {few}"
        seed = int(rng.integers(2**31))
        known = [aligned.values[c] for c in features]
        tested = samples["tested"]
        commonest = np.bincount(samples["original"].classes).argmax()
        lost = {}
        for kind in LEARNERS:
            for side in _SIDES:
                trained = samples[side]
                learner = Learner(kind, known, trained, n_classes, trees=one.trees, seed=seed)
                marked.append(
                    {
                        "task": name,
                        "table": ", ".join(table.columns),
                        "learner": kind,
                        "trained_on": side,
                        "rows": trained.n,
                        "rows_tested": tested.n,
                        **marks(learner(tested.codes), tested.classes),
                        "guess": float((tested.classes == commonest).mean()),
                    }
                )
                if kind == "forest":
                    lost[side] = importances(learner, tested, seed)
        weights.append(pd.DataFrame({"task": name, "column": features, **lost}))
    if not marked:
        return not_computed("learning", "; ".join(whys) or "the study declares no task", *notes)
    whole, importance = pd.DataFrame(marked), pd.concat(weights, ignore_index=True)

    def mean(of_tasks: pd.Series, why: str) -> Any:
        """Mean over the tasks, or why it is absent."""
        return of_tasks.mean() if of_tasks.notna().any() else why

    by_side = {s: whole[whole["trained_on"] == s].reset_index(drop=True) for s in _SIDES}
    never = "a learner trained on the original is never right"
    one_class = "rows held out are all of one class"
    figures: dict[str, Any] = {"n": whole["task"].nunique()}
    for kind in LEARNERS:
        ours, real = (by_side[s][by_side[s]["learner"] == kind] for s in _SIDES)
        ratio = ours["accuracy"] / real["accuracy"].where(real["accuracy"] > 0)
        figures[f"{kind}_ratio"] = mean(ratio, never)
        for loss, of in (("balanced_loss", "balanced_accuracy"), ("auc_loss", "auc")):
            figures[f"{kind}_{loss}"] = mean(real[of] - ours[of], one_class)
    best = by_side["original"].groupby("task")[["accuracy", "guess"]].max()
    guess_ratio = best["guess"] / best["accuracy"].where(best["accuracy"] > 0)
    figures["guess_ratio"] = mean(guess_ratio, never)
    each = [rows[[*_SIDES]].to_numpy(np.float64).T for _, rows in importance.groupby("task")]
    figures["importance_agreement"] = mean(
        pd.Series([agreement(one, other) for one, other in each], dtype="float64"),
        "fewer than 3 features, or a forest to which none of them matters",
    )
    notes += [f"left out: {why}" for why in whys]
    return Finding("learning", figures, whole, more={"importances": importance}, notes=notes)


def _task(
    aligned: Aligned, declared: Learning, rng: np.random.Generator, notes: list[str]
) -> tuple[Coded, tuple[str, ...], int, dict[str, Sample]] | str:
    """Table, features, number of classes and samples of a task, or why it cannot be done."""
    target, original = declared.target, aligned.original
    wanted = set(declared.features or aligned.values) - {target}

    def rank(table: Coded) -> tuple[int, int, int]:
        n_rows = len(table.n) if not declared.features else -len(table.n)
        return len(wanted.intersection(table.columns)), -len(table.columns), n_rows

    fitting = [t for c, t in aligned.tables.items() if target in c and wanted.intersection(c)]
    if not fitting:
        return "no table has it with any of the features"
    table = max(fitting, key=rank)
    features = tuple(
        c for c in declared.features or aligned.values if c in table.columns and c != target
    )
    if len(original.n) < FEWEST:
        return f"the original has fewer than {FEWEST} rows"
    if not table.total:
        return "the table has no rows"
    class_of, kind = _classes(aligned, target)
    if len(np.unique(class_of[original.codes[target]])) < 2:
        return "the original has one value only"
    if kind:
        notes.append(f"predicting {target}: {kind}")
    if absent := [c for c in declared.features if c not in features]:
        notes.append(
            f"predicting {target}: no table has it and the other features together with {', '.join(absent)}"
        )
    order = rng.permutation(len(original.n))
    n_tested = int(np.clip(round(declared.test_share * len(order)), 1, len(order) - 1))
    parts = {
        "tested": original.rows(np.sort(order[:n_tested])),
        "original": original.rows(np.sort(order[n_tested:])),
        "synthetic": table,
    }
    samples = {
        part: sample_of(
            {c: rows.codes[c] for c in features},
            class_of[rows.codes[target]],
            rows.n,
            declared.rows,
            rng,
        )
        for part, rows in parts.items()
    }
    missing = np.setdiff1d(samples["original"].classes, samples["synthetic"].classes)
    if len(missing):
        notes.append(f"predicting {target}: {len(missing)} of its classes are in no synthetic row")
    return table, features, int(class_of.max()) + 1, samples


def _classes(aligned: Aligned, target: str) -> tuple[Numbers, str]:
    """Class of each code, shape (n_values + 1,), the blank's last; and in words what was put together."""
    values, code = aligned.values[target], aligned.original.codes[target]
    if len(values) <= FEW:
        return np.arange(len(values) + 1), ""
    filled = np.sort(code[code < len(values)])
    if values.dtype == object:
        own = np.argsort(-np.bincount(filled, minlength=len(values)), kind="stable")[:MOST_CLASSES]
        class_of = np.full(len(values) + 1, MOST_CLASSES)
        class_of[own] = np.arange(len(own))
        class_of[-1] = MOST_CLASSES + 1
        return class_of, f"values but the {MOST_CLASSES} commonest are one class"
    if not len(filled):
        return np.zeros(len(values) + 1, np.int64), ""
    middle = int(filled[(len(filled) - 1) // 2])
    middle -= int(middle == filled[-1])  # so that both classes have rows
    class_of = (np.arange(len(values) + 1) > middle).astype(np.int64)
    class_of[-1] = 2
    return class_of, "above the original's median or not, as it has many values"
