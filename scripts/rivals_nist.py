"""Hold synthetic files that others archived beside what the same kind of rival makes here, of the same columns.

Usage: .venv/bin/python scripts/rivals_nist.py [DATA] [--mst PYTHON] [--seeds N] [--record]
DATA is the folder that holds NIST's national2019.csv, rules.json and peers/ (default ../shared/nist). PYTHON is the
interpreter of an environment with mbi 2.0.0 and pandas; without it MST is left out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from measured import add_option, command_line, markdown, record

from engine.evaluation.baselines import Baseline, Cart, Schema, baseline_of, schema_of
from engine.evaluation.baselines.outside import recipe_of
from engine.evaluation.data.aligned import align, distinct, generator
from engine.evaluation.data.reading import read_like, read_original
from engine.evaluation.measures import Sections, score_all
from engine.evaluation.result import named
from engine.evaluation.study.model import Study, read_study
from engine.schema import column_set

DATA = Path("../shared/nist")
STUDY = Path(__file__).resolve().parents[1] / "releases" / "nist-acs.study.toml"
SEED = 2021
WITHIN = 0.15
SCORED = (
    "univariate",
    "correlations",
    "marginals",
    "propensity",
    "regression",
    "components",
    "inconsistencies",
)
"""Sections of the study that are measured, beside those that say how the data is read."""
FIGURES: Mapping[str, str] = {
    "univariate.median_composite_error": "univariate, median composite error",
    "correlations.median_difference": "Kendall's tau, median difference",
    "marginals.score": "3-marginals, age ranked",
    "propensity.pmse": "pMSE",
    "components.mean_ks": "components, mean KS",
    "regression.median_error": "slopes, median error",
    "inconsistencies.records": "inconsistent records",
}
NUMBERS = "cart, codes as numbers"
FILES: Mapping[str, tuple[str, ...]] = {
    "cart": ("cart", NUMBERS),
    "sample40": ("sample40",),
    "mwem_pgm": ("mst",),
}
"""Archived file, and the rivals of its kind."""


class CodedCart:
    """CART that takes every code for a number, as R does that reads such a file; a blank is -1."""

    name = NUMBERS
    origin, promise = Cart.origin, Cart.promise

    def synthesize(
        self, frame: pd.DataFrame, schema: Schema, rng: np.random.Generator
    ) -> pd.DataFrame:
        """Return synthetic rows; see `Baseline`. The schema is not looked at."""
        del schema
        numbers = [c for c in frame if pd.api.types.is_numeric_dtype(frame[c])]
        filled = frame.assign(**{c: frame[c].astype(float).fillna(-1.0) for c in numbers})
        made = Cart().synthesize(filled, Schema(numbers=frozenset(numbers)), rng)
        blank = [c for c in numbers if frame[c].isna().any()]
        return made.assign(**{c: made[c].where(made[c] != -1.0) for c in blank})


def study_of(folder: Path) -> Study:
    """The study, cut to what is measured here."""
    whole = read_study(STUDY, beside=[folder])
    left_out = {
        name: field.get_default()
        for name, field in Sections.model_fields.items()
        if name not in SCORED
    }
    return whole.model_copy(update={**left_out, "risks": None})


def scores(original: pd.DataFrame, made: pd.DataFrame, study: Study) -> dict[str, float]:
    """The figures of one synthetic table."""
    aligned = align(original, {column_set(list(made)): distinct(made)}, study)
    found = named(score_all(aligned, study, seed=SEED))
    return {name: float(found.get(name, np.nan)) for name in FIGURES}


def is_near(file: float, rival: float) -> bool:
    """Whether a figure of a file is within 15 % of that of a rival; of nothing both must be nothing."""
    return abs(file - rival) <= WITHIN * abs(rival)


def is_near_one(file: float, rivals: Sequence[float]) -> bool:
    """Whether a figure of a file is within 15 % of what some draw has, or between two."""
    return (
        is_near(file, min(rivals)) or is_near(file, max(rivals)) or min(rivals) < file < max(rivals)
    )


def beside(file: Mapping[str, float], rivals: Sequence[Mapping[str, float]]) -> list[list[str]]:
    """Rows of the table of one file: its figures, the rival's median and range, and the one over the other."""
    rows = []
    for name, words in FIGURES.items():
        found = sorted(one[name] for one in rivals)
        middle = float(np.median(found))
        rows.append(
            [
                words,
                f"{file[name]:.4g}",
                f"{middle:.4g} ({found[0]:.4g} to {found[-1]:.4g})",
                f"{file[name] / middle:.2f}" if middle else "",
                "yes" if is_near(file[name], middle) else "no",
                "yes" if is_near_one(file[name], found) else "no",
            ]
        )
    return rows


def rivals_of(mst: str | None) -> dict[str, Baseline]:
    """The rivals by name; MST with the interpreter that can run it."""
    found: dict[str, Baseline] = {name: baseline_of(name) for name in ("cart", "sample40")}
    found[NUMBERS] = CodedCart()
    return found if mst is None else {**found, "mst": recipe_of("mst", mst)}


def main() -> None:
    """Make, score, print, record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="?", type=Path, default=DATA)
    parser.add_argument("--mst")
    parser.add_argument("--seeds", type=int, default=3)
    add_option(parser)
    given = parser.parse_args()
    study = study_of(given.data)
    original = read_original(given.data / "national2019.csv", study)
    rivals = rivals_of(given.mst)
    parts = []
    for archived, kinds in FILES.items():
        file = read_like(given.data / "peers" / f"{archived}.csv", original, study, name=archived)
        rows = original[[c for c in original.columns if c in file.columns]]
        told = scores(original, file[list(rows)], study)
        for name in kinds:
            if name not in rivals:
                continue
            found = []
            for seed in range(1, given.seeds + 1):
                start = time.process_time()
                made = rivals[name].synthesize(rows, schema_of(rows), generator(SEED + seed, name))
                found.append(scores(original, made, study))
                spent = f"{time.process_time() - start:.1f} s"
                print(archived, name, seed, spent, found[-1], flush=True)
            heads = [
                f"{archived}, {rows.shape[1]} columns",
                "file",
                f"{name} here",
                "ratio",
                "within 15 %",
                "of some seed",
            ]
            parts.append(markdown(heads, beside(told, found)))
    text = "\n\n".join([*parts, remark(len(original), given.seeds)])
    print(text)
    if given.record:
        record("rivals-nist", command_line(".venv/bin/python scripts/rivals_nist.py"), text)


def remark(n_rows: int, seeds: int) -> str:
    """What is known of the files' settings, and what is not."""
    return (
        f"{n_rows:,} people. Each rival sees the columns of its file alone; medians, and ranges, over {seeds} seeds. "
        "Known: CART is R's synthpop, here with its defaults (leaves of 5, splits of 15, complexity 1e-8), without "
        "smoothing: no value of its file is new; the sample has 40 % of the rows, MWEM+PGM has epsilon 1. Not known: "
        "the order in which CART's columns were synthesised, and which were numbers; the workload, rounds, delta and "
        "groups of numbers of MWEM+PGM. MST is another way to choose what is measured for the same estimation: of the "
        "same kind, not of the same settings. Of some seed: within 15 % of what one has, or between two."
    )


if __name__ == "__main__":
    main()
