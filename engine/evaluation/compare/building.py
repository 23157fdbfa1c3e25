"""Compare sticky and dp releases of the same tables: build them in scratch, score and attack them alike, let them go.

Takes a spec; gives a `ModeComparison`. The path: variants of the spec -> build each, a key each -> score, attack ->
remove. CONFIDENTIAL. Invariants: what is built lies in a scratch folder of mode 0700, with keys and ledgers that end
with it, and says in its notes that it must not be published; the budget of the spec's own key is not touched.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.errors import PrivacyError, SpecError
from engine.evaluation.attacks import Assumptions
from engine.evaluation.compare.runs import Kind, ModeComparison, Run, Way, way_name
from engine.evaluation.compare.scoring import GROUPED, HOW, Scoring
from engine.evaluation.compare.weighing import NO_CONTROL, Weighing
from engine.key_files import new_key
from engine.params import LEAST_EPSILON, MOST_EPSILON
from engine.progress import Progress, silent
from engine.schema import MAX_WIDTH
from engine.source import begin_ledger, scratch_directory
from engine.spec import DPContext, ReleaseSpec, dp_from
from engine.store import open_release
from engine.version import ENGINE_VERSION

SCRATCH = "SCRATCH: comparison, must not be published"
"""First note of every release that a comparison builds."""
EPSILONS = (0.1, 0.5, 1.0, 2.0, 10.0)
MOST_EPSILONS, MOST_REPEATS = 20, 50
Build = Callable[[ReleaseSpec, Path], object]
"""Builds a release of a spec at a path."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """One way to build the tables of a spec."""

    kind: Kind
    epsilon: float | None
    spec: ReleaseSpec  # Its key path is still that of the spec given

    @property
    def name(self) -> str:
        """For people."""
        return way_name(self.kind, self.epsilon)


def checked_epsilons(given: str | Sequence[float]) -> tuple[float, ...]:
    """Return a list of epsilons, ascending."""
    listed = given.split(",") if isinstance(given, str) else list(given)
    epsilons = []
    for one in listed:
        try:
            epsilons.append(float(one))
        except (TypeError, ValueError):
            raise SpecError(
                f"epsilon: {str(one).strip()!r} is no number; write them as 0.1,0.5,1"
            ) from None
    if wrong := [e for e in epsilons if not LEAST_EPSILON <= e <= MOST_EPSILON]:
        raise SpecError(
            f"epsilon: wants numbers from {LEAST_EPSILON:g} to {MOST_EPSILON:g}, not {wrong[0]:g}"
        )
    if len(set(epsilons)) < len(epsilons):
        raise SpecError("epsilon: one is there twice")
    if not 0 < len(epsilons) <= MOST_EPSILONS:
        raise SpecError(f"epsilon: wants 1 to {MOST_EPSILONS} numbers")
    return tuple(sorted(epsilons))


def with_defaults(spec: ReleaseSpec) -> ReleaseSpec:
    """Return a spec without a section `[dp]` with the defaults of that section."""
    problems: list[str] = []
    entities = spec.source.entity_columns
    context = DPContext(
        names=tuple(c.name for c in spec.columns if c.name not in entities),
        entities=entities,
        n_kinds=len(spec.source.entities),
        columns=tuple(c for c in spec.columns if c.name not in entities),
        tables=spec.tables,
    )
    bound = {} if spec.privacy.max_rows is None else {"max_rows": spec.privacy.max_rows}
    params, zeros = dp_from({"epsilon": EPSILONS[0], **bound}, context, problems)
    if params is None:
        raise SpecError(problems)
    return replace(spec, dp=params, zeros=zeros)


def variants(spec: ReleaseSpec, epsilons: Sequence[float]) -> tuple[Variant, ...]:
    """Return the ways that a spec's tables are built: sticky, dp at each epsilon, dp without noise."""
    if spec.dp is None:
        raise SpecError("compare: the spec has no parameters of dp mode")
    tables = tuple(t for t in spec.tables if len(t) <= MAX_WIDTH)
    if not tables:
        raise SpecError(
            f"compare: sticky mode builds tables of at most {MAX_WIDTH} columns, and the spec has none"
        )
    marked = marked_as_scratch(replace(spec, tables=tables))
    if spec.dp.noise == "gaussian" and not spec.dp.delta:
        raise SpecError(
            'compare: noise = "gaussian" wants a delta, and a spec with guarantee = false has none: '
            "give it an epsilon and a delta (epsilon is replaced here)"
        )
    params = replace(spec.dp, budget=None)  # the throw-away key's own ledger

    def dp(epsilon: float | None) -> ReleaseSpec:
        return replace(marked, mode="dp", dp=replace(params, epsilon=epsilon))

    return (
        Variant(
            kind="sticky",
            epsilon=None,
            spec=replace(marked, mode="sticky", dp=None),
        ),
        *(Variant(kind="dp", epsilon=e, spec=dp(e)) for e in epsilons),
        Variant(kind="exact", epsilon=None, spec=dp(None)),
    )


