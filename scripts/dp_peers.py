"""MST on coded rows, by the package mbi (private-pgm 2.0): the others' side of `./scripts/dp peers`.

Called with a file of codes, one for the rows that are made, rho (zCDP) and a seed; nothing of ours is installed
here. The mechanism is McKenna, Miklau and Sheldon's (arXiv 2108.04978), of which the package has the estimation only.
"""

from __future__ import annotations

import itertools
import sys
import time
import warnings
from typing import Any

import numpy as np

warnings.simplefilter("ignore")
import jax  # noqa: E402

jax.config.update("jax_enable_x64", True)
import networkx as nx  # noqa: E402
from mbi import (  # noqa: E402
    Dataset,
    Domain,
    LinearMeasurement,
    WeightedQuery,
    estimation,
)

Clique = tuple[str, ...]


def chosen(scores: Any, epsilon: float, sensitivity: float, rng: np.random.Generator) -> int:
    """The exponential mechanism."""
    exponent = 0.5 * epsilon / sensitivity * np.asarray(scores)
    odds = np.exp(exponent - exponent.max())
    return int(rng.choice(len(odds), p=odds / odds.sum()))


def measured(data: Any, clique: Clique, sigma: float, rng: np.random.Generator) -> Any:
    n = np.asarray(data.project(clique).datavector())
    return LinearMeasurement(n + rng.normal(0, sigma, n.size), clique, sigma)


def fitted(domain: Any, measurements: list[Any], iters: int, start: Any = None) -> Any:
    way = estimation.MirrorDescent()
    return way.estimate(domain, measurements, iters=iters, warm_start=start, tol=1e-5)


def mst(data: Any, rho: float, rng: np.random.Generator) -> Any:
    names, sigma = data.domain.attributes, np.sqrt(3 / (2 * rho))
    sd = sigma * np.sqrt(len(names))
    singles = [measured(data, (name,), sd, rng) for name in names]
    # Levels within 3 sd of nothing become one.
    mapping, kept = {}, []
    for single in singles:
        n = np.asarray(single.noisy_measurement)
        seen = n >= 3 * sd
        at = np.arange(n.size) if seen.all() else np.where(seen, np.cumsum(seen) - 1, seen.sum())
        mapping[single.clique[0]] = at
        length = np.sqrt(np.bincount(at))
        held = LinearMeasurement(
            np.bincount(at, n) / length, single.clique, sd, WeightedQuery(1 / length)
        )
        # The package estimates the number of rows from those without weights.
        kept.append(single if seen.all() else held)
    data = data.compress(mapping)
    model = fitted(data.domain, kept, 1000)
    single_of = {name: np.asarray(model.project((name,)).datavector()) for name in names}
    off = {
        (a, b): float(
            np.abs(
                np.asarray(data.project((a, b)).datavector())
                - np.outer(single_of[a], single_of[b]).ravel() / float(model.total)
            ).sum()
        )
        for a, b in itertools.combinations(names, 2)
    }
    graph, epsilon = nx.Graph(), np.sqrt(8 * (rho / 3) / (len(names) - 1))
    graph.add_nodes_from(names)
    for _ in range(len(names) - 1):
        part = {n: i for i, all_ in enumerate(nx.connected_components(graph)) for n in all_}
        left = [pair for pair in off if part[pair[0]] != part[pair[1]]]
        graph.add_edge(*left[chosen([off[pair] for pair in left], epsilon, 1.0, rng)])
    edges = [tuple(edge) for edge in graph.edges]
    pairs = [measured(data, edge, sigma * np.sqrt(len(edges)), rng) for edge in edges]
    return fitted(data.domain, kept + pairs, 5000).synthetic_data().decompress(mapping)


def main() -> None:
    source, out, rho, seed = sys.argv[1:5]
    with np.load(source) as held:
        names, sizes, codes = held["names"].tolist(), held["sizes"].tolist(), held["codes"]
    np.random.seed(int(seed))  # noqa: NPY002 (the package rounds with it)
    rows = Dataset({name: codes[:, j] for j, name in enumerate(names)}, Domain(names, sizes))
    start = time.perf_counter()
    made = mst(rows, float(rho), np.random.default_rng(int(seed)))
    seconds = time.perf_counter() - start
    np.savez(out, codes=np.column_stack([made.data[name] for name in names]), seconds=seconds)


if __name__ == "__main__":
    main()
