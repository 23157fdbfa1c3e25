"""What a build gives away, with all that was built of the same people before: reckoned, refused or charged.

Takes the tally of its measurements and the ledger beside the key; gives an `Exposure`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from engine.errors import PrivacyError
from engine.exposure import (
    Exposure,
    Figures,
    Group,
    Pairs,
    Tally,
    Worst,
    all_worst,
    pairs_of,
    remedies,
    tables_mu2,
    total_mu2,
)
from engine.ranges import code_bounds
from engine.relations import Relations
from engine.release.relating import Columns
from engine.schema import KIND_NULL, KIND_OTHER, Column, ColumnSet, Measurement
from engine.source import (
    Charge,
    History,
    Opened,
    add_charge,
    charges_path,
    history,
    locked,
    note_charges,
    unpin_vintage,
)
from engine.spec import ReleaseSpec
from engine.store import as_text, grid_value
from engine.units import Unit

SHOWN_GROUPS = 20
"""Most exposed groups that a statement lists."""


def exposure_of(
    spec: ReleaseSpec,
    columns: tuple[Column, ...],
    tally: Tally,
    total: Measurement,
    past: History,
    figures: Figures | None = None,
) -> Exposure:
    """What the measured tables tell, with what was told before."""
    figures = figures or Figures(tally)
    worst = all_worst(figures)
    added = all_worst(figures.without(past.held)) if past.held else worst
    sd = spec.privacy.layer_sd
    mu2 = total_mu2(total, sd) + tables_mu2(tally, sd)
    by_name = {column.name: column for column in columns}
    return Exposure(
        groups=tuple(_group(one, tally, by_name, sd) for one in worst[:SHOWN_GROUPS]),
        pairs=pairs_of(worst),
        added=pairs_of(added),
        before=past.pairs,
        builds=past.builds,
        looks=past.looks,
        is_whole=past.is_whole,
        mu=math.sqrt(mu2),
        bounds=spec.bounds,
    )


def past_of(spec: ReleaseSpec, opened: Opened, columns: Columns, tally: Tally) -> History:
    """What was built of the same people before."""
    unit = _unit(spec)
    told = history(
        spec.key_path,
        vintage=spec.vintage,
        draws=opened.draws,
        contents=opened.state.contents,
        sketch=opened.sketch,
        shapes=opened.shapes,
        copies={name: one.finer for name, one in columns.relations.copies.items()},
        tables=frozenset(table + unit for table in wider_tables(tally)),
    )
    return replace(told, held=_of_unit(told.held, unit), charged=_of_unit(told.charged, unit))


def _unit(spec: ReleaseSpec) -> ColumnSet:
    """What the ledger adds to names of tables: counts of entities are news where those of rows are known."""
    if spec.count == "rows":
        return ()
    if spec.each is None:
        return ("(entities)",)
    # Another bound counts other values of the same people: a look of its own.
    return (f"(entities in {spec.each}, at most {spec.most})",)


def _of_unit(tables: frozenset[ColumnSet], unit: ColumnSet) -> frozenset[ColumnSet]:
    """Names of the ledger's tables that count the same, without what says so."""
    if not unit:
        return tables
    return frozenset(table[:-1] for table in tables if table[-1:] == unit)


def wider_tables(tally: Tally) -> frozenset[ColumnSet]:
    """Tables of two and more columns."""
    return frozenset(table.columns for table in tally.tables if len(table.columns) > 1)


def charged(
    spec: ReleaseSpec,
    opened: Opened,
    columns: Columns,
    tally: Tally,
    *,
    is_new: bool,
    whole: Callable[[], Tally],
) -> Exposure:
    """Reckon what a build tells, and write it into the ledger beside the key; or refuse it.

    whole: Gives the tally with every measurement in it, which only a refusal asks for.
    """
    with locked(charges_path(spec.key_path)):
        past = past_of(spec, opened, columns, tally)
        total = columns.measured.one_way[""]
        figures = Figures(tally)
        exposure = exposure_of(spec, columns.columns, tally, total, past, figures)
        charge = _charge(spec, opened, figures, tally, past)
        if charge and not exposure.is_refused:
            note_charges(spec.key_path, add_charge(spec.key_path, charge))
    if exposure.is_refused:
        if is_new:
            unpin_vintage(
                spec.key_path, spec.vintage
            )  # so that it can still be changed as proposed
        lines = refusal(
            exposure,
            whole(),
            spec.tables,
            columns.relations,
            is_pinned=not is_new,
            entity=spec.entity,
        )
        raise PrivacyError("\n".join(lines))
    return exposure


