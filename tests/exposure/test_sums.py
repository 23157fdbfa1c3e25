"""What measured sums reveal, by hand and against a least-squares attack on what is measured."""

from __future__ import annotations

import numpy as np
import pytest
from fixtures.exposure import seen
from fixtures.measure import sticky, tokens_of

from engine.exposure import Estimator
from engine.measure import measure_arrays
from engine.mechanism import measure_wider
from engine.relations import NO_RELATIONS
from engine.schema import Column

N, GROUPS, K = 480, 40, 3
LOW, HIGH = 0, 63


def people(seed=3):
    """In each of K columns 40 groups of 11; a secret moves x from one end to the other, a few lie between."""
    rng = np.random.default_rng(seed)
    codes = {f"g{k}": rng.permutation(np.arange(N) % GROUPS) for k in range(K)}
    x = np.where(rng.integers(0, 2, N) > 0, HIGH, LOW)
    x[:40] = 16 + np.arange(40) % 16  # so few of each that the column shows a range
    return codes | {"x": x}, [(f"g{k}", "x") for k in range(K)]


def test_a_sum_tells_as_much_as_one_count_of_the_column_and_less_of_others():
    rng = np.random.default_rng(1)
    codes = {"b": rng.integers(0, 2, N), "g0": np.arange(N) % 4, "x": people()[0]["x"]}
    found = seen(codes, [("b", "g0", "x")])
    table = ("b", "g0", "x")
    counts = found.cells(table, "x")
    (sums,) = found.sums(table, "x")
    (of_group,) = found.sums(table, "b")
    # Both sides of a cell: twice two layers. One count, or a sum as large as a row: half as precise.
    assert {*counts.noise[np.unique(counts.cell[counts.person >= 40])]} >= {4.0}
    assert {*sums.noise[np.unique(sums.cell)]} == {8.0}
    # Two groups' sums, each shifted by half of what a row could.
    assert {*of_group.noise[np.unique(of_group.cell)]} == {16.0}
    assert not [*found.sums(("g0",), "g0")]


def attacked(keys: int, with_sums: bool) -> float:
    """How often least squares guess the secrets right from all counts and sums, knowing all other columns."""
    codes, tables = people()
    columns = tuple(Column(name=c, kind="integer", value_type="integer") for c in sorted(codes))
    secret = np.where(codes["x"] == HIGH, 1.0, -1.0)
    who = np.arange(40, N)
    right = []
    for number in range(keys):
        measured = measure_arrays(dict(codes), {}, tokens_of(N, number), columns, sticky(number))
        rows, seen_as, noise = [], [], []
        for tree in measure_wider(measured, NO_RELATIONS.needed(tables), sticky(number)):
            if len(tree.columns) < 2:
                continue
            g = codes[tree.columns[0]]
            single = (tree.level == 0).all(axis=1) & np.isin(tree.index[:, 1], (LOW, HIGH))
            for node in np.flatnonzero(single):
                inside = (g == tree.index[node, 0]) & (np.arange(N) >= 40)
                sign = 1.0 if tree.index[node, 1] == HIGH else -1.0
                rows.append(inside * sign / 2)
                seen_as.append(tree.n[node] - inside.sum() / 2)
                noise.append(2.0)
            for sums in tree.sums if with_sums else ():
                for at, node in enumerate(sums.node):
                    if sums.high[at] < HIGH or sums.low[at] > LOW:
                        continue
                    inside = (g == tree.index[node, 0]) & (np.arange(N) >= 40)
                    others = (g == tree.index[node, 0]) & (np.arange(N) < 40)
                    known = (codes["x"][others] - sums.middle[at]).sum()
                    half = (HIGH - LOW) / 2
                    offset = inside.sum() * ((HIGH + LOW) / 2 - sums.middle[at])
                    rows.append(inside * half / sums.scale[at])
                    seen_as.append((sums.n[at] - known - offset) / sums.scale[at])
                    noise.append(2.0)
        a = np.array(rows)[:, who] / np.sqrt(np.array(noise))[:, None]
        y = np.array(seen_as) / np.sqrt(np.array(noise))
        guess = np.linalg.solve(a.T @ a + np.eye(len(who)), a.T @ y)
        right.append(np.mean(np.sign(guess) == secret[who]))
    return float(np.mean(right))


@pytest.mark.ci
def test_what_is_stated_is_what_an_attack_with_sums_finds():
    codes, tables = people()
    found = seen(codes, tables)
    estimator, times = Estimator(found, found.columns), dict.fromkeys(found.tables, 1)
    stated = estimator.exposure("x", times, most_right=0.5).of_all
    counts, both = attacked(12, False), attacked(12, True)
    assert counts - 0.01 < both < stated + 0.01
    assert stated - both < 0.03
