"""What a spec or a release claims to use: its measured margins, and how it makes tables of them.

A claim cut to the columns of an audit gives the safe margins and the generator. That is fair in mode sticky, where no
count of a table depends on which others are asked for; in mode dp the budget is shared among the margins that are left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain, combinations
from math import prod
from pathlib import Path
from typing import Any

import pandas as pd

from engine.errors import DamagedRelease, SpecError
from engine.evaluation.audit.domain import MOST_COLUMNS, MOST_VALUES, Domain, domain_of
from engine.evaluation.audit.extremal import MOST_CELLS
from engine.evaluation.audit.generators import Generator
from engine.evaluation.audit.ours import JointGenerator, StickyGenerator
from engine.evaluation.audit.safe import SafeStatistics, safe_statistics
from engine.evaluation.data import read_release
from engine.params import PROFILES, DPParams, PrivacyParams
from engine.schema import MAX_WIDTH, ColumnSet, column_set
from engine.spec import ReleaseSpec

AS_ROWS = (
    "Each row of the data sets compared is one entity. Columns stand as lists of values, numbers of many values in "
    "groups: how ranges are chosen is not audited."
)
QUICK = 2_000
"""Combinations of columns that an audit chooses by itself, of many."""
LOOKED_AT = 24
"""Columns among which it chooses: sets of five of them are 42,504."""
CUT = "Audited on {columns} alone: the tables are cut to them."


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """What a release says that it uses."""

    title: str
    tables: tuple[ColumnSet, ...]  # That it publishes
    # Those of mode sticky that nothing was measured of as such. A table of five columns is measured where
    # one of them tells another: a release says so, a spec as far as it is declared.
    modelled: tuple[ColumnSet, ...]
    privacy: PrivacyParams  # Of mode sticky
    dp: DPParams | None  # Of mode dp

    @property
    def margins(self) -> tuple[ColumnSet, ...]:
        """Column sets that are measured: for a modelled table all its pairs."""
        if self.dp is not None:
            return tuple(self.dp.measured(margin) for margin in self.dp.margins)
        pairs = chain.from_iterable(combinations(table, 2) for table in self.modelled)
        measured = (table for table in self.tables if table not in self.modelled)
        return (*measured, *dict.fromkeys(pairs))

    @property
    def columns(self) -> ColumnSet:
        """Columns that anything is measured of."""
        return tuple(sorted({name for margin in self.margins for name in margin}))

    def generator(self, domain: Domain, safe: SafeStatistics) -> Generator:
        """How releases are made, cut to a domain whose safe margins are the claim's."""
        if self.dp is not None:
            return JointGenerator(
                domain,
                replace(
                    self.dp, method="ipf", margins=safe.margins, strata=(), ranges=(), budget=None
                ),
            )
        cut = {tuple(n for n in table if n in domain.names) for table in self.modelled}
        wide = {table for table in cut if len(table) > MAX_WIDTH}
        return StickyGenerator(domain, tuple(sorted({*safe.margins, *wide})), self.privacy)


def claim_of_spec(spec: ReleaseSpec) -> Claim:
    """Return what a spec's release will claim."""
    return Claim(
        title=spec.title,
        tables=spec.tables,
        modelled=tuple(t for t in spec.tables if spec.mode != "dp" and _is_modelled(spec, t)),
        privacy=spec.counted,
        dp=spec.dp if spec.mode == "dp" else None,
    )


def _is_modelled(spec: ReleaseSpec, table: ColumnSet) -> bool:
    """Whether too many columns are left without those that others of the table are declared to tell."""
    tells = {column.name: column.determines for column in spec.columns}
    left = list(table)
    for name in table:
        if any(name in tells.get(other, ()) for other in left if other != name):
            left.remove(name)
    return len(left) > MAX_WIDTH


def claim_of_release(path: Path) -> Claim:
    """Return what a release claims, read from its cards."""
    release = read_release(path)
    told = release.facts.privacy
    try:
        dp = _dp_of(told) if release.facts.mode == "dp" else None
        privacy = PROFILES["standard"] if dp is not None else _privacy_of(told)
    except (TypeError, KeyError, ValueError):
        raise DamagedRelease(f"{path}: its parameters are not what tablepack wrote") from None
    return Claim(
        title=release.facts.title,
        tables=tuple(release.tables),
        modelled=tuple(table for table in release.tables if release.cards[table].get("wide")),
        privacy=privacy,
        dp=dp,
    )


def _privacy_of(told: Any) -> PrivacyParams:
    names = ("profile", "low_threshold", "threshold_mean", "layer_sd")
    return PrivacyParams(**{name: told[name] for name in names})


def _dp_of(told: Any) -> DPParams:
    known = {field.name for field in fields(DPParams)}
    values = {name: value for name, value in dict(told).items() if name in known}
    values["columns"] = tuple(values["columns"])
    values["strata"] = tuple(values["strata"])
    values["margins"] = tuple(tuple(margin) for margin in values["margins"])
    values["ranges"] = ()
    return DPParams(**values)


def chosen_domain(
    frame: pd.DataFrame, margins: Sequence[ColumnSet], wanted: Sequence[str] | None
) -> tuple[Domain, tuple[str, ...]]:
    """Return the columns that are audited, and a note on the choice.

    All that margins name, where they have few enough combinations; else the largest of those sets of columns with few
    combinations that no margin holds although margins hold all their parts: there is something to find.
    """
    named = tuple(sorted({name for margin in margins for name in margin}))
    if wanted:
        if strange := [name for name in wanted if name not in named]:
            raise SpecError(f"columns: no safe margin is about {', '.join(strange)}")
        domain = domain_of(frame, wanted)
        is_cut = set(domain.names) != set(named)
        return domain, (CUT.format(columns=", ".join(domain.names)),) if is_cut else ()
    if len(named) <= MOST_COLUMNS:
        domain = domain_of(frame, named)
        if domain.n_cells <= MOST_CELLS:
            return domain, ()
    sizes = {name: frame[name].nunique(dropna=False) for name in named if name in frame.columns}
    for width in (3, 4, 2, 5):
        _, best = max(open_sets(sizes, margins, width, QUICK), default=(0, ()))
        if best:
            return domain_of(frame, best), (CUT.format(columns=", ".join(best)),)
    return domain_of(frame, tuple(sizes)[:4]), (CUT.format(columns=", ".join(tuple(sizes)[:4])),)


def open_sets(
    sizes: Mapping[str, int], margins: Sequence[ColumnSet], width: int, most: int
) -> Iterator[tuple[int, ColumnSet]]:
    """Sets of columns that no margin holds, although margins hold all of them but one, whichever that is.

    sizes: Values of each column; those of more than `MOST_VALUES` count as one more than that. Of more than
        `LOOKED_AT` columns those are looked at that most margins name.
    width: 2 at least.
    most: Combinations of their values at most.
    """
    named = Counter(name for margin in margins for name in margin if name in sizes)
    names = column_set(sorted(named, key=lambda name: (-named[name], name))[:LOOKED_AT])
    inside = [[name for name in names if name in margin] for margin in map(set, margins)]
    held, parts = (
        set(chain.from_iterable(combinations(own, n) for own in inside)) for n in (width, width - 1)
    )
    for chosen in combinations(names, width):
        cells = prod(min(sizes[name], MOST_VALUES + 1) for name in chosen)
        if (
            cells <= most
            and chosen not in held
            and parts.issuperset(combinations(chosen, width - 1))
        ):
            yield cells, chosen


def safe_of(claim: Claim, domain: Domain) -> SafeStatistics:
    """The claim's margins on a domain."""
    return safe_statistics(domain, claim.margins)
