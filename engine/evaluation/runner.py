"""Evaluate releases, and synthetic tables of any tool, against their original.

Takes what is to be evaluated and the original; gives an `Evaluation`. The path: read -> lay side by side -> score ->
score a sample of the original, as the scale -> attack. CONFIDENTIAL: everything here sees both sides.
Invariant: the order of subjects, and which others there are, changes no figure of one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from engine.errors import SpecError
from engine.evaluation.attacks.sights import held
from engine.evaluation.attacks.suite import attack_strongly
from engine.evaluation.data.paired import Paired, pair
from engine.evaluation.data.reading import Subject
from engine.evaluation.result import Evaluation, Result
from engine.evaluation.score import Risk, Score
from engine.evaluation.study.model import Study
from engine.evaluation.utility.estimates import Rule, combined_estimates
from engine.evaluation.workers import Compared, Found, Job, Workers
from engine.progress import Progress
from engine.version import ENGINE_VERSION

COUNTS = Job(stage="measuring", name="univariate")
"""What is found first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """How an evaluation is run."""

    share: float = 0.4  # Share of the original that the scale samples, 0 to 1
    seed: int = 2021  # Fixes all that is drawn
    # Column -> precision of a model on people outside the data.
    baselines: Mapping[str, float] | None = None
    attacks: bool = False  # Strong attackers attack, too


