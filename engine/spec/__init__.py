"""The spec: what to release, from where, about whom, with what privacy.

Takes a TOML file, or its values from Python; workload files next to it; the state of the key file. Never
    the data.
Gives a frozen `ReleaseSpec`, or one `SpecError` that lists every mistake with its place.
May import the engine's root.
"""

from __future__ import annotations

from engine.spec.amending import amended, with_entries, without_entries
from engine.spec.columns import ancestor, in_universe_order, with_deciders, with_determined
from engine.spec.dp import DPContext, dp_from, missing_domain
from engine.spec.model import STATISTICAL, SUFFIXES, ReleaseSection, did_you_mean
from engine.spec.reading import ReleaseSpec, example_spec, of_rows, read_spec, spec_of
from engine.spec.source import format_of, knows_null, named_format, writing_problems
from engine.spec.tables import SECONDS_A_TABLE, WideOptions, warning_of_many
from engine.spec.workload import Workload

__all__ = [
    "SECONDS_A_TABLE",
    "STATISTICAL",
    "SUFFIXES",
    "DPContext",
    "ReleaseSection",
    "ReleaseSpec",
    "WideOptions",
    "Workload",
    "amended",
    "ancestor",
    "did_you_mean",
    "dp_from",
    "example_spec",
    "format_of",
    "in_universe_order",
    "knows_null",
    "missing_domain",
    "named_format",
    "of_rows",
    "read_spec",
    "spec_of",
    "warning_of_many",
    "with_deciders",
    "with_determined",
    "with_entries",
    "without_entries",
    "writing_problems",
]
