"""CONFIDENTIAL. What is evaluated, read alike: the original, releases, tables of any tool, side by side as codes.

Takes paths or frames, and how they are read.
Gives frames, subjects, and `Paired`, which every measure counts with.
May import what `engine.evaluation` may.
"""

from engine.evaluation.data.declared import data_of
from engine.evaluation.data.paired import Binning, Coded, Distinct, Paired, Reading, distinct, pair
from engine.evaluation.data.reading import (
    Released,
    Subject,
    is_release,
    notes_of,
    read_like,
    read_original,
    read_release,
    read_subject,
    released_columns,
)
from engine.evaluation.data.sampling import generator, sampled

__all__ = [
    "Binning",
    "Coded",
    "Distinct",
    "Paired",
    "Reading",
    "Released",
    "Subject",
    "data_of",
    "distinct",
    "generator",
    "is_release",
    "notes_of",
    "pair",
    "read_like",
    "read_original",
    "read_release",
    "read_subject",
    "released_columns",
    "sampled",
]
