"""The suite of utility measures, in the order that the report has them, and the sections of a study that they read.

Takes a `Paired` and the sections; gives the scores of all measures that a study declares. A new measure has a field and
an entry here. Invariant: what a measure draws is fixed by the seed and its own name, so that leaving one out changes no
other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from engine.evaluation.data.paired import Paired
from engine.evaluation.data.sampling import generator
from engine.evaluation.score import Score, Section
from engine.evaluation.utility.components import Components, components
from engine.evaluation.utility.correlations import Correlations, correlations
from engine.evaluation.utility.counts import Univariate, univariate
from engine.evaluation.utility.distributions import Distributions, distributions
from engine.evaluation.utility.estimates import Estimate, estimates
from engine.evaluation.utility.gaps import Gap, density_rmse, gaps
from engine.evaluation.utility.learning import Learning, learning
from engine.evaluation.utility.marginals import Marginals, k_marginals
from engine.evaluation.utility.margins import (
    Ranges,
    averaging,
    margin_gaps,
    one_way_from_wider,
    range_errors,
)
from engine.evaluation.utility.models import Models, propensity_models
from engine.evaluation.utility.propensity import Propensity, propensity
from engine.evaluation.utility.regression import Regression, regression
from engine.evaluation.utility.rules import Inconsistencies, inconsistencies
from engine.evaluation.utility.tables import Tables, table_fit
from engine.progress import Progress


class Sections(Section):
    """What a study measures: a section that is absent, or empty, is not measured."""

    univariate: Univariate | None = None
    correlations: Correlations | None = None
    marginals: Marginals | None = None
    propensity: Propensity | None = None
    regression: Regression | None = None
    inconsistencies: Inconsistencies | None = None
    ranges: Ranges | None = None
    components: Components | None = None
    tables: Tables | None = None
    models: Models | None = None
    distributions: Distributions | None = None
    estimates: tuple[Estimate, ...] = ()
    learning: tuple[Learning, ...] = ()
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Measure:
    """One measure."""

    # Takes a `Paired`, the section if it reads one, and a generator if it draws.
    measure: Callable[..., Score]
    section: str = ""  # Section of a study that it reads; empty: none, it is measured in any case
    draws: bool = False
    # It is about what several tables tell together; one table alone has none.
    of_several: bool = False
    # A sample of the original in the place of the release says something about it.
    on_sample: bool = True

    def score(self, paired: Paired, sections: Sections, rng: np.random.Generator) -> Score | None:
        """Return the score; None where the study does not declare it, or there is one table only."""
        section = getattr(sections, self.section) if self.section else None
        is_declared = not self.section or (section is not None and section != ())
        if not is_declared or (self.of_several and len(paired.tables) < 2):
            return None
        return self.measure(paired, *[section][: bool(self.section)], *[rng][: self.draws])


MEASURES = {
    "univariate": Measure(measure=univariate, section="univariate"),
    "correlations": Measure(measure=correlations, section="correlations"),
    "marginals": Measure(measure=k_marginals, section="marginals", draws=True),
    "propensity": Measure(measure=propensity, section="propensity"),
    "regression": Measure(measure=regression, section="regression"),
    "components": Measure(measure=components, section="components"),
    "inconsistencies": Measure(measure=inconsistencies, section="inconsistencies", on_sample=False),
    "tables": Measure(measure=table_fit, section="tables", draws=True),
    "models": Measure(measure=propensity_models, section="models", draws=True),
    "distributions": Measure(measure=distributions, section="distributions"),
    "estimates": Measure(measure=estimates, section="estimates"),
    "learning": Measure(measure=learning, section="learning", draws=True),
    "gaps": Measure(measure=gaps, section="gaps"),
    "density_rmse": Measure(measure=density_rmse, section="tables", draws=True),
    "margins": Measure(measure=margin_gaps, of_several=True, on_sample=False),
    "one_way_from_wider": Measure(
        measure=one_way_from_wider, section="univariate", of_several=True, on_sample=False
    ),
    "averaging": Measure(measure=averaging, of_several=True, on_sample=False),
    "ranges": Measure(measure=range_errors, section="ranges", draws=True, on_sample=False),
}


def score_all(
    paired: Paired,
    sections: Sections,
    *,
    seed: int,
    progress: Progress | None = None,
) -> dict[str, Score]:
    """Measure all that a study declares."""
    scores = {}
    for done, (name, measure) in enumerate(MEASURES.items()):
        if progress is not None:
            progress(name, done, len(MEASURES))
        score = measure.score(paired, sections, generator(seed, name))
        if score is not None:
            scores[name] = score
    return scores
