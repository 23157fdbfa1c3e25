"""The `Release` handle: SQL over the logical table, tables, cards, and noise intervals.

`queries.sql.session` answers, `queries.intervals` adds the intervals; this handle joins them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from engine.schema import literal
from queries.intervals import (
    Measure,
    Tabulation,
    annotated,
    differing,
    has_differs,
    has_replicates,
    marks_of,
    tabulate,
    with_replicates,
    with_statuses,
)
from queries.sql import TIMEOUT_S, Marks, Oversight, Result, Session

__all__ = ["TIMEOUT_S", "Release", "open_release"]
_JOINED = Marks(unknown=("it reads tables of one's own.",))


class Release(Session):
    """An open release; a context manager. Make one with `open_release`.

    Attributes
    ----------
    path : Path
        The file.
    timeout_s : float
        Seconds that a statement may take, from its plan to its rows.
    title, logical_name, vintage, mode, key_id, engine_version, content_hash : str
        As in `catalog.release`; statements ask over the table `logical_name`, mode is "sticky" or "dp".
    tables : tuple of ColumnSet
        The released tables, narrow ones first.
    columns : dict of str to str
        Columns of the logical table in the source's order, with their SQL types.
    labels : dict of str to str
        Their labels, for people; the name where there is none.
    notes : tuple of str
        How to read the release.
    unit, entity : Unit
        What a row is called, and whom the release protects: `.one`, `.many`, and other languages in `.words`.
    is_reviewed : bool
        A person says that what was detected in the data was looked at.
    unreviewed : dict of str to tuple of str
        Settings by column that were detected and that nobody reviewed.
    signature : Signature or None
        Of whoever signed it, and whether that was checked; see `engine.store.signature`.
    """

    def sql(
        self,
        text: str,
        *,
        tables: Mapping[str, Any] | None = None,
        intervals: bool = False,
        status: bool = False,
    ) -> Result:
        """Answer one SELECT-like statement; tables and errors as `Session.sql`.

        What is not released stands as [c] where the answer is shown; `.marks` has the status of every figure.
        `differs(a, b)` may be selected: see `queries.intervals.statement.differences`. `FROM replicates('age', 'sex')`
        reads copies of a table's counts: see `replicates`.

        Parameters
        ----------
        intervals : bool
            Add noise intervals and statuses: see `queries.intervals.statement.aggregates.annotated`.
        status : bool
            Add a column `<name>_status` after each figure whose status is known.
        """
        if has_replicates(text):
            text, tables = with_replicates(self, text, tables)
        if has_differs(text):
            told = differing(self, text, tables, intervals=intervals, status=status)
            if told is not None:
                return told
        if not intervals:
            result = super().sql(text, tables=tables)
            result.marked_by(lambda rows: _JOINED if tables else marks_of(self, text, result, rows))
            return with_statuses(result) if status else result
        return annotated(self, text, tables)

    def replicates(self, *columns: str) -> Result:
        """Return 48 copies of a released table's counts: rows of `replicate`, the columns, `count`.

        A figure reckoned on each copy has, over these, the standard deviation of its noise; how to use them, and for
        what not: queries/intervals/README.md. They are the same every time.

        Raises
        ------
        NotAnswerable
            There is no table of exactly these columns.
        QueryRefused
            The table has no copies (mode dp, modelled), too many rows, or is asked for by strangers.
        """
        listed = ", ".join(literal(name) for name in columns)
        return self.sql(f"FROM replicates({listed})")

    def tabulate(
        self,
        columns: Sequence[str],
        *,
        where: Mapping[str, Sequence[Any] | tuple[Any, Any]] | None = None,
        measure: Measure = "count",
        of: str | None = None,
        over: Sequence[str] = (),
        quantile: float = 0.5,
    ) -> Tabulation:
        """Tabulate one measure over groups with noise intervals: see `queries.intervals.tabulation.tabulate`."""
        return tabulate(
            self, columns, where=where, measure=measure, of=of, over=over, quantile=quantile
        )


def open_release(
    path: str | os.PathLike[str],
    *,
    verify: Literal["size", "hash"] = "size",
    threads: int = 2,
    memory: str = "2GB",
    timeout_s: float = TIMEOUT_S,
    oversight: Oversight | None = None,
    trust: str | os.PathLike[str] | None = None,
) -> Release:
    """Open a release for questions; parameters and errors as `Session.open`."""
    return Release.open(
        path,
        verify=verify,
        threads=threads,
        memory=memory,
        timeout_s=timeout_s,
        oversight=oversight,
        trust=trust,
    )
