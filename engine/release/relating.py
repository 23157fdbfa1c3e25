"""Finds out, before anything wider is measured, which columns of a release determine each other.

Takes what the spec declares and, for copies that nobody declared, the rows; gives relations read off measurements, and
sentences for readers; and refuses wide tables that take more than the spec allows. Left of the wall.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from math import comb

import numpy as np

from engine.errors import SpecError
from engine.fit import Unused, is_leaf, related, relation_of
from engine.measure import measure_one_way
from engine.mechanism import Measured, StickyDraws, measure_wider
from engine.params import NOISE_LAYERS, PrivacyParams
from engine.progress import Progress, silent
from engine.relations import Relation, Relations
from engine.schema import MAX_WIDTH, Column, ColumnSet, Int64Array, Measurement, column_set
from engine.source import Opened
from engine.source.detection import copies, encoded_table, keyed_thresholds
from engine.spec import ReleaseSpec, WideOptions, with_deciders, with_determined

Pair = tuple[str, str]
"""A column, and one that it determines."""
_NAMED = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Columns:
    """The columns of a release, measured one by one, and which of them imply others."""

    columns: tuple[Column, ...]  # Those that tables use, and all that they are related to
    measured: Measured
    relations: Relations
    notes: tuple[str, ...]  # For readers, on the relations


def measure_columns(
    spec: ReleaseSpec, opened: Opened, draws: StickyDraws, report: Progress = silent
) -> Columns:
    """Measure the total and every column, and find out which determine each other."""
    found = _found_copies(opened, report)
    columns = _with_related(spec, opened, found)
    measured = measure_one_way(opened.ingested, opened.entities, columns, draws)
    relations, notes = _relations(spec, opened, columns, found, measured, draws)
    told = (*_released(columns), *notes)
    chosen = _chosen(spec, measured, relations)
    relations = replace(relations, chosen=chosen)
    return Columns(columns=columns, measured=measured, relations=relations, notes=told)


def _chosen(spec: ReleaseSpec, measured: Measured, relations: Relations) -> tuple[ColumnSet, ...]:
    """Tables of three columns that modelled tables are fitted to besides their pairs.

    None where the bound of exposure holds: what they reveal could end a build that is allowed without them. There
    `tablepack choose` proposes those that fit.
    """
    out: dict[ColumnSet, None] = {}
    if not spec.bounds.accept_risk:
        return ()
    for wide in spec.tables:
        base, options = relations.base(wide), spec.wide_options.get(wide, WideOptions())
        if len(base) > MAX_WIDTH:
            most = options.max_added
            left = None if most is None else max(most - len(added_for(spec, relations, wide)), 0)
            chosen = chosen_for(base, measured, spec.counted, most=left, target=options.target)
            out |= dict.fromkeys(chosen)
    return tuple(out)


def chosen_for(
    base: ColumnSet,
    measured: Measured,
    privacy: PrivacyParams,
    *,
    most: int | None = None,
    target: str | None = None,
) -> tuple[ColumnSet, ...]:
    """Tables of three columns that help a modelled table most, by the measured counts of its columns alone.

    most: So many at most; by default as many as it has pairs, so that it takes about twice the time.
    """
    from engine.fit.wide import chosen_triples  # slow to import

    return chosen_triples(
        base,
        [_rows_of_values(measured.one_way[name]) for name in base],
        threshold=privacy.threshold_mean,
        noise_sd=privacy.noise_sd,
        most=comb(len(base), 2) if most is None else most,
        target=target,
    )


def _rows_of_values(tree: Measurement) -> Int64Array:
    """Noisy rows of a column's values and narrowest ranges, in their order."""
    at = np.flatnonzero(is_leaf(tree))
    low = tree.index[at, 0] << tree.level[at, 0].astype(np.int64)
    n: Int64Array = tree.n[at][np.lexsort((low, tree.kind[at, 0]))]
    return np.maximum(n, 0)


def _released(columns: tuple[Column, ...]) -> list[str]:
    """Notes on columns whose owner said why they may be published."""
    return [
        f"{column.name} may look like an identifier. The owner released it: {column.release}"
        for column in columns
        if column.release
    ]


def _found_copies(opened: Opened, report: Progress) -> list[Pair]:
    """Pairs of columns that are one to one in the data, but for fewer people than a noisy threshold.

    All columns that were read are compared, also those that no table of this build uses: so that tables of a copy have
    the same counts, whichever build asks for them.
    """
    ingested = opened.ingested
    columns = {column.name: ingested.sql_names[column.name] for column in ingested.columns}
    table = encoded_table(ingested, opened.entities, columns)
    return copies(table, keyed_thresholds(opened.key, opened.draws), report)


def _with_related(spec: ReleaseSpec, opened: Opened, found: list[Pair]) -> tuple[Column, ...]:
    """The columns to be measured: those that tables use, and all that their counts depend on.

    So that no count depends on which other tables are asked for.
    """
    used, known = {column.name for column in opened.columns}, set[str]()
    while used != known:
        known = used
        copied = {name for pair in found if used & set(pair) for name in pair}
        used = with_deciders(spec.columns, with_determined(spec.columns, used | copied))
    return tuple(column for column in opened.ingested.columns if column.name in used)


