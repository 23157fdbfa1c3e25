"""What a build gives away, with all that was built of the same people before: reckoned, refused or charged.

Takes the rows in the cells of its tables and the ledger beside the key; gives an `Exposure`. Left of the wall.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from engine.errors import PrivacyError
from engine.exposure import (
    Exposure,
    Incidence,
    Reckoner,
    Remedies,
    Told,
    remedies,
    stated,
    tables_mu2,
    total_mu2,
)
from engine.measure import StickyDraws, measure_wider
from engine.params import right_of
from engine.release.relating import Columns
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
    unpin_vintage,
)
from engine.spec import ReleaseSpec

MOST_PEOPLE, FEWEST_PEOPLE = 30_000, 2_000
"""People who are looked at, of all; ..."""
MOST_PLACES = 5_000_000
"""... and times the number of tables at most so many, for the sake of memory and time."""
LEAST = 0.01
"""Exposures are rounded up to this in the ledger, and smaller ones are not noted."""


def people_of(spec: ReleaseSpec, columns: Columns, n_tables: int) -> Incidence:
    """The people whose places in the cells are looked at; single columns are seen already."""
    one_way = columns.measured.one_way
    most = min(MOST_PEOPLE, max(FEWEST_PEOPLE, MOST_PLACES // max(n_tables, 1)))
    rows = columns.measured.source.rows(tuple(name for name in one_way if name), most)
    people = Incidence(rows.codes, rows.entity, rows.share, spec.privacy.layer_sd)
    for tree in one_way.values():
        people.add(tree)
    return people


@dataclass(frozen=True, kw_only=True, slots=True)
class Reckoned:
    """What was reckoned of a build. Confidential, but for what is stated."""

    exposure: Exposure
    reckoner: Reckoner
    own: tuple[Told, ...]
    together: tuple[Told, ...]
    past: History
    times: dict[ColumnSet, int]  # How often each table was measured, by all builds

    @property
    def _is_alone(self) -> bool:
        """Whether this build's tables are too much by themselves."""
        return self.own[0].most > self.exposure.bounds.most_right

    def ways(self, spec: ReleaseSpec, columns: Columns) -> Remedies | None:
        """The cheapest ways to tell no more than the bound allows; None: nothing is over it."""
        if not self.exposure.is_over:
            return None
        times, before = self.times, self.past.known
        if self._is_alone:
            needed = self._needed(spec, columns)
            times, before = dict.fromkeys((t for t in times if t in needed), 1), {}
        found = self.own if self._is_alone else self.together
        bound = self.exposure.bounds.most_right
        return remedies(self.reckoner, found, bound, times, before, spec.tables, columns.relations)

    def refusal(self, spec: ReleaseSpec, ways: Remedies | None, *, is_pinned: bool) -> list[str]:
        """Why a build is refused, and the ways out, a sentence a line.

        is_pinned: Something of the vintage was built: its noise and encodings are fixed.
        """
        bounds, exposure, many = spec.bounds, self.exposure, spec.entity.many
        lines = ["this release would tell more than its owner accepted"]
        if exposure.looks > bounds.max_looks:
            lines.append(
                f"it is look {exposure.looks} at nearly the same data, under a new name of vintage; at most "
                f"{bounds.max_looks} are allowed, for fresh noise on the same {many} averages away"
            )
            lines.append('  - go on from an earlier vintage, in [release]: previous = "..."')
        if ways is not None:
            found = self.own if self._is_alone else self.together
            lines.append(
                f"an even yes-or-no in the place of {found[0].column} would be guessed right for more than "
                f"{bounds.most_right:.0%} of the most exposed {many}, by who knows all their other columns"
                + ("" if self._is_alone else f", earlier builds of these {many} counted")
            )
            lines += [f"most exposed: {group}" for group in exposure.groups[:1]]
            sentences = ways.sentences(spec.privacy.layer_sd, is_pinned=is_pinned)
            lines += [f"  - {way}" for way in sentences]
            lines.append("  - build in mode dp, which bounds what anybody learns")
        lines.append('  - or accept it and say why, in [privacy]: accept_risk = "..."')
        return lines

    @staticmethod
    def _needed(spec: ReleaseSpec, columns: Columns) -> frozenset[ColumnSet]:
        """Tables of this build."""
        single = ((name,) for name in columns.measured.one_way if name)
        return frozenset((*single, *columns.relations.needed(spec.tables)))


