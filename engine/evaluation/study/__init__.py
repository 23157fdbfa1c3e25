"""Studies: how a data set's releases are evaluated, as data. No code names a column.

Takes a TOML file, a preset's name, a release's spec, or the columns themselves.
Gives a `Study`.
May import what `engine.evaluation` may.
"""

from engine.evaluation.study.default import default_study
from engine.evaluation.study.files import labels_of, read_baselines, with_files
from engine.evaluation.study.model import Row, Study, read_study
from engine.evaluation.study.presets import named_study, of_spec

__all__ = [
    "Row",
    "Study",
    "default_study",
    "labels_of",
    "named_study",
    "of_spec",
    "read_baselines",
    "read_study",
    "with_files",
]