def _charge(
    spec: ReleaseSpec, opened: Opened, figures: Figures, tally: Tally, past: History
) -> Charge | None:
    """The line that a build adds to the ledger; None if it tells nothing new."""
    tables = wider_tables(tally) - past.charged
    if not tables and past.is_known:
        return None
    added = figures.without(past.charged)
    return Charge(
        vintage=spec.vintage,
        draws=opened.draws,
        title=spec.title,
        tables=tuple(sorted(table + _unit(spec) for table in tables)),
        pairs=tuple(
            (*pair, round(most, 4)) for pair, most in sorted(pairs_of(all_worst(added)).items())
        ),
        accepted=spec.bounds.accept_risk,
        contents=opened.state.contents,
        sketch=opened.sketch,
        shapes=opened.shapes,
    )


def refusal(
    exposure: Exposure,
    tally: Tally,
    published: tuple[ColumnSet, ...],
    relations: Relations,
    *,
    is_pinned: bool,
    entity: Unit,
) -> list[str]:
    """Why a build is refused, and the ways out, a sentence a line.

    is_pinned: Something of the vintage was built: its thresholds and encodings are fixed.
    """
    bounds = exposure.bounds
    lines = ["this release would tell more than its owner accepted"]
    if exposure.looks > bounds.max_looks:
        lines.append(
            f"it is look {exposure.looks} at nearly the same data, under a new name of vintage; at most "
            f"{bounds.max_looks} are allowed, for fresh noise on the same {entity.many} averages away"
        )
        lines.append('  - go on from an earlier vintage, in [release]: previous = "..."')
    if exposure.over:
        (columns, told), most = max(exposure.over.items(), key=lambda item: (item[1], item[0]))
        lines.append(
            f"{most:.2f} noisy figures a person (at most {bounds.refuse_at:g}) on {told}, in a group singled out by "
            f"{' and '.join(columns)}"
            + (f", earlier builds of these {entity.many} counted" if exposure.builds else "")
        )
        lines += [f"most exposed: {group}" for group in exposure.groups[:1]]
        ways = remedies(tally, bounds.refuse_at, _charged_before(exposure), published, relations)
        lines += [f"  - {way}" for way in ways.sentences(is_pinned=is_pinned)]
        lines.append("  - build in mode dp, which bounds what anybody learns")
    lines.append('  - or accept it and say why, in [privacy]: accept_risk = "..."')
    return lines


def _charged_before(exposure: Exposure) -> Pairs:
    """What earlier builds told, where this one adds to it."""
    return {
        pair: figures
        for pair, figures in exposure.before.items()
        if exposure.added.get(pair, 0.0) > 0
    }


def _group(one: Worst, tally: Tally, columns: Mapping[str, Column], layer_sd: int) -> Group:
    """The most exposed group in words."""
    tree = tally.groups[one.group]
    return Group(
        columns=one.group,
        ranges=tuple(
            range_words(columns[name], tally.groups[name,], tree, j, one.node)
            for j, name in enumerate(one.group)
        ),
        people=round(one.people),
        told=one.told,
        figures=round(one.figures.sum()),
        tables=int((one.figures > 0).sum()),
        guessed=one.guessed(layer_sd),
    )


def range_words(column: Column, one_way: Measurement, tree: Measurement, j: int, node: int) -> str:
    """The range of one bucket in its column j, in words."""
    kind = tree.kind[node, j]
    if kind == KIND_NULL:
        return "blank"
    if kind == KIND_OTHER:
        return column.placeholder or "rare"
    low, high = (
        int(end)
        for end in code_bounds(tree.kind[node, j], tree.level[node, j], tree.index[node, j])
    )
    if one_way.values is None:
        ends = [as_text(grid_value(column, code)) for code in (low, high)]
    else:
        ends = [as_text(value) for value in one_way.values[low : high + 1]]
    return ends[0] if ends[0] == ends[-1] else f"{ends[0]} to {ends[-1]}"
