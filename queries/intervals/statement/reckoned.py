"""The figures of a statement with their noise and status, for the rows that its answer shows.

Takes an open release, a statement, the table that answers it and rows of the answer; gives estimates by column, and
of columns that are not understood whether anything that they are reckoned from is released.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb
import numpy as np

from engine.schema import BoolArray, ColumnSet
from queries.intervals.estimates import Estimates, statuses
from queries.intervals.model import noise_model
from queries.intervals.statement.groupings import Rows, groups_of, strays, together
from queries.intervals.statement.limits import refuse_digits
from queries.intervals.statement.rows import Evaluated, evaluated, leaves
from queries.intervals.statement.terms import estimate_of, linear, typed
from queries.intervals.statement.tree import ParsedStatement, Parts, Unknown, parse_statement
from queries.intervals.universes import ruled_out
from queries.sql import NOT_RELEASED, Marks, Session

_MODELLED = "all figures: the table is modelled, and how far the model is off is not known."
_OTHER = "it is not what was reckoned from the released rows for such a figure."
_OF_GROUPS = (
    "some figures: in mode dp values are measured in groups, or modelled from narrower tables, and what a part of "
    "a group holds is not known."
)
RELEASED = "released"
"""Status of a figure that is reckoned from released ones; how sure it is, is not known."""
NOT_KNOWN = "not known"
"""Status of a figure that may be reckoned from what was filled in."""
STRUCTURAL = "structural zero"

_MOST_KEPT, _MOST_GROUPS = 32, 20_000
"""Statements whose figures a release keeps for the next time, and the most groups of one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reckoned:
    """The figures of an answer that are understood."""

    question: ParsedStatement
    keys: list[Any]  # Keys of the groups of each of the question's groupings
    # By place of the column; each figure shown is the one that was reckoned.
    estimates: dict[int, Estimates]
    ruled: BoolArray  # shape (n_groups,)
    of_parts: dict[int, list[str]]  # Status of every group by what other columns are reckoned from
    unread: dict[int, str]  # Columns that are not understood, with the reason
    reasons: list[str]  # Others why there is no interval
    group: list[int] = field(default_factory=list)  # Group of each row of the answer that is shown
    # Unread columns whose figures shown are not those that were reckoned for them.
    differs: frozenset[int] = frozenset()

    def marks(self) -> Marks:
        """Status of every row's figures."""
        known = {at: self.statuses(at) for at in self.estimates}
        more = {at: [of[i] for i in self.group] for at, of in self.of_parts.items()}
        unknown = [
            why
            for at, why in self.unread.items()
            if NOT_KNOWN in self.of_parts.get(at, [NOT_KNOWN])
        ]
        return Marks(statuses=dict(sorted({**known, **more}.items())), unknown=tuple(unknown))

    def statuses(self, at: int) -> list[str]:
        """Status of every row's figure in a column."""
        of_groups = statuses(self.estimates[at], self.ruled)
        return [of_groups[i] for i in self.group]


def _estimates(
    release: Session, question: ParsedStatement, names: Sequence[str], rows: Sequence[Evaluated]
) -> tuple[dict[int, Estimates], dict[int, str]]:
    """Of each figure, by its place: what is reckoned of it, or why nothing is."""
    unread = {
        at: f"{names[at]}: {term}."
        for at, term in question.figures
        if isinstance(term, str) and term
    }
    estimates = {}
    for at, term in question.figures:
        single = None if isinstance(term, str) else linear(term)
        if isinstance(term, str) or (single is not None and not single[0]):
            continue  # a text says why not, and a constant is as it is
        try:
            refuse_digits(release, rows[0].groups.model.table.columns, leaves(term))
            of_each = [estimate_of(of_one, term) for of_one in rows]
        except Unknown as why:
            unread[at] = f"{names[at]}: {why}."
            continue
        estimates[at] = together(of_each)
    return estimates, unread


def _known(release: Session, text: str, names: Sequence[str], table: ColumnSet) -> Reckoned:
    """Reckon a statement, or find it among the last ones; of strangers nothing is kept."""
    kept: dict[Any, Reckoned] = (
        {} if release.is_overseen else release.models.setdefault(("statements",), {})
    )
    found = kept.pop((text, table), None)  # the one asked last is last
    found = _reckoned(release, text, names, table) if found is None else found
    if len(found.ruled) <= _MOST_GROUPS:
        kept[text, table] = found
    for oldest in list(kept)[:-_MOST_KEPT]:
        kept.pop(oldest, None)
    return found


def _reckoned(release: Session, text: str, names: Sequence[str], table: ColumnSet) -> Reckoned:
    with release.cursor() as con:
        question = parse_statement(con, text, release.logical_name, tuple(release.columns))
        refuse_digits(release, table, [*question.where, *(node for _, node in question.keys)])
        model = noise_model(release, table)
        try:
            rows = [evaluated(con, release, model, one) for one in question.groupings()]
        except (
            duckdb.Error
        ):  # what one column is reckoned from must not cost the others their status
            question = replace(question, parts={})
            rows = [evaluated(con, release, model, one) for one in question.groupings()]
    estimates, unread = _estimates(release, question, names, rows)
    more = []
    if model.tree is None and any(np.isnan(estimate.sd).any() for estimate in estimates.values()):
        more.append(_MODELLED if model.table.card.get("wide") else _OF_GROUPS)
    ruled = np.concatenate(
        [
            np.zeros(one.groups.region.n_groups, dtype=bool)
            if one.groups.region.is_free
            else ruled_out(release, model.table, one.groups.region)
            for one in rows
        ]
    )
    of_parts = {at: _statuses_by_parts(rows, parts, ruled) for at, parts in question.parts.items()}
    return Reckoned(
        question=question,
        keys=[one.keys for one in rows],
        estimates=estimates,
        unread=unread,
        ruled=ruled,
        of_parts=of_parts,
        reasons=more,
    )


def reckon(
    release: Session,
    text: str,
    names: Sequence[str],
    types: Sequence[str],
    table: ColumnSet,
    shown: Rows,
    *,
    is_strict: bool,
) -> Reckoned:
    """Reckon the figures of a statement, for the rows that are shown.

    is_strict: Intervals are wanted, not statuses alone.
    """
    known = _known(release, text, names, table)
    question = known.question
    estimates, unread = dict(known.estimates), dict(known.unread)
    group = groups_of(shown, question, question.groupings(), known.keys, estimates)
    terms, differs = dict(question.figures), set()
    for at in [*estimates]:
        if at in question.cast:
            estimates[at] = typed(estimates[at], types[at])
        given = [row[at] for row in shown]
        if strays(given, group, estimates[at], terms[at], types[at], is_strict=is_strict):
            del estimates[at]
            unread[at] = f"{names[at]}: {_OTHER}"
            differs.add(at)
    told = replace(known, estimates=estimates, unread=unread)
    return replace(told, group=group, differs=frozenset(differs))


def _statuses_by_parts(rows: Sequence[Evaluated], parts: Parts, ruled: BoolArray) -> list[str]:
    """Status of a figure in every group, by the rows that it is reckoned from."""
    known = np.logical_and.reduce(
        [together([estimate_of(one, count) for one in rows]).known for count in parts.counts]
    )
    otherwise = RELEASED if parts.is_sure else NOT_KNOWN
    return [
        otherwise if is_known else STRUCTURAL if is_ruled else NOT_RELEASED
        for is_known, is_ruled in zip(known.tolist(), ruled.tolist(), strict=True)
    ]
