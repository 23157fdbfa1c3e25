"""Measure partial synthesis of two columns of SD2011 by CART and by DPMPM, beside full synthesis: utility and risk.

Usage: .venv/bin/python scripts/rivals.py [DATA] [--sets M] [--record]
DATA is the folder that holds SD2011.csv (default ../shared/synthpop). 5 sets of each; a few minutes on two cores.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from measured import add_option, command_line, markdown, record

from engine.evaluation.attacks import Attacker, Held
from engine.evaluation.attacks.records import identification
from engine.evaluation.baselines import Baseline, Partial, baseline_of, schema_of, syntheses
from engine.evaluation.data.aligned import Aligned, align, distinct, generator
from engine.evaluation.measures import score_all
from engine.evaluation.measures.analyses import combined_estimates
from engine.evaluation.study import Study
from engine.schema import column_set

DATA = Path("../shared/synthpop")
COLUMNS = ["sex", "age", "region", "edu", "marital", "socprof", "income", "smoke"]
SYNTHESISED = ("age", "income")
KNOWN = ("sex", "age", "region", "edu", "marital")
NOT_KNOWN = -8
"""How the data says that an income is not known."""
SEED = 2021
STUDY = Study.model_validate(
    {
        "title": "SD2011",
        "distributions": {"columns": SYNTHESISED},
        "propensity": {},
        "estimates": [
            {"name": "income", "kind": "mean", "column": "income"},
            {"name": "age", "kind": "mean", "column": "age"},
            {"name": "smokers", "kind": "share", "column": "smoke", "value": "YES"},
            {"name": "income on age", "kind": "slope", "column": "income", "on": "age"},
            {
                "name": "income of women",
                "kind": "mean",
                "column": "income",
                "where": {"sex": ["FEMALE"]},
            },
            {
                "name": "age of the widowed",
                "kind": "mean",
                "column": "age",
                "where": {"marital": ["WIDOWED"]},
            },
        ],
    }
)
FIGURES = {
    "distributions.largest_u_m": "U_m, larger of age and income",
    "distributions.largest_u_a": "U_a, larger of age and income",
    "propensity.pmse": "pMSE, tree on all columns",
}
RISKS = {
    "expected_match_risk": "expected match risk, people",
    "true_match_rate": "true match rate",
    "false_match_rate": "false match rate",
}
OVERLAP = "overlap of intervals of the sets together"


def read(folder: Path) -> pd.DataFrame:
    """The columns, blanks where nothing is known."""
    frame = pd.read_csv(folder / "SD2011.csv", usecols=COLUMNS, low_memory=False)[COLUMNS]
    frame["income"] = frame["income"].where(frame["income"] != NOT_KNOWN)
    return frame


def ways() -> dict[str, Baseline]:
    """What is compared, by name."""
    found: dict[str, Baseline] = {}
    for name in ("cart", "dpmpm"):
        rival = baseline_of(name)
        found[f"{name}, partial"] = Partial(rival=rival, columns=SYNTHESISED)
        found[f"{name}, full"] = rival
    return found


def beside(original: pd.DataFrame, synthetic: pd.DataFrame) -> Aligned:
    """A synthetic table beside the data."""
    return align(original, {column_set(list(synthetic)): distinct(synthetic)}, STUDY)


def risks_of(aligned: Aligned, *, is_aligned: bool) -> dict[str, float]:
    """Matches by who knows five columns; a record is a person's own by its row, or in full synthesis by its values."""
    attacker = Attacker(quasi_identifiers=KNOWN, aligned=is_aligned)
    values = identification(
        Held(aligned=aligned), attacker, generator(SEED, "identification")
    ).values
    return {name: float(values.get(name, np.nan)) for name in RISKS}


def measured(
    original: pd.DataFrame, sets: Sequence[pd.DataFrame], *, is_aligned: bool
) -> dict[str, float]:
    """Means over the sets; overlap of intervals of all sets by the rules for partial synthesis."""
    found: list[dict[str, float]] = []
    comparisons = [beside(original, one) for one in sets]
    for aligned in comparisons:
        scores = score_all(aligned, STUDY, seed=SEED)
        values = {f"{s}.{k}": float(v) for s, one in scores.items() for k, v in one.values.items()}
        risks = risks_of(aligned, is_aligned=is_aligned)
        found.append({name: values[name] for name in FIGURES} | risks)
    means = pd.DataFrame(found).mean().to_dict()
    together = combined_estimates(comparisons, STUDY.estimates)
    return {str(k): float(v) for k, v in means.items()} | {
        OVERLAP: float(together.values["mean_overlap"])
    }


def main() -> None:
    """Make, measure, print, record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="?", type=Path, default=DATA)
    parser.add_argument("--sets", type=int, default=5)
    add_option(parser)
    given = parser.parse_args()
    original = read(given.data)
    columns: dict[str, dict[str, float]] = {
        "the data itself": measured(original, [original], is_aligned=True)
    }
    for name, rival in ways().items():
        start = time.process_time()
        rng = generator(SEED, name)
        sets = syntheses(rival, original, schema_of(original), given.sets, rng)
        spent = (time.process_time() - start) / given.sets
        is_aligned = isinstance(rival, Partial)
        columns[name] = measured(original, sets, is_aligned=is_aligned) | {"seconds": spent}
        print(name, columns[name], flush=True)
    names = {**FIGURES, OVERLAP: OVERLAP, **RISKS, "seconds": "CPU seconds a set"}
    rows = [
        [words, *(f"{c[name]:.4g}" if name in c else "" for c in columns.values())]
        for name, words in names.items()
    ]
    body = markdown(["SD2011", *columns], rows)
    remark = (
        f"{len(original):,} people, columns {', '.join(COLUMNS)}; partial: {' and '.join(SYNTHESISED)}. Means of "
        f"{given.sets} sets; income {NOT_KNOWN} is a blank. The attacker knows {', '.join(KNOWN)}. A person's own "
        "record is row i in partial synthesis and in the data, and in full synthesis one that equals the person's in "
        "all columns: match figures of the two kinds are not of one scale."
    )
    print(f"{body}\n\n{remark}")
    if given.record:
        record(
            "rivals-sd2011",
            command_line(".venv/bin/python scripts/rivals.py"),
            f"{body}\n\n{remark}",
        )


if __name__ == "__main__":
    main()
