"""CONFIDENTIAL. What is evaluated, read alike: the original, releases, tables of any tool, side by side as codes.

Takes paths or frames, and how they are read.
Gives frames, subjects, and `Aligned`, which every measure counts with.
May import what `engine.evaluation` may.
"""

from engine.evaluation.data.aligned import (
    Aligned,
    Binning,
    Coded,
    Distinct,
    Reading,
    align,
    distinct,
    generator,
    listed,
    sampled,
    unshown,
)
from engine.evaluation.data.declared import data_of
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

__all__ = [
    "Aligned",
    "Binning",
    "Coded",
    "Distinct",
    "Reading",
    "Released",
    "Subject",
    "align",
    "data_of",
    "distinct",
    "generator",
    "is_release",
    "listed",
    "notes_of",
    "read_like",
    "read_original",
    "read_release",
    "read_subject",
    "released_columns",
    "sampled",
    "unshown",
]