def evaluate_all(
    subjects: Sequence[Subject],
    original: pd.DataFrame,
    study: Study,
    settings: Settings,
    *,
    data: str,
    control: pd.DataFrame | None = None,
    together: bool = False,
    combining: Rule = "partial",
    labels: Mapping[str, str] | None = None,
    value_labels: Mapping[str, Mapping[str, str]] | None = None,
    notes: tuple[str, ...] = (),
    workers: Workers | None = None,
    aside: Callable[[Result], None] | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate subjects against one original.

    control: People of the same population whom no subject was made from.
    together: The subjects are sets of one synthesis: scores are averaged, estimates combined.
    combining: By which rules: see `engine.evaluation.utility.estimates.combined_estimates`.
    notes: What a reader must know: how the study was chosen, what of the original was left out.
    aside: Called for each subject while others measure, with the counts of single columns as its only score.
    """
    names = [subject.name for subject in subjects]
    if not names or len(set(names)) < len(names):
        raise SpecError("evaluate needs synthetic tables, each with a name of its own")
    if not 0 < settings.share < 1:
        raise SpecError("the sampled share lies between 0 and 100 percent, both excluded")
    results = [
        _result(subject, original, control, study, settings, workers or Workers(1), aside, progress)
        for subject in subjects
    ]
    if together:
        results = [as_one(results, study, combining)]
    return Evaluation(
        title=study.title,
        study=study,
        results=tuple(results),
        share=settings.share,
        data=data,
        n_rows=len(original),
        labels={**study.labels, **(labels or {})},
        value_labels=value_labels or {},
        notes=notes,
        seed=settings.seed,
        version=ENGINE_VERSION,
    )


def _result(
    subject: Subject,
    original: pd.DataFrame,
    control: pd.DataFrame | None,
    study: Study,
    settings: Settings,
    workers: Workers,
    aside: Callable[[Result], None] | None,
    progress: Progress | None,
) -> Result:
    """Evaluate one subject."""
    start = time.perf_counter()
    paired = pair(original, subject.tables, study, control=control)
    compared = Compared(
        paired=paired,
        study=study,
        share=settings.share,
        seed=settings.seed,
        baselines=settings.baselines,
    )
    scores, scale, risks = _found(compared, workers, subject, aside, progress)
    if settings.attacks:
        target = held([subject], original, study, control=control)
        stage = _stage(progress, subject, "attacking strongly")
        risks |= attack_strongly(target, study.attacks, seed=settings.seed, progress=stage)
    return Result(
        subject=subject,
        comparison=paired,
        scores=scores,
        scale={name: at_full_size(score) for name, score in scale.items()},
        risks=risks,
        seconds=time.perf_counter() - start,
    )


def _found(
    compared: Compared,
    workers: Workers,
    subject: Subject,
    aside: Callable[[Result], None] | None,
    progress: Progress | None,
) -> tuple[dict[str, Score], dict[str, Score], dict[str, Risk]]:
    """Scores, the scale and risks, by name; what the study does not declare is left out."""

    def tell(job: Job, done: int, n: int) -> None:
        if progress is not None:
            progress(f"{subject.name}: {job.stage} {job.name}", done, n)

    def between(found: Mapping[Job, Found]) -> bool:
        score = found.get(COUNTS)
        if aside is None or not isinstance(score, Score):
            return aside is None
        scores = {COUNTS.name: score}
        aside(
            Result(
                subject=subject,
                comparison=compared.paired,
                scores=scores,
                scale={},
                risks={},
                seconds=0.0,
            )
        )
        return True

    jobs = compared.jobs()
    scores: dict[str, dict[str, Score]] = {"measuring": {}, "sampling": {}}
    risks: dict[str, Risk] = {}
    for job, found in zip(jobs, workers.run(compared, jobs, tell, between), strict=True):
        if isinstance(found, Risk):
            risks[job.name] = found
        elif found is not None:
            scores[job.stage][job.name] = found
    return scores["measuring"], scores["sampling"], risks


def at_full_size(score: Score) -> Score:
    """Return the score of a sample with counts as of the original's size, where the measure has them, for its own."""
    values = {
        name: score.values.get(f"scaled_{name}", value) for name, value in score.values.items()
    }
    return replace(score, values=values)


def _stage(progress: Progress | None, subject: Subject, stage: str) -> Progress | None:
    """Reports of one stage of one subject."""
    if progress is None:
        return None
    return lambda what, done, n: progress(f"{subject.name}: {stage} {what}", done, n)


def attack_subjects(
    subjects: Sequence[Subject],
    original: pd.DataFrame,
    study: Study,
    *,
    data: str,
    seed: int,
    control: pd.DataFrame | None = None,
    together: bool = False,
    labels: Mapping[str, str] | None = None,
    value_labels: Mapping[str, Mapping[str, str]] | None = None,
    notes: tuple[str, ...] = (),
    progress: Progress | None = None,
) -> Evaluation:
    """Attack finished releases, or tables of any tool.

    control: People of the same population whom no subject was made from.
    together: One attacker holds all subjects; else each is attacked alone.
    notes: What a reader must know: what of the data was left out.
    """
    if not subjects:
        raise SpecError("attack needs at least one release or synthetic table")
    groups = [list(subjects)] if together else [[subject] for subject in subjects]
    results = [_attacked(group, original, control, study, seed, progress) for group in groups]
    return Evaluation(
        title=study.title,
        study=study,
        results=tuple(results),
        share=0.0,
        data=data,
        n_rows=len(original),
        labels={**study.labels, **(labels or {})},
        value_labels=value_labels or {},
        notes=notes,
        seed=seed,
        version=ENGINE_VERSION,
    )


def _attacked(
    group: Sequence[Subject],
    original: pd.DataFrame,
    control: pd.DataFrame | None,
    study: Study,
    seed: int,
    progress: Progress | None,
) -> Result:
    """Attack what one attacker holds."""
    start = time.perf_counter()
    first = group[0]
    target = held(group, original, study, control=control)
    stage = _stage(progress, first, "attacking")
    risks = attack_strongly(target, study.attacks, seed=seed, progress=stage)
    name = first.name if len(group) == 1 else f"{len(group)} together"
    notes = tuple(note for one in group for note in one.notes)
    if len(group) > 1:
        notes = (f"one attacker holds {', '.join(one.name for one in group)}", *notes)
    return Result(
        subject=replace(first, name=name, notes=notes),
        comparison=target.paired,
        scores={},
        scale={},
        risks=risks,
        seconds=time.perf_counter() - start,
    )


def as_one(results: Sequence[Result], study: Study, combining: Rule = "partial") -> Result:
    """Put m synthetic sets of one synthesis together: figures are means over the sets, estimates are combined.

    Breakdowns are those of the first set. Snoke et al. 2018 average the pMSE over sets; Reiter 2003 combines estimates.
    """
    first = results[0]
    note = (f"means over {len(results)} sets of one synthesis; the breakdown is the first set's",)
    scores = {name: _mean([r.scores[name] for r in results], note) for name in first.scores}
    if study.estimates:
        comparisons: list[Paired] = [r.comparison for r in results]
        scores["estimates"] = combined_estimates(comparisons, study.estimates, rule=combining)
    risks = {name: _mean([r.risks[name] for r in results], note) for name in first.risks}
    names = ", ".join(r.subject.name for r in results)
    subject = replace(first.subject, name=f"{len(results)} sets: {names}")
    return replace(
        first,
        subject=subject,
        scores=scores,
        risks=risks,
        seconds=sum(r.seconds for r in results),
    )


def _mean(several: Sequence[Any], note: tuple[str, ...]) -> Any:
    """Mean of the figures that every set has; those that one lacks are not computed."""
    lacking = {k: why for one in several for k, why in one.why_not.items()}
    values = {
        name: sum(one.values[name] for one in several) / len(several)
        for name in several[0].values
        if all(name in one.values for one in several)
    }
    return replace(several[0], values=values, why_not=lacking, notes=(*several[0].notes, *note))


def name_of(what: object, number: int) -> str:
    """Return what a subject is called: its file's name, or its number where it is no file."""
    if isinstance(what, str | Path):
        name = Path(what).name
        for ending in (".gz", ".csv", ".parquet", ".duckdb"):
            name = name.removesuffix(ending)
        return name
    return f"table {number}"


def names_of(subjects: Sequence[object]) -> list[str]:
    """Return names for subjects, each of its own: two files of one name are told apart by their folders."""
    plain = [name_of(what, i + 1) for i, what in enumerate(subjects)]
    names = [
        f"{Path(what).resolve().parent.name}/{name}"
        if plain.count(name) > 1 and isinstance(what, str | Path)
        else name
        for what, name in zip(subjects, plain, strict=True)
    ]
    return [name if names.count(name) == 1 else f"{name} ({i + 1})" for i, name in enumerate(names)]
