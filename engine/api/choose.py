"""Choose tables of three columns that improve a wide table, from the released tables.

Takes a release and its spec; gives column sets for `add`. The data are read only by `plan`, to check that the release
would stay within its exposure bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    """Tables that would improve a wide table.

    Attributes
    ----------
    wide : ColumnSet
        The wide table.
    target : str or None
        The column whose tables were preferred.
    tables : tuple of ColumnSet
        Tables of three columns, most useful first.
    left_out : int
        Number of further tables that would exceed the exposure bounds.
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
        """A summary in sentences."""
        n, first = len(self.tables), f", those with {self.target} first" if self.target else ""
        out = [
            f"{n} table{'' if n == 1 else 's'} of three columns chosen for the wide table of {len(self.wide)} "
            f"columns{first}"
        ]
        if self.left_out:
            more = "1 more was" if self.left_out == 1 else f"{self.left_out} more were"
            out.append(f"{more} left out, as the release would exceed its exposure bounds")
        return out


def choose(
    release: Release | str | Path,
    most: int | None = None,
    *,
    columns: Sequence[str] | None = None,
    target: str | None = None,
    spec: ReleaseSpec | str | Path | None = None,
    frame: Any = None,
    progress: Progress | None = None,
) -> Choice:
    """Choose the tables of three columns that would improve a wide table most; nothing is added.

    Parameters
    ----------
    release : Release, str or Path
        As in `add`.
    most : int, optional
        Maximum number of tables.

        By default what the spec's `max_added` leaves after the pairs, or `MOST_CHOSEN`.
    columns : sequence of str, optional
        Columns of the wide table; needed if there are several.
    target : str, optional
        Prefer tables with this column; by default the target in the spec.
    spec, frame
        As in `add`.

    Returns
    -------
    Choice
        Its `tables` can be given to `add`.

    Raises
    ------
    SpecError
        The release has no such wide table, or `most` is below 0 or more than `max_added` leaves.
    DataError, StoreError
        As in `plan`.
    """
    path = Path(release.path if isinstance(release, Release) else release)
    if most is not None and most < 0:
        raise SpecError(f"most: must be at least 0, not {most}")
    given = addition(path, [], spec, again=True).spec
    tables = _tables_of(path)
    wide = _wide(path, tables, columns)
    room = _room(path, given, wide)
    if most is not None and room is not None and most > room:
        raise SpecError(
            f"most: {most:,}, but max_added of the wide table leaves {room:,} after its tables of two columns"
        )
    most = most if most is not None else MOST_CHOSEN if room is None else room
    target = target or given.targets.get(wide)
    if target is not None and target not in wide:
        raise SpecError(
            f"target: {target!r} is not a column of the wide table; it has {', '.join(wide)}"
        )
    counts, implied = _counts(path, wide, tables[wide])
    # New tables are measured together with all tables of the spec, built or not.
    known = [t for t in {*tables, *given.tables} if 3 <= len(t) <= MAX_WIDTH]
    base = tuple(name for name in wide if name not in implied)
    privacy = given.counted
    chosen = chosen_triples(
        base,
        [counts[name] for name in base],
        threshold=privacy.threshold_mean,
        noise_sd=privacy.noise_sd,
        most=most,
        known=known,
        target=implied.get(target, target) if target else None,
    )
    kept = _within_bounds(given, chosen, frame, progress)
    return Choice(wide=wide, target=target, tables=chosen[:kept], left_out=len(chosen) - kept)


def _room(path: Path, spec: ReleaseSpec, wide: ColumnSet) -> int | None:
    """How many tables `max_added` leaves to choose; None: it is not set."""
    options = spec.wide_options.get(wide)
    if options is None or options.max_added is None:
        return None
    with opened_release(path) as found:
        pairs = int(found.card(*wide).wide["pairs"])
    inside = [t for t in spec.tables if len(t) <= MAX_WIDTH]
    listed = {pair for table in inside for pair in combinations(sorted({*table} & {*wide}), 2)}
    return max(options.max_added - max(pairs - len(listed), 0), 0)


def _within_bounds(
    spec: ReleaseSpec, chosen: tuple[ColumnSet, ...], frame: Any, progress: Progress | None
) -> int:
    """How many of the tables, in order, a build would accept: exposure never falls with more tables."""
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


def _wide(path: Path, tables: dict[ColumnSet, str], columns: Sequence[str] | None) -> ColumnSet:
    """The wide table to improve."""
    there = sorted(table for table in tables if len(table) > MAX_WIDTH)
    if columns is not None:
        wide = column_set(columns)
        if wide not in there:
            raise SpecError(f"{path}: has no wide table of {', '.join(wide)}")
        return wide
    if len(there) != 1:
        raise SpecError(
            f"{path}: has {len(there)} tables of more than {MAX_WIDTH} columns; choose one by its columns"
            if there
            else f"{path}: has no table of more than {MAX_WIDTH} columns, and narrower ones are not modelled"
        )
    return there[0]


def _counts(
    path: Path, wide: ColumnSet, physical: str
) -> tuple[dict[str, Int64Array], dict[str, str]]:
    """By column the rows of its values in order; and columns that another one implies, with that one."""
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
    n = np.asarray(found["n_rows"])
    codes = {name: np.asarray(found[f"c{j}"]).astype(np.int64) for j, name in enumerate(wide)}
    counts = {name: np.bincount(code, weights=n).astype(np.int64) for name, code in codes.items()}
    implied: dict[str, str] = {}
    by_size = sorted(wide, key=lambda name: (-len(counts[name]), name))
    for finer, coarser in combinations(by_size, 2):  # so that the finest stands for all others
        both = len(np.unique(codes[finer] * len(counts[coarser]) + codes[coarser]))
        if both == len(counts[finer]) and finer not in implied:
            implied.setdefault(coarser, finer)
    return counts, implied
