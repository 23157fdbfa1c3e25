"""Evaluate and attack releases, and synthetic tables of any tool, against their original.

The path: read -> align -> score -> score a sample of the original, as the scale -> attack. CONFIDENTIAL: everything
here sees both sides. Invariant: the order of subjects, and which others there are, changes no figure of one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd

from engine.errors import SpecError
from engine.evaluation.attacks import STRONG_ATTACKS, attack_all, held
from engine.evaluation.data.aligned import align
from engine.evaluation.data.reading import Subject
from engine.evaluation.findings import Finding
from engine.evaluation.measures.analyses import Rule, combined_estimates
from engine.evaluation.processes import Job, Processes, Task
from engine.evaluation.result import Evaluation, Result
from engine.evaluation.study.model import Study
from engine.progress import Progress, silent
from engine.version import ENGINE_VERSION


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Given:
    """What is evaluated, and how its columns and values are called."""

    subjects: Sequence[Subject]
    original: pd.DataFrame
    study: Study
    data: str  # Name of the original
    control: pd.DataFrame | None = None  # Non-members: people of the same population
    labels: Mapping[str, str] = field(default_factory=dict)
    value_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    notes: tuple[
        str, ...
    ] = ()  # What a reader must know: how the study was chosen, what was left out

    def evaluation(self, results: Sequence[Result], share: float, seed: int) -> Evaluation:
        return Evaluation(
            title=self.study.title,
            study=self.study,
            results=tuple(results),
            share=share,
            data=self.data,
            n_rows=len(self.original),
            labels={**self.study.labels, **self.labels},
            value_labels=self.value_labels,
            notes=self.notes,
            seed=seed,
            version=ENGINE_VERSION,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """How an evaluation is run."""

    share: float = 0.4  # Share of the original that the scale samples, 0 to 1
    seed: int = 2021  # Fixes all that is drawn
    # Column -> precision of a model on people outside the data.
    baselines: Mapping[str, float] = field(default_factory=dict)
    attacks: bool = False  # Strong attackers attack, too
    together: bool = (
        False  # The subjects are sets of one synthesis: scores are averaged, estimates combined
    )
    combining: Rule = "partial"


def evaluate_all(
    given: Given,
    settings: Settings,
    *,
    processes: Processes | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate subjects against one original."""
    names = [subject.name for subject in given.subjects]
    if not names or len(set(names)) < len(names):
        raise SpecError("evaluate needs synthetic tables, each with a name of its own")
    if not 0 < settings.share < 1:
        raise SpecError("the sampled share lies between 0 and 100 percent, both excluded")
    tell = progress or silent
    results = [
        _result(subject, given, settings, processes or Processes(1), tell)
        for subject in given.subjects
    ]
    if settings.together:
        results = [as_one(results, given.study, settings.combining)]
    return given.evaluation(results, settings.share, settings.seed)


def _result(
    subject: Subject, given: Given, settings: Settings, processes: Processes, progress: Progress
) -> Result:
    """Evaluate one subject."""
    start = time.perf_counter()
    study = given.study
    task = Task(
        aligned=align(given.original, subject.tables, study, control=given.control),
        study=study,
        share=settings.share,
        seed=settings.seed,
        baselines=settings.baselines,
    )

    def tell(job: Job, done: int, n: int) -> None:
        progress(f"{subject.name}: {job.stage} {job.name}", done, n)

    jobs = task.jobs()
    found: dict[str, dict[str, Finding]] = {"measuring": {}, "sampling": {}, "attacking": {}}
    for job, one in zip(jobs, processes.run(task, jobs, tell), strict=True):
        if one is not None:
            found[job.stage][job.name] = one
    risks = found["attacking"]
    if settings.attacks:
        risks |= _strong([subject], given, settings.seed, progress)
    return Result(
        subject=subject,
        aligned=task.aligned,
        scores=found["measuring"],
        scale={name: at_full_size(score) for name, score in found["sampling"].items()},
        risks=risks,
        seconds=time.perf_counter() - start,
    )


def _strong(
    group: Sequence[Subject], given: Given, seed: int, progress: Progress
) -> dict[str, Finding]:
    """Strong attacks on what one attacker holds."""
    target = held(group, given.original, given.study, control=given.control)
    return attack_all(
        target,
        given.study.attacks,
        seed=seed,
        names=STRONG_ATTACKS,
        progress=lambda what, done, n: progress(f"{group[0].name}: attacking {what}", done, n),
    )


