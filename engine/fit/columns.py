"""Fits all columns of a release: their released values, consistent with universes and with what they imply.

Takes the one-way measurements; gives supports, one-way tables, and which value implies which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from engine.errors import InternalError
from engine.fit.budget import BUDGET
from engine.fit.cells import coarse_of
from engine.fit.locking import lock_table, one_way_table, sub_tables
from engine.fit.order import FitOrder
from engine.fit.supports import (
    Marks,
    benchmarked,
    copied,
    fit_support,
    implied_codes,
    marks_of,
    steps_of,
    with_rows_outside,
)
from engine.params import NOISE_LAYERS
from engine.relations import Relations
from engine.schema import ColumnSet, Int64Array, Measurement, Support, SyntheticTable


@dataclass(frozen=True, kw_only=True, slots=True)
class FittedColumns:
    """All columns of a release, fitted."""

    supports: dict[str, Support]
    marks: dict[str, Marks]  # Of each column's codes in the declared universes
    # One-way tables of the columns that nothing else stands for.
    tables: dict[ColumnSet, SyntheticTable]
    # By finer and coarser column: which code each code implies.
    implied: dict[tuple[str, str], Int64Array]


def fit_columns(
    order: FitOrder, trees: Mapping[str, Measurement], total: int, total_scale: int
) -> FittedColumns:
    """Fit every column, in an order in which each finds what it depends on."""
    relations = order.relations
    columns = {column.name: column for column in order.header.columns}
    deciders = {name: universe.declared.column for name, universe in order.universes.items()}
    unit = order.layer_sd * NOISE_LAYERS**0.5
    supports: dict[str, Support] = {}
    implied: dict[tuple[str, str], Int64Array] = {}
    for name, is_benchmarking in steps_of(deciders, relations, tuple(trees)):
        tree = trees[name]
        variance = (unit * float(tree.scale[-1])) ** 2
        if is_benchmarking:
            supports[name] = _benchmarked(relations, supports, name, variance)
            continue
        support = fit_support(
            tree,
            columns[name],
            noise=order.noise(total),
            total=total,
            total_sd=total_scale * unit,
            code_limits=_limits(order, tree),
            key=order.sampling_key_of((name,)),
            together=max(order.threshold_mean - 1, 1),
        )
        if name in relations.copies:
            copy = relations.copies[name]
            support, implied[copy.finer, name] = copied(copy, supports[copy.finer], support)
        elif name in order.universes and deciders[name] not in trees:
            raise InternalError("a universe is decided by a column that was not measured")
        elif name in order.universes and deciders[name] in supports:
            support = with_rows_outside(
                support, order.universes[name], supports[deciders[name]], variance
            )
        supports[name] = support
    for one in relations.relations:
        if not one.is_copy:
            implied[one.finer, one.coarser] = implied_codes(
                one, supports[one.finer], supports[one.coarser]
            )
    return FittedColumns(
        supports=supports,
        marks={name: marks_of(support, order.universes) for name, support in supports.items()},
        tables={
            (name,): replace(
                one_way_table(supports[name], tree, order.layer_sd),
                gap=_gap(relations, supports, implied, name),
            )
            for name, tree in trees.items()
            if name not in relations.copies
        },
        implied=implied,
    )


def lock_job(
    order: FitOrder,
    fitted: FittedColumns,
    noisy_total: int,
    tree: Measurement,
    tables: Mapping[ColumnSet, SyntheticTable],
) -> Callable[[], SyntheticTable]:
    """The call of `lock_table` that fits a table; `tables` has the narrower ones."""
    columns = tree.columns
    return partial(
        lock_table,
        tree=tree,
        supports=tuple(fitted.supports[name] for name in columns),
        narrower=tuple(tables[sub] for sub in sub_tables(columns)),
        noise=order.noise(noisy_total),
        key=order.sampling_key_of(columns),
        marks=tuple(fitted.marks[name] for name in columns) if len(columns) == 2 else (),
        coarse=tuple(
            coarse_of(one, columns, fitted.implied[one.finer, one.coarser], tables[table])
            for one, table in order.relations.coarsened(columns)
        ),
    )


def _benchmarked(
    relations: Relations, supports: Mapping[str, Support], name: str, variance: float
) -> Support:
    """A column benchmarked to all coarser ones that it implies: in turns, for several may not nest."""
    support, coarser = supports[name], relations.next_coarser(name)
    for _ in range(BUDGET.benchmarking_turns if len(coarser) > 1 else 1):
        for other, relation in coarser.items():
            to = implied_codes(relation, support, supports[other])
            support = benchmarked(support, supports[other], to, variance)
    return support


def _gap(
    relations: Relations,
    supports: Mapping[str, Support],
    implied: Mapping[tuple[str, str], Int64Array],
    name: str,
) -> int:
    """Largest difference between sums of a column and the coarser ones that it implies."""
    gaps = [
        np.abs(
            np.bincount(implied[name, c], weights=supports[name].n, minlength=len(supports[c]))
            - supports[c].n
        ).max(initial=0)
        for c in relations.next_coarser(name)
    ]
    return int(max(gaps, default=0))


def _limits(order: FitOrder, tree: Measurement) -> tuple[int, int] | None:
    """Smallest and largest possible code of a column."""
    if tree.values is not None:
        return min(tree.values, default=0), max(tree.values, default=-1)
    return order.limits.get(tree.columns[0])
