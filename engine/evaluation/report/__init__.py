"""Reports: results of an evaluation or comparison, as HTML and JSON. CONFIDENTIAL unless made publishable.

Takes an `Evaluation`, a `ModeComparison`, a `LeverMap` or a `Contest`.
Gives files of mode 0600 that fetch nothing; tables for a terminal.
May import what `engine.evaluation` may; jinja2, and matplotlib through `pictures`.
"""

from engine.evaluation.report.contest import contest_json, contest_table, write_contest
from engine.evaluation.report.files import (
    as_json,
    check_target,
    is_confidential,
    refuse_confidential,
    write_report,
)
from engine.evaluation.report.levers import map_json, map_table, write_map
from engine.evaluation.report.modes import comparison_json, table_of, write_comparison
from engine.evaluation.report.summary import KEY, blocks, reasons, sentence
from engine.evaluation.report.verdicts import Line, lines

__all__ = [
    "KEY",
    "Line",
    "as_json",
    "blocks",
    "check_target",
    "comparison_json",
    "contest_json",
    "contest_table",
    "is_confidential",
    "lines",
    "map_json",
    "map_table",
    "reasons",
    "refuse_confidential",
    "sentence",
    "table_of",
    "write_comparison",
    "write_contest",
    "write_map",
    "write_report",
]