def _quick(
    group: Sequence[Subject], given: Given, study: Study | None, seed: int, progress: Progress
) -> dict[str, Finding]:
    """Quick attacks on one subject, where the study says what attackers know."""
    if len(group) > 1 or study is None or study.risks is None:
        return {}
    target = held(group, given.original, study, control=given.control)
    return attack_all(
        target,
        study.risks,
        seed=seed,
        progress=lambda what, done, n: progress(f"{group[0].name}: attacking {what}", done, n),
    )


def at_full_size(score: Finding) -> Finding:
    """The score of a sample with counts as of the original's size, where the measure has them, for its own."""
    values = {name: score.values.get(f"scaled_{name}", v) for name, v in score.values.items()}
    return replace(score, values=values)


def attack_subjects(
    given: Given,
    *,
    seed: int,
    study: Study | None = None,
    together: bool = False,
    progress: Progress | None = None,
) -> Evaluation:
    """Attack finished releases, or tables of any tool, one by one or, together, as one attacker holds them.

    study: Says what attackers know who run the quick attacks on one subject, too; strong ones need no groups of
        values and read by the study given.
    """
    if not given.subjects:
        raise SpecError("attack needs at least one release or synthetic table")
    results = []
    for group in [list(given.subjects)] if together else [[one] for one in given.subjects]:
        start = time.perf_counter()
        name = group[0].name if len(group) == 1 else f"{len(group)} together"
        notes = tuple(note for one in group for note in one.notes)
        if len(group) > 1:
            notes = (f"one attacker holds {', '.join(one.name for one in group)}", *notes)
        results.append(
            Result(
                subject=replace(group[0], name=name, notes=notes),
                aligned=align(given.original, group[0].tables, given.study, control=given.control),
                scores={},
                scale={},
                risks=_quick(group, given, study, seed, progress or silent)
                | _strong(group, given, seed, progress or silent),
                seconds=time.perf_counter() - start,
            )
        )
    return given.evaluation(results, 0.0, seed)


def as_one(results: Sequence[Result], study: Study, combining: Rule = "partial") -> Result:
    """Put m synthetic sets of one synthesis together: figures are means over the sets, estimates are combined.

    Breakdowns are those of the first set. Snoke et al. 2018 average the pMSE over sets; Reiter 2003 combines estimates.
    """
    first = results[0]
    note = f"means over {len(results)} sets of one synthesis; the breakdown is the first set's"

    def mean(several: Sequence[Finding]) -> Finding:
        """Mean of the figures that every set has; those that one lacks are not computed."""
        values = {
            name: sum(one.values[name] for one in several) / len(several)
            for name in several[0].values
            if all(name in one.values for one in several)
        }
        lacking = {k: why for one in several for k, why in one.why_not.items()}
        notes = (*several[0].notes, note)
        return replace(several[0], values=values, why_not=lacking, notes=notes)

    scores = {name: mean([r.scores[name] for r in results]) for name in first.scores}
    if study.estimates:
        every = [r.aligned for r in results]
        scores["estimates"] = combined_estimates(every, study.estimates, rule=combining)
    names = ", ".join(r.subject.name for r in results)
    return replace(
        first,
        subject=replace(first.subject, name=f"{len(results)} sets: {names}"),
        scores=scores,
        risks={name: mean([r.risks[name] for r in results]) for name in first.risks},
        seconds=sum(r.seconds for r in results),
    )


def names_of(subjects: Sequence[object]) -> list[str]:
    """Names for subjects, each of its own: two files of one name are told apart by their folders."""

    def name_of(what: object, number: int) -> str:
        if not isinstance(what, str | Path):
            return f"table {number}"
        name = Path(what).name
        for ending in (".gz", ".csv", ".parquet", ".duckdb"):
            name = name.removesuffix(ending)
        return name

    plain = [name_of(what, i + 1) for i, what in enumerate(subjects)]
    names = [
        f"{Path(what).resolve().parent.name}/{name}"
        if plain.count(name) > 1 and isinstance(what, str | Path)
        else name
        for what, name in zip(subjects, plain, strict=True)
    ]
    return [name if names.count(name) == 1 else f"{name} ({i + 1})" for i, name in enumerate(names)]
