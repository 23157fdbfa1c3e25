"""Is this good enough for ...? What a release can be used for, and its largest distortions in words.

Takes lines of figures and a `Result`; gives `Use`s and `Distortion`s. CONFIDENTIAL: true figures are in them.
Invariant: distortions are ranked by one size, the share of the whole that is off, and each names what is shown and what
is true.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from engine.evaluation.findings import TITLES
from engine.evaluation.report.grids import cell
from engine.evaluation.report.pictures import (
    Names,
    NothingToDraw,
    breakdown,
    group_names,
    misplaced_by_column,
    numbers,
)
from engine.evaluation.report.verdicts import Line, Verdict
from engine.evaluation.result import Result

MOST = 10
MOST_OF_A_KIND = 5
"""So that one kind of distortion does not hide the others."""
USES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("counting values of one column", ("univariate",)),
    ("tables of two and more columns", ("tables", "marginals", "density_rmse")),
    ("how two columns go together", ("correlations",)),
    ("distributions of amounts", ("distributions", "ranges")),
    ("means, shares and slopes with their intervals", ("estimates", "regression")),
    ("differences between groups", ("gaps",)),
    ("training a model on it", ("learning",)),
    ("records that look real one by one", ("propensity", "models", "components", "inconsistencies")),
)  # fmt: skip
"""What people do with tables, and the measures that are about it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Use:
    """Something that people do with tables, and whether the release is good enough for it."""

    what: str
    verdict: Verdict
    why: str  # The figure that decides, or why nothing does


@dataclass(frozen=True, kw_only=True, slots=True)
class Distortion:
    """Something that a release shows otherwise than it is."""

    size: float  # Share of the whole that is off: 0 to 1
    kind: str
    words: str


def uses(own_lines: Sequence[Line]) -> list[Use]:
    """Return what the headline figures say of each use: the worst of them decides."""
    found = []
    for what, measures in USES:
        mine = [x for x in own_lines if x.measure in measures and x.figure.is_headline]
        computed = [line for line in mine if line.value is not None]
        order: tuple[Verdict, ...] = ("poor", "fair", "good", "only stated")
        decides = min(computed, key=lambda line: order.index(line.verdict), default=None)
        if decides is not None:
            value = f"{decides.value:.{decides.figure.digits}f}"
            limit = f" ({decides.threshold})" if decides.threshold else ""
            why = f"{decides.title}: {value}{limit}"
            found.append(Use(what=what, verdict=decides.verdict, why=why))
        elif mine:
            titles = ", ".join(dict.fromkeys(TITLES.get(line.measure, "") for line in mine))
            found.append(Use(what=what, verdict="not computed", why=f"{titles}: {mine[0].why}"))
    return found


def distortions(result: Result, names: Names) -> list[Distortion]:
    """Return the largest distortions, by the share of the whole that is off."""
    found: list[Distortion] = []
    for of_kind in (_columns, _correlations, _groups, _estimates, _slopes):
        try:
            found += islice(of_kind(result, names), MOST_OF_A_KIND)
        except NothingToDraw:
            continue  # its measure did not run
    return sorted((d for d in found if d.size > 0), key=lambda d: -d.size)[:MOST]


def _columns(result: Result, names: Names) -> Iterator[Distortion]:
    """Rows in the wrong value of a column, and the value that is furthest off."""
    frame = breakdown(result, "univariate", ["column", "label", "original", "synthetic"])
    for column, share in misplaced_by_column(frame).items():
        mine = frame[frame["column"] == column]
        off = np.abs(numbers(mine["synthetic"]) - numbers(mine["original"]))
        worst = mine.iloc[int(off.argmax())]
        value = names.value(str(column), worst["label"])
        words = (
            f"{names.column(str(column))}: {_percent(share)} of the rows are in a wrong value; furthest off: {value}, "
            f"shown {cell(worst['synthetic'])}, true {cell(worst['original'])}."
        )
        yield Distortion(size=float(share), kind="counts", words=words)


def _correlations(result: Result, names: Names) -> Iterator[Distortion]:
    """Rank correlations; half of the difference is a share of the range from -1 to 1."""
    frame = breakdown(result, "correlations", ["first", "second", "original", "synthetic"])
    shown, true = numbers(frame["synthetic"]), numbers(frame["original"])
    for i in _largest(np.abs(shown - true)):
        pair = " and ".join(names.column(str(frame[c].iloc[i])) for c in ("first", "second"))
        words = (
            f"{pair}: rank correlation (Kendall's tau) shown {shown[i]:.3f}, true {true[i]:.3f}."
        )
        yield Distortion(size=abs(shown[i] - true[i]) / 2, kind="correlation", words=words)


def _groups(result: Result, names: Names) -> Iterator[Distortion]:
    """Groups (places) whose combinations are furthest off; half the distance is the share of people misplaced."""
    score = result.scores.get("marginals")
    frame = None if score is None else score.more.get("by_group")
    if frame is None or "distance" not in frame.columns or frame.empty:
        return
    distance, called = numbers(frame["distance"]), group_names(frame, names)
    for i in _largest(distance):
        words = f"{called[i]}: {_percent(distance[i] / 2)} of its people stand in a wrong combination of columns."
        yield Distortion(size=distance[i] / 2, kind="combinations", words=words)


def _estimates(result: Result, _: Names) -> Iterator[Distortion]:
    """Declared estimates, as a share of the true one, and in standard errors of it."""
    frame = breakdown(result, "estimates", ["name", "original", "synthetic", "se_original"])
    true, shown, error = (numbers(frame[c]) for c in ("original", "synthetic", "se_original"))
    with np.errstate(divide="ignore", invalid="ignore"):
        share, sds = np.minimum(np.abs(shown - true) / np.abs(true), 1), (shown - true) / error
    for i in _largest(share):
        words = f"{frame['name'].iloc[i]}: shown {cell(shown[i])}, true {cell(true[i])}"
        apart = f", {abs(sds[i]):.1f} standard errors apart." if np.isfinite(sds[i]) else "."
        yield Distortion(size=float(share[i]), kind="estimate", words=words + apart)


def _slopes(result: Result, _: Names) -> Iterator[Distortion]:
    """Slopes by group, as a share of the true one."""
    frame = breakdown(result, "regression", ["group", "original", "synthetic"])
    true, shown = numbers(frame["original"]), numbers(frame["synthetic"])
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.minimum(np.abs(shown - true) / np.abs(true), 1)
    for i in _largest(share):
        words = f"Slope in {frame['group'].iloc[i]}: shown {cell(shown[i])}, true {cell(true[i])}."
        yield Distortion(size=float(share[i]), kind="slope", words=words)


def _largest(size: np.ndarray) -> list[int]:
    """Where the largest numbers stand, the largest first; what is no number is left out."""
    order = np.argsort(-np.nan_to_num(size, nan=-1.0), kind="stable")
    return [int(i) for i in order[:MOST_OF_A_KIND] if np.isfinite(size[i])]


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"