def reckoned(
    spec: ReleaseSpec, opened: Opened, columns: Columns, people: Incidence, draws: StickyDraws
) -> Reckoned:
    """What the tables of a build tell, with what was told before."""
    one_way = columns.measured.one_way
    needed = columns.relations.needed(spec.tables)
    past = _past(spec, opened, columns, needed)
    own = dict.fromkeys([*((name,) for name in one_way if name), *needed], 1)
    reckoner = Reckoner(people, [n for n in one_way if n and n not in columns.relations.copies])
    alone = together = tuple(reckoner.all_told(own))
    times = own
    if past.builds:
        further = sorted({*past.held, *past.again} - own.keys(), key=lambda t: (len(t), t))
        for tree in measure_wider(columns.measured, further, draws):
            people.add(tree)
        times = dict(Counter(own | dict.fromkeys(past.held, 1)) + Counter(past.again))
        together = tuple(reckoner.all_told(times, past.known))
    bounds, total = spec.bounds, one_way[""]
    is_over = alone[0].most > bounds.most_right if alone else False
    adds = not past.is_known or bool(set(needed) - past.charged)
    most = max((one.most for one in together), default=0.5)
    sd = spec.privacy.layer_sd
    exposure = Exposure(
        groups=stated(alone, int(total.n[0])),
        together=stated(together, int(total.n[0])) if past.builds else (),
        is_over=is_over or (adds and most > bounds.most_right),
        is_warned=max((one.most for one in (*alone, *together)), default=0.5)
        > 0.5 + bounds.warn_at / 2,
        builds=past.builds,
        looks=past.looks,
        is_whole=past.is_whole,
        mu=math.sqrt(total_mu2(total, sd) + tables_mu2(people, own, sd)),
        bounds=bounds,
    )
    return Reckoned(
        exposure=exposure,
        reckoner=reckoner,
        own=alone,
        together=together,
        past=past,
        times=times,
    )


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
    # Another bound counts other values of the same people: a look of its own.
    return (f"(entities in {spec.each}, at most {spec.most})",)


def charged(
    spec: ReleaseSpec,
    opened: Opened,
    columns: Columns,
    people: Incidence,
    draws: StickyDraws,
    *,
    is_new: bool,
) -> Exposure:
    """Reckon what a build tells, and write it into the ledger beside the key; or refuse it."""
    with locked(charges_path(spec.key_path)):
        found = reckoned(spec, opened, columns, people, draws)
        charge = _charge(spec, opened, columns, found)
        if charge and not found.exposure.is_refused:
            note_charges(spec.key_path, add_charge(spec.key_path, charge))
    if found.exposure.is_refused:
        if is_new:
            unpin_vintage(
                spec.key_path, spec.vintage
            )  # so that it can still be changed as proposed
        ways = found.ways(spec, columns)
        raise PrivacyError("\n".join(found.refusal(spec, ways, is_pinned=not is_new)))
    return found.exposure


def _charge(spec: ReleaseSpec, opened: Opened, columns: Columns, found: Reckoned) -> Charge | None:
    """The line that a build adds to the ledger; None if it tells nothing new."""
    needed = columns.relations.needed(spec.tables)
    tables = sorted(set(needed) - found.past.charged)
    if not tables and found.past.is_known:
        return None
    by_these: Sequence[Told] = found.own
    if len(tables) < len(needed):
        by_these = found.reckoner.all_told(dict.fromkeys(tables, 1))
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
