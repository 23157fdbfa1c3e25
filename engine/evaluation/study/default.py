"""The study of data that nobody has declared one for: chosen by what the columns look like, never by their names.

Takes the original and the synthetic tables as frames; gives a `Study` and notes of what was chosen and left out, so
that a reader can declare better. What an attacker knows cannot be seen in data: the choice is a placeholder, and says
so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from engine.evaluation.attacks import Attacker
from engine.evaluation.data.aligned import Binning, Distinct
from engine.evaluation.data.kinds import Kind, kind_of_column
from engine.evaluation.measures import (
    Components,
    Correlations,
    Distributions,
    Estimate,
    Learning,
    Marginals,
    Models,
    Propensity,
    Tables,
    Univariate,
)
from engine.evaluation.study.model import Study
from engine.schema import ColumnSet

RANKS, FEW = 20, 20
"""Numbers of more than `FEW` values are cut into `RANKS` groups of equal share of the original."""
MOST_MARGINALS, MOST_ESTIMATES, MOST_LEVELS = 500, 12, 100
LEARNED = 5_000
"""Rows that a learner chosen by rule is trained on at most."""
MOST_KNOWN = 8
"""Quasi-identifiers, as many as NIST's SDNIST report takes."""
COMMON = 0.9
"""A target of learning whose commonest value has a larger share leaves nothing to learn."""
_ROWS_OF_IDS = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class DefaultStudy:
    """A study that was chosen by rule."""

    study: Study
    notes: tuple[str, ...]  # What was chosen and left out, and why; names columns, never values


@dataclass(frozen=True, kw_only=True, slots=True)
class _Column:
    """What is seen of a column."""

    name: str
    kind: Kind
    n_values: int  # Distinct values, the blank not counted
    has_blanks: bool
    commonest: object  # The commonest value; None where all are blank
    share: float  # Its share of all rows, or that of the blank where it is larger
    is_id: bool  # Nearly every row has a value of its own
    n_tables: int  # Tables that have it
    width: int  # Columns of the widest of them

    @property
    def is_constant(self) -> bool:
        """Whether all rows are the same."""
        return self.n_values + self.has_blanks < 2


def default_study(
    original: pd.DataFrame, tables: Mapping[ColumnSet, Distinct], *, title: str
) -> DefaultStudy:
    """Choose a study by what the columns look like.

    tables: Synthetic tables; columns that the original lacks do not count.

    Returns: Columns in which nearly every row has a value of its own are left out of most sections, constant
    ones of those that they say nothing to.
    """
    seen = [
        _seen(original[name], sets)
        for name in original.columns
        if (sets := [columns for columns in tables if name in columns])
    ]
    ids = tuple(c.name for c in seen if c.is_id)
    used = [c for c in seen if not c.is_id]
    varied = [c for c in used if not c.is_constant]
    notes = _notes(seen, ids)
    ordered = tuple(c.name for c in varied if c.kind != "text")
    width = max((c.width for c in used), default=0)
    declared: dict[str, object] = {"title": title, "bins": _bins(used)}
    if used:
        declared |= {
            "univariate": Univariate(leave_out=ids),
            "marginals": Marginals(width=min(width, 3), leave_out=ids, most=MOST_MARGINALS),
            "propensity": Propensity(),
            "tables": Tables(leave_out=ids),
        }
    if len(varied) > 1:
        declared |= {
            "correlations": Correlations(columns=ordered),
            "components": Components(n=min(5, len(varied)), leave_out=_without(seen, varied)),
            "models": Models(leave_out=_without(seen, varied)),
        }
    if ordered:
        declared["distributions"] = Distributions(columns=ordered)
    declared["estimates"] = _estimates(varied)
    declared["learning"] = _learning(varied, notes)
    declared["risks"] = _risks(varied, notes)
    return DefaultStudy(study=Study.model_validate(declared), notes=tuple(notes))


