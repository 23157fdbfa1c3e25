"""The `Release` handle: SQL over the logical table, tables, cards, and noise intervals.

`queries.sql.session` answers, `queries.intervals` adds the intervals; this handle combines them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from engine.schema import MEMORY, literal
from queries.intervals import (
    Measure,
    Tabulation,
    annotated,
    differing,
    marks_of,
    tabulate,
    without_functions,
)
from queries.sql import TIMEOUT_S, Oversight, Result, Session

__all__ = ["TIMEOUT_S", "Release", "open_release"]


class Release(Session):
    """An open release; a context manager. Create one with `open_release`.

    Attributes
    ----------
    path : Path
        The file.
    timeout_s : float
        Time limit of a statement in seconds, from planning to the last row.
    title, logical_name, vintage, mode, key_id, engine_version, content_hash : str
        As in `catalog.release`. Statements query the table `logical_name`; mode is "sticky" or "dp".
    tables : tuple of ColumnSet
        The released tables, narrow ones first.
    columns : dict of str to str
        Columns of the logical table in the source's order, with their SQL types.
    labels : dict of str to str
        Labels of the columns; the name if a column has none.
    notes : tuple of str
        How to read the release.
    weight : str or None
        The column of survey weights; `weighted_count()` adds them up.
    unit, entity : Unit
        Names of a row and of the protected entity: `.one`, `.many`, and other languages in `.words`.
    is_reviewed : bool
        Whether settings that were detected in the data were reviewed by a person.
    unreviewed : dict of str to tuple of str
        Detected settings that were not reviewed, by column.
    signature : Signature or None
        The signature and whether it was verified; see `engine.store.signature`.

    Examples
    --------
    >>> with open_release("census.duckdb") as release:
    ...     print(release.sql("SELECT sex, count(*) FROM data GROUP BY sex", intervals=True))
    """

    def sql(
        self,
        text: str,
        *,
        tables: Mapping[str, Any] | None = None,
        intervals: bool = False,
        status: bool = False,
    ) -> Result:
        """Answer one read-only statement.

        Figures that are not released are shown as [c]; `.marks` of the result has the status of every figure.
        `differs(a, b)` may be selected: see `queries.intervals.statement.functions`. `FROM replicates('age', 'sex')`
        reads replicates of a table's counts: see `replicates`. `weighted_count()` adds up the survey weights that the
        spec names.

        Parameters
        ----------
        text : str
            One statement in DuckDB's SQL: SELECT, FROM, WITH, PIVOT, SUMMARIZE, DESCRIBE and the like.
        tables : mapping of str to frame or path, or None
            Your own tables to join with, as in `Session.sql`.
        intervals : bool
            Add noise intervals and statuses where available.

            See `queries.intervals.statement.aggregates.annotated`.
        status : bool
            Add a column NAME_status after each figure (reliable, low, unreliable, not released).

        Returns
        -------
        Result
            The rows, with the table that answered and its noise.

        Raises
        ------
        QueryRefused, NotAnswerable, StoreError
            As `Session.sql`.
        """
        text, tables, places = without_functions(self, text, tables)
        if places:
            return differing(self, text, places, tables, intervals=intervals, status=status)
        if intervals:
            return annotated(self, text, tables)
        if status:
            return annotated(self, text, tables, shown=("status",))
        result = super().sql(text, tables=tables)
        result.marked_by(lambda rows: marks_of(self, text, result, rows, tables))
        return result

    def replicates(self, *columns: str) -> Result:
        """Return the replays of a released table: rows of what the data may have been, and of a release of these.

        For use and limits see queries/intervals/README.md. Replays are the same at every call.

        Parameters
        ----------
        *columns : str
            The columns of the table.

        Returns
        -------
        Result
            Rows of `replicate`, the columns, `imagined` and `count`.

        Raises
        ------
        NotAnswerable
            There is no table of exactly these columns.
        QueryRefused
            The table has no replays, as wide ones, or they take too long.
        """
        listed = ", ".join(literal(name) for name in columns)
        return self.sql(f"FROM replicates({listed})")

    def tabulate(
        self,
        columns: Sequence[str] = (),
        *,
        rows: Sequence[str] = (),
        where: Mapping[str, Sequence[Any] | tuple[Any, Any]] | None = None,
        measure: Measure = "count",
        of: str | None = None,
        over: Sequence[str] = (),
        quantile: float = 0.5,
    ) -> Tabulation:
        """Tabulate one measure over groups, with noise intervals.

        Parameters
        ----------
        columns : sequence of str
            Columns whose combinations of values are the groups.
        rows, where, measure, of, over, quantile
            As `queries.intervals.tabulation.tabulate`.

        Returns
        -------
        Tabulation
            Groups with value, interval and status.
        """
        return tabulate(
            self,
            columns,
            rows=rows,
            where=where,
            measure=measure,
            of=of,
            over=over,
            quantile=quantile,
        )


def open_release(
    path: str | os.PathLike[str],
    *,
    verify: Literal["size", "hash"] = "size",
    threads: int = 2,
    memory: str = MEMORY,
    timeout_s: float = TIMEOUT_S,
    oversight: Oversight | None = None,
    trust: str | os.PathLike[str] | None = None,
) -> Release:
    """Open a release for queries.

    Parameters
    ----------
    path : path-like
        The release file.
    verify, threads, memory, timeout_s, oversight, trust
        As `Session.open`.

    Returns
    -------
    Release
        A context manager; close it when done.

    Raises
    ------
    StoreError, DamagedRelease, UntrustedRelease
        As `Session.open`.
    """
    return Release.open(
        path,
        verify=verify,
        threads=threads,
        memory=memory,
        timeout_s=timeout_s,
        oversight=oversight,
        trust=trust,
    )
