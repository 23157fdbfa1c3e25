"""Requests for tables, as the custodian sees them: what each would cost, and what becomes of it.

Takes a release with its spec, source and key; gives prices, and the release with a table more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine import release as releases
from engine.api.amend import addition
from engine.api.built import changed
from engine.errors import SpecError
from engine.progress import Progress
from engine.schema import ColumnSet
from engine.spec import ReleaseSpec
from queries.release import Release
from queries.requests import TableRequest, read_requests, settle_request, waiting_request


@dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """What a table would cost.

    Attributes
    ----------
    cells : int
        Combinations of values that would be released as such.
    suppressed_share : float
        Noisy share of the rows outside of them.
    exposure, exposure_now : float
        Most noisy figures a person in any group, by the release with the table and as it is; builds before counted.
    refused : str
        Why a build would be refused; empty: it would not.
    """

    cells: int
    suppressed_share: float
    exposure: float
    exposure_now: float
    refused: str = ""


def prices(
    release: Path,
    requests: tuple[TableRequest, ...],
    *,
    spec: ReleaseSpec | str | Path | None = None,
    frame: Any = None,
    progress: Progress | None = None,
) -> Iterator[Price | str]:
    """Say of each request what its table would cost, or why it cannot be added.

    Each is planned by itself, beside what the release has.

    Raises
    ------
    SpecError, DataError, StoreError
        As `engine.plan`, of the release as it is.
    """
    now: float | None = None
    for request in requests:
        try:
            change = addition(release, [request.columns], spec)
        except SpecError as error:
            yield str(error)
            continue
        if now is None:
            kept = tuple(t for t in change.spec.tables if t not in change.tables)
            as_is = replace(change.spec, tables=kept)
            now = _told(releases.plan(as_is, frame=frame, progress=progress))
        plan = releases.plan(change.spec, frame=frame, progress=progress)
        (made,) = change.tables
        table = next(t for t in plan.tables if t.columns == made)
        yield Price(
            cells=table.cells,
            suppressed_share=table.suppressed_share,
            exposure=_told(plan),
            exposure_now=now,
            refused=" ".join(plan.refused[:2]),
        )


def approve(
    release: Path,
    number: int,
    *,
    spec: ReleaseSpec | str | Path | None = None,
    frame: Any = None,
    progress: Progress | None = None,
) -> tuple[Release, tuple[ColumnSet, ...]]:
    """Add the table of a request that waits, to the release and to the text of its spec.

    Returns
    -------
    Release, tuple of ColumnSet
        The new release, and what was added: nothing, where it was there already.

    Raises
    ------
    SpecError, DataError, PrivacyError, StoreError
        As `engine.add`; or no request of this number waits. Then it goes on waiting.
    """
    request = waiting_request(release, read_requests(release), number)
    change = addition(release, [request.columns], spec, again=True)
    made = changed(change, frame=frame, progress=progress)
    settle_request(release, number, "added")
    return made, change.tables


def _told(plan: releases.Plan) -> float:
    """Most figures a person by a plan's tables and all that was built before."""
    return max(plan.exposure.together.values(), default=0.0)