def _seen(column: pd.Series, column_sets: Sequence[ColumnSet]) -> _Column:
    """Look at a column of the original."""
    kind = kind_of_column(column)
    filled = column.dropna()
    counted = filled.value_counts(sort=True) if len(filled) else pd.Series(dtype="int64")
    counted = counted[counted > 0]  # categories that no row has
    n_blank = len(column) - len(filled)
    largest = int(counted.iloc[0]) if len(counted) else 0
    return _Column(
        name=str(column.name),
        kind=kind,
        n_values=len(counted),
        has_blanks=n_blank > 0,
        commonest=counted.index[0] if len(counted) else None,
        share=max(largest, n_blank) / max(len(column), 1),
        is_id=_is_id(filled, kind, len(counted)),
        n_tables=len(column_sets),
        width=max(map(len, column_sets)),
    )


def _is_id(filled: pd.Series, kind: Kind, n_values: int) -> bool:
    """Texts mostly of one row each (names), and whole numbers of one row each; measured numbers may well be so."""
    if len(filled) < _ROWS_OF_IDS:
        return False
    if kind == "text":
        return 2 * n_values > len(filled)
    if kind == "time" or n_values < len(filled):
        return False
    return bool((filled.astype("float64") % 1 == 0).all())


def _notes(seen: Sequence[_Column], ids: Sequence[str]) -> list[str]:
    """What was chosen of all columns."""
    notes = ["no study was declared: columns are read, binned and aligned by what they look like"]
    if ids:
        notes.append(
            f"{', '.join(ids)}: nearly every row has a value of its own, left out of most measures"
        )
    if constant := [c.name for c in seen if c.is_constant and not c.is_id]:
        notes.append(f"{', '.join(constant)}: the same in all rows of the original")
    return notes


def _without(seen: Sequence[_Column], included: Sequence[_Column]) -> tuple[str, ...]:
    """Columns that are not among some others."""
    names = {c.name for c in included}
    return tuple(c.name for c in seen if c.name not in names)


def _bins(used: Sequence[_Column]) -> dict[str, Binning]:
    """Numbers and times of many values, in groups of equal share."""
    return {c.name: Binning(ranks=RANKS) for c in used if c.kind != "text" and c.n_values > FEW}


def _estimates(varied: Sequence[_Column]) -> tuple[Estimate, ...]:
    """Means of numbers, and shares of the commonest value of texts."""
    means = [
        Estimate(name=f"mean of {c.name}", kind="mean", column=c.name)
        for c in varied
        if c.kind == "number" and c.n_values
    ]
    shares = [
        Estimate(
            name=f"share of the commonest {c.name}",
            kind="share",
            column=c.name,
            value=str(c.commonest),
        )
        for c in varied
        if c.kind == "text" and c.n_values
    ]
    return (*means[:MOST_ESTIMATES], *shares[:MOST_ESTIMATES])


def _learning(varied: Sequence[_Column], notes: list[str]) -> tuple[Learning, ...]:
    """One task: a column of few values, none of them too common, in the widest table and in most tables."""
    if len(varied) < 2:
        return ()
    fitting = [
        c for c in varied if c.width > 1 and 2 <= c.n_values <= FEW // 2 and c.share <= COMMON
    ] or [c for c in varied if c.width > 1 and c.kind != "text" and c.n_values > FEW]
    if not fitting:
        notes.append("no column is fit to be learned from the others")
        return ()
    best = max(fitting, key=lambda c: (c.width, c.n_tables, -c.share, c.name))
    notes.append(
        f"learners predict {best.name}, which was chosen by rule, from at most {LEARNED:,} rows"
    )
    return (Learning(target=best.name, rows=LEARNED),)


def _risks(varied: Sequence[_Column], notes: list[str]) -> Attacker | None:
    """Known columns: those of 2 to 100 values that most tables have, at most half of all; the first ones of equals."""
    fitting = [c for c in varied if 2 <= c.n_values + c.has_blanks <= MOST_LEVELS]
    most = min(MOST_KNOWN, (len(varied) + 1) // 2, len(varied) - 1)
    known = sorted(fitting, key=lambda c: -c.n_tables)[: max(most, 0)]
    if not known:
        notes.append("no attack is run: no two columns that an attacker could know and want")
        return None
    names = tuple(c.name for c in varied if c in known)
    notes.append(
        f"an attacker is taken to know {', '.join(names)}, chosen by rule (columns of few values that most tables "
        "have); declare what an attacker can know of your people"
    )
    return Attacker(quasi_identifiers=names, targets=_without(varied, known))
