"""What a build discloses, with all that was built of the same people before: estimated, refused or charged.

Takes the rows in the cells of its tables and the ledger beside the key; gives an `Exposure`. Confidential.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.errors import PrivacyError
from engine.exposure import (
    ColumnExposure,
    Estimator,
    Exposure,
    Group,
    Incidence,
    Remedies,
    groups_of,
    in_order,
    remedies,
    stated,
    tables_mu2,
    total_mu2,
)
from engine.exposure.warm import warm
from engine.mechanism import StickyDraws, measure_wider
from engine.params import right_of
from engine.progress import Progress, silent
from engine.release.relating import Columns, measure_columns
from engine.schema import ColumnSet
from engine.source import (
    Charge,
    History,
    Opened,
    add_charge,
    charges_path,
    history,
    locked,
    note_charges,
    noted_exposure,
    open_rows,
    unpin_vintage,
)
from engine.spec import ReleaseSpec
from engine.store import EarlierRelease

PLANNED = "(planned)"
"""Whose draws plans and refusals use before a vintage is built; no vintage has this name."""
MOST_PEOPLE, FEWEST_PEOPLE = 100_000, 2_000
"""People who are looked at, of all; ..."""
MOST_PLACES = 5_000_000
"""... and times the number of tables at most so many, for the sake of memory (about 60 bytes each) and time."""
LEAST = 0.01
"""Exposures are rounded up to this in the ledger, and smaller ones are not noted."""


def estimator_of(spec: ReleaseSpec, columns: Columns, report: Progress = silent) -> Estimator:
    """People in the cells of all columns; wider tables are yet to be added."""
    warm(report)
    one_way = columns.measured.one_way
    rows = columns.measured.source.rows(
        tuple(name for name in one_way if name), _most_people(spec, columns)
    )
    people = Incidence(rows.codes, rows.entity, rows.share, spec.privacy)
    for tree in one_way.values():
        people.add(tree)
    return Estimator(people, [n for n in one_way if n and n not in columns.relations.copies])


def _most_people(spec: ReleaseSpec, columns: Columns) -> int:
    """How many people are looked at."""
    n_tables = len(columns.relations.needed(spec.tables))
    return min(MOST_PEOPLE, max(FEWEST_PEOPLE, MOST_PLACES // max(n_tables, 1)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Stated:
    """What an earlier release states that further tables do not change."""

    groups: tuple[Group, ...]  # Of columns that the further tables do not reveal
    revealed: tuple[str, ...]  # Columns that they do
    further: frozenset[ColumnSet]
    mu: float


def stated_before(
    spec: ReleaseSpec, columns: Columns, estimator: Estimator, earlier: EarlierRelease | None
) -> Stated | None:
    """What the release that a build adds tables to states of columns which the new ones do not reveal.

    Returns: None if all has to be computed: too little is known of it, or tables are left out.
    """
    if earlier is None:
        return None
    plain = noted_exposure(spec.key_path, spec.vintage, earlier.record.sha256)
    known = frozenset(columns.relations.needed(earlier.tables))
    needed = frozenset(columns.relations.needed(spec.tables))
    if plain is None or not known <= needed:
        return None
    groups = groups_of(plain)
    named = {group.told for group in groups}
    further = needed - known | {(name,) for name in estimator.columns if name not in named}
    revealed = tuple(estimator.revealed(further))
    kept = tuple(group for group in groups if group.told not in revealed)
    # A share that was rounded up to more than the bound may be less.
    if not spec.bounds.accept_risk and any(g.guessed > spec.bounds.most_right for g in kept):
        return None
    return Stated(groups=kept, revealed=revealed, further=further, mu=float(plain["mu"]))


@dataclass(frozen=True, kw_only=True, slots=True)
class Assessment:
    """What was estimated of a build. Confidential, but for what is stated."""

    exposure: Exposure
    estimator: Estimator
    own: tuple[ColumnExposure, ...]
    together: tuple[ColumnExposure, ...]
    past: History
    times: dict[ColumnSet, int]  # How often each table was measured, by all builds

    @property
    def _is_alone(self) -> bool:
        """Whether this build's tables are too much by themselves."""
        return bool(self.own) and self.own[0].most > self.exposure.bounds.most_right

    def ways(self, spec: ReleaseSpec, columns: Columns) -> Remedies | None:
        """The cheapest ways to disclose no more than the bound allows; None: nothing is over it."""
        if not self.exposure.is_over:
            return None
        times, before = self.times, self.past.known
        if self._is_alone:
            needed = self._needed(spec, columns)
            times, before = dict.fromkeys((t for t in times if t in needed), 1), {}
        found = self.own if self._is_alone else self.together
        bound = self.exposure.bounds.most_right
        return remedies(self.estimator, found, bound, times, before, spec.tables, columns.relations)

    def refusal(self, spec: ReleaseSpec, ways: Remedies | None, *, is_pinned: bool) -> list[str]:
        """Why a build is refused, and the ways out, a sentence a line.

        is_pinned: Something of the vintage was built: its noise and encodings are fixed.
        """
        bounds, exposure, many = spec.bounds, self.exposure, spec.entity.many
        lines = ["this release would reveal more than its owner accepted"]
        if exposure.looks > bounds.max_looks:
            lines.append(
                f"it is independent release {exposure.looks} of nearly the same data, under a new name of vintage; at "
                f"most {bounds.max_looks} are allowed, for fresh noise on the same {many} averages away"
            )
            lines.append('  - go on from an earlier vintage, in [release]: previous = "..."')
        if ways is not None:
            found = self.own if self._is_alone else self.together
            lines.append(
                f"a 50:50 secret in the place of {found[0].column} would be guessed right for more than "
                f"{bounds.most_right:.0%} of the most exposed {many}, by an attacker who knows everything else"
                + ("" if self._is_alone else f", earlier builds of these {many} counted")
            )
            lines += [f"most exposed: {g}" for g in exposure.groups if g.told == found[0].column]
            sentences = ways.sentences(spec.privacy.layer_sd, is_pinned=is_pinned)
            lines += [f"  - {way}" for way in sentences]
            lines.append("  - build in mode dp, which bounds what anybody learns")
        lines.append('  - or accept it and say why, in [privacy]: accept_risk = "..."')
        return lines

    def with_table(
        self, spec: ReleaseSpec, columns: Columns, table: ColumnSet, draws: StickyDraws
    ) -> tuple[tuple[Group, ...], bool]:
        """What would be stated of the columns that a further table reveals, and whether that is over the bound."""
        needed = columns.relations.needed([*spec.tables, table])
        unseen = sorted({*needed} - {*self.estimator.people.tables}, key=lambda t: (len(t), t))
        for tree in measure_wider(columns.measured, unseen, draws):
            self.estimator.add(tree)
        new = {*needed} - {*self.times}
        bound = self.exposure.bounds.most_right
        found = self.estimator.exposures(
            self.times | dict.fromkeys(new, 1),
            self.past.known,
            self.estimator.revealed(new) or [table[0]],
            _near(bound),
        )
        total = int(columns.measured.one_way[""].n[0])
        return stated(found, total), self.exposure.is_over or found[0].most > bound

    @staticmethod
    def _needed(spec: ReleaseSpec, columns: Columns) -> frozenset[ColumnSet]:
        """Tables of this build."""
        single = ((name,) for name in columns.measured.one_way if name)
        return frozenset((*single, *columns.relations.needed(spec.tables)))


