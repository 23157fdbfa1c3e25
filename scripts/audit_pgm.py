"""Private-PGM of given margins, as a process that answers line by line; runs in an environment that has `mbi` alone.

McKenna, Sheldon and Miklau 2019 (arXiv:1901.09136), estimation of the package mbi. Usage: python audit_pgm.py
Each line it reads names a file of numpy arrays: `codes` (n_cells, n_columns), `n` (n_cells,), `sizes`, `margins` (one
row a margin, -1 after its last column), `seed`, `epsilon`, `delta`, `iterations`. Noisy margins are fitted and as many
rows drawn: `rows` goes to the file with `.out.npz` behind its name, then "done" is said. Noise is of floats.
"""

from __future__ import annotations

import sys

import numpy as np


def budget(epsilon: float, delta: float) -> float:
    """The zero-concentrated budget that gives (epsilon, delta) (Bun and Steinke 2016, proposition 1.3)."""
    rest = np.log(1 / delta)
    return float(((rest + epsilon) ** 0.5 - rest**0.5) ** 2)


def synthesised(told) -> np.ndarray:
    """Return rows of a model of noisy margins."""
    import jax

    jax.config.update("jax_enable_x64", True)
    from mbi import Domain, LinearMeasurement
    from mbi.estimation import MirrorDescent

    rng = np.random.default_rng(int(told["seed"]))
    np.random.seed(int(told["seed"]) % 2**32)  # noqa: NPY002 (mbi draws from it)
    codes, n, sizes = told["codes"], told["n"], told["sizes"]
    margins = [tuple(int(axis) for axis in row if axis >= 0) for row in told["margins"]]
    sd = (len(margins) / (2 * budget(float(told["epsilon"]), float(told["delta"])))) ** 0.5
    found = []
    for axes in margins:
        shape = tuple(int(sizes[axis]) for axis in axes)
        place = np.ravel_multi_index(tuple(codes[:, axis] for axis in axes), shape)
        true = np.bincount(place, n, int(np.prod(shape)))
        noisy = true + rng.normal(0, sd, len(true))
        found.append(LinearMeasurement(noisy, tuple(map(str, axes)), stddev=sd))
    domain = Domain([str(axis) for axis in range(len(sizes))], [int(size) for size in sizes])
    model = MirrorDescent().estimate(domain, found, iters=int(told["iterations"]))
    made = model.synthetic_data(rows=int(n.sum())).to_dict()
    return np.column_stack([np.asarray(made[str(axis)], np.int64) for axis in range(len(sizes))])


def main() -> None:
    """Answer until there is no more to read."""
    for line in sys.stdin:
        path = line.strip()
        with np.load(path) as told:
            rows = synthesised(told)
        np.savez(f"{path}.out.npz", rows=rows)
        print("done", flush=True)


if __name__ == "__main__":
    main()
