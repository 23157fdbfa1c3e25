"""Compare sticky and dp releases of the same tables: build them in scratch, score them alike, throw them away.

Takes a spec; gives a `ModeComparison`. The path: variants of the spec -> build each, a key each -> score -> remove.
CONFIDENTIAL. Invariants: what is built lies in a scratch folder of mode 0700, with keys and ledgers that end with it,
and says in its notes that it must not be published; the budget of the spec's own key is not touched.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.errors import PrivacyError, SpecError
from engine.evaluation.compare.runs import Kind, ModeComparison, Run, way_name
from engine.evaluation.compare.scoring import GROUPED, HOW, Scoring
from engine.keys import new_key
from engine.params import LEAST_EPSILON, MOST_EPSILON
from engine.progress import Progress, silent
from engine.schema import MAX_WIDTH
from engine.source import scratch_directory
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
    """One way to build the tables of a spec.

    Attributes
    ----------
    spec : ReleaseSpec
        Its key path is still that of the spec given.
    """

    kind: Kind
    epsilon: float | None
    spec: ReleaseSpec

    @property
    def name(self) -> str:
        """For people."""
        return way_name(self.kind, self.epsilon)


def checked_epsilons(given: str | Sequence[float]) -> tuple[float, ...]:
    """Return a list of epsilons, ascending.

    Parameters
    ----------
    epsilons : str or sequence of float
        Numbers, or a text of them with commas between.

    Raises
    ------
    SpecError
        One is no number that dp mode takes, is there twice, or there are none or too many.
    """
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
    """Return a spec without a section `[dp]` with the defaults of that section.

    Raises
    ------
    SpecError
        With all that dp mode misses: domains that are not public, as a rule.
    """
    problems: list[str] = []
    entities = spec.source.entities
    context = DPContext(
        names=tuple(c.name for c in spec.columns if c.name not in entities),
        entities=entities,
        columns=tuple(c for c in spec.columns if c.name not in entities),
        tables=spec.tables,
    )
    params, zeros = dp_from({"epsilon": EPSILONS[0]}, context, problems)
    if params is None:
        raise SpecError(problems)
    return replace(spec, dp=params, zeros=zeros)


def variants(spec: ReleaseSpec, epsilons: Sequence[float]) -> tuple[Variant, ...]:
    """Return the ways that a spec's tables are built: sticky, dp at each epsilon, dp without noise.

    Parameters
    ----------
    spec : ReleaseSpec
        With parameters of dp mode.

    Raises
    ------
    SpecError
        The spec has no parameters of dp mode, or no delta for Gaussian noise, or no table that sticky mode can build.
    """
    if spec.dp is None:
        raise SpecError("compare: the spec has no parameters of dp mode")
    tables = tuple(t for t in spec.tables if len(t) <= MAX_WIDTH)
    if not tables:
        raise SpecError(
            f"compare: sticky mode builds tables of at most {MAX_WIDTH} columns, and the spec has none"
        )
    marked = replace(
        spec,
        title=f"SCRATCH: {spec.title}".rstrip(": "),
        tables=tables,
        notes=(SCRATCH, *spec.notes),
    )
    if spec.dp.noise == "gaussian" and not spec.dp.delta:
        raise SpecError(
            'compare: noise = "gaussian" wants a delta, and a spec with guarantee = false has none: '
            "give it an epsilon and a delta (epsilon is replaced here)"
        )
    params = replace(spec.dp, budget=None)  # the throw-away key's own ledger
    # What is never published gives nothing away.
    accepted = replace(spec.bounds, accept_risk="a scratch release of a comparison")

    def dp(epsilon: float | None) -> ReleaseSpec:
        return replace(marked, mode="dp", dp=replace(params, epsilon=epsilon))

    return (
        Variant(
            kind="sticky",
            epsilon=None,
            spec=replace(marked, mode="sticky", dp=None, bounds=accepted),
        ),
        *(Variant(kind="dp", epsilon=e, spec=dp(e)) for e in epsilons),
        Variant(kind="exact", epsilon=None, spec=dp(None)),
    )


def compare_all(
    spec: ReleaseSpec,
    *,
    epsilons: Sequence[float],
    repeats: int,
    build: Build,
    frame: Any = None,
    notes: tuple[str, ...] = (),
    progress: Progress | None = None,
) -> ModeComparison:
    """Build every variant of a spec several times, and score each release against the original.

    Parameters
    ----------
    epsilons : sequence of float
        As `checked_epsilons` gives them.
    build : callable
        Builds a release of a spec at a path.
    frame : object, optional
        The source, where the spec's is a frame.

    Raises
    ------
    SpecError, DataError, PrivacyError, StoreError
        As the builds; nothing is left of those that succeeded.
    """
    if not 1 <= repeats <= MOST_REPEATS:
        raise SpecError(f"seeds: wants 1 to {MOST_REPEATS}, not {repeats}")
    tell = progress or silent
    ways = variants(spec, epsilons)
    scoring = Scoring(spec, frame)
    runs = []
    # Every way once before any a second time: what cannot be built fails soon.
    todo = [(way, repeat) for repeat in range(1, repeats + 1) for way in ways]
    for done, (way, repeat) in enumerate(todo):
        tell(f"{way.name}: release {repeat} of {repeats}", done, len(todo))
        runs.append(_run(way, repeat, build, scoring))
    tell("done", len(todo), len(todo))
    hows = (HOW, GROUPED) if any(c.breaks for c in spec.columns) else (HOW,)
    left_out = len(spec.tables) - len(ways[0].spec.tables)
    wide = f"Tables of more than {MAX_WIDTH} columns, which sticky mode does not build, are left out: {left_out}."
    return ModeComparison(
        title=spec.title,
        runs=tuple(runs),
        epsilons=tuple(epsilons),
        repeats=repeats,
        n_tables=len(ways[0].spec.tables),
        n_rows=scoring.n_rows,
        notes=(*hows, *((wide,) if left_out else ()), *notes),
        version=ENGINE_VERSION,
    )


def _run(way: Variant, repeat: int, build: Build, scoring: Scoring) -> Run:
    """Build one release in a scratch folder, score it, and let the folder go."""
    with scratch_directory() as folder:
        key = folder / "scratch.key"
        new_key(key)
        release = folder / "scratch.duckdb"
        start = time.perf_counter()
        build(replace(way.spec, key_path=key), release)
        seconds = time.perf_counter() - start
        return Run(
            kind=way.kind,
            epsilon=way.epsilon,
            repeat=repeat,
            figures=scoring.score(release),
            seconds=seconds,
        )


def is_scratch(release: Path) -> bool:
    """Whether a release says of itself that a comparison built it.

    Raises
    ------
    StoreError, DamagedRelease
        As `engine.store.manifest.open_release`.
    """
    con, _ = open_release(release)
    with con:
        notes = con.execute("SELECT note FROM catalog.notes WHERE topic = 'release'").fetchall()
    return any(str(note) == SCRATCH for (note,) in notes)


def refuse_scratch(release: Path) -> None:
    """Refuse to let out a release that a comparison built.

    Raises
    ------
    PrivacyError
        It is one.
    """
    if is_scratch(release):
        raise PrivacyError(
            f"{release}: was built for a comparison, outside the ledger; build the spec itself"
        )
