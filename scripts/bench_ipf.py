"""Seconds that one cycle of iterative proportional fitting takes: ours, plain numpy, and `ipfn`, on the same input.

The table has 6.3 million cells in 8 columns; the margins are its 28 pairs. First one cycle is checked against the
textbook's on this very table, then time counts. `ipfn` needs packages of other versions than ours, so it runs in a
process of its own, by the interpreter that --peer names, on the same arrays; its cycle ends with a check of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from measured import add_option, command_line, markdown, record

SIZES = {"a": 10, "b": 10, "c": 10, "d": 10, "e": 9, "f": 7, "g": 5, "h": 2}
QUICK = {"a": 5, "b": 5, "c": 4, "d": 4, "e": 3, "f": 3, "g": 2, "h": 2}
MOST_SECONDS = 0.4
"""A cycle, on one core."""
NEAR = {"float64": 1e-12, "float32": 1e-5}
"""What a cycle may be off the textbook's, as a share of all rows."""


def margins_of(sizes: dict[str, int], rows: float = 1e6) -> dict[tuple[str, str], np.ndarray]:
    """The pairs' tables of a distribution in which all columns depend on each other: a mixture of six."""
    rng = np.random.default_rng(2021)
    parts = [[rng.dirichlet(np.ones(n)) for n in sizes.values()] for _ in range(6)]
    share = rng.dirichlet(np.ones(6)) * rows
    return {
        (a, b): sum(w * np.outer(part[i], part[j]) for w, part in zip(share, parts, strict=True))
        for (i, a), (j, b) in combinations(enumerate(sizes), 2)
    }


def textbook_cycle(
    table: np.ndarray, axes: list[tuple[int, ...]], wanted: list[np.ndarray]
) -> None:
    """One margin after the other: sum the table, multiply it."""
    for kept, target in zip(axes, wanted, strict=True):
        dropped = tuple(axis for axis in range(table.ndim) if axis not in kept)
        table *= np.expand_dims(target / table.sum(axis=dropped), dropped)


def ours(sizes: dict[str, int], margins: dict[Any, np.ndarray], repeat: int) -> dict[str, float]:
    """Check one cycle, then time cycles, the textbook's on the same table, and a whole fit."""
    from engine.fit.joint.ipf import (
        aligned,
        axes_together,
        blocks_of,
        fit_dense,
        rake_table,
        raking_order,
    )
    from engine.fit.joint.margins import Target

    targets = [Target(columns=columns, n=n) for columns, n in margins.items()]
    names = [t.columns for t in targets]
    axes = axes_together(blocks_of(tuple(sizes), names, sizes), sizes)
    block = blocks_of(axes, names, sizes)
    wanted = aligned(targets, axes)
    shape = tuple(sizes[name] for name in axes)
    order = raking_order(block)
    kept = [tuple(k for k, name in enumerate(axes) if name in names[m]) for m in order]
    plain = np.ones(shape)
    textbook_cycle(plain, kept, [wanted[m] for m in order])
    results = {"cells": float(plain.size)}
    for kind, near in NEAR.items():
        table = np.ones(shape, dtype=kind)
        rake_table(table, block, wanted)
        off = float(np.abs(table - plain).sum() / plain.sum())
        if off > near:
            raise SystemExit(f"a cycle in {kind} is off the textbook's by {off:.1e} of all rows")
        seconds = []
        for _ in range(repeat):
            start = time.perf_counter()
            rake_table(table, block, wanted)
            seconds.append(time.perf_counter() - start)
        results |= {f"ours, {kind}": float(np.median(seconds)), f"off, {kind}": off}
    start = time.perf_counter()
    textbook_cycle(plain, kept, [wanted[m] for m in order])
    results["plain numpy"] = time.perf_counter() - start
    start = time.perf_counter()
    _, report = fit_dense(targets, tuple(sizes), sizes)
    results |= {
        "whole fit": time.perf_counter() - start,
        "cycles": report.cycles,
        "error": report.error,
    }
    return results


def of_peer(python: str, sizes: dict[str, int], margins: dict[Any, np.ndarray]) -> dict[str, float]:
    """Time `ipfn` in the other environment."""
    with tempfile.TemporaryDirectory() as folder:
        arrays = Path(folder) / "input.npz"
        np.savez(arrays, shape=list(sizes.values()), **{"".join(m): n for m, n in margins.items()})
        done = subprocess.run(
            [python, __file__, "--as-peer", str(arrays)],
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise SystemExit(f"ipfn did not run with {python}: {done.stderr.strip()[-300:]}")
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])  # ipfn prints too
    return answer


def peer(arrays: Path) -> dict[str, float]:
    """One cycle of `ipfn` on the same margins, and how far it is off the textbook's."""
    from ipfn.ipfn import ipfn

    with np.load(arrays) as held:
        shape = tuple(int(n) for n in held["shape"])
        axes = [
            tuple("abcdefgh".index(name) for name in pair) for pair in held.files if pair != "shape"
        ]
        wanted = [held[pair] for pair in held.files if pair != "shape"]
    start = time.perf_counter()
    fitted = ipfn(
        np.ones(shape), [n.copy() for n in wanted], [list(kept) for kept in axes], max_iteration=0
    ).iteration()  # it counts from 0
    seconds = time.perf_counter() - start
    plain = np.ones(shape)
    textbook_cycle(plain, axes, wanted)
    return {"ipfn": seconds, "off, ipfn": float(np.abs(fitted - plain).sum() / plain.sum())}


def figures(results: dict[str, float], n_margins: int) -> str:
    """The figures in Markdown."""
    best = results["ours, float32"]
    names = ("ours, float32", "ours, float64", "plain numpy", "ipfn")
    rows = [[n, f"{results[n]:.4f}", f"{results[n] / best:.1f}"] for n in names if n in results]
    head = f"{results['cells']:,.0f} cells, {n_margins} margins, one core."
    return f"{head}\n\n{markdown(['', 'seconds a cycle', 'times ours'], rows)}"


def main() -> None:
    """Run what is asked for and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", help="an interpreter that has ipfn")
    parser.add_argument("--quick", action="store_true", help="a table of 14,400 cells")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    parser.add_argument("--as-peer", type=Path, help=argparse.SUPPRESS)
    add_option(parser)
    asked = parser.parse_args()
    if asked.as_peer:
        print(json.dumps(peer(asked.as_peer)))
        return
    sizes = QUICK if asked.quick else SIZES
    margins = margins_of(sizes)
    results = ours(sizes, margins, asked.repeat)
    if asked.peer:
        results |= of_peer(asked.peer, sizes, margins)
        if results["off, ipfn"] > NEAR["float64"]:
            raise SystemExit(f"ipfn's cycle is off the textbook's by {results['off, ipfn']:.1e}")
    best = results["ours, float32"]
    print(f"{results['cells']:,.0f} cells, {len(margins)} margins; seconds a cycle")
    for name in ("ours, float32", "ours, float64", "plain numpy", "ipfn"):
        if name in results:
            print(f"  {name:14} {results[name]:9.4f}   {results[name] / best:8.1f} x")
    print(f"  whole fit      {results['whole fit']:9.4f}   {results['cycles']:.0f} cycles")
    print(f"target: {MOST_SECONDS} s a cycle: {'met' if best <= MOST_SECONDS else 'MISSED'}")
    if asked.out:
        asked.out.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    if asked.record:
        record(
            "bench-ipf",
            command_line("./scripts/bench ipf"),
            figures(results, len(margins)),
        )


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    main()
