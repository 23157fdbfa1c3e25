"""What synthetic rows are worth to a learner: trained on them, tested on real ones, beside one trained on real ones.

Takes a `Paired`, tasks of a study and a generator; gives a `Score`. Train on synthetic, test on real (TSTR) is
Esteban, Hyland and Raetsch, "Real-valued (medical) time series generation with recurrent conditional GANs",
arXiv:1706.02633; with logistic regression, random forest and the agreement of permutation importances it is
applications 2 and 3 of Houssiau et al., "A Framework for Auditable Synthetic Data Generation", arXiv:2211.11540.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from pydantic import Field

from engine.evaluation.data.paired import Coded, Numbers, Paired
from engine.evaluation.data.sampling import rows_of
from engine.evaluation.score import WHOLE, Score, Section
from engine.evaluation.utility.learners import (
    FEW,
    LEARNERS,
    Predict,
    Sample,
    agreement,
    importances,
    marks,
    sample_of,
    train,
)

FEWEST = 10
"""An original of fewer rows is not split."""
MOST_CLASSES = 20
"""Of a text: the commonest; others are one class together."""
_SIDES = ("synthetic", "original")
_LISTED = 5


class Learning(Section):
    """A task for learners: predict `target` from `features`, trained on synthetic rows, tested on real ones."""

    target: str
    # None: all other columns of the smallest table that has the target and most columns.
    features: tuple[str, ...] = ()
    # Share of the original that is tested on; the rest trains for paired.
    test_share: float = Field(default=0.3, gt=0, lt=1)
    trees: int = Field(default=100, ge=1)  # Of the random forest
    # Rows of each training set that are used; a sample where there are more.
    rows: int = Field(default=20_000, ge=10)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Task:
    """A task, ready: classes by code, and the rows to train and to test on."""

    name: str
    table: Coded
    features: tuple[str, ...]
    n_classes: int
    training: dict[str, Sample]
    tested: Sample


def learning(paired: Paired, section: Sequence[Learning], rng: np.random.Generator) -> Score:
    """Compare learners trained on synthetic rows with such trained on real ones, on the same real rows held out.

    Each task reads the table with its target and most of its features, of several the narrowest; where none is named,
    the widest table with the target, of several the one with most distinct rows. Rows held out are drawn from the
    original, so a release made from it has seen them; a ratio above 1 can be a sign of copied rows.

    Returns: Means over the tasks. Broken down by task, learner and what it was trained on; `importances` by
    task and column.
    """
    marked: list[dict[str, object]] = []
    weights: list[pd.DataFrame] = []
    whys: list[str] = []
    notes: list[str] = []
    for number, one in enumerate(section, 1):
        task = _task(paired, one, number, rng, notes)
        if isinstance(task, str):
            whys.append(task)
            continue
        seed = int(rng.integers(2**31))
        models = _models(paired, task, one.trees, seed)
        marked += [_marked(task, *key, predict) for key, predict in models.items()]
        importance = {s: importances(models["forest", s], task.tested, seed) for s in _SIDES}
        weights.append(pd.DataFrame({"task": task.name, "column": task.features, **importance}))
    if not marked:
        return Score(
            measure="learning",
            values={},
            why_not={WHOLE: "; ".join(whys) or "the study declares no task"},
            notes=tuple(notes),
        )
    whole = pd.DataFrame(marked)
    more = {"importances": pd.concat(weights, ignore_index=True)}
    values, why_not = _figures(whole, more["importances"])
    return Score(
        measure="learning",
        values=values,
        breakdown=whole,
        more=more,
        why_not=why_not,
        notes=(*notes, *(f"left out: {why}" for why in whys)),
    )


def _task(
    paired: Paired, declared: Learning, number: int, rng: np.random.Generator, notes: list[str]
) -> _Task | str:
    """A task, or why it cannot be done; what a reader must know goes to the notes."""
    name = f"predicting {declared.target}"
    table = _table(paired, declared)
    if table is None:
        return f"{name}: no table has it with any of the features"
    wanted = declared.features or tuple(paired.values)
    features = tuple(c for c in wanted if c in table.columns and c != declared.target)
    original = paired.original
    if len(original.n) < FEWEST:
        return f"{name}: the original has fewer than {FEWEST} rows"
    if not table.total:
        return f"{name}: the table has no rows"
    class_of, kind = _classes(paired, declared.target)
    if len(np.unique(class_of[original.codes[declared.target]])) < 2:
        return f"{name}: the original has one value only"
    if kind:
        notes.append(f"{name}: {kind}")
    if absent := [c for c in declared.features if c not in features]:
        notes.append(
            f"{name}: no table has it and the other features together with {', '.join(absent)}"
        )
    order = rng.permutation(len(original.n))
    n_tested = int(np.clip(round(declared.test_share * len(order)), 1, len(order) - 1))
    parts = {
        "tested": rows_of(original, np.sort(order[:n_tested])),
        "original": rows_of(original, np.sort(order[n_tested:])),
        "synthetic": table,
    }
    samples = {
        part: sample_of(
            {c: rows.codes[c] for c in features},
            class_of[rows.codes[declared.target]],
            rows.n,
            declared.rows,
            rng,
        )
        for part, rows in parts.items()
    }
    missing = np.setdiff1d(samples["original"].classes, samples["synthetic"].classes)
    if len(missing):
        notes.append(f"{name}: {len(missing)} of its classes are in no synthetic row")
    return _Task(
        name=f"{number}: {declared.target} from {_listed(features)}",
        table=table,
        features=features,
        n_classes=int(class_of.max()) + 1,
        training={side: samples[side] for side in _SIDES},
        tested=samples["tested"],
    )


def _listed(features: tuple[str, ...]) -> str:
    """Columns in words."""
    return ", ".join(features) if len(features) <= _LISTED else f"{len(features)} columns"


def _table(paired: Paired, declared: Learning) -> Coded | None:
    """The table that a task reads."""
    wanted = set(declared.features or paired.values) - {declared.target}
    fitting = [
        t for c, t in paired.tables.items() if declared.target in c and wanted.intersection(c)
    ]

    def rank(table: Coded) -> tuple[int, int, int]:
        n_rows = len(table.n) if not declared.features else -len(table.n)
        return len(wanted.intersection(table.columns)), -len(table.columns), n_rows

    return max(fitting, key=rank, default=None)


def _classes(paired: Paired, target: str) -> tuple[Numbers, str]:
    """Class of each code, shape (n_values + 1,), the blank's last; and in words what was put together."""
    values, code = paired.values[target], paired.original.codes[target]
    if len(values) <= FEW:
        return np.arange(len(values) + 1), ""
    filled = np.sort(code[code < len(values)])
    if values.dtype == object:
        size = np.bincount(filled, minlength=len(values))
        own = np.argsort(-size, kind="stable")[:MOST_CLASSES]
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