def marked_as_scratch(spec: ReleaseSpec) -> ReleaseSpec:
    """Return a spec whose releases say that they must not be published, and are built whatever they tell."""
    return replace(
        spec,
        title=f"SCRATCH: {spec.title}".rstrip(": "),
        notes=(SCRATCH, *spec.notes),
        # What is never published gives nothing away.
        bounds=replace(spec.bounds, accept_risk="a scratch release of a comparison"),
        previous=None,
    )


def compare_all(
    spec: ReleaseSpec,
    *,
    epsilons: Sequence[float],
    repeats: int,
    build: Build,
    frame: Any = None,
    control: Any = None,
    notes: tuple[str, ...] = (),
    assumptions: Assumptions | None = None,
    progress: Progress | None = None,
) -> ModeComparison:
    """Build every variant of a spec several times; score and attack each release against the original.

    control: People of the same population whom the source does not hold.
    """
    if not 1 <= repeats <= MOST_REPEATS:
        raise SpecError(f"seeds: wants 1 to {MOST_REPEATS}, not {repeats}")
    tell = progress or silent
    ways = variants(spec, epsilons)
    known = assumptions or Assumptions()
    scoring = Scoring(spec, frame)
    weighing = Weighing(ways[0].spec, frame, control, known)
    runs = []
    # Every way once before any a second time: what cannot be built fails soon.
    todo = [(way, repeat) for repeat in range(1, repeats + 1) for way in ways]
    for done, (way, repeat) in enumerate(todo):
        tell(f"{way.name}: release {repeat} of {repeats}", done, len(todo))
        runs.append(_run(way, repeat, build, scoring, weighing))
    tell("done", len(todo), len(todo))
    own = own_way(spec, epsilons)
    told = _notes(spec, ways[0].spec, own, known, has_control=control is not None)
    return ModeComparison(
        title=spec.title,
        runs=tuple(runs),
        epsilons=tuple(epsilons),
        repeats=repeats,
        n_tables=len(ways[0].spec.tables),
        n_rows=scoring.n_rows,
        own=own,
        has_control=control is not None,
        notes=(*told, *notes),
        version=ENGINE_VERSION,
    )


def own_way(spec: ReleaseSpec, epsilons: Sequence[float]) -> Way | None:
    """Return the way that a spec itself is built; None where its epsilon is not among those compared."""
    if spec.mode != "dp" or spec.dp is None:
        return ("sticky", None)
    if spec.dp.epsilon is None:
        return ("exact", None)
    return ("dp", spec.dp.epsilon) if spec.dp.epsilon in epsilons else None


def _notes(
    spec: ReleaseSpec,
    built: ReleaseSpec,
    own: Way | None,
    assumptions: Assumptions,
    *,
    has_control: bool,
) -> tuple[str, ...]:
    """What a reader must know."""
    notes = [HOW]
    if any(c.breaks for c in spec.columns):
        notes += [GROUPED, "Rows misplaced are counted by values."]
    notes.append(
        "Attacks know the same and look at the same people in all releases: up to "
        f"{assumptions.people:,} of the data, drawn once, and as many strangers, where they are given. "
        "The figures say what these attacks get; only dp mode bounds what any other can."
    )
    if not has_control:
        notes.append(NO_CONTROL)
    if left_out := len(spec.tables) - len(built.tables):
        notes.append(
            f"Tables of more than {MAX_WIDTH} columns, which sticky mode does not build, are left out: {left_out}."
        )
    if own is None:
        notes.append(
            "The epsilon of the spec is not among those compared: no point is the spec's own."
        )
    return tuple(notes)


def _run(way: Variant, repeat: int, build: Build, scoring: Scoring, weighing: Weighing) -> Run:
    """Build one release in a scratch folder, score and attack it, and let the folder go."""
    with built_in_scratch(way.spec, build) as (release, seconds):
        return Run(
            kind=way.kind,
            epsilon=way.epsilon,
            repeat=repeat,
            figures={**scoring.score(release), **weighing.figures(release)},
            seconds=seconds,
        )


@contextmanager
def built_in_scratch(spec: ReleaseSpec, build: Build) -> Iterator[tuple[Path, float]]:
    """Build a release in a scratch folder, with a key of its own, and let the folder go at the end.

    Yields: release; seconds: To build it.
    """
    with scratch_directory() as folder:
        key = folder / "scratch.key"
        new_key(key)
        begin_ledger(key)
        release = folder / "scratch.duckdb"
        start = time.perf_counter()
        build(replace(spec, key_path=key), release)
        yield release, time.perf_counter() - start


def is_scratch(release: Path) -> bool:
    """Whether a release says of itself that a comparison built it."""
    con, _ = open_release(release)
    with con:
        notes = con.execute("SELECT note FROM catalog.notes WHERE topic = 'release'").fetchall()
    return any(str(note) == SCRATCH for (note,) in notes)


def refuse_scratch(release: Path) -> None:
    """Refuse to let out a release that a comparison built."""
    if is_scratch(release):
        raise PrivacyError(
            f"{release}: was built for a comparison, outside the ledger; build the spec itself"
        )