def assess(
    spec: ReleaseSpec,
    opened: Opened,
    columns: Columns,
    estimator: Estimator,
    draws: StickyDraws,
    before: Stated | None = None,
) -> Assessment:
    """What the tables of a build reveal, with what was revealed before. Tables not seen yet are measured for it."""
    one_way = columns.measured.one_way
    needed = columns.relations.needed(spec.tables)
    past = _past(spec, opened, columns, needed)
    if past.builds:
        before = None
    own = dict.fromkeys([*((name,) for name in one_way if name), *needed], 1)
    times = own
    if past.builds:
        times = dict(Counter(own | dict.fromkeys(past.held, 1)) + Counter(past.again))
    asked, wanted = None, set(times)
    if before is not None:
        asked = before.revealed
        wanted = {table for table in own if estimator.revealed_by(table, asked)}
    wanted |= set(needed) - past.charged
    unseen = sorted(wanted - {*estimator.people.tables}, key=lambda t: (len(t), t))
    for tree in measure_wider(columns.measured, unseen, draws):
        estimator.add(tree)
    bounds = spec.bounds
    near = _near(bounds.most_right)
    alone = together = tuple(estimator.exposures(own, columns=asked, most_right=near))
    if past.builds:
        together = tuple(estimator.exposures(times, past.known, most_right=near))
    total, sd = one_way[""], spec.privacy.layer_sd
    most_alone, most = (
        max((one.most for one in found), default=0.5) for found in (alone, together)
    )
    adds = not past.is_known or bool(set(needed) - past.charged)
    groups, mu2 = stated(alone, int(total.n[0])), total_mu2(total, sd)
    if before is None:
        mu2 += tables_mu2(estimator.people, own, sd)
    else:
        groups = in_order([*groups, *before.groups])
        mu2 = before.mu**2 + tables_mu2(estimator.people, before.further, sd)
    exposure = Exposure(
        groups=groups,
        together=stated(together, int(total.n[0])) if past.builds else (),
        is_over=most_alone > bounds.most_right or (adds and most > bounds.most_right),
        builds=past.builds,
        looks=past.looks,
        is_whole=past.is_whole,
        mu=math.sqrt(mu2),
        sampled=_most_people(spec, columns) if estimator.people.share < 1 else None,
        bounds=bounds,
    )
    return Assessment(
        exposure=exposure,
        estimator=estimator,
        own=alone,
        together=together,
        past=past,
        times=times,
    )


