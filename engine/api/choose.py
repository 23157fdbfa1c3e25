"""Tables of three columns chosen for a wide table, from what its release shows.

Takes a release and its spec; gives column sets that `add` can add. Left of the wall stands only what `plan` says of
them: whether the release would be more than its owner accepted.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from engine import release as releases
from engine.api.amend import addition
from engine.errors import SpecError
from engine.fit.wide import chosen_triples
from engine.params import MOST_CHOSEN
from engine.progress import Progress
from engine.schema import MAX_WIDTH, ColumnSet, Int64Array, column_set, quoted
from engine.spec import ReleaseSpec, amended
from engine.store import count_names, open_release
from queries.release import Release
from queries.release import open_release as opened_release


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """What would help a wide table.

    Attributes
    ----------
    wide : ColumnSet
    target : str or None
        The column whose tables came first.
    tables : tuple of ColumnSet
        Of three columns, the most helpful first.
    left_out : int
        So many more were chosen, but would bring the release over its owner's bound.
    """

    wide: ColumnSet
    target: str | None
    tables: tuple[ColumnSet, ...]
    left_out: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "wide": list(self.wide),
            "target": self.target,
            "tables": [list(table) for table in self.tables],
            "left_out": self.left_out,
        }

    def sentences(self) -> list[str]:
        """What people read."""
        first = f", those with {self.target} first" if self.target else ""
        out = [
            f"{len(self.tables)} tables of three columns chosen for the wide table of {len(self.wide)} columns{first}"
        ]
        if self.left_out:
            out.append(
                f"{self.left_out} more were left out: with them the release would tell more than its owner accepted"
            )
        return out


def choose(
    release: Release | str | Path,
    most: int | None = None,
    *,
    columns: ColumnSet | list[str] | None = None,
    target: str | None = None,
    spec: ReleaseSpec | str | Path | None = None,
    frame: Any = None,
    progress: Progress | None = None,
) -> Choice:
    """Choose tables of three columns that help a wide table most; nothing is added.

    Parameters
    ----------
    release : Release, str or Path
    most : int, optional
        So many tables at most; by default what the spec's `max_added` leaves beside the pairs, or `MOST_CHOSEN`.
    columns : sequence of str, optional
        The wide table; needed where the release has several.
    target : str, optional
        Tables with this column come first; by default the target that the spec gives the table.
    spec, frame
        As in `add`.

    Raises
    ------
    SpecError
        The release has no such wide table, or `most` is below 0 or beyond what `max_added` leaves.
    DataError, StoreError
        As `plan`.
    """
    path = Path(release.path if isinstance(release, Release) else release)
    if most is not None and most < 0:
        raise SpecError(f"most: wants 0 or more, not {most}")
    given = addition(path, [], spec, again=True).spec
    tables = _tables_of(path)
    wide = _wide(path, tables, columns)
    room = _room(path, given, wide)
    if most is not None and room is not None and most > room:
        raise SpecError(
            f"most: {most:,}, but max_added of the wide table leaves {room:,} beside its tables of two columns"
        )
    most = most if most is not None else MOST_CHOSEN if room is None else room
    target = target or given.targets.get(wide)
    if target is not None and target not in wide:
        raise SpecError(
            f"target: {target!r} is not a column of the wide table; it has {', '.join(wide)}"
        )
    codes, n = _codes(path, wide, tables[wide])
    # What is added is measured with the tables that the spec lists, built or not.
    known = [t for t in {*tables, *given.tables} if 3 <= len(t) <= MAX_WIDTH]
    chosen = chosen_triples(wide, codes, n, most=most, known=known, target=target)
    kept = _within_bounds(given, chosen, frame, progress)
    return Choice(wide=wide, target=target, tables=chosen[:kept], left_out=len(chosen) - kept)


def _room(path: Path, spec: ReleaseSpec, wide: ColumnSet) -> int | None:
    """How many tables `max_added` leaves for choosing; None: it says nothing."""
    wish = spec.wishes.get(wide)
    if wish is None or wish.max_added is None:
        return None
    with opened_release(path) as found:
        pairs = int(found.card(*wide).wide["pairs"])
    inside = [t for t in spec.tables if len(t) <= MAX_WIDTH]
    listed = {pair for table in inside for pair in combinations(sorted({*table} & {*wide}), 2)}
    return max(wish.max_added - max(pairs - len(listed), 0), 0)


def _within_bounds(
    spec: ReleaseSpec, chosen: tuple[ColumnSet, ...], frame: Any, progress: Progress | None
) -> int:
    """How many of the tables, from the first, a build would not refuse: more tables never tell less."""
    fits, over = 0, len(chosen) + 1
    tried = len(chosen)
    while over - fits > 1:
        more = releases.plan(amended(spec, more=chosen[:tried]), frame=frame, progress=progress)
        if more.refused:
            over = tried
        else:
            fits = tried
        tried = (fits + over) // 2
    return fits


def _tables_of(path: Path) -> dict[ColumnSet, str]:
    """The tables of a release, with their names in the file."""
    con, _ = open_release(path)
    with con:
        rows = con.execute("SELECT columns, physical FROM catalog.tables").fetchall()
    return {tuple(columns): physical for columns, physical in rows}


def _wide(
    path: Path, tables: dict[ColumnSet, str], columns: ColumnSet | list[str] | None
) -> ColumnSet:
    """The wide table that is meant."""
    there = sorted(table for table in tables if len(table) > MAX_WIDTH)
    if columns is not None:
        wide = column_set(columns)
        if wide not in there:
            raise SpecError(f"{path}: has no wide table of {', '.join(wide)}")
        return wide
    if len(there) != 1:
        raise SpecError(
            f"{path}: has {len(there)} tables of more than {MAX_WIDTH} columns: say which one by its columns"
            if there
            else f"{path}: has no table of more than {MAX_WIDTH} columns; others are measured, not modelled"
        )
    return there[0]


def _codes(path: Path, wide: ColumnSet, physical: str) -> tuple[list[Int64Array], Int64Array]:
    """Of each column the place of every row's value among its own, and the rows' number."""
    places = ", ".join(
        f"dense_rank() OVER (ORDER BY {quoted(name)} NULLS FIRST) - 1 AS c{j}"
        for j, name in enumerate(wide)
    )
    count, _ = count_names(wide)
    con, _ = open_release(path)
    with con:
        found = con.execute(
            f"SELECT {places}, {quoted(count)} AS n_rows FROM tables.{physical}"
        ).fetchnumpy()
    codes = [np.asarray(found[f"c{j}"]).astype(np.int64) for j in range(len(wide))]
    return codes, np.asarray(found["n_rows"]).astype(np.int64)
