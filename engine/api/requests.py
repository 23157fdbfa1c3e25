"""Requests for tables from the custodian's side: what each would cost, and approving them.

Takes a release with its spec, source and key; gives prices, and the release with the requested table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine import release as releases
from engine.api.amend import addition, changed
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
        Combinations of values that would be released.
    suppressed_share : float
        Noisy share of the rows in other combinations.
    exposure, exposure_now : float
        Largest number of noisy figures per person of any group, with the table and without; including earlier builds.
    refused : str
        Why a build would be refused; empty if it would not.
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
    """Yield for each request what its table would cost, or why it cannot be added.

    Each is planned separately, in addition to the tables of the release. Errors as in `engine.plan`.
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
            now = _exposure(releases.plan(as_is, frame=frame, progress=progress))
        plan = releases.plan(change.spec, frame=frame, progress=progress)
        (made,) = change.tables
        table = next(t for t in plan.tables if t.columns == made)
        yield Price(
            cells=table.cells,
            suppressed_share=table.suppressed_share,
            exposure=_exposure(plan),
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
    """Add the table of a pending request to the release and to the text of its spec.

    Returns: The new release, and the tables that were added: none if the release had it already.

    Raises: As `engine.add`, or if no request of this number is pending; the request then stays pending.
    """
    request = waiting_request(release, read_requests(release), number)
    change = addition(release, [request.columns], spec, again=True)
    made = changed(change, frame=frame, progress=progress)
    settle_request(release, number, "added")
    return made, change.tables


def _exposure(plan: releases.Plan) -> float:
    """How often a secret of the most exposed is guessed right, including everything built before."""
    return plan.exposure.guessed
