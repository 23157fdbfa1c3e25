"""Records that cannot be: how many synthetic records break a declared rule.

Definition: the inconsistencies of SDNIST and of P. Francis, arXiv:2403.08463, section 4.8. Invariant: a rule that could
not be run is named, never counted as kept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import duckdb
import numpy as np
import pandas as pd
from pydantic import Field

from engine.errors import SpecError
from engine.evaluation.data.aligned import Aligned, Coded, Flags, compared, listed
from engine.evaluation.findings import Finding, Section, not_computed
from engine.schema import ColumnSet
from engine.source import memory_connection

NAME = "inconsistencies"
_ROW = "_row"


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
    # Columns are texts in the rules and a blank is this one; without it they have their types, and blanks are NULL.
    blank: str | None = None
    # Rule -> columns; the rule does not count in a table that has any of them.
    unless: dict[str, tuple[str, ...]] = Field(default_factory=dict)


def inconsistencies(aligned: Aligned, options: Inconsistencies) -> Finding:
    """Count synthetic records that break a rule, each rule on the smallest table that has its columns.

    A record of a table counts once for each group of rules.
    """
    placed: dict[tuple[str, ColumnSet], list[Rule]] = {}
    without: dict[str, str] = {}
    excepted: list[str] = []
    for rule in options.rules:
        table = compared(aligned, rule.columns)
        if isinstance(table, str):
            without[rule.name] = table
        elif set(options.unless.get(rule.name, ())) & set(table.columns):
            excepted.append(rule.name)
        else:
            placed.setdefault((rule.group, table.columns), []).append(rule)
    rows, by_width, strange = [], dict.fromkeys(("1", "2", "3", "more"), 0), []
    with _session() as con:
        for (group, columns), rules in placed.items():
            table = aligned.tables[columns]
            hits = {r.name: _breaking(con, aligned, table, r, options.blank) for r in rules}
            strange += [name for name, hit in hits.items() if hit is None]
            broken = {name: hit for name, hit in hits.items() if hit is not None}
            if broken:
                width = str(len(columns)) if len(columns) <= 3 else "more"
                by_width[width] += int(table.n[np.any(list(broken.values()), axis=0)].sum())
            place = ", ".join(columns)
            rows += [(group, name, place, int(table.n[hit].sum())) for name, hit in broken.items()]
    if not rows:
        return not_computed(NAME, _why_none(options, bool(placed), without))
    figures = {
        "records": sum(by_width.values()),
        **{f"records_of_{width}": n for width, n in by_width.items()},
        "rules": len(rows),
        "rules_without_table": len(without),
        "rules_not_computed": len(strange),
    }
    notes = []
    if without:
        notes.append(f"rules without a table of their columns: {listed(list(without))}")
    if excepted:
        notes.append(f"rules that the study excepts for their table: {listed(excepted)}")
    if strange:
        notes.append(
            f"not computed, as synthetic values are of other types than expected: {listed(strange)}"
        )
    whole = pd.DataFrame(rows, columns=["group", "rule", "table", "records"])
    return Finding(NAME, figures, whole, notes=notes)


def _why_none(options: Inconsistencies, is_placed: bool, without: dict[str, str]) -> str:
    if not options.rules:
        return "the study declares no rules"
    if is_placed:
        return "the synthetic values are of other types than every rule expects"
    if without:
        return f"no rule has a table: {next(iter(without.values()))}"
    return "every rule is excepted for the tables at hand"


@contextlib.contextmanager
def _session() -> Iterator[duckdb.DuckDBPyConnection]:
    """Where rules are run, on the rows alone."""
    with memory_connection() as con:
        con.execute("SET enable_external_access = false")
        yield con


def _breaking(
    con: duckdb.DuckDBPyConnection, aligned: Aligned, table: Coded, rule: Rule, blank: str | None
) -> Flags | None:
    """Which distinct rows of a table break a rule; None where their values are not what the rule expects."""
    unfit = (duckdb.Error, pd.errors.OutOfBoundsDatetime)
    with contextlib.suppress(*unfit):
        return _run(con, aligned, table, rule, blank)
    with _session() as own:  # a rule that failed before may have spoilt the session of all
        with contextlib.suppress(*unfit):
            return _run(own, aligned, table, rule, blank)
        try:
            _run(own, aligned, aligned.original, rule, blank)
        except duckdb.Error:
            raise SpecError(f"rule {rule.name}: is wrong SQL for its columns") from None
    return None


def _run(
    con: duckdb.DuckDBPyConnection, aligned: Aligned, table: Coded, rule: Rule, blank: str | None
) -> Flags:
    read = {c: _decoded(aligned, table, c, blank) for c in dict.fromkeys(rule.columns)}
    hit = np.zeros(len(table.n), np.bool_)
    con.register("decoded", pd.DataFrame({**read, _ROW: np.arange(len(table.n))}))
    try:
        # In WHERE, unlike in FILTER, DuckDB does not look behind an AND that is settled.
        breaking = con.execute(f"SELECT {_ROW} FROM decoded WHERE {rule.violated}").fetchnumpy()
    finally:
        con.unregister("decoded")
    hit[breaking[_ROW]] = True
    return hit


def _decoded(aligned: Aligned, table: Coded, column: str, blank: str | None) -> pd.Series:
    """A column's values again, with their types; as texts where blanks are spelled and the original has any."""
    values, codes = aligned.values[column], table.codes[column]
    has_blanks = bool((aligned.original.codes[column] == len(values)).any())
    is_number = np.issubdtype(values.dtype, np.floating)
    if blank is not None and has_blanks:
        texts = [f"{v:.15g}" if is_number else str(v) for v in values]
        return pd.Series(np.array([*texts, blank], dtype=object)[codes])
    if values.dtype == object:
        own = [values[code] for code in np.unique(codes) if code < len(values)]
        if not own or not all(isinstance(v, int | float) for v in own):
            known = np.array([*(str(v) for v in values), None], dtype=object)
            return pd.Series(known[codes], dtype=object)
        # This side has only numbers, the other has texts too.
        values, is_number = (
            np.array([v if isinstance(v, int | float) else np.nan for v in values]),
            True,
        )
    if is_number:
        whole = pd.Series(np.append(values, np.nan)).convert_dtypes()
        return whole.take(codes).reset_index(drop=True)
    return pd.Series(np.append(values, np.array(["NaT"], dtype=values.dtype))[codes])
