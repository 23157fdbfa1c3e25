"""MST and AIM on coded rows, by the package mbi (private-pgm 2.0): the others' side of `./scripts/dp peers`.

Called with a file of codes, one for the rows that are made, the method, rho (zCDP) and a seed; nothing of ours is
installed here. The mechanisms are McKenna, Miklau and Sheldon's: MST (arXiv 2108.04978) and AIM (arXiv 2201.12677, with
its defaults: models of at most 80 MB, unless AIM_MODEL_MB says less; 16 rounds a column). Of them the package has the
estimation only, and AIM's is done in numpy here.
"""

from __future__ import annotations

import itertools
import os
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
    CliqueVector,
    Dataset,
    Domain,
    Factor,
    LinearMeasurement,
    MarkovRandomField,
    WeightedQuery,
    estimation,
)
from mbi.junction_tree import greedy_order, make_junction_tree  # noqa: E402

MODEL_MB = float(os.environ.get("AIM_MODEL_MB", "80"))
MOST_CELLS = 10_000  # of a pair in AIM's workload
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


def aim(data: Any, rho: float, rng: np.random.Generator) -> Any:
    domain, names = data.domain, data.domain.attributes
    workload = [c for c in itertools.combinations(names, 2) if domain.size(c) <= MOST_CELLS]
    candidates: list[Clique] = [*((name,) for name in names), *workload]
    weight = {c: sum(len({*c} & {*w}) for w in workload) for c in candidates}
    true = {c: np.asarray(data.project(c).datavector()) for c in candidates}
    rounds = 16 * len(names)
    sigma, epsilon = np.sqrt(rounds / (2 * 0.9 * rho)), np.sqrt(8 * 0.1 * rho / rounds)
    used = len(names) * 0.5 / sigma**2
    noisy = [measured(data, (name,), sigma, rng) for name in names]
    model, is_last, number = Model(domain, noisy), False, 0
    while not is_last:
        number += 1
        if rho - used < 2 * (0.5 / sigma**2 + epsilon**2 / 8):
            sigma, epsilon = np.sqrt(1 / (2 * 0.9 * (rho - used))), np.sqrt(8 * 0.1 * (rho - used))
            is_last = True
        used += epsilon**2 / 8 + 0.5 / sigma**2
        free = {s for node in model.nodes for r in (1, 2) for s in itertools.combinations(node, r)}
        small = [
            c
            for c in candidates
            if c in free or size_of(domain, [*model.wanted, c]) <= MODEL_MB * used / rho
        ]
        guess = answers(model, small)
        noise = np.sqrt(2 / np.pi) * sigma
        scores = [
            weight[c] * (np.abs(true[c] - guess[c]).sum() - noise * true[c].size) for c in small
        ]
        taken = small[chosen(scores, epsilon, max(weight[c] for c in small), rng)]
        noisy.append(measured(data, taken, sigma, rng))
        model = Model(domain, noisy, model)
        moved = answers(model, [taken])[taken] - guess[taken]
        print(number, taken, f"{used / rho:.3f} of rho, sigma {sigma:.1f}", flush=True)
        if np.abs(moved).sum() <= noise * true[taken].size:
            sigma, epsilon = sigma / 2, epsilon * 2
    return model.rows()


def size_of(domain: Any, cliques: list[Clique]) -> float:
    """Megabytes of a model (`hypothetical_model_size`, which takes all pairs of cliques to connect them)."""
    order = greedy_order(domain, cliques)[0]
    near = {name: {other for c in cliques if name in c for other in c} - {name} for name in order}
    cells = 0
    made: list[set[str]] = []
    for name in order:
        clique = {name, *near[name]}
        for other in near[name]:
            near[other] |= near[name] - {other}
            near[other].discard(name)
        if not any(clique <= one for one in made):
            made.append(clique)
            cells += domain.size(tuple(clique))
    return float(cells * 8 / 2**20)


