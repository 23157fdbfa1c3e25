"""The `Release` handle: SQL over the logical table, tables, cards, and noise intervals.

`queries.sql.session` answers, `queries.intervals` adds the intervals; this handle combines them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

import engine.store.opening
from engine.schema import MEMORY, literal
from engine.store import read_signature
from queries.intervals import (
    annotated,
    differing,
    marks_of,
    without_functions,
)
from queries.intervals import tabulate as tabulated
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

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        verify: Literal["size", "hash"] = "size",
        threads: int = 2,
        memory: str = MEMORY,
        timeout_s: float = TIMEOUT_S,
        oversight: Oversight | None = None,
        trust: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Open a release for queries.

        Parameters
        ----------
        path : path-like
            The release file; its manifest must be next to it.
        verify : str
            "size" checks only the size of files of 64 MB or more; "hash" reads all of every file.
        threads : int
            Threads shared by all statements of this handle.
        memory : str
            Memory limit of all statements, and of one answer as Python objects; nothing is spilled to disk.
        timeout_s : float
            Time limit of a statement in seconds.
        oversight : Oversight or None
            Restrictions on statements of untrusted users.
        trust : path-like or None
            File with a public key: a release that is not signed with it is refused.

        Returns
        -------
        Release
            A context manager; close it when done.

        Raises
        ------
        StoreError
            There is no such release.
        DamagedRelease
            It does not match its manifest, or contains anything that tablepack does not write.
        UntrustedRelease
            It is not signed with the trusted key.
        """
        con, record = engine.store.opening.open_release(
            path, verify=verify, threads=threads, memory=memory, trust=trust
        )
        try:
            signature = read_signature(Path(path))
            if signature is not None:
                signature = replace(signature, is_checked=trust is not None)
            return cls(
                Path(path),
                con,
                record=record,
                verify="hash" if trust is not None else verify,
                timeout_s=timeout_s,
                oversight=oversight,
                signature=signature,
            )
        except BaseException:
            con.close()
            raise

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

    tabulate = tabulated


open_release = Release.open
