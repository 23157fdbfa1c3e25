"""Our side of ./scripts/crosscheck: makes the data, measures, and writes both into a folder.

Called with that folder, which holds a simulated census.
"""

from __future__ import annotations

import json
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

COLUMNS = ["region", "age", "sex", "marital_status", "education", "activity", "health", "tenure"]
COMPARED = ["age", "sex", "marital_status", "education", "activity", "health"]
BLOCK = "age"
KEYS, SECRET = ["sex", "marital_status", "education"], "tenure"
MODEL = ["education", "health"]
NUMBERS = ["age", "income", "hours"]
CHANGED = 0.1
M = np.array([0.95, 0.8, 0.7, 0.98, 0.9])
U = np.array([0.1, 0.25, 0.5, 0.05, 0.3])
PAIRS, MATCHES = 50_000, 0.05
SIZES = {"a": 5, "b": 5, "c": 4, "d": 4, "e": 3, "f": 3, "g": 2, "h": 2}


def made(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """People, and rows of most of them, rather the old, in which some values are swapped between people."""
    source = np.random.default_rng(1)
    people = pd.read_parquet(folder / "census" / "people.parquet")[[*COLUMNS, "income", "hours"]]
    people[COLUMNS] = people[COLUMNS].fillna("none")
    rows = people.copy()
    for column in people:
        moved = np.flatnonzero(source.random(len(people)) < CHANGED)
        rows.loc[moved, column] = people[column].to_numpy()[source.permutation(moved)]
    kept = source.random(len(rows)) < np.where(rows["age"] < 40, 0.5, 0.9)
    return people, rows[kept].reset_index(drop=True)


def patterns() -> pd.DataFrame:
    """Agreement of simulated pairs, some of which match."""
    source = np.random.default_rng(2)
    match = source.random(PAIRS) < MATCHES
    drawn = source.random((PAIRS, len(M))) < np.where(match[:, None], M, U)
    return pd.DataFrame(drawn.astype(int), columns=[f"c{i}" for i in range(len(M))])


def ours(folder: Path) -> None:
    people, rows = made(folder)
    pairs = patterns()
    people.to_csv(folder / "people.csv", index=False)
    rows.to_csv(folder / "rows.csv", index=False)
    pairs.to_csv(folder / "pairs.csv", index=False)
    found = {**of_pairs(pairs), **of_tables(people, rows)}
    cycle_of_ipf(folder / "ipf.npz")
    (folder / "ours.json").write_text(json.dumps({**found, "ipf.elsewhere": 0.0}))


def cycle_of_ipf(path: Path) -> None:
    """Write the margins of a mixture, in the order in which they are raked, and the table after a cycle from ones."""
    from engine.fit.joint.ipf import aligned, axes_together, blocks_of, rake_table, raking_order
    from engine.fit.joint.margins import Target

    rng = np.random.default_rng(2021)
    parts = [[rng.dirichlet(np.ones(n)) for n in SIZES.values()] for _ in range(6)]
    share = rng.dirichlet(np.ones(6)) * 1e6
    targets = [
        Target(columns=(a, b), n=sum(w * np.outer(p[i], p[j]) for w, p in zip(share, parts, strict=True)))
        for (i, a), (j, b) in combinations(enumerate(SIZES), 2)
    ]  # fmt: skip
    names = [t.columns for t in targets]
    axes = axes_together(blocks_of(tuple(SIZES), names, SIZES), SIZES)
    block, wanted = blocks_of(axes, names, SIZES), aligned(targets, axes)
    table = np.ones(tuple(SIZES[name] for name in axes))
    rake_table(table, block, wanted)
    held = {}
    for m in raking_order(block):
        kept = [str(k) for k, name in enumerate(axes) if name in names[m]]
        held["_".join(kept)] = wanted[m]
    np.savez(path, table=table, **held)


def of_pairs(pairs: pd.DataFrame) -> dict[str, float]:
    from engine.evaluation.attacks.linkage import estimate

    levels, n = np.unique(pairs.to_numpy(), axis=0, return_counts=True)
    found = estimate(levels, n.astype(float), np.full(levels.shape[1], 2))
    named = {f"linkage.pairs.m.{c}": found.m[i, 1] for i, c in enumerate(pairs)}
    named |= {f"linkage.pairs.u.{c}": found.u[i, 1] for i, c in enumerate(pairs)}
    return {**named, "linkage.pairs.share": found.share}


def of_tables(people: pd.DataFrame, rows: pd.DataFrame) -> dict[str, float]:
    from engine.evaluation.attacks.protocol import Attacker, Held
    from engine.evaluation.attacks.records import attribution
    from engine.evaluation.data.aligned import align, distinct
    from engine.evaluation.measures.association import Correlations, correlations
    from engine.evaluation.measures.combinations import Marginals, k_marginals
    from engine.evaluation.measures.counts import Distributions, distributions
    from engine.evaluation.measures.propensity import Models, propensity_models
    from engine.evaluation.study import Study
    from engine.schema import column_set

    rng = np.random.default_rng(3)
    tables = {column_set(list(rows)): distinct(rows)}
    aligned = align(people, tables, Study(title=""))
    told = Attacker(quasi_identifiers=tuple(KEYS), targets=(SECRET,))
    found = of_linkage(aligned)
    cap = attribution(Held(aligned=aligned), told, rng).values
    found |= {"attribution.cap": cap["cap"], "attribution.dcap": cap["dcap"]}
    of_pairs_of_columns = correlations(aligned, Correlations(columns=tuple(NUMBERS))).breakdown
    for one in of_pairs_of_columns.to_dict("records"):
        for kind in ("pearson", "spearman"):
            name = f"correlations.{kind}.{one['first']}.{one['second']}"
            found[name] = 1 - abs(one[f"{kind}_difference"]) / 2
    each = distributions(aligned, Distributions(columns=tuple(NUMBERS))).breakdown
    found |= {
        f"distributions.{c}": 1 - u for c, u in zip(each.iloc[:, 0], each["u_m"], strict=True)
    }
    for column in COLUMNS[2:]:
        alone = Marginals(leave_out=tuple(c for c in people if c != column), width=1, shares=())
        found[f"marginals.{column}"] = k_marginals(aligned, alone, rng).values["score"] / 1000
    models = Models(columns=tuple(MODEL), most_levels=20)
    found["models.pmse"] = propensity_models(aligned, models, rng).values["logistic_pmse"]
    return {k: float(v) for k, v in found.items()}


def of_linkage(aligned: Any) -> dict[str, float]:
    """What EM finds in the pairs of a block, u being that of all pairs and the share of matches unbounded."""
    from engine.evaluation.attacks.linkage import Sides, by_chance, counted, estimate, levels_of

    (table,) = aligned.tables.values()
    near = dict.fromkeys(COMPARED, 0)
    nobody = np.full(len(aligned.original.n), -1)
    sides = Sides(
        people=aligned.original,
        table=table,
        rows=nobody,
        compared=tuple(COMPARED),
        secrets=(),
        near=near,
    )
    n_values = {c: len(aligned.values[c]) for c in COMPARED}
    pairs = counted(sides, [BLOCK], n_values=n_values)
    chance, levels = (
        by_chance(sides, n_values)[1:],
        levels_of(pairs["pattern"], len(COMPARED))[:, 1:],
    )
    found = estimate(levels, pairs["n"].to_numpy(), np.full(len(chance), 3), u=chance)
    free = COMPARED[1:]
    named = {f"linkage.census.m.{c}": m for c, m in zip(free, found.m[:, 2], strict=True)}
    return named | {f"linkage.census.u.{c}": u for c, u in zip(free, chance[:, 2], strict=True)}


if __name__ == "__main__":
    ours(Path(sys.argv[1]))
