"""Reports: results of an evaluation or comparison, as HTML and JSON. CONFIDENTIAL unless made publishable.

Takes an `Evaluation` or a `Comparison`; gives files of mode 0600 that fetch nothing, and tables for a terminal.
May import what `engine.evaluation` may; jinja2.
"""
