"""Every utility measure of a study, in the order that the report has them.

Takes a `Comparison` and a study; gives the scores of all measures that the study declares. Invariant: what a measure
draws is fixed by the seed and its own name, so that leaving one out changes no other.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from engine.score import Score
from engine.study import Study
from engine.utility.comparison import Comparison
from engine.utility.components import components
from engine.utility.correlations import correlations
from engine.utility.counts import univariate
from engine.utility.distributions import distributions
from engine.utility.estimates import estimates
from engine.utility.gaps import density_rmse, gaps
from engine.utility.learning import learning
from engine.utility.marginals import k_marginals
from engine.utility.margins import averaging, margin_gaps, one_way_from_wider, range_errors
from engine.utility.models import propensity_models
from engine.utility.propensity import propensity
from engine.utility.regression import regression
from engine.utility.rules import inconsistencies
from engine.utility.tables import table_fit

Generator = np.random.Generator
Report = Callable[[str, int, int], None]
"""Called with a measure, how many measures are done, and how many there are."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measure:
    """One measure.

    Attributes
    ----------
    name : str
        As in its scores.
    run : callable
        Takes comparison, study and generator; gives the score, or None where the study does not declare it.
    on_sample : bool
        A sample of the original in the place of the release says something about it.
    """

    name: str
    run: Callable[[Comparison, Study, Generator], Score | None]
    on_sample: bool = True


def of_section(
    section: str, measure: Callable[..., Score], *, draws: bool = False, of_several: bool = False
) -> Callable[[Comparison, Study, Generator], Score | None]:
    """Return a measure that reads one section of a study, and is not run where that is absent or empty.

    Parameters
    ----------
    section : str
    measure : callable
        Takes comparison and section, and a generator if it draws.
    draws : bool
    of_several : bool
        It is about what several tables tell together; one table alone has none.
    """

    def run(comparison: Comparison, study: Study, rng: Generator) -> Score | None:
        told = getattr(study, section)
        if told is None or told == () or (of_several and len(comparison.tables) < 2):
            return None
        return measure(comparison, told, rng) if draws else measure(comparison, told)

    return run


def of_all_tables(
    measure: Callable[[Comparison], Score],
) -> Callable[[Comparison, Study, Generator], Score | None]:
    """Return a measure that reads no section, of what several tables tell together."""

    def run(comparison: Comparison, study: Study, rng: Generator) -> Score | None:
        del study, rng
        return measure(comparison) if len(comparison.tables) > 1 else None

    return run


MEASURES = (
    Measure(name="univariate", run=of_section("univariate", univariate)),
    Measure(name="correlations", run=of_section("correlations", correlations)),
    Measure(name="marginals", run=of_section("marginals", k_marginals, draws=True)),
    Measure(name="propensity", run=of_section("propensity", propensity)),
    Measure(name="regression", run=of_section("regression", regression)),
    Measure(name="components", run=of_section("components", components)),
    Measure(
        name="inconsistencies", run=of_section("inconsistencies", inconsistencies), on_sample=False
    ),
    Measure(name="tables", run=of_section("tables", table_fit, draws=True)),
    Measure(name="models", run=of_section("models", propensity_models, draws=True)),
    Measure(name="distributions", run=of_section("distributions", distributions)),
    Measure(
        name="estimates",
        run=of_section("estimates", lambda comparison, told: estimates([comparison], told)),
    ),
    Measure(name="learning", run=of_section("learning", learning, draws=True)),
    Measure(name="gaps", run=of_section("gaps", gaps)),
    Measure(name="density_rmse", run=of_section("tables", density_rmse, draws=True)),
    Measure(name="margins", run=of_all_tables(margin_gaps), on_sample=False),
    Measure(
        name="one_way_from_wider",
        run=of_section("univariate", one_way_from_wider, of_several=True),
        on_sample=False,
    ),
    Measure(name="averaging", run=of_all_tables(averaging), on_sample=False),
    Measure(name="ranges", run=of_section("ranges", range_errors, draws=True), on_sample=False),
)


def generator(seed: int, name: str) -> Generator:
    """Return the generator of one measure or attack: its draws depend on the seed and its name alone."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def score_all(
    comparison: Comparison,
    study: Study,
    *,
    seed: int,
    report: Report | None = None,
    on_sample: bool = False,
) -> dict[str, Score]:
    """Measure all that a study declares.

    Parameters
    ----------
    comparison : Comparison
    study : Study
    seed : int
    report : callable, optional
    on_sample : bool
        Only the measures that a sample of the original is the scale of.

    Returns
    -------
    dict of str to Score
        By name of the measure.

    Raises
    ------
    StoreError, SpecError
        A package is missing; a rule is wrong SQL.
    """
    chosen = [m for m in MEASURES if m.on_sample or not on_sample]
    found = {}
    for done, measure in enumerate(chosen):
        if report is not None:
            report(measure.name, done, len(chosen))
        score = measure.run(comparison, study, generator(seed, measure.name))
        if score is not None:
            found[measure.name] = score
    return found