class Model:
    """The package's mirror descent (Algorithm 1 of arXiv 1901.09136, its steps and its rule to stop), in numpy.

    The package compiles a program for every set of cliques, which takes 20 s to a minute a round. Column sets are in
    the domain's order.
    """

    def __init__(self, domain: Any, noisy: list[Any], start: Model | None = None) -> None:
        self.domain = domain
        self.total = estimation.minimum_variance_unbiased_total(noisy)
        self.wanted: dict[Clique, tuple[Any, float]] = {}  # mean and precision
        rest = 0.0
        for one in noisy:
            shape = [domain[name] for name in one.clique]
            n, precision = np.asarray(one.noisy_measurement).reshape(shape), 1 / one.stddev**2
            if one.clique in self.wanted:
                mean, before = self.wanted[one.clique]
                rest += 0.5 * float(((n - mean) ** 2).sum()) / (1 / precision + 1 / before)
                n, precision = (
                    (n * precision + mean * before) / (precision + before),
                    precision + before,
                )
            self.wanted[one.clique] = n, precision
        self.tree, _ = make_junction_tree(domain, [*self.wanted])
        self.nodes: list[Clique] = [tuple(node) for node in self.tree.nodes]
        self.parent: dict[Clique, Clique | None] = {}
        for part in nx.connected_components(self.tree):
            root = min(part)
            self.parent[root] = None
            self.parent |= {tuple(b): tuple(a) for a, b in nx.bfs_edges(self.tree, root)}
        self.home = {
            c: min((n for n in self.nodes if {*c} <= {*n}), key=domain.size) for c in self.wanted
        }
        before_ = start.potentials if start else {}
        self.potentials = {
            c: before_.get(c, np.zeros(n.shape)) for c, (n, _) in self.wanted.items()
        }
        self._descend(rest)

    def _descend(self, rest: float) -> None:
        largest = [c for c in self.wanted if not any({*c} < {*o} for o in self.wanted)]
        steep = dict.fromkeys(largest, 0.0)
        for c, (n, precision) in self.wanted.items():
            holder = next(o for o in largest if {*c} <= {*o})
            steep[holder] += precision * self.domain.size(holder) / n.size
        alpha, now = 2.0 / (max(steep.values()) * self.total), self._marginals(self.potentials)
        before, stalls = np.inf, 0
        for step in range(1, 1001):
            slope = {c: precision * (now[c] - n) for c, (n, precision) in self.wanted.items()}
            loss = self._loss(now)
            moved = {c: self.potentials[c] - alpha * slope[c] for c in slope}
            then = self._marginals(moved)
            after = self._loss(then)
            gain = sum(float((slope[c] * (now[c] - then[c])).sum()) for c in slope)
            if loss - after >= 0.5 * alpha * gain:
                self.potentials, now, loss = moved, then, after
                alpha *= 1.01
            else:
                alpha *= 0.5
            if step % 50 == 0:
                stalls = stalls + 1 if before - loss <= 1e-5 * max(abs(loss + rest), 1.0) else 0
                before = loss
                if stalls >= 2:
                    break
        self._marginals(self.potentials)

    def _loss(self, now: dict[Clique, Any]) -> float:
        return sum(0.5 * p * float(((now[c] - n) ** 2).sum()) for c, (n, p) in self.wanted.items())

    def _wide(self, values: Any, names: Clique, node: Clique) -> Any:
        return values.reshape([self.domain[name] if name in names else 1 for name in node])

    def _marginals(self, potentials: dict[Clique, Any]) -> dict[Clique, Any]:
        """Counts of what was measured; `table` has those of the nodes."""
        log = {node: np.zeros([self.domain[name] for name in node]) for node in self.nodes}
        for c, values in potentials.items():
            log[self.home[c]] += self._wide(values, c, self.home[c])
        given = {}
        for node in reversed([*self.parent]):
            above = self.parent[node]
            out = tuple(k for k, name in enumerate(node) if above is None or name not in above)
            most = log[node].max(axis=out, keepdims=True)
            share = np.exp(log[node] - most)
            whole = share.sum(axis=out, keepdims=True)
            share /= whole
            given[node] = share
            if above is not None:
                shared = tuple(name for name in node if name in above)
                log[above] += self._wide(np.log(whole) + most, shared, above)
        self.table: dict[Clique, Any] = {}
        for node, above in self.parent.items():
            if above is None:
                self.table[node] = given[node] * self.total
            else:
                shared = tuple(name for name in node if name in above)
                held = self._wide(summed(above, self.table[above], shared), shared, node)
                self.table[node] = given[node] * held
        return {c: summed(home, self.table[home], c) for c, home in self.home.items()}

    def rows(self) -> Any:
        held = {c: Factor(self.domain.project(c), values) for c, values in self.potentials.items()}
        potentials = CliqueVector(self.domain, [*held], held)
        made = MarkovRandomField(potentials=potentials, marginals=potentials, total=self.total)
        return made.synthetic_data()


