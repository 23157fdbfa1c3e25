"""Records that cannot be: how many synthetic records break a declared rule.

Takes a `Paired` and a section of a study; gives a `Score`. Definition: the inconsistencies of SDNIST and of P.
Francis, arXiv:2403.08463, section 4.8. Invariant: a rule that could not be run is named, never counted as kept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import duckdb
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field

from engine.errors import SpecError
from engine.evaluation.data.paired import Coded, Paired, covering
from engine.evaluation.data.words import lacking, listed
from engine.evaluation.score import Score, Section, not_computed
from engine.schema import ColumnSet
from engine.source import memory_connection

NAME = "inconsistencies"
_ROW = "_row"
Flags = NDArray[np.bool_]


class Rule(Section):
    """Something that never is: DuckDB SQL over `columns`, true where a record is impossible; counted in `group`."""

    name: str
    columns: tuple[str, ...]
    violated: str
    group: str = "all"


class Inconsistencies(Section):
    """Rules, and how they spell a blank."""

    file: str | None = None  # JSON list of rules, relative to the study
    rules: tuple[Rule, ...] = ()  # Rules; those of `file` are added
    # Columns are texts in the rules and a blank is this one; without it they have their types, and blanks
    # are NULL.
    blank: str | None = None
    # Rule -> columns; the rule does not count in a table that has any of them.
    unless: dict[str, tuple[str, ...]] = Field(default_factory=dict)


@dataclass(kw_only=True, slots=True)
class _Placed:
    """Rules by group and table, and why others are not run."""

    rules: dict[tuple[str, ColumnSet], list[Rule]] = field(default_factory=dict)
    without: dict[str, str] = field(default_factory=dict)
    excepted: list[str] = field(default_factory=list)


def inconsistencies(paired: Paired, section: Inconsistencies) -> Score:
    """Count synthetic records that break a rule, each rule on the smallest table that has its columns.

    A record of a table counts once for each group of rules.
    """
    placed = _placed(paired, section)
    rows, by_width, strange = [], dict.fromkeys(("1", "2", "3", "more"), 0), []
    for (group, columns), hits in _hits(paired, placed, section.blank).items():
        table = paired.tables[columns]
        strange += [name for name, hit in hits.items() if hit is None]
        broken = {name: hit for name, hit in hits.items() if hit is not None}
        if broken:
            width = str(len(columns)) if len(columns) <= 3 else "more"
            by_width[width] += int(table.n[np.any(list(broken.values()), axis=0)].sum())
        rows += [
            (group, name, ", ".join(columns), int(table.n[hit].sum()))
            for name, hit in broken.items()
        ]
    if not rows:
        return not_computed(NAME, _why_none(section, placed))
    values = {
        "records": float(sum(by_width.values())),
        **{f"records_of_{width}": float(n) for width, n in by_width.items()},
        "rules": float(len(rows)),
        "rules_without_table": float(len(placed.without)),
        "rules_not_computed": float(len(strange)),
    }
    whole = pd.DataFrame(rows, columns=["group", "rule", "table", "records"])
    return Score(measure=NAME, values=values, breakdown=whole, notes=_notes(placed, strange))


def _placed(paired: Paired, section: Inconsistencies) -> _Placed:
    """Find each rule its table."""
    out = _Placed()
    for rule in section.rules:
        table = covering(paired, rule.columns)
        why = lacking(paired, rule.columns)
        if table is None or why is not None:
            out.without[rule.name] = why or "no table has its columns"
        elif set(section.unless.get(rule.name, ())) & set(table.columns):
            out.excepted.append(rule.name)
        else:
            out.rules.setdefault((rule.group, table.columns), []).append(rule)
    return out


def _why_none(section: Inconsistencies, placed: _Placed) -> str:
    """Why no rule was run."""
    if not section.rules:
        return "the study declares no rules"
    if placed.rules:
        return "the synthetic values are of other types than every rule expects"
    if placed.without:
        return f"no rule has a table: {next(iter(placed.without.values()))}"
    return "every rule is excepted for the tables at hand"


def _notes(placed: _Placed, strange: list[str]) -> tuple[str, ...]:
    """Which rules were not run, and why."""
    notes = []
    if placed.without:
        notes.append(f"rules without a table of their columns: {listed(list(placed.without))}")
    if placed.excepted:
        notes.append(f"rules that the study excepts for their table: {listed(placed.excepted)}")
    if strange:
        notes.append(
            f"not computed, as synthetic values are of other types than expected: {listed(strange)}"
        )
    return tuple(notes)


def _hits(
    paired: Paired, placed: _Placed, blank: str | None
) -> dict[tuple[str, ColumnSet], dict[str, Flags | None]]:
    """Which distinct rows break each rule: `_breaking`, by group and table, and by name; in one session for all."""
    with _session() as con:
        return {
            (group, columns): {
                rule.name: _breaking(con, paired, paired.tables[columns], rule, blank)
                for rule in rules
            }
            for (group, columns), rules in placed.rules.items()
        }


def _breaking(
    con: duckdb.DuckDBPyConnection, paired: Paired, table: Coded, rule: Rule, blank: str | None
) -> Flags | None:
    """Which distinct rows of a table break a rule; None where their values are not what the rule expects."""
    with contextlib.suppress(duckdb.Error, pd.errors.OutOfBoundsDatetime):
        return _run(con, paired, table, rule, blank)
    with _session() as own:  # a rule that failed before may have spoilt the session of all
        with contextlib.suppress(duckdb.Error, pd.errors.OutOfBoundsDatetime):
            return _run(own, paired, table, rule, blank)
        try:
            _run(own, paired, paired.original, rule, blank)
        except duckdb.Error:
            raise SpecError(f"rule {rule.name}: is wrong SQL for its columns") from None
    return None


@contextlib.contextmanager
def _session() -> Iterator[duckdb.DuckDBPyConnection]:
    """Where rules are run, on the rows alone."""
    with memory_connection() as con:
        con.execute("SET enable_external_access = false")
        yield con


def _run(
    con: duckdb.DuckDBPyConnection, paired: Paired, table: Coded, rule: Rule, blank: str | None
) -> Flags:
    """Which distinct rows of a table break a rule."""
    columns = list(dict.fromkeys(rule.columns))
    read = {c: _decoded(paired, table, c, blank) for c in columns}
    hit = np.zeros(len(table.n), np.bool_)
    con.register("decoded", pd.DataFrame({**read, _ROW: np.arange(len(table.n))}))
    try:
        # In WHERE, unlike in FILTER, DuckDB does not look behind an AND that is settled.
        breaking = con.execute(f"SELECT {_ROW} FROM decoded WHERE {rule.violated}").fetchnumpy()
    finally:
        con.unregister("decoded")
    hit[breaking[_ROW]] = True
    return hit


def _decoded(paired: Paired, table: Coded, column: str, blank: str | None) -> pd.Series:
    """A column's values again, with their types; as texts where blanks are spelled and the original has any."""
    values, codes = paired.values[column], table.codes[column]
    has_blanks = bool((paired.original.codes[column] == len(values)).any())
    is_number = np.issubdtype(values.dtype, np.floating)
    if blank is not None and has_blanks:
        texts = [f"{v:.15g}" if is_number else str(v) for v in values]
        return pd.Series(np.array([*texts, blank], dtype=object)[codes])
    if values.dtype == object:
        return _as_is(values, codes)
    if is_number:
        whole = pd.Series(np.append(values, np.nan)).convert_dtypes()
        return whole.take(codes).reset_index(drop=True)
    return pd.Series(np.append(values, np.array(["NaT"], dtype=values.dtype))[codes])


def _as_is(values: NDArray[np.generic], codes: NDArray[np.int32]) -> pd.Series:
    """A column of objects: as numbers where this side has only such (the other has texts too), else as texts."""
    own = [values[code] for code in np.unique(codes) if code < len(values)]
    if own and all(isinstance(v, int | float) for v in own):
        numbers = [float(v) if isinstance(v, int | float) else np.nan for v in values]
        whole = pd.Series([*numbers, np.nan]).convert_dtypes()
        return whole.take(codes).reset_index(drop=True)
    texts = np.array([*(str(v) for v in values), None], dtype=object)
    return pd.Series(texts[codes], dtype=object)
