"""CONFIDENTIAL. Measures of utility: how near released tables are to the data.

A measure is a function of aligned data, its section of the study, and a generator where it draws; it gives a `Finding`.
`figures.toml` names it, and says what its figures mean. A measure of another package gives a tidy frame instead.
"""

from engine.evaluation.measures.analyses import (
    Components,
    Estimate,
    Regression,
    RegressionGroup,
    combined_estimates,
)
from engine.evaluation.measures.association import Correlations
from engine.evaluation.measures.combinations import Gap, Marginals, Tables
from engine.evaluation.measures.counts import Distributions, Ranges, Univariate
from engine.evaluation.measures.learning import Learning
from engine.evaluation.measures.propensity import Models, Propensity
from engine.evaluation.measures.rules import Inconsistencies, Rule
from engine.evaluation.measures.suite import MEASURES, Sections, score_all, score_one

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
    "score_one",
]