def answers(model: Model, cliques: list[Clique]) -> dict[Clique, Any]:
    """Counts of columns and pairs, along the path between two nodes of the junction tree.

    The package compiles a program for every pair, which takes minutes a round.
    """
    tree, nodes = model.tree, model.nodes
    table = {node: (node, model.table[node]) for node in nodes}
    wanted = {tuple(sorted(c)) for c in cliques} | {(name,) for c in cliques for name in c}
    found: dict[Clique, Any] = {}
    for node in nodes:
        for width in (1, 2):
            for c in itertools.combinations(sorted(node), width):
                if c in wanted and c not in found:
                    found[c] = summed(*table[node], c)
    left = [c for c in wanted if c not in found]
    for first in {c[0] for c in left}:
        others = {c[1] for c in left if c[0] == first}
        home = min((n for n in nodes if first in n), key=lambda n: table[n][1].size)
        waiting: list[tuple[Clique, Clique | None, Any]] = [(home, None, None)]
        while waiting:
            node, parent, message = waiting.pop()
            names, values = table[node]
            for name in others & {*names} if message is not None else ():
                if (first, name) not in found:
                    found[first, name] = onward(message, names, values, (name,))
            for raw in tree.neighbors(node):
                other = tuple(raw)
                shared = tuple(name for name in names if name in other)
                if other == parent or not shared:
                    continue
                if first in shared:
                    waiting.append((other, node, None))
                elif message is None:
                    told = summed(names, values, (first, *shared))
                    waiting.append((other, node, (shared, told)))
                else:
                    told = onward(message, names, values, shared)
                    waiting.append((other, node, (shared, told)))
    out = {}
    for c in cliques:
        key = tuple(sorted(c))
        if key not in found:  # in parts that nothing connects
            found[key] = np.multiply.outer(found[key[:1]], found[key[1:]]) / float(model.total)
        out[c] = (found[key] if key == c else found[key].T).ravel()
    return out


def summed(names: Clique, values: Any, kept: Clique) -> Any:
    """Sums of a table, its axes in the order of the columns that are kept."""
    return np.einsum(values, [*range(len(names))], [names.index(name) for name in kept])


def onward(message: tuple[Clique, Any], names: Clique, values: Any, kept: Clique) -> Any:
    """Counts of a first column with some of a table's, given those with the columns that the table shares."""
    shared, told = message
    whole = summed(names, values, shared)[None]
    share = np.divide(told, whole, out=np.zeros_like(told), where=whole > 0)
    at = {name: place + 1 for place, name in enumerate(names)}
    return np.einsum(
        *(share, [0, *(at[name] for name in shared)], values, [at[name] for name in names]),
        [0, *(at[name] for name in kept)],
        optimize=True,
    )


def main() -> None:
    source, out, method, rho, seed = sys.argv[1:6]
    with np.load(source) as held:
        names, sizes, codes = held["names"].tolist(), held["sizes"].tolist(), held["codes"]
    np.random.seed(int(seed))  # noqa: NPY002 (the package rounds with it)
    rows = Dataset({name: codes[:, j] for j, name in enumerate(names)}, Domain(names, sizes))
    start = time.perf_counter()
    made = {"mst": mst, "aim": aim}[method](rows, float(rho), np.random.default_rng(int(seed)))
    seconds = time.perf_counter() - start
    np.savez(out, codes=np.column_stack([made.data[name] for name in names]), seconds=seconds)


if __name__ == "__main__":
    main()
