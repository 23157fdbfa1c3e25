"""CONFIDENTIAL. Utility: how near released tables are to the data, one module a measure.

Takes a `Paired`, a section of a study, a generator where something is drawn.
Gives one `Score` a measure.
May import what `engine.evaluation` may, and its `data`, `study`.
"""

from engine.evaluation.utility.components import Components
from engine.evaluation.utility.correlations import Correlations
from engine.evaluation.utility.counts import Univariate
from engine.evaluation.utility.distributions import Distributions
from engine.evaluation.utility.estimates import Estimate, combined_estimates
from engine.evaluation.utility.gaps import Gap
from engine.evaluation.utility.learning import Learning
from engine.evaluation.utility.marginals import Marginals
from engine.evaluation.utility.margins import Ranges
from engine.evaluation.utility.models import Models
from engine.evaluation.utility.propensity import Propensity
from engine.evaluation.utility.regression import Regression, RegressionGroup
from engine.evaluation.utility.rules import Inconsistencies, Rule
from engine.evaluation.utility.suite import MEASURES, Measure, Sections, score_all
from engine.evaluation.utility.tables import Tables

__all__ = [
    "MEASURES",
    "Components",
    "Correlations",
    "Distributions",
    "Estimate",
    "Gap",
    "Inconsistencies",
    "Learning",
    "Marginals",
    "Measure",
    "Models",
    "Propensity",
    "Ranges",
    "Regression",
    "RegressionGroup",
    "Rule",
    "Sections",
    "Tables",
    "Univariate",
    "combined_estimates",
    "score_all",
]