def _models(paired: Paired, task: _Task, trees: int, seed: int) -> dict[tuple[str, str], Predict]:
    """Models by learner and what they are trained on."""
    return {
        (learner, side): train(
            learner,
            paired.values,
            task.training[side],
            task.n_classes,
            trees=trees,
            seed=seed,
        )
        for learner in LEARNERS
        for side in _SIDES
    }


def _marked(task: _Task, learner: str, side: str, predict: Predict) -> dict[str, object]:
    """One row of the breakdown."""
    trained, tested = task.training[side], task.tested
    size = np.bincount(task.training["original"].classes, task.training["original"].n)
    guessed = tested.classes == size.argmax()
    return {
        "task": task.name,
        "table": ", ".join(task.table.columns),
        "learner": learner,
        "trained_on": side,
        "rows": int(trained.n.sum()),
        "rows_tested": int(tested.n.sum()),
        **marks(predict(tested.codes), tested),
        "guess": float(tested.n[guessed].sum() / tested.n.sum()),
    }


def _figures(whole: pd.DataFrame, weights: pd.DataFrame) -> tuple[dict[str, float], dict[str, str]]:
    """Means over the tasks, and why some are absent."""
    values, why_not = {"n": float(whole["task"].nunique())}, {}
    sides = {s: whole[whole["trained_on"] == s].reset_index(drop=True) for s in _SIDES}
    by_name: dict[str, tuple[pd.Series, str]] = {}
    for learner in LEARNERS:
        ours, real = (sides[s][sides[s]["learner"] == learner] for s in _SIDES)
        ratio = ours["accuracy"] / real["accuracy"].where(real["accuracy"] > 0)
        by_name[f"{learner}_ratio"] = ratio, "a learner trained on the original is never right"
        for mark, short in (("balanced_accuracy", "balanced_loss"), ("auc", "auc_loss")):
            lost = real[mark] - ours[mark]
            by_name[f"{learner}_{short}"] = lost, "rows held out are all of one class"
    best = sides["original"].groupby("task")[["accuracy", "guess"]].max()
    ratio = best["guess"] / best["accuracy"].where(best["accuracy"] > 0)
    by_name["guess_ratio"] = ratio, "a learner trained on the original is never right"
    each = [rows[[*_SIDES]].to_numpy(np.float64) for _, rows in weights.groupby("task")]
    by_name["importance_agreement"] = (
        pd.Series([agreement(*w.T) for w in each], dtype="float64"),
        "fewer than 3 features, or a forest to which none of them matters",
    )
    for name, (figures, why) in by_name.items():
        if figures.notna().any():
            values[name] = float(figures.mean())
        else:
            why_not[name] = why
    return values, why_not
