"""Compare the settings of a spec in sticky mode: build each in scratch, hold it against the data, attack it.

Takes a spec; gives a `LeverMap`: what each lever costs in utility, and what it takes from attackers. The path: settings
of the spec -> build each, a key each -> loss and risks -> remove. CONFIDENTIAL. Invariant: as in
`engine.evaluation.compare.building`, nothing that is built stays, and the spec's own key is not touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from engine.errors import SpecError
from engine.evaluation.attacks import Assumptions
from engine.evaluation.compare.building import (
    MOST_REPEATS,
    Build,
    built_in_scratch,
    marked_as_scratch,
)
from engine.evaluation.compare.mapped import LeverMap, Point, Setting
from engine.evaluation.compare.weighing import NO_CONTROL, Weighing
from engine.params import MOST_SWAPPED, PROFILES
from engine.progress import Progress, silent
from engine.schema import MAX_WIDTH
from engine.spec import ReleaseSpec
from engine.version import ENGINE_VERSION

FURTHER_THRESHOLDS = (3, 7)
"""By how much the mean threshold is raised."""
NOISIER = (2, 4)
"""With what the noise is multiplied."""
SWAPPED = (0.5, 2.0)
"""With what the share of exchanged records is multiplied."""
OWN = Setting(lever="spec", name="the spec")


def settings_of(spec: ReleaseSpec) -> dict[Setting, ReleaseSpec]:
    """Return the spec, and the settings that it is compared with, each with one lever moved."""
    tables = tuple(t for t in spec.tables if len(t) <= MAX_WIDTH)
    if not tables:
        raise SpecError(
            f"compare: sticky mode builds tables of at most {MAX_WIDTH} columns, and the spec has none"
        )
    own = replace(marked_as_scratch(spec), mode="sticky", dp=None, tables=tables)
    return {OWN: own, **_protected(own), **_exchanged(own), **_fewer(own)}


def _protected(spec: ReleaseSpec) -> dict[Setting, ReleaseSpec]:
    """Other thresholds, noise and profile."""
    privacy, out = spec.privacy, {}
    for more in FURTHER_THRESHOLDS:
        mean = privacy.threshold_mean + more
        setting = Setting(lever="threshold", name=f"threshold of mean {mean}")
        out[setting] = replace(spec, privacy=replace(privacy, threshold_mean=mean))
    for times in NOISIER:
        sd = privacy.layer_sd * times
        setting = Setting(lever="noise", name=f"noise layers of sd {sd}")
        out[setting] = replace(spec, privacy=replace(privacy, layer_sd=sd))
    for name, profile in PROFILES.items():
        if name != privacy.profile:
            setting = Setting(lever="profile", name=f"profile {name}")
            other = replace(profile, max_rows=privacy.max_rows, swap=privacy.swap)
            out[setting] = replace(spec, privacy=other)
    return out


def _exchanged(spec: ReleaseSpec) -> dict[Setting, ReleaseSpec]:
    """No swapping, less and more of it, where the spec declares any."""
    swap = spec.privacy.swap
    if swap is None:
        return {}
    out = {
        Setting(lever="swapping", name="swapping off"): replace(
            spec, privacy=replace(spec.privacy, swap=None)
        )
    }
    for times in SWAPPED:
        rate = min(swap.rate * times, MOST_SWAPPED)
        if rate != swap.rate:
            setting = Setting(lever="swapping", name=f"swapping at {rate:.2%}")
            privacy = replace(spec.privacy, swap=replace(swap, rate=rate))
            out[setting] = replace(spec, privacy=privacy)
    return out


def _fewer(spec: ReleaseSpec) -> dict[Setting, ReleaseSpec]:
    """The narrower tables only."""
    widths = sorted({len(t) for t in spec.tables})[:-1]
    return {
        Setting(
            lever="tables", name=f"tables of at most {width} column{'s' if width > 1 else ''}"
        ): replace(spec, tables=tuple(t for t in spec.tables if len(t) <= width))
        for width in widths
    }


def map_levers(
    spec: ReleaseSpec,
    *,
    repeats: int,
    build: Build,
    frame: Any = None,
    control: Any = None,
    settings: Mapping[Setting, ReleaseSpec] | None = None,
    assumptions: Assumptions | None = None,
    progress: Progress | None = None,
) -> LeverMap:
    """Build every setting of a spec several times, and weigh each release against the data.

    control: People of the same population whom the source does not hold.
    settings: Other settings than `settings_of` gives; the first is held to be the spec's own.
    """
    if not 1 <= repeats <= MOST_REPEATS:
        raise SpecError(f"seeds: wants 1 to {MOST_REPEATS}, not {repeats}")
    tell = progress or silent
    chosen = settings_of(spec) if settings is None else settings
    own = next(iter(chosen.values()))
    weighing = Weighing(own, frame, control, assumptions or Assumptions())
    points = []
    todo = [(setting, repeat) for repeat in range(1, repeats + 1) for setting in chosen]
    for done, (setting, repeat) in enumerate(todo):
        tell(f"{setting.name}: release {repeat} of {repeats}", done, len(todo))
        with built_in_scratch(chosen[setting], build) as (release, seconds):
            figures = weighing.figures(release)
        points.append(Point(setting=setting, repeat=repeat, figures=figures, seconds=seconds))
    tell("done", len(todo), len(todo))
    return LeverMap(
        title=spec.title,
        points=tuple(points),
        repeats=repeats,
        n_tables=len(own.tables),
        n_rows=weighing.n_rows,
        has_control=control is not None,
        notes=_notes(spec, own, has_control=control is not None),
        version=ENGINE_VERSION,
    )


def _notes(spec: ReleaseSpec, own: ReleaseSpec, *, has_control: bool) -> tuple[str, ...]:
    """What a reader must know."""
    notes = []
    if left_out := len(spec.tables) - len(own.tables):
        notes.append(
            f"Tables of more than {MAX_WIDTH} columns, which sticky mode does not build, are left out: {left_out}."
        )
    if spec.privacy.swap is None:
        notes.append("The spec declares no swap in [privacy]: that lever is not drawn.")
    if not has_control:
        notes.append(NO_CONTROL)
    return tuple(notes)
