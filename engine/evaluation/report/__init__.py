"""Reports: results of an evaluation or comparison, as HTML and JSON. CONFIDENTIAL unless made publishable.

Takes an `Evaluation` or a `Comparison`; gives files of mode 0600 that fetch nothing, and tables for a terminal.
May import what `engine.evaluation` may; jinja2.
"""

from engine.evaluation.report.comparison import (
    comparison_json,
    comparison_table,
    write_comparison,
)
from engine.evaluation.report.files import (
    as_json,
    check_frame,
    check_target,
    is_confidential,
    refuse_confidential,
    write_frame,
)
from engine.evaluation.report.page import write_report
from engine.evaluation.report.summary import KEY, blocks, reasons, sentence
from engine.evaluation.report.verdicts import Line, lines

__all__ = [
    "KEY",
    "Line",
    "as_json",
    "blocks",
    "check_frame",
    "check_target",
    "comparison_json",
    "comparison_table",
    "is_confidential",
    "lines",
    "reasons",
    "refuse_confidential",
    "sentence",
    "write_comparison",
    "write_frame",
    "write_report",
]