def _relations(
    spec: ReleaseSpec,
    opened: Opened,
    columns: tuple[Column, ...],
    found: list[Pair],
    measured: Measured,
    draws: StickyDraws,
) -> tuple[Relations, tuple[str, ...]]:
    """Read all relations off measurements of two columns; and notes on them."""
    names = {column.name for column in columns}
    declared = [(c.name, told) for c in columns for told in c.determines if told in names]
    pairs = dict.fromkeys(declared) | dict.fromkeys(p for p in found if names.issuperset(p))
    total = int(measured.one_way[""].n[0])
    noise = spec.privacy.layer_sd * NOISE_LAYERS**0.5
    known: list[Relation] = []
    unused: list[Unused] = []
    stands = {name: name for name in names}
    for finer, coarser in pairs:
        if stands[finer] == stands[coarser]:
            continue  # follows from what is known: they are copies of the same
        (both,) = measure_wider(measured, (column_set((finer, coarser)),), draws)
        one_ways = measured.one_way[finer], measured.one_way[coarser]
        one = relation_of(both, *one_ways, total, noise * float(both.scale[-1]))
        if not isinstance(one, Relation):
            unused.append(one)
            continue
        known.append(one)
        if one.is_copy:
            joined = {stands[finer], stands[coarser]}
            stands = {name: finer if of in joined else of for name, of in stands.items()}
    _refuse_contradicted([one for one in unused if (one.finer, one.coarser) in declared])
    relations = related(known, _precedence(columns, opened))
    detected = {c.name for c in columns if "determines" in c.detected}
    apart = [
        f"{one.finer} is declared to determine {one.coarser}, but is measured apart from it: {one.why}."
        for one in unused
        if (one.finer, one.coarser) in declared
    ]
    return relations, (*_notes(relations, set(declared), detected), *apart)


def _precedence(columns: tuple[Column, ...], opened: Opened) -> tuple[str, ...]:
    """Which of several copies stands for all: another one than in an earlier build would be another draw.

    So the one that stood for others before, in this vintage first, then what was built before; then one with a list of
    values, by name.
    """

    def rank(column: Column) -> tuple[bool, bool, bool, bool, str]:
        name = column.name
        return (
            name not in opened.stands_here,
            name not in opened.stands,
            name not in opened.seen,
            not column.is_ranked,
            name,
        )

    return tuple(column.name for column in sorted(columns, key=rank))


def _refuse_contradicted(declared: list[Unused]) -> None:
    wrong = [
        f"columns.{one.finer}.determines: {one.coarser} is not determined: {one.why}"
        for one in declared
        if one.is_contradicted
    ]
    if wrong:
        raise SpecError(wrong)


def _notes(relations: Relations, declared: set[Pair], detected: set[str]) -> tuple[str, ...]:
    """Notes for readers."""
    notes = []
    for one in relations.relations:
        pair = (one.finer, one.coarser)
        how = "found in the data"
        if pair in declared or (one.is_copy and pair[::-1] in declared):
            is_detected = one.finer in detected or (one.is_copy and one.coarser in detected)
            how = "detected in the data" if is_detected else "declared"
        elif not one.is_copy:
            continue  # follows from others
        if one.is_copy:
            said = f"{one.coarser} and {one.finer} are one to one, {how}: their tables are the same, relabelled."
        else:
            said = (
                f"{one.finer} determines {one.coarser}, {how}: its tables add up to those of {one.coarser}, up to the "
                "gap of the card."
            )
        notes.append(said)
    return tuple(notes)


def added_for(spec: ReleaseSpec, relations: Relations, wide: ColumnSet) -> tuple[ColumnSet, ...]:
    """What is measured for a wide table alone, pairs first: no table of the spec shows or needs it."""
    base = relations.base(wide)
    if len(base) <= MAX_WIDTH:
        return ()
    listed = relations.needed(t for t in spec.tables if len(relations.base(t)) <= MAX_WIDTH)
    inside = (one for one in relations.chosen if {*one} <= {*base})
    return tuple(one for one in (*combinations(base, 2), *inside) if one not in {*listed})


def check_added(spec: ReleaseSpec, relations: Relations) -> None:
    """Refuse a wide table that needs more tables than its `max_added` allows, and sets of what is measured."""
    problems = []
    for wide, wish in spec.wide_options.items():
        if wish.sets > 1 and len(relations.base(wide)) <= MAX_WIDTH:
            problems.append(
                f"tables: sets = {wish.sets} is for tables that are modelled; without the columns that others tell, "
                f"{', '.join(wide)} are at most {MAX_WIDTH} and measured: leave it out"
            )
        added = added_for(spec, relations, wide)
        if wish.max_added is None or len(added) <= wish.max_added:
            continue
        named = ", ".join(" x ".join(pair) for pair in added[:_NAMED])
        more = f" and {len(added) - _NAMED:,} more" if len(added) > _NAMED else ""
        problems.append(
            f"tables: max_added = {wish.max_added:,}, but the wide table of {len(wide)} columns ({', '.join(wide)}) is "
            f"modelled from {len(added):,} tables of two columns that the spec does not list: {named}{more}. List "
            f"them, allow so many (max_added = {len(added):,}), or ask for fewer columns"
        )
    if problems:
        raise SpecError(problems)
