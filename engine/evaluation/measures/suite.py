"""All measures, in the order of reports, and the sections of a study that they read.

What a measure draws is fixed by the seed and its own name, so that leaving one out changes no other.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

import pandas as pd
from pydantic import Field

from engine.evaluation.data.aligned import Aligned, generator
from engine.evaluation.findings import ENTRIES, Finding, Section, of_frame
from engine.evaluation.measures.analyses import Components, Estimate, Regression
from engine.evaluation.measures.association import Correlations
from engine.evaluation.measures.combinations import Gap, Marginals, Tables
from engine.evaluation.measures.counts import Distributions, Ranges, Univariate
from engine.evaluation.measures.learning import Learning
from engine.evaluation.measures.propensity import Models, Propensity
from engine.evaluation.measures.rules import Inconsistencies

MEASURES = {name: entry for name, entry in ENTRIES.items() if entry.kind == "measure"}


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
    # Options of measures that have no section of their own, as of other packages: `[measures.NAME]`.
    measures: dict[str, dict[str, Any]] = Field(default_factory=dict)


def score_one(name: str, aligned: Aligned, sections: Sections, seed: int) -> Finding | None:
    """One measure; None where the study does not declare it, or there is one table only."""
    entry = MEASURES[name]
    options = getattr(sections, entry.options) if entry.options else sections.measures.get(name, {})
    is_declared = not entry.options or (options is not None and options != ())
    if not is_declared or (entry.of_several and len(aligned.tables) < 2):
        return None
    function = entry.function()
    parameters = list(signature(function).parameters)
    given: list[Any] = [aligned]
    if entry.options or "options" in parameters:
        given.append(options)
    if "rng" in parameters:
        given.append(generator(seed, name))
    found = function(*given)
    return of_frame(name, found) if isinstance(found, pd.DataFrame) else found


def score_all(aligned: Aligned, sections: Sections, *, seed: int) -> dict[str, Finding]:
    """Measure all that a study declares."""
    every = {name: score_one(name, aligned, sections, seed) for name in MEASURES}
    return {name: one for name, one in every.items() if one is not None}
