"""The others' side of ./scripts/crosscheck: measures the same with their packages, and compares.

Called with the folder that `crosscheck_ours.py` wrote; nothing of ours is installed here.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from crosscheck_ours import BLOCK, COLUMNS, COMPARED, KEYS, MODEL, NUMBERS, SECRET
from measured import markdown, record

TOLERANCE = {
    "recordlinkage": 1e-5,
    "splink": 1e-6,
    "sdmetrics": 1e-9,
    "statsmodels": 1e-6,
    "ipfn": 1e-12,
}
Found = Iterator[tuple[str, str, float]]


def theirs(folder: Path) -> int:
    """Measure the same, print both, return how many differ."""
    known = json.loads((folder / "ours.json").read_text())
    people, rows = (
        pd.read_csv(folder / f"{name}.csv", keep_default_na=False, na_values=[""])
        for name in ("people", "rows")
    )
    bad, apart_by = 0, dict[str, list[float]]()
    print(f"{'figure':44} {'ours':>10} {'theirs':>10} {'difference':>11}  by")
    for by, name, value in (
        *of_recordlinkage(pd.read_csv(folder / "pairs.csv")),
        *of_splink(people, rows),
        *of_sdmetrics(people, rows),
        *of_statsmodels(people, rows),
        *of_ipfn(folder / "ipf.npz"),
    ):
        apart = abs(known[name] - value)
        wrong = not apart <= TOLERANCE[by]
        bad += wrong
        apart_by.setdefault(by, []).append(apart)
        verdict = f"  BEYOND {TOLERANCE[by]}" if wrong else ""
        print(f"{name:44} {known[name]:10.6f} {value:10.6f} {apart:11.2e}  {by}{verdict}")
    if "--record" in sys.argv and not bad:
        listed = [[by, len(found), f"{max(found):.1e}"] for by, found in apart_by.items()]
        table = markdown(["package", "figures", "largest difference"], listed)
        record("crosscheck", "./scripts/crosscheck", table)
    return bad


def of_recordlinkage(pairs: pd.DataFrame) -> Found:
    from recordlinkage import ECMClassifier

    found = ECMClassifier(init="jaro", max_iter=2_000, atol=1e-8)
    found.fit(pairs)
    for column in pairs:
        yield "recordlinkage", f"linkage.pairs.m.{column}", found.m_probs[column][1]
        yield "recordlinkage", f"linkage.pairs.u.{column}", found.u_probs[column][1]
    yield "recordlinkage", "linkage.pairs.share", found.p


def of_splink(people: pd.DataFrame, rows: pd.DataFrame) -> Found:
    import splink
    import splink.comparison_library as library

    settings = splink.SettingsCreator(
        link_type="link_only",
        comparisons=[library.ExactMatch(c) for c in COMPARED],
        em_convergence=1e-7,
        max_iterations=1_000,
        unique_id_column_name="id",
        probability_two_random_records_match=1 / len(rows),
    )
    api = splink.DuckDBAPI()
    sides = [f[COMPARED].assign(id=np.arange(len(f))) for f in (people, rows)]
    frames = [api.register(f, table_name=n) for f, n in zip(sides, "lr", strict=True)]
    linker = splink.Linker(frames, settings, log_level=logging.ERROR)
    linker.training.estimate_u_using_random_sampling(max_pairs=1e9, min_count_per_level=None)
    linker.training.estimate_parameters_using_expectation_maximisation(splink.block_on(BLOCK))
    model = linker.misc.save_model_to_json()
    for comparison in model["comparisons"]:
        column = comparison["output_column_name"]
        level = next(one for one in comparison["comparison_levels"] if "=" in one["sql_condition"])
        if column != BLOCK:
            yield "splink", f"linkage.census.m.{column}", level["m_probability"]
            yield "splink", f"linkage.census.u.{column}", level["u_probability"]


def of_sdmetrics(people: pd.DataFrame, rows: pd.DataFrame) -> Found:
    """CAP, similarity of correlations, complements of Kolmogorov-Smirnov and total variation."""
    from sdmetrics import column_pairs, single_column, single_table

    chosen = [*KEYS, SECRET]
    for name, measure in (("cap", "CategoricalCAP"), ("dcap", "CategoricalZeroCAP")):
        safety = getattr(single_table, measure).compute(
            people[chosen], rows[chosen], key_fields=KEYS, sensitive_fields=[SECRET]
        )
        yield "sdmetrics", f"attribution.{name}", 1 - safety
    for i, first in enumerate(NUMBERS):
        yield (
            "sdmetrics",
            f"distributions.{first}",
            single_column.KSComplement.compute(people[first], rows[first]),
        )
        for second in NUMBERS[i + 1 :]:
            for kind in ("Pearson", "Spearman"):
                both = [f[[first, second]].dropna() for f in (people, rows)]
                value = column_pairs.CorrelationSimilarity.compute(*both, coefficient=kind)
                yield "sdmetrics", f"correlations.{kind.lower()}.{first}.{second}", value
    for column in COLUMNS[2:]:
        value = single_column.TVComplement.compute(people[column], rows[column])
        yield "sdmetrics", f"marginals.{column}", value


def of_statsmodels(people: pd.DataFrame, rows: pd.DataFrame) -> Found:
    import statsmodels.formula.api as formula
    from statsmodels.genmod.families import Binomial

    both = pd.concat([people[MODEL].assign(made=0), rows[MODEL].assign(made=1)])
    fitted = formula.glm(f"made ~ {' * '.join(MODEL)}", both, family=Binomial()).fit()
    off = fitted.fittedvalues - both["made"].mean()
    yield "statsmodels", "models.pmse", float((off**2).mean())


def of_ipfn(path: Path) -> Found:
    """The share of rows that a cycle of iterative proportional fitting places elsewhere."""
    from ipfn.ipfn import ipfn

    with np.load(path) as held:
        ours, names = held["table"], [name for name in held.files if name != "table"]
        wanted = [held[name].copy() for name in names]
    axes = [[int(axis) for axis in name.split("_")] for name in names]
    # It counts cycles from 0.
    fitted = ipfn(np.ones(ours.shape), wanted, axes, max_iteration=0).iteration()
    yield "ipfn", "ipf.elsewhere", float(np.abs(fitted - ours).sum() / ours.sum())


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of the others' own use of their packages
    sys.exit(min(theirs(Path(sys.argv[1])), 1))