def _near(bound: float) -> float:
    """From where on the attack decides what is stated: half way to the spec's bound; below it both agree within .01."""
    return (0.5 + bound) / 2


def _past(
    spec: ReleaseSpec, opened: Opened, columns: Columns, needed: Collection[ColumnSet]
) -> History:
    """What was built of the same people before."""
    return history(
        spec.key_path,
        vintage=spec.vintage,
        draws=opened.draws,
        contents=opened.state.contents,
        sketch=opened.sketch,
        shapes=opened.shapes,
        copies={name: one.finer for name, one in columns.relations.copies.items()},
        tables=frozenset(needed),
        columns=columns.measured.tops,
        unit=_unit(spec),
    )


def _unit(spec: ReleaseSpec) -> ColumnSet:
    """What the ledger adds to names of tables: counts of entities are news where those of rows are known."""
    if spec.count == "rows":
        return ()
    if spec.each is None:
        return ("(entities)",)
    # Another bound counts other values of the same people: a release of its own.
    return (f"(entities in {spec.each}, at most {spec.most})",)


def charged(
    spec: ReleaseSpec,
    opened: Opened,
    columns: Columns,
    estimator: Estimator,
    draws: StickyDraws,
    before: Stated | None = None,
    *,
    is_new: bool,
    frame: Any = None,
) -> Exposure:
    """Estimate what a build reveals, and write it into the ledger beside the key; or refuse it.

    A new vintage is refused only if its plan is, in the same words: else many names would disclose more than one.
    """
    with locked(charges_path(spec.key_path)):
        found = refusing = assess(spec, opened, columns, estimator, draws, before)
        charge = _charge(spec, opened, columns, found)
        if found.exposure.is_refused and is_new and spec.previous is None:
            refusing, columns = _planned(spec, frame)
        if charge and not refusing.exposure.is_refused:
            note_charges(spec.key_path, add_charge(spec.key_path, charge))
    if refusing.exposure.is_refused:
        if is_new:  # so that it can still be changed as proposed
            unpin_vintage(spec.key_path, spec.vintage)
        ways = refusing.ways(spec, columns)
        raise PrivacyError("\n".join(refusing.refusal(spec, ways, is_pinned=not is_new)))
    return found.exposure


def _planned(spec: ReleaseSpec, frame: Any) -> tuple[Assessment, Columns]:
    """What a plan finds of a vintage that was never built, whatever its name."""
    spec = replace(spec, vintage=PLANNED)
    with open_rows(spec, frame, silent) as opened:
        draws = StickyDraws(opened.key, opened.draws, spec.counted)
        columns = measure_columns(spec, opened, draws)
        return assess(spec, opened, columns, estimator_of(spec, columns), draws), columns


def _charge(
    spec: ReleaseSpec, opened: Opened, columns: Columns, found: Assessment
) -> Charge | None:
    """The line that a build adds to the ledger; None if it reveals nothing new."""
    needed = columns.relations.needed(spec.tables)
    tables = sorted(set(needed) - found.past.charged)
    if not tables and found.past.is_known:
        return None
    by_these: Sequence[ColumnExposure] = found.own
    if len(tables) < len(needed):
        by_these = found.estimator.exposures(dict.fromkeys(tables, 1))
    exposures = {one.column: 2 * right_of(one.snr) - 1 for one in by_these}
    return Charge(
        vintage=spec.vintage,
        draws=opened.draws,
        title=spec.title,
        tables=tuple(table + _unit(spec) for table in tables),
        pairs=tuple(
            ((), name, round(math.ceil(most / LEAST) * LEAST, 2))
            for name, most in sorted(exposures.items())
            if most >= LEAST
        ),
        accepted=spec.bounds.accept_risk,
        contents=opened.state.contents,
        sketch=opened.sketch,
        shapes=opened.shapes,
    )
