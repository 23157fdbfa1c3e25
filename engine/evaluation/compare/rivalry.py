"""Compare our two modes with rivals on the same data: make each, score it by one study, attack all alike.

Takes a spec and entrants; gives a `Contest`. The path: releases of both modes in scratch -> synthetic tables of rivals
in memory -> every measure of the catalogue, the loss, the risks -> let them go. CONFIDENTIAL. Invariant: nothing that
is made stays, the spec's own key and budget are not touched, and what a rival draws hangs on its name alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from engine.errors import SpecError
from engine.evaluation.attacks import Assumptions, attack_all
from engine.evaluation.compare.building import (
    MOST_REPEATS,
    Build,
    Variant,
    built_in_scratch,
    own_way,
    variants,
)
from engine.evaluation.compare.contest import Contest, Generator, Side, Trial
from engine.evaluation.compare.runs import way_name
from engine.evaluation.compare.weighing import NO_CONTROL, SEED, Weighing
from engine.evaluation.data.aligned import generator
from engine.evaluation.measures import score_all
from engine.evaluation.result import named
from engine.evaluation.rivals import Command, Entrant, Partial, schema_of
from engine.evaluation.study import Study
from engine.progress import Progress, silent
from engine.spec import ReleaseSpec
from engine.version import ENGINE_VERSION

STICKY = (
    "Only counts of tables leave, with keyed noise; small cells are left out, and nobody's row. No guarantee against "
    "every attacker; what known ones get is measured."
)
DP = "({epsilon})-differential privacy of a person, as its card states it."
OURS = "ours: tablepack"
WHOLE = (
    "A release has several tables, a rival one of all columns. Figures of one to four columns are of the same columns "
    "for both; figures of whole tables (propensity, models, components, attacks on records) are of the tables that "
    "each has: a release's say little beside a rival's."
)
SAMPLES = "A sample has fewer rows than the data: counts of it are too low by that factor; scaled figures are not."


def contest(
    spec: ReleaseSpec,
    entrants: Sequence[Entrant],
    *,
    epsilons: Sequence[float],
    repeats: int,
    build: Build,
    frame: Any = None,
    control: Any = None,
    study: Study | None = None,
    areas: Sequence[str] = (),
    notes: tuple[str, ...] = (),
    assumptions: Assumptions | None = None,
    progress: Progress | None = None,
) -> Contest:
    """Make, score and attack releases of both modes, and what each entrant makes or is.

    spec: Without parameters of dp mode only sticky mode is compared.
    control: People of the same population whom the source does not hold.
    areas: Columns that record swapping exchanges; by default those of the spec's own swapping.
    """
    if not 1 <= repeats <= MOST_REPEATS:
        raise SpecError(f"seeds: wants 1 to {MOST_REPEATS}, not {repeats}")
    ways = _ways(spec, epsilons)
    known = assumptions or Assumptions()
    weighing = Weighing(ways[0].spec, frame, control, known, study)
    tell = progress or silent
    trials: list[Trial] = []
    n = repeats * (len(ways) + len(entrants))
    for trial in _trials(ways, entrants, spec, areas, repeats, build, weighing, tell, n):
        trials.append(trial)
    tell("done", n, n)
    way = own_way(spec, epsilons)
    return Contest(
        title=spec.title,
        trials=tuple(trials),
        own="" if way is None or way[0] == "exact" else way_name(*way),
        repeats=repeats,
        n_tables=len(ways[0].spec.tables),
        n_rows=weighing.n_rows,
        has_control=control is not None,
        study=study.title if study is not None else "chosen by what the columns look like",
        notes=(*_notes(trials, has_control=control is not None), *notes),
        version=ENGINE_VERSION,
    )


def _ways(spec: ReleaseSpec, epsilons: Sequence[float]) -> list[Variant]:
    """Our modes; without parameters of dp mode the sticky one."""
    if spec.dp is not None:
        return [way for way in variants(spec, epsilons) if way.kind != "exact"]
    from engine.evaluation.compare.levers import OWN, settings_of

    return [Variant(kind="sticky", epsilon=None, spec=settings_of(spec)[OWN])]


def _trials(
    ways: Sequence[Variant],
    entrants: Sequence[Entrant],
    spec: ReleaseSpec,
    areas: Sequence[str],
    repeats: int,
    build: Build,
    weighing: Weighing,
    tell: Progress,
    n: int,
) -> Iterator[Trial]:
    """Everything once before anything a second time: what cannot be made fails soon."""
    done = 0
    for repeat in range(1, repeats + 1):
        for way in ways:
            tell(f"{way.name}: release {repeat} of {repeats}", done, n)
            yield _of_release(way, repeat, build, weighing)
            done += 1
        for entrant in entrants:
            if entrant.rival is None and repeat > 1:
                done += 1
                continue
            tell(f"{entrant.name}: table {repeat} of {repeats}", done, n)
            yield _of_entrant(entrant, repeat, spec, areas, weighing)
            done += 1


def _of_release(way: Variant, repeat: int, build: Build, weighing: Weighing) -> Trial:
    """Build one release in scratch, score and attack it."""
    side: Side = "sticky" if way.kind == "sticky" else "dp"
    promise = STICKY if side == "sticky" else DP.format(epsilon=f"epsilon = {way.epsilon:g}")
    start = _cpu()
    with built_in_scratch(way.spec, build) as (release, seconds):
        spent = _cpu() - start
        figures = _figures(release, way.name, weighing)
    made = Generator(name=way.name, side=side, promise=promise, origin=OURS)
    return Trial(
        generator=made, repeat=repeat, figures=figures, seconds=seconds, cpu=spent, n_rows=None
    )


def _of_entrant(
    entrant: Entrant, repeat: int, spec: ReleaseSpec, areas: Sequence[str], weighing: Weighing
) -> Trial:
    """Let a rival make its table, or take the file; score and attack it."""
    made: Any = entrant.path
    seconds = spent = None
    if entrant.rival is not None:
        rows = rows_of(spec, weighing.original)
        risks = weighing.study.risks
        quasi = () if risks is None else tuple(c for c in risks.quasi_identifiers if c in rows)
        schema = schema_of(rows, spec, known=quasi, areas=areas)
        rng = generator(SEED + repeat, entrant.name)
        start, start_cpu = time.perf_counter(), _cpu()
        made = entrant.rival.synthesize(rows, schema, rng)
        seconds, spent = time.perf_counter() - start, _cpu() - start_cpu
    return Trial(
        generator=Generator(
            name=entrant.name, side=_side(entrant), promise=entrant.promise, origin=entrant.origin
        ),
        repeat=repeat,
        figures=_figures(made, entrant.name, weighing),
        seconds=seconds,
        cpu=spent,
        n_rows=len(made) if isinstance(made, pd.DataFrame) else None,
    )


def rows_of(spec: ReleaseSpec, original: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that a rival is given: the columns that the spec's tables show."""
    shown = {c for table in spec.tables for c in table}
    return original[[c for c in original.columns if c in shown]].reset_index(drop=True)


def _side(entrant: Entrant) -> Side:
    """Which kind of generator an entrant is."""
    rival = entrant.rival.rival if isinstance(entrant.rival, Partial) else entrant.rival
    if rival is None:
        return "file"
    return "outside" if isinstance(rival, Command) else "rival"


def _figures(what: Any, name: str, weighing: Weighing) -> dict[str, float]:
    """Every figure of the study, the loss, and the risks."""
    attacked = weighing.attacked(what, name)
    study, aligned = weighing.study, attacked.aligned
    figures = named(score_all(aligned, study, seed=SEED))
    if study.risks is not None:
        figures |= named(attack_all(attacked, study.risks, seed=SEED))
    finite = {key: value for key, value in figures.items() if np.isfinite(value)}
    return finite | weighing.weighed(attacked)


def _cpu() -> float:
    """Seconds of processors so far, those of child processes that have ended too."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _notes(trials: Sequence[Trial], *, has_control: bool) -> tuple[str, ...]:
    """What a reader must know."""
    notes = [WHOLE]
    if any(t.generator.name.startswith("sample") for t in trials):
        notes.append(SAMPLES)
    if not has_control:
        notes.append(NO_CONTROL)
    return tuple(notes)
